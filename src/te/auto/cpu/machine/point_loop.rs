//! A loop over points, and the places of the lanes that it reads and writes.

use crate::ElementType;
use crate::jit::{ARGUMENTS, Body, JitPlace, JitValue, Kernel, Lane};
use crate::lane::machine::{BodyLanes, Lowering, Typed};
use crate::lane::{Class, LaneStep, Register};
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::te::auto::cpu::elements::Elements;
use crate::te::auto::cpu::memory::Written;
use crate::te::auto::cpu::program::Program;
use crate::te::auto::cpu::registers::Registers;
use crate::tuning::Vectors;

/// The loops along which lanes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto::cpu) enum Moving {
    Inner,
    Outer,
}

/// Where the lanes of an argument of the code are.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoopBinding {
    /// Elements of a read, by its number.
    Read(usize),
    /// Elements of an output.
    Written(usize),
    /// Lanes of a register.
    Strip(Register),
    /// The one lane of a register that is the same for all points.
    Uniform(Register),
    /// The lanes of an output in a register; every point takes the next one.
    Cyclic(Register),
    /// Values that are kept for the outputs of points.
    Kept,
    /// The value of an axis, which is the first point's or all points'.
    Axis(usize, i64),
}

/// Steps over points, compiled.
#[derive(Debug)]
pub(in crate::te::auto::cpu) struct PointLoop {
    kernel: Kernel,
    bindings: Vec<LoopBinding>,
    /// The reads, by their numbers, whose elements must be in their registers' lanes.
    pub(in crate::te::auto::cpu) gathered: Vec<usize>,
    /// Whether lanes of registers are read or written, so that there are at most as many points as a register has lanes.
    pub(in crate::te::auto::cpu) is_short: bool,
}

/// The first point of a loop, and its lanes.
#[derive(Clone, Copy)]
pub(in crate::te::auto::cpu) struct At<'a> {
    pub(in crate::te::auto::cpu) outer: &'a [i64],
    pub(in crate::te::auto::cpu) inner: &'a [i64],
    /// The point's lane.
    pub(in crate::te::auto::cpu) strip: usize,
    /// The lane of what is the same for all points.
    pub(in crate::te::auto::cpu) uniform: usize,
    /// The first of the lanes that points take one after the other.
    pub(in crate::te::auto::cpu) cyclic: usize,
    /// The place among values that are kept.
    pub(in crate::te::auto::cpu) kept: usize,
}

/// Outputs that follow each other along the last of the loops over them, and the distances between their lanes.
#[derive(Clone, Copy)]
pub(in crate::te::auto::cpu) struct LoopOutputs {
    pub(in crate::te::auto::cpu) count: usize,
    pub(in crate::te::auto::cpu) uniform: usize,
    pub(in crate::te::auto::cpu) cyclic: usize,
    pub(in crate::te::auto::cpu) kept: usize,
}

/// The lanes of a type in memory, and the class of a register that holds them; `None` if vector code doesn't load them.
fn lane_of(element: ElementType) -> Option<(Lane, Class)> {
    if element == ElementType::F64 {
        return Some((Lane::F64, Class::F64));
    }
    let lane = Lane::of(element)?;
    Some((lane, if lane.is_float() { Class::F32 } else { Class::I32 }))
}

/// Makes a loop. Whatever vector code doesn't do gives `None`.
pub(in crate::te::auto::cpu) struct LoopBuilder<'a> {
    program: &'a Program,
    elements: &'a Elements,
    moving: Moving,
    lowering: Lowering,
    bindings: Vec<LoopBinding>,
    /// The reads that the caller gathers; `None` if it gathers none.
    gathered: Option<Vec<usize>>,
    /// Whether the caller finds the rows that indices choose.
    chooses: bool,
    is_short: bool,
}

impl<'a> LoopBuilder<'a> {
    pub(in crate::te::auto::cpu) fn new(program: &'a Program, elements: &'a Elements, moving: Moving) -> Self {
        let (lowering, bindings) = (Lowering::default(), Vec::new());
        Self { program, elements, moving, lowering, bindings, gathered: None, chooses: false, is_short: false }
    }

