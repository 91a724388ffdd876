//! Sums of exponentials of rows, as machine code.

use super::lower::{OfRows, RowLoop, StripBinding};
use crate::evt::{AtInfinity, Axis, ReduceOp};
use crate::expr::Op;
use crate::gemm::cpu::across::LANES;
use crate::gemm::cpu::program::Program;
use crate::gemm::cpu::step::StripStep;
use crate::jit::{Binary, Body, Lane, RowProgram, Unary};
use crate::tuning::Vectors;

/// The greatest element of each row, and the sum below it.
#[derive(Debug)]
pub(super) struct Exponentials {
    /// The value that is subtracted in rows whose greatest element is infinite.
    pub(super) at: AtInfinity,
    pub(super) reduction: usize,
    /// Stores both as [`Own`](crate::gemm::cpu::own::Own) has them, and the first wherever maxima are wanted too.
    pub(super) rows: RowLoop,
}

/// The kind of a reduction that sums exponentials of rows; `None` for other reductions.
fn sums<T>(program: &Program<T>, reduction: usize) -> Option<AtInfinity> {
    let reduction = &program.reductions[reduction];
    reduction.own.as_ref()?.exponentials().filter(|_| reduction.axis == Axis::Row)
}

/// Whether a step gives the maxima of rows whose exponentials are summed. The loop of the sums then gives the maxima
/// too.
pub(super) fn gives_maxima_of_sums<T>(program: &Program<T>, step: &StripStep) -> bool {
    let StripStep::Reduce { reduction, x: of } = *step else { return false };
    let of_rows = &program.reductions[reduction];
    let is_of_sums = |step: &StripStep| matches!(*step, StripStep::Reduce { reduction, x } if x == of && sums(program, reduction).is_some());
    of_rows.op == ReduceOp::Max && of_rows.is_number_of_row() && program.values.iter().any(is_of_sums)
}

impl Exponentials {
    /// `None` for a step that is none of these.
    pub(super) fn of<T>(program: &Program<T>, step: &StripStep, vectors: Vectors) -> Option<Self> {
        let StripStep::Reduce { reduction, x } = *step else { return None };
        let at = sums(program, reduction)?;
        let maxima = program.values.iter().filter_map(|step| match *step {
            StripStep::Reduce { reduction, x: of } if of == x && gives_maxima_of_sums(program, step) => Some(reduction),
            _ => None,
        });
        let (mut rows, mut bindings) = (RowProgram::new(0), Vec::new());
        let mut each = Body::default();
        bindings.push(StripBinding::Read(x.number));
        let value = each.load(Lane::F32);
        let extreme = each.extreme(&mut rows, true, f32::NEG_INFINITY.to_bits(), value);
        rows.each(each);

        let (mut once, greatest) = (Body::default(), rows.place());
        let value = extreme.value(&mut once);
        once.leave(greatest, value);
        rows.once(once);

        let (mut each, sum) = (Body::default(), rows.place());
        bindings.push(StripBinding::Read(x.number));
        let (value, subtracted) = (each.load(Lane::F32), each.held(greatest));
        let difference = each.sub(value, subtracted);
        let term = each.apply(Op::Exp, [difference; 3])?;
        each.combine_doubles((Binary::AddF64, 0.0), term, false, sum, LANES as u32);
        rows.each(each);

        let mut last = Body::default();
        let (greatest, sum) = (last.held(greatest), last.held(sum));
        let greatest = last.unary(Unary::WidenLow, greatest);
        let of_maxima = maxima.map(|reduction| (greatest, StripBinding::Total(reduction, 0)));
        let own = [(greatest, StripBinding::Total(reduction, 0)), (sum, StripBinding::Total(reduction, 1))];
        for (value, binding) in own.into_iter().chain(of_maxima) {
            last.store(Lane::F64, value);
            bindings.push(binding);
        }
        rows.once(last);
        Some(Self { at, reduction, rows: RowLoop { elements: None, rows: OfRows::new(rows, vectors), bindings } })
    }
}
