//! The names that a program with this library imports: `use epilogue::prelude::*;`.
//!
//! The closure form is not here, as its name is a common word: write `epilogue::closure!(…)`. The macros work by path,
//! too, without any import: `#[epilogue::epilogue]`.

pub use epilogue_runtime::{f8e4m3, f8e5m2};
pub use half::{bf16, f16};

pub use crate::ops::*;
pub use crate::{Arch, Device, DeviceTensor, Element, ElementType, Epilogue, Gemm, GpuModel, Seed};
pub use epilogue_macros::{elementwise, epilogue, reducer};
