//! The steps of a loop as what one lane computes: a [`Body`](crate::jit::Body).

use std::convert::Infallible;
use std::sync::Arc;

use super::Neighbours;
use crate::evt::{ParameterClass, ReduceOp, ValidTree};
use crate::expr::Op;
use crate::gemm::cpu::across::LANES;
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::program::{Program, Registers};
use crate::gemm::cpu::reduce::identity;
use crate::gemm::cpu::step::{Register, StripPlace, StripStep};
use crate::jit::{
    Binary, Body, Extreme, JitPlace, JitValue, Kernel, Lane, ROW_ARGUMENTS, RowKernel, RowProgram, Unary,
};
use crate::lane::machine::{self, Typed};
use crate::tuning::Vectors;
use crate::variants::Variants;

/// An argument of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StripBinding {
    /// Numbers in registers or accumulators; one number of a column or a single value.
    Read(StripPlace),
    /// Integers of a row of columns, which have 32 bits here; one integer of a column or a single value, of 64.
    Integers(StripPlace),
    /// Numbers or integers in a block register.
    Write(usize),
    Parameter(usize),
    Output(usize),
    /// A row's result of a reduction, and which number of it.
    Total(usize, usize),
}

/// Steps over the elements of a row, compiled.
#[derive(Debug)]
pub(super) struct RowLoop {
    /// Over neighbouring elements, for several rows that follow each other without a gap. Where reductions end with each row, or
    /// something is written past the caches, there is none.
    pub(super) elements: Option<Kernel>,
    pub(super) rows: OfRows,
    pub(super) bindings: Vec<StripBinding>,
}

/// The code of loops over rows, for each number of elements that rows had.
#[derive(Debug)]
pub(super) struct OfRows {
    program: RowProgram,
    vectors: Vectors,
    kernels: Variants<usize, Option<RowKernel>>,
}

impl OfRows {
    pub(super) fn new(program: RowProgram, vectors: Vectors) -> Self {
        Self { program, vectors, kernels: Variants::default() }
    }

    /// The code for rows of this many elements; `None` if there are no instructions for their last ones.
    pub(super) fn kernel(&self, width: usize) -> Arc<Option<RowKernel>> {
        let compile = || Ok::<_, Infallible>(RowKernel::compile(&self.program.with_lanes(width), self.vectors));
        let Ok(kernel) = self.kernels.get_or_make(&width, compile);
        kernel
    }
}

impl RowLoop {
    /// The registers of integers for every column that it reads.
    pub(super) fn integer_rows(&self) -> impl Iterator<Item = usize> {
        self.bindings.iter().filter_map(|binding| match binding {
            StripBinding::Integers(StripPlace::Row(register)) => Some(*register),
            _ => None,
        })
    }

    /// The outputs that it writes.
    pub(super) fn outputs(&self) -> impl Iterator<Item = usize> {
        self.bindings.iter().filter_map(|binding| match binding {
            StripBinding::Output(output) => Some(*output),
            _ => None,
        })
    }
}

impl Registers for RowLoop {
    fn places_mut(&mut self) -> Vec<&mut StripPlace> {
        let bindings = self.bindings.iter_mut();
        bindings
            .filter_map(|binding| if let StripBinding::Read(place) = binding { Some(place) } else { None })
            .collect()
    }

    fn results_mut(&mut self) -> Vec<&mut usize> {
        let bindings = self.bindings.iter_mut();
        bindings
            .filter_map(|binding| if let StripBinding::Write(register) = binding { Some(register) } else { None })
            .collect()
    }
}

struct Lowering<'a, T> {
    tree: &'a ValidTree,
    program: &'a Program<T>,
    neighbours: Neighbours,
    /// The values of registers so far.
    lanes: machine::Lowering<StripPlace>,
    bindings: Vec<StripBinding>,
    /// How reductions end, and where their results are.
    rows: RowProgram,
    totals: Vec<(usize, Total)>,
    /// Whether something is written past the caches.
    is_past: bool,
}

/// The result of a row.
#[derive(Clone, Copy)]
enum Total {
    /// As f64s.
    Doubles(JitPlace),
    Extreme(Extreme),
}

/// The loop of some steps, which leaves the values of some block registers in them. `None` if the CPU has no instructions
/// for it, or it has too many operands.
pub(super) fn compile<T: Arithmetic>(
    tree: &ValidTree,
    program: &Program<T>,
    (neighbours, vectors): (Neighbours, Vectors),
    steps: &[StripStep],
    left: &[Register],
) -> Option<RowLoop> {
    let (lanes, bindings) = (machine::Lowering::default(), Vec::new());
    let (rows, totals) = (RowProgram::new(0), Vec::new());
    let mut lowering = Lowering { tree, program, neighbours, lanes, bindings, rows, totals, is_past: false };
    for step in steps {
        lowering.step(step)?;
    }
    for register in left {
        let StripPlace::Block(number) = register.number else { return None };
        let value = lowering.bits(*register);
        lowering.lanes.body.store(lane_of(*register), value);
        lowering.bindings.push(StripBinding::Write(number));
    }
    lowering.finish(vectors)
}

/// The lanes of a register that steps leave or read. Integers have 32 bits.
const fn lane_of(register: Register) -> Lane {
    if register.class.is_float() { Lane::F32 } else { Lane::I32 }
}

