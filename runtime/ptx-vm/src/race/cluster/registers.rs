//! The registers of a block's warps, which `setmaxnreg` moves between them (PTX ISA 9.7.19.5).

use super::super::observer::At;
use super::{ClusterDetector, Fault};

/// The requests of a warp.
#[derive(Debug, Default)]
struct Asked {
    /// The requested numbers, in order.
    numbers: Vec<u32>,
    /// The last instruction that made a request.
    pc: u32,
}

/// The requests of the warps of a block, by warp.
#[derive(Debug, Default)]
pub(super) struct Pool {
    warps: Vec<Asked>,
}

impl ClusterDetector {
    pub(super) fn sets_registers(&mut self, at: At, registers: u32, grows: bool) {
        let known = self.launch.shape.registers;
        let pool = &mut self.blocks[at.rank as usize].registers;
        let index = at.warp as usize;
        if pool.warps.len() <= index {
            pool.warps.resize_with(index + 1, Asked::default);
        }
        let asked = &mut pool.warps[index];
        let before = asked.numbers.last().copied();
        asked.numbers.push(registers);
        asked.pc = at.pc;
        // Only an upper bound is known of the registers with which a thread begins.
        let wrong = match (grows, before) {
            (true, Some(before)) => registers < before,
            (true, None) => false,
            (false, Some(before)) => registers > before,
            (false, None) => known != 0 && registers > known,
        };
        if wrong {
            let before = before.unwrap_or(known);
            self.fault(at, at.lanes, Fault::RegisterDirection { before, now: registers, grows });
        }
    }

    /// When a block ends: checks that all warps of a warpgroup have requested the same, and that there were enough
    /// registers.
    pub(super) fn check_registers(&self, rank: u32, faults: &mut Vec<(u32, Fault)>) {
        let pool = &self.blocks[rank as usize].registers;
        if pool.warps.is_empty() {
            return;
        }
        let (warps, known) = (self.launch.layout.warps, self.launch.shape.registers);
        let none = Asked::default();
        let of = |warp: u32| pool.warps.get(warp as usize).unwrap_or(&none);
        for first in (0..warps).step_by(4) {
            let group: Vec<_> = (first..warps.min(first + 4)).map(of).collect();
            let longest = group.iter().max_by_key(|asked| asked.numbers.len());
            if let Some(longest) = longest
                && group.iter().any(|asked| asked.numbers != longest.numbers)
            {
                faults.push((longest.pc, Fault::RegistersOfOneWarp { warpgroup: first / 4 }));
            }
        }
        let now: u32 = (0..warps).map(|warp| of(warp).numbers.last().copied().unwrap_or(known)).sum();
        let largest = (0..warps).map(of).max_by_key(|asked| asked.numbers.last().copied().unwrap_or(0));
        if known != 0
            && now > known * warps
            && let Some(largest) = largest
        {
            faults.push((largest.pc, Fault::RegisterPool { asked: now * 32, available: known * warps * 32 }));
        }
    }
}
