//! Fills registers with what the points of a strip read: affine elements, values of axes, and elements at computed
//! indices.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::computed::{Computed, GatherTarget};
use super::memory::{LaneRun, MemoryRows, decode, origin, read, runs};
use super::program::Program;
use super::registers::Registers;
use crate::ElementType;
use crate::lane::{Class, Register};
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{LoopLevel, Space};
use crate::te::auto::pattern::reads::Read;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;

/// Nested loops.
pub(in crate::te::auto) type Loops = Arc<[LoopLevel]>;

/// The reads of elements at the points of some loops.
pub(in crate::te::auto) struct Elements {
    /// The outer loops and the inner loops.
    pub(in crate::te::auto) outer: Loops,
    pub(in crate::te::auto) inner: Loops,
    parts: Vec<Part>,
    axes: Vec<(Register, usize, i64)>,
}

/// One read, and its strides.
struct Part {
    to: Register,
    place: usize,
    element: ElementType,
    /// The number of the tensor among the arguments.
    argument: usize,
    /// The address of the first point's element; for computed indices, that of the tensor's first element.
    address: u64,
    computed: Option<Computed>,
}

/// A read at affine indices.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) struct Affine {
    /// Its number.
    pub(in crate::te::auto) place: usize,
    /// The number of the tensor among the arguments.
    pub(in crate::te::auto) argument: usize,
    pub(in crate::te::auto) element: ElementType,
    /// Address of the first point's element.
    pub(in crate::te::auto) address: u64,
}

/// Which points are the lanes of a strip.
#[derive(Clone, Copy)]
pub(in crate::te::auto) enum Along<'a> {
    /// Inner points, in runs, of the outer point with these indices.
    Inner(&'a [i64], &'a [LaneRun]),
    /// Outer points, in runs, of the inner point with these indices.
    Outer(&'a [LaneRun], &'a [i64]),
    /// The first points of rows, in runs: points of the inner loops without the last, where that begins.
    Rows(&'a [LaneRun]),
    /// Points of the only inner loop at a constant distance from each other, of the outer point with these indices.
    Every(&'a [i64], &'a [LaneRun], i64),
}

/// The lanes of a strip: runs of points along the last of the `moving` loops, each `scale` points from its neighbour. The
/// index of the other loops is the same for all.
pub(in crate::te::auto) struct StripLanes<'a> {
    pub(in crate::te::auto) runs: &'a [LaneRun],
    pub(in crate::te::auto) moving: &'a [LoopLevel],
    pub(in crate::te::auto) still: (&'a [LoopLevel], &'a [i64]),
    pub(in crate::te::auto) scale: i64,
}

impl<'a> Along<'a> {
    pub(in crate::te::auto) fn lanes(self, outer: &'a [LoopLevel], inner: &'a [LoopLevel]) -> StripLanes<'a> {
        match self {
            Along::Inner(index, runs) => StripLanes { runs, moving: inner, still: (outer, index), scale: 1 },
            Along::Outer(runs, index) => StripLanes { runs, moving: outer, still: (inner, index), scale: 1 },
            Along::Rows(runs) => StripLanes { runs, moving: rows_of(inner), still: (&[], &[]), scale: 1 },
            Along::Every(index, runs, scale) => StripLanes { runs, moving: inner, still: (outer, index), scale },
        }
    }
}

/// The loops over rows of neighbouring points: all loops but the last.
fn rows_of(loops: &[LoopLevel]) -> &[LoopLevel] {
    loops.split_last().map_or(&[], |(_, rows)| rows)
}

impl Part {
    const fn target(&self) -> GatherTarget {
        GatherTarget { to: self.to, element: self.element, address: self.address }
    }
}

impl Affine {
    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.address = self.address.wrapping_add_signed(by[self.argument]);
    }
}

