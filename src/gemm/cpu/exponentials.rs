//! Sums of exponentials of rows below their maximum, for the reducers of [`AtInfinity`]: one exponential for each
//! element.

use super::across::{across, maximum};
use super::element::Arithmetic;
use crate::evt::AtInfinity;
use crate::simd::{Vectorised, dispatch};

/// The greatest element and the sum of each row of `width` elements. The order is that of other sums.
pub(super) fn of_rows<T: Arithmetic>(
    at: AtInfinity,
    block: &[T],
    width: usize,
    greatest: &mut [f64],
    sums: &mut [f64],
) {
    dispatch(OfRows { block, width, greatest: &mut *greatest, sums: &mut *sums });
    at_infinity(at, greatest, sums);
}

/// Replaces the sums of rows whose greatest element is infinite or NaN.
pub(super) fn at_infinity(at: AtInfinity, greatest: &[f64], sums: &mut [f64]) {
    for (greatest, sum) in greatest.iter().zip(sums) {
        if !greatest.is_finite() {
            *sum = match at {
                AtInfinity::Itself => f64::NAN,
                // Its own exponential: infinite, 0 or NaN.
                AtInfinity::Nothing if *greatest == f64::NEG_INFINITY => 0.0,
                AtInfinity::Nothing => *greatest,
            };
        }
    }
}

struct OfRows<'a, T> {
    block: &'a [T],
    width: usize,
    greatest: &'a mut [f64],
    sums: &'a mut [f64],
}

impl<T: Arithmetic> Vectorised for OfRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { block, width, greatest, sums } = self;
        for ((row, greatest), sum) in block.chunks_exact(width).zip(greatest).zip(sums) {
            *greatest = across(row, f64::NEG_INFINITY, &|a, x: T| maximum(a, x.to_f64()), &maximum);
            let first = T::from_f64(*greatest);
            let add = |sum: f64, x: T| sum + (x - first).exp::<FMA>().to_f64();
            *sum = across(row, 0.0, &add, &|a, b| a + b);
        }
    }
}
