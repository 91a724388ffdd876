//! Turns an ordinary Rust function into the fused epilogue of a tensor-core GEMM.

pub mod evt;
pub mod expr;

pub use epilogue_runtime::{Element, ElementType};
