//! The minimum or maximum of f32s by comparisons alone: one instruction for a vector. A maximum that passes NaN on and
//! orders zeros takes six.
//!
//! A comparison loses NaN, and takes either of two zeros. So its result counts only if no element was NaN and the
//! result is not zero. Both are cheap to test; otherwise the caller recomputes by the general method.

use half::{bf16, f16};

use crate::simd::convert::{GROUP, Widen};
use crate::simd::{Vectorised, dispatch};

/// The number of elements that are compared side by side.
const WIDE: usize = 64;

/// The bits of an infinity without the sign, moved to the front: only those of NaN are greater.
const INFINITE: u32 = 0xff00_0000;

/// The extremes of lanes, and what tells whether they count.
#[derive(Clone, Copy)]
struct Extremes<const LANES: usize> {
    held: [f32; LANES],
    /// The greatest bits of each lane's elements, without the sign.
    bits: [u32; LANES],
}

impl<const LANES: usize> Extremes<LANES> {
    #[inline(always)]
    const fn new(first: f32) -> Self {
        Self { held: [first; LANES], bits: [first.to_bits() << 1; LANES] }
    }

    /// Takes elements into account, at most one for each lane.
    #[inline(always)]
    fn add<const LARGEST: bool>(&mut self, row: &[f32]) {
        for ((held, bits), x) in self.held.iter_mut().zip(&mut self.bits).zip(row) {
            *held = if if LARGEST { *x > *held } else { *x < *held } { *x } else { *held };
            *bits = (*bits).max(x.to_bits() << 1);
        }
    }

    /// The extreme of all lanes; `None` if an element was NaN.
    #[inline(always)]
    fn of_all<const LARGEST: bool>(mut self) -> Option<f32> {
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            let (left, right) = self.held.split_at_mut(width);
            for (held, x) in left.iter_mut().zip(&*right) {
                *held = if if LARGEST { *x > *held } else { *x < *held } { *x } else { *held };
            }
        }
        // (One comparison of all lanes, where the greatest of them would be many.)
        let has_nan = self.bits.iter().fold(false, |any, bits| any | (*bits > INFINITE));
        (!has_nan).then_some(self.held[0])
    }
}

/// Outputs whose elements are contiguous: the first one's address, the number of elements of each, and the distance
/// between neighbouring outputs, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contiguous {
    pub(super) address: u64,
    pub(super) count: usize,
    pub(super) apart: isize,
}

/// A type of elements that are held as `T`s.
pub(super) trait Compared<T> {
    /// Computes the extreme of each output and of `first`, the largest or the least. Gives the indices of outputs for
    /// which this fails. `None` if comparisons are no faster here; the caller then uses the general method for all.
    ///
    /// # Safety
    /// The elements of all outputs with totals must be readable, aligned, and of this type. Nobody else may write them
    /// during the call.
    unsafe fn extremes(_largest: bool, _totals: &mut [T], _first: T, _outputs: Contiguous) -> Option<Vec<usize>> {
        None
    }

    /// The largest or least element of rows; `None` if comparisons are no faster here, or if an element is NaN. If
    /// zeros of both signs are the extreme, it may be either.
    ///
    /// # Safety
    /// `FMA` must be what [`Vectorised::run`] was given.
    #[inline(always)]
    unsafe fn of_rows<const FMA: bool, const LANES: usize>(_largest: bool, _rows: &[[Self; LANES]]) -> Option<T>
    where
        Self: Sized,
    {
        None
    }
}

/// The extreme of rows; `None` if an element is NaN.
///
/// # Safety
/// The conditions of [`Compared::of_rows`].
#[inline(always)]
unsafe fn of_rows<const FMA: bool, const LARGEST: bool, const LANES: usize, S: Widen<f32>>(
    rows: &[[S; LANES]],
) -> Option<f32> {
    let mut extremes = Extremes::<LANES>::new(if LARGEST { f32::NEG_INFINITY } else { f32::INFINITY });
    for row in rows {
        // SAFETY: the caller's promise.
        extremes.add::<LARGEST>(&unsafe { S::widen_row::<FMA, LANES>(row) });
    }
    extremes.of_all::<LARGEST>()
}

