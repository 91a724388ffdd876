//! Moves elements between the arguments' memory and strips.

use epilogue_runtime::DeviceTensor;
use half::{bf16, f16};
use smallvec::SmallVec;

use super::registers::{RegisterLane, Registers};
use crate::ElementType;
use crate::lane::Register;
use crate::lane::element::{E4M3, E5M2};
use crate::simd::convert::{GROUP, Widen, bf16_from_f32, f16_from_f32};
use crate::simd::{Vectorised, dispatch, stream};
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{LoopLevel, Steps};
use crate::tuning::Stores;

/// Lanes that are consecutive along the last of some loops: the first lane, how many, and the first lane's indices.
#[derive(Clone)]
pub(in crate::te::auto) struct LaneRun {
    pub(in crate::te::auto) lane: usize,
    pub(in crate::te::auto) count: usize,
    pub(in crate::te::auto) index: SmallVec<[i64; 4]>,
}

/// The runs of `count` points from `first` on.
#[inline]
pub(in crate::te::auto) fn runs(levels: &[LoopLevel], first: i64, count: usize) -> SmallVec<[LaneRun; 2]> {
    // With one loop, no division is needed.
    if levels.len() <= 1 {
        let mut runs = SmallVec::new();
        if count > 0 {
            runs.push(LaneRun { lane: 0, count, index: SmallVec::from_buf_and_len([first, 0, 0, 0], levels.len()) });
        }
        return runs;
    }
    runs_of_several(levels, first, count)
}

fn runs_of_several(levels: &[LoopLevel], first: i64, count: usize) -> SmallVec<[LaneRun; 2]> {
    let mut runs = SmallVec::new();
    let mut lane = 0;
    while lane < count {
        let index = decode(levels, first + lane as i64);
        let left = match (levels.last(), index.last()) {
            (Some(level), Some(at)) => usize::try_from(level.extent - at).unwrap_or(1),
            _ => 1,
        };
        let run = left.min(count - lane);
        runs.push(LaneRun { lane, count: run, index });
        lane += run;
    }
    runs
}

/// The indices of the first point.
#[inline]
pub(in crate::te::auto) fn origin(levels: &[LoopLevel]) -> SmallVec<[i64; 4]> {
    SmallVec::from_elem(0, levels.len())
}

/// The indices of a point.
#[inline]
pub(in crate::te::auto) fn decode(levels: &[LoopLevel], point: i64) -> SmallVec<[i64; 4]> {
    if levels.len() == 1 {
        return SmallVec::from_buf_and_len([point, 0, 0, 0], 1);
    }
    let mut index: SmallVec<[i64; 4]> = SmallVec::from_elem(0, levels.len());
    let mut rest = point;
    for (at, level) in index.iter_mut().zip(levels).rev() {
        *at = rest % level.extent.max(1);
        rest /= level.extent.max(1);
    }
    index
}

/// Elements in memory, in rows; neighbours in a row are `step` elements apart.
#[derive(Clone, Copy)]
pub(in crate::te::auto) struct MemoryRows {
    pub(in crate::te::auto) element: ElementType,
    pub(in crate::te::auto) address: u64,
    /// Number of elements in a row.
    pub(in crate::te::auto) count: usize,
    pub(in crate::te::auto) step: i64,
    pub(in crate::te::auto) rows: usize,
    /// Distance between rows, in elements.
    pub(in crate::te::auto) row_step: i64,
    /// Distance between rows, in lanes.
    pub(in crate::te::auto) apart: usize,
}

impl MemoryRows {
    /// A block of one row.
    pub(in crate::te::auto) const fn row(element: ElementType, address: u64, count: usize, step: i64) -> Self {
        Self { element, address, count, step, rows: 1, row_step: 0, apart: count }
    }
}

