//! Reads at computed indices: of a row that an index chooses (a gather), and of any element.

use std::ops::RangeInclusive;

use epilogue_runtime::{DeviceTensor, Site};
use smallvec::SmallVec;

use super::memory::{LaneRun, MemoryRows, read, read_at};
use super::program::Program;
use super::registers::{Registers, by_class};
use crate::ElementType;
use crate::lane::{Class, LaneStep, Register};
use crate::te::arith::Linear;
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::pattern::reads::Read;
use crate::te::error::TeError;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;

/// Runs of fewer elements than these are read element by element.
const SHORT: usize = 8;

/// A read at computed indices.
pub(super) struct Computed {
    /// The steps that compute the guard and the indices.
    steps: Vec<LaneStep>,
    guard: Option<Register>,
    indices: Vec<Register>,
    /// The tensor's extents and strides, by dimension.
    dimensions: Vec<(usize, isize)>,
    /// Its name, for messages.
    name: String,
    /// The row, if the indices of neighbouring points have known distances: the first point's indices are then enough.
    row: Option<Row>,
}

/// The distance between the elements of neighbouring points.
struct Row {
    /// By dimension.
    indices: SmallVec<[i64; 4]>,
    /// In elements.
    step: i64,
}

/// The elements of a read: its type, the tensor's first element, and the register that gets them.
#[derive(Clone, Copy)]
pub(super) struct GatherTarget {
    pub(super) to: Register,
    pub(super) element: ElementType,
    pub(super) address: u64,
}

impl GatherTarget {
    /// # Safety
    /// The elements must be within the tensor, which nobody else may write during the call.
    unsafe fn read(self, registers: &mut Registers, lane: usize, offset: i64, count: usize, step: i64) {
        let address = self.at(offset);
        // SAFETY: the caller's promise.
        unsafe { read(registers, self.to, lane, &MemoryRows::row(self.element, address, count, step)) };
    }

    const fn at(self, offset: i64) -> u64 {
        self.address.wrapping_add_signed(offset * self.element.size() as i64)
    }
}

impl Computed {
    /// Compiles the steps before a read. `last` is the variable of the axis along which points are neighbours.
    /// `is_same` says if another variable is the same for all these points.
    pub(super) fn new(
        program: &mut Program,
        given: &Read,
        sizes: &Sizes,
        tensor: &DeviceTensor,
        last: Option<Var>,
        is_same: impl Fn(Var) -> bool,
    ) -> Result<Self, TeError> {
        let guard = given.guard.as_ref().map(|guard| program.value(guard, sizes)).transpose()?;
        let index = |index: &Expr| match guard {
            Some(guard) => program.guarded(guard, index, sizes),
            None => program.value(index, sizes),
        };
        let indices = given.indices.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        let dimensions = tensor.shape().iter().copied().zip(tensor.strides().iter().copied()).collect();
        let row = if guard.is_some() { None } else { Row::of(&given.indices, tensor.strides(), last, is_same) };
        Ok(Self { steps: program.take_steps(), guard, indices, dimensions, name: given.tensor.name(), row })
    }

    /// The distance between the elements of neighbouring points, if it is known.
    pub(super) fn step(&self) -> Option<i64> {
        self.row.as_ref().map(|row| row.step)
    }

    /// Reads elements for `count` lanes.
    ///
    /// # Safety
    /// Nobody else may write the tensor during the call.
    pub(super) unsafe fn fill(
        &self,
        registers: &mut Registers,
        target: GatherTarget,
        count: usize,
    ) -> Result<(), TeError> {
        registers.run(&self.steps, count)?;
        let is_guarded = self.guard.is_some_and(|guard| registers.get::<i32>(guard)[..count].contains(&0));
        let Some(offsets) = self.offsets(registers, count, 1).filter(|_| !is_guarded) else {
            // SAFETY: the caller's promise.
            return unsafe { self.fill_lane_by_lane(registers, target, count) };
        };
        // Rows that an index chooses have neighbouring elements.
        let breaks = offsets.windows(2).filter(|pair| pair[1] - pair[0] != 1).count();
        if breaks * SHORT > count {
            // SAFETY: the elements are within the tensor's shape; the caller's promise.
            unsafe { read_at(registers, target.to, (target.element, target.address), &offsets) };
            return Ok(());
        }
        let mut lane = 0;
        for run in offsets.chunk_by(|one, next| next - one == 1) {
            // SAFETY: the elements are within the tensor's shape; the caller's promise.
            unsafe { target.read(registers, lane, run[0], run.len(), 1) };
            lane += run.len();
        }
        Ok(())
    }

