//! Random integers, small enough that every order of summation gives the same bits.

use std::ops::RangeInclusive;

/// From -8 to 8.
pub(crate) fn integers(len: usize, seed: u64) -> Vec<f64> {
    integers_in(len, seed, -8..=8)
}

/// Integers as values of any type.
pub(crate) fn integers_in<T: From<i8>>(len: usize, seed: u64, range: RangeInclusive<i8>) -> Vec<T> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| T::from(random.i8(range.clone()))).collect()
}
