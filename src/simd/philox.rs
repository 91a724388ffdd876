//! Philox4x32-10, sixteen blocks of four words at a time (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
//! SC 2011). The counters are those of `device/random.cuh`; the reference has code of its own.

use super::{Float, Vectorised, dispatch};

/// Blocks that are computed side by side.
const LANES: usize = 16;

/// Words of those.
const GROUP: usize = 4 * LANES;

/// The words of the blocks whose counters begin with `first`, `first + 1`, and so on, one block after another.
#[inline(always)]
fn group(key: [u32; 2], first: u32, rest: [u32; 3]) -> [u32; GROUP] {
    let mut a: [u32; LANES] = std::array::from_fn(|i| first.wrapping_add(i as u32));
    let [mut b, mut c, mut d] = rest.map(|word| [word; LANES]);
    let [mut key_a, mut key_c] = key;
    for _ in 0..10 {
        for i in 0..LANES {
            let (of_a, of_c) = (0xD251_1F53 * u64::from(a[i]), 0xCD9E_8D57 * u64::from(c[i]));
            a[i] = (of_c >> 32) as u32 ^ b[i] ^ key_a;
            b[i] = of_c as u32;
            c[i] = (of_a >> 32) as u32 ^ d[i] ^ key_c;
            d[i] = of_a as u32;
        }
        key_a = key_a.wrapping_add(0x9E37_79B9);
        key_c = key_c.wrapping_add(0xBB67_AE85);
    }
    let mut words = [0; GROUP];
    for (i, block) in words.chunks_exact_mut(4).enumerate() {
        block.copy_from_slice(&[a[i], b[i], c[i], d[i]]);
    }
    words
}

/// Numbers from 0 to 1 of neighbouring columns.
struct Numbers<'a, T> {
    key: [u32; 2],
    column: usize,
    rest: [u32; 3],
    to: &'a mut [T],
}

impl<T: Float> Vectorised for Numbers<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // The first group may begin before the first column.
        let (mut first, mut skipped, mut to) = ((self.column / 4) as u32, self.column % 4, self.to);
        while !to.is_empty() {
            let words = group(self.key, first, self.rest);
            let (now, later) = to.split_at_mut(to.len().min(GROUP - skipped));
            for (to, word) in now.iter_mut().zip(&words[skipped..]) {
                // 24 bits, which every arithmetic type holds.
                *to = T::from_f64(f64::from(word >> 8) * (1.0 / f64::from(1u32 << 24)));
            }
            (first, skipped, to) = (first.wrapping_add(LANES as u32), 0, later);
        }
    }
}

/// Fills a row with random numbers for the columns from `column` on, as multiples of 2^-24 below 1. A column takes word
/// `column % 4` of a counter. The counter's first part is `column / 4`; `rest` are its other parts.
pub(crate) fn numbers<T: Float>(key: [u32; 2], column: usize, rest: [u32; 3], to: &mut [T]) {
    dispatch(Numbers { key, column, rest, to });
}

#[cfg(test)]
mod tests {
    use super::{group, numbers};

    /// The vectors of random123 1.14, `tests/kat_vectors`: zeros, ones, and digits of pi.
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        for ([first, rest @ ..], key, answer) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(group(key, first, rest)[..4], answer, "{first:x}");
            // Later blocks are those of the counters after it.
            assert_eq!(group(key, first.wrapping_sub(13), rest)[52..56], answer, "{first:x}");
        }
    }

    /// Every column has its own number, wherever a row begins and however long it is.
    #[test]
    fn rows_are_parts_of_one_row() {
        let of = |column: usize, count: usize| {
            let mut to = vec![0f32; count];
            numbers([1, 2], column, [3, 4, 5], &mut to);
            to
        };
        let whole = of(0, 600);
        let word = group([1, 2], 0, [3, 4, 5])[7];
        assert_eq!(f64::from(whole[7]), f64::from(word >> 8) / f64::from(1u32 << 24));
        for (column, count) in [(1, 1), (3, 61), (3, 62), (5, 130), (64, 512), (255, 3), (17, 0)] {
            assert_eq!(of(column, count), whole[column..column + count], "{column} {count}");
        }
    }
}
