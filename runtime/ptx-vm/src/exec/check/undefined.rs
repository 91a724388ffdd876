//! Undefined values: registers and predicates that were never written; values from unwritten shared or local memory,
//! from beyond a shared or local variable, or from lanes that take no part in a shuffle.
//!
//! Reading them is not an error yet. Software pipelines fetch one step more than they use, and merges read one key
//! beyond the last. Products of a tile at the edge take rows that were never loaded; their results are not stored. The
//! error is a use of an undefined value: in an address, a branch or another guard, across lanes, or in a store to
//! global memory. Until then, registers with undefined values are recorded by row and lane. Moves, arithmetic,
//! comparisons and products pass them on, and so does shared or local memory to which they are stored.
//!
//! A result is not undefined if it doesn't depend on the undefined operand, as far as this is known without its bits: the
//! other value of a selection, `and` with false or 0. Compilers evaluate both sides of `&&` if that is harmless. They also
//! fill half of a register, or the gap after a field, with anything: so a register that is packed from several, and what is
//! read from local memory, are undefined only if all of it is.

use crate::error::MemorySpace;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::state::fault::FaultKind;
use crate::exec::state::undefined::{Read, ReadFrom, Undefined};
use crate::exec::state::warp::Warp;
use crate::program::dataflow::{Effect, Passage};
use crate::program::flags::{CompareFlags, WgmmaFlags};
use crate::program::{Instruction, Program, Row};

