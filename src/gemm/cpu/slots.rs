//! Memory for the intermediates between the parts of an epilogue.

use std::sync::Mutex;

use super::element::View;
use super::tile::Extents;
use crate::evt::{BroadcastClass, PartBinding, Phases, Slot};
use crate::gemm::problem::Error;
use crate::parallel;
use crate::simd::lines::Lines;
use crate::sync::lock;

/// The most bytes of one that a plan keeps.
const MOST_KEPT: usize = 512 << 20;

/// Memory that a plan keeps: for runs, and for threads that compute by panels.
#[derive(Debug)]
pub(super) struct SlotMemory {
    /// For each slot, the slot whose memory it uses: itself, or one that is read for the last time when this is
    /// written.
    homes: Vec<usize>,
    kept: Mutex<Vec<Slots>>,
}

/// Memory of slots, for each that has its own.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Lines<u8>>);

impl SlotMemory {
    /// None yet, for the slots of an epilogue.
    pub(super) fn new(phases: &Phases) -> Self {
        Self { homes: homes(phases), kept: Mutex::default() }
    }

    /// Memory with room for every slot of a product of these extents.
    ///
    /// # Errors
    /// There is not enough.
    pub(super) fn take(&self, slots: &[Slot], extents: Extents) -> Result<Slots, Error> {
        if slots.is_empty() {
            return Ok(Slots::default());
        }
        let mut taken = lock(&self.kept).pop().unwrap_or_default();
        taken.make_room(slots, &self.homes, extents)?;
        Ok(taken)
    }

    /// How the slots are accessed.
    pub(super) fn views(&self, memory: &mut Slots, slots: &[Slot], extents: Extents) -> Vec<View> {
        let pointers: Vec<*mut u8> = memory.0.iter_mut().map(|memory| memory.as_mut_ptr()).collect();
        let view = |(home, absent): (&usize, View)| View { pointer: pointers[*home], ..absent };
        self.homes.iter().zip(absent(slots, extents)).map(view).collect()
    }

    /// Keeps memory for later, of no more threads than run at once, and if it is no more than what is worth keeping.
    pub(super) fn keep(&self, slots: Slots) {
        if slots.0.is_empty() {
            return;
        }
        let bytes: usize = slots.0.iter().map(|memory| memory.len()).sum();
        let mut kept = lock(&self.kept);
        if bytes <= MOST_KEPT && kept.len() < parallel::threads() {
            kept.push(slots);
        }
    }
}

impl Slots {
    fn make_room(&mut self, slots: &[Slot], homes: &[usize], extents: Extents) -> Result<(), Error> {
        self.0.resize_with(slots.len(), Lines::default);
        for (number, (memory, slot)) in self.0.iter_mut().zip(slots).enumerate() {
            let (batch, rows, columns) = slot.extents(extents.batch, extents.m, extents.n);
            let bytes = [rows, columns, slot.element.size()].into_iter().fold(batch, usize::saturating_mul);
            if homes[number] == number && memory.len() < bytes {
                *memory = Lines::try_zeroed(bytes)?;
            }
        }
        Ok(())
    }
}

/// For each slot, the slot whose memory it uses. A part loads an element before it stores one in its place. A matrix
/// may therefore reuse the memory of another that no later part reads.
fn homes(phases: &Phases) -> Vec<usize> {
    let slots = &phases.slots;
    let mut homes: Vec<usize> = (0..slots.len()).collect();
    // The parts that write a slot first, and read it last.
    let (mut written, mut read) = (vec![0; slots.len()], vec![0; slots.len()]);
    for (number, part) in phases.parts.iter().enumerate() {
        let (parameters, outputs) = part.bindings.split_at(part.tree.parameters().len());
        let of_slots = |bindings: &[PartBinding], of: &mut Vec<usize>| {
            for binding in bindings {
                if let PartBinding::Slot(slot) = binding {
                    of[*slot] = number;
                }
            }
        };
        of_slots(parameters, &mut read);
        of_slots(outputs, &mut written);
    }
    let mut order: Vec<usize> = (0..slots.len()).filter(|slot| slots[*slot].class == BroadcastClass::Tensor).collect();
    order.sort_by_key(|slot| written[*slot]);
    // Slots with memory of their own, each with the slot that uses it last.
    let mut owners: Vec<(usize, usize)> = Vec::new();
    for slot in order {
        let fits = |(owner, last): &&mut (usize, usize)| {
            let is_alike = slots[*owner].element == slots[slot].element && slots[*owner].batched == slots[slot].batched;
            is_alike && read[*last] <= written[slot] && written[*last] < written[slot]
        };
        match owners.iter_mut().find(fits) {
            Some((owner, last)) => (homes[slot], *last) = (*owner, slot),
            None => owners.push((slot, slot)),
        }
    }
    homes
}

/// How slots without memory are accessed.
pub(super) fn absent(slots: &[Slot], extents: Extents) -> Vec<View> {
    let view = |slot: &Slot| {
        let (_, rows, columns) = slot.extents(extents.batch, extents.m, extents.n);
        View {
            pointer: std::ptr::null_mut(),
            element: slot.element,
            strides: strides(slot, rows, columns),
            batches: None,
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
