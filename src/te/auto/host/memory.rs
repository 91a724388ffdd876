//! Elements of the arguments, to and from strips.

use half::{bf16, f16};
use smallvec::SmallVec;

use super::program::Register;
use super::strip::{Lane, Registers};
use crate::ElementType;
use crate::simd::convert::{GROUP, Widen, bf16_from_f32, f16_from_f32};
use crate::simd::{Vectorised, dispatch};
use crate::te::auto::space::Slot;

/// Lanes that follow each other along the last of some loops: the first lane, how many, and the first's indices.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) lane: usize,
    pub(super) count: usize,
    pub(super) index: SmallVec<[i64; 4]>,
}

/// The runs that `count` points from `first` on make.
pub(super) fn runs(slots: &[Slot], first: i64, count: usize) -> SmallVec<[Run; 2]> {
    let mut runs = SmallVec::new();
    let mut lane = 0;
    while lane < count {
        let index = decode(slots, first + lane as i64);
        let left = match (slots.last(), index.last()) {
            (Some(slot), Some(at)) => usize::try_from(slot.extent - at).unwrap_or(1),
            _ => 1,
        };
        let run = left.min(count - lane);
        runs.push(Run { lane, count: run, index });
        lane += run;
    }
    runs
}

/// The indices of a point.
pub(super) fn decode(slots: &[Slot], point: i64) -> SmallVec<[i64; 4]> {
    let mut rest = point;
    let mut index: SmallVec<[i64; 4]> = SmallVec::from_elem(0, slots.len());
    for (at, slot) in index.iter_mut().zip(slots).rev() {
        *at = rest % slot.extent.max(1);
        rest /= slot.extent.max(1);
    }
    index
}

/// Elements in memory: rows of some, each `step` elements from the one before.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) element: ElementType,
    pub(super) address: u64,
    /// Elements of a row.
    pub(super) count: usize,
    pub(super) step: i64,
    pub(super) rows: usize,
    /// Elements between rows.
    pub(super) row_step: i64,
    /// Lanes between rows.
    pub(super) apart: usize,
}

impl Block {
    /// One row.
    pub(super) const fn row(element: ElementType, address: u64, count: usize, step: i64) -> Self {
        Self { element, address, count, step, rows: 1, row_step: 0, apart: count }
    }
}

/// Reads a block into lanes from `lane` on.
///
/// # Safety
/// All its elements are readable, aligned to the element type, and written by nobody meanwhile.
pub(super) unsafe fn read(registers: &mut Registers, to: Register, lane: usize, block: &Block) {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match block.element {
            ElementType::F64 => gather::<f64, f64>(registers, to, lane, block),
            ElementType::F32 => gather::<f32, f32>(registers, to, lane, block),
            ElementType::F16 => gather::<f16, f32>(registers, to, lane, block),
            ElementType::BF16 => gather::<bf16, f32>(registers, to, lane, block),
            ElementType::I64 => gather::<i64, i64>(registers, to, lane, block),
            ElementType::I32 => gather::<i32, i32>(registers, to, lane, block),
            ElementType::I8 => gather::<i8, i32>(registers, to, lane, block),
            // 8-bit floats are refused before.
            _ => gather::<u8, i32>(registers, to, lane, block),
        }
    }
}

/// # Safety
/// As [`read`].
unsafe fn gather<T: Widen<L>, L: Lane>(registers: &mut Registers, to: Register, lane: usize, block: &Block) {
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

/// Writes `count` lanes from `lane` on to `address` on, `step` elements apart, rounded to the element type.
///
/// # Safety
/// All these elements are writable, aligned to the element type, and touched by nobody else meanwhile.
pub(super) unsafe fn write(
    registers: &Registers,
    from: Register,
    lane: usize,
    count: usize,
    element: ElementType,
    address: u64,
    step: i64,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match element {
            ElementType::F64 => scatter::<f64, f64>(registers, from, lane, count, address, step, |x| x),
            ElementType::F32 => scatter::<f32, f32>(registers, from, lane, count, address, step, |x| x),
            ElementType::F16 => scatter::<f16, f32>(registers, from, lane, count, address, step, f16_from_f32),
            ElementType::BF16 => scatter::<bf16, f32>(registers, from, lane, count, address, step, bf16_from_f32),
            ElementType::I64 => scatter::<i64, i64>(registers, from, lane, count, address, step, |x| x),
            ElementType::I32 => scatter::<i32, i32>(registers, from, lane, count, address, step, |x| x),
            ElementType::I8 => scatter::<i8, i32>(registers, from, lane, count, address, step, |x| x as i8),
            // 8-bit floats are refused before.
            _ => scatter::<u8, i32>(registers, from, lane, count, address, step, |x| x as u8),
        }
    }
}

/// # Safety
/// As [`write`].
unsafe fn scatter<T, L: Lane>(
    registers: &Registers,
    from: Register,
    lane: usize,
    count: usize,
    address: u64,
    step: i64,
    narrow: impl Fn(L) -> T,
) {
    let to = address as *mut T;
    if step == 1 {
        // SAFETY: the caller's promise: `count` neighbours are writable, and this task's.
        let elements = unsafe { std::slice::from_raw_parts_mut(to, count) };
        dispatch(Narrow { elements, lanes: &registers.get::<L>(from)[lane..lane + count], narrow });
        return;
    }
    for (i, x) in registers.get::<L>(from)[lane..lane + count].iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.wrapping_offset(i as isize * step as isize).write(narrow(*x)) };
    }
}

struct Gather<'a, T, L> {
    lanes: &'a mut [L],
    from: *const T,
    /// Rows of neighbours.
    block: &'a Block,
}

impl<T: Widen<L>, L: Copy> Vectorised for Gather<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { lanes, from, block } = self;
        for (row, lanes) in lanes.chunks_mut(block.apart).take(block.rows).enumerate() {
            let start = from.wrapping_offset(row as isize * block.row_step as isize);
            // SAFETY: `read` was promised that every row can be read.
            let elements = unsafe { std::slice::from_raw_parts(start, block.count) };
            let (groups, rest) = lanes[..block.count].as_chunks_mut::<GROUP>();
            let (elements, last) = elements.as_chunks::<GROUP>();
            for (lanes, group) in groups.iter_mut().zip(elements) {
                // SAFETY: `FMA` is what this was given.
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
    narrow: F,
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
