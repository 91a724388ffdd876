//! `wgmma` products that are under way, and operands that are ready for them.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::exec::state::in_flight::InFlight;
use crate::exec::state::wgmma_fence::FencedRegisters;
use crate::numerics::wgmma::{Columns, Wgmma};

/// A product that was issued: everything it needs but the accumulators and shared memory.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Issued {
    /// Number of the form.
    pub(in crate::exec) form: usize,
    /// Where its rows start in the program's list.
    pub(in crate::exec) list: u32,
    pub(in crate::exec) a_bits: u64,
    pub(in crate::exec) b_bits: u64,
    pub(in crate::exec) a_registers: Vec<[u32; 32]>,
    pub(in crate::exec) scale_d: bool,
    /// The warp's group that it belongs to.
    pub(in crate::exec) group: u32,
}

/// Rows of an accumulator and the values they will have.
pub(in crate::exec) type Accumulators = (Vec<u32>, Vec<[u32; 32]>);

/// Products of a warp that have not taken effect. Their accumulators hold poison.
#[derive(Default)]
pub(in crate::exec) struct WarpProducts {
    pub(in crate::exec) issued: VecDeque<Issued>,
    /// Groups committed so far.
    pub(in crate::exec) committed: u32,
    pub(in crate::exec) accumulators: Vec<Accumulators>,
    /// For the detector.
    pub(in crate::exec) fenced: FencedRegisters,
    pub(in crate::exec) in_flight: InFlight,
}

impl WarpProducts {
    pub(in crate::exec) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Right operands made ready by one warp of a warpgroup, for the others: valid as long as nothing is written.
#[derive(Default)]
pub(in crate::exec) struct ReadyOperands {
    /// The worker's count of changes to memory when they were made.
    pub(in crate::exec) writes: u64,
    pub(in crate::exec) ready: Vec<(ReadyKey, Rc<Columns>)>,
}

/// Block, descriptor, product, whether MN-major, whether negated.
pub(in crate::exec) type ReadyKey = (usize, u64, Wgmma, bool, bool);

impl ReadyOperands {
    pub(in crate::exec) fn clear(&mut self) {
        self.ready.clear();
    }
}
