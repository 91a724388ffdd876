//! The context: the view of the machine that a handler has while its warp runs.

use std::ptr::NonNull;

use crate::exec::lane::Lane;
use crate::exec::state::block::Cluster;
use crate::exec::state::fault::Fault;
use crate::exec::state::launch::LaunchState;
use crate::exec::state::warp::Warp;
use crate::exec::state::worker::WorkerState;
pub(super) use crate::program::Flow;
use crate::program::{Program, Row, Running};

/// The running warp, its block and its launch. The raw pointers point to the register files of the running warp and to
/// the shared memory of its block; they are valid while the warp runs.
pub(crate) struct Context<'a> {
    pub(super) rows: *mut u32,
    pub(super) predicates: *mut u32,
    pub(super) shared: *mut u8,
    pub(super) shared_size: u32,
    /// Whether reads of unwritten bytes are checked.
    pub(super) checked: bool,
    /// Whether bytes and bank conflicts are counted.
    pub(super) counting: bool,
    /// Whether a detector watches.
    pub(super) observed: bool,
    /// The instruction being executed.
    pub(super) pc: u32,
    /// All lanes at this instruction: the active mask before the guard.
    pub(super) active: u32,
    pub(super) program: &'a Program,
    pub(super) launch: &'a LaunchState<'a>,
    pub(super) cluster: &'a mut Cluster,
    /// Index of the running block in the cluster.
    pub(super) block: usize,
    pub(super) warp: &'a mut Warp,
    pub(super) worker: &'a mut WorkerState,
    pub(super) fault: Option<Box<Fault>>,
    pub(super) lane_targets: [u32; 32],
}

impl Context<'_> {
    /// The context in the form in which handlers take it.
    #[inline(always)]
    pub(super) fn running(&mut self) -> NonNull<Running> {
        NonNull::from(self).cast()
    }

    /// The context behind a pointer of [`Context::running`].
    ///
    /// # Safety
    /// The pointer must come from a live context that nobody else uses as long as the reference exists. The lifetimes
    /// inside are shortened to that of the reference.
    #[inline(always)]
    pub(super) unsafe fn of<'r>(running: NonNull<Running>) -> &'r mut Self {
        // SAFETY: by this function's contract, the pointer is to a context.
        unsafe { running.cast().as_mut() }
    }

    /// A register's 32 values.
    #[inline(always)]
    pub(super) fn lanes<T: Lane>(&self, row: Row) -> &[T::Cell; 32] {
        // SAFETY: the decoder numbers rows below the file's size (two for wide registers), and the file is aligned for
        // both widths. The reference ends before the next write through this context.
        unsafe { &*self.rows.add(row as usize * 32).cast() }
    }

    /// A register's 32 values, for writing.
    #[inline(always)]
    pub(super) fn lanes_mut<T: Lane>(&mut self, row: Row) -> &mut [T::Cell; 32] {
        // SAFETY: as for `lanes`; the borrow of the context is exclusive.
        unsafe { &mut *self.rows.add(row as usize * 32).cast() }
    }

    /// One lane's value.
    #[inline(always)]
    pub(super) fn get<T: Lane>(&self, row: Row, lane: usize) -> T {
        T::from_cell(self.lanes::<T>(row)[lane])
    }

    /// Writes the lanes of the mask.
    #[inline(always)]
    pub(super) fn put<T: Lane>(&mut self, row: Row, values: &[T::Cell; 32], mask: u32) {
        let to = self.lanes_mut::<T>(row);
        if mask == u32::MAX {
            *to = *values;
        } else {
            for i in 0..32 {
                to[i] = if mask >> i & 1 != 0 { values[i] } else { to[i] };
            }
        }
    }

    #[inline(always)]
    pub(super) fn predicate(&self, index: u16) -> u32 {
        // SAFETY: the decoder numbers predicates below the file's size.
        unsafe { *self.predicates.add(index as usize) }
    }

    /// Writes a predicate's bits in the lanes of the mask.
    #[inline(always)]
    pub(super) fn put_predicate(&mut self, index: u16, bits: u32, mask: u32) {
        // SAFETY: as for `predicate`.
        let to = unsafe { &mut *self.predicates.add(index as usize) };
        *to = *to & !mask | bits & mask;
    }

    /// The rows of a vector operand.
    #[inline(always)]
    pub(super) fn list(&self, start: u32, length: usize) -> &[Row] {
        &self.program.rows[start as usize..start as usize + length]
    }
}

/// The lanes of a mask, in ascending order.
#[inline(always)]
pub(super) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
