//! Turns the body of a loop into machine code: chooses registers, and writes the loop around the body.
//!
//! All values of a body are straight-line code. If registers run out, the value that is needed last again gives up its
//! register (Belady's rule). Constants and uniform values are operands in memory, and take no register for longer than
//! an instruction. Registers that a round leaves free keep the constants that it uses most. (A Zen 4 loads at most 64
//! bytes a clock. A softmax of AVX-512 takes 0.37 ns an element if its exponential loads its coefficients, 0.30 if
//! not.)

use std::borrow::Cow;

use smallvec::SmallVec;

use super::body::{Argument, Binary, Body, JitNode, JitTarget, JitValue, Lane, TileOperand};
use super::in_tile::InTile;
use super::isa::{Address, Counter, Isa, JitOperand, MOST_REGISTERS, MemoryOperand, OnTail, Vector};
use super::round::Round;

/// Bytes of stack for values: less than a page, so that the stack's guard page can't be left out.
pub(super) const FRAME: usize = 3584;

/// The number of vectors that there is stack for.
pub(super) fn slots(isa: &impl Isa) -> usize {
    FRAME / isa.vector_bytes()
}

/// The most vectors that are computed side by side: so the CPU finds instructions that don't wait for each other.
/// Measured on Zen 3: an exponential takes 0.70 ns a lane in one vector, 0.62 in two, 0.45 in four and 0.48 in six.
pub(super) const SIDE_BY_SIDE: usize = 4;

/// One in this many values may lose its register for that; more would cost more than waiting.
pub(super) const HELD: usize = 8;

/// Code of a function `(arguments: *const *mut u8, lanes: usize)`, which computes a multiple of a vector's lanes. `None` if
/// the body has too many streams or values, or a period that is shorter than a vector.
pub(super) fn emit<I: Isa>(body: &Body, isa: &I) -> Option<Vec<u8>> {
    if body.is_wide || body.period.is_some_and(|period| (period as usize) < isa.lanes()) {
        return None;
    }
    let body = &*scaled(body, isa);
    let mut copies = SIDE_BY_SIDE;
    loop {
        let loops = if copies > 1 { vec![copies, 1] } else { vec![1] };
        let emitted = |most_kept: usize| Emitter::new(body, isa.clone(), I::addresses(false))?.emit(&loops, most_kept);
        let first = emitted(0);
        match first {
            Some(Emitted { evicted, most_held, .. }) if copies == 1 || evicted * HELD <= body.nodes.len() * copies => {
                return Some(emitted(isa.registers() - most_held)?.code);
            }
            None if copies == 1 => return None,
            _ => copies /= 2,
        }
    }
}

/// The body, by instructions that there are.
pub(super) fn scaled<'b>(body: &'b Body, isa: &impl Isa) -> Cow<'b, Body> {
    if isa.has_all() { Cow::Borrowed(body) } else { Cow::Owned(body.by_common_instructions()) }
}

/// The result of [`Emitter::emit`].
struct Emitted {
    code: Vec<u8>,
    /// The number of values that lose their registers in the first loop.
    evicted: usize,
    /// The number of registers that a round takes.
    most_held: usize,
}

/// The code of a body.
pub(super) struct Emitter<'a, I> {
    pub(super) body: &'a Body,
    pub(super) isa: I,
    /// The register with each stream's address.
    streams: Vec<Option<Address>>,
    /// For each node, where in memory it is if it is the same in every round.
    homes: Vec<Option<MemoryOperand>>,
    pub(super) slots: usize,
    /// The number of values that lose their registers.
    pub(super) evicted: usize,
    /// The number of registers that values of rounds have had at once.
    pub(super) most_held: usize,
    /// Values that every round shares and that are in a register, too: in those before the states'.
    kept: Vec<(MemoryOperand, Vector)>,
    pub(super) round: Round,
    pub(super) row: InRow,
    /// The tile, if the body is that of one.
    pub(super) tile: Option<InTile>,
}

