//! The functions that PTX instructions compute: pure functions of bits, without registers, memory or threads.
//!
//! Section numbers are those of the PTX ISA document, versions 8 and 9. Scalar functions that are `#[inline(always)]`
//! are branch-free: in a loop over `[T; 32]` they become SIMD code for the instruction set of the calling function.

pub mod approx;
pub mod compare;
pub mod convert;
pub mod descriptor;
pub mod dot;
pub mod exact;
pub mod float;
pub mod format;
pub mod fragment;
pub mod half;
pub mod im2col;
pub mod integer;
mod matrix;
pub mod mma;
pub mod operand;
pub mod packed;
mod pixel_box;
pub mod reduction;
pub mod scaled_mma;
pub mod swizzle;
pub mod tcgen05;
pub mod tensor_box;
pub mod tensor_descriptor;
mod tensor_element;
pub mod tensor_field;
pub mod tensor_map;
mod tensor_map_error;
pub mod tensor_memory;
pub mod tensor_replace;
pub mod video;
pub mod wgmma;
