//! SIMD video instructions (PTX ISA 9.7.18), on two 16-bit or four 8-bit elements in a register.

/// The operation on two elements, each extended according to its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Video {
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The rounded average.
    Average,
    /// The absolute difference.
    AbsoluteDifference,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// 1 if the comparison holds, otherwise 0.
    Set(super::compare::Comparison),
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VideoForm {
    /// The operation.
    pub operation: Video,
    /// Number of elements in a register: 2 or 4.
    pub count: u32,
    /// Whether the elements of A, of B and of the result are signed.
    pub signed: [bool; 3],
    /// `.sat`: results are clamped to the result's type.
    pub saturate: bool,
    /// `.add`: the results are added to C, instead of being placed beside its elements.
    pub accumulate: bool,
    /// Which results are used; the other elements of the destination are those of C.
    pub mask: u8,
    /// For each element, the numbers of its first and second operand among the elements of A (from 0) and B (after
    /// those).
    pub selectors: [[u8; 4]; 2],
}

impl VideoForm {
    /// The result.
    pub fn apply(&self, a: u32, b: u32, c: u32) -> u32 {
        let bits = 32 / self.count;
        let both = u64::from(a) | u64::from(b) << 32;
        let element = |selector: u8, signed: bool| -> i64 {
            let raw = both >> (u32::from(selector) * bits) << (64 - bits);
            if signed { raw.cast_signed() >> (64 - bits) } else { (raw >> (64 - bits)).cast_signed() }
        };
        let low = u32::MAX >> (32 - bits);
        let mut result = if self.accumulate { c } else { 0 };
        for i in 0..self.count {
            let chosen = self.mask >> i & 1 != 0;
            let x = element(self.selectors[0][i as usize], self.signed[0]);
            let y = element(self.selectors[1][i as usize], self.signed[1]);
            let value = self.saturated(self.compute(x, y), bits);
            if self.accumulate {
                result = result.wrapping_add(if chosen { value as u32 } else { 0 });
            } else {
                let kept = c >> (i * bits) & low;
                result |= if chosen { value as u32 & low } else { kept } << (i * bits);
            }
        }
        result
    }

    fn compute(&self, x: i64, y: i64) -> i64 {
        match self.operation {
            Video::Add => x + y,
            Video::Subtract => x - y,
            Video::Average if x + y >= 0 => (x + y + 1) >> 1,
            Video::Average => (x + y) >> 1,
            Video::AbsoluteDifference => (x - y).abs(),
            Video::Min => x.min(y),
            Video::Max => x.max(y),
            Video::Set(comparison) => comparison.holds(x, y).into(),
        }
    }

    fn saturated(&self, value: i64, bits: u32) -> i64 {
        match (self.saturate, self.signed[2]) {
            (false, _) => value,
            (true, true) => value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (true, false) => value.clamp(0, (1 << bits) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(operation: Video, count: u32, signed: bool) -> VideoForm {
        VideoForm {
            operation,
            count,
            signed: [signed; 3],
            saturate: false,
            accumulate: false,
            mask: 15,
            selectors: if count == 2 { [[0, 1, 0, 0], [2, 3, 0, 0]] } else { [[0, 1, 2, 3], [4, 5, 6, 7]] },
        }
    }

    proptest! {
        #[test]
        fn bytes_are_as_numbers_say(a: [u8; 4], b: [u8; 4], c: u32) {
            let (x, y) = (u32::from_le_bytes(a), u32::from_le_bytes(b));
            let difference: [u8; 4] = std::array::from_fn(|i| a[i].abs_diff(b[i]));
            let plain = form(Video::AbsoluteDifference, 4, false);
            prop_assert_eq!(plain.apply(x, y, c), u32::from_le_bytes(difference));
            let sum = difference.iter().fold(c, |s, d| s.wrapping_add((*d).into()));
            prop_assert_eq!(VideoForm { accumulate: true, ..plain }.apply(x, y, c), sum);
            let saturated: [u8; 4] = std::array::from_fn(|i| (a[i] as i8).saturating_add(b[i] as i8) as u8);
            let add = VideoForm { saturate: true, ..form(Video::Add, 4, true) };
            prop_assert_eq!(add.apply(x, y, c), u32::from_le_bytes(saturated));
            let average: [u8; 4] = std::array::from_fn(|i| (u16::from(a[i]) + u16::from(b[i])).div_ceil(2) as u8);
            prop_assert_eq!(form(Video::Average, 4, false).apply(x, y, c), u32::from_le_bytes(average));
        }

        #[test]
        fn halves_are_as_numbers_say(a: [i16; 2], b: [i16; 2], c: u32) {
            let pack = |v: [i16; 2]| u32::from(v[0].cast_unsigned()) | u32::from(v[1].cast_unsigned()) << 16;
            let (x, y) = (pack(a), pack(b));
            let greater = std::array::from_fn(|i| a[i].max(b[i]));
            prop_assert_eq!(form(Video::Max, 2, true).apply(x, y, c), pack(greater));
            // Only the upper half is used, and it is compared with A's lower half.
            let less = Video::Set(super::super::compare::Comparison::Lt);
            let masked = VideoForm { mask: 2, selectors: [[0, 3, 0, 0], [2, 0, 0, 0]], ..form(less, 2, true) };
            let expected = c & 0xffff | u32::from(b[1] < a[0]) << 16;
            prop_assert_eq!(masked.apply(x, y, c), expected);
        }
    }
}
