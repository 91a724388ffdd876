//! Turns an ordinary Rust function into the fused epilogue of a tensor-core GEMM.

mod epilogue;
pub mod evt;
pub mod expr;
pub mod ops;

pub use epilogue_runtime::{DeviceTensor, Element, ElementType};

pub use crate::epilogue::{Argument, Arguments, Epilogue};
