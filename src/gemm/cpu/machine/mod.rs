//! An epilogue's steps as machine code: the steps on the elements of a row become one loop, from memory to memory,
//! whatever their number.
//!
//! A column's value, or a single one, is the same for all lanes of a loop; a row vector has lanes of its own. Nothing
//! is spread. Other steps stay steps, with the same bits: integers that are stored or have 64 bits, other element
//! types, elements that are not neighbours. Reductions stay steps too, except reductions of a row to a number: they end
//! with each row of a loop. Steps read the block registers that a loop has left.
//!
//! Strips serve CPUs without the code, and tiles too small to compile for; tests compare the code's bits with theirs.
//!
//! `schedule` (steps → loops' steps, and others) → `lower` (what a lane computes) → `run`.

mod exponentials;
mod lower;
mod run;
mod schedule;

use self::exponentials::Exponentials;
use self::lower::RowLoop;
use self::schedule::Draft;
use super::element::{Arithmetic, View};
use super::program::{Program, Registers, allocate};
use super::step::{Register, StripPlace, StripStep};
use crate::evt::ValidTree;
use crate::jit;
use crate::tuning::{MachineCode, Tuning};

/// From this many elements on, code is compiled, which takes as long as some 10⁵ steps of elements.
pub(super) const WORTH: usize = 1 << 17;

/// The matrices with rows of neighbouring elements, one stride apart and of the tree's types: a bit for each of the
/// first matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Neighbours {
    parameters: u32,
    outputs: u32,
    /// The outputs that are written by non-temporal stores (past the caches).
    far: u32,
}

impl Neighbours {
    /// `is_far`: whether an output is written past the caches, by whole vectors that begin at multiples of their bytes.
    pub(super) fn of(tree: &ValidTree, parameters: &[View], outputs: &[View], is_far: impl Fn(&View) -> bool) -> Self {
        let bits = |views: &[View], element: &dyn Fn(usize) -> crate::ElementType| {
            let fits = |(i, view): &(usize, &View)| {
                view.strides[2] == 1 && view.digits.is_none() && view.element == element(*i)
            };
            views.iter().take(32).enumerate().filter(fits).fold(0, |bits, (i, _)| bits | 1u32 << i)
        };
        let far = outputs.iter().take(32).enumerate().filter(|(_, view)| is_far(view));
        Self {
            parameters: bits(parameters, &|i| tree.parameters()[i].element),
            outputs: bits(outputs, &|i| tree.outputs()[i].element),
            far: far.fold(0, |bits, (i, _)| bits | 1u32 << i),
        }
    }

    const fn has_parameter(self, number: usize) -> bool {
        number < 32 && self.parameters >> number & 1 == 1
    }

    const fn has_output(self, number: usize) -> bool {
        number < 32 && self.outputs >> number & 1 == 1
    }

    const fn is_far(self, number: usize) -> bool {
        number < 32 && self.far >> number & 1 == 1
    }
}

/// A loop or step of every block.
#[derive(Debug)]
enum Item {
    Loop(RowLoop),
    Exponentials(Exponentials),
    Step(StripStep),
}

/// The steps of blocks, as far as possible compiled, for matrices that lie in a certain way.
#[derive(Debug)]
pub(super) struct Machine {
    items: Vec<Item>,
    code: MachineCode,
    /// Fills the block registers that no block changes, once per tile.
    spread: Vec<StripStep>,
    /// The number of block registers.
    registers: usize,
    /// The outputs that loops write.
    outputs: Vec<usize>,
    /// The registers of integers for every column that loops read.
    integer_rows: Vec<usize>,
}

impl Machine {
    /// `None` if there is nothing to compile, or there are no vector instructions for it.
    pub(super) fn compile<T: Arithmetic>(
        tree: &ValidTree,
        program: &Program<T>,
        neighbours: Neighbours,
        tuning: Tuning,
    ) -> Option<Self> {
        // Loops are of f32s.
        if size_of::<T>() != size_of::<f32>() || !jit::has_code() {
            return None;
        }
        let drafts = schedule::drafts(tree, program, neighbours);
        let is_read_by_step = |register: Register| {
            let reads = |draft: &Draft| matches!(draft, Draft::Step(step) if step.operands().contains(&register));
            drafts.iter().any(reads)
        };
        let is_needed = |step: &&StripStep| step.to().is_some_and(is_read_by_step);
        let spread = program.spread.steps.iter().filter(is_needed).copied().collect();
        let mut items = Vec::with_capacity(drafts.len());
        let (mut outputs, mut integer_rows) = (Vec::new(), Vec::new());
        for (number, draft) in drafts.iter().enumerate() {
            items.push(match draft {
                Draft::Step(step) => {
                    Exponentials::of(program, step, tuning.vectors).map_or(Item::Step(*step), Item::Exponentials)
                }
                Draft::Loop(steps) => {
                    let left = schedule::left_by(&drafts, number);
                    let compiled = lower::compile(tree, program, (neighbours, tuning.vectors), steps, &left)?;
                    outputs.extend(compiled.outputs());
                    integer_rows.extend(compiled.integer_rows());
                    Item::Loop(compiled)
                }
            });
        }
        if items.iter().all(|item| matches!(item, Item::Step(_))) {
            return None;
        }
        let registers = allocate(&mut items, program.spread.registers);
        Some(Self { items, code: tuning.code, spread, registers, outputs, integer_rows })
    }
}

impl Registers for Item {
    fn places_mut(&mut self) -> Vec<&mut StripPlace> {
        match self {
            Self::Loop(of_rows) => of_rows.places_mut(),
            Self::Exponentials(sums) => sums.rows.places_mut(),
            Self::Step(step) => step.places_mut(),
        }
    }

    fn results_mut(&mut self) -> Vec<&mut usize> {
        match self {
            Self::Loop(of_rows) => of_rows.results_mut(),
            Self::Exponentials(sums) => sums.rows.results_mut(),
            Self::Step(step) => step.results_mut(),
        }
    }
}