impl Context<'_> {
    /// When a warp starts: registers that the program may read before it writes them are undefined.
    pub(in crate::exec) fn begin_undefined(warp: &mut Warp, program: &Program) {
        if program.rows_at_entry.is_empty() && program.predicates_at_entry.is_empty() {
            return;
        }
        let (lanes, undefined) = (warp.lanes, &mut warp.undefined);
        let read = undefined.number(Read { pc: u32::MAX, lane: 0, from: ReadFrom::Register });
        program.rows_at_entry.iter().for_each(|&row| undefined.set(row, lanes, lanes, read));
        program.predicates_at_entry.iter().for_each(|&p| undefined.set_predicate(p, lanes, lanes, read));
    }

    /// Records that an instruction has read unwritten values: for each of its destinations, in order, which lanes.
    /// `from` is what `lane`, the first of them, read.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn note_undefined(&mut self, lanes: impl Fn(usize) -> u32, lane: usize, from: ReadFrom) {
        let (program, pc) = (self.program, self.pc);
        let undefined = &mut self.warp.undefined;
        let read = undefined.number(Read { pc, lane, from });
        for (n, &row) in program.dataflow.of(pc).defs.iter().enumerate() {
            undefined.set(row, lanes(n), lanes(n), read);
        }
    }

    /// Notes undefined lanes of one destination.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn note_undefined_row(&mut self, row: Row, lanes: u32, lane: usize, from: ReadFrom) {
        // Row 0 takes what is not used.
        if row != 0 {
            let undefined = &mut self.warp.undefined;
            let read = undefined.number(Read { pc: self.pc, lane, from });
            undefined.set(row, lanes, lanes, read);
        }
    }

    /// The lanes at an instruction whose guard is undefined.
    #[inline(always)]
    pub(in crate::exec) fn undefined_guard(&self, i: &Instruction, active: u32) -> u32 {
        if self.warp.undefined.has_predicates() { self.warp.undefined.predicate(i.guard).0 & active } else { 0 }
    }

    /// Before an instruction, if registers hold undefined values: passes them on, or faults because it uses one.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn follow_undefined(&mut self, i: &Instruction, mask: u32) -> Result<(), Flow> {
        let (program, pc) = (self.program, self.pc);
        let effect = program.dataflow.of(pc);
        let (unsure, guarded_by) = (self.undefined_guard(i, self.active), self.warp.undefined.predicate(i.guard).1);
        let computes = matches!(
            effect.passage,
            Passage::Passes | Passage::Masks | Passage::Packs | Passage::Chooses | Passage::Decides | Passage::Keeps
        );
        if unsure != 0 && !computes {
            return Err(self.undefined_used(guarded_by, unsure));
        }
        match effect.passage {
            Passage::Keeps => return Ok(()),
            Passage::Multiplies => self.multiply_undefined(i),
            Passage::Accumulates => return self.accumulate_undefined(i, &effect),
            Passage::Decides => self.decide_undefined(&effect, mask),
            _ => {
                let (lanes, read) = self.undefined_operands(i, &effect, mask);
                if lanes != 0 && matches!(effect.passage, Passage::Uses | Passage::Stores | Passage::Exchanges) {
                    return Err(self.undefined_used(read, lanes));
                }
                if effect.passage != Passage::Exchanges {
                    let undefined = &mut self.warp.undefined;
                    effect.defs.iter().for_each(|&row| undefined.set(row, mask, lanes, read));
                }
                let undefined = &mut self.warp.undefined;
                effect.predicate_defs.iter().for_each(|&p| undefined.set_predicate(p, mask, lanes, read));
            }
        }
        if unsure != 0 {
            // Each of these lanes has either the old value or the new one.
            let undefined = &mut self.warp.undefined;
            effect.defs.iter().for_each(|&row| undefined.set(row, unsure, unsure, guarded_by));
            effect.predicate_defs.iter().for_each(|&p| undefined.set_predicate(p, unsure, unsure, guarded_by));
        }
        Ok(())
    }

    /// The lanes of the mask for which an operand is undefined that counts.
    fn undefined_operands(&self, i: &Instruction, effect: &Effect<'_>, mask: u32) -> Undefined {
        let undefined = &self.warp.undefined;
        let chosen = match effect.passage {
            Passage::Chooses => self.predicate(i.p) ^ if i.has(CompareFlags::NEGATED) { u32::MAX } else { 0 },
            _ => 0,
        };
        let (mut lanes, mut read, mut all) = (0, 0, u32::MAX);
        for &row in effect.uses {
            let (of_row, by) = undefined.get(row);
            let of_row = of_row
                & if effect.passage == Passage::Masks { !self.decided_by_others(i, row, of_row) } else { u32::MAX };
            let taken = match effect.passage {
                Passage::Chooses if row == i.a && row != i.b => chosen,
                Passage::Chooses if row == i.b && row != i.a => !chosen,
                Passage::Stores if row != i.a => 0,
                Passage::Exchanges if row == i.a => 0,
                _ => u32::MAX,
            };
            all &= of_row;
            if of_row & taken & mask != 0 {
                lanes |= of_row & taken & mask;
                read = by;
            }
        }
        if effect.passage == Passage::Packs && !self.is_of_shared(read) {
            lanes &= all;
        }
        for &predicate in effect.predicate_uses {
            let (of_predicate, by) = undefined.predicate(predicate);
            if of_predicate & mask != 0 {
                lanes |= of_predicate & mask;
                read = by;
            }
        }
        (lanes, read)
    }

    /// The lanes in which the other factor decides the result of `and`, `or`, `mul` or `mad`, whatever this row holds.
    /// Compilers select by masks: `(x < n ? y : 0)` is `and` with 0 or −1.
    fn decided_by_others(&self, i: &Instruction, row: Row, lanes: u32) -> u32 {
        let other = match row {
            row if row == i.a && row != i.b => i.b,
            row if row == i.b && row != i.a => i.a,
            _ => return 0,
        };
        let lanes = lanes & !self.warp.undefined.get(other).0;
        if lanes == 0 || row == i.c {
            return 0;
        }
        let opcode = &self.program.opcodes[self.program.origins[self.pc as usize].opcode as usize];
        let wide = opcode.ends_with("64");
        let ones = if wide {
            u64::MAX
        } else if opcode.ends_with("16") {
            0xffff
        } else {
            0xffff_ffff
        };
        let decides = if opcode.starts_with("or") { ones } else { 0 };
        let value = |lane| if wide { self.get::<u64>(other, lane) } else { self.get::<u32>(other, lane).into() };
        lanes_of(lanes).filter(|&lane| value(lane) & ones == decides).fold(0, |lanes, lane| lanes | 1 << lane)
    }

    fn is_of_shared(&self, read: u32) -> bool {
        let read = self.warp.undefined.reads.get(read as usize);
        read.is_some_and(|read| matches!(read.from, ReadFrom::Shared { .. }))
    }

    /// Functions of predicates: the result is undefined in the lanes where it depends on an undefined operand.
    fn decide_undefined(&mut self, effect: &Effect<'_>, mask: u32) {
        let of = |index: Option<&u16>| {
            let index = index.copied().unwrap_or_default();
            let (lanes, read) = self.warp.undefined.predicate(index);
            (self.predicate(index), lanes, read)
        };
        let (first, second) = (of(effect.predicate_uses.first()), of(effect.predicate_uses.get(1)));
        let opcode = &self.program.opcodes[self.program.origins[self.pc as usize].opcode as usize];
        let opcode = opcode.split('.').next().unwrap_or_default();
        // A constant operand is not among the uses; compilers fold it.
        let both = effect.predicate_uses.len() > 1;
        let lanes = match opcode {
            "and" | "or" if both => {
                let settles =
                    |(value, lanes, _): (u32, u32, u32)| !lanes & if opcode == "and" { !value } else { value };
                (first.1 | second.1) & !settles(first) & !settles(second)
            }
            _ => first.1 | second.1,
        } & mask;
        let read = if first.1 & mask != 0 { first.2 } else { second.2 };
        let undefined = &mut self.warp.undefined;
        effect.predicate_defs.iter().for_each(|&p| undefined.set_predicate(p, mask, lanes, read));
    }

    /// Passes undefined values on through `mma.sync`: from a row of A to the row of D; from a column of B to the column
    /// of D; from an element of C to its element of D. (PTX ISA §9.7.14.5: lane / 4 is the row of A and D, and the
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

    /// Passes undefined values on through `wgmma`: from A's rows to those of D, and from the accumulators if they are added.
    /// It may not use undefined descriptors.
    fn accumulate_undefined(&mut self, i: &Instruction, effect: &Effect<'_>) -> Result<(), Flow> {
        let program = self.program;
        let form = &program.warpgroup_products[i.imm as usize];
        let count = form.product.d_registers();
        let list = &program.rows[i.list as usize..];
        let undefined = &self.warp.undefined;
        let given = [i.b, i.a].into_iter().take(if form.a_in_registers { 1 } else { 2 });
        let given =
            given.map(|row| undefined.get(row)).chain(effect.predicate_uses.iter().map(|&p| undefined.predicate(p)));
        if let Some((lanes, read)) = given.into_iter().find(|of| of.0 != 0) {
            return Err(self.undefined_used(read, lanes));
        }
        let (mut rows, mut by_a) = (0u32, 0);
        let a_rows = if form.a_in_registers { &list[count..count + 4] } else { &[] };
        for &row in a_rows {
            let (lanes, read) = undefined.get(row);
            if lanes != 0 {
                (rows, by_a) = (rows | lanes, read);
            }
        }
        // Four lanes hold a row of A and of D.
        let of_rows = lanes_of(rows).fold(0, |lanes, lane| lanes | 0xf << (lane / 4 * 4));
        let scale = self.predicate(i.p) ^ if i.has(WgmmaFlags::NEGATED) { u32::MAX } else { 0 };
        for &row in &list[..count] {
            let (own, by) = if scale & 1 != 0 { self.warp.undefined.get(row) } else { (0, 0) };
            let read = if own != 0 { by } else { by_a };
            self.warp.undefined.set(row, u32::MAX, own | of_rows, read);
        }
        Ok(())
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
        undefined.set(d, mask, lanes, read);
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
        found.map_or(Ok(()), |(lanes, read)| Err(self.undefined_used(read, lanes & mask)))
    }

    /// After a store to shared memory: bytes that got undefined values count as unwritten.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn mark_undefined(&mut self, rows: &[Row], offsets: &[u32; 32], mask: u32, bytes: u32) {
        for lane in lanes_of(self.undefined_lanes(rows, mask)) {
            self.cluster.blocks[self.block].shared.mark_unwritten(offsets[lane], bytes);
        }
    }

    /// Marks undefined values after `stmatrix`, of rows at these offsets.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn mark_undefined_matrix(&mut self, registers: &[Row], offsets: &[u32; 32], transposed: bool) {
        for (n, &register) in registers.iter().enumerate() {
            for lane in lanes_of(self.warp.undefined.get(register).0) {
                let (line, place) = (lane / 4, lane as u32 % 4);
                let shared = &mut self.cluster.blocks[self.block].shared;
                if transposed {
                    for half in 0..2 {
                        shared.mark_unwritten(offsets[8 * n + 2 * place as usize + half] + 2 * line as u32, 2);
                    }
                } else {
                    shared.mark_unwritten(offsets[8 * n + line] + 4 * place, 4);
                }
            }
        }
    }

    /// The error that the instruction uses what a read gave to these lanes.
    fn undefined_used(&mut self, read: u32, lanes: u32) -> Flow {
        let line = self.program.origins.get(self.pc as usize).map_or(0, |o| o.line);
        let Some(&Read { pc, lane, from }) = self.warp.undefined.reads.get(read as usize) else {
            return self.invalid(None, "it uses a value that nothing has written");
        };
        if matches!(from, ReadFrom::Register) {
            let lane = lanes_of(lanes).next();
            return self.invalid(lane, "it depends on a register that no instruction of this thread has written");
        }
        // The read is the cause.
        self.pc = pc;
        let (space, place, offset, bytes) = match from {
            ReadFrom::Shared { offset, bytes } => {
                let place = self.past_variable(offset, bytes);
                let place = place.unwrap_or_else(|| format!("byte {offset} of the block's shared memory"));
                (MemorySpace::Shared, place, offset, bytes)
            }
            ReadFrom::Local { offset, bytes } => {
                let place = self.past_local(offset, bytes);
                let place = place.unwrap_or_else(|| format!("byte {offset} of the thread's local memory"));
                (MemorySpace::Local, place, offset, bytes)
            }
            ReadFrom::Register => (MemorySpace::Local, String::new(), 0, 0),
            ReadFrom::Tensor { lane: row, column } => {
                let message = format!(
                    "the load reads lane {row}, column {column} of tensor memory, which nothing has written; used at PTX line {line}"
                );
                return self.invalid(Some(lane), message);
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
