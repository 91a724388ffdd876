//! Brings the lanes together that a member mask names (PTX ISA §9.7.9.6, §9.7.13.2, §9.7.13.8–9.7.13.13).
//!
//! An instruction with a member mask waits for all lanes that the mask names and that have not ended. Each must have
//! executed one with equal qualifiers and an equal mask. Since sm_70 it need not be the same instruction: the two sides
//! of a branch may each have their own. So may the calls of a function that is expanded at each of them.

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::state::warp::RowFile;
use crate::program::flags::CollectiveFlags;
use crate::program::{Instruction, Row};

/// Lanes at an instruction.
#[derive(Clone, Copy)]
struct Party {
    pc: u32,
    lanes: u32,
}

/// The row that holds an instruction's member mask.
pub(super) type MembersRow = fn(&Context<'_>, &Instruction) -> Row;

impl Context<'_> {
    /// Calls `then` for the lanes of each member mask, when all lanes that the mask names are here. Lanes with different
    /// masks, such as the tiles of cooperative groups, form separate exchanges.
    #[inline(always)]
    pub(super) fn each_group(
        &mut self,
        i: &Instruction,
        mask: u32,
        row: MembersRow,
        then: impl Fn(&mut Self, &Instruction, u32),
    ) -> Flow {
        let members_row = row(self, i);
        let members: u32 = self.get(members_row, mask.trailing_zeros() as usize);
        let warp = &self.warp;
        let mut other = members & warp.lanes ^ mask | warp.passed.len() as u32;
        for (lane, value) in self.lanes::<u32>(members_row).iter().enumerate() {
            other |= if mask >> lane & 1 != 0 { value ^ members } else { 0 };
        }
        if other == 0 {
            self.tell_of_group(mask);
            then(self, i, mask);
            return Flow::Next;
        }
        self.gather(i, mask, row, &then)
    }

    /// Gathers the lanes if some are missing, are elsewhere or have ended, or if masks differ.
    #[cold]
    #[inline(never)]
    fn gather(
        &mut self,
        i: &Instruction,
        mask: u32,
        row: MembersRow,
        then: &dyn Fn(&mut Self, &Instruction, u32),
    ) -> Flow {
        let (pc, active) = (self.pc, self.active);
        let mut missing = 0;
        for (members, lanes) in self.groups(row(self, i), mask) {
            if lanes & !members != 0 {
                let lane = (lanes & !members).trailing_zeros() as usize;
                let message = format!("the lane is not in the member mask {members:#010x}");
                return self.invalid(Some(lane), message);
            }
            let elsewhere = self.waiting_elsewhere(members, row);
            let all = elsewhere.iter().fold(lanes, |all, party| all | party.lanes);
            if all != members & self.warp.living() {
                missing |= lanes;
                // They may still come to another instruction with this mask.
                self.warp.pass(pc, active & members & !lanes);
                continue;
            }
            if let Err(flow) = self.check_absent(members, &elsewhere) {
                return flow;
            }
            if elsewhere.is_empty() {
                self.tell_of_group(lanes);
                then(self, i, lanes);
            } else {
                self.exchange_among(i, lanes, &elsewhere, then);
            }
        }
        if missing == 0 {
            return Flow::Next;
        }
        if missing == mask {
            return Flow::RetryTogether;
        }
        let warp = &mut *self.warp;
        warp.mask = active & !missing;
        warp.set_aside(pc, missing, true);
        warp.update_next();
        Flow::Next
    }

    /// The different member masks in `row`, each with its lanes.
    fn groups(&self, row: Row, mask: u32) -> Vec<(u32, u32)> {
        let mut groups: Vec<(u32, u32)> = vec![];
        for lane in lanes_of(mask) {
            let members: u32 = self.get(row, lane);
            match groups.iter_mut().find(|group| group.0 == members) {
                Some(group) => group.1 |= 1 << lane,
                None => groups.push((members, 1 << lane)),
            }
        }
        groups
    }

    /// The lanes that wait for others of their warp, at instructions with the text of this one.
    pub(super) fn groups_at_same_text(&self) -> impl Iterator<Item = (u32, u32)> {
        let origins = &self.program.origins;
        let opcode = origins[self.pc as usize].opcode;
        let groups = self.warp.groups.iter().filter(move |group| group.waits);
        groups.filter(move |group| origins[group.pc as usize].opcode == opcode).map(|group| (group.pc, group.mask))
    }

    /// The lanes that wait at an instruction with the qualifiers of this one and this member mask.
    fn waiting_elsewhere(&self, members: u32, row: MembersRow) -> Vec<Party> {
        let named = |pc: u32, mask: u32| {
            let row = row(self, &self.program.code[pc as usize]);
            lanes_of(mask)
                .filter(|&lane| self.get::<u32>(row, lane) == members)
                .fold(0, |lanes, lane| lanes | 1 << lane)
        };
        let parties = self.groups_at_same_text().map(|(pc, mask)| Party { pc, lanes: named(pc, mask) });
        parties.filter(|party| party.lanes != 0).collect()
    }

    /// Before an exchange: an error, or a finding, for lanes that the mask names and that have ended after they went
    /// around it.
    fn check_absent(&mut self, members: u32, elsewhere: &[Party]) -> Result<(), Flow> {
        let ended = members & self.warp.exited;
        let pcs: Vec<u32> = elsewhere.iter().map(|party| party.pc).chain([self.pc]).collect();
        for pc in pcs {
            let passed = self.warp.take_passed(pc) & ended;
            if passed != 0 {
                self.pc = pc;
                let message = format!("lanes {passed:#010x} are in the member mask {members:#010x} and pass it by");
                return Err(self.invalid(None, message));
            }
            if ended == 0 || !self.is_observed() {
                continue;
            }
            let Some(after) = self.program.after_collective(pc) else { continue };
            let around = |lane: &usize| after.contains(self.warp.last_access[*lane]);
            let lanes = lanes_of(ended).filter(around).fold(0, |lanes, lane| lanes | 1 << lane);
            if lanes != 0 {
                let at = crate::race::At { pc, ..self.at(lanes) };
                self.tell(|o| o.collective_passed(at));
            }
        }
        Ok(())
    }

    /// Lets the lanes here and those elsewhere execute the instruction together. Each party has its own operands, so they
    /// are put side by side in registers of their own first.
    fn exchange_among(
        &mut self,
        i: &Instruction,
        lanes: u32,
        elsewhere: &[Party],
        then: &dyn Fn(&mut Self, &Instruction, u32),
    ) {
        // Rows in pairs, as `match` needs for 64 bits.
        const A: Row = 0;
        const B: Row = 2;
        const C: Row = 4;
        const D: Row = 6;
        // 0 stands for no predicate.
        const P: u16 = 1;
        const Q: u16 = 2;
        let program = self.program;
        let here = Party { pc: self.pc, lanes };
        let parties = || elsewhere.iter().copied().chain([here]);
        let all = parties().fold(0, |all, party| all | party.lanes);
        let wide = i.has(CollectiveFlags::MATCH_WIDE);
        let (mut rows, mut predicates) = (RowFile::new(8), [0; 3]);
        let mut undefined = self.warp.undefined.with_same_reads();
        for Party { pc, lanes } in parties() {
            let at = &program.code[pc as usize];
            for (from, to) in [(at.a, A), (at.b, B), (at.c, C)] {
                for lane in lanes_of(lanes) {
                    if wide && to == A {
                        rows.set_wide(to, lane, self.get(from, lane));
                    } else {
                        rows.narrow(to)[lane] = self.get(from, lane);
                    }
                }
                let (held, read) = self.warp.undefined.get(from);
                undefined.set(to, lanes, held & lanes, read);
            }
            let negated = if at.has(CollectiveFlags::NEGATED) { u32::MAX } else { 0 };
            predicates[Q as usize] |= (self.predicate(at.q) ^ negated) & lanes;
        }
        let flags = i.flags & !CollectiveFlags::NEGATED.bits();
        let together = Instruction { a: A, b: B, c: C, d: D, p: P, q: Q, flags, ..i.clone() };
        // The context has these registers in place of the warp's meanwhile.
        let own = (self.rows, self.predicates);
        (self.rows, self.predicates) = (rows.as_mut_ptr(), predicates.as_mut_ptr());
        std::mem::swap(&mut self.warp.undefined, &mut undefined);
        self.tell_of_group(all);
        then(self, &together, all);
        std::mem::swap(&mut self.warp.undefined, &mut undefined);
        (self.rows, self.predicates) = own;
        self.warp.undefined.reads.clone_from(&undefined.reads);
        let (held, read) = undefined.get(D);
        for Party { pc, lanes } in parties() {
            let at = &program.code[pc as usize];
            self.put::<u32>(at.d, rows.narrow(D), lanes);
            self.warp.undefined.set(at.d, lanes, held & lanes, read);
            if at.p != 0 {
                self.put_predicate(at.p, predicates[P as usize], lanes);
            }
        }
        for &Party { pc, lanes } in elsewhere {
            self.warp.release(pc, lanes);
        }
    }

    fn tell_of_group(&mut self, lanes: u32) {
        if self.is_observed() {
            let at = self.at(lanes);
            self.tell(|o| o.collective(at));
        }
    }
}
