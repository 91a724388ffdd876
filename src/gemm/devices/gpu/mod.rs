//! GPUs as a kind of device. The model chooses among the kernels that are available, or an earlier measurement does.
//!
//! [`choice`] compiles; [`kernels`] is the result. A run is in [`run`]: the kernel that it takes ([`wanted`]), copies of
//! operands before it, and launches of later phases after it. [`describe`] gives a launch as data. Their parts are in
//! `gemm/run/`.

mod choice;
mod describe;
mod kernels;
mod listed;
mod run;
mod wanted;

use self::listed::Listed;
use super::backend::Backend;
use super::choice::Choice;
use super::cpu::Cpu;
use super::operation::Operation;
use crate::ElementType;
use crate::evt::Prices;
use crate::gemm::autotune::store::{Store, StoredChoice, subject};
use crate::gemm::families::Families;
use crate::gemm::families::family::Family;
use crate::gemm::kernel::Settings;
use crate::gemm::model::choice::{ChosenKernel, Origin};
use crate::gemm::model::select::Choosing;
use crate::gemm::model::selection::Request;
use crate::gemm::model::{Later, Machine};
use crate::gemm::problem::{Arithmetic, Error, Knob, Quantization};

/// GPUs like this machine.
pub(super) struct Gpu {
    pub(super) machine: Machine,
    pub(super) families: Families,
}

impl Backend for Gpu {
    fn prices(&self) -> Prices {
        Prices::GPU
    }

    fn refuses(&self, (a, b): (ElementType, ElementType), arithmetic: Arithmetic) -> Option<&'static str> {
        let multiplies =
            |family: &dyn Family| family.runs_on(self.machine.arch) && family.multiplies((a, b), arithmetic);
        if self.families.iter().any(multiplies) {
            return None;
        }
        Some(if a == b {
            "give f16, bf16, f32, f64, FP8 or 8-bit integers"
        } else if Cpu.refuses((a, b), arithmetic).is_none() {
            "give both the same type, both FP8 or both 8-bit integers, or an f16 or bf16 A and a B of 8 bits, or use the \
             CPU device"
        } else {
            "give both the same type, both FP8 or both 8-bit integers, or an f16 or bf16 A and a B of 8 bits"
        })
    }

    fn multiplies_weights(&self, _format: Quantization) -> bool {
        false
    }

    fn lacks(&self, knob: Knob) -> Option<&'static str> {
        if knob == Knob::Tuning {
            return Some("which is no CPU");
        }
        // One family that has it is enough.
        let lacking = |family: &dyn Family| family.runs_on(self.machine.arch).then(|| family.lacks(knob));
        self.families.iter().filter_map(lacking).reduce(Option::and).flatten()
    }

    fn choose(&self, operation: &Operation, request: &Request) -> Result<Choice, Error> {
        let Operation { device, phases, problem, settings, .. } = operation;
        let Settings { layouts, arithmetic, switches } = *settings;
        let later = Later::of(&self.machine, phases, problem);
        let selection =
            Choosing::of((&self.machine, self.families), phases, *problem, (layouts, arithmetic), later.as_ref());
        let mut chosen = selection.choose(request, switches)?;
        if !chosen.asked
            && let (Some(store), Some(subject)) =
                (Store::of_user(), subject(device, phases.first(), problem, *settings))
        {
            match store.find(&subject, &chosen.candidates) {
                StoredChoice::Nothing => {}
                StoredChoice::Winner(winner, microseconds) => {
                    chosen = ChosenKernel { chosen: *winner, origin: Origin::Measured { microseconds }, ..chosen };
                }
                StoredChoice::Ignored(reason) => chosen.origin = Origin::Ignored { reason },
            }
        }
        Ok(Choice::of(Listed::of(operation).best(chosen)))
    }
}
