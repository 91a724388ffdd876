//! The strip program: an epilogue as a list of steps over registers that each hold a strip of elements.
//!
//! A block register holds some rows of a tile, at most [`STRIP`](super::tile::STRIP) elements. They stay in the
//! first-level cache from the load to the store. Row vectors (the same in every row), column vectors and single values
//! are computed once per tile and spread over block registers.

use std::collections::HashMap;
use std::sync::Arc;

use super::element::Arithmetic;
use super::lower::{Id, Lowered, LoweredKind};
use super::own::Own;
use super::step::{Register, StripPlace, StripStep};
use crate::evt::{Axis, BroadcastClass, Conditions, OutputKind, ReduceOp, ValidTree};
use crate::lane::{self, Class, Operation};

/// A reduction over a tile.
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
    pub(super) steps: Vec<StripStep>,
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
    pub(super) values: Vec<StripStep>,
    pub(super) reductions: Vec<TileReduction>,
    /// The accumulators that steps read.
    pub(super) accumulators: Vec<usize>,
    /// Conditions on positions that say which elements need accumulators; `None` if all do.
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
            registers: vec![None; lowered.values.len()],
            spreads: HashMap::new(),
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
    registers: Vec<Option<Register>>,
    /// The block registers with spread copies of values of smaller extent.
    spreads: HashMap<Register, Register>,
    program: Program<T>,
}

/// A step of the work list.
enum Task {
    /// Compute its operands and then the value itself, if it has no register yet.
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
            if let LoweredKind::Constant(x) = value.kind {
                let number = StripPlace::Single(self.program.constants.len());
                self.registers[id] = Some(Register { class: T::CLASS, number });
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

    /// The class of a value's register.
    fn class(&self, id: Id) -> Class {
        if self.lowered.values[id].integer { Class::I64 } else { T::CLASS }
    }

    /// Adds the step that `make` creates for a new register.
    fn emit(&mut self, extent: BroadcastClass, class: Class, make: impl FnOnce(Register) -> StripStep) -> Register {
        let section = self.section(extent);
        let number = section.registers;
        section.registers += 1;
        let number = match extent {
            BroadcastClass::Scalar => StripPlace::Single(number),
            BroadcastClass::RowVector => StripPlace::Row(number),
            BroadcastClass::ColumnVector => StripPlace::Column(number),
            BroadcastClass::Tensor => StripPlace::Block(TEMPORARY + number),
        };
        let to = Register { class, number };
        section.steps.push(make(to));
        to
    }

    /// The register of a value, which is computed at its first use: its operands from left to right, each with its extent.
    /// (It uses a work list, since an expression may be deeper than a thread's stack.)
    fn value(&mut self, id: Id) -> Register {
        let mut tasks = vec![Task::Compute(id)];
        let mut operands = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Compute(id) if self.registers[id].is_some() => {}
                Task::Compute(id) => {
                    tasks.push(Task::Apply(id));
                    for &operand in self.lowered.values[id].kind.operands().iter().rev() {
                        tasks.extend([Task::Operand { operand, of: id }, Task::Compute(operand)]);
                    }
                }
                Task::Operand { operand, of } => operands.push(self.operand(operand, of)),
                Task::Apply(id) => {
                    let first = operands.len() - self.lowered.values[id].kind.operands().len();
                    self.registers[id] = Some(self.apply(id, &operands[first..]));
                    operands.truncate(first);
                }
            }
        }
        self.register(id)
    }

    /// The register of a value that has been computed. Constants have theirs from the start.
    fn register(&self, id: Id) -> Register {
        self.registers[id].unwrap_or(Register { class: self.class(id), number: StripPlace::Single(0) })
    }

    /// Adds the step of a value whose operands are computed.
    fn apply(&mut self, id: Id, operands: &[Register]) -> Register {
        let value = self.lowered.values[id];
        let (extent, class) = (value.class, self.class(id));
        match value.kind {
            LoweredKind::Accum(i) => Register { class, number: StripPlace::Accum(i) },
            LoweredKind::Constant(_) => self.register(id),
            LoweredKind::Integer(value) => self.emit(extent, class, |to| StripStep::Integer { to, value }),
            LoweredKind::Position(position) => self.emit(extent, class, |to| StripStep::Position { to, position }),
            LoweredKind::Random(seed, stream) => self.emit(extent, class, |to| StripStep::Random { to, seed, stream }),
            LoweredKind::Parameter(parameter) => self.emit(extent, class, |to| StripStep::Load { to, parameter }),
            LoweredKind::Compute(operation, _) => {
                self.emit(extent, class, |to| StripStep::Compute(lane::LaneStep::new(operation, to, operands)))
            }
        }
    }

    /// The register of an operand, expanded to the extent of the value. Operations on two floats take single values as
    /// they are.
    fn operand(&mut self, operand: Id, of: Id) -> Register {
        let (register, of) = (self.register(operand), self.lowered.values[of]);
        let takes_single = matches!(of.kind, LoweredKind::Compute(Operation::Apply(op), _) if op.arity() == 2);
        if takes_single && register.class.is_float() && matches!(register.number, StripPlace::Single(_)) {
            return register;
        }
        self.full(register, of.class)
    }

    /// The value `x` with the extent of `extent`.
    fn full(&mut self, x: Register, extent: BroadcastClass) -> Register {
        let fits = match extent {
            BroadcastClass::Scalar => true,
            BroadcastClass::RowVector => matches!(x.number, StripPlace::Row(_)),
            BroadcastClass::ColumnVector => matches!(x.number, StripPlace::Column(_)),
            BroadcastClass::Tensor => matches!(x.number, StripPlace::Block(_) | StripPlace::Accum(_)),
        };
        if fits {
            return x;
        }
        let step = |to: Register| StripStep::Spread { to, x };
        if extent != BroadcastClass::Tensor {
            return self.emit(extent, x.class, step);
        }
        if let Some(&spread) = self.spreads.get(&x) {
            return spread;
        }
        let spread = if matches!(x.number, StripPlace::Column(_)) {
            self.emit(extent, x.class, step)
        } else {
            let to = Register { class: x.class, number: StripPlace::Block(self.program.spread.registers) };
            self.program.spread.registers += 1;
            self.program.spread.steps.push(step(to));
            to
        };
        self.spreads.insert(x, spread);
        spread
    }

    fn reductions(&mut self, tree: &ValidTree) {
        for (output, valid) in tree.outputs().iter().enumerate() {
            let OutputKind::Reduce(reduction) = valid.kind else { continue };
            let x = self.value(self.lowered.outputs[output]);
            let x = self.full(x, BroadcastClass::Tensor);
            let reduction = TileReduction::new::<T>(output, reduction.axis, reduction.op);
            self.program.block.steps.push(StripStep::Reduce { reduction: self.program.reductions.len(), x });
            self.program.reductions.push(reduction);
        }
    }

    /// Adds the stores. They come after every load, because an output may overwrite an input.
    fn stores(&mut self, tree: &ValidTree) {
        let mut sums = Vec::new();
        let mut stores = Vec::new();
        for (output, valid) in tree.stores() {
            if let Some(accumulator) = tree.kept_integers(valid) {
                sums.push(StripStep::StoreSums { output, accumulator });
                continue;
            }
            let x = self.value(self.lowered.outputs[output]);
            let x = self.full(x, valid.class);
            stores.push((valid.class, StripStep::Store { output, x }));
        }
        for (class, store) in stores {
            self.section(class).steps.push(store);
        }
        self.program.block.steps.extend(sums);
    }
}

