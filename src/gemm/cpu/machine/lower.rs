//! The steps of a loop as what one lane computes: a [`Body`](crate::jit::Body).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use super::Neighbours;
use crate::evt::{ParameterClass, ReduceOp, ValidTree};
use crate::expr::Op;
use crate::gemm::cpu::across::LANES;
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::program::{Program, Registers};
use crate::gemm::cpu::reduce::identity;
use crate::gemm::cpu::step::{IntegerStep, Place, Step};
use crate::jit::{
    Binary, Body, Extreme, Kernel, Lane, Place as Held, ROW_ARGUMENTS, RowKernel, RowProgram, Unary, Value,
};
use crate::variants::Variants;

/// What an argument of the code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Numbers in registers or accumulators; one number of a column or a single value.
    Read(Place),
    /// Integers of a row of columns, which have 32 bits here; one integer of a column or a single value, of 64.
    Integers(Place),
    /// Numbers or integers in a block register.
    Write(usize),
    Parameter(usize),
    Output(usize),
    /// A row's result of a reduction, and which number of it.
    Total(usize, usize),
    /// No address.
    Nothing,
}

/// Steps over the elements of a row, compiled.
#[derive(Debug)]
pub(super) struct RowLoop {
    /// Over neighbouring elements, for several rows that follow each other without a gap. Where reductions end with each row, or
    /// something is written past the caches, there is none.
    pub(super) elements: Option<Kernel>,
    pub(super) rows: OfRows,
    pub(super) bindings: Vec<Binding>,
}

/// The code of loops over rows, for each number of elements that rows had.
#[derive(Debug)]
pub(super) struct OfRows {
    program: RowProgram,
    kernels: Variants<usize, Option<RowKernel>>,
}

impl OfRows {
    pub(super) fn new(program: RowProgram) -> Self {
        Self { program, kernels: Variants::default() }
    }

    /// The code for rows of this many elements; `None` if there are no instructions for their last ones.
    pub(super) fn kernel(&self, width: usize) -> Arc<Option<RowKernel>> {
        let compile = || Ok::<_, Infallible>(RowKernel::compile(&self.program.with_lanes(width)));
        let Ok(kernel) = self.kernels.get_or_make(&width, compile);
        kernel
    }
}

impl RowLoop {
    /// The registers of integers for every column that it reads.
    pub(super) fn integer_rows(&self) -> impl Iterator<Item = usize> {
        self.bindings.iter().filter_map(|binding| match binding {
            Binding::Integers(Place::Row(register)) => Some(*register),
            _ => None,
        })
    }

    /// The outputs that it writes.
    pub(super) fn outputs(&self) -> impl Iterator<Item = usize> {
        self.bindings.iter().filter_map(|binding| match binding {
            Binding::Output(output) => Some(*output),
            _ => None,
        })
    }
}

impl Registers for RowLoop {
    fn places_mut(&mut self) -> Vec<&mut Place> {
        let bindings = self.bindings.iter_mut();
        bindings.filter_map(|binding| if let Binding::Read(place) = binding { Some(place) } else { None }).collect()
    }

    fn results_mut(&mut self) -> Vec<&mut usize> {
        let bindings = self.bindings.iter_mut();
        bindings
            .filter_map(|binding| if let Binding::Write(register) = binding { Some(register) } else { None })
            .collect()
    }
}

/// A value of every lane.
#[derive(Clone, Copy)]
enum Typed {
    Number(Value),
    /// A mask, for the numbers 1 and 0.
    Truth(Value),
    /// An integer of 32 bits.
    Integer(Value),
}

struct Lowering<'a, T> {
    tree: &'a ValidTree,
    program: &'a Program<T>,
    neighbours: Neighbours,
    body: Body,
    bindings: Vec<Binding>,
    values: HashMap<Place, Typed>,
    /// What becomes of reductions, and where their results are.
    rows: RowProgram,
    totals: Vec<(usize, Total)>,
    /// Whether something is written past the caches.
    is_past: bool,
}

