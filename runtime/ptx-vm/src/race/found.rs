//! Findings without names: each once for its place in the code.

use std::collections::HashMap;

use super::Space;
use super::finding::{Fault, Hazard, RaceCause};
use super::stamp::Stamp;

/// A race as it was found, without names yet.
#[derive(Clone, Debug)]
pub(super) struct RawRace {
    pub(super) hazard: Hazard,
    pub(super) cause: RaceCause,
    pub(super) first: Stamp,
    pub(super) second: Stamp,
    pub(super) space: Space,
    pub(super) address: u64,
}

/// A fault as it was found, without names yet.
#[derive(Clone, Debug)]
pub(super) struct RawFault {
    pub(super) fault: Fault,
    pub(super) cluster: u32,
    pub(super) rank: u32,
    pub(super) warp: Option<u32>,
    pub(super) lanes: u32,
    pub(super) pc: u32,
}

/// The findings: one race for each pair of instructions, one fault of each kind for each instruction.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) races: HashMap<(u32, u32, Hazard, RaceCause), RawRace>,
    pub(super) faults: HashMap<(u32, std::mem::Discriminant<Fault>), RawFault>,
}

impl Found {
    pub(super) fn fault(&mut self, fault: RawFault) {
        self.faults.entry((fault.pc, std::mem::discriminant(&fault.fault))).or_insert(fault);
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (key, race) in other.races {
            self.races.entry(key).or_insert(race);
        }
        for (key, fault) in other.faults {
            self.faults.entry(key).or_insert(fault);
        }
    }
}