/// The state of a stage of a row program.
#[derive(Clone, Debug, Default)]
pub(super) struct InRow {
    /// The number of the stage's first argument among all.
    pub(super) first_argument: usize,
    /// Whether the stage is computed once, and only first lanes are stored.
    pub(super) once: bool,
    /// The number of vectors between what [`Counter::Lane`] counts and the round.
    pub(super) position: usize,
    /// The mask of the row's last lanes in memory, in a round of these lanes.
    pub(super) tail: Option<MemoryOperand>,
    /// The number of vectors of a state, and where they are.
    pub(super) apart: usize,
    pub(super) states: Vec<JitOperand>,
    /// The number of registers that states have, the last ones.
    pub(super) reserved: usize,
    /// Whether there are no instructions for something.
    pub(super) refused: bool,
    /// Lanes of the next row that rounds prefetch: addresses, and bytes of a lane.
    pub(super) ahead: Vec<(Address, usize)>,
}

impl<'a, I: Isa> Emitter<'a, I> {
    /// An emitter with these registers for streams' addresses. `None` if they are too few.
    pub(super) fn new(body: &'a Body, isa: I, mut registers: impl Iterator<Item = Address>) -> Option<Self> {
        let mut streams = Vec::with_capacity(body.arguments.len());
        for argument in &body.arguments {
            streams.push(match argument {
                Argument::Stream { .. } | Argument::Cyclic => Some(registers.next()?),
                Argument::Uniform | Argument::WideUniform | Argument::Counter | Argument::Tile(_) => None,
            });
        }
        Some(Self {
            body,
            isa,
            streams,
            homes: vec![None; body.nodes.len()],
            slots: 0,
            evicted: 0,
            most_held: 0,
            kept: Vec::new(),
            round: Round::default(),
            row: InRow::default(),
            tile: None,
        })
    }

    /// A round of this many vectors.
    pub(super) fn compute_round(&mut self, copies: usize) {
        let is_whole = self.row.tail.is_none();
        self.round = self.round_of(copies, is_whole);
        for (home, register) in self.round.homes.iter().zip(&mut self.round.register_of) {
            *register = self.kept.iter().find(|(kept, _)| Some(*kept) == *home).map(|(_, register)| *register);
        }
        self.place_totals();
        self.ask_ahead(copies);
        self.compute();
    }

    fn round_of(&self, copies: usize, is_whole: bool) -> Round {
        match &self.tile {
            Some(tile) => Round::of_tile(self.body, &self.homes, tile.shape()),
            None => Round::new(self.body, self.isa.lanes(), &self.homes, copies, is_whole),
        }
    }

    /// Puts values that every round shares into registers, at most this many, the most used first. A round of these copies
    /// must use a value `least_uses` times.
    pub(super) fn keep(&mut self, most: usize, copies: usize, least_uses: usize) {
        let round = self.round_of(copies, true);
        let mut used: Vec<(MemoryOperand, usize)> = Vec::new();
        for ((node, home), uses) in round.nodes.iter().zip(&round.homes).zip(&round.uses) {
            let is_counter =
                matches!(node, JitNode::Load(argument) if self.body.arguments[*argument] == Argument::Counter);
            let Some(home) = home.filter(|_| !is_counter) else { continue };
            match used.iter_mut().find(|(known, _)| *known == home) {
                Some((_, count)) => *count += uses.len(),
                None => used.push((home, uses.len())),
            }
        }
        used.retain(|(_, count)| *count >= least_uses);
        used.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let first = self.isa.registers() - self.row.reserved;
        for (number, (home, _)) in used.into_iter().take(most).enumerate() {
            let register = Vector((first - 1 - number) as u8);
            self.isa.load(register, JitOperand::Memory(home));
            self.kept.push((home, register));
        }
    }