/// The result of a row.
#[derive(Clone, Copy)]
enum Total {
    /// As f64s.
    Doubles(Held),
    Extreme(Extreme),
}

/// The loop of some steps, which leaves the values of some block registers in them. `None` if the CPU has no instructions
/// for it, or it has too many operands.
pub(super) fn compile<T: Arithmetic>(
    tree: &ValidTree,
    program: &Program<T>,
    neighbours: Neighbours,
    steps: &[Step],
    left: &[usize],
) -> Option<RowLoop> {
    let (body, bindings, values) = (Body::default(), Vec::new(), HashMap::new());
    let (rows, totals) = (RowProgram::new(0), Vec::new());
    let mut lowering = Lowering { tree, program, neighbours, body, bindings, values, rows, totals, is_past: false };
    for step in steps {
        lowering.step(step)?;
    }
    for register in left {
        let place = Place::Block(*register);
        match lowering.operand(place) {
            Typed::Integer(value) => lowering.body.store(Lane::I32, value),
            typed => {
                let value = lowering.as_number(typed);
                lowering.body.store(Lane::F32, value);
            }
        }
        lowering.bindings.push(Binding::Write(*register));
    }
    let made = lowering.finish()?;
    #[cfg(test)]
    super::COMPILED.set(super::COMPILED.get() + 1);
    Some(made)
}

