//! The comparison operators of `setp` and `set` (PTX ISA 9.7.6).

use super::float::flush_f32;

/// A comparison operator. For unsigned integers `lo ls hi hs` are `Lt Le Gt Ge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal; false for NaN.
    Eq,
    /// Not equal; false for NaN.
    Ne,
    /// Less; false for NaN.
    Lt,
    /// Less or equal; false for NaN.
    Le,
    /// Greater; false for NaN.
    Gt,
    /// Greater or equal; false for NaN.
    Ge,
    /// Equal, or either is NaN.
    Equ,
    /// Not equal, or either is NaN.
    Neu,
    /// Less, or either is NaN.
    Ltu,
    /// Less or equal, or either is NaN.
    Leu,
    /// Greater, or either is NaN.
    Gtu,
    /// Greater or equal, or either is NaN.
    Geu,
    /// Neither is NaN.
    Num,
    /// Either is NaN.
    Nan,
}

impl Comparison {
    /// Every operator.
    pub const ALL: [Comparison; 14] = [
        Comparison::Eq,
        Comparison::Ne,
        Comparison::Lt,
        Comparison::Le,
        Comparison::Gt,
        Comparison::Ge,
        Comparison::Equ,
        Comparison::Neu,
        Comparison::Ltu,
        Comparison::Leu,
        Comparison::Gtu,
        Comparison::Geu,
        Comparison::Num,
        Comparison::Nan,
    ];

    /// The operator for any ordered type in which only a NaN is unequal to itself.
    #[inline(always)]
    pub fn holds<T: PartialOrd + Copy>(self, a: T, b: T) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b && a.partial_cmp(&b).is_some(),
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
            Comparison::Equ => a == b || a.partial_cmp(&b).is_none(),
            Comparison::Neu => a != b,
            Comparison::Ltu => {
                !matches!(a.partial_cmp(&b), Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal))
            }
            Comparison::Leu => a.partial_cmp(&b) != Some(std::cmp::Ordering::Greater),
            Comparison::Gtu => !matches!(a.partial_cmp(&b), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)),
            Comparison::Geu => a.partial_cmp(&b) != Some(std::cmp::Ordering::Less),
            Comparison::Num => a.partial_cmp(&b).is_some(),
            Comparison::Nan => a.partial_cmp(&b).is_none(),
        }
    }

    /// `setp.op.ftz.f32`.
    #[inline(always)]
    pub fn holds_flushed(self, a: f32, b: f32) -> bool {
        self.holds(flush_f32(a), flush_f32(b))
    }

    /// The operator on 32 lanes, as a mask with lane 0 in bit 0.
    #[inline(always)]
    pub fn mask<T: PartialOrd + Copy>(self, a: &[T; 32], b: &[T; 32]) -> u32 {
        // The match is outside the loop so that each loop is one compare and one move-mask.
        macro_rules! lanes {
            ($holds:expr) => {{
                let mut mask = 0u32;
                for lane in 0..32 {
                    mask |= u32::from($holds(a[lane], b[lane])) << lane;
                }
                mask
            }};
        }
        match self {
            Comparison::Eq => lanes!(|x, y| x == y),
            Comparison::Ne => lanes!(|x: T, y: T| x != y && x.partial_cmp(&y).is_some()),
            Comparison::Lt => lanes!(|x, y| x < y),
            Comparison::Le => lanes!(|x, y| x <= y),
            Comparison::Gt => lanes!(|x, y| x > y),
            Comparison::Ge => lanes!(|x, y| x >= y),
            Comparison::Neu => lanes!(|x, y| x != y),
            other => lanes!(|x, y| other.holds(x, y)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_table() {
        use Comparison::*;
        // Results for (1, 2), (2, 1), (1, 1), (1, NaN).
        let table = [
            (Eq, [false, false, true, false]),
            (Ne, [true, true, false, false]),
            (Lt, [true, false, false, false]),
            (Le, [true, false, true, false]),
            (Gt, [false, true, false, false]),
            (Ge, [false, true, true, false]),
            (Equ, [false, false, true, true]),
            (Neu, [true, true, false, true]),
            (Ltu, [true, false, false, true]),
            (Leu, [true, false, true, true]),
            (Gtu, [false, true, false, true]),
            (Geu, [false, true, true, true]),
            (Num, [true, true, true, false]),
            (Nan, [false, false, false, true]),
        ];
        for (operator, expected) in table {
            let pairs = [(1f32, 2f32), (2.0, 1.0), (1.0, 1.0), (1.0, f32::NAN)];
            assert_eq!(pairs.map(|(a, b)| operator.holds(a, b)), expected, "{operator:?}");
            let (mut a, mut b) = ([1f32; 32], [f32::NAN; 32]);
            for (lane, (x, y)) in pairs.into_iter().enumerate() {
                (a[lane], b[lane]) = (x, y);
            }
            let mask = operator.mask(&a, &b);
            let found: Vec<bool> = (0..4).map(|lane| mask >> lane & 1 != 0).collect();
            assert_eq!(found, expected, "{operator:?}");
        }
    }

    #[test]
    fn subnormals_compare_equal_when_flushed() {
        let tiny = f32::from_bits(1);
        assert!(Comparison::Eq.holds_flushed(tiny, -tiny));
        assert!(Comparison::Gt.holds(tiny, -tiny));
    }
}
