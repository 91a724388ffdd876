//! Decides which reductions are combined directly, and how.

use std::ops::Range;

use crate::ElementType;
use crate::lane::{Class, Register};
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::te::auto::cpu::compile::ReductionCode;
use crate::te::auto::cpu::elements::{Affine, Elements};
use crate::te::auto::cpu::fold_memory::{Combine, FoldedRows, FromMemory};
use crate::te::auto::cpu::registers::{Registers, by_class};

/// A reduction of elements that vector code combines straight from memory.
pub(in crate::te::auto) struct Direct {
    pub(super) values: Vec<DirectValue>,
    /// The number of registers of every class, for the lanes.
    pub(super) counts: [usize; 4],
}

/// One value of the reduced tuple.
pub(super) struct DirectValue {
    pub(super) combine: Combine,
    /// The read of its elements.
    pub(super) read: Affine,
    pub(super) lanes: Register,
}

impl Direct {
    /// The plan, if the points of the reduction are elements that vector code can combine.
    pub(in crate::te::auto) fn of(code: &ReductionCode, elements: &Elements) -> Option<Self> {
        let combines = code.combines.as_ref()?;
        let (steps, points) = &code.source;
        if !steps.is_empty() {
            return None;
        }
        let mut direct = Self { values: Vec::new(), counts: [0; 4] };
        for (combine, point) in combines.iter().zip(points) {
            let read = elements.affine(*point)?;
            let element = read.element;
            let held = match point.class {
                Class::F32 => matches!(element, ElementType::F32 | ElementType::F16 | ElementType::BF16),
                Class::F64 => element == ElementType::F64,
                Class::I32 => matches!(element, ElementType::I32 | ElementType::I8 | ElementType::U8),
                Class::I64 => element == ElementType::I64,
            };
            if !held {
                return None;
            }
            let count = &mut direct.counts[point.class as usize];
            let lanes = Register { class: point.class, number: *count };
            *count += 1;
            direct.values.push(DirectValue { combine: *combine, read, lanes });
        }
        Some(direct)
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.values.iter_mut().for_each(|value| value.read.moved(by));
    }

    /// Whether the elements of every output are contiguous, for all values.
    pub(in crate::te::auto) fn follows(&self, inner: &[LoopLevel]) -> bool {
        inner.len() == 1 && self.values.iter().all(|value| value.step(inner) == 1)
    }
}

impl DirectValue {
    /// The address of the point that is `offset` elements after the first.
    pub(super) fn address(&self, offset: i64) -> u64 {
        self.read.address.wrapping_add_signed(offset * self.read.element.size() as i64)
    }

    pub(super) fn offset(&self, levels: &[LoopLevel], index: &[i64]) -> i64 {
        levels.iter().zip(index).map(|(level, i)| level.reads[self.read.place] * i).sum()
    }

    pub(super) fn step(&self, levels: &[LoopLevel]) -> i64 {
        levels.last().map_or(0, |level| level.reads[self.read.place])
    }

    /// Combines lanes from `first` on with rows.
    ///
    /// # Safety
    /// The conditions of [`FromMemory::fold`].
    pub(super) unsafe fn fold(&self, sums: &mut Registers, lanes: Range<usize>, rows: &FoldedRows) {
        // SAFETY: the caller's promise.
        by_class!(self.lanes.class, T => unsafe {
            T::fold(self.combine, &mut sums.get_mut::<T>(self.lanes)[lanes], rows);
        });
    }
}
