//! The random number of an element, by Philox4x32-10 as its authors define it (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011, section 3.3): ten rounds of two 32-bit products, each round with the next key.

/// The words of a counter under a key.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let product = |factor: u64, x: u32| {
        let wide = factor * u64::from(x);
        [(wide >> 32) as u32, wide as u32]
    };
    (0..10u32).fold(counter, |[a, b, c, d], round| {
        let bumped = |word: u32, step: u32| word.wrapping_add(round.wrapping_mul(step));
        let ([high_a, low_a], [high_c, low_c]) = (product(0xD251_1F53, a), product(0xCD9E_8D57, c));
        [high_c ^ b ^ bumped(key[0], 0x9E37_79B9), low_c, high_a ^ d ^ bumped(key[1], 0xBB67_AE85), low_a]
    })
}

/// The number of a row, counted through all batches, and a column: a multiple of 2^-24 below 1.
pub(super) fn number(seed: u64, offset: u64, row: usize, column: usize) -> f64 {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let [low, high] = halves(offset);
    let words = philox([(column / 4) as u32, row as u32, low, high], halves(seed));
    f64::from(words[column % 4] >> 8) / f64::from(1u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// The vectors of random123 1.14, `tests/kat_vectors`: zeros, ones, and digits of pi.
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        for (counter, key, answer) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), answer, "{counter:x?}");
        }
    }
}
