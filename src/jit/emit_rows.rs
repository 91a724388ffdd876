//! Turns a row program into machine code: one function with a loop over rows, in which stage follows stage.
//!
//! The number of a row's lanes is known. So the code of a stage is a loop over whole rounds, then the left-over
//! vectors, then one masked round of the last lanes, fewer than a vector has. Combined values stay in registers if
//! there are enough; values that stages pass on are on the stack.

use super::assembler::{
    ARGUMENTS, Assembler, Constant, Memory, Opcode, Operand, SAVED, STREAMS, Vector, Width, opcode,
};
use super::body::{Argument, Lane, State};
use super::emit::{Emitter, FRAME, HELD, InRow, SIDE_BY_SIDE};
use super::instruction;
use super::rows::{RowProgram, Stage};

/// The most vectors of a state. A vector is broadcast from and folded in registers, of which AVX2 has 16.
const MOST_APART: usize = 8;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The most lanes of a row: distances in bytes are 32-bit numbers.
const MOST_LANES: usize = 1 << 26;

/// The registers that states may have: as many as leave an instruction its operands and its result, if no value of the stage
/// loses its own by that; else these.
const fn most_reserved(width: Width) -> [usize; 2] {
    match width {
        Width::Bits256 => [12, 4],
        Width::Bits512 => [28, 16],
    }
}

/// Code for x86-64 of a function `(addresses: *mut *mut u8, apart: *const isize, rows: usize)` in the calling convention of
/// System V, for one row at least. `None` if a stage has too many streams or values, or there are no instructions for the
/// last lanes.
pub(super) fn emit_rows(program: &RowProgram, width: Width) -> Option<Vec<u8>> {
    if program.lanes == 0 || program.lanes > MOST_LANES {
        return None;
    }
    let mut made = Made { assembler: Assembler::new(width), constants: Vec::new(), slots: program.places, most: 0 };
    made.assembler.enter(FRAME as i32, &SAVED);
    let mask = made.mask(program.lanes % width.lanes(), width);
    let start = made.assembler.here();
    let mut first_argument = 0;
    for (stage, ahead) in program.stages.iter().zip(asking(program)) {
        made = made.stage(stage, width, program.lanes, (first_argument, &ahead), mask)?;
        first_argument += stage.body.arguments.len();
    }
    let arguments = program.stages.iter().flat_map(|stage| &stage.body.arguments);
    for (number, argument) in arguments.enumerate() {
        if !matches!(argument, Argument::Held(_) | Argument::Place(_) | Argument::State(..)) {
            made.assembler.next_address(number);
        }
    }
    made.assembler.next_row(start);
    made.assembler.leave(&SAVED);
    (made.most * width.bytes() <= FRAME).then(|| made.assembler.finish(&made.constants))
}

/// What each stage asks memory for, of the next rows: numbers of arguments, and bytes of lanes. Of each of the rows whose stages
/// alternate, it is the stage that computes most for each element that asks, so that memory is busy while the CPU is.
fn asking(program: &RowProgram) -> Vec<Vec<(usize, usize)>> {
    let mut asking = vec![Vec::new(); program.stages.len()];
    for row in 0..program.rows {
        let each =
            || program.stages.iter().enumerate().skip(row).step_by(program.rows).filter(|(_, stage)| !stage.once);
        let Some((first, stage)) = each().next() else { continue };
        let before: usize = program.arguments_of_stages().take(first).sum();
        let read = stage.body.arguments.iter().enumerate().filter_map(|(number, argument)| match argument {
            Argument::Stream { lane, read: true, .. } => Some((before + number, lane.bytes())),
            _ => None,
        });
        if let Some((most, _)) = each().skip(1).max_by_key(|(_, stage)| stage.body.nodes.len()) {
            asking[most] = read.collect();
        }
    }
    asking
}

/// The code so far.
#[derive(Clone)]
struct Made {
    assembler: Assembler,
    constants: Vec<Constant>,
    /// Stack slots shared by all stages; the largest number of slots of one stage.
    slots: usize,
    most: usize,
}

impl Made {
    /// Makes the mask of a row's last lanes: of AVX-512 in a mask register, of AVX2 in a vector on the stack.
    fn mask(&mut self, lanes: usize, width: Width) -> Memory {
        let place = Memory::Stack((self.slots * width.bytes()) as i32);
        self.slots += 1;
        match (width, place) {
            (Width::Bits512, _) => self.assembler.set_mask((1 << lanes) - 1),
            (Width::Bits256, Memory::Stack(offset)) => {
                for lane in 0..width.lanes() {
                    let bits = if lane < lanes { u32::MAX } else { 0 };
                    self.assembler.store_immediate(offset + 4 * lane as i32, bits);
                }
            }
            (Width::Bits256, _) => {}
        }
        place
    }