    /// Loops that compute this many vectors a round, one loop after the other.
    fn emit(mut self, loops: &[usize], most_kept: usize) -> Option<Emitted> {
        self.isa.enter(FRAME, self.streams.iter().flatten().copied());
        self.prepare_values();
        self.keep(most_kept, loops[0], 1);
        let mut evicted = 0;
        for (number, copies) in loops.iter().enumerate() {
            let start = self.isa.begin_loop(copies * self.isa.lanes());
            self.compute_round(*copies);
            self.isa.end_loop(start);
            if number == 0 {
                evicted = self.evicted;
            }
        }
        if self.slots > slots(&self.isa) {
            return None;
        }
        self.isa.leave();
        Some(Emitted { code: self.isa.finish(), evicted, most_held: self.most_held })
    }

    /// The values that are the same in every round, the addresses of streams, and the first lane.
    pub(super) fn prepare_values(&mut self) {
        for place in 0..self.body.nodes.len() {
            match self.body.nodes[place] {
                JitNode::Constant(bits) => self.homes[place] = Some(self.isa.constant(bits)),
                JitNode::Load(argument) => self.prepare_load(place, argument),
                JitNode::Held(number) => self.homes[place] = Some(MemoryOperand::Slot(number)),
                JitNode::Unary(..)
                | JitNode::Binary(..)
                | JitNode::Select(..)
                | JitNode::Fma(..)
                | JitNode::FmaF64(..)
                | JitNode::Within(..) => {}
            }
        }
        let first = self.row.first_argument;
        let number = |(number, stream): (usize, &Option<Address>)| Some(((*stream)?, first + number));
        let streams: Vec<(Address, usize)> = self.streams.iter().enumerate().filter_map(number).collect();
        self.isa.load_addresses(&streams);
        self.isa.first_lane();
    }

    /// Puts a value that is the same in every round onto the stack. (No stream has its register until then.)
    fn prepare_load(&mut self, place: usize, argument: usize) {
        let kind = self.body.arguments[argument];
        if !matches!(kind, Argument::Uniform | Argument::WideUniform | Argument::Counter) {
            return;
        }
        let vector = Vector(0);
        self.isa.broadcast(vector, self.row.first_argument + argument, kind == Argument::WideUniform);
        let home = self.slot();
        if kind == Argument::Counter {
            // Lane by lane on the stack, as there is no constant with different lanes.
            self.isa.number_lanes(home);
            self.isa.binary(Binary::AddI32, vector, vector, JitOperand::Memory(home));
        }
        self.isa.store(vector, home);
        self.homes[place] = Some(home);
    }

    pub(super) const fn slot(&mut self) -> MemoryOperand {
        self.slots += 1;
        MemoryOperand::Slot(self.slots - 1)
    }

    /// A round.
    fn compute(&mut self) {
        if let Some(period) = self.body.period {
            self.isa.cycle(period);
        }
        let count = self.round.nodes.len();
        for place in 0..count {
            if !self.round.uses[place].is_empty() {
                self.node(place);
            }
        }
        for number in 0..self.round.stores.len() {
            let (target, copy, value) = self.round.stores[number];
            let from = self.register(value);
            self.store(target, copy, from);
            self.used(value, count + number);
            self.round.pinned = [false; MOST_REGISTERS];
        }
    }

    fn address(&self, argument: usize, copy: usize) -> Option<MemoryOperand> {
        if self.tile.is_some() {
            return self.tile_operand(argument, copy);
        }
        let base = self.streams[argument]?;
        Some(match self.body.arguments[argument] {
            Argument::Stream { .. } if self.row.once => MemoryOperand::After(base, 0),
            Argument::Stream { lane, .. } => {
                let vectors = self.row.position + copy;
                MemoryOperand::Lanes { base, counter: Counter::Lane, bytes: lane.bytes(), vectors }
            }
            _ => {
                let vectors = copy % self.body.period.map_or(1, |period| period as usize / self.isa.lanes());
                MemoryOperand::Lanes { base, counter: Counter::Cycle, bytes: 4, vectors }
            }
        })
    }

