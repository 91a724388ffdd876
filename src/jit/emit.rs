//! Turns the body of a loop into machine code: chooses registers, and writes the loop around the body.
//!
//! All values of a body are straight-line code, so the register whose value is needed last again is the right one to
//! give up (Belady's rule). Constants and uniform values are operands in memory, and take no register for longer than
//! an instruction; but registers that a round leaves free keep those that it uses most. (A Zen 4 loads 64 bytes a clock, no more:
//! a softmax of AVX-512 whose exponential loads its coefficients takes 0.37 ns an element, without 0.30.)

use super::assembler::{
    ARGUMENTS, Assembler, CYCLE, Constant, General, LANE, Memory, Operand, REGISTERS, SAVED, STREAMS, Vector, Width,
    opcode,
};
use super::body::{Argument, Binary, Body, Lane, Node, Unary, Value};
use super::instruction::{self, Form};
use super::round::Round;

/// Bytes of stack for values: less than a page, so that the stack's guard page can't be left out.
pub(super) const FRAME: usize = 3584;

/// The table of a bit that chooses between two others.
const FIRST_CHOOSES: u8 = 0xca;

/// The mask register that comparisons use.
const MASK: Vector = Vector(1);

/// The first lanes' numbers.
const FIRST: [u32; Width::Bits512.lanes()] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The most vectors that are computed side by side: so the CPU finds instructions that don't wait for each other.
/// Measured on Zen 3: an exponential takes 0.70 ns a lane in one vector, 0.62 in two, 0.45 in four and 0.48 in six.
pub(super) const SIDE_BY_SIDE: usize = 4;

/// Of this many values, one may lose its register for that; more would cost more than waiting.
pub(super) const HELD: usize = 8;

/// Code for x86-64 of a function `(arguments: *const *mut u8, lanes: usize)` in the calling convention of System V, which
/// computes a multiple of a vector's lanes. `None` if the body has too many streams or values, or a period that is shorter
/// than a vector.
pub(super) fn emit(body: &Body, width: Width) -> Option<Vec<u8>> {
    if body.period.is_some_and(|period| (period as usize) < width.lanes()) {
        return None;
    }
    let narrow;
    let body = match width {
        Width::Bits256 => {
            narrow = body.without_scale();
            &narrow
        }
        Width::Bits512 => body,
    };
    let mut copies = SIDE_BY_SIDE;
    loop {
        let loops = if copies > 1 { vec![copies, 1] } else { vec![1] };
        let emitted = |most_kept: usize| Emitter::new(body, width)?.emit(&loops, most_kept);
        let first = emitted(0);
        match first {
            Some(Emitted { evicted, most_held, .. }) if copies == 1 || evicted * HELD <= body.nodes.len() * copies => {
                return Some(emitted(width.registers() - most_held)?.code);
            }
            None if copies == 1 => return None,
            _ => copies /= 2,
        }
    }
}

/// What [`Emitter::emit`] gives.
struct Emitted {
    code: Vec<u8>,
    /// The number of values that lose their registers in the first loop.
    evicted: usize,
    /// The number of registers that a round takes.
    most_held: usize,
}

/// The code of a body.
pub(super) struct Emitter<'a> {
    pub(super) body: &'a Body,
    pub(super) width: Width,
    pub(super) assembler: Assembler,
    pub(super) constants: Vec<Constant>,
    /// The register with each stream's address.
    streams: Vec<Option<General>>,
    /// For each node, where in memory it is if it is the same in every round.
    homes: Vec<Option<Memory>>,
    pub(super) slots: usize,
    /// The number of values that lose their registers.
    pub(super) evicted: usize,
    /// The number of registers that values of rounds have had at once.
    pub(super) most_held: usize,
    /// What is the same in every round and in a register, too: those before the states'.
    kept: Vec<(Memory, Vector)>,
    round: Round,
    pub(super) row: InRow,
}