impl<T: Arithmetic> Lowering<'_, T> {
    /// What is spread over a block register that no block changes; other places are themselves.
    fn source(&self, place: Place) -> Place {
        let spread = |step: &Step| match *step {
            Step::Spread { to, x } | Step::Integer(IntegerStep::Spread { to, x }) if Place::Block(to) == place => {
                Some(x)
            }
            _ => None,
        };
        self.program.spread.steps.iter().find_map(spread).unwrap_or(place)
    }

    fn operand(&mut self, place: Place) -> Typed {
        let place = self.source(place);
        if let Some(known) = self.values.get(&place) {
            return *known;
        }
        let constant = match place {
            Place::Single(i) => self.program.constants.get(i),
            _ => None,
        };
        let value = match (constant, place) {
            (Some(constant), _) => self.body.float(constant.to_f64() as f32),
            (None, Place::Single(_) | Place::Column(_)) => {
                self.bindings.push(Binding::Read(place));
                self.body.uniform()
            }
            (None, Place::Row(_) | Place::Block(_) | Place::Accum(_)) => {
                self.bindings.push(Binding::Read(place));
                self.body.load(Lane::F32)
            }
        };
        self.values.insert(place, Typed::Number(value));
        Typed::Number(value)
    }

    fn as_number(&mut self, typed: Typed) -> Value {
        match typed {
            Typed::Number(value) => value,
            Typed::Truth(mask) => {
                let one = self.body.float(1.0);
                self.body.binary(Binary::And, mask, one)
            }
            // No number is an integer's place.
            Typed::Integer(value) => value,
        }
    }

    fn integer(&mut self, place: Place) -> Value {
        let place = self.source(place);
        if let Some(Typed::Integer(known)) = self.values.get(&place) {
            return *known;
        }
        let value = match place {
            Place::Single(_) | Place::Column(_) => {
                self.bindings.push(Binding::Integers(place));
                self.body.uniform()
            }
            Place::Row(_) => {
                self.bindings.push(Binding::Integers(place));
                self.body.load(Lane::I32)
            }
            // Another loop has left it.
            Place::Block(_) | Place::Accum(_) => {
                self.bindings.push(Binding::Read(place));
                self.body.load(Lane::I32)
            }
        };
        self.values.insert(place, Typed::Integer(value));
        value
    }

    /// Where a truth value holds.
    fn mask(&mut self, place: Place) -> Value {
        match self.operand(place) {
            Typed::Truth(mask) => mask,
            typed => {
                let (value, zero) = (self.as_number(typed), self.body.float(0.0));
                self.body.binary(Binary::NotEqual, value, zero)
            }
        }
    }

    fn number(&mut self, place: Place) -> Value {
        let typed = self.operand(place);
        self.as_number(typed)
    }

    /// `None` for what there is no code for.
    fn step(&mut self, step: &Step) -> Option<()> {
        let value = match *step {
            // Eight of them are a byte.
            Step::Load { parameter, .. } if self.tree.parameter(parameter).class == ParameterClass::Bits => {
                return None;
            }
            Step::Store { output, .. } if self.tree.outputs()[output].packed => return None,
            Step::Load { parameter, .. } => {
                let lane = Lane::of(self.tree.parameter(parameter).element)?;
                self.bindings.push(Binding::Parameter(parameter.index()));
                Typed::Number(self.body.load(lane))
            }
            Step::Unary { op, x, .. } => {
                let x = self.number(x);
                Typed::Number(self.body.apply(op, [x; 3])?)
            }
            Step::Binary { op, x, y, .. } => self.binary(op, x, y)?,
            Step::Ternary { op: Op::Select, x, y, z, .. } => {
                let (mask, y, z) = (self.mask(x), self.number(y), self.number(z));
                Typed::Number(self.body.select(mask, y, z))
            }
            Step::Ternary { op, x, y, z, .. } => {
                let [x, y, z] = [x, y, z].map(|place| self.number(place));
                Typed::Number(self.body.apply(op, [x, y, z])?)
            }
            Step::Round { element, x, .. } => {
                let x = self.number(x);
                Typed::Number(self.body.rounded(element, x)?)
            }
            Step::Spread { x, .. } => self.operand(x),
            Step::Store { output, x } => {
                let lane = Lane::of(self.tree.outputs()[output].element)?;
                let x = self.number(x);
                let narrow = self.body.narrowed(lane, x)?;
                if self.neighbours.is_far(output) && lane.bytes() > 1 {
                    self.body.store_past(lane, narrow);
                    self.is_past = true;
                    #[cfg(test)]
                    super::PAST.set(super::PAST.get() + 1);
                } else {
                    self.body.store(lane, narrow);
                }
                self.bindings.push(Binding::Output(output));
                return Some(());
            }
            Step::Reduce { reduction, x } => {
                let x = self.number(x);
                return self.reduce(reduction, x);
            }
            Step::Integer(step) => self.integer_step(step)?,
            Step::Random { .. } | Step::StoreSums { .. } => return None,
        };
        self.values.insert(Place::Block(step.to()?), value);
        Some(())
    }

    /// A step with integers, of which all have 32 bits.
    fn integer_step(&mut self, step: IntegerStep) -> Option<Typed> {
        Some(match step {
            IntegerStep::Load { parameter, .. } => {
                let lane = Lane::of(self.tree.parameter(parameter).element)?;
                self.bindings.push(Binding::Parameter(parameter.index()));
                Typed::Integer(self.body.load(lane))
            }
            IntegerStep::Negate { x, .. } => {
                let (zero, x) = (self.body.integer(0), self.integer(x));
                Typed::Integer(self.body.binary(Binary::SubI32, zero, x))
            }
            IntegerStep::Binary { op, x, y, .. } => {
                let op = match op {
                    Op::Add => Binary::AddI32,
                    Op::Sub => Binary::SubI32,
                    Op::Mul => Binary::MulI32,
                    Op::Min => Binary::LeastI32,
                    Op::Max => Binary::GreatestI32,
                    _ => return None,
                };
                let (x, y) = (self.integer(x), self.integer(y));
                Typed::Integer(self.body.binary(op, x, y))
            }
            IntegerStep::Compare { op, x, y, .. } => {
                let (x, y) = (self.integer(x), self.integer(y));
                // The other three are where these don't hold.
                let (of, x, y, holds) = match op {
                    Op::Lt => (Binary::GreaterI32, y, x, true),
                    Op::Le => (Binary::GreaterI32, x, y, false),
                    Op::Gt => (Binary::GreaterI32, x, y, true),
                    Op::Ge => (Binary::GreaterI32, y, x, false),
                    Op::Eq => (Binary::EqualI32, x, y, true),
                    _ => (Binary::EqualI32, x, y, false),
                };
                let mask = self.body.binary(of, x, y);
                let ones = self.body.bits(u32::MAX);
                Typed::Truth(if holds { mask } else { self.body.binary(Binary::Xor, mask, ones) })
            }
            IntegerStep::Select { c, x, y, .. } => {
                let (mask, x, y) = (self.mask(c), self.integer(x), self.integer(y));
                Typed::Integer(self.body.select(mask, x, y))
            }
            IntegerStep::ToReal { x, .. } => {
                let x = self.integer(x);
                Typed::Number(self.body.unary(Unary::Float, x))
            }
            IntegerStep::Spread { x, .. } => Typed::Integer(self.integer(x)),
            IntegerStep::Constant { .. } | IntegerStep::Position { .. } | IntegerStep::Store { .. } => return None,
        })
    }

    /// Combines a row's elements as [`accumulate`](crate::gemm::cpu::reduce::accumulate) does, with the same bits.
    fn reduce(&mut self, number: usize, x: Value) -> Option<()> {
        let op = self.program.reductions[number].op;
        let first = identity(op) as f32;
        let extreme = |this: &mut Self, largest: bool, x: Value| {
            Total::Extreme(this.body.extreme(&mut this.rows, largest, first.to_bits(), x))
        };
        let doubles = |this: &mut Self, combine: Binary, squared: bool| {
            let place = this.rows.place();
            this.body.combine_doubles((combine, first), x, squared, place, LANES as u32);
            Total::Doubles(place)
        };
        let total = match op {
            ReduceOp::Add => doubles(self, Binary::AddF64, false),
            ReduceOp::SumSquares => doubles(self, Binary::AddF64, true),
            ReduceOp::Mul => doubles(self, Binary::MulF64, false),
            ReduceOp::Max => extreme(self, true, x),
            ReduceOp::Min => extreme(self, false, x),
            ReduceOp::AbsMax => {
                let x = self.body.apply(Op::Abs, [x; 3])?;
                extreme(self, true, x)
            }
            ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::User(_) => return None,
        };
        self.bindings.resize(self.body.count_arguments(), Binding::Nothing);
        self.totals.push((number, total));
        Some(())
    }

    /// The code. A loop with reductions has another stage, which is computed once for a row and stores their results.
    fn finish(self) -> Option<RowLoop> {
        let Self { body, mut bindings, mut rows, totals, is_past, .. } = self;
        let has_totals = !totals.is_empty();
        let elements = if has_totals || is_past { None } else { Some(Kernel::compile(&body)?) };
        rows.each(body);
        let (mut last, first) = (Body::default(), bindings.len());
        for (number, total) in totals {
            let total = match total {
                Total::Doubles(place) => last.held(place),
                Total::Extreme(extreme) => {
                    let value = extreme.value(&mut last);
                    last.unary(Unary::WidenLow, value)
                }
            };
            bindings.resize(first + last.count_arguments(), Binding::Nothing);
            last.store(Lane::F64, total);
            bindings.push(Binding::Total(number, 0));
        }
        if has_totals {
            rows.once(last);
        }
        (bindings.len() <= ROW_ARGUMENTS).then_some(RowLoop { elements, rows: OfRows::new(rows), bindings })
    }

    fn binary(&mut self, op: Op, x: Place, y: Place) -> Option<Typed> {
        let (x, y) = (self.operand(x), self.operand(y));
        // Conjunctions and disjunctions.
        let of_truths = match (op, x, y) {
            (Op::Mul, Typed::Truth(x), Typed::Truth(y)) => Some((Binary::And, x, y)),
            (Op::Max, Typed::Truth(x), Typed::Truth(y)) => Some((Binary::Or, x, y)),
            _ => None,
        };
        if let Some((op, x, y)) = of_truths {
            return Some(Typed::Truth(self.body.binary(op, x, y)));
        }
        let (x, y) = (self.as_number(x), self.as_number(y));
        Some(match self.body.compare(op, x, y) {
            Some(mask) => Typed::Truth(mask),
            None => Typed::Number(self.body.apply(op, [x, y, y])?),
        })
    }
}
