//! The names that a program with this library imports: `use epilogue::prelude::*;`.
//!
//! `epilogue!` is not here: one glob cannot carry an attribute and a macro of the same name. Write
//! `epilogue::epilogue!(…)`, or `#[macro_use] extern crate epilogue;` once and then `epilogue!(…)`.

pub use epilogue_runtime::{f8e4m3, f8e5m2};
pub use half::{bf16, f16};

pub use crate::ops::*;
pub use crate::{Arch, Device, DeviceTensor, Element, ElementType, Epilogue, Gemm, GpuModel, Seed};
pub use epilogue_macros::{elementwise, epilogue, reducer};