    fn store(&mut self, target: JitTarget, copy: usize, from: Vector) {
        let argument = match target {
            JitTarget::Argument(argument) => argument,
            JitTarget::State(number, part) => return self.combine(number, part, copy, from),
            JitTarget::Place(number) => return self.isa.store(from, MemoryOperand::Slot(number)),
        };
        if let Some(total) = self.total(argument, copy) {
            if total != from {
                self.isa.load(total, JitOperand::Vector(from));
            }
            return;
        }
        let Some(to) = self.address(argument, copy) else { return };
        let Argument::Stream { lane, past, .. } = self.body.arguments[argument] else {
            return self.isa.store(from, to);
        };
        if self.row.once {
            self.isa.store_first(lane, from, to);
        } else if self.body.is_wide && lane != Lane::F64 {
            self.row.refused = true;
        } else if let Some(mask) = self.row.tail {
            self.row.refused |= !self.isa.has_tails_of(lane);
            let spare = self.spare(OnTail::Store);
            self.isa.store_tail(lane, from, to, mask, &spare);
        } else {
            self.isa.store_lanes(lane, past, from, to);
        }
    }

    /// The registers that an operation on last lanes takes.
    pub(super) fn spare(&mut self, operation: OnTail) -> Vec<Vector> {
        (0..self.isa.spare(operation)).map(|_| self.allocate()).collect()
    }

