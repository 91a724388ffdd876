//! The family of kernels for sm_90a, predicted on an H200; and what other libraries choose there.

mod deep_gemm;
mod elements;
mod gate;
mod operands;
mod others;
mod predict;
mod set;
#[cfg(test)]
mod tests;

use std::error::Error;

use epilogue::evt::{Tree, ValidTree};
use epilogue::gemm::Machine;
use epilogue::gemm::sm90::{SharedMap, Sm90Key, TensorCores, Traffic};
use epilogue_runtime::{Arch, GpuModel, Resources};

use super::family::{Family, Kernel, Measured};
use crate::gate::{Gate, Subject};
use crate::predict::issue::{Unit, Work};
use crate::predict::{Code, Prediction, Subject as Predicted};
use crate::sass::Sass;

/// The family for the tensor cores of one architecture.
pub(super) struct Specialized {
    cores: TensorCores,
}

/// The family for sm_90a.
pub(super) const SM_90: &Specialized = &Specialized { cores: TensorCores::Wgmma };
/// The family for sm_100a.
pub(super) const SM_100: &Specialized = &Specialized { cores: TensorCores::Tcgen05 };

/// The GPU for which the checked kernels are chosen.
fn machine(cores: TensorCores) -> Machine {
    match cores {
        TensorCores::Wgmma => Machine::h100(),
        TensorCores::Tcgen05 => Machine::of_model(GpuModel::B200),
    }
}

impl Family for Specialized {
    fn arch(&self) -> Arch {
        self.cores.arch()
    }

    fn gpu(&self) -> (&'static str, Machine) {
        match self.cores {
            TensorCores::Wgmma => ("H200", Machine::h200()),
            TensorCores::Tcgen05 => ("B200", machine(self.cores)),
        }
    }

    /// Consumers of tensor memory have no loop of products.
    fn is_predicted(&self) -> bool {
        self.cores == TensorCores::Wgmma
    }

    fn constants(&self) -> &'static str {
        "sm90."
    }

    fn measured_by(&self, constant: &str) -> Option<&'static str> {
        Some(match constant.strip_prefix(self.constants())? {
            "busy_clock" | "power_clock_8_bit" | "headroom" | "headroom_8_bit" | "short_clock_8_bit"
            | "power_after" => "picks/gemm (the clocks seen)",
            "promotion_share" => "speed/gemm/f8e4m3",
            "row_reduction" | "column_reduction" | "all_reduction" | "complete" | "function" => "candidates/gemm",
            _ => return None,
        })
    }

    fn covering(&self) -> Vec<Subject> {
        set::covering(self.cores)
    }

    fn all(&self, tree: &Tree) -> Vec<Subject> {
        set::all(self.cores, tree)
    }

    fn measured(&self, gate: &Gate) -> Result<Vec<Measured>, String> {
        elements::measure(self.cores, gate)
    }

    fn others(&self) -> Result<Option<String>, Box<dyn Error>> {
        match self.cores {
            TensorCores::Wgmma => others::table().map(Some),
            TensorCores::Tcgen05 => Ok(None),
        }
    }
}

impl Kernel for Sm90Key {
    fn choices(&self, _arch: Arch) -> Vec<String> {
        vec![
            format!("{:?}", self.instruction),
            format!("{:?}", self.tile),
            format!("{:?}", self.a),
            format!("{:?}", self.b),
            format!("{:?}", self.swap_ab),
            format!("{:?}", self.cluster),
            format!("{:?}", self.split_k),
        ]
    }

    fn tile(&self) -> String {
        self.tile.to_string()
    }

    fn shared_bytes(&self, tree: &ValidTree) -> usize {
        SharedMap::of(self, &Traffic::of(tree, self.direct)).bytes()
    }

    fn shared_limit(&self) -> usize {
        227 * 1024
    }

    /// A producer with few registers spills, and waits most of the time; a consumer spills accumulators that are not operands.
    fn stack_limit(&self) -> u32 {
        if self.tile.registers().is_some() { 96 } else { 0 }
    }

    fn check_resources(&self, findings: &mut Vec<String>, resources: &Resources) {
        gate::check_resources(findings, self, resources);
    }

    fn check(&self, findings: &mut Vec<String>, tree: &ValidTree, sass: &Sass) -> usize {
        gate::check(findings, self, tree, sass);
        sass.local_accesses_of_consumers()
    }

    /// Instructions of 32 bytes of K make a stage, for every 64 rows of a warpgroup.
    fn turns(&self, product: &Work) -> f64 {
        let per_stage = 4 * self.tile.warpgroup_rows() / 64;
        per_stage as f64 / product.counts[Unit::Tensor as usize].max(1) as f64
    }

    fn predict(&self, subject: &Predicted, code: &Code) -> Prediction {
        predict::predict(subject, self, code)
    }
}