/// Calls a function with the type of elements in memory, and that of their lanes.
macro_rules! by_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            ElementType::F64 => $function::<f64, f64>($($argument),*),
            ElementType::F32 => $function::<f32, f32>($($argument),*),
            ElementType::F16 => $function::<f16, f32>($($argument),*),
            ElementType::BF16 => $function::<bf16, f32>($($argument),*),
            ElementType::I64 => $function::<i64, i64>($($argument),*),
            ElementType::I32 => $function::<i32, i32>($($argument),*),
            ElementType::I16 => $function::<i16, i32>($($argument),*),
            ElementType::I8 => $function::<i8, i32>($($argument),*),
            // The same bits.
            ElementType::U64 => $function::<i64, i64>($($argument),*),
            ElementType::U32 => $function::<u32, i64>($($argument),*),
            ElementType::U16 => $function::<u16, i32>($($argument),*),
            ElementType::F8E4M3 => $function::<E4M3, f32>($($argument),*),
            ElementType::F8E5M2 => $function::<E5M2, f32>($($argument),*),
            _ => $function::<u8, i32>($($argument),*),
        }
    };
}

/// Reads a block into lanes from `lane` on.
///
/// # Safety
/// All its elements must be readable and aligned to the element type, and nobody else may write them during the call.
pub(in crate::te::auto) unsafe fn read(registers: &mut Registers, to: Register, lane: usize, block: &MemoryRows) {
    // SAFETY: the caller's promise, passed on.
    unsafe { by_element!(block.element, gather(registers, to, lane, block)) }
}

/// Reads elements at offsets from an address, counted in elements, into the first lanes.
///
/// # Safety
/// The conditions of [`read`].
pub(in crate::te::auto) unsafe fn read_at(
    registers: &mut Registers,
    to: Register,
    (element, address): (ElementType, u64),
    offsets: &[i64],
) {
    // SAFETY: the caller's promise, passed on.
    unsafe { by_element!(element, gather_at(registers, to, address, offsets)) }
}

/// # Safety
/// The conditions of [`read`].
unsafe fn gather_at<T: Widen<L>, L: RegisterLane>(
    registers: &mut Registers,
    to: Register,
    address: u64,
    offsets: &[i64],
) {
    let from = address as *const T;
    for (lane, offset) in registers.get_mut::<L>(to).iter_mut().zip(offsets) {
        // SAFETY: the caller's promise.
        *lane = unsafe { from.wrapping_offset(*offset as isize).read() }.widen();
    }
}

/// # Safety
/// The conditions of [`read`].
unsafe fn gather<T: Widen<L>, L: RegisterLane>(
    registers: &mut Registers,
    to: Register,
    lane: usize,
    block: &MemoryRows,
) {
    let from = block.address as *const T;
    let lanes = &mut registers.get_mut::<L>(to)[lane..];
    if block.step == 1 && block.count > 1 {
        return dispatch(Gather { lanes, from, block });
    }
    for (row, lanes) in lanes.chunks_mut(block.apart.max(1)).take(block.rows).enumerate() {
        let from = from.wrapping_offset(row as isize * block.row_step as isize);
        let lanes = &mut lanes[..block.count];
        if block.step == 0 {
            if block.count > 0 {
                // SAFETY: the caller's promise.
                lanes.fill(unsafe { from.read() }.widen());
            }
            continue;
        }
        for (i, lane) in lanes.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *lane = unsafe { from.wrapping_offset(i as isize * block.step as isize).read() }.widen();
        }
    }
}

/// Where lanes are written: to elements `step` apart.
#[derive(Clone, Copy)]
pub(in crate::te::auto) struct StoreTarget {
    pub(in crate::te::auto) element: ElementType,
    pub(in crate::te::auto) address: u64,
    pub(in crate::te::auto) step: i64,
    /// Whether the output is too large for the caches. Non-temporal stores then leave the caches to the reads.
    pub(in crate::te::auto) far: bool,
}

