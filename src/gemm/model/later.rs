//! Predicted times of the launches after the product, for epilogues that use their own reductions.

use std::fmt;

use super::machine::Machine;
use crate::evt::{PhasePart, Phases, Slot, ValueKind};
use crate::gemm::problem::Problem;

/// The launches after the product's: how many, why, and what they take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Later {
    /// The phases of the epilogue.
    pub(crate) phases: usize,
    launches: usize,
    /// Values that the blocks compute when they complete reductions.
    in_tails: Vec<String>,
    /// The reductions that must be complete before, as users call them.
    reductions: Vec<String>,
    /// The M×N values that are kept in memory for them.
    kept: Vec<String>,
    /// Predicted time in microseconds.
    pub(crate) microseconds: f64,
}

impl Later {
    /// The later parts of an epilogue; `None` if the first part is all.
    pub(crate) fn of(machine: &Machine, phases: &Phases, problem: &Problem) -> Option<Self> {
        let passes = phases.passes();
        if phases.parts.len() == 1 {
            return None;
        }
        let launches = passes.len() - 1;
        let in_tails = passes.iter().filter_map(|pass| pass.tail).flat_map(|tail| tail.tree.outputs());
        let in_tails = in_tails.map(|output| output.name.to_owned()).collect();
        let (of_reductions, of_values): (Vec<_>, Vec<_>) =
            phases.slots.iter().partition(|slot| matches!(phases.tree.value(slot.value).kind, ValueKind::Reduce(..)));
        let names = |slots: Vec<&Slot>| slots.into_iter().map(|slot| slot.name.clone()).collect();
        let microseconds = passes.iter().skip(1).map(|pass| microseconds(machine, problem, pass.part)).sum();
        Some(Self {
            phases: phases.tree.phases(),
            launches,
            in_tails,
            reductions: names(of_reductions),
            kept: names(of_values),
            microseconds,
        })
    }
}

/// Every M×N value is read or written once, at memory's speed.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn microseconds(machine: &Machine, problem: &Problem, part: &PhasePart) -> f64 {
    let cost = part.tree.cost();
    let elements = problem.batch as f64 * problem.m as f64 * problem.n as f64;
    let bytes = elements * cost.bytes_per_element() as f64;
    let per_microsecond = machine.memory_bytes_per_clock * machine.multiprocessors as f64 * machine.clock * 1e3;
    let constants = machine.constants.launches;
    constants.launch + bytes / (per_microsecond * constants.copy_share)
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if !self.in_tails.is_empty() {
            write!(f, "{} by the blocks that complete their reductions", list(&self.in_tails))?;
        }
        let count = match self.launches {
            0 => return Ok(()),
            1 => "a second launch".to_owned(),
            more => format!("{more} more launches"),
        };
        f.write_str(if self.in_tails.is_empty() { "" } else { "; " })?;
        let whole = if self.reductions.len() == 1 { "is complete" } else { "are complete" };
        write!(f, "then {count}, because {} {whole} when all tiles are done", list(&self.reductions))?;
        if !self.kept.is_empty() {
            write!(f, "; {} kept in memory for {}", list(&self.kept), if self.launches == 1 { "it" } else { "them" })?;
        }
        write!(f, "; about {:.1} us of it", self.microseconds)
    }
}
