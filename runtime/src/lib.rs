//! Devices, buffers, kernel compilation and launch.
//!
//! This crate runs kernels. It must never know what a GEMM or a visitor tree is.

mod element;

pub use element::{Element, ElementType};