    fn stage(
        self,
        stage: &Stage,
        width: Width,
        lanes: usize,
        (first_argument, ahead): (usize, &[(usize, usize)]),
        mask: Memory,
    ) -> Option<Self> {
        let narrow;
        let body = match width {
            Width::Bits256 => {
                narrow = stage.body.without_scale();
                &narrow
            }
            Width::Bits512 => &stage.body,
        };
        let [many, few] = most_reserved(width);
        let mut copies = if stage.once { 1 } else { SIDE_BY_SIDE.min(1 << (lanes / width.lanes()).max(1).ilog2()) };
        let emitted = |copies: usize, most_reserved: usize, most_kept: usize| {
            // The list of addresses is needed in every row.
            let mut registers = STREAMS.iter().filter(|register| **register != ARGUMENTS);
            let mut emitter = Emitter::with_streams(body, width, &mut registers)?;
            (emitter.assembler, emitter.constants) = (self.assembler.clone(), self.constants.clone());
            (emitter.slots, emitter.row) = (self.slots, InRow { first_argument, once: stage.once, ..InRow::default() });
            for (number, bytes) in ahead {
                let Some(register) = registers.next() else { break };
                emitter.assembler.load_next(*register, *number);
                emitter.row.ahead.push((*register, *bytes));
            }
            if stage.once {
                emitter.prepare_values();
                emitter.compute_round(1);
            } else {
                emitter.lanes(lanes, (copies, most_reserved, most_kept), mask)?;
            }
            (!emitter.row.refused).then_some(emitter)
        };
        loop {
            let mut most_reserved = many;
            let mut emitter = emitted(copies, most_reserved, 0)?;
            if emitter.row.reserved > few && emitter.evicted > 0 {
                most_reserved = few;
                emitter = emitted(copies, most_reserved, 0)?;
            }
            if copies == 1 || emitter.evicted * HELD <= body.nodes.len() * copies {
                let free = width.registers() - emitter.row.reserved - emitter.most_held;
                if !stage.once && free > 0 {
                    emitter = emitted(copies, most_reserved, free)?;
                }
                let Emitter { assembler, constants, slots: used, .. } = emitter;
                return Some(Self { assembler, constants, slots: self.slots, most: self.most.max(used) });
            }
            copies /= 2;
        }
    }
}