    /// Notes that a value has been used at a place; its register is free after the last.
    fn used(&mut self, value: JitValue, place: usize) {
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
        let registers = 0..self.isa.registers() - self.row.reserved - self.kept.len();
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
            self.isa.store(Vector(number as u8), home);
            self.round.homes[value.index()] = Some(home);
        }
    }

    pub(super) fn hold(&mut self, value: JitValue, register: Vector) {
        self.round.held[usize::from(register.0)] = Some(value);
        self.round.register_of[value.index()] = Some(register);
    }

    /// A register with a value.
    pub(super) fn register(&mut self, value: JitValue) -> Vector {
        if let Some(register) = self.round.register_of[value.index()] {
            self.round.pinned[usize::from(register.0)] = true;
            return register;
        }
        let register = self.allocate();
        if let Some(home) = self.round.homes[value.index()] {
            self.isa.load(register, JitOperand::Memory(home));
        }
        self.hold(value, register);
        register
    }

    /// A value where it is.
    pub(super) fn operand(&mut self, value: JitValue) -> JitOperand {
        match (self.round.register_of[value.index()], self.round.homes[value.index()]) {
            (None, Some(home)) => JitOperand::Memory(home),
            _ => JitOperand::Vector(self.register(value)),
        }
    }

    /// One value.
    fn node(&mut self, place: usize) {
        let node = self.round.nodes[place];
        let value = JitValue::of(place);
        match node {
            JitNode::Constant(_) | JitNode::Held(_) => return,
            JitNode::Load(argument) => match self.body.arguments[argument] {
                Argument::Uniform | Argument::WideUniform | Argument::Tile(TileOperand::Total(_)) => return,
                Argument::Counter => self.count(place, value),
                _ => self.load(argument, self.round.copies[place], value),
            },
            JitNode::Within(a, rest) => {
                let Some(mask) = self.row.tail else { return };
                let (a, rest) = (self.register(a), self.operand(rest));
                let to = self.allocate();
                self.isa.load(to, rest);
                let spare = self.spare(OnTail::Replace);
                self.isa.replace_tail(to, a, mask, &spare);
                self.operands_used(place);
                self.hold(value, to);
            }
            JitNode::Unary(..) | JitNode::Binary(..) | JitNode::Select(..) | JitNode::Fma(..) | JitNode::FmaF64(..) => {
                self.instruction(&node, place);
            }
        }
        self.round.pinned = [false; MOST_REGISTERS];
    }

    /// A value that an instruction computes of others.
    fn instruction(&mut self, node: &JitNode, place: usize) {
        if self.add_product(node, place).is_some() {
            return;
        }
        let form = self.isa.form(node);
        let (mut values, arity) = node.operands();
        if let JitNode::Binary(op, a, b) = node {
            let in_register = |value: &JitValue| self.round.register_of[value.index()].is_some();
            if op.commutes() && !in_register(a) && in_register(b) {
                values.swap(0, 1);
            }
        }
        // Best it overwrites one that nothing needs any more, or else one in memory.
        let cost = |number: &usize| match self.round.register_of[values[*number].index()] {
            Some(_) if self.is_spare(values[*number], place) => 0,
            Some(_) => 2,
            None => 1,
        };
        let overwritten = form.overwrites.iter().copied().min_by_key(cost);
        let is_spare = overwritten.is_some_and(|number| cost(&number) == 0);
        let first = overwritten.map(|number| self.operand(values[number]));
        // Operands that must be in registers get them before the rest is looked for in memory.
        let mut operands = [None; 3];
        for in_memory in [false, true] {
            let is_next = |number: &usize| (form.memory == Some(*number)) == in_memory && overwritten != Some(*number);
            for number in (0..arity).filter(is_next) {
                let value = values[number];
                let operand = if in_memory { self.operand(value) } else { JitOperand::Vector(self.register(value)) };
                operands[number] = Some(operand);
            }
        }
        let operands: SmallVec<[JitOperand; 3]> = operands.into_iter().flatten().collect();
        let to = match first {
            None => {
                self.operands_used(place);
                self.free_total(JitValue::of(place)).unwrap_or_else(|| self.allocate())
            }
            Some(JitOperand::Vector(own)) if is_spare => own,
            Some(from) => {
                let to = self.allocate();
                self.isa.load(to, from);
                to
            }
        };
        self.isa.compute(node, to, &operands);
        if first.is_some() {
            self.operands_used(place);
        }
        self.hold(JitValue::of(place), to);
    }

    /// Whether what is in a value's register may be overwritten: nothing needs it after this place.
    fn is_spare(&self, value: JitValue, place: usize) -> bool {
        let is_kept =
            self.round.homes[value.index()].is_some_and(|home| self.kept.iter().any(|(kept, _)| *kept == home));
        // What is in the register of a total stays there.
        let is_total = self.round.register_of[value.index()]
            .is_some_and(|register| usize::from(register.0) >= self.isa.registers() - self.row.reserved);
        !is_kept && !is_total && self.round.uses[value.index()].first().is_none_or(|last| *last <= place)
    }

    /// Frees the registers of operands that are not needed any more, before the result gets one.
    pub(super) fn operands_used(&mut self, place: usize) {
        let (operands, arity) = self.round.nodes[place].operands();
        for operand in &operands[..arity] {
            self.used(*operand, place);
        }
        self.round.pinned = [false; MOST_REGISTERS];
    }

    fn load(&mut self, argument: usize, copy: usize, value: JitValue) {
        let Some(from) = self.address(argument, copy) else { return };
        let to = self.allocate();
        match (self.body.arguments[argument], self.row.tail) {
            (Argument::Stream { lane, .. }, Some(mask)) => {
                self.row.refused |= !self.isa.has_tails_of(lane);
                let spare = self.spare(OnTail::Load);
                self.isa.load_tail(lane, to, from, mask, &spare);
            }
            (Argument::Stream { lane, .. }, None) => self.isa.load_lanes(lane, to, from),
            (Argument::Tile(TileOperand::Row(_)), _) => self.isa.broadcast_lane(to, from),
            _ => self.isa.load(to, JitOperand::Memory(from)),
        }
        self.hold(value, to);
    }

    /// The lanes' numbers: those of the first lanes, and how many came before.
    fn count(&mut self, place: usize, value: JitValue) {
        let Some(first) = self.round.homes[place].take() else { return };
        let to = self.allocate();
        self.isa.lane(to);
        self.isa.binary(Binary::AddI32, to, to, JitOperand::Memory(first));
        let before = ((self.row.position + self.round.copies[place]) * self.isa.lanes()) as u64;
        if before > 0 {
            let before = JitOperand::Memory(self.isa.constant(before << 32 | before));
            self.isa.binary(Binary::AddI32, to, to, before);
        }
        self.hold(value, to);
    }
}