    /// This builder, for a body with these lanes; nothing may have been added yet.
    pub(in crate::te::auto::cpu) fn of_lanes(self, lanes: BodyLanes) -> Self {
        Self { lowering: Lowering::with_lanes(lanes), ..self }
    }

    /// This builder, for a caller that puts elements that are not neighbours into registers' lanes.
    pub(in crate::te::auto::cpu) fn gathering(self) -> Self {
        Self { gathered: Some(Vec::new()), ..self }
    }

    /// This builder, for a caller that finds the rows that indices choose.
    pub(in crate::te::auto::cpu) fn choosing(self) -> Self {
        Self { chooses: true, ..self }
    }

    fn levels(&self) -> (&'a [LoopLevel], &'a [LoopLevel]) {
        match self.moving {
            Moving::Inner => (&self.elements.inner, &self.elements.outer),
            Moving::Outer => (&self.elements.outer, &self.elements.inner),
        }
    }

    /// A register whose value is the same for all points, in one of its lanes.
    pub(in crate::te::auto::cpu) fn uniform(&mut self, register: Register) -> Option<()> {
        let value = Typed::narrow(register.class, self.lowering.body.uniform())?;
        self.bindings.push(LoopBinding::Uniform(register));
        self.lowering.set(register, value);
        Some(())
    }

    /// A register with a lane for each point.
    pub(in crate::te::auto::cpu) fn strip(&mut self, register: Register) -> Option<()> {
        let lane = match register.class {
            Class::F32 => Lane::F32,
            Class::I32 => Lane::I32,
            // The bits of either.
            Class::F64 | Class::I64 => Lane::F64,
        };
        let (lanes, value) = (self.lowering.lanes(), self.lowering.body.load(lane));
        let value = Typed::held(register.class, value, lanes)?;
        self.bindings.push(LoopBinding::Strip(register));
        self.lowering.set(register, value);
        self.is_short = true;
        Some(())
    }

    /// A register whose values were kept.
    pub(in crate::te::auto::cpu) fn kept(&mut self, register: Register) {
        let value = self.lowering.body.load(Lane::F32);
        self.bindings.push(LoopBinding::Kept);
        self.lowering.set(register, Typed::Float(value));
    }

    /// Keeps the values of a register.
    pub(in crate::te::auto::cpu) fn keep(&mut self, register: Register) -> Option<()> {
        let Typed::Float(value) = self.value(register).filter(|_| register.class == Class::F32)? else { return None };
        self.lowering.body.store(Lane::F32, value);
        self.bindings.push(LoopBinding::Kept);
        Some(())
    }

    /// A register with lanes that points are combined into: as many as `period`, or one for each point.
    pub(in crate::te::auto::cpu) fn state(&mut self, register: Register, period: Option<u32>) -> Option<usize> {
        let (argument, value) = match period {
            Some(period) => {
                self.bindings.push(LoopBinding::Cyclic(register));
                self.lowering.body.cyclic(period)
            }
            None => {
                self.is_short = true;
                self.bindings.push(LoopBinding::Strip(register));
                self.lowering.body.updated()
            }
        };
        let lanes = self.lowering.lanes();
        self.lowering.set(register, Typed::held(register.class, value, lanes)?);
        Some(argument)
    }

    /// Sets a [`state`](Self::state) to the value of another register, if a condition holds.
    pub(in crate::te::auto::cpu) fn set_state(
        &mut self,
        argument: usize,
        state: Register,
        result: Register,
        condition: Option<Register>,
    ) -> Option<()> {
        let mut value = self.value(result)?;
        if let Some(condition) = condition {
            let (condition, old) = (self.value(condition)?, self.value(state)?);
            let mask = self.lowering.mask(condition);
            value = self.lowering.select(state.class, mask, value, old);
        }
        let bits = self.lowering.wide_bits(state.class, value)?;
        self.lowering.body.set(argument, bits);
        Some(())
    }

