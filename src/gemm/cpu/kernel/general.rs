//! Products of any shape, by the crates that make up the `gemm` crate for f32 and f64. (Its crates for complex numbers
//! and f16 take as long to compile and are never called.)

#[cfg(target_arch = "x86_64")]
use epilogue_runtime::CpuLevel;
use gemm_common::Parallelism;
#[cfg(target_arch = "x86_64")]
use gemm_common::gemm::gemm_basic_generic;
#[cfg(target_arch = "x86_64")]
use gemm_common::simd::{self, MixedSimd};

use super::{Extents, Lanes, Matrix};
#[cfg(target_arch = "x86_64")]
use crate::level;

/// A type with a crate.
pub(in crate::gemm::cpu) trait General: Lanes {
    /// `to = a · b`, or `to += a · b` if it continues; `to` is best contiguous along rows.
    ///
    /// # Safety
    /// `a` must have rows × depth elements and `b` depth × columns, which no thread writes meanwhile; `to` rows × columns, apart
    /// by these strides, which no other thread accesses.
    unsafe fn product(extents: Extents, a: Matrix<Self>, b: Matrix<Self>, to: Written<Self>);
}

/// Where a product is written, with the strides of its rows and columns in elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Written<C> {
    pub(in crate::gemm::cpu) pointer: *mut C,
    pub(in crate::gemm::cpu) row: isize,
    pub(in crate::gemm::cpu) column: isize,
    /// Whether the product is added to what is there.
    pub(in crate::gemm::cpu) continues: bool,
}

macro_rules! by_crate {
    ($($number:ident by $of:ident, of $lanes:literal lanes by AVX2;)*) => { $(
        impl General for $number {
            #[rustfmt::skip] // the arguments in groups
            unsafe fn product(extents: Extents, a: Matrix<Self>, b: Matrix<Self>, to: Written<Self>) {
                let Extents { rows, columns, depth } = extents;
                /// The crate's driver with the kernels of one set of instructions.
                #[cfg(target_arch = "x86_64")]
                macro_rules! with {
                    ($simd:ident, $kernels:ident, $n:expr) => {{
                        use $of::microkernel::$kernels::$number as kernels;
                        if let Some(simd) = <simd::$simd as MixedSimd<$number, $number, $number, $number>>::try_new() {
                            // SAFETY: the caller's promise.
                            return unsafe {
                                gemm_basic_generic::<
                                    _, $number, { $n }, { kernels::MR_DIV_N * $n }, { kernels::NR },
                                    { kernels::MR_DIV_N }, { kernels::H_M }, { kernels::H_N },
                                >(
                                    simd, rows, columns, depth,
                                    to.pointer, to.column, to.row, to.continues,
                                    a.pointer, a.column, a.row,
                                    b.pointer, b.column, b.row,
                                    1.0, 1.0, false, false, false, |a, b, c| a * b + c,
                                    &kernels::UKR, &kernels::H_UKR, false, Parallelism::None,
                                )
                            };
                        }
                    }};
                }
                // The crate takes all that the CPU has.
                #[cfg(target_arch = "x86_64")]
                match level::current() {
                    CpuLevel::Avx2 if CpuLevel::highest() > CpuLevel::Avx2 => with!(V3, fma, $lanes),
                    CpuLevel::Baseline if CpuLevel::highest() > CpuLevel::Baseline => with!(Scalar, scalar, 1),
                    _ => {}
                }
                // SAFETY: the caller's promise.
                unsafe {
                    $of::gemm::$number::get_gemm_fn()(
                        rows, columns, depth,
                        to.pointer, to.column, to.row, to.continues,
                        a.pointer, a.column, a.row,
                        b.pointer, b.column, b.row,
                        1.0, 1.0, false, false, false, Parallelism::None,
                    );
                }
            }
        }
    )* };
}

by_crate! {
    f32 by gemm_f32, of 8 lanes by AVX2;
    f64 by gemm_f64, of 4 lanes by AVX2;
}

/// Like [`General::product`], for strides of any sign. K is walked in the direction in which the first operand's
/// addresses ascend. If the result's columns are closer together than its rows, its transpose is computed.
///
/// # Safety
/// The conditions of [`General::product`].
pub(in crate::gemm::cpu) unsafe fn general<C: General>(extents: Extents, a: Matrix<C>, b: Matrix<C>, to: Written<C>) {
    let (extents, mut first, mut second, to) = if to.column.abs() < to.row.abs() {
        let turned = Extents { rows: extents.columns, columns: extents.rows, ..extents };
        (turned, b.transposed(), a.transposed(), Written { row: to.column, column: to.row, ..to })
    } else {
        (extents, a, b, to)
    };
    if first.column < 0 && extents.depth > 0 {
        let last = extents.depth - 1;
        (first, second) = (first.at(0, last), second.at(last, 0));
        (first.column, second.row) = (-first.column, -second.row);
    }
    // SAFETY: the caller's promise: these are the same elements.
    unsafe { C::product(extents, first, second, to) };
}
