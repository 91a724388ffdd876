//! The time of a kernel, and its parameter.

use super::key::ToyKey;
use crate::gemm::families::KernelKey;
use crate::gemm::families::family::FamilyKey;
use crate::gemm::kernel::SplitK;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler, OPERAND, PROBLEM};
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::model::candidate::{Bound, Candidate};
use crate::gemm::model::machine::Machine;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::{Error, Problem};
use crate::gemm::run::launch::{Filling, KernelRun, operand_name};

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

/// `toy::Common`.
pub(super) fn parameter(
    key: &ToyKey,
    run: &KernelRun<'_>,
    filling: &Filling<'_>,
) -> Result<(ParameterBytes, usize), Error> {
    let mut bytes = run.room(key.common_bytes(), key.parameter_alignment(), filling)?;
    let mut to = Filler { bytes: &mut bytes, at: 0 };
    for (of, view) in run.operands() {
        let address = DeviceValue::address(of, view.address);
        to.put(&OPERAND, &|| operand_name(of), [address, view.outer.into(), view.k.into(), view.batch.into()]);
    }
    to.put(&PROBLEM, &|| "problem".to_owned(), run.extents(filling.grid));
    Ok((bytes, key.common_bytes()))
}
