//! The strip program: an epilogue as a list of steps over registers that each hold a strip of elements.
//!
//! A block register holds some rows of a tile, at most [`STRIP`](super::tile::STRIP) elements, which stay in the
//! first-level cache from the load to the store. Values that are the same in every row (row vectors), in every column
//! (column vectors) or everywhere are computed once per tile and spread over block registers.

use std::collections::HashMap;
use std::sync::Arc;

use super::element::Arithmetic;
use super::lower::{Id, Kind, Lowered};
use super::own::Own;
use super::step::{IntegerStep, Place, Step};
use crate::evt::{Axis, BroadcastClass, Conditions, OutputKind, ReduceOp, ValidTree};

/// What a reduction combines, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileReduction {
    pub(super) output: usize,
    pub(super) axis: Axis,
    pub(super) op: ReduceOp,
    /// The user's own functions, if the operation is of those.
    pub(super) own: Option<Arc<Own>>,
}

impl TileReduction {
    pub(super) fn new<T: Arithmetic>(output: usize, axis: Axis, op: ReduceOp) -> Self {
        Self { output, axis, op, own: op.user().map(|reducer| Arc::new(Own::of::<T>(reducer))) }
    }

    /// Whether it is of rows, and one number is all that there is of one.
    pub(super) fn is_number_of_row(&self) -> bool {
        self.axis == Axis::Row && self.own.is_none() && !self.op.gives_index()
    }
}

/// The steps of one extent.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) steps: Vec<Step>,
    pub(super) registers: usize,
}

/// A compiled epilogue.
#[derive(Clone, Debug)]
pub(super) struct Program<T> {
    /// The constants, which are the first of the single values.
    pub(super) constants: Vec<T>,
    /// Single values, computed once per tile; their registers include the constants.
    pub(super) singles: Section,
    /// Values of the tile's columns, computed once per tile.
    pub(super) rows: Section,
    /// Values of the tile's rows, computed once per tile.
    pub(super) columns: Section,
    /// Run once per tile, after those: fills the block registers that no block changes.
    pub(super) spread: Section,
    /// Run once per block; its registers include those of `spread`.
    pub(super) block: Section,
    /// The steps of the block before they share registers: each has its own.
    pub(super) values: Vec<Step>,
    pub(super) reductions: Vec<TileReduction>,
    /// The accumulators that steps read.
    pub(super) accumulators: Vec<usize>,
    /// What says where elements need them; `None` if that is everywhere.
    pub(super) conditions: Option<Conditions>,
    /// Whether any value is an integer.
    pub(super) has_integers: bool,
}

impl<T: Arithmetic> Program<T> {
    /// Whether anything is done for each element; else what rows and columns have is all there is.
    pub(super) fn has_elements(&self) -> bool {
        !(self.block.steps.is_empty() && self.reductions.is_empty())
    }

    /// Compiles the lowered form of `tree`.
    pub(super) fn compile(tree: &ValidTree, lowered: &Lowered<T>) -> Self {
        let mut compiler = Compiler {
            lowered,
            places: vec![None; lowered.values.len()],
            spread_places: HashMap::new(),
            program: Self {
                constants: Vec::new(),
                singles: Section::default(),
                rows: Section::default(),
                columns: Section::default(),
                spread: Section::default(),
                block: Section::default(),
                values: Vec::new(),
                reductions: Vec::new(),
                accumulators: lowered.accumulators(),
                conditions: Conditions::of(tree),
                has_integers: lowered.values.iter().any(|value| value.integer),
            },
        };
        compiler.constants();
        compiler.reductions(tree);
        compiler.stores(tree);
        let mut program = compiler.program;
        program.values.clone_from(&program.block.steps);
        program.block.registers = allocate(&mut program.block.steps, program.spread.registers);
        program
    }
}

struct Compiler<'a, T> {
    lowered: &'a Lowered<T>,
    places: Vec<Option<Place>>,
    /// The block registers with spread copies of values of smaller extent.
    spread_places: HashMap<Place, Place>,
    program: Program<T>,
}

/// A step of the work list.
enum Task {
    /// Compute its operands and then the value itself, if it has no place yet.
    Compute(Id),
    /// Use an operand that has been computed.
    Operand { operand: Id, of: Id },
    /// Compute the value, whose operands are computed.
    Apply(Id),
}

/// Block registers above this are temporary, and renumbered by [`allocate`].
const TEMPORARY: usize = 1 << 20;