    /// Adds steps. Their operands are known registers, constants, or reads of each point.
    pub(in crate::te::auto::cpu) fn steps(&mut self, steps: &[LaneStep]) -> Option<()> {
        for step in steps {
            for operand in step.operands() {
                self.value(*operand)?;
            }
            self.lowering.step(step)?;
        }
        Some(())
    }

    fn value(&mut self, register: Register) -> Option<Typed> {
        if let Some(value) = self.lowering.get(register) {
            return Some(value);
        }
        let constant = self.program.constants.iter().find(|(known, _)| *known == register);
        let value = match constant {
            Some((_, constant)) => self.lowering.constant(register.class, *constant)?,
            None => self.input(register)?,
        };
        self.lowering.set(register, value);
        Some(value)
    }

    /// A value that is read for each point.
    fn input(&mut self, register: Register) -> Option<Typed> {
        let (moving, _) = self.levels();
        if let Some((axis, least)) = self.elements.axis(register) {
            let is_last = moving.last().is_some_and(|level| level.axis == Some(axis));
            self.bindings.push(LoopBinding::Axis(axis, least));
            let body = &mut self.lowering.body;
            let value = if is_last { body.counter() } else { body.uniform() };
            let is_held = register.class == Class::I32 && self.lowering.lanes() != BodyLanes::Wide;
            return is_held.then_some(Typed::Integer(value));
        }
        let (number, element, step) = if self.chooses {
            self.elements.row(register)?
        } else {
            let (number, affine) = self.elements.affine_part(register)?;
            (number, affine.element, moving.last().map_or(0, |level| level.reads[affine.place]))
        };
        let lane = lane_of(element).filter(|(_, class)| *class == register.class).map(|(lane, _)| lane);
        let (lanes, body) = (self.lowering.lanes(), &mut self.lowering.body);
        let value = match (step, lane, lanes) {
            (1, Some(lane), BodyLanes::Narrow) if lane != Lane::F64 => body.load(lane),
            (1, Some(lane @ (Lane::F32 | Lane::F64)), BodyLanes::Wide) => body.load(lane),
            // A single element is as it lies in memory.
            (0, Some(Lane::F32 | Lane::I32), BodyLanes::Narrow | BodyLanes::Equal) => body.uniform(),
            (0, Some(Lane::F64), BodyLanes::Wide | BodyLanes::Equal) => body.wide_uniform(),
            _ if self.elements.is_chosen(number) => return None,
            _ => {
                self.gathered.as_mut()?.push(number);
                self.strip(register)?;
                return self.lowering.get(register);
            }
        };
        self.bindings.push(LoopBinding::Read(number));
        Some(Typed::of(register.class, value))
    }

    /// Writes a register to an output. One that is written past the caches gets its elements from the register's lanes.
    pub(in crate::te::auto::cpu) fn write(
        &mut self,
        register: Register,
        place: usize,
        output: &Written,
        steps: &[LaneStep],
    ) -> Option<()> {
        let value = self.value(register)?;
        if output.far {
            let lane = if register.class == Class::F32 { Lane::F32 } else { Lane::I32 };
            let bits = self.lowering.bits(register.class, value);
            self.lowering.body.store(lane, bits);
            self.bindings.push(LoopBinding::Strip(register));
            self.is_short = true;
            return steps.iter().any(|step| step.to == register).then_some(());
        }
        self.write_points(register, place, output, false)
    }

    /// Writes lanes that are neighbours in an output; past the caches only if whole vectors begin at multiples of their
    /// bytes.
    pub(in crate::te::auto::cpu) fn write_points(
        &mut self,
        register: Register,
        place: usize,
        output: &Written,
        past: bool,
    ) -> Option<()> {
        let step = self.levels().0.last().map_or(1, |level| level.outputs[place]);
        if step == 1 { self.store(register, place, output, past) } else { None }
    }

