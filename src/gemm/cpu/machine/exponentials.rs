//! Sums of exponentials of rows, as machine code.

use smallvec::{SmallVec, smallvec};

use super::lower::OfRows;
use crate::evt::{AtInfinity, Axis, ReduceOp};
use crate::expr::Op;
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::exponentials::at_infinity;
use crate::gemm::cpu::own::Own;
use crate::gemm::cpu::program::TileReduction;
use crate::gemm::cpu::reduce::LANES;
use crate::gemm::cpu::step::{Place, Step};
use crate::gemm::cpu::strip::{Block, Frame};
use crate::jit::{Binary, Body, Lane, ROW_ARGUMENTS, RowProgram, Unary};

/// The greatest element of each row, and the sum below it. Both are stored as [`Own`] has them.
#[derive(Debug)]
pub(super) struct Exponentials {
    at: AtInfinity,
    /// The number of the reduction, that of the maxima if they are wanted too, and what both are of.
    reduction: usize,
    maxima: Option<usize>,
    pub(super) x: Place,
    pub(super) rows: OfRows,
    /// The number of the code's arguments, and which of them have an address: the elements, again, and the two results.
    arguments: usize,
    addressed: [usize; 4],
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

    /// Of the rows of a block.
    pub(super) fn run<T: Arithmetic>(&self, block: &Block, frame: &Frame<T>, partials: &mut [Vec<f64>]) {
        let rows = block.first..block.first + block.rows;
        let elements = frame.slice(self.x, block, block.rows * block.width);
        let (greatest, sums) = Own::rows_of(&mut partials[self.reduction], rows.clone());
        let (from, apart) = (elements.as_ptr().cast_mut().cast::<u8>(), block.width * size_of::<T>());
        let [first, second] = [&mut *greatest, &mut *sums].map(|results| results.as_mut_ptr().cast::<u8>());
        let given = [(from, apart), (from, apart), (first, size_of::<f64>()), (second, size_of::<f64>())];
        let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = smallvec![std::ptr::null_mut(); self.arguments];
        let mut steps: SmallVec<[isize; ROW_ARGUMENTS]> = smallvec![0; self.arguments];
        for (argument, (address, step)) in self.addressed.into_iter().zip(given) {
            (addresses[argument], steps[argument]) = (address, step as isize);
        }
        if let Some(kernel) = self.rows.kernel(block.width).as_ref() {
            // SAFETY: elements have four bytes where there is a machine; there is a row of them, and a result, for each row.
            unsafe { kernel.run(&mut addresses, &steps, block.rows) };
        }
        at_infinity(self.at, greatest, sums);
        let both = self.maxima.map(|maxima| partials.get_disjoint_mut([self.reduction, maxima]));
        if let Some(Ok([own, maxima])) = both {
            maxima[rows.clone()].copy_from_slice(Own::rows_of(own, rows).0);
        }
    }
}
