//! Sums of exponentials of rows, as machine code.

use super::lower::OfRows;
use crate::evt::{AtInfinity, Axis, ReduceOp};
use crate::expr::Op;
use crate::gemm::cpu::across::LANES;
use crate::gemm::cpu::program::TileReduction;
use crate::gemm::cpu::step::{Place, Step};
use crate::jit::{Binary, Body, Lane, RowProgram, Unary};

/// The greatest element of each row, and the sum below it. Both are stored as [`Own`](crate::gemm::cpu::own::Own) has them.
#[derive(Debug)]
pub(super) struct Exponentials {
    pub(super) at: AtInfinity,
    /// The number of the reduction, that of the maxima if they are wanted too, and what both are of.
    pub(super) reduction: usize,
    pub(super) maxima: Option<usize>,
    pub(super) x: Place,
    pub(super) rows: OfRows,
    /// The number of the code's arguments, and which of them have an address: the elements, again, and the two results.
    pub(super) arguments: usize,
    pub(super) addressed: [usize; 4],
}

impl Exponentials {
    /// Of all steps. Where maxima of the same are reduced, too, this gives them.
    pub(super) fn of_steps(steps: &[Step], reductions: &[TileReduction]) -> Vec<Self> {
        let is_maximum =
            |number: usize| reductions[number].op == ReduceOp::Max && reductions[number].is_number_of_row();
        let maxima_of = |of: Place| {
            steps.iter().find_map(|step| match *step {
                Step::Reduce { reduction, x } if x == of && is_maximum(reduction) => Some(reduction),
                _ => None,
            })
        };
        let of_step = |step: &Step| match *step {
            Step::Reduce { reduction, x } => Self::of(reduction, &reductions[reduction], maxima_of(x), x),
            _ => None,
        };
        steps.iter().filter_map(of_step).collect()
    }

    /// Whether it gives the results of a reduction.
    pub(super) fn gives(&self, reduction: usize) -> bool {
        reduction == self.reduction || Some(reduction) == self.maxima
    }

    /// `None` for a reduction that is none of these.
    fn of(number: usize, reduction: &TileReduction, maxima: Option<usize>, x: Place) -> Option<Self> {
        let at = reduction.own.as_ref()?.exponentials().filter(|_| reduction.axis == Axis::Row)?;
        let (mut rows, mut arguments, mut addressed) = (RowProgram::new(0), 0, [0; 4]);

        // The greatest element.
        let mut each = Body::default();
        let value = each.load(Lane::F32);
        let extreme = each.extreme(&mut rows, true, f32::NEG_INFINITY.to_bits(), value);
        arguments += each.count_arguments();
        rows.each(each);

        let (mut once, greatest) = (Body::default(), rows.place());
        let value = extreme.value(&mut once);
        once.leave(greatest, value);
        arguments += once.count_arguments();
        rows.once(once);

        // The sum below it.
        let (mut each, sum) = (Body::default(), rows.place());
        addressed[1] = arguments;
        let (value, subtracted) = (each.load(Lane::F32), each.held(greatest));
        let difference = each.sub(value, subtracted);
        let term = each.apply(Op::Exp, [difference; 3])?;
        each.combine_doubles((Binary::AddF64, 0.0), term, false, sum, LANES as u32);
        arguments += each.count_arguments();
        rows.each(each);

        // Both are f64s.
        let mut last = Body::default();
        let (greatest, sum) = (last.held(greatest), last.held(sum));
        let greatest = last.unary(Unary::WidenLow, greatest);
        for (value, argument) in [greatest, sum].into_iter().zip(&mut addressed[2..]) {
            *argument = arguments + last.count_arguments();
            last.store(Lane::F64, value);
        }
        arguments += last.count_arguments();
        rows.once(last);
        Some(Self { at, reduction: number, maxima, x, rows: OfRows::new(rows), arguments, addressed })
    }
}
