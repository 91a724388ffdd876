//! Vectors of a number type, of any width.

use pulp::Simd;

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

impl Lanes for f32 {
    type Vector<S: Simd> = S::f32s;
    const NOTHING: Self = 0.0;

    #[inline(always)]
    fn splat<S: Simd>(simd: S, x: Self) -> S::f32s {
        simd.splat_f32s(x)
    }

    #[inline(always)]
    fn multiply_add<S: Simd>(simd: S, x: S::f32s, y: S::f32s, z: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(x, y, z)
    }

    #[inline(always)]
    fn sum<S: Simd>(simd: S, x: S::f32s) -> Self {
        simd.reduce_sum_f32s(x)
    }
}

impl Lanes for f64 {
    type Vector<S: Simd> = S::f64s;
    const NOTHING: Self = 0.0;

    #[inline(always)]
    fn splat<S: Simd>(simd: S, x: Self) -> S::f64s {
        simd.splat_f64s(x)
    }

    #[inline(always)]
    fn multiply_add<S: Simd>(simd: S, x: S::f64s, y: S::f64s, z: S::f64s) -> S::f64s {
        simd.mul_add_e_f64s(x, y, z)
    }

    #[inline(always)]
    fn sum<S: Simd>(simd: S, x: S::f64s) -> Self {
        simd.reduce_sum_f64s(x)
    }
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
