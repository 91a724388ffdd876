//! Turns a row program into machine code: one function with a loop over rows, in which stage follows stage.
//!
//! The number of a row's lanes is known. A stage is a loop over whole rounds, then the left-over vectors, then one
//! masked round of the last lanes. Combined values stay in registers if there are enough. Values that stages pass on
//! are on the stack.

use super::body::{Argument, Binary, JitState, Lane, StateLanes};
use super::emit::{Emitter, FRAME, HELD, InRow, SIDE_BY_SIDE, scaled, slots};
use super::isa::{Isa, JitOperand, MemoryOperand, OnTail, Vector};
use super::rows::{JitStage, RowProgram};

/// The most vectors of a state. Folding takes as many registers again, and AVX2 has 16.
const MOST_APART: usize = 8;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The most lanes of a row: distances in bytes are 32-bit numbers.
const MOST_LANES: usize = 1 << 26;

/// Code of a function `(addresses: *mut *mut u8, apart: *const isize, rows: usize)`, for one row at least. `None` if a stage
/// has too many streams or values, or there are no instructions for the last lanes.
pub(super) fn emit_rows<I: Isa>(program: &RowProgram, mut isa: I) -> Option<Vec<u8>> {
    if program.lanes == 0 || program.lanes > MOST_LANES {
        return None;
    }
    isa.enter(FRAME, I::addresses(true));
    let mask = MemoryOperand::Slot(program.places);
    isa.make_mask(mask, program.lanes % isa.lanes());
    let start = isa.here();
    let is_mixed = program.stages.iter().any(|stage| stage.body.is_wide);
    let mut made = Made { isa, slots: program.places + 1, most: 0, is_mixed };
    let mut first_argument = 0;
    for (stage, ahead) in program.stages.iter().zip(asking(program)) {
        made = made.stage(stage, program.lanes, (first_argument, &ahead), mask)?;
        first_argument += stage.body.arguments.len();
    }
    let Made { mut isa, most, .. } = made;
    (0..first_argument).for_each(|number| isa.next_address(number));
    isa.next_row(start);
    isa.leave();
    (most <= slots(&isa)).then(|| isa.finish())
}

/// The lanes of the next rows that each stage prefetches: numbers of arguments, and bytes of a lane. Among a row's stages,
/// the one that computes most for an element does it: memory is busy while the CPU is.
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
struct Made<I> {
    isa: I,
    /// Stack slots shared by all stages; the largest number of slots of one stage.
    slots: usize,
    most: usize,
    /// Whether stages may have lanes of different widths, so that each makes the mask of its last lanes.
    is_mixed: bool,
}

impl<I: Isa> Made<I> {
    fn stage(
        self,
        stage: &JitStage,
        lanes: usize,
        (first_argument, ahead): (usize, &[(usize, usize)]),
        mask: MemoryOperand,
    ) -> Option<Self> {
        let body = &*scaled(&stage.body, &self.isa);
        let [many, few] = self.isa.most_reserved();
        let mut isa = self.isa.clone();
        isa.set_wide(body.is_wide);
        let mut copies = if stage.once { 1 } else { SIDE_BY_SIDE.min(1 << (lanes / isa.lanes()).max(1).ilog2()) };
        let emitted = |copies: usize, most_reserved: usize, most_kept: usize| {
            let mut registers = I::addresses(true);
            let mut emitter = Emitter::new(body, isa.clone(), &mut registers)?;
            (emitter.slots, emitter.row) = (self.slots, InRow { first_argument, once: stage.once, ..InRow::default() });
            for (number, bytes) in ahead {
                let Some(register) = registers.next() else { break };
                emitter.isa.load_next(register, *number);
                emitter.row.ahead.push((register, *bytes));
            }
            if stage.once {
                emitter.prepare_values();
                emitter.compute_round(1);
            } else {
                let rest = lanes % emitter.isa.lanes();
                if self.is_mixed && rest > 0 {
                    emitter.isa.make_mask(mask, rest);
                }
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
                let free = self.isa.registers() - emitter.row.reserved - emitter.most_held;
                if !stage.once && free > 0 {
                    emitter = emitted(copies, most_reserved, free)?;
                }
                let Emitter { mut isa, slots: used, .. } = emitter;
                isa.set_wide(false);
                return Some(Self { isa, slots: self.slots, most: self.most.max(used), ..self });
            }
            copies /= 2;
        }
    }
}