    /// [`fill`](Self::fill) for lanes that are runs of neighbouring points.
    ///
    /// # Safety
    /// Nobody else may write the tensor during the call.
    pub(super) unsafe fn fill_runs(
        &self,
        registers: &mut Registers,
        target: GatherTarget,
        runs: &[LaneRun],
        count: usize,
    ) -> Result<(), TeError> {
        let Some(row) = &self.row else {
            // SAFETY: the caller's promise.
            return unsafe { self.fill(registers, target, count) };
        };
        registers.run(&self.steps, runs.last().map_or(0, |run| run.lane + 1))?;
        for run in runs {
            let first = self.first(registers, row, run.lane, run.count)?;
            // SAFETY: the elements are within the tensor's shape; the caller's promise.
            unsafe { target.read(registers, run.lane, first, run.count, row.step) };
        }
        Ok(())
    }

    /// The address of the first element of `count` neighbouring points, which is read to lane 0; the registers need no other.
    ///
    /// # Safety
    /// Nobody else may write the tensor during the call.
    pub(super) unsafe fn choose(
        &self,
        registers: &mut Registers,
        target: GatherTarget,
        count: usize,
    ) -> Result<Option<u64>, TeError> {
        let Some(row) = &self.row else { return Ok(None) };
        registers.run(&self.steps, 1)?;
        let first = self.first(registers, row, 0, count)?;
        // SAFETY: the element is within the tensor's shape; the caller's promise.
        unsafe { target.read(registers, 0, first, 1, 1) };
        Ok(Some(target.at(first)))
    }

    /// Adds the addresses of the first elements of `count` rows of `length` points. The first points of the rows are lanes; if
    /// they are `wanted`, they get their elements.
    ///
    /// # Safety
    /// Nobody else may write the tensor during the call.
    pub(super) unsafe fn choose_rows(
        &self,
        registers: &mut Registers,
        target: GatherTarget,
        (count, length, wanted): (usize, usize, bool),
        addresses: &mut Vec<u64>,
    ) -> Result<(), TeError> {
        let Some(row) = &self.row else { return Ok(()) };
        registers.run(&self.steps, count)?;
        let offsets = match self.offsets(registers, count, length) {
            Some(offsets) => offsets,
            // One row leaves the tensor: this says which.
            None => (0..count).map(|lane| self.first(registers, row, lane, length)).collect::<Result<_, _>>()?,
        };
        if wanted {
            // SAFETY: the elements are within the tensor's shape; the caller's promise.
            unsafe { read_at(registers, target.to, (target.element, target.address), &offsets) };
        }
        addresses.extend(offsets.iter().map(|offset| target.at(*offset)));
        Ok(())
    }

    /// Where a run's first element is in the tensor. All of its elements are inside.
    fn first(&self, registers: &Registers, row: &Row, lane: usize, count: usize) -> Result<i64, TeError> {
        let (mut offset, mut wrong): (i64, Option<(i64, usize, i64, i64)>) = (0, None);
        for (d, ((index, (extent, stride)), by)) in
            self.indices.iter().zip(&self.dimensions).zip(&row.indices).enumerate()
        {
            let first = value(registers, *index, lane);
            let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
            let outside = points_inside(first, extent, *by);
            if outside < count as i64 && wrong.is_none_or(|(point, ..)| outside < point) {
                wrong = Some((outside, d, first.wrapping_add(by.wrapping_mul(outside)), extent));
            }
            offset = offset.wrapping_add(first.wrapping_mul(*stride as i64));
        }
        let Some((_, d, value, extent)) = wrong else { return Ok(offset) };
        let value = if self.indices[d].class == Class::I64 { value } else { i64::from(value as i32) };
        Err(self.outside(d, value, extent))
    }

    fn outside(&self, dimension: usize, value: i64, extent: i64) -> TeError {
        Site::Index { tensor: self.name.clone(), dimension }.failure(value, extent).into()
    }