macro_rules! compared {
    ($($S:ty),*) => {$(
        impl Compared<f32> for $S {
            unsafe fn extremes(
                largest: bool,
                totals: &mut [f32],
                first: f32,
                outputs: Contiguous,
            ) -> Option<Vec<usize>> {
                let from = outputs.address as *const $S;
                Some(match largest {
                    true => dispatch(OfOutputs::<$S, true> { totals, from, outputs, first }),
                    false => dispatch(OfOutputs::<$S, false> { totals, from, outputs, first }),
                })
            }

            #[inline(always)]
            unsafe fn of_rows<const FMA: bool, const LANES: usize>(
                largest: bool,
                rows: &[[Self; LANES]],
            ) -> Option<f32> {
                // SAFETY: the caller's promise.
                unsafe {
                    match largest {
                        true => of_rows::<FMA, true, LANES, $S>(rows),
                        false => of_rows::<FMA, false, LANES, $S>(rows),
                    }
                }
            }
        }
    )*};
}

compared!(f32, f16, bf16);
impl Compared<Self> for f64 {}
impl Compared<Self> for i32 {}
impl Compared<i32> for i8 {}
impl Compared<i32> for u8 {}
impl Compared<Self> for i64 {}

struct OfOutputs<'a, S, const LARGEST: bool> {
    totals: &'a mut [f32],
    from: *const S,
    outputs: Contiguous,
    first: f32,
}

impl<S: Widen<f32>, const LARGEST: bool> Vectorised for OfOutputs<'_, S, LARGEST> {
    type Output = Vec<usize>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Vec<usize> {
        let Self { totals, from, outputs, first } = self;
        let mut others = Vec::new();
        for (output, total) in totals.iter_mut().enumerate() {
            let start = from.wrapping_offset(output as isize * outputs.apart);
            // SAFETY: the caller of `extremes` promised that the elements of every output can be read.
            let elements = unsafe { std::slice::from_raw_parts(start, outputs.count) };
            let (rows, rest) = elements.as_chunks::<WIDE>();
            let mut extremes = Extremes::<WIDE>::new(first);
            for row in rows {
                // SAFETY: `FMA` is what this function was given.
                extremes.add::<LARGEST>(&unsafe { S::widen_row::<FMA, WIDE>(row) });
            }
            let (groups, rest) = rest.as_chunks::<GROUP>();
            for group in groups {
                // SAFETY: `FMA` is what this function was given.
                extremes.add::<LARGEST>(&unsafe { S::widen_group::<FMA>(group) });
            }
            for x in rest {
                extremes.add::<LARGEST>(&[x.widen()]);
            }
            match extremes.of_all::<LARGEST>() {
                Some(extreme) if extreme != 0.0 => *total = extreme,
                _ => others.push(output),
            }
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::at_every_level;
    use crate::simd::Float;

    #[test]
    fn what_counts_is_exact_and_only_nan_and_zeros_do_not_count() {
        let odd = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, -1e-45];
        let mut random = fastrand::Rng::with_seed(5);
        for case in 0..300 {
            let (count, kinds) = ([0, 1, 7, 8, 63, 64, 65, 130, 300][case % 9], case / 9 % (odd.len() + 1));
            let number = |random: &mut fastrand::Rng| match kinds {
                0 => random.f32() - 0.5,
                kinds if case % 2 == 0 || random.u8(..16) == 0 => odd[random.usize(..kinds)],
                _ => -random.f32(),
            };
            let x: Vec<f32> = (0..count * 5).map(|_| number(&mut random)).collect();
            for largest in [true, false] {
                let first = if largest { f32::NEG_INFINITY } else { f32::INFINITY };
                let (address, apart) = (x.as_ptr() as u64, count as isize);
                for (got, others) in at_every_level(|| {
                    let mut got = [0.0; 5];
                    // SAFETY: the outputs have these elements.
                    let others = unsafe {
                        <f32 as Compared<f32>>::extremes(largest, &mut got, first, Contiguous { address, count, apart })
                    };
                    (got, others.expect("f32s are compared"))
                }) {
                    for (output, got) in got.into_iter().enumerate() {
                        let combine = if largest { Float::maximum } else { Float::minimum };
                        let want = x[output * count..][..count].iter().fold(first, |held: f32, x| combine(held, *x));
                        if others.contains(&output) {
                            assert!(want.is_nan() || want == 0.0, "case {case}: {want:e} counts");
                        } else {
                            assert_eq!(got.to_bits(), want.to_bits(), "case {case}: {want:e}, not {got:e}");
                        }
                    }
                }
            }
        }
    }
}
