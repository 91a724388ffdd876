//! The time of a kernel.

use super::key::ToyKey;
use crate::gemm::families::KernelKey;
use crate::gemm::families::family::FamilyKey;
use crate::gemm::kernel::SplitK;
use crate::gemm::model::candidate::{Bound, Candidate};
use crate::gemm::model::machine::Machine;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::Problem;

/// FMAs of a multiprocessor in a clock, and blocks on it.
const RATE: f64 = 64.0;
const BLOCKS: usize = 8;

/// A kernel with its time, as if nothing but FMAs took any.
pub(super) fn estimate(key: ToyKey, problem: &Problem, machine: &Machine) -> Candidate {
    let Problem { m, n, k, batch, .. } = *problem;
    let (rows, columns) = key.tile();
    let blocks = m.div_ceil(rows).max(1) as u128 * n.div_ceil(columns).max(1) as u128 * batch as u128;
    let at_once = machine.multiprocessors as f64;
    let multiplied = (m * n * k * batch * key.accumulators) as f64;
    Candidate {
        key: KernelKey::Toy(key),
        split_k: SplitK::None,
        registers: 64,
        shared_bytes: 0,
        blocks_per_multiprocessor: BLOCKS,
        blocks,
        repacking: Repacking::default(),
        waves: blocks as f64 / (at_once * BLOCKS as f64),
        microseconds: multiplied / (RATE * at_once * machine.clock * 1e3),
        bound: Bound::Arithmetic,
    }
}