impl<T: Arithmetic> Lowering<'_, T> {
    /// The source of a block register that only spreads a value; other registers are their own source.
    fn source(&self, register: Register) -> Register {
        let spread = |step: &StripStep| match *step {
            StripStep::Spread { to, x } if to == register => Some(x),
            _ => None,
        };
        self.program.spread.steps.iter().find_map(spread).unwrap_or(register)
    }

    fn operand(&mut self, register: Register) -> Typed {
        let register = self.source(register);
        if let Some(known) = self.lanes.get(register) {
            return known;
        }
        let constant = match register.number {
            StripPlace::Single(i) if register.class.is_float() => self.program.constants.get(i),
            _ => None,
        };
        let body = &mut self.lanes.body;
        let value = match (constant, register.number) {
            (Some(constant), _) => body.float(constant.to_f64() as f32),
            (None, StripPlace::Single(_) | StripPlace::Column(_)) => body.uniform(),
            (None, StripPlace::Row(_) | StripPlace::Block(_) | StripPlace::Accum(_)) => body.load(lane_of(register)),
        };
        // Integers in a block register are another loop's, of 32 bits.
        let is_wide = !register.class.is_float() && !matches!(register.number, StripPlace::Block(_));
        if constant.is_none() {
            let place = register.number;
            self.bindings.push(if is_wide { StripBinding::Integers(place) } else { StripBinding::Read(place) });
        }
        let typed = Typed::of(register.class, value);
        self.lanes.set(register, typed);
        typed
    }

    fn bits(&mut self, register: Register) -> JitValue {
        let typed = self.operand(register);
        self.lanes.bits(register.class, typed)
    }

    /// `None` for what there is no code for.
    fn step(&mut self, step: &StripStep) -> Option<()> {
        match *step {
            StripStep::Load { to, parameter } => {
                let parameter_of = self.tree.parameter(parameter);
                // Eight truth values are a byte.
                let is_bits = parameter_of.class == ParameterClass::Bits;
                let lane = Lane::of(parameter_of.element).filter(|_| !is_bits)?;
                self.bindings.push(StripBinding::Parameter(parameter.index()));
                let value = self.lanes.body.load(lane);
                self.lanes.set(to, Typed::of(to.class, value));
            }
            StripStep::Compute(step) => {
                for operand in step.operands() {
                    let value = self.operand(*operand);
                    self.lanes.set(*operand, value);
                }
                self.lanes.step(&step)?;
            }
            StripStep::Spread { to, x } => {
                let value = self.operand(x);
                self.lanes.set(to, value);
            }
            StripStep::Store { output, x } => {
                let valid = &self.tree.outputs()[output];
                let lane = Lane::of(valid.element).filter(|lane| !valid.packed && lane.is_float())?;
                let value = self.operand(x);
                let narrow = self.lanes.narrowed(x.class, value, lane)?;
                if self.neighbours.is_far(output) && lane.bytes() > 1 {
                    self.lanes.body.store_past(lane, narrow);
                    self.is_past = true;
                } else {
                    self.lanes.body.store(lane, narrow);
                }
                self.bindings.push(StripBinding::Output(output));
            }
            StripStep::Reduce { reduction, x } => {
                let x = self.bits(x);
                self.reduce(reduction, x)?;
            }
            StripStep::Integer { .. }
            | StripStep::Position { .. }
            | StripStep::Random { .. }
            | StripStep::StoreSums { .. } => return None,
        }
        Some(())
    }

    /// Combines a row's elements as [`accumulate`](crate::gemm::cpu::reduce::accumulate) does, with the same bits.
    fn reduce(&mut self, number: usize, x: JitValue) -> Option<()> {
        let op = self.program.reductions[number].op;
        let first = identity(op) as f32;
        let extreme = |this: &mut Self, largest: bool, x: JitValue| {
            Total::Extreme(this.lanes.body.extreme(&mut this.rows, largest, first.to_bits(), x))
        };
        let doubles = |this: &mut Self, combine: Binary, squared: bool| {
            let place = this.rows.place();
            this.lanes.body.combine_doubles((combine, first), x, squared, place, LANES as u32);
            Total::Doubles(place)
        };
        let total = match op {
            ReduceOp::Add => doubles(self, Binary::AddF64, false),
            ReduceOp::SumSquares => doubles(self, Binary::AddF64, true),
            ReduceOp::Mul => doubles(self, Binary::MulF64, false),
            ReduceOp::Max => extreme(self, true, x),
            ReduceOp::Min => extreme(self, false, x),
            ReduceOp::AbsMax => {
                let x = self.lanes.body.apply(Op::Abs, [x; 3])?;
                extreme(self, true, x)
            }
            ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::User(_) => return None,
        };
        self.totals.push((number, total));
        Some(())
    }

    /// The code. A loop with reductions has another stage, which is computed once for a row and stores their results.
    fn finish(self, vectors: Vectors) -> Option<RowLoop> {
        let Self { lanes, mut bindings, mut rows, totals, is_past, .. } = self;
        let body = lanes.body;
        let has_totals = !totals.is_empty();
        let elements = if has_totals || is_past { None } else { Some(Kernel::compile(&body, vectors)?) };
        rows.each(body);
        let mut last = Body::default();
        for (number, total) in totals {
            let total = match total {
                Total::Doubles(place) => last.held(place),
                Total::Extreme(extreme) => {
                    let value = extreme.value(&mut last);
                    last.unary(Unary::WidenLow, value)
                }
            };
            last.store(Lane::F64, total);
            bindings.push(StripBinding::Total(number, 0));
        }
        if has_totals {
            rows.once(last);
        }
        (bindings.len() <= ROW_ARGUMENTS).then_some(RowLoop { elements, rows: OfRows::new(rows, vectors), bindings })
    }
}
