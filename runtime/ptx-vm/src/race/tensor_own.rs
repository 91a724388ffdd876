//! A warp's knowledge of its own `tcgen05` operations, and the actors that it has for them.

use std::sync::Arc;

use super::clock::Clock;
use super::knowledge::Knowledge;
use super::lanes::lanes_of;

/// Number of actors of a warp for its `tcgen05` operations, whose numbers are relative to the first of them.
pub(super) const TENSOR_ACTORS: u32 = 6;
/// Writes of accumulators by products.
pub(super) const PRODUCTS: u32 = 0;
/// Reads by products, of shared and of tensor memory.
pub(super) const OPERANDS: u32 = 1;
/// Copies from shared to tensor memory.
pub(super) const COPIES: u32 = 2;
/// `tcgen05.ld`
pub(super) const LOADS: u32 = 3;
/// `tcgen05.st`
pub(super) const STORES: u32 = 4;
/// Products and copies that were issued, complete or not.
pub(super) const ISSUED: u32 = 5;

/// A warp's knowledge of its own `tcgen05` operations.
#[derive(Debug)]
pub(super) struct TensorOwn {
    /// The number of the first of its actors for them, within the cluster.
    pub(super) actor: u32,
    /// The stamp of products and copies that are issued now.
    pub(super) epoch: u32,
    /// The stamp of loads that are issued now, and of the last ones that were waited for.
    pub(super) load: u32,
    pub(super) loaded: u32,
    /// The stamps of stores, likewise.
    pub(super) store: u32,
    pub(super) stored: u32,
    /// For each lane, the loads, stores and issued operations before its last `before_thread_sync`.
    pub(super) sent_loads: [u32; 32],
    pub(super) sent_stores: [u32; 32],
    pub(super) sent_issues: [u32; 32],
    /// For each lane, what was known and sent at its last `after_thread_sync`.
    pub(super) seen: [Option<Arc<Clock>>; 32],
}

impl TensorOwn {
    pub(super) fn new(actor: u32) -> Self {
        Self {
            actor,
            epoch: 1,
            load: 1,
            loaded: 0,
            store: 1,
            stored: 0,
            sent_loads: [0; 32],
            sent_stores: [0; 32],
            sent_issues: [0; 32],
            seen: Default::default(),
        }
    }

    /// Adds what the lanes know of their operations, and what they send by their fences.
    pub(super) fn add_to(&self, lanes: u32, to: &mut Knowledge) {
        let happened = &mut to.happened.own;
        happened.raise(self.actor + LOADS, self.loaded);
        happened.raise(self.actor + STORES, self.stored);
        let sent = &mut to.tensor_sent.own;
        for lane in lanes_of(lanes) {
            let each = [(LOADS, &self.sent_loads), (STORES, &self.sent_stores), (ISSUED, &self.sent_issues)];
            for (kind, epochs) in each {
                sent.raise_lanes(self.actor + kind, 1 << lane, epochs[lane as usize]);
            }
        }
    }
}