/// Reads and writes of registers.
pub(super) trait Registers {
    /// The places that are read.
    fn places_mut(&mut self) -> Vec<&mut StripPlace>;
    /// The registers that are written.
    fn results_mut(&mut self) -> Vec<&mut usize>;
}

impl Registers for StripStep {
    fn places_mut(&mut self) -> Vec<&mut StripPlace> {
        self.registers_mut().1.iter_mut().map(|operand| &mut operand.number).collect()
    }

    fn results_mut(&mut self) -> Vec<&mut usize> {
        match self.registers_mut().0 {
            Some(Register { number: StripPlace::Block(register), .. }) => vec![register],
            _ => Vec::new(),
        }
    }
}

/// Renumbers the temporary registers of the block, from `first` on. Each is free again after its last use, and the
/// result of a step never gets the register of one of its operands. Gives one past the largest number.
pub(super) fn allocate(steps: &mut [impl Registers], first: usize) -> usize {
    let mut last_use: HashMap<usize, usize> = HashMap::new();
    for (i, step) in steps.iter_mut().enumerate() {
        for place in step.places_mut() {
            if let StripPlace::Block(register) = place {
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
            let StripPlace::Block(register) = place else { continue };
            let Some(&given) = number.get(register) else { continue };
            if last_use.get(register) == Some(&i) && !free.contains(&given) {
                free.push(given);
            }
            *register = given;
        }
    }
    end
}