/// What is different in a stage of a row program.
#[derive(Clone, Debug, Default)]
pub(super) struct InRow {
    /// The number of the stage's first argument among all.
    pub(super) first_argument: usize,
    /// Whether the stage is computed once, and only first lanes are stored.
    pub(super) once: bool,
    /// The number of vectors between what [`LANE`] counts and the round.
    pub(super) position: usize,
    /// Where the mask of the row's last lanes is, in a round of those.
    pub(super) tail: Option<Memory>,
    /// The number of vectors of a state, and where they are.
    pub(super) apart: usize,
    pub(super) states: Vec<Operand>,
    /// The number of registers that states have, the last ones.
    pub(super) reserved: usize,
    /// Whether there are no instructions for something.
    pub(super) refused: bool,
    /// What the next row's first stage reads, which every round asks memory for: addresses, and bytes of lanes.
    pub(super) ahead: Vec<(General, usize)>,
}

impl<'a> Emitter<'a> {
    fn new(body: &'a Body, width: Width) -> Option<Self> {
        Self::with_streams(body, width, &mut STREAMS.iter())
    }

    /// The same, with these registers for streams' addresses.
    pub(super) fn with_streams<'r>(
        body: &'a Body,
        width: Width,
        registers: &mut impl Iterator<Item = &'r General>,
    ) -> Option<Self> {
        let mut streams = Vec::with_capacity(body.arguments.len());
        for argument in &body.arguments {
            streams.push(match argument {
                Argument::Stream { .. } | Argument::Cyclic => Some(*registers.next()?),
                Argument::Uniform
                | Argument::Counter
                | Argument::Held(_)
                | Argument::Place(_)
                | Argument::State(..) => None,
            });
        }
        Some(Self {
            body,
            width,
            assembler: Assembler::new(width),
            constants: Vec::new(),
            streams,
            homes: vec![None; body.nodes.len()],
            slots: 0,
            evicted: 0,
            most_held: 0,
            kept: Vec::new(),
            round: Round::default(),
            row: InRow::default(),
        })
    }

    /// A round of this many vectors.
    pub(super) fn compute_round(&mut self, copies: usize) {
        let is_whole = self.row.tail.is_none();
        self.round = Round::new(self.body, self.width, &self.homes, copies, is_whole);
        for (home, register) in self.round.homes.iter().zip(&mut self.round.register_of) {
            *register = self.kept.iter().find(|(kept, _)| Some(*kept) == *home).map(|(_, register)| *register);
        }
        self.ask_ahead(copies);
        self.compute();
    }

    /// Puts as many of what is the same in every round into registers, the most used first, if a round of so many copies uses it
    /// this often.
    pub(super) fn keep(&mut self, most: usize, copies: usize, least_uses: usize) {
        let round = Round::new(self.body, self.width, &self.homes, copies, true);
        let mut used: Vec<(Memory, usize)> = Vec::new();
        for ((node, home), uses) in round.nodes.iter().zip(&round.homes).zip(&round.uses) {
            let is_counter =
                matches!(node, Node::Load(argument) if self.body.arguments[*argument] == Argument::Counter);
            let Some(home) = home.filter(|_| !is_counter) else { continue };
            match used.iter_mut().find(|(known, _)| *known == home) {
                Some((_, count)) => *count += uses.len(),
                None => used.push((home, uses.len())),
            }
        }
        used.retain(|(_, count)| *count >= least_uses);
        used.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let first = self.width.registers() - self.row.reserved;
        for (number, (home, _)) in used.into_iter().take(most).enumerate() {
            let register = Vector((first - 1 - number) as u8);
            self.assembler.vector(opcode::LOAD, register, None, Operand::Memory(home), None);
            self.kept.push((home, register));
        }
    }

    /// Loops that compute this many vectors a round, one loop after the other.
    fn emit(mut self, loops: &[usize], most_kept: usize) -> Option<Emitted> {
        let saved: Vec<General> = SAVED.into_iter().filter(|saved| self.streams.contains(&Some(*saved))).collect();
        self.prepare(&saved);
        self.keep(most_kept, loops[0], 1);
        let mut evicted = 0;
        for (number, copies) in loops.iter().enumerate() {
            let start = self.assembler.begin_loop((copies * self.width.lanes()) as u8);
            self.compute_round(*copies);
            self.assembler.end_loop(start);
            if number == 0 {
                evicted = self.evicted;
            }
        }
        if self.slots * self.width.bytes() > FRAME {
            return None;
        }
        self.assembler.leave(&saved);
        Some(Emitted { code: self.assembler.finish(&self.constants), evicted, most_held: self.most_held })
    }

    /// What is done once, before the loops.
    fn prepare(&mut self, saved: &[General]) {
        self.assembler.enter(FRAME as i32, saved);
        self.prepare_values();
    }

    /// The values that are the same in every round, the addresses of streams, and the first lane.
    pub(super) fn prepare_values(&mut self) {
        for place in 0..self.body.nodes.len() {
            match self.body.nodes[place] {
                Node::Constant(bits) => self.homes[place] = Some(Memory::Constant(self.constant(bits))),
                Node::Load(argument) => self.prepare_load(place, argument),
                Node::Unary(..) | Node::Binary(..) | Node::Select(..) | Node::Fma(..) | Node::Within(..) => {}
            }
        }
        let streams: Vec<(usize, General)> =
            self.streams.iter().enumerate().filter_map(|(number, stream)| Some((number, (*stream)?))).collect();
        let is_list = |(_, stream): &&(usize, General)| *stream == ARGUMENTS;
        for (number, stream) in streams.iter().filter(|stream| !is_list(stream)).chain(streams.iter().filter(is_list)) {
            self.assembler.load_argument(*stream, self.row.first_argument + *number);
        }
        self.assembler.first_lane();
    }

    /// Puts a value that is the same in every round onto the stack. (The first stream's register is free until then.)
    fn prepare_load(&mut self, place: usize, argument: usize) {
        let kind = self.body.arguments[argument];
        if let Argument::Held(number) = kind {
            self.homes[place] = Some(self.place(number));
        }
        if !matches!(kind, Argument::Uniform | Argument::Counter) {
            return;
        }
        let base = STREAMS[0];
        self.assembler.load_argument(base, self.row.first_argument + argument);
        let from = Operand::Memory(Memory::Offset { base, offset: 0 });
        let vector = Vector(0);
        self.assembler.vector(opcode::BROADCAST, vector, None, from, None);
        let home = self.slot();
        if kind == Argument::Counter {
            // Lane by lane on the stack, as there is no constant with different lanes.
            for (lane, number) in FIRST.into_iter().enumerate().take(self.width.lanes()) {
                let Memory::Stack(offset) = home else { continue };
                self.assembler.store_immediate(offset + 4 * lane as i32, number);
            }
            self.assembler.vector(opcode::ADD_I32, vector, Some(vector), Operand::Memory(home), None);
        }
        self.assembler.vector(opcode::STORE, vector, None, Operand::Memory(home), None);
        self.homes[place] = Some(home);
    }

    pub(super) fn slot(&mut self) -> Memory {
        self.slots += 1;
        self.place(self.slots - 1)
    }

    /// A vector on the stack, by its number.
    pub(super) const fn place(&self, number: usize) -> Memory {
        Memory::Stack((number * self.width.bytes()) as i32)
    }

    pub(super) fn constant(&mut self, bits: Constant) -> usize {
        self.constants.iter().position(|known| *known == bits).unwrap_or_else(|| {
            self.constants.push(bits);
            self.constants.len() - 1
        })
    }

    /// A round.
    fn compute(&mut self) {
        if let Some(period) = self.body.period {
            self.assembler.cycle(period);
        }
        let count = self.round.nodes.len();
        for place in 0..count {
            if !self.round.uses[place].is_empty() {
                self.node(place);
            }
        }
        for number in 0..self.round.stores.len() {
            let (argument, copy, value) = self.round.stores[number];
            let from = self.register(value);
            self.store(argument, copy, from);
            self.used(value, count + number);
            self.round.pinned = [false; REGISTERS];
        }
    }

    fn address(&self, argument: usize, copy: usize) -> Option<Memory> {
        let (base, lanes) = (self.streams[argument]?, self.width.lanes());
        let (index, bytes, copy) = match self.body.arguments[argument] {
            Argument::Stream { .. } if self.row.once => return Some(Memory::Offset { base, offset: 0 }),
            Argument::Stream { lane, .. } => (LANE, lane.bytes(), self.row.position + copy),
            _ => (CYCLE, 4, copy % self.body.period.map_or(1, |period| period as usize / lanes)),
        };
        Some(Memory::Indexed { base, index, scale: bytes as u8, offset: (copy * lanes * bytes) as i32 })
    }

    fn store(&mut self, argument: usize, copy: usize, from: Vector) {
        match self.body.arguments[argument] {
            Argument::State(number, part) => return self.combine(number, part, copy, from),
            Argument::Place(number) => {
                let to = Operand::Memory(self.place(number));
                return self.assembler.vector(opcode::STORE, from, None, to, None);
            }
            _ => {}
        }
        let Some(address) = self.address(argument, copy) else { return };
        if let Argument::Stream { lane, .. } = self.body.arguments[argument] {
            if self.row.once {
                return self.store_first(lane, address, from);
            }
            if let Some(mask) = self.row.tail {
                return self.store_tail(lane, mask, address, from);
            }
        }
        let opcode = match self.body.arguments[argument] {
            Argument::Stream { lane, past: true, .. } if lane.bytes() == 4 => opcode::STORE_PAST,
            Argument::Stream { lane, past: true, .. } if lane.bytes() == 2 => opcode::STORE_PAST.half(),
            Argument::Stream { lane, .. } if lane.bytes() == 2 => opcode::STORE.half(),
            Argument::Stream { lane, .. } if lane.bytes() == 1 => match self.width {
                Width::Bits256 => opcode::STORE_8,
                Width::Bits512 => opcode::STORE.least(),
            },
            _ => opcode::STORE,
        };
        self.assembler.vector(opcode, from, None, Operand::Memory(address), None);
    }

    /// Notes that a value has been used at a place; its register is free after the last.
    fn used(&mut self, value: Value, place: usize) {
        let uses = &mut self.round.uses[value.index()];
        while uses.last().is_some_and(|next| *next <= place) {
            uses.pop();
        }
        if uses.is_empty()
            && let Some(register) = self.round.register_of[value.index()].take()
        {
            self.round.held[usize::from(register.0)] = None;
        }
    }

    /// A register for a new value, which no operand of the current instruction has.
    pub(super) fn allocate(&mut self) -> Vector {
        let registers = 0..self.width.registers() - self.row.reserved - self.kept.len();
        let free = registers.clone().find(|number| self.round.held[*number].is_none() && !self.round.pinned[*number]);
        let number = free.unwrap_or_else(|| {
            let next = |number: &usize| {
                self.round.held[*number].and_then(|value| self.round.uses[value.index()].last().copied()).unwrap_or(0)
            };
            // An instruction has three operands and one result at most.
            let number = registers.filter(|number| !self.round.pinned[*number]).max_by_key(next).unwrap_or(0);
            self.evict(number);
            number
        });
        self.round.pinned[number] = true;
        self.most_held = self.most_held.max(number + 1);
        Vector(number as u8)
    }

    fn evict(&mut self, number: usize) {
        let Some(value) = self.round.held[number].take() else { return };
        self.round.register_of[value.index()] = None;
        if self.round.homes[value.index()].is_none() {
            let home = self.slot();
            self.evicted += 1;
            self.assembler.vector(opcode::STORE, Vector(number as u8), None, Operand::Memory(home), None);
            self.round.homes[value.index()] = Some(home);
        }
    }

    fn hold(&mut self, value: Value, register: Vector) {
        self.round.held[usize::from(register.0)] = Some(value);
        self.round.register_of[value.index()] = Some(register);
    }

    /// A register with a value.
    fn register(&mut self, value: Value) -> Vector {
        if let Some(register) = self.round.register_of[value.index()] {
            self.round.pinned[usize::from(register.0)] = true;
            return register;
        }
        let register = self.allocate();
        if let Some(home) = self.round.homes[value.index()] {
            self.assembler.vector(opcode::LOAD, register, None, Operand::Memory(home), None);
        }
        self.hold(value, register);
        register
    }

    /// A value where it is.
    fn operand(&mut self, value: Value) -> Operand {
        match (self.round.register_of[value.index()], self.round.homes[value.index()]) {
            (None, Some(home)) => Operand::Memory(home),
            _ => Operand::Vector(self.register(value)),
        }
    }

    /// One value.
    fn node(&mut self, place: usize) {
        let node = self.round.nodes[place];
        let value = Value::of(place);
        match node {
            Node::Constant(_) => return,
            Node::Load(argument) => match self.body.arguments[argument] {
                Argument::Uniform | Argument::Held(_) => return,
                Argument::Counter => self.count(place, value),
                _ => self.load(argument, self.round.copies[place], value),
            },
            Node::Unary(op, a) => self.unary(op, a, value, place),
            Node::Binary(op, a, b) => self.binary(op, a, b, value, place),
            Node::Select(mask, a, b) if self.width == Width::Bits512 => {
                // The instruction overwrites the mask.
                let is_spare = self.is_spare(mask, place);
                let (mask, a) = (self.register(mask), self.register(a));
                let b = self.operand(b);
                let to = if is_spare { mask } else { self.allocate() };
                if to != mask {
                    self.assembler.vector(opcode::MOVE, to, None, Operand::Vector(mask), None);
                }
                self.assembler.vector(opcode::TERNARY, to, Some(a), b, Some(FIRST_CHOOSES));
                self.operands_used(place);
                self.hold(value, to);
            }
            Node::Select(mask, a, b) => {
                let (mask, b) = (self.register(mask), self.register(b));
                let a = self.operand(a);
                self.operands_used(place);
                let to = self.allocate();
                self.assembler.vector(opcode::SELECT, to, Some(b), a, Some(mask.0 << 4));
                self.hold(value, to);
            }
            Node::Within(a, rest) => {
                let Some(mask) = self.row.tail else { return };
                let (a, rest) = (self.register(a), self.operand(rest));
                let to = self.within(a, rest, mask);
                self.operands_used(place);
                self.hold(value, to);
            }
            Node::Fma(a, b, c) => {
                // The instruction overwrites a factor: best one that nothing needs any more, or else one in memory.
                let cost = |value: Value| match self.round.register_of[value.index()] {
                    Some(_) if self.is_spare(value, place) => 0,
                    Some(_) => 2,
                    None => 1,
                };
                let (a, b) = if cost(b) < cost(a) { (b, a) } else { (a, b) };
                let is_spare = cost(a) == 0;
                let (first, b, c) = (self.operand(a), self.register(b), self.operand(c));
                let to = match first {
                    Operand::Vector(own) if is_spare => own,
                    _ => {
                        let to = self.allocate();
                        let copy = if matches!(first, Operand::Vector(_)) { opcode::MOVE } else { opcode::LOAD };
                        self.assembler.vector(copy, to, None, first, None);
                        to
                    }
                };
                self.assembler.vector(opcode::FMA, to, Some(b), c, None);
                self.operands_used(place);
                self.hold(value, to);
            }
        }
        self.round.pinned = [false; REGISTERS];
    }

    /// Whether what is in a value's register may be overwritten: nothing needs it after this place.
    fn is_spare(&self, value: Value, place: usize) -> bool {
        let is_kept =
            self.round.homes[value.index()].is_some_and(|home| self.kept.iter().any(|(kept, _)| *kept == home));
        !is_kept && self.round.uses[value.index()].first().is_none_or(|last| *last <= place)
    }

    /// Frees the registers of operands that are not needed any more, before the result gets one.
    fn operands_used(&mut self, place: usize) {
        let (operands, arity) = self.round.nodes[place].operands();
        for operand in &operands[..arity] {
            self.used(*operand, place);
        }
        self.round.pinned = [false; REGISTERS];
    }

    fn load(&mut self, argument: usize, copy: usize, value: Value) {
        let Some(address) = self.address(argument, copy) else { return };
        let (to, from) = (self.allocate(), Operand::Memory(address));
        let Argument::Stream { lane, .. } = self.body.arguments[argument] else {
            self.assembler.vector(opcode::LOAD, to, None, from, None);
            return self.hold(value, to);
        };
        let load = match lane {
            Lane::F32 | Lane::I32 | Lane::F64 => opcode::LOAD,
            Lane::F16 => opcode::WIDEN_F16,
            Lane::BF16 => opcode::WIDEN_U16,
            Lane::I8 => opcode::WIDEN_I8,
            Lane::U8 => opcode::WIDEN_U8,
        };
        match self.row.tail {
            Some(mask) => self.load_tail(load, lane, mask, to, from),
            None => self.assembler.vector(load, to, None, from, None),
        }
        if lane == Lane::BF16 {
            self.assembler.vector(opcode::SHIFT, Vector(6), Some(to), Operand::Vector(to), Some(16));
        }
        self.hold(value, to);
    }

    /// The lanes' numbers: those of the first lanes, and how many came before.
    fn count(&mut self, place: usize, value: Value) {
        let Some(first) = self.round.homes[place].take() else { return };
        let to = self.allocate();
        self.assembler.vector(opcode::FROM_GENERAL, to, None, Operand::Vector(Vector(LANE.0)), None);
        self.assembler.vector(opcode::BROADCAST_I32, to, None, Operand::Vector(to), None);
        self.assembler.vector(opcode::ADD_I32, to, Some(to), Operand::Memory(first), None);
        let before = ((self.row.position + self.round.copies[place]) * self.width.lanes()) as u64;
        if before > 0 {
            let before = Operand::Memory(Memory::Constant(self.constant(before << 32 | before)));
            self.assembler.vector(opcode::ADD_I32, to, Some(to), before, None);
        }
        self.hold(value, to);
    }

    fn unary(&mut self, op: Unary, a: Value, value: Value, place: usize) {
        let (opcode, form) = instruction::unary(op, self.width);
        let from = match form {
            Form::Plain(_) => self.operand(a),
            Form::Part(..) | Form::Reversed(_) | Form::HighHalf | Form::Packed { .. } => {
                Operand::Vector(self.register(a))
            }
        };
        self.operands_used(place);
        let to = self.allocate();
        let result = Operand::Vector(to);
        let (width, code) = (self.width, &mut self.assembler);
        match (form, from) {
            (Form::Part(part, byte), _) => code.vector(opcode, Vector(part), Some(to), from, Some(byte)),
            (Form::Reversed(byte), Operand::Vector(from)) => code.vector(opcode, from, None, result, byte),
            (Form::HighHalf, Operand::Vector(from)) => {
                let extract = match width {
                    Width::Bits256 => opcode::EXTRACT_HALF,
                    Width::Bits512 => opcode::EXTRACT_256,
                };
                code.vector(extract, from, None, result, Some(1));
                code.vector(opcode, to, None, result, None);
            }
            (Form::Packed { bytes }, Operand::Vector(from)) => {
                code.vector(opcode, to, Some(from), Operand::Vector(from), None);
                // Each half packs its own: the first and the third 64 bits are the lanes.
                code.vector(opcode::PERMUTE_I64, to, None, result, Some(0b1000));
                if bytes == 1 {
                    code.vector(opcode::PACK_U8, to, Some(to), result, None);
                }
            }
            (Form::Plain(byte), _) => code.vector(opcode, to, None, from, byte),
            // These have a register.
            (Form::Reversed(_) | Form::HighHalf | Form::Packed { .. }, Operand::Memory(_)) => {}
        }
        self.hold(value, to);
    }

    fn binary(&mut self, op: Binary, a: Value, b: Value, value: Value, place: usize) {
        let in_register = |value: Value| self.round.register_of[value.index()].is_some();
        let (a, b) = if op.commutes() && !in_register(a) && in_register(b) { (b, a) } else { (a, b) };
        let (opcode, byte) = instruction::binary(op, self.width);
        let a = self.register(a);
        let b = self.operand(b);
        self.operands_used(place);
        let to = self.allocate();
        if self.width == Width::Bits512 && op.is_comparison() {
            self.assembler.vector(opcode, MASK, Some(a), b, byte);
            self.assembler.vector(opcode::FROM_MASK, to, None, Operand::Vector(MASK), None);
        } else {
            self.assembler.vector(opcode, to, Some(a), b, byte);
        }
        self.hold(value, to);
    }
}