impl<T: Arithmetic> Compiler<'_, T> {
    fn constants(&mut self) {
        for (id, value) in self.lowered.values.iter().enumerate() {
            if let Kind::Constant(x) = value.kind {
                self.places[id] = Some(Place::Single(self.program.constants.len()));
                self.program.constants.push(x);
            }
        }
        self.program.singles.registers = self.program.constants.len();
    }

    fn section(&mut self, class: BroadcastClass) -> &mut Section {
        match class {
            BroadcastClass::Scalar => &mut self.program.singles,
            BroadcastClass::RowVector => &mut self.program.rows,
            BroadcastClass::ColumnVector => &mut self.program.columns,
            BroadcastClass::Tensor => &mut self.program.block,
        }
    }

    /// Adds the step that `make` creates for a new register.
    fn emit(&mut self, class: BroadcastClass, make: impl FnOnce(usize) -> Step) -> Place {
        let section = self.section(class);
        let register = section.registers;
        section.registers += 1;
        let (register, place) = match class {
            BroadcastClass::Scalar => (register, Place::Single(register)),
            BroadcastClass::RowVector => (register, Place::Row(register)),
            BroadcastClass::ColumnVector => (register, Place::Column(register)),
            BroadcastClass::Tensor => (TEMPORARY + register, Place::Block(TEMPORARY + register)),
        };
        section.steps.push(make(register));
        place
    }

    /// The place of a value, which is computed at its first use: its operands from left to right, each with its extent.
    /// (It uses a work list, since an expression may be deeper than a thread's stack.)
    fn value(&mut self, id: Id) -> Place {
        let mut tasks = vec![Task::Compute(id)];
        let mut operands = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Compute(id) if self.places[id].is_some() => {}
                Task::Compute(id) => {
                    tasks.push(Task::Apply(id));
                    for operand in self.lowered.values[id].kind.operands().into_iter().rev() {
                        tasks.extend([Task::Operand { operand, of: id }, Task::Compute(operand)]);
                    }
                }
                Task::Operand { operand, of } => operands.push(self.operand(operand, of)),
                Task::Apply(id) => {
                    let first = operands.len() - self.lowered.values[id].kind.operands().len();
                    self.places[id] = Some(self.apply(id, &operands[first..]));
                    operands.truncate(first);
                }
            }
        }
        self.place(id)
    }

    /// The place of a value that has been computed. Constants have theirs from the start.
    fn place(&self, id: Id) -> Place {
        self.places[id].unwrap_or(Place::Single(0))
    }

    /// Adds the step of a value whose operands are computed.
    fn apply(&mut self, id: Id, operands: &[Place]) -> Place {
        let value = self.lowered.values[id];
        let class = value.class;
        match value.kind {
            Kind::Accum(i) => Place::Accum(i),
            Kind::Constant(_) => self.place(id),
            Kind::Integer(value) => self.emit(class, |to| Step::Integer(IntegerStep::Constant { to, value })),
            Kind::Position(position) => self.emit(class, |to| Step::Integer(IntegerStep::Position { to, position })),
            Kind::Random(seed, stream) => self.emit(class, |to| Step::Random { to, seed, stream }),
            Kind::ToReal(_) => self.emit(class, |to| Step::Integer(IntegerStep::ToReal { to, x: operands[0] })),
            _ if self.of_integers(id) => self.integer(id, operands),
            Kind::Parameter(parameter) => self.emit(class, |to| Step::Load { to, parameter }),
            Kind::Unary(op, _) => self.emit(class, |to| Step::Unary { to, op, x: operands[0] }),
            Kind::Round(element, _) => self.emit(class, |to| Step::Round { to, element, x: operands[0] }),
            Kind::Binary(op, ..) => self.emit(class, |to| Step::Binary { to, op, x: operands[0], y: operands[1] }),
            Kind::Ternary(op, ..) => {
                let (x, y, z) = (operands[0], operands[1], operands[2]);
                self.emit(class, |to| Step::Ternary { to, op, x, y, z })
            }
        }
    }

    /// Whether a value is an integer or is computed from integers.
    fn of_integers(&self, id: Id) -> bool {
        let value = self.lowered.values[id];
        value.integer || value.kind.operands().last().is_some_and(|&operand| self.lowered.values[operand].integer)
    }

    /// Adds the step of a value that is [computed from integers](Self::of_integers).
    fn integer(&mut self, id: Id, operands: &[Place]) -> Place {
        let value = self.lowered.values[id];
        self.emit(value.class, |to| {
            Step::Integer(match (value.kind, operands) {
                (Kind::Binary(op, ..), &[x, y]) if op.is_comparison() => IntegerStep::Compare { to, op, x, y },
                (Kind::Binary(op, ..), &[x, y]) => IntegerStep::Binary { to, op, x, y },
                (Kind::Ternary(..), &[c, x, y]) => IntegerStep::Select { to, c, x, y },
                (Kind::Unary(..), &[x]) => IntegerStep::Negate { to, x },
                (Kind::Parameter(parameter), _) => IntegerStep::Load { to, parameter },
                _ => IntegerStep::Constant { to, value: 0 },
            })
        })
    }

    /// The place of an operand, expanded to the extent of the value. Values of at most two operands take single values
    /// as they are.
    fn operand(&mut self, operand: Id, of: Id) -> Place {
        let of = self.lowered.values[of];
        match self.place(operand) {
            single @ Place::Single(_) if !matches!(of.kind, Kind::Ternary(..)) => single,
            place => self.full(place, of.class, self.lowered.values[operand].integer),
        }
    }

    /// The same value with the extent of `class`.
    fn full(&mut self, place: Place, class: BroadcastClass, integer: bool) -> Place {
        let step = |to: usize| {
            if integer { Step::Integer(IntegerStep::Spread { to, x: place }) } else { Step::Spread { to, x: place } }
        };
        let fits = match class {
            BroadcastClass::Scalar => true,
            BroadcastClass::RowVector => matches!(place, Place::Row(_)),
            BroadcastClass::ColumnVector => matches!(place, Place::Column(_)),
            BroadcastClass::Tensor => matches!(place, Place::Block(_) | Place::Accum(_)),
        };
        if fits {
            return place;
        }
        if class != BroadcastClass::Tensor {
            return self.emit(class, step);
        }
        if let Some(&spread) = self.spread_places.get(&place) {
            return spread;
        }
        let spread = if matches!(place, Place::Column(_)) {
            self.emit(class, step)
        } else {
            let to = self.program.spread.registers;
            self.program.spread.registers += 1;
            self.program.spread.steps.push(step(to));
            Place::Block(to)
        };
        self.spread_places.insert(place, spread);
        spread
    }

    fn reductions(&mut self, tree: &ValidTree) {
        for (output, valid) in tree.outputs().iter().enumerate() {
            let OutputKind::Reduce(reduction) = valid.kind else { continue };
            let place = self.value(self.lowered.outputs[output]);
            let x = self.full(place, BroadcastClass::Tensor, false);
            let reduction = TileReduction::new::<T>(output, reduction.axis, reduction.op);
            self.program.block.steps.push(Step::Reduce { reduction: self.program.reductions.len(), x });
            self.program.reductions.push(reduction);
        }
    }

    /// Adds the stores. They come after every load, so that an output may overwrite what is read.
    fn stores(&mut self, tree: &ValidTree) {
        let mut sums = Vec::new();
        let mut stores = Vec::new();
        for (output, valid) in tree.stores() {
            if let Some(accumulator) = tree.kept_integers(valid) {
                sums.push(Step::StoreSums { output, accumulator });
                continue;
            }
            let id = self.lowered.outputs[output];
            let (place, integer) = (self.value(id), self.lowered.values[id].integer);
            let x = self.full(place, valid.class, integer);
            let store =
                if integer { Step::Integer(IntegerStep::Store { output, x }) } else { Step::Store { output, x } };
            stores.push((valid.class, store));
        }
        for (class, store) in stores {
            self.section(class).steps.push(store);
        }
        self.program.block.steps.extend(sums);
    }
}

