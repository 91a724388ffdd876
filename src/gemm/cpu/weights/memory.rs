//! Memory that threads keep for products with quantised weights.

use half::bf16;

use super::rows::{FloatRows, IntegerRows};

/// A thread's memory for tiles with quantised weights.
#[derive(Debug, Default)]
pub(in crate::gemm::cpu) struct WeightMemory {
    pub(super) floats: FloatRows,
    pub(super) integers: IntegerRows,
    pub(super) unpacked: Unpacked,
}

/// A part of a tile's weights, and the sums over it.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) floats: Vec<f32>,
    pub(super) halves: Vec<bf16>,
    pub(super) sums: Vec<f32>,
}
