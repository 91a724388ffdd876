//! Products with fused epilogues: problem, tiles, choice of kernel, emission, launch plan; and the CPU's own product.
//!
//! This module knows threads. It must never know Rust syntax, nor `te`.

#[allow(dead_code, reason = "what plans and runs calls it")]
pub(crate) mod cpu;
