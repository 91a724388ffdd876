//! The family of kernels for sm_80 and later, predicted on an A100.

mod gate;
mod operands;
mod predict;
mod set;
#[cfg(test)]
mod tests;

use epilogue::evt::{Tree, ValidTree};
use epilogue::gemm::{Machine, Sm80Key};
use epilogue_runtime::Arch;

use super::family::{Family, Kernel};
use crate::gate::Subject;
use crate::predict::issue::Work;
use crate::predict::{Code, Prediction, Subject as Predicted};
use crate::sass::Sass;
use crate::shapes::Shape;

/// The family.
pub(super) struct Sm80;

impl Family for Sm80 {
    fn arch(&self) -> Arch {
        Arch::SM_80
    }

    fn gpu(&self) -> (&'static str, Machine) {
        ("A100", Machine::a100())
    }

    fn constants(&self) -> &'static str {
        "sm80."
    }

    /// An A100 has no products of 8-bit floating-point types.
    fn multiplies(&self, shape: &Shape) -> bool {
        shape.types == "bf16"
    }

    fn covering(&self) -> Vec<Subject> {
        set::covering()
    }

    fn all(&self, tree: &Tree) -> Vec<Subject> {
        set::all(tree)
    }
}

impl Kernel for Sm80Key {
    fn choices(&self, arch: Arch) -> Vec<String> {
        vec![
            format!("{:?}", self.instruction),
            format!("{:?}", self.tile),
            format!("{:?}", self.a.major),
            format!("{:?}", self.b.major),
            format!("{:?}", self.a.copy_bytes),
            format!("{:?}", self.b.copy_bytes),
            format!("{:?}", self.split_k),
            format!("{arch:?}"),
        ]
    }

    fn details(&self) -> String {
        let Self { a, b, split_k, .. } = self;
        format!("; A {:?} {}, B {:?} {}, split {split_k:?}", a.major, a.copy_bytes, b.major, b.copy_bytes)
    }

    fn tile(&self) -> String {
        self.tile.to_string()
    }

    fn shared_bytes(&self, _tree: &ValidTree) -> usize {
        self.tile.shared_bytes(self.instruction)
    }

    fn shared_limit(&self) -> usize {
        163 * 1024
    }

    /// Some words are spilled once for a tile.
    fn stack_limit(&self) -> u32 {
        32
    }

    fn check(&self, findings: &mut Vec<String>, _tree: &ValidTree, sass: &Sass) -> usize {
        gate::check(findings, self, sass)
    }

    fn turns(&self, product: &Work) -> f64 {
        (self.tile.warp_m * self.tile.warp_n * self.tile.k) as f64 / product.multiply_adds.max(1.0)
    }

    fn predict(&self, subject: &Predicted, code: &Code) -> Prediction {
        predict::predict(subject, self, code)
    }
}
