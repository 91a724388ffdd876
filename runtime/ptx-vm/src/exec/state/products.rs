//! `wgmma` products in flight, and operands that are ready for them.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::exec::state::in_flight::InFlight;
use crate::exec::state::wgmma_fence::FencedRegisters;
use crate::numerics::wgmma::{Columns, Wgmma};

/// A product that was issued, with everything it needs except the accumulators and shared memory.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Issued {
    /// Number of its form in the program.
    pub(in crate::exec) form: usize,
    /// Start of its rows in the program's list.
    pub(in crate::exec) list: u32,
    pub(in crate::exec) a_bits: u64,
    pub(in crate::exec) b_bits: u64,
    pub(in crate::exec) a_registers: Vec<[u32; 32]>,
    pub(in crate::exec) scale_d: bool,
    /// The warp's group that it belongs to.
    pub(in crate::exec) group: u32,
}

/// The rows of an accumulator and the values that they will have.
pub(in crate::exec) type Accumulators = (Vec<u32>, Vec<[u32; 32]>);

/// The products of a warp that have not completed. Their accumulators hold poison.
#[derive(Default)]
pub(in crate::exec) struct WarpProducts {
    pub(in crate::exec) issued: VecDeque<Issued>,
    /// The number of groups committed so far.
    pub(in crate::exec) committed: u32,
    pub(in crate::exec) accumulators: Vec<Accumulators>,
    /// Fenced registers, for the detector.
    pub(in crate::exec) fenced: FencedRegisters,
    pub(in crate::exec) in_flight: InFlight,
}

impl WarpProducts {
    pub(in crate::exec) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Right operands that one warp of a warpgroup has prepared for the others. They are valid until memory is written.
#[derive(Default)]
pub(in crate::exec) struct ReadyOperands {
    /// The worker's count of changes to memory when they were prepared.
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
