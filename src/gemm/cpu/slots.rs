//! Memory for what one part of an epilogue leaves for those after it.

use std::sync::Mutex;

use super::element::View;
use super::tile::Extents;
use crate::evt::Slot;
use crate::parallel;
use crate::sync::lock;

/// The most bytes of one that a plan keeps.
const MOST_KEPT: usize = 64 << 20;

/// What a plan keeps: memory of runs, and of the threads of those that compute by panels.
#[derive(Debug, Default)]
pub(super) struct SlotMemory(Mutex<Vec<Slots>>);

/// Memory of slots.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Vec<u64>>);

impl SlotMemory {
    /// Memory with room for every slot of a product of these extents.
    pub(super) fn take(&self, slots: &[Slot], extents: Extents) -> Slots {
        if slots.is_empty() {
            return Slots::default();
        }
        let mut taken = lock(&self.0).pop().unwrap_or_default();
        taken.make_room(slots, extents);
        taken
    }

    /// Keeps memory for later, of no more threads than run at once, and if it is no more than what is worth keeping.
    pub(super) fn keep(&self, slots: Slots) {
        if slots.0.is_empty() {
            return;
        }
        let bytes: usize = slots.0.iter().map(|memory| size_of_val(memory.as_slice())).sum();
        let mut kept = lock(&self.0);
        if bytes <= MOST_KEPT && kept.len() < parallel::threads() {
            kept.push(slots);
        }
    }
}

impl Slots {
    fn make_room(&mut self, slots: &[Slot], extents: Extents) {
        self.0.resize_with(slots.len(), Vec::new);
        for (memory, slot) in self.0.iter_mut().zip(slots) {
            let (batch, rows, columns) = slot.extents(extents.batch, extents.m, extents.n);
            let words = (batch * rows * columns * slot.element.size()).div_ceil(size_of::<u64>());
            if memory.len() < words {
                *memory = vec![0; words];
            }
        }
    }

    /// How the slots are accessed.
    pub(super) fn views(&mut self, slots: &[Slot], extents: Extents) -> Vec<View> {
        let absent = absent(slots, extents);
        let view = |(memory, absent): (&mut Vec<u64>, View)| View { pointer: memory.as_mut_ptr().cast(), ..absent };
        self.0.iter_mut().zip(absent).map(view).collect()
    }
}

/// How slots without memory are accessed.
pub(super) fn absent(slots: &[Slot], extents: Extents) -> Vec<View> {
    let view = |slot: &Slot| {
        let (_, rows, columns) = slot.extents(extents.batch, extents.m, extents.n);
        View {
            pointer: std::ptr::null_mut(),
            element: slot.element,
            strides: strides(slot, rows, columns),
            digits: None,
        }
    };
    slots.iter().map(view).collect()
}

/// Distances in a packed slot, as [`View`] has them: between batches, then along the axes that the class has.
fn strides(slot: &Slot, rows: usize, columns: usize) -> [isize; 3] {
    use crate::evt::BroadcastClass::{ColumnVector, RowVector, Scalar, Tensor};
    let batch = if slot.batched { rows * columns } else { 0 };
    let (first, second) = match slot.class {
        Scalar => (0, 0),
        RowVector | ColumnVector => (1, 0),
        Tensor => (columns, 1),
    };
    [batch as isize, first as isize, second]
}
