//! The operands that are copied before the GEMM, because a kernel for sm_90a cannot load them, and the time of the
//! copies.
//!
//! TMA needs rows that begin at multiples of 16 bytes and lie in their order; 8-bit and TF32 operands must be
//! contiguous along K. Other operands have two ways. A kernel for sm_80 takes any operand. A copy of the operand, in a
//! launch before the GEMM, has 16-byte-aligned rows in the plan's workspace ([`Repacking`]). Gathered rows have a
//! third: a kernel that gathers them while it multiplies. The cost model chooses; `run/repack.rs` makes the copy.

use std::fmt;

use super::machine::Machine;
use crate::gemm::kernel::loading::{Multiplied, takes};
use crate::gemm::problem::{Divided, Major, OperandLayout, Problem, Reading};

/// Why an operand is copied before the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// Its rows don't begin at multiples of 16 bytes, or it is contiguous along neither axis.
    Unaligned,
    /// It is contiguous along M or N, and the instruction takes it along K only.
    Major,
    /// An index picks its rows.
    Picked,
    /// Its K is divided into groups, and it is contiguous along K.
    Parts,
}

/// Which operands are copied before the product, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repacking {
    /// Why A is copied; `None` if it is not.
    pub a: Option<Unreachable>,
    /// Why B is copied; `None` if it is not.
    pub b: Option<Unreachable>,
    /// Predicted time of the copies in microseconds.
    pub microseconds: f64,
}

fn unreachable(reading: Reading, mn_major: bool, layout: OperandLayout) -> Option<Unreachable> {
    if reading.divided() == Some(Divided::Depth) && layout.major == Major::K {
        return Some(Unreachable::Parts);
    }
    if layout.copy_bytes != 16 {
        return Some(Unreachable::Unaligned);
    }
    (!takes(mn_major, layout)).then_some(Unreachable::Major)
}

impl Repacking {
    /// The copies that a kernel with an instruction of this kind needs for operands in these layouts, with one B for each of
    /// `accumulators`; `picks`: whether it picks A's rows itself.
    pub(crate) fn of(
        machine: &Machine,
        problem: &Problem,
        (multiplied, picks): (Multiplied, bool),
        (a, b): (OperandLayout, OperandLayout),
        accumulators: usize,
    ) -> Self {
        let ((of_a, of_b), (a_along_m, b_along_n)) = (multiplied.sizes, multiplied.mn_major);
        // A copy of picked rows puts all else right, too.
        let picked = (problem.reading.is_picked() && !picks).then_some(Unreachable::Picked);
        let [a, b] = [(a_along_m, a), (b_along_n, b)].map(|(along, of)| unreachable(problem.reading, along, of));
        let a = picked.or(a);
        let cost = |why: Option<Unreachable>, outer, size| {
            why.map_or(0.0, |_| microseconds(machine, [problem.batch, outer, problem.k], size))
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 4")]
        let of_b = accumulators as f64 * cost(b, problem.n, of_b);
        Self { a, b, microseconds: cost(a, problem.m, of_a) + of_b }
    }

    /// Whether nothing is copied.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.a.is_none() && self.b.is_none()
    }

    /// The layouts of the operands after the copies. A copy keeps an operand's major if the instruction takes A along M, or B
    /// along N.
    pub(crate) fn layouts(
        &self,
        (a_along_m, b_along_n): (bool, bool),
        (a, b): (OperandLayout, OperandLayout),
    ) -> (OperandLayout, OperandLayout) {
        let copied = |why: Option<Unreachable>, layout: OperandLayout, mn_major| match why {
            None => layout,
            Some(Unreachable::Parts) => OperandLayout::packed(Major::Mn),
            Some(_) if mn_major => OperandLayout::packed(layout.major),
            Some(_) => OperandLayout::packed(Major::K),
        };
        (copied(self.a, a, a_along_m), copied(self.b, b, b_along_n))
    }

    /// [`layouts`](Self::layouts) for an existing kernel: copies get the majors that it takes.
    pub(crate) fn layouts_for(
        &self,
        majors: (Major, Major),
        (a, b): (OperandLayout, OperandLayout),
    ) -> (OperandLayout, OperandLayout) {
        let copied = |why: Option<Unreachable>, layout, major| why.map_or(layout, |_| OperandLayout::packed(major));
        (copied(self.a, a, majors.0), copied(self.b, b, majors.1))
    }
}

/// The predicted time of one copy: every byte is read and written once.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn microseconds(machine: &Machine, extents: [usize; 3], size: usize) -> f64 {
    let bytes = 2.0 * size as f64 * extents.iter().map(|extent| *extent as f64).product::<f64>();
    let per_microsecond = machine.memory_bytes_per_clock * machine.multiprocessors as f64 * machine.clock * 1e3;
    let constants = machine.constants.launches;
    constants.launch + bytes / (per_microsecond * constants.copy_share)
}

impl fmt::Display for Repacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copied = [("A", self.a), ("B", self.b)].into_iter().filter_map(|(name, why)| Some((name, why?)));
        let reason = |why| match why {
            Unreachable::Unaligned => "its rows don't begin at multiples of 16 bytes",
            Unreachable::Major => "the instruction takes it contiguous along K only",
            Unreachable::Picked => "an index picks its rows",
            Unreachable::Parts => "parts of K are loaded in rows along M or N that begin at multiples of 16 bytes",
        };
        match (copied.next(), copied.next()) {
            (None, _) => return f.write_str("no operand is copied first"),
            (Some((name, why)), None) => write!(f, "{name} is copied first ({})", reason(why))?,
            (Some((_, x)), Some((_, y))) if x == y => {
                let reason = reason(x).replacen("its", "their", 1).replacen("takes it", "takes them", 1);
                write!(f, "A and B are copied first ({reason})")?;
            }
            (Some((x, x_why)), Some((y, y_why))) => {
                write!(f, "{x} is copied first ({}) and {y} ({})", reason(x_why), reason(y_why))?;
            }
        }
        write!(f, ", about {:.1} us of it", self.microseconds)
    }
}