impl Elements {
    /// The reads `places` and the used axes, as registers of `program`. The program's steps so far are dropped.
    #[expect(clippy::too_many_arguments, reason = "all of them describe the kernel")]
    pub(in crate::te::auto) fn new(
        program: &mut Program,
        axes: &[Axis],
        reads: &[Read],
        places: impl IntoIterator<Item = usize>,
        space: &Space,
        used: &[bool],
        (outer, inner): (&Loops, &Loops),
        parameters: &[Tensor],
        bound: &BoundTensors<'_>,
    ) -> Result<Self, TeError> {
        let (outer, inner) = (Arc::clone(outer), Arc::clone(inner));
        let mut elements = Self { outer, inner, parts: Vec::new(), axes: Vec::new() };
        for (axis, is_used) in used.iter().enumerate() {
            if *is_used {
                elements.axes.push((program.variable(axes[axis].var()), axis, space.minima[axis]));
            }
        }
        for place in places {
            let argument = parameters.iter().position(|parameter| *parameter == reads[place].tensor);
            let given = argument.and_then(|argument| Some((argument, *bound.tensors.get(argument)?)));
            let missing = || LoweringError::MissingArgument { tensor: reads[place].tensor.name(), what: "an input" };
            let (argument, tensor) = given.ok_or_else(missing)?;
            let element = tensor.element_type();
            let (address, computed) = match &space.reads[place] {
                Some(steps) => (steps.address, None),
                None => {
                    let last = elements.inner.last().and_then(|level| level.axis).map(|axis| axes[axis].var());
                    let stands = |part: &Part, var| reads[part.place].var == var && !elements.part_moves(part);
                    let is_same = |var: Var| {
                        let (mut axes, mut parts) = (axes.iter(), elements.parts.iter());
                        !var.is_counter() || axes.any(|axis| axis.var() == var) || parts.any(|part| stands(part, var))
                    };
                    let computed = Computed::new(program, &reads[place], &bound.sizes, tensor, last, is_same)?;
                    (tensor.device_address(), Some(computed))
                }
            };
            let to = program.variable(reads[place].var);
            elements.parts.push(Part { to, place, element, argument, address, computed });
        }
        Ok(elements)
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        for part in &mut self.parts {
            part.address = part.address.wrapping_add_signed(by[part.argument]);
        }
    }

    /// Reads the elements for `count` lanes.
    ///
    /// # Safety
    /// The points must be within the loops, and nobody else may write the tensors during the call.
    pub(in crate::te::auto) unsafe fn fill(
        &self,
        registers: &mut Registers,
        along: Along<'_>,
        count: usize,
    ) -> Result<(), TeError> {
        for (register, axis, least) in &self.axes {
            self.fill_axis(registers, *register, *axis, *least, along);
        }
        for part in &self.parts {
            match &part.computed {
                // SAFETY: the space has checked that affine reads of points within the loops are inside their tensors.
                None => unsafe { self.fill_affine(registers, part, along) },
                // SAFETY: the caller's promise.
                Some(computed) => unsafe {
                    match along {
                        Along::Inner(_, runs) => computed.fill_runs(registers, part.target(), runs, count),
                        _ => computed.fill(registers, part.target(), count),
                    }?;
                },
            }
        }
        Ok(())
    }

    /// The affine read that alone fills a register, if there is one.
    pub(in crate::te::auto) fn affine(&self, register: Register) -> Option<Affine> {
        let part = self.parts.iter().find(|part| part.to == register && part.computed.is_none())?;
        let Part { place, argument, element, address, .. } = *part;
        Some(Affine { place, argument, element, address })
    }

    /// [`affine`](Self::affine), with its number among these reads.
    pub(in crate::te::auto) fn affine_part(&self, register: Register) -> Option<(usize, Affine)> {
        let number = self.parts.iter().position(|part| part.to == register)?;
        Some((number, self.affine(register)?))
    }

    /// For a register that one read fills alone: the number of the read, its type, and the distance between elements of
    /// neighbouring points. The distance is along the inner loops, if it is known.
    pub(in crate::te::auto) fn row(&self, register: Register) -> Option<(usize, ElementType, i64)> {
        let number = self.parts.iter().position(|part| part.to == register)?;
        let part = &self.parts[number];
        let step = match &part.computed {
            Some(computed) => computed.step()?,
            None => self.inner.last().map_or(0, |level| level.reads[part.place]),
        };
        Some((number, part.element, step))
    }

    /// Whether an index chooses the elements of a read, by its number.
    pub(in crate::te::auto) fn is_chosen(&self, part: usize) -> bool {
        self.parts[part].computed.is_some()
    }

    /// Whether the distance between the elements of neighbouring points along the inner loops is known for all reads.
    pub(in crate::te::auto) fn are_rows(&self) -> bool {
        self.parts.iter().all(|part| part.computed.as_ref().is_none_or(|computed| computed.step().is_some()))
    }

