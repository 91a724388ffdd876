//! What a lane of a loop computes, of steps.

use std::collections::HashMap;

use crate::evt::{ParameterClass, ValidTree};
use crate::expr::Op;
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::program::{Program, Registers};
use crate::gemm::cpu::step::{Place, Step};
use crate::jit::{Binary, Body, Kernel, Lane, Unary, Value};

/// What an argument of the code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Numbers in registers or accumulators; one number of a column or a single value.
    Read(Place),
    /// Numbers in a block register.
    Write(usize),
    Parameter(usize),
    Output(usize),
}

/// Steps over the elements of a row, compiled.
#[derive(Debug)]
pub(super) struct RowLoop {
    pub(super) kernel: Kernel,
    pub(super) bindings: Vec<Binding>,
}

impl RowLoop {
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
}

struct Lowering<'a, T> {
    tree: &'a ValidTree,
    program: &'a Program<T>,
    body: Body,
    bindings: Vec<Binding>,
    values: HashMap<Place, Typed>,
}

/// The loop of some steps, which leaves the values of some block registers in them. `None` if the CPU has no instructions
/// for it, or it has too many operands.
pub(super) fn compile<T: Arithmetic>(
    tree: &ValidTree,
    program: &Program<T>,
    steps: &[Step],
    left: &[usize],
) -> Option<RowLoop> {
    let (body, bindings, values) = (Body::of_this_cpu(), Vec::new(), HashMap::new());
    let mut lowering = Lowering { tree, program, body, bindings, values };
    for step in steps {
        lowering.step(step)?;
    }
    for register in left {
        let value = lowering.number(Place::Block(*register));
        lowering.body.store(Lane::F32, value);
        lowering.bindings.push(Binding::Write(*register));
    }
    let kernel = Kernel::compile(&lowering.body)?;
    #[cfg(test)]
    super::COMPILED.set(super::COMPILED.get() + 1);
    Some(RowLoop { kernel, bindings: lowering.bindings })
}

impl<T: Arithmetic> Lowering<'_, T> {
    /// What is spread over a block register that no block changes; other places are themselves.
    fn source(&self, place: Place) -> Place {
        let spread = |step: &Step| match *step {
            Step::Spread { to, x } if Place::Block(to) == place => Some(x),
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
            Step::Unary { op: Op::Rsqrt, x, .. } => {
                // As strips compute it: both are rounded.
                let x = self.number(x);
                let root = self.body.unary(Unary::Sqrt, x);
                Typed::Number(self.body.reciprocal(root))
            }
            Step::Unary { op, x, .. } => {
                let x = self.number(x);
                Typed::Number(self.body.apply(op, [x; 3])?)
            }
            Step::Binary { op, x, y, .. } => self.binary(op, x, y)?,
            Step::Ternary { op: Op::Select, x, y, z, .. } => {
                let (condition, y, z) = (self.operand(x), self.number(y), self.number(z));
                let mask = match condition {
                    Typed::Truth(mask) => mask,
                    Typed::Number(value) => {
                        let zero = self.body.float(0.0);
                        self.body.binary(Binary::NotEqual, value, zero)
                    }
                };
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
                self.body.store(lane, narrow);
                self.bindings.push(Binding::Output(output));
                return Some(());
            }
            Step::Random { .. } | Step::Reduce { .. } | Step::StoreSums { .. } | Step::Integer(_) => return None,
        };
        self.values.insert(Place::Block(step.to()?), value);
        Some(())
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