/// What reads and writes registers.
pub(super) trait Registers {
    /// The places that are read.
    fn places_mut(&mut self) -> Vec<&mut Place>;
    /// The registers that are written.
    fn results_mut(&mut self) -> Vec<&mut usize>;
}

impl Registers for Step {
    fn places_mut(&mut self) -> Vec<&mut Place> {
        self.operands_mut().into_iter().flatten().collect()
    }

    fn results_mut(&mut self) -> Vec<&mut usize> {
        self.to_mut().into_iter().collect()
    }
}

/// Renumbers the temporary registers of the block, from `first` on. Each is free again after its last use, and the
/// result of a step never gets the register of one of its operands. Gives one past the largest number.
pub(super) fn allocate(steps: &mut [impl Registers], first: usize) -> usize {
    let mut last_use: HashMap<usize, usize> = HashMap::new();
    for (i, step) in steps.iter_mut().enumerate() {
        for place in step.places_mut() {
            if let Place::Block(register) = place {
                last_use.insert(*register, i);
            }
        }
    }
    let mut number: HashMap<usize, usize> = HashMap::new();
    let mut free: Vec<usize> = Vec::new();
    let mut end = first;
    for (i, step) in steps.iter_mut().enumerate() {
        for to in step.results_mut() {
            let given = free.pop().unwrap_or_else(|| {
                end += 1;
                end - 1
            });
            number.insert(*to, given);
            *to = given;
        }
        for place in step.places_mut() {
            let Place::Block(register) = place else { continue };
            let Some(&given) = number.get(register) else { continue };
            if last_use.get(register) == Some(&i) && !free.contains(&given) {
                free.push(given);
            }
            *register = given;
        }
    }
    end
}