    /// Where the lanes' elements are in the tensor, if all are inside: with the elements of the row of `length` points that
    /// begins at each.
    fn offsets(&self, registers: &Registers, count: usize, length: usize) -> Option<Vec<i64>> {
        let mut offsets = vec![0i64; count];
        for (d, (index, (extent, stride))) in self.indices.iter().zip(&self.dimensions).enumerate() {
            let by = self.row.as_ref().map_or(0, |row| row.indices[d]);
            let inside = beginnings(i64::try_from(*extent).unwrap_or(i64::MAX), by, length);
            let mut are_inside = true;
            let mut add = |offset: &mut i64, value: i64| {
                are_inside &= inside.contains(&value);
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

    /// Reads one lane after another: where a lane is guarded, or an index is wrong.
    ///
    /// # Safety
    /// Nobody else may write the tensor during the call.
    unsafe fn fill_lane_by_lane(
        &self,
        registers: &mut Registers,
        target: GatherTarget,
        count: usize,
    ) -> Result<(), TeError> {
        for lane in 0..count {
            if self.guard.is_some_and(|guard| registers.get::<i32>(guard)[lane] == 0) {
                by_class!(target.to.class, T => registers.get_mut::<T>(target.to)[lane] = T::default());
                continue;
            }
            let mut offset = 0i64;
            for (d, (index, (extent, stride))) in self.indices.iter().zip(&self.dimensions).enumerate() {
                let value = value(registers, *index, lane);
                if usize::try_from(value).is_ok_and(|value| value < *extent) {
                    offset += value * *stride as i64;
                } else {
                    return Err(self.outside(d, value, i64::try_from(*extent).unwrap_or(i64::MAX)));
                }
            }
            // SAFETY: the element is within the tensor's shape; the caller's promise.
            unsafe { target.read(registers, lane, offset, 1, 1) };
        }
        Ok(())
    }
}

impl Row {
    /// `None` unless each index is a multiple of the axis plus what is the same for all points along it.
    fn of(indices: &[Expr], strides: &[isize], last: Option<Var>, is_same: impl Fn(Var) -> bool) -> Option<Self> {
        let along = |index: &Expr| -> Option<i64> {
            let mut sum = 0i64;
            for (atom, times) in Linear::of(index).terms {
                match atom.kind() {
                    Kind::Var(var) if Some(*var) == last => sum = sum.checked_add(times)?,
                    _ => {
                        let mut are_same = true;
                        atom.visit(&mut |part| {
                            if let Kind::Var(var) = part.kind() {
                                are_same &= Some(*var) != last && is_same(*var);
                            }
                        });
                        are_same.then_some(())?;
                    }
                }
            }
            // Indices of 32 bits wrap: with smaller steps, they leave a tensor before they come back.
            i32::try_from(sum).is_ok().then_some(sum)
        };
        let indices: SmallVec<[i64; 4]> = indices.iter().map(along).collect::<Option<_>>()?;
        let step = indices.iter().zip(strides).map(|(by, stride)| by.wrapping_mul(*stride as i64));
        Some(Self { step: step.fold(0, i64::wrapping_add), indices })
    }
}

/// An index of a lane.
fn value(registers: &Registers, index: Register, lane: usize) -> i64 {
    match index.class {
        Class::I64 => registers.get::<i64>(index)[lane],
        _ => i64::from(registers.get::<i32>(index)[lane]),
    }
}

/// How many points from the first on, whose index it is, are inside an extent.
const fn points_inside(first: i64, extent: i64, by: i64) -> i64 {
    if first < 0 || first >= extent {
        return 0;
    }
    match by {
        0 => i64::MAX,
        1.. => (extent - 1 - first) / by + 1,
        _ => first / by.wrapping_neg() + 1,
    }
}

/// The indices at which `length` points begin that are all inside an extent, one `by` after the other.
fn beginnings(extent: i64, by: i64, length: usize) -> RangeInclusive<i64> {
    let reach = by.saturating_mul(i64::try_from(length).unwrap_or(i64::MAX).saturating_sub(1));
    reach.saturating_neg().max(0)..=(extent - 1).min((extent - 1).saturating_sub(reach))
}

#[cfg(test)]
mod tests {
    use super::{beginnings, points_inside};

    #[test]
    fn rows_begin_where_all_their_points_are_inside() {
        for extent in 0..7 {
            for by in -4..5 {
                for length in 1..6usize {
                    for first in -3..9 {
                        let inside = points_inside(first, extent, by) >= length as i64;
                        let begins = beginnings(extent, by, length).contains(&first);
                        assert_eq!(begins, inside, "{length} of {extent} from {first} by {by}");
                    }
                }
            }
        }
        assert!(beginnings(i64::MAX, i64::MAX, usize::MAX).is_empty());
    }

    #[test]
    fn points_inside_are_those_of_a_loop() {
        for extent in 0..6 {
            for first in -2..8 {
                for by in -7..8 {
                    let is_inside = |point: &i64| (0..extent).contains(&(first + by * point));
                    let counted = (0..100).take_while(is_inside).count() as i64;
                    assert_eq!(points_inside(first, extent, by).min(100), counted, "{first} of {extent} by {by}");
                }
            }
        }
    }
}