    /// Writes a register's first lane, in a stage that is computed once.
    pub(super) fn write_one(&mut self, register: Register, place: usize, output: &Written) -> Option<()> {
        self.store(register, place, output, false)
    }

    fn store(&mut self, register: Register, place: usize, output: &Written, past: bool) -> Option<()> {
        let value = self.value(register)?;
        let (lane, class) = lane_of(output.element)?;
        if class != register.class {
            return None;
        }
        let narrow = self.lowering.narrowed(register.class, value, lane)?;
        if past {
            self.lowering.body.store_past(lane, narrow);
        } else {
            self.lowering.body.store(lane, narrow);
        }
        self.bindings.push(LoopBinding::Written(place));
        Some(())
    }

    /// The elements of an axis, a constant or a read in the code, as bits of a lane.
    pub(super) fn bits_of(&mut self, register: Register) -> Option<JitValue> {
        let value = self.value(register)?;
        self.lowering.wide_bits(register.class, value)
    }

    pub(super) const fn lanes(&self) -> BodyLanes {
        self.lowering.lanes()
    }

    pub(super) const fn body(&mut self) -> &mut Body {
        &mut self.lowering.body
    }

    /// A register that an earlier stage of a row program has left.
    pub(super) fn held(&mut self, register: Register, place: JitPlace) -> Option<()> {
        let lanes = self.lowering.lanes();
        self.total(register, |body| {
            let value = body.held(place);
            Typed::held(register.class, value, lanes)
        })
    }

    /// A register with a value that is computed from results of earlier stages of a row program.
    pub(super) fn total(&mut self, register: Register, of: impl FnOnce(&mut Body) -> Option<Typed>) -> Option<()> {
        let value = of(&mut self.lowering.body)?;
        self.lowering.set(register, value);
        Some(())
    }

    /// Leaves a register to later stages of a row program.
    pub(super) fn leave(&mut self, register: Register, place: JitPlace) -> Option<()> {
        let bits = self.bits_of(register)?;
        self.lowering.body.leave(place, bits);
        Some(())
    }

    /// Gives registers the values that others have now.
    pub(super) fn copies<'r>(&mut self, pairs: impl Iterator<Item = (&'r Register, &'r Register)>) -> Option<()> {
        let values: Option<Vec<(Register, Typed)>> = pairs.map(|(to, from)| Some((*to, self.value(*from)?))).collect();
        values?.into_iter().for_each(|(to, value)| self.lowering.set(to, value));
        Some(())
    }

    /// The vectors of the code.
    pub(super) const fn vectors(&self) -> Vectors {
        self.program.tuning.vectors
    }

    /// The body, and where its arguments are.
    pub(super) fn parts(self) -> (Body, Vec<LoopBinding>) {
        (self.lowering.body, self.bindings)
    }

    pub(in crate::te::auto::cpu) fn finish(self) -> Option<PointLoop> {
        self.finish_for(usize::MAX)
    }

    /// A loop that is run for `length` points at a time: by the shortest vectors if longer ones would not fit.
    pub(in crate::te::auto::cpu) fn finish_for(self, length: usize) -> Option<PointLoop> {
        let vectors = self.vectors();
        let Self { lowering, bindings, gathered, is_short, .. } = self;
        let mut kernel = Kernel::compile(&lowering.body, vectors)?;
        if kernel.lanes() > length {
            kernel = Kernel::compile(&lowering.body, Vectors::Shortest)?;
        }
        #[cfg(test)]
        super::COMPILED.set(super::COMPILED.get() + 1);
        Some(PointLoop { kernel, bindings, gathered: gathered.unwrap_or_default(), is_short })
    }
}

impl PointLoop {
    /// Computes `count` points.
    ///
    /// # Safety
    /// The points must be within the loops. Nobody else may write what is read, or access what is written, during the
    /// call. Registers must have the lanes of the points.
    pub(in crate::te::auto::cpu) unsafe fn run(
        &self,
        tensors: (&Elements, &[Written]),
        registers: &mut Registers,
        at: At<'_>,
        count: usize,
    ) {
        let rows = LoopOutputs { count: 1, uniform: 0, cyclic: 0, kept: 0 };
        // SAFETY: the caller's promise.
        unsafe { self.run_rows(tensors, registers, at, count, rows) };
    }

