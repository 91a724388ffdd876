//! Fills registers with what the points of a strip read: affine elements, values of axes, and elements at computed
//! indices.

use std::ops::Range;
use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, Site};
use smallvec::SmallVec;

use super::memory::{Block, Run, decode, read, runs};
use super::program::{Class, Program, Register, Step};
use super::registers::Registers;
use super::vm::by_class;
use crate::ElementType;
use crate::te::auto::bind::arguments::{Bound, Sizes};
use crate::te::auto::bind::iteration_space::{LoopLevel, Space};
use crate::te::auto::pattern::reads::Read;
use crate::te::error::{LoweringError, TeError};
use crate::te::lang::axis::Axis;
use crate::te::lang::tensor::Tensor;

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

/// A read at computed indices.
struct Computed {
    /// The steps that compute the guard and the indices.
    steps: Vec<Step>,
    guard: Option<Register>,
    indices: Vec<Register>,
    /// The tensor's extents and strides, by dimension.
    dimensions: Vec<(usize, isize)>,
    /// Its name, for messages.
    name: String,
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
    Inner(&'a [i64], &'a [Run]),
    /// Outer points, in runs, of the inner point with these indices.
    Outer(&'a [Run], &'a [i64]),
    /// Points of the only inner loop at a constant distance from each other, of the outer point with these indices.
    Every(&'a [i64], &'a [Run], i64),
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
        bound: &Bound<'_>,
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
                None => (tensor.device_address(), Some(Computed::new(program, &reads[place], &bound.sizes, tensor)?)),
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
                Some(computed) => {
                    registers.run(&computed.steps, count)?;
                    // SAFETY: every index is compared with the tensor's extents.
                    unsafe { fill_computed(registers, part, computed, count) }?;
                }
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

    /// The same, and its number among these reads.
    pub(in crate::te::auto) fn affine_part(&self, register: Register) -> Option<(usize, Affine)> {
        let number = self.parts.iter().position(|part| part.to == register)?;
        Some((number, self.affine(register)?))
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

    /// The same of neighbouring elements of an output, along the last of the loops over those.
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
        let (runs, moving, fixed, still, scale) = match along {
            Along::Inner(outer, runs) => (runs, at(&self.inner), at(&self.outer), outer, 1),
            Along::Outer(runs, inner) => (runs, at(&self.outer), at(&self.inner), inner, 1),
            Along::Every(outer, runs, stride) => (runs, at(&self.inner), at(&self.outer), outer, stride),
        };
        let last = match along {
            Along::Inner(..) | Along::Every(..) => self.inner.len(),
            Along::Outer(..) => self.outer.len(),
        };
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
        let (runs, moving, still, scale) = match along {
            Along::Inner(outer, runs) => (runs, &self.inner, offset(&self.outer, outer), 1),
            Along::Outer(runs, inner) => (runs, &self.outer, offset(&self.inner, inner), 1),
            Along::Every(outer, runs, stride) => (runs, &self.inner, offset(&self.outer, outer), stride),
        };
        let step = moving.last().map_or(0, |level| level.reads[part.place]) * scale;
        for run in runs {
            let at = (still + offset(moving, &run.index)) * part.element.size() as i64;
            let address = part.address.wrapping_add_signed(at);
            // SAFETY: the caller's promise.
            unsafe { read(registers, part.to, run.lane, &Block::row(part.element, address, run.count, step)) };
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

/// What is the same in all lanes of one output.
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
                let shift = |run: &Run| Run { lane: run.lane + output * side.lanes, ..run.clone() };
                let own: SmallVec<[Run; 2]> = own.iter().map(shift).collect();
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
                    let block = Block {
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

impl Computed {
    /// Compiles the steps before a read at computed indices.
    fn new(program: &mut Program, read: &Read, sizes: &Sizes, tensor: &DeviceTensor) -> Result<Self, TeError> {
        let guard = read.guard.as_ref().map(|guard| program.value(guard, sizes)).transpose()?;
        let indices = read.indices.iter().map(|index| program.value(index, sizes)).collect::<Result<Vec<_>, _>>()?;
        let dimensions = tensor.shape().iter().copied().zip(tensor.strides().iter().copied()).collect();
        Ok(Self { steps: program.take_steps(), guard, indices, dimensions, name: read.tensor.name() })
    }

    /// Where the lanes' elements are in the tensor, if all are inside.
    fn offsets(&self, registers: &Registers, count: usize) -> Option<Vec<i64>> {
        let mut offsets = vec![0i64; count];
        for (index, (extent, stride)) in self.indices.iter().zip(&self.dimensions) {
            let mut are_inside = true;
            let mut add = |offset: &mut i64, value: i64| {
                are_inside &= usize::try_from(value).is_ok_and(|value| value < *extent);
                *offset = offset.wrapping_add(value.wrapping_mul(*stride as i64));
            };
            let offsets = offsets.iter_mut();
            match index.class {
                Class::I64 => offsets.zip(registers.get::<i64>(*index)).for_each(|(to, x)| add(to, *x)),
                _ => offsets.zip(registers.get::<i32>(*index)).for_each(|(to, x)| add(to, i64::from(*x))),
            }
            if !are_inside {
                return None;
            }
        }
        Some(offsets)
    }
}

/// # Safety
/// Nobody else may write the tensor during the call.
unsafe fn fill_computed(
    registers: &mut Registers,
    part: &Part,
    computed: &Computed,
    count: usize,
) -> Result<(), TeError> {
    let is_guarded = computed.guard.is_some_and(|guard| registers.get::<i32>(guard)[..count].contains(&0));
    let Some(offsets) = computed.offsets(registers, count).filter(|_| !is_guarded) else {
        // SAFETY: the caller's promise.
        return unsafe { fill_lane_by_lane(registers, part, computed, count) };
    };
    // Rows that an index chooses have neighbouring elements.
    let mut lane = 0;
    for run in offsets.chunk_by(|one, next| next - one == 1) {
        let address = part.address.wrapping_add_signed(run[0] * part.element.size() as i64);
        // SAFETY: the elements are within the tensor's shape.
        unsafe { read(registers, part.to, lane, &Block::row(part.element, address, run.len(), 1)) };
        lane += run.len();
    }
    Ok(())
}

/// The same, one lane after another: where a lane is guarded, or an index is wrong.
///
/// # Safety
/// Nobody else may write the tensor during the call.
unsafe fn fill_lane_by_lane(
    registers: &mut Registers,
    part: &Part,
    computed: &Computed,
    count: usize,
) -> Result<(), TeError> {
    for lane in 0..count {
        if computed.guard.is_some_and(|guard| registers.get::<i32>(guard)[lane] == 0) {
            by_class!(part.to.class, T => registers.get_mut::<T>(part.to)[lane] = T::default());
            continue;
        }
        let mut offset = 0i64;
        for (d, (index, (extent, stride))) in computed.indices.iter().zip(&computed.dimensions).enumerate() {
            let value = match index.class {
                Class::I64 => registers.get::<i64>(*index)[lane],
                _ => i64::from(registers.get::<i32>(*index)[lane]),
            };
            if usize::try_from(value).is_ok_and(|value| value < *extent) {
                offset += value * *stride as i64;
            } else {
                let site = Site::Index { tensor: computed.name.clone(), dimension: d };
                return Err(site.failure(value, i64::try_from(*extent).unwrap_or(i64::MAX)).into());
            }
        }
        let address = part.address.wrapping_add_signed(offset * part.element.size() as i64);
        // SAFETY: the element is within the tensor's shape.
        unsafe { read(registers, part.to, lane, &Block::row(part.element, address, 1, 1)) };
    }
    Ok(())
}