/// Writes `count` lanes from `lane` on, rounded to the element type.
///
/// # Safety
/// All these elements must be writable and aligned to the element type, and nobody else may access them during the
/// call. If they are [`far`](Target::far), nobody may do so until a [`Fence`](stream::Fence) of this thread is dropped.
pub(in crate::te::auto) unsafe fn write(
    registers: &Registers,
    from: Register,
    lane: usize,
    count: usize,
    to: StoreTarget,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match to.element {
            ElementType::F64 => scatter_same::<f64>(registers, from, lane, count, to),
            ElementType::F32 => scatter_same::<f32>(registers, from, lane, count, to),
            ElementType::F16 => scatter::<f16, f32>(registers, from, lane, count, to, f16_from_f32),
            ElementType::BF16 => scatter::<bf16, f32>(registers, from, lane, count, to, bf16_from_f32),
            ElementType::I64 => scatter_same::<i64>(registers, from, lane, count, to),
            ElementType::I32 => scatter_same::<i32>(registers, from, lane, count, to),
            ElementType::I16 => scatter::<i16, i32>(registers, from, lane, count, to, |x| x as i16),
            ElementType::I8 => scatter::<i8, i32>(registers, from, lane, count, to, |x| x as i8),
            ElementType::U64 => scatter_same::<i64>(registers, from, lane, count, to),
            ElementType::U32 => scatter::<u32, i64>(registers, from, lane, count, to, |x| x as u32),
            ElementType::U16 => scatter::<u16, i32>(registers, from, lane, count, to, |x| x as u16),
            ElementType::F8E4M3 => scatter::<E4M3, f32>(registers, from, lane, count, to, E4M3::of),
            ElementType::F8E5M2 => scatter::<E5M2, f32>(registers, from, lane, count, to, E5M2::of),
            _ => scatter::<u8, i32>(registers, from, lane, count, to, |x| x as u8),
        }
    }
}

/// # Safety
/// The conditions of [`write`].
unsafe fn scatter_same<T: RegisterLane>(
    registers: &Registers,
    from: Register,
    lane: usize,
    count: usize,
    target: StoreTarget,
) {
    if target.step != 1 || !target.is_streamed::<T>(count) {
        // SAFETY: the caller's promise.
        return unsafe { scatter::<T, T>(registers, from, lane, count, target, |x| x) };
    }
    // SAFETY: the caller's promise: `count` neighbours are writable and belong to this task.
    unsafe { stream::store(target.address as *mut T, &registers.get::<T>(from)[lane..lane + count]) };
}

/// The number of elements that are narrowed before they are stored past the caches.
const PIECE: usize = 256;

/// # Safety
/// The conditions of [`write`].
unsafe fn scatter<T: Copy + Default, L: RegisterLane>(
    registers: &Registers,
    from: Register,
    lane: usize,
    count: usize,
    target: StoreTarget,
    narrow: impl Fn(L) -> T,
) {
    let (to, lanes) = (target.address as *mut T, &registers.get::<L>(from)[lane..lane + count]);
    if target.step != 1 {
        for (i, x) in lanes.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.wrapping_offset(i as isize * target.step as isize).write(narrow(*x)) };
        }
        return;
    }
    let put = |first: usize, lanes: &[L]| {
        // SAFETY: the caller's promise: `count` neighbours are writable and belong to this task.
        let elements = unsafe { std::slice::from_raw_parts_mut(to.wrapping_add(first), lanes.len()) };
        dispatch(Narrow { elements, lanes, narrow: &narrow });
    };
    if !target.is_streamed::<T>(count) {
        return put(0, lanes);
    }
    // First the elements before the beginning of a cache line, then whole lines.
    let head = (to.addr().next_multiple_of(stream::LINE) - to.addr()) / size_of::<T>();
    let (first, rest) = lanes.split_at(head.min(count));
    put(0, first);
    let mut piece = [T::default(); PIECE];
    for (number, lanes) in rest.chunks(PIECE).enumerate() {
        let elements = &mut piece[..lanes.len()];
        dispatch(Narrow { elements, lanes, narrow: &narrow });
        // SAFETY: as above.
        unsafe { stream::store(to.wrapping_add(head + number * PIECE), elements) };
    }
}

impl StoreTarget {
    /// Whether this many neighbouring elements are written past the caches: they must be several cache lines.
    const fn is_streamed<T>(&self, count: usize) -> bool {
        self.far && count * size_of::<T>() >= 4 * stream::LINE
    }