    /// [`run`](Self::run) for each of several outputs. From one output to the next, all addresses move by the same
    /// distance, so little is computed between them.
    ///
    /// # Safety
    /// The conditions of [`PointLoop::run`], for the points of every output.
    pub(in crate::te::auto::cpu) unsafe fn run_rows(
        &self,
        (elements, outputs): (&Elements, &[Written]),
        registers: &mut Registers,
        at: At<'_>,
        count: usize,
        rows: LoopOutputs,
    ) {
        let mut numbers = [0i32; ARGUMENTS];
        let mut addresses = self.addresses((elements, outputs), registers, at, &mut numbers);
        let mut apart = [0; ARGUMENTS];
        if rows.count > 1 {
            self.bindings.iter().zip(&mut apart).for_each(|(of, by)| *by = of.bytes_apart(elements, outputs, rows));
        }
        let addresses = &mut addresses[..self.bindings.len()];
        for _ in 0..rows.count {
            // SAFETY: the caller's promise. The builder has checked that reads and outputs have neighbouring elements
            // along the loop. The space has checked that elements of points within the loops are inside their tensors.
            unsafe { self.kernel.run(addresses, count) };
            for ((address, by), binding) in addresses.iter_mut().zip(&apart).zip(&self.bindings) {
                match *binding {
                    // SAFETY: the address of its number, which nothing else refers to.
                    LoopBinding::Axis(axis, _) if elements.outer.last().is_some_and(|last| last.axis == Some(axis)) => unsafe {
                        let number = address.cast::<i32>();
                        number.write(number.read().wrapping_add(1));
                    },
                    _ => *address = address.wrapping_offset(*by),
                }
            }
        }
    }
}

impl PointLoop {
    /// [`run`](Self::run) for code that [chooses](LoopBuilder::choosing) rows: for neighbouring rows of `length` points.
    /// `chosen` gives the address of a row's first element: for the number of a read, and that of the row.
    ///
    /// # Safety
    /// The conditions of [`PointLoop::run`]. The rows must be within their tensors.
    pub(in crate::te::auto::cpu) unsafe fn run_chosen(
        &self,
        (elements, outputs): (&Elements, &[Written]),
        registers: &mut Registers,
        at: At<'_>,
        (rows, length): (usize, usize),
        chosen: impl Fn(usize, usize) -> Option<u64>,
    ) {
        let mut numbers = [0i32; ARGUMENTS];
        let mut addresses = self.addresses((elements, outputs), registers, at, &mut numbers);
        let addresses = &mut addresses[..self.bindings.len()];
        let of_rows = elements.rows().last();
        let apart = |binding: &LoopBinding| match *binding {
            LoopBinding::Read(part) => elements.row_bytes_apart(part),
            LoopBinding::Written(place) => {
                of_rows.map_or(0, |level| level.outputs[place]) as isize * outputs[place].element.size() as isize
            }
            // The next lane.
            LoopBinding::Uniform(_) => 4,
            _ => 0,
        };
        let mut by = [0; ARGUMENTS];
        self.bindings.iter().zip(&mut by).for_each(|(binding, by)| *by = apart(binding));
        for row in 0..rows {
            for (binding, address) in self.bindings.iter().zip(&mut *addresses) {
                if let LoopBinding::Read(part) = *binding
                    && let Some(chosen) = chosen(part, row)
                {
                    *address = chosen as *mut u8;
                }
            }
            // SAFETY: the caller's promise, and what `run_rows` says of reads that aren't chosen.
            unsafe { self.kernel.run(addresses, length) };
            for ((address, by), binding) in addresses.iter_mut().zip(&by).zip(&self.bindings) {
                match *binding {
                    // SAFETY: the address of its number, which nothing else refers to.
                    LoopBinding::Axis(axis, _) if of_rows.is_some_and(|level| level.axis == Some(axis)) => unsafe {
                        let number = address.cast::<i32>();
                        number.write(number.read().wrapping_add(1));
                    },
                    _ => *address = address.wrapping_offset(*by),
                }
            }
        }
    }