impl<I: Isa> Emitter<'_, I> {
    /// A stage of all lanes of a row.
    fn lanes(
        &mut self,
        lanes: usize,
        (copies, most_reserved, most_kept): (usize, usize, usize),
        mask: MemoryOperand,
    ) -> Option<()> {
        self.prepare_values();
        self.begin_states(copies, most_reserved)?;
        let (vectors, rest) = (lanes / self.isa.lanes(), lanes % self.isa.lanes());
        if self.body.is_wide && rest > 0 && !self.isa.has_tails_of(Lane::F64) {
            return None;
        }
        let each = copies.max(self.row.apart);
        let rounds = vectors / each;
        self.keep(most_kept, copies, if rounds > 1 { 1 } else { 2 });
        let mut evicted = None;
        if rounds > 0 {
            let start = self.isa.here();
            for position in (0..each).step_by(copies) {
                self.row.position = position;
                self.compute_round(copies);
                evicted = evicted.or(Some(self.evicted));
            }
            if rounds > 1 {
                let by = each * self.isa.lanes();
                self.isa.repeat(start, by, rounds * by);
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
            let vector = self.isa.lanes() * bytes;
            let (first, end) = (self.row.position * vector, (self.row.position + copies) * vector);
            for offset in (first..end).step_by(vector.max(LINE)) {
                self.isa.prefetch(base, bytes, offset);
            }
        }
    }

    /// Sets the states to their identities. They are in registers if there are enough, else on the stack.
    fn begin_states(&mut self, copies: usize, most_reserved: usize) -> Option<()> {
        let count = self.body.states.len();
        if count == 0 {
            return Some(());
        }
        let apart = self.body.state_lanes.map_or(copies, |lanes| lanes as usize / self.isa.lanes());
        if apart == 0 || self.body.states.iter().any(|state| apart * state.parts() > MOST_APART) {
            return None;
        }
        self.row.apart = apart;
        let vectors = self.vectors_of_states(count);
        // Each is folded in registers of its own and as many others.
        let most = self.body.states.iter().map(|state| apart * state.parts()).max().unwrap_or(0);
        if vectors <= most_reserved && most + vectors <= self.isa.registers() {
            self.row.reserved = vectors;
        }
        let first = self.isa.registers() - self.row.reserved;
        for number in 0..count {
            let mut identity = JitOperand::Memory(self.isa.constant(self.body.states[number].identity));
            for vector in self.vectors_of_states(number)..self.vectors_of_states(number + 1) {
                if self.row.reserved > 0 {
                    let register = Vector((first + vector) as u8);
                    self.isa.load(register, identity);
                    identity = JitOperand::Vector(register);
                    self.row.states.push(JitOperand::Vector(register));
                } else {
                    let home = self.slot();
                    self.isa.load(Vector(0), identity);
                    self.isa.store(Vector(0), home);
                    self.row.states.push(JitOperand::Memory(home));
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
        let JitState { op, lanes, .. } = self.body.states[number];
        let vector = (self.row.position + copy) % self.row.apart * self.body.states[number].parts() + part;
        let state = self.row.states[self.vectors_of_states(number) + vector];
        let held = match state {
            JitOperand::Vector(register) => register,
            JitOperand::Memory(_) => {
                let held = self.allocate();
                self.isa.load(held, state);
                held
            }
        };
        // The element first: of what is not ordered, a comparison gives the second.
        match self.row.tail.filter(|_| lanes != StateLanes::Halves) {
            None => self.isa.binary(op, held, from, JitOperand::Vector(held)),
            Some(mask) => {
                let spare = self.spare(OnTail::Combine);
                self.isa.combine_tail(op, held, from, mask, &spare);
            }
        }
        if let JitOperand::Memory(home) = state {
            self.isa.store(held, home);
        }
    }

    /// Combines the lanes of each state, neighbours first, and leaves the results in their places, in all lanes.
    fn fold_states(&mut self) {
        for number in 0..self.body.states.len() {
            let JitState { op, place, is_free, lanes, .. } = self.body.states[number];
            let vectors = self.vectors_of_states(number)..self.vectors_of_states(number + 1);
            // All registers but those of states are free.
            let mut held = Vec::with_capacity(vectors.len());
            let mut free = (0..self.isa.registers() - self.row.reserved).map(|number| Vector(number as u8));
            for vector in vectors {
                held.push(match self.row.states[vector] {
                    JitOperand::Vector(register) => register,
                    home @ JitOperand::Memory(_) => {
                        let Some(register) = free.next() else { continue };
                        self.isa.load(register, home);
                        register
                    }
                });
            }
            let spare: Vec<Vector> = free.take(held.len()).collect();
            // Fewer vectors are fewer instructions.
            if is_free {
                self.combine_vectors(&mut held, op);
            }
            // 64 bits are two neighbours.
            let mut distance = if lanes == StateLanes::Narrow { 1 } else { 2 };
            while 4 * distance < self.isa.vector_bytes() {
                held.iter().zip(&spare).for_each(|(held, spare)| self.isa.swap(distance, *spare, *held));
                for (held, spare) in held.iter().zip(&spare) {
                    self.isa.binary(op, *held, *held, JitOperand::Vector(*spare));
                }
                distance *= 2;
            }
            self.combine_vectors(&mut held, op);
            self.isa.store(held[0], MemoryOperand::Slot(place));
        }
    }

    /// Combines neighbouring vectors, a power of two, until one is left.
    fn combine_vectors(&mut self, held: &mut Vec<Vector>, op: Binary) {
        while held.len() > 1 {
            for pair in held.chunks_exact(2) {
                self.isa.binary(op, pair[0], pair[0], JitOperand::Vector(pair[1]));
            }
            *held = held.iter().copied().step_by(2).collect();
        }
    }
}
