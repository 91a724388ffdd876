//! The words that kernels get for an axis with two digits: strides, the lower extent and its reciprocal.

/// `DigitAxis` of digits.cuh: the strides of the lower and the upper digit, how many values the lower one has, and the
/// reciprocal of that.
pub(crate) fn axis_words(extent: usize, [lower, upper]: [isize; 2]) -> [u64; 5] {
    let (magic, shift) = reciprocal(extent as u64);
    [lower as u64, upper as u64, extent as u64, magic, shift]
}

/// A multiplication in place of a division: `i * magic >> shift` is `i / divisor`, for every `i` and `divisor` below
/// 2^31.
///
/// Let `2^s` be the least power of two that is at least the divisor. `magic` is `2^(31 + s) / divisor` rounded up, by
/// less than 1. The product is therefore too large by less than `i < 2^31 <= 2^(31 + s) / divisor`. This is less than
/// the distance to the next multiple. (Granlund and Montgomery, "Division by invariant integers using multiplication",
/// 1994.)
pub(crate) fn reciprocal(divisor: u64) -> (u64, u64) {
    let divisor = divisor.max(1);
    let shift = 31 + u64::from(divisor.next_power_of_two().trailing_zeros());
    ((1u128 << shift).div_ceil(u128::from(divisor)) as u64, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every divisor up to 2^31 near a power of two, and others, with the indices where a quotient changes.
    #[test]
    fn reciprocals_divide_every_index() {
        let powers = (0..=31).flat_map(|s| [-1i64, 0, 1].map(|near| (1i64 << s) + near));
        let others = (1..400).chain((0..500).map(|i| 1 + i * 4_294_967));
        for divisor in powers.chain(others).filter(|d| (1..1 << 31).contains(d)).map(i64::cast_unsigned) {
            let (magic, shift) = reciprocal(divisor);
            assert!(magic < 1 << 32, "{divisor}: it is multiplied as 32 bits");
            let last = (1u64 << 31) - 1;
            let quotients = [1, 2, 3, last / divisor / 2, last / divisor].map(|q| q.max(1));
            let edges = quotients.into_iter().flat_map(|q| [q * divisor - 1, q * divisor, q * divisor + 1]);
            for i in edges.chain([0, last]).filter(|i| *i <= last) {
                assert_eq!((i * magic) >> shift, i / divisor, "{i} / {divisor}");
            }
        }
        assert_eq!(reciprocal(0), reciprocal(1));
    }
}