    /// The addresses of the first point's lanes; `numbers` gets the values of axes.
    fn addresses(
        &self,
        (elements, outputs): (&Elements, &[Written]),
        registers: &mut Registers,
        at: At<'_>,
        numbers: &mut [i32; ARGUMENTS],
    ) -> [*mut u8; ARGUMENTS] {
        let mut addresses = [std::ptr::null_mut::<u8>(); ARGUMENTS];
        for ((binding, address), number) in self.bindings.iter().zip(&mut addresses).zip(numbers) {
            *address = match *binding {
                LoopBinding::Read(part) => elements.address(part, at.outer, at.inner) as *mut u8,
                LoopBinding::Written(place) => written(elements, outputs, place, (at.outer, at.inner)),
                LoopBinding::Strip(register) => lanes(registers, register, at.strip),
                LoopBinding::Uniform(register) => lanes(registers, register, at.uniform),
                LoopBinding::Cyclic(register) => lanes(registers, register, at.cyclic),
                LoopBinding::Kept => registers.kept[at.kept..].as_mut_ptr().cast(),
                LoopBinding::Axis(axis, least) => {
                    *number = (axis_value(elements, axis, (at.outer, at.inner)) + least) as i32;
                    std::ptr::from_mut(number).cast()
                }
            };
        }
        addresses
    }
}

impl LoopBinding {
    /// The distance between the lanes of neighbouring outputs.
    fn bytes_apart(self, elements: &Elements, outputs: &[Written], rows: LoopOutputs) -> isize {
        let last = elements.outer.last();
        let lanes = |count: usize| 4 * count as isize;
        match self {
            Self::Read(part) => elements.bytes_apart(part),
            Self::Written(place) => {
                last.map_or(0, |level| level.outputs[place]) as isize * outputs[place].element.size() as isize
            }
            Self::Uniform(_) => lanes(rows.uniform),
            Self::Cyclic(_) => lanes(rows.cyclic),
            Self::Kept => lanes(rows.kept),
            Self::Strip(_) | Self::Axis(..) => 0,
        }
    }

    /// Whether it is of another element, or of another value, for each point along the inner loops.
    pub(super) fn moves(self, elements: &Elements) -> bool {
        match self {
            Self::Read(part) => elements.moves(part),
            Self::Axis(axis, _) => elements.inner.iter().any(|level| level.axis == Some(axis)),
            _ => false,
        }
    }
}

/// The address of a point's element of an output.
pub(super) fn written(
    elements: &Elements,
    outputs: &[Written],
    place: usize,
    (outer, inner): (&[i64], &[i64]),
) -> *mut u8 {
    let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
        levels.iter().zip(index).map(|(level, i)| level.outputs[place] * i).sum()
    };
    outputs[place].target(offset(&elements.outer, outer) + offset(&elements.inner, inner), 1).address as *mut u8
}

/// The index of a point along an axis.
pub(super) fn axis_value(elements: &Elements, axis: usize, (outer, inner): (&[i64], &[i64])) -> i64 {
    let value = |levels: &[LoopLevel], index: &[i64]| -> i64 {
        let own = levels.iter().zip(index).find(|(level, _)| level.axis == Some(axis));
        own.map_or(0, |(_, i)| *i)
    };
    value(&elements.outer, outer) + value(&elements.inner, inner)
}

/// The address of a register's lane.
fn lanes(registers: &mut Registers, register: Register, lane: usize) -> *mut u8 {
    match register.class {
        Class::F32 => registers.f32s[register.number][lane..].as_mut_ptr().cast(),
        _ => registers.i32s[register.number][lane..].as_mut_ptr().cast(),
    }
}