    /// This target, for elements that may be read again soon.
    pub(in crate::te::auto) const fn near(self) -> Self {
        Self { far: false, ..self }
    }
}

/// A tensor that is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) struct Written {
    /// Its number among the arguments.
    argument: usize,
    pub(in crate::te::auto) element: ElementType,
    /// Address of the first point's element.
    pub(in crate::te::auto) address: u64,
    pub(super) far: bool,
}

impl Written {
    /// The outputs of a run, which are the last of its arguments.
    pub(in crate::te::auto) fn all(bound: &BoundTensors<'_>, outputs: &[Steps], stores: Stores) -> Vec<Self> {
        let bytes = |tensor: &DeviceTensor| tensor.len().saturating_mul(tensor.element_type().size());
        let of_all = bound.tensors.iter().fold(0usize, |all, tensor| all.saturating_add(bytes(tensor)));
        let first = bound.tensors.len() - outputs.len();
        let output = |(number, steps): (usize, &Steps)| {
            let tensor = bound.tensors[first + number];
            // Reads displace writes from the caches, and the other way round.
            let far = stores.are_past(of_all >= stream::FAR && bytes(tensor) >= stream::FAR / 4);
            Self { argument: first + number, element: tensor.element_type(), address: steps.address, far }
        };
        outputs.iter().enumerate().map(output).collect()
    }

    /// Whether it is written by non-temporal stores (past the caches), in whole vectors. The address, and the distances
    /// along these loops, must be multiples of the vector's bytes.
    pub(super) fn is_streamed<'l>(&self, place: usize, levels: impl IntoIterator<Item = &'l LoopLevel>) -> bool {
        let aligned = |elements: i64| (elements * self.element.size() as i64) % stream::LINE as i64 == 0;
        self.far
            && self.address.is_multiple_of(stream::LINE as u64)
            && levels.into_iter().all(|level| aligned(level.outputs[place]))
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.address = self.address.wrapping_add_signed(by[self.argument]);
    }

    /// This tensor, with elements that may be read again soon.
    pub(super) const fn near(self) -> Self {
        Self { far: false, ..self }
    }

    /// The elements `step` apart, beginning `offset` elements after the first one.
    pub(in crate::te::auto) const fn target(&self, offset: i64, step: i64) -> StoreTarget {
        let address = self.address.wrapping_add_signed(offset * self.element.size() as i64);
        StoreTarget { element: self.element, address, step, far: self.far }
    }
}

struct Gather<'a, T, L> {
    lanes: &'a mut [L],
    from: *const T,
    /// Rows in which elements are neighbours.
    block: &'a MemoryRows,
}

impl<T: Widen<L>, L: Copy> Vectorised for Gather<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { lanes, from, block } = self;
        for (row, lanes) in lanes.chunks_mut(block.apart).take(block.rows).enumerate() {
            let start = from.wrapping_offset(row as isize * block.row_step as isize);
            // SAFETY: the caller of `read` promised that every row can be read.
            let elements = unsafe { std::slice::from_raw_parts(start, block.count) };
            let (groups, rest) = lanes[..block.count].as_chunks_mut::<GROUP>();
            let (elements, last) = elements.as_chunks::<GROUP>();
            for (lanes, group) in groups.iter_mut().zip(elements) {
                // SAFETY: `FMA` is what this function was given.
                *lanes = unsafe { T::widen_group::<FMA>(group) };
            }
            for (lane, x) in rest.iter_mut().zip(last) {
                *lane = x.widen();
            }
        }
    }
}

struct Narrow<'a, T, L, F> {
    elements: &'a mut [T],
    lanes: &'a [L],
    narrow: &'a F,
}

impl<T, L: Copy, F: Fn(L) -> T> Vectorised for Narrow<'_, T, L, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (element, x) in self.elements.iter_mut().zip(self.lanes) {
            *element = (self.narrow)(*x);
        }
    }
}
