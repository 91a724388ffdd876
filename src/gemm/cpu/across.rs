//! Reduces the elements of a row to one number, in f64.

use super::element::Arithmetic;

/// Elements of a row that are accumulated side by side.
pub(super) const LANES: usize = 16;

/// Reduces a row: element `i` goes to lane `i mod 16`, then neighbouring lanes are joined.
#[inline(always)]
pub(super) fn across<T: Arithmetic>(
    row: &[T],
    identity: f64,
    add: &impl Fn(f64, T) -> f64,
    join: &impl Fn(f64, f64) -> f64,
) -> f64 {
    let mut lanes = [identity; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = add(*lane, *x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = add(*lane, *x);
    }
    let mut count = LANES / 2;
    while count > 0 {
        for i in 0..count {
            lanes[i] = join(lanes[2 * i], lanes[2 * i + 1]);
        }
        count /= 2;
    }
    lanes[0]
}

/// The greater; NaN if either is NaN.
#[inline(always)]
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() {
        a
    } else if a == b {
        // A zero of both signs is positive, whatever the order.
        f64::from_bits(a.to_bits() & b.to_bits())
    } else {
        b
    }
}

/// The smaller; NaN if either is NaN.
#[inline(always)]
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() {
        a
    } else if a == b {
        f64::from_bits(a.to_bits() | b.to_bits())
    } else {
        b
    }
}