    /// The addresses of the first elements of the reads whose rows indices choose, with the numbers of the reads: for `count`
    /// elements of the output with these indices, along the only inner loop. One lane of the registers is enough.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn chosen(
        &self,
        registers: &mut Registers,
        outer: &[i64],
        count: usize,
    ) -> Result<SmallVec<[(usize, u64); 4]>, TeError> {
        let (first, mut addresses) = ([LaneRun { lane: 0, count: 1, index: origin(&self.inner) }], SmallVec::new());
        let along = Along::Inner(outer, &first);
        for (register, axis, least) in &self.axes {
            self.fill_axis(registers, *register, *axis, *least, along);
        }
        for (number, part) in self.parts.iter().enumerate() {
            // SAFETY: the space has checked that affine reads of points within the loops are inside their tensors; the caller's
            // promise.
            unsafe {
                match &part.computed {
                    None => self.fill_affine(registers, part, along),
                    Some(computed) => {
                        let address = computed.choose(registers, part.target(), count)?;
                        addresses.extend(address.map(|address| (number, address)));
                    }
                }
            }
        }
        Ok(addresses)
    }

    /// The loops over rows of neighbouring points: the inner loops without the last.
    pub(in crate::te::auto) fn rows(&self) -> &[LoopLevel] {
        rows_of(&self.inner)
    }

    /// Whether a register of a read or an axis has one value for all points of a [row](Self::rows).
    pub(in crate::te::auto) fn stands_in_rows(&self, register: Register) -> bool {
        let last = self.inner.last().and_then(|level| level.axis);
        let axis = self.axes.iter().any(|(to, axis, _)| *to == register && Some(*axis) != last);
        axis || self.parts.iter().any(|part| part.to == register && !self.part_moves(part))
    }

    /// The reads whose rows indices choose, by their numbers.
    pub(in crate::te::auto) fn of_chosen_rows(&self) -> impl Iterator<Item = usize> {
        (0..self.parts.len()).filter(|part| self.is_chosen(*part))
    }

    /// The addresses of the first elements of `count` rows of `length` points, for each of the reads whose rows indices
    /// choose: all rows of one read before the next read's. There must be no outer loops. The rows' first points are lanes;
    /// `filled`: registers get the elements of all reads, not only of those that indices are computed from.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn choose_rows(
        &self,
        registers: &mut Registers,
        (runs, count, length): (&[LaneRun], usize, usize),
        filled: bool,
        addresses: &mut Vec<u64>,
    ) -> Result<(), TeError> {
        addresses.clear();
        let along = Along::Rows(runs);
        for (register, axis, least) in &self.axes {
            self.fill_axis(registers, *register, *axis, *least, along);
        }
        for (number, part) in self.parts.iter().enumerate() {
            match &part.computed {
                // SAFETY: the space has checked that affine reads of points within the loops are inside their tensors.
                None => unsafe { self.fill_affine(registers, part, along) },
                Some(computed) => {
                    // A later index may depend on the element.
                    let wanted = filled || self.parts[number + 1..].iter().any(|later| later.computed.is_some());
                    // SAFETY: the caller's promise.
                    unsafe { computed.choose_rows(registers, part.target(), (count, length, wanted), addresses) }?;
                }
            }
        }
        Ok(())
    }

    /// Whether a read is of more than one element for neighbouring points along the inner loops.
    fn part_moves(&self, part: &Part) -> bool {
        match &part.computed {
            Some(computed) => computed.step() != Some(0),
            None => self.inner.last().is_some_and(|level| level.reads[part.place] != 0),
        }
    }

    /// The address of a point's element, by the number of the read.
    pub(in crate::te::auto) fn address(&self, part: usize, outer: &[i64], inner: &[i64]) -> u64 {
        let part = &self.parts[part];
        let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
            levels.iter().zip(index).map(|(level, i)| level.reads[part.place] * i).sum()
        };
        let offset = offset(&self.outer, outer) + offset(&self.inner, inner);
        part.address.wrapping_add_signed(offset * part.element.size() as i64)
    }

    /// The distance in bytes between a read's elements of neighbouring outputs, along the last of the loops over these.
    pub(in crate::te::auto) fn bytes_apart(&self, part: usize) -> isize {
        let part = &self.parts[part];
        let apart = self.outer.last().map_or(0, |level| level.reads[part.place]);
        apart as isize * part.element.size() as isize
    }

    /// The distance in bytes between a read's elements of neighbouring [rows](Self::rows).
    pub(in crate::te::auto) fn row_bytes_apart(&self, part: usize) -> isize {
        let part = &self.parts[part];
        let apart = self.rows().last().map_or(0, |level| level.reads[part.place]);
        apart as isize * part.element.size() as isize
    }

    /// The distance in bytes between a read's neighbouring elements of one output, along the last of the inner loops.
    pub(in crate::te::auto) fn bytes_down(&self, part: usize) -> isize {
        let part = &self.parts[part];
        let apart = self.inner.last().map_or(0, |level| level.reads[part.place]);
        apart as isize * part.element.size() as isize
    }

    /// Reads elements at affine indices, by the numbers of the reads.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn gather(&self, registers: &mut Registers, parts: &[usize], along: Along<'_>) {
        for part in parts {
            // SAFETY: the space has checked that affine reads of points within the loops are inside their tensors.
            unsafe { self.fill_affine(registers, &self.parts[*part], along) };
        }
    }

    /// The axis whose value a register holds, with the axis's least value.
    pub(in crate::te::auto) fn axis(&self, register: Register) -> Option<(usize, i64)> {
        self.axes.iter().find(|(to, ..)| *to == register).map(|(_, axis, least)| (*axis, *least))
    }

    /// The registers of reads, with the reads' places among all.
    pub(in crate::te::auto) fn registers(&self) -> impl Iterator<Item = (Register, usize)> {
        self.parts.iter().map(|part| (part.to, part.place))
    }

    /// The registers of axes' values, with the axes.
    pub(in crate::te::auto) fn axes(&self) -> impl Iterator<Item = (Register, usize)> {
        self.axes.iter().map(|(register, axis, _)| (*register, *axis))
    }

    /// Whether nothing is read.
    pub(in crate::te::auto) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether all reads have affine indices.
    pub(in crate::te::auto) fn are_affine(&self) -> bool {
        self.parts.iter().all(|part| part.computed.is_none())
    }

    fn fill_axis(&self, registers: &mut Registers, register: Register, axis: usize, least: i64, along: Along<'_>) {
        let at = |levels: &[LoopLevel]| levels.iter().position(|level| level.axis == Some(axis));
        let StripLanes { runs, moving: levels, still: (others, still), scale } = along.lanes(&self.outer, &self.inner);
        let (moving, fixed, last) = (at(levels), at(others), levels.len());
        for run in runs {
            let (first, step) = match (moving, fixed) {
                (Some(level), _) => (run.index[level], if level + 1 == last { scale } else { 0 }),
                (None, Some(level)) => (still[level], 0),
                (None, None) => (0, 0),
            };
            let (first, lanes) = (first + least, run.lane..run.lane + run.count);
            match register.class {
                Class::I64 => {
                    let lanes = registers.get_mut::<i64>(register)[lanes].iter_mut();
                    lanes.zip(0i64..).for_each(|(lane, i)| *lane = first + i * step);
                }
                _ => {
                    let (first, step) = (first as i32, step as i32);
                    let lanes = registers.get_mut::<i32>(register)[lanes].iter_mut();
                    lanes.zip(0i32..).for_each(|(lane, i)| *lane = first.wrapping_add(i.wrapping_mul(step)));
                }
            }
        }
    }

    /// # Safety
    /// The conditions of [`Elements::fill`].
    unsafe fn fill_affine(&self, registers: &mut Registers, part: &Part, along: Along<'_>) {
        let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
            levels.iter().zip(index).map(|(level, i)| level.reads[part.place] * i).sum()
        };
        let StripLanes { runs, moving, still: (others, index), scale } = along.lanes(&self.outer, &self.inner);
        let still = offset(others, index);
        let step = moving.last().map_or(0, |level| level.reads[part.place]) * scale;
        for run in runs {
            let at = (still + offset(moving, &run.index)) * part.element.size() as i64;
            let address = part.address.wrapping_add_signed(at);
            // SAFETY: the caller's promise.
            unsafe { read(registers, part.to, run.lane, &MemoryRows::row(part.element, address, run.count, step)) };
        }
    }
}