impl Emitter<'_> {
    /// A stage of all lanes of a row.
    fn lanes(
        &mut self,
        lanes: usize,
        (copies, most_reserved, most_kept): (usize, usize, usize),
        mask: Memory,
    ) -> Option<()> {
        self.prepare_values();
        self.begin_states(copies, most_reserved)?;
        let (vectors, rest) = (lanes / self.width.lanes(), lanes % self.width.lanes());
        let each = copies.max(self.row.apart);
        let rounds = vectors / each;
        self.keep(most_kept, copies, if rounds > 1 { 1 } else { 2 });
        let mut evicted = None;
        if rounds > 0 {
            let start = self.assembler.here();
            for position in (0..each).step_by(copies) {
                self.row.position = position;
                self.compute_round(copies);
                evicted = evicted.or(Some(self.evicted));
            }
            if rounds > 1 {
                let by = each * self.width.lanes();
                self.assembler.repeat(start, by, rounds * by);
            }
        }
        self.row.position = if rounds == 1 { each } else { 0 };
        let mut left = vectors % each;
        while left > 0 {
            let together = copies.min(1 << left.ilog2());
            self.compute_round(together);
            self.row.position += together;
            left -= together;
        }
        if rest > 0 {
            self.row.tail = Some(mask);
            self.compute_round(1);
            self.row.tail = None;
        }
        self.fold_states();
        self.evicted = evicted.unwrap_or(0);
        Some(())
    }

    /// Asks memory for the lanes of the next row that are those of the round.
    pub(super) fn ask_ahead(&mut self, copies: usize) {
        for (base, bytes) in self.row.ahead.clone() {
            let vector = self.width.lanes() * bytes;
            let (first, end) = (self.row.position * vector, (self.row.position + copies) * vector);
            for offset in (first..end).step_by(vector.max(LINE)) {
                self.assembler.prefetch(base, bytes, offset);
            }
        }
    }

    /// Sets the states to their identities. They are in registers if there are enough, else on the stack.
    fn begin_states(&mut self, copies: usize, most_reserved: usize) -> Option<()> {
        let count = self.body.states.len();
        if count == 0 {
            return Some(());
        }
        let apart = self.body.state_lanes.map_or(copies, |lanes| lanes as usize / self.width.lanes());
        if apart == 0 || self.body.states.iter().any(|state| apart * state.parts() > MOST_APART) {
            return None;
        }
        self.row.apart = apart;
        let vectors = self.vectors_of_states(count);
        // Each is folded in registers of its own and as many others.
        let most = self.body.states.iter().map(|state| apart * state.parts()).max().unwrap_or(0);
        if vectors <= most_reserved && most + vectors <= self.width.registers() {
            self.row.reserved = vectors;
        }
        let first = self.width.registers() - self.row.reserved;
        for number in 0..count {
            let mut identity = Operand::Memory(Memory::Constant(self.constant(self.body.states[number].identity)));
            for vector in self.vectors_of_states(number)..self.vectors_of_states(number + 1) {
                if self.row.reserved > 0 {
                    let register = Vector((first + vector) as u8);
                    self.assembler.vector(opcode::LOAD, register, None, identity, None);
                    identity = Operand::Vector(register);
                    self.row.states.push(Operand::Vector(register));
                } else {
                    let home = Operand::Memory(self.slot());
                    self.assembler.vector(opcode::LOAD, Vector(0), None, identity, None);
                    self.assembler.vector(opcode::STORE, Vector(0), None, home, None);
                    self.row.states.push(home);
                }
            }
        }
        Some(())
    }

    /// The number of vectors of the first states.
    fn vectors_of_states(&self, count: usize) -> usize {
        self.body.states[..count].iter().map(|state| self.row.apart * state.parts()).sum()
    }

    /// Combines a vector with a state, or with the half of it that has the same lanes as f64s.
    pub(super) fn combine(&mut self, number: usize, part: usize, copy: usize, from: Vector) {
        let State { op, is_double, .. } = self.body.states[number];
        let vector = (self.row.position + copy) % self.row.apart * self.body.states[number].parts() + part;
        let state = self.row.states[self.vectors_of_states(number) + vector];
        let (operation, byte) = instruction::binary(op, self.width);
        let held = match state {
            Operand::Vector(register) => register,
            Operand::Memory(_) => {
                let held = self.allocate();
                self.assembler.vector(opcode::LOAD, held, None, state, None);
                held
            }
        };
        // The element first: of what is not ordered, a comparison gives the second.
        match (self.row.tail.filter(|_| !is_double), self.width) {
            (None, _) => self.assembler.vector(operation, held, Some(from), Operand::Vector(held), byte),
            (Some(_), Width::Bits512) => {
                self.assembler.where_masked(false);
                self.assembler.vector(operation, held, Some(from), Operand::Vector(held), byte);
            }
            (Some(mask), Width::Bits256) => {
                let (all, chosen) = (self.allocate(), self.allocate());
                self.assembler.vector(opcode::LOAD, chosen, None, Operand::Memory(mask), None);
                self.assembler.vector(operation, all, Some(from), Operand::Vector(held), byte);
                let byte = Some(chosen.0 << 4);
                self.assembler.vector(opcode::SELECT, held, Some(held), Operand::Vector(all), byte);
            }
        }
        if matches!(state, Operand::Memory(_)) {
            self.assembler.vector(opcode::STORE, held, None, state, None);
        }
    }

    /// Combines the lanes of each state, neighbours first, and leaves the results in their places, in all lanes.
    fn fold_states(&mut self) {
        for number in 0..self.body.states.len() {
            let State { op, place, is_free, is_double, .. } = self.body.states[number];
            let vectors = self.vectors_of_states(number)..self.vectors_of_states(number + 1);
            let (operation, byte) = instruction::binary(op, self.width);
            // All registers but those of states are free.
            let mut held = Vec::with_capacity(vectors.len());
            let mut free = (0..self.width.registers() - self.row.reserved).map(|number| Vector(number as u8));
            for vector in vectors {
                held.push(match self.row.states[vector] {
                    Operand::Vector(register) => register,
                    home @ Operand::Memory(_) => {
                        let Some(register) = free.next() else { continue };
                        self.assembler.vector(opcode::LOAD, register, None, home, None);
                        register
                    }
                });
            }
            let spare: Vec<Vector> = free.take(held.len()).collect();
            // Fewer vectors are fewer instructions.
            if is_free {
                self.combine_vectors(&mut held, operation, byte);
            }
            // An f64 is two neighbours.
            for &(swap, how) in &swaps(self.width)[usize::from(is_double)..] {
                for (held, spare) in held.iter().zip(&spare) {
                    let first = (swap != opcode::PERMUTE).then_some(*held);
                    self.assembler.vector(swap, *spare, first, Operand::Vector(*held), Some(how));
                }
                for (held, spare) in held.iter().zip(&spare) {
                    self.assembler.vector(operation, *held, Some(*held), Operand::Vector(*spare), byte);
                }
            }
            self.combine_vectors(&mut held, operation, byte);
            let to = Operand::Memory(self.place(place));
            self.assembler.vector(opcode::STORE, held[0], None, to, None);
        }
    }

    /// Combines neighbouring vectors, a power of two, until one is left.
    fn combine_vectors(&mut self, held: &mut Vec<Vector>, operation: Opcode, byte: Option<u8>) {
        while held.len() > 1 {
            for pair in held.chunks_exact(2) {
                self.assembler.vector(operation, pair[0], Some(pair[0]), Operand::Vector(pair[1]), byte);
            }
            *held = held.iter().copied().step_by(2).collect();
        }
    }

    /// The lanes that a row has, and others where it has none.
    pub(super) fn within(&mut self, lanes: Vector, rest: Operand, mask: Memory) -> Vector {
        let to = self.allocate();
        self.assembler.vector(opcode::LOAD, to, None, rest, None);
        match self.width {
            Width::Bits512 => {
                self.assembler.where_masked(false);
                self.assembler.vector(opcode::MOVE, to, None, Operand::Vector(lanes), None);
            }
            Width::Bits256 => {
                let chosen = self.allocate();
                self.assembler.vector(opcode::LOAD, chosen, None, Operand::Memory(mask), None);
                self.assembler.vector(opcode::SELECT, to, Some(to), Operand::Vector(lanes), Some(chosen.0 << 4));
            }
        }
        to
    }

    /// Stores the first lane.
    pub(super) fn store_first(&mut self, lane: Lane, to: Memory, from: Vector) {
        let (opcode, byte) = match lane.bytes() {
            8 => (opcode::STORE_8.double(), None),
            4 => (opcode::STORE_FIRST, None),
            2 => (opcode::STORE_FIRST_16, Some(0)),
            _ => (opcode::STORE_FIRST_8, Some(0)),
        };
        self.assembler.vector(opcode, from, None, Operand::Memory(to), byte);
    }

    /// Stores the last lanes of a row.
    pub(super) fn store_tail(&mut self, lane: Lane, mask: Memory, to: Memory, from: Vector) {
        let to = Operand::Memory(to);
        match self.width {
            Width::Bits512 => {
                self.assembler.where_masked(false);
                let store = match lane.bytes() {
                    4 => opcode::STORE,
                    2 => opcode::STORE_I16,
                    _ => opcode::STORE_I8,
                };
                self.assembler.vector(store, from, None, to, None);
            }
            Width::Bits256 => {
                // AVX2 leaves out lanes of 32 bits only.
                self.row.refused |= lane.bytes() != 4;
                let chosen = self.allocate();
                self.assembler.vector(opcode::LOAD, chosen, None, Operand::Memory(mask), None);
                self.assembler.vector(opcode::STORE_WHERE, from, Some(chosen), to, None);
            }
        }
    }

    /// Loads the last lanes of a row, and zeros.
    pub(super) fn load_tail(&mut self, load: Opcode, lane: Lane, mask: Memory, to: Vector, from: Operand) {
        match self.width {
            Width::Bits512 => {
                self.assembler.where_masked(true);
                self.assembler.vector(load, to, None, from, None);
            }
            Width::Bits256 => {
                // AVX2 leaves out lanes of 32 bits only.
                self.row.refused |= lane.bytes() != 4;
                let chosen = self.allocate();
                self.assembler.vector(opcode::LOAD, chosen, None, Operand::Memory(mask), None);
                self.assembler.vector(opcode::LOAD_WHERE, to, Some(chosen), from, None);
            }
        }
    }
}

/// The instructions that let lanes change places with their neighbours, then pairs, fours, and halves.
const fn swaps(width: Width) -> &'static [(Opcode, u8)] {
    match width {
        Width::Bits256 => &[(opcode::PERMUTE, 0xb1), (opcode::PERMUTE, 0x4e), (opcode::PERMUTE_128, 0x01)],
        Width::Bits512 => &[
            (opcode::PERMUTE, 0xb1),
            (opcode::PERMUTE, 0x4e),
            (opcode::SHUFFLE_128, 0xb1),
            (opcode::SHUFFLE_128, 0x4e),
        ],
    }
}
