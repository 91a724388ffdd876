//! Undefined values: those read from unwritten shared memory, from beyond a shared or local variable, or from lanes that
//! take no part in a shuffle.
//!
//! Reading them is not an error yet. Software pipelines fetch one step more than they use, merges read one key beyond
//! the last, and products of a tile at the edge take rows that were never loaded, but whose results are not stored. The
//! error is a use of such a value: in an address, across lanes, or in a store to global memory. Until then the
//! registers with such values are recorded by row and lane. Moves, arithmetic and products pass them on, and so does
//! shared memory to which they are stored. Comparisons don't, so a branch that depends on such a value is not found.

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::state::fault::FaultKind;
use crate::exec::state::undefined::{Read, ReadFrom};
use crate::program::dataflow::Passage;
use crate::program::flags::CompareFlags;
use crate::program::{Instruction, Row};

impl Context<'_> {
    /// Records that an instruction has read unwritten values: for each of its destinations, in order, which lanes.
    /// `from` is what `lane`, the first of them, read.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn note_undefined(&mut self, lanes: impl Fn(usize) -> u32, lane: usize, from: ReadFrom) {
        let (program, pc) = (self.program, self.pc);
        let undefined = &mut self.warp.undefined;
        let read = undefined.number(Read { pc, lane, from });
        for (n, &row) in program.dataflow.of(pc).defs.iter().enumerate() {
            undefined.set(row, lanes(n), lanes(n), read as u32);
        }
    }

    /// Before an instruction, if registers hold undefined values: passes them on, or faults because it uses one.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn follow_undefined(&mut self, i: &Instruction, mask: u32) -> Result<(), Flow> {
        let (program, pc) = (self.program, self.pc);
        let effect = program.dataflow.of(pc);
        let chosen = match effect.passage {
            Passage::Chooses => self.predicate(i.p) ^ if i.has(CompareFlags::NEGATED) { u32::MAX } else { 0 },
            _ => 0,
        };
        if effect.passage == Passage::Multiplies {
            self.multiply_undefined(i);
            return Ok(());
        }
        let undefined = &self.warp.undefined;
        let (mut lanes, mut read) = (0, 0);
        for &row in effect.uses {
            let (of_row, by) = undefined.get(row);
            let taken = match effect.passage {
                Passage::Chooses if row == i.a && row != i.b => chosen,
                Passage::Chooses if row == i.b && row != i.a => !chosen,
                Passage::Stores if row != i.a => 0,
                Passage::Exchanges if row == i.a => 0,
                _ => u32::MAX,
            };
            if of_row & taken & mask != 0 {
                lanes |= of_row & taken & mask;
                read = by;
            }
        }
        if lanes != 0 && matches!(effect.passage, Passage::Uses | Passage::Stores | Passage::Exchanges) {
            return Err(self.undefined_used(read as usize));
        }
        if effect.passage == Passage::Exchanges {
            return Ok(());
        }
        let passed = if effect.passage == Passage::Drops { 0 } else { lanes };
        for &row in effect.defs {
            self.warp.undefined.set(row, mask, passed, read);
        }
        Ok(())
    }

    /// Passes undefined values on through `mma.sync`: from a row of A to the row of D, from a column of B to the column
    /// of D, from an element of C to the same element of D. (PTX ISA §9.7.14.5: lane / 4 is the row of A and D, and the
    /// column of B; odd registers of A and the second half of D's are 8 rows further down.)
    fn multiply_undefined(&mut self, i: &Instruction) {
        let program = self.program;
        let mma = &program.products[i.imm as usize];
        let (a, b, c) = (mma.a_registers(), mma.b_registers(), mma.c_registers());
        let list = &program.rows[i.list as usize..i.list as usize + a + b + 2 * c];
        let (d_rows, sources) = list.split_at(c);
        let tall = mma.shape().m == 16;
        let undefined = &mut self.warp.undefined;
        let (mut rows, mut columns, mut read) = (0u32, 0u32, 0);
        for (register, &row) in sources[..a + b].iter().enumerate() {
            let (lanes, by) = undefined.get(row);
            for lane in lanes_of(lanes) {
                read = by;
                if register < a {
                    rows |= 1 << (lane / 4 + if tall { 8 * (register % 2) } else { 0 });
                } else {
                    columns |= 1 << (lane / 4);
                }
            }
        }
        for (register, (&row, &c_row)) in d_rows.iter().zip(&sources[a + b..]).enumerate() {
            let (down, pair) = match (c, tall) {
                (4, _) => (8 * (register / 2), 1 << (register % 2)),
                (_, true) => (8 * register, 3),
                _ => (0, 1 << register),
            };
            let reached = |lane: usize| rows >> (lane / 4 + down) & 1 != 0 || columns >> (2 * (lane % 4)) & pair != 0;
            let (own, by) = undefined.get(c_row);
            let lanes = (0..32).filter(|&lane| reached(lane)).fold(own, |lanes, lane| lanes | 1 << lane);
            undefined.set(row, u32::MAX, lanes, if lanes == own { by } else { read });
        }
    }

    /// After a shuffle of row `a` to row `d`: lanes of the mask hold an undefined value if they have taken one, or if
    /// they have read a lane outside of the mask.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn shuffle_undefined(&mut self, a: Row, d: Row, sources: &[u8; 32], mask: u32) {
        let pc = self.pc;
        let undefined = &mut self.warp.undefined;
        let (held, by) = undefined.get(a);
        let taken = |lane: &usize| held >> sources[*lane] & 1 != 0;
        let absent = |lane: &usize| mask >> sources[*lane] & 1 == 0;
        let passed = lanes_of(mask).filter(taken).fold(0, |lanes, lane| lanes | 1 << lane);
        let Some(first) = lanes_of(mask).find(absent) else {
            undefined.set(d, mask, passed, by);
            return;
        };
        let lanes = lanes_of(mask).filter(absent).fold(passed, |lanes, lane| lanes | 1 << lane);
        let read = undefined.number(Read { pc, lane: first, from: ReadFrom::Lane(sources[first].into()) });
        undefined.set(d, mask, lanes, read as u32);
    }

    /// The lanes that hold an undefined value in one of the rows.
    pub(in crate::exec) fn undefined_lanes(&self, rows: &[Row], mask: u32) -> u32 {
        rows.iter().fold(0, |lanes, &row| lanes | self.warp.undefined.get(row).0) & mask
    }

    /// Checks that a store to global memory doesn't store undefined values.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn check_stored(&mut self, rows: &[Row], mask: u32) -> Result<(), Flow> {
        let found = rows.iter().map(|&row| self.warp.undefined.get(row)).find(|found| found.0 & mask != 0);
        found.map_or(Ok(()), |(_, read)| Err(self.undefined_used(read as usize)))
    }

    /// After a store to shared memory: bytes that got undefined values count as unwritten.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn mark_undefined(&mut self, rows: &[Row], offsets: &[u32; 32], mask: u32, bytes: u32) {
        for lane in lanes_of(self.undefined_lanes(rows, mask)) {
            self.cluster.blocks[self.block].shared.mark_unwritten(offsets[lane], bytes);
        }
    }

    fn undefined_used(&mut self, read: usize) -> Flow {
        let line = self.program.origins.get(self.pc as usize).map_or(0, |o| o.line);
        let Some(&Read { pc, lane, from }) = self.warp.undefined.reads.get(read) else {
            return self.invalid(None, "it uses a value that nothing has written");
        };
        // The read is the cause.
        self.pc = pc;
        let (space, place, offset, bytes) = match from {
            ReadFrom::Shared { offset, bytes } => {
                let place = self.past_variable(offset, bytes);
                let place = place.unwrap_or_else(|| format!("byte {offset} of the block's shared memory"));
                (MemorySpace::Shared, place, offset, bytes)
            }
            ReadFrom::Local { offset, bytes } => {
                (MemorySpace::Local, self.past_local(offset, bytes).unwrap_or_default(), offset, bytes)
            }
            ReadFrom::Lane(source) => {
                let message = format!(
                    "the shuffle gives the lane the value of lane {source}, which takes no part in it; used at PTX line {line}"
                );
                return self.invalid(Some(lane), message);
            }
        };
        let buffer = format!("{place}, read here and used at PTX line {line}");
        let kind = FaultKind::Uninitialised { space, address: offset.into(), bytes, buffer };
        self.fail(Some(lane), kind)
    }

    /// The lanes whose bytes of shared memory are unwritten.
    #[inline(always)]
    pub(in crate::exec) fn unwritten_shared(&self, offsets: &[u32; 32], mask: u32, bytes: u32) -> u32 {
        if self.checked { self.unwritten_lanes(offsets, mask, bytes) } else { 0 }
    }

    #[inline(never)]
    fn unwritten_lanes(&self, offsets: &[u32; 32], mask: u32, bytes: u32) -> u32 {
        let past = self.lanes_past_variables(offsets, mask, bytes);
        let shared = &self.cluster.blocks[self.block].shared;
        if shared.is_all_written() {
            return past;
        }
        let unwritten = lanes_of(mask).filter(|&lane| !shared.is_written(offsets[lane], bytes));
        unwritten.fold(past, |lanes, lane| lanes | 1 << lane)
    }
}