/// Several outputs side by side in a strip: the first output, how many, and the distance between them in lanes.
#[derive(Clone, Copy)]
pub(in crate::te::auto) struct Side {
    pub(in crate::te::auto) output: i64,
    pub(in crate::te::auto) outputs: usize,
    pub(in crate::te::auto) lanes: usize,
}

/// Values that are the same in all lanes of one output.
impl Elements {
    /// Whether a register has the same value for all elements of an output, so that one lane of it is enough.
    pub(in crate::te::auto) fn is_invariant(&self, register: Register) -> bool {
        let of_axis = |axis: usize| self.inner.iter().all(|level| level.axis != Some(axis));
        let axis = self.axes.iter().any(|(to, axis, _)| *to == register && of_axis(*axis));
        axis || self.parts.iter().any(|part| part.to == register && self.stands(part))
    }

    /// Whether a read, by its number, is of more than one element for the elements of an output.
    pub(in crate::te::auto) fn moves(&self, part: usize) -> bool {
        !self.stands(&self.parts[part])
    }

    /// Whether a read is of the same element for all elements of an output.
    fn stands(&self, part: &Part) -> bool {
        part.computed.is_none() && self.inner.iter().all(|level| level.reads[part.place] == 0)
    }

    /// Fills what is the same for all elements of an output, for some outputs. All reads must be affine.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn fill_invariant(&self, registers: &mut Registers, along: Along<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.fill_where(registers, along, true) };
    }

    /// Fills what may differ from one element of an output to another; all reads must be affine.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn fill_each(&self, registers: &mut Registers, along: Along<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.fill_where(registers, along, false) };
    }

    /// # Safety
    /// The conditions of [`Elements::fill`].
    unsafe fn fill_where(&self, registers: &mut Registers, along: Along<'_>, invariant: bool) {
        for (register, axis, least) in self.axes.iter().filter(|(to, ..)| self.is_invariant(*to) == invariant) {
            self.fill_axis(registers, *register, *axis, *least, along);
        }
        for part in self.parts.iter().filter(|part| self.stands(part) == invariant) {
            if part.computed.is_none() {
                // SAFETY: the space has checked that affine reads of points within the loops are inside their tensors.
                unsafe { self.fill_affine(registers, part, along) };
            }
        }
    }

    /// Fills lanes of several outputs that share a strip, for some elements of each. `invariant` selects what is the
    /// same for all elements of an output, or what may differ. All reads must be affine.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`].
    pub(in crate::te::auto) unsafe fn fill_side_by_side(
        &self,
        registers: &mut Registers,
        side: Side,
        elements: Range<i64>,
        invariant: bool,
    ) {
        let filled = (elements.end - elements.start) as usize;
        let (along, own) = (runs(&self.outer, side.output, side.outputs), runs(&self.inner, elements.start, filled));
        for (register, axis, least) in self.axes.iter().filter(|(to, ..)| self.is_invariant(*to) == invariant) {
            for output in 0..side.outputs {
                let outer = decode(&self.outer, side.output + output as i64);
                let shift = |run: &LaneRun| LaneRun { lane: run.lane + output * side.lanes, ..run.clone() };
                let own: SmallVec<[LaneRun; 2]> = own.iter().map(shift).collect();
                self.fill_axis(registers, *register, *axis, *least, Along::Inner(&outer, &own));
            }
        }
        for part in self.parts.iter().filter(|part| self.stands(part) == invariant) {
            if part.computed.is_some() {
                continue;
            }
            let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
                levels.iter().zip(index).map(|(level, i)| level.reads[part.place] * i).sum()
            };
            let step = |levels: &[LoopLevel]| levels.last().map_or(0, |level| level.reads[part.place]);
            for outputs in &along {
                for run in &own {
                    let at = offset(&self.outer, &outputs.index) + offset(&self.inner, &run.index);
                    let block = MemoryRows {
                        element: part.element,
                        address: part.address.wrapping_add_signed(at * part.element.size() as i64),
                        count: run.count,
                        step: step(&self.inner),
                        rows: outputs.count,
                        row_step: step(&self.outer),
                        apart: side.lanes,
                    };
                    // SAFETY: as above.
                    unsafe { read(registers, part.to, outputs.lane * side.lanes + run.lane, &block) };
                }
            }
        }
    }
}
