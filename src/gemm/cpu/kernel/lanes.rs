//! Vectors of a number type, of any width.

#[cfg(target_arch = "x86_64")]
use epilogue_runtime::CpuLevel;
use pulp::{Arch, Simd};

#[cfg(target_arch = "x86_64")]
use crate::level;

/// The instructions of the thread's level.
pub(super) fn arch() -> Arch {
    #[cfg(target_arch = "x86_64")]
    return match level::current() {
        CpuLevel::Baseline => Arch::Scalar,
        CpuLevel::Avx2 => pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3),
        _ => Arch::new(),
    };
    #[cfg(not(target_arch = "x86_64"))]
    Arch::new()
}

/// A type that products are computed in.
pub(in crate::gemm::cpu) trait Lanes:
    bytemuck::Pod + Send + Sync + std::ops::AddAssign + std::ops::Mul<Output = Self>
{
    /// A vector.
    type Vector<S: Simd>: Copy;

    /// Zero, the sum of no terms.
    const NOTHING: Self;

    /// `x` in every lane.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;

    /// `x·y + z`, fused if the CPU can.
    fn multiply_add<S: Simd>(simd: S, x: Self::Vector<S>, y: Self::Vector<S>, z: Self::Vector<S>) -> Self::Vector<S>;

    /// The sum of all lanes.
    fn sum<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
}

macro_rules! lanes {
    ($($number:ty: $vector:ident, $splat:ident, $multiply_add:ident, $sum:ident;)*) => {$(
        impl Lanes for $number {
            type Vector<S: Simd> = S::$vector;
            const NOTHING: Self = 0.0;

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }

            #[inline(always)]
            fn multiply_add<S: Simd>(simd: S, x: S::$vector, y: S::$vector, z: S::$vector) -> S::$vector {
                simd.$multiply_add(x, y, z)
            }

            #[inline(always)]
            fn sum<S: Simd>(simd: S, x: S::$vector) -> Self {
                simd.$sum(x)
            }
        }
    )*};
}

lanes! {
    f32: f32s, splat_f32s, mul_add_e_f32s, reduce_sum_f32s;
    f64: f64s, splat_f64s, mul_add_e_f64s, reduce_sum_f64s;
}

/// The number of elements in a vector.
#[inline(always)]
pub(super) const fn width<C: Lanes, S: Simd>() -> usize {
    size_of::<C::Vector<S>>() / size_of::<C>()
}

/// Reads a vector from any address.
///
/// # Safety
/// The elements of one vector must be readable there.
#[inline(always)]
pub(super) unsafe fn read<C: Lanes, S: Simd>(_: S, from: *const C) -> C::Vector<S> {
    // SAFETY: the caller's promise.
    unsafe { from.cast::<C::Vector<S>>().read_unaligned() }
}

/// Writes a vector to any address.
///
/// # Safety
/// The elements of one vector must be writable there.
#[inline(always)]
pub(super) unsafe fn write<C: Lanes, S: Simd>(_: S, to: *mut C, x: C::Vector<S>) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<C::Vector<S>>().write_unaligned(x) };
}
