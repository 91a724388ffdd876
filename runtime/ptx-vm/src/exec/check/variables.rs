//! Accesses that leave their variable: to the bytes between two variables of shared or of local memory.

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::memory::access::Addresses;
use crate::memory::window;

impl Context<'_> {
    /// The lanes whose access touches bytes between two shared variables.
    #[inline(always)]
    pub(in crate::exec) fn lanes_past_variables(&self, offsets: &[u32; 32], mask: u32, bytes: u32) -> u32 {
        if self.program.shared.gaps.is_empty() || !self.checked {
            return 0;
        }
        let (mut low, mut high) = (u32::MAX, 0);
        for (lane, &offset) in offsets.iter().enumerate() {
            let active = mask >> lane & 1 != 0;
            low = low.min(if active { offset } else { u32::MAX });
            high = high.max(if active { offset } else { 0 });
        }
        if self.program.shared.may_pass(low, high + bytes) {
            return self.each_past_variables(offsets, mask, bytes);
        }
        0
    }

    #[cold]
    #[inline(never)]
    fn each_past_variables(&self, offsets: &[u32; 32], mask: u32, bytes: u32) -> u32 {
        let past = |lane: &usize| self.past_variable(offsets[*lane], bytes).is_some();
        lanes_of(mask).filter(past).fold(0, |lanes, lane| lanes | 1 << lane)
    }

    /// If an access touches bytes between two shared variables: where it is.
    pub(in crate::exec) fn past_variable(&self, offset: u32, bytes: u32) -> Option<String> {
        self.program.shared.past("shared", offset, bytes)
    }

    /// If an access touches bytes between two local variables: where it is.
    pub(in crate::exec) fn past_local(&self, offset: u32, bytes: u32) -> Option<String> {
        self.program.local.past("local", offset, bytes)
    }

    /// Before a write: checks that it stays in its variable.
    #[inline(always)]
    pub(in crate::exec) fn check_variables(&mut self, offsets: &[u32; 32], mask: u32, bytes: u32) -> Result<(), Flow> {
        let past = self.lanes_past_variables(offsets, mask, bytes);
        if past == 0 {
            return Ok(());
        }
        let lane = past.trailing_zeros() as usize;
        Err(self.out_of_bounds(lane, MemorySpace::Shared, offsets[lane].into(), bytes))
    }

    /// The lanes whose access touches bytes between two local variables. Addresses below local memory are parameters.
    pub(in crate::exec) fn lanes_past_local(&self, addresses: &Addresses, mask: u32, bytes: u32) -> u32 {
        if self.program.local.gaps.is_empty() || !self.checked {
            return 0;
        }
        let past = |lane: &usize| {
            let address = addresses[*lane] & ((1 << window::OWNER_SHIFT) - 1);
            let offset = address.checked_sub(window::LOCAL);
            offset.is_some_and(|offset| {
                let offset = offset as u32;
                self.program.local.may_pass(offset, offset + bytes) && self.past_local(offset, bytes).is_some()
            })
        };
        lanes_of(mask).filter(past).fold(0, |lanes, lane| lanes | 1 << lane)
    }
}
