//! Knowledge about values: numbers, ends, and hashes that stand for what data give.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::te::dtype::DType;
use crate::te::expr::expression::Binary;

/// Why a stage is refused.
pub(super) type Reason = &'static str;

pub(super) const NO_VALUE: Reason = "it has a part that has no value here";

/// Knowledge about a value.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number, of an index, a size or a condition on those.
    pub(super) int: Option<i64>,
    /// The least and the greatest value of an integer that data give, if they are closer than those of its type.
    pub(super) ends: Option<Ends>,
    /// The value, or what stands for it.
    pub(super) bits: u64,
    /// The reduction that it is a value of, and which one.
    pub(super) reduced: Option<(Rc<Reduced>, usize)>,
}

/// The least and the greatest value of an integer.
pub(super) type Ends = (i64, i64);

impl Known {
    pub(super) fn int(value: i64) -> Self {
        Self { int: Some(value), ..Self::of(value.cast_unsigned()) }
    }

    pub(super) fn of(bits: u64) -> Self {
        Self { int: None, ends: None, bits, reduced: None }
    }

    /// The ends of an integer of this type.
    pub(super) fn ends(&self, dtype: DType) -> Option<Ends> {
        self.int.map(|value| (value, value)).or(self.ends).or(dtype.range())
    }
}

/// The ends of a result, unless it may leave the range of its type and wrap.
pub(super) fn within(dtype: DType, (least, greatest): Ends) -> Option<Ends> {
    (dtype.holds(least) && dtype.holds(greatest)).then_some((least, greatest))
}

/// The ends of an operation on integers of a type.
fn ends_of(op: Binary, dtype: DType, a: Ends, b: Ends) -> Option<Ends> {
    // One that is monotone in each operand has its ends at theirs.
    let at_ends = |of: fn(i64, i64) -> Option<i64>| {
        let all = [of(a.0, b.0)?, of(a.0, b.1)?, of(a.1, b.0)?, of(a.1, b.1)?];
        Some((*all.iter().min()?, *all.iter().max()?))
    };
    let ends = match op {
        Binary::Add => at_ends(i64::checked_add),
        Binary::Sub => at_ends(i64::checked_sub),
        Binary::Mul => at_ends(i64::checked_mul),
        Binary::Min => at_ends(|a, b| Some(a.min(b))),
        Binary::Max => at_ends(|a, b| Some(a.max(b))),
        // By a positive number, this rounds down.
        Binary::FloorDiv if b.0 > 0 => at_ends(i64::checked_div_euclid),
        Binary::FloorMod if b.0 > 0 && a.0 >= 0 => Some((0, a.1.min(b.1 - 1))),
        Binary::FloorMod if b.0 > 0 => Some((0, b.1 - 1)),
        _ => None,
    };
    ends.and_then(|ends| within(dtype, ends))
}

/// The elements that a reduction has combined.
#[derive(Debug, PartialEq)]
pub(super) struct Reduced {
    pub(super) combiner: u64,
    /// The initial value, unless it is the identity.
    pub(super) init: Option<u64>,
    pub(super) all: Combined,
}

/// A set of values as the sum of their hashes, or a sequence as a polynomial of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Combined {
    pub(super) commutative: bool,
    pub(super) sum: u64,
    pub(super) power: u64,
}

/// The base of the polynomial of a sequence: any odd number.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Combined {
    pub(super) const fn nothing(commutative: bool) -> Self {
        Self { commutative, sum: 0, power: 1 }
    }

    pub(super) fn then(self, other: Self) -> Self {
        if self.commutative {
            return Self { sum: self.sum.wrapping_add(other.sum), ..self };
        }
        let sum = self.sum.wrapping_mul(other.power).wrapping_add(other.sum);
        Self { sum, power: self.power.wrapping_mul(other.power), ..self }
    }

    pub(super) fn one(self, bits: u64) -> Self {
        let sum = hashed(&("item", bits));
        self.then(Self { sum, power: BASE, ..self })
    }
}

pub(super) fn hashed(x: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    x.hash(&mut hasher);
    hasher.finish()
}

/// A number of some type.
pub(super) fn of_int(value: i64, dtype: DType) -> Known {
    if dtype.is_float() { of_float(value as f64) } else { Known::int(value) }
}

pub(super) fn of_float(value: f64) -> Known {
    Known::of(hashed(&("number", value.to_bits())))
}

/// Two conditions together, in any order.
pub(super) fn joined(op: Binary, a: &Known, b: &Known) -> Known {
    if a.bits == b.bits {
        return a.clone();
    }
    let both = (a.bits | 1).wrapping_mul(b.bits | 1);
    Known::of(if op == Binary::And { both } else { hashed(&("or", both)) })
}

pub(super) fn binary(op: Binary, dtype: DType, a: &Known, b: &Known) -> Result<Known, Reason> {
    if let (Some(a), Some(b)) = (a.int, b.int) {
        return numbers(op, a, b, dtype);
    }
    let (x, y) = (a.bits, b.bits);
    let symmetric = |name: &str| hashed(&(name, x.min(y), x.max(y)));
    if !dtype.is_integer() {
        return Ok(Known::of(hashed(&(op, x, y))));
    }
    // Comparisons of integers depend on their difference.
    let less = |a: u64, b: u64| hashed(&("less", b.wrapping_sub(a)));
    let ends = a.ends(dtype).zip(b.ends(dtype)).and_then(|(a, b)| ends_of(op, dtype, a, b));
    let bits = match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Min => symmetric("min"),
        Binary::Max => symmetric("max"),
        Binary::Lt => less(x, y),
        Binary::Gt => less(y, x),
        Binary::Le => less(x, y.wrapping_add(1)),
        Binary::Ge => less(y, x.wrapping_add(1)),
        Binary::Eq => hashed(&("equal", x.wrapping_sub(y).min(y.wrapping_sub(x)))),
        Binary::Ne => hashed(&("differ", x.wrapping_sub(y).min(y.wrapping_sub(x)))),
        Binary::BitAnd => symmetric("bit_and"),
        Binary::BitOr => symmetric("bit_or"),
        Binary::BitXor => symmetric("bit_xor"),
        Binary::Div | Binary::FloorDiv | Binary::FloorMod | Binary::And | Binary::Or | Binary::Shl | Binary::Shr => {
            hashed(&(op, x, y))
        }
    };
    Ok(Known { ends, ..Known::of(bits) })
}

fn numbers(op: Binary, a: i64, b: i64, dtype: DType) -> Result<Known, Reason> {
    let truth = |x: bool| i64::from(x);
    let quotient = |a: i64, b: i64| a.wrapping_div_euclid(b) - i64::from(b < 0 && a.wrapping_rem_euclid(b) != 0);
    Ok(Known::int(match op {
        Binary::FloorDiv | Binary::FloorMod | Binary::Div if b == 0 => return Err(NO_VALUE),
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::FloorDiv => quotient(a, b),
        Binary::FloorMod => a.wrapping_sub(b.wrapping_mul(quotient(a, b))),
        Binary::Div => a.wrapping_div(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Lt => truth(a < b),
        Binary::Le => truth(a <= b),
        Binary::Gt => truth(a > b),
        Binary::Ge => truth(a >= b),
        Binary::Eq => truth(a == b),
        Binary::Ne => truth(a != b),
        Binary::And => truth(a != 0 && b != 0),
        Binary::Or => truth(a != 0 || b != 0),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
            op.of_bits(a, b, dtype).ok_or(NO_VALUE)?
        }
    }))
}
