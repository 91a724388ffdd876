//! x86-64 with AVX2, FMA and F16C, or with AVX-512.
//!
//! An instruction's last operand may be in memory. AVX-512 has masks for lanes; AVX2 chooses lanes by a vector, which is
//! on the stack, and only lanes of 32 bits. Functions have the calling convention of System V.

mod assembler;
mod instruction;
#[cfg(test)]
mod tests;

use epilogue_runtime::CpuLevel;

pub(in crate::jit) use self::assembler::Width;
use self::assembler::{ARGUMENTS, Assembler, General, LANE, Opcode, SAVED, STREAMS, general, opcode};
use self::instruction::Encoding;
use super::body::{Binary, JitNode, Lane, Unary};
use super::isa::{Address, Isa, JitOperand, MemoryOperand, OnTail, OperandForm, Vector};
use crate::level;

/// Code that grows.
#[derive(Clone, Debug)]
pub(in crate::jit) struct X86 {
    width: Width,
    /// Whether lanes have 64 bits.
    is_wide: bool,
    assembler: Assembler,
    constants: Vec<u64>,
    /// The saved registers that the function uses.
    saved: Vec<General>,
}

/// The table of a bit that chooses between two others.
const FIRST_CHOOSES: u8 = 0xca;

/// The mask register that comparisons use.
const MASK: Vector = Vector(1);

/// A loop that has begun: where the distance to its end goes, where it starts, and the lanes at a time.
#[derive(Clone, Copy, Debug)]
pub(in crate::jit) struct Loop {
    skip: usize,
    start: usize,
    by: u8,
}

impl X86 {
    /// An instruction whose last operand is in memory.
    fn access(&mut self, opcode: Opcode, register: Vector, memory: MemoryOperand) {
        self.assembler.vector(opcode, register, None, JitOperand::Memory(memory), None);
    }

    fn unary(&mut self, op: Unary, to: Vector, from: JitOperand) {
        let result = JitOperand::Vector(to);
        match (instruction::unary(op, self.width), from) {
            ((opcode, Encoding::Plain(byte)), _) => self.assembler.vector(opcode, to, None, from, byte),
            ((opcode, Encoding::Part(part, byte)), _) => {
                self.assembler.vector(opcode, Vector(part), Some(to), from, Some(byte));
            }
            ((opcode, Encoding::Reversed(byte)), JitOperand::Vector(from)) => {
                self.assembler.vector(opcode, from, None, result, byte);
            }
            ((opcode, Encoding::HighHalf), JitOperand::Vector(from)) => {
                let extract = match self.width {
                    Width::Bits256 => opcode::EXTRACT_HALF,
                    Width::Bits512 => opcode::EXTRACT_256,
                };
                self.assembler.vector(extract, from, None, result, Some(1));
                self.assembler.vector(opcode, to, None, result, None);
            }
            ((opcode, Encoding::Packed { bytes }), JitOperand::Vector(first)) => {
                self.assembler.vector(opcode, to, Some(first), from, None);
                // Each half packs its own: the first and the third 64 bits are the lanes.
                self.assembler.vector(opcode::PERMUTE_I64, to, None, result, Some(0b1000));
                if bytes == 1 {
                    self.assembler.vector(opcode::PACK_U8, to, Some(to), result, None);
                }
            }
            // By their form, these have a register.
            ((_, Encoding::Reversed(_) | Encoding::HighHalf | Encoding::Packed { .. }), JitOperand::Memory(_)) => {}
        }
    }

    /// By a mask on the stack, the lanes of `chosen` or else of `to`.
    fn choose(&mut self, to: Vector, chosen: Vector, mask: Vector) {
        self.assembler.vector(opcode::SELECT, to, Some(to), JitOperand::Vector(chosen), Some(mask.0 << 4));
    }

    /// Loads a mask that is a vector; `None` if there are mask registers.
    fn mask(&mut self, mask: MemoryOperand, spare: &[Vector]) -> Option<Vector> {
        let vector = *spare.first()?;
        self.access(opcode::LOAD, vector, mask);
        Some(vector)
    }

    /// The opcode that loads lanes.
    const fn widening(lane: Lane, is_wide: bool) -> Opcode {
        match lane {
            Lane::F32 if is_wide => opcode::WIDEN_F32,
            Lane::F64 => opcode::LOAD_F64,
            Lane::F32 | Lane::I32 => opcode::LOAD,
            Lane::F16 => opcode::WIDEN_F16,
            Lane::BF16 => opcode::WIDEN_U16,
            Lane::I8 => opcode::WIDEN_I8,
            Lane::U8 => opcode::WIDEN_U8,
        }
    }

    /// A bf16 is the upper half of an f32.
    fn widened(&mut self, lane: Lane, to: Vector) {
        if lane == Lane::BF16 {
            self.unary(Unary::ShiftLeft(16), to, JitOperand::Vector(to));
        }
    }
}

impl Isa for X86 {
    type Level = Width;
    const LEVELS: &'static [Width] = &[Width::Bits512, Width::Bits256];
    const MOST_LANES: usize = Width::Bits512.lanes();
    type Loop = Loop;

    fn is_there(level: Width) -> bool {
        level::current()
            >= match level {
                Width::Bits256 => CpuLevel::Avx2,
                Width::Bits512 => CpuLevel::Avx512,
            }
    }

    fn new(width: Width) -> Self {
        Self { width, is_wide: false, assembler: Assembler::new(width), constants: Vec::new(), saved: Vec::new() }
    }

    fn set_wide(&mut self, is_wide: bool) {
        self.is_wide = is_wide;
        self.assembler.set_wide(is_wide);
    }

    fn lanes(&self) -> usize {
        self.assembler.lanes()
    }

    fn vector_bytes(&self) -> usize {
        self.width.bytes()
    }

    fn registers(&self) -> usize {
        self.width.registers()
    }

    fn most_reserved(&self) -> [usize; 2] {
        match self.width {
            Width::Bits256 => [12, 4],
            Width::Bits512 => [28, 16],
        }
    }

    /// The list of addresses is needed in every row.
    fn addresses(of_rows: bool) -> impl Iterator<Item = Address> {
        let all = STREAMS.iter().zip(0..).filter(move |(register, _)| !(of_rows && **register == ARGUMENTS));
        all.map(|(_, number)| Address(number))
    }

    fn has_all(&self) -> bool {
        self.width == Width::Bits512
    }

    fn form(&self, node: &JitNode) -> OperandForm {
        let (overwrites, memory): (&[usize], _) = match (node, self.width) {
            (JitNode::Unary(op, _), width) => {
                (&[], matches!(instruction::unary(*op, width).1, Encoding::Plain(_)).then_some(0))
            }
            // The mask.
            (JitNode::Select(..), Width::Bits512) => (&[0], Some(2)),
            // A factor.
            (JitNode::Fma(..) | JitNode::FmaF64(..), _) => (&[0, 1], Some(2)),
            _ => (&[], Some(1)),
        };
        OperandForm { overwrites, memory }
    }

    fn enter(&mut self, frame: usize, addresses: impl Iterator<Item = Address>) {
        let used: Vec<General> = addresses.map(general).collect();
        self.saved = SAVED.into_iter().filter(|saved| used.contains(saved)).collect();
        self.assembler.enter(frame as i32, &self.saved);
    }

    fn leave(&mut self) {
        self.assembler.leave(&self.saved);
    }

    fn finish(self) -> Vec<u8> {
        self.assembler.finish(&self.constants)
    }

    fn load_addresses(&mut self, streams: &[(Address, usize)]) {
        // The list's own address is lost last.
        let is_list = |(stream, _): &&(Address, usize)| general(*stream) == ARGUMENTS;
        for (stream, number) in streams.iter().filter(|of| !is_list(of)).chain(streams.iter().filter(is_list)) {
            self.assembler.load_argument(general(*stream), *number);
        }
    }

    fn broadcast(&mut self, to: Vector, argument: usize, is_wide: bool) {
        self.assembler.load_argument(STREAMS[0], argument);
        let opcode = if is_wide { opcode::BROADCAST_F64 } else { opcode::BROADCAST };
        self.access(opcode, to, MemoryOperand::After(Address(0), 0));
    }

    fn broadcast_lane(&mut self, to: Vector, from: MemoryOperand) {
        self.access(if self.is_wide { opcode::BROADCAST_F64 } else { opcode::BROADCAST }, to, from);
    }

    fn number_lanes(&mut self, slot: MemoryOperand) {
        let MemoryOperand::Slot(slot) = slot else { return };
        let offset = self.assembler.slot(slot);
        (0..self.width.lanes()).for_each(|lane| self.assembler.store_immediate(offset + 4 * lane as i32, lane as u32));
    }

    fn first_lane(&mut self) {
        // xor eax, eax
        self.assembler.bytes(&[0x31, 0xc0]);
    }

    fn cycle(&mut self, period: u32) {
        // mov rdx, rax; and edx, period - 1
        self.assembler.bytes(&[0x48, 0x89, 0xc2, 0x81, 0xe2]);
        self.assembler.bytes(&(period - 1).to_le_bytes());
    }

    fn lane(&mut self, to: Vector) {
        self.assembler.vector(opcode::FROM_GENERAL, to, None, JitOperand::Vector(Vector(LANE.0)), None);
        self.assembler.vector(opcode::BROADCAST_I32, to, None, JitOperand::Vector(to), None);
    }

    fn begin_loop(&mut self, by: usize) -> Loop {
        let by = by as u8;
        // lea rdx, [rax + by]; cmp rdx, rsi; ja end
        self.assembler.bytes(&[0x48, 0x8d, 0x50, by, 0x48, 0x39, 0xf2, 0x0f, 0x87]);
        let skip = self.here();
        self.assembler.bytes(&[0; 4]);
        Loop { skip, start: self.here(), by }
    }

    fn end_loop(&mut self, Loop { skip, start, by }: Loop) {
        // add rax, by; lea rdx, [rax + by]; cmp rdx, rsi; jbe start
        self.assembler.bytes(&[0x48, 0x83, 0xc0, by, 0x48, 0x8d, 0x50, by, 0x48, 0x39, 0xf2, 0x0f, 0x86]);
        self.assembler.distance(start);
        self.assembler.skip_from(skip);
    }

    fn here(&self) -> usize {
        self.assembler.here()
    }

    fn repeat(&mut self, start: usize, by: usize, until: usize) {
        // add rax, by; cmp rax, until; jb start
        self.assembler.bytes(&[0x48, 0x05]);
        self.assembler.bytes(&(by as i32).to_le_bytes());
        self.assembler.bytes(&[0x48, 0x3d]);
        self.assembler.bytes(&(until as i32).to_le_bytes());
        self.assembler.bytes(&[0x0f, 0x82]);
        self.assembler.distance(start);
    }

    fn next_address(&mut self, argument: usize) {
        // mov rcx, [rsi + …]; add [rdi + …], rcx
        let offset = (8 * argument as i32).to_le_bytes();
        self.assembler.bytes(&[0x48, 0x8b, 0x8e]);
        self.assembler.bytes(&offset);
        self.assembler.bytes(&[0x48, 0x01, 0x8f]);
        self.assembler.bytes(&offset);
    }

    fn next_row(&mut self, start: usize) {
        // sub rdx, 1; jnz start
        self.assembler.bytes(&[0x48, 0x83, 0xea, 0x01, 0x0f, 0x85]);
        self.assembler.distance(start);
    }

    fn load_next(&mut self, to: Address, argument: usize) {
        let to = general(to);
        // mov to, [rdi + …]; add to, [rsi + …]
        self.assembler.load_argument(to, argument);
        self.assembler.bytes(&[0x48 | (to.0 >> 3 << 2), 0x03, 0x86 | ((to.0 & 7) << 3)]);
        self.assembler.bytes(&(8 * argument as i32).to_le_bytes());
    }

    fn advance(&mut self, base: Address, bytes: usize) {
        let base = general(base).0;
        // add base, bytes
        self.assembler.bytes(&[0x48 | (base >> 3), 0x81, 0xc0 | (base & 7)]);
        self.assembler.bytes(&(bytes as i32).to_le_bytes());
    }

    fn next_step(&mut self, start: usize) {
        // sub rsi, 1; jnz start
        self.assembler.bytes(&[0x48, 0x83, 0xee, 0x01, 0x0f, 0x85]);
        self.assembler.distance(start);
    }

    fn prefetch(&mut self, base: Address, bytes: usize, offset: usize) {
        let base = general(base).0;
        // prefetcht0 [base + rax * bytes + offset]
        if base > 7 {
            self.assembler.bytes(&[0x41]);
        }
        self.assembler.bytes(&[0x0f, 0x18, 0x8c, (bytes.trailing_zeros() as u8) << 6 | (base & 7)]);
        self.assembler.bytes(&(offset as i32).to_le_bytes());
    }

    fn constant(&mut self, bits: u64) -> MemoryOperand {
        MemoryOperand::Constant(self.constants.iter().position(|known| *known == bits).unwrap_or_else(|| {
            self.constants.push(bits);
            self.constants.len() - 1
        }))
    }

    fn load(&mut self, to: Vector, from: JitOperand) {
        let opcode = if matches!(from, JitOperand::Vector(_)) { opcode::MOVE } else { opcode::LOAD };
        self.assembler.vector(opcode, to, None, from, None);
    }

    fn store(&mut self, from: Vector, to: MemoryOperand) {
        self.access(opcode::STORE, from, to);
    }

    fn load_lanes(&mut self, lane: Lane, to: Vector, from: MemoryOperand) {
        self.access(Self::widening(lane, self.is_wide), to, from);
        self.widened(lane, to);
    }

    fn store_lanes(&mut self, lane: Lane, past: bool, from: Vector, to: MemoryOperand) {
        let opcode = match (lane.bytes(), self.width) {
            (4 | 8, _) if past => opcode::STORE_PAST,
            (2, _) if past => opcode::STORE_PAST.half(),
            (2, _) => opcode::STORE.half(),
            (1, Width::Bits256) => opcode::STORE_8,
            (1, Width::Bits512) => opcode::STORE.least(),
            _ => opcode::STORE,
        };
        self.access(opcode, from, to);
    }

    fn store_first(&mut self, lane: Lane, from: Vector, to: MemoryOperand) {
        let (opcode, byte) = match lane.bytes() {
            8 => (opcode::STORE_8.double(), None),
            4 => (opcode::STORE_FIRST, None),
            2 => (opcode::STORE_FIRST_16, Some(0)),
            _ => (opcode::STORE_FIRST_8, Some(0)),
        };
        self.assembler.vector(opcode, from, None, JitOperand::Memory(to), byte);
    }

    fn compute(&mut self, node: &JitNode, to: Vector, operands: &[JitOperand]) {
        match (node, operands) {
            (JitNode::Unary(op, _), &[a]) => self.unary(*op, to, a),
            (JitNode::Binary(op, ..), &[JitOperand::Vector(a), b]) => self.binary(*op, to, a, b),
            (JitNode::Select(..), &[JitOperand::Vector(mask), a, JitOperand::Vector(b)]) => {
                self.assembler.vector(opcode::SELECT, to, Some(b), a, Some(mask.0 << 4));
            }
            (JitNode::Select(..), &[JitOperand::Vector(a), b]) => {
                self.assembler.vector(opcode::TERNARY, to, Some(a), b, Some(FIRST_CHOOSES));
            }
            (JitNode::Fma(..), &[JitOperand::Vector(b), c]) => self.assembler.vector(opcode::FMA, to, Some(b), c, None),
            (JitNode::FmaF64(..), &[JitOperand::Vector(b), c]) => {
                self.assembler.vector(opcode::FMA.wide(), to, Some(b), c, None);
            }
            _ => debug_assert!(false, "{node:?} of {operands:?}"),
        }
    }

    fn binary(&mut self, op: Binary, to: Vector, a: Vector, b: JitOperand) {
        let (opcode, byte) = instruction::binary(op, self.width);
        if self.width == Width::Bits512 && op.is_comparison() {
            self.assembler.vector(opcode, MASK, Some(a), b, byte);
            let from_mask = if op.is_wide_comparison() { opcode::FROM_MASK.wide() } else { opcode::FROM_MASK };
            self.assembler.vector(from_mask, to, None, JitOperand::Vector(MASK), None);
        } else {
            self.assembler.vector(opcode, to, Some(a), b, byte);
        }
    }

    fn add_product(&mut self, node: &JitNode, to: Vector, a: Vector, b: JitOperand) {
        let is_wide = matches!(node, JitNode::FmaF64(..));
        let opcode = if is_wide { opcode::ADD_PRODUCT.wide() } else { opcode::ADD_PRODUCT };
        self.assembler.vector(opcode, to, Some(a), b, None);
    }

    fn swap(&mut self, distance: usize, to: Vector, from: Vector) {
        // Within 128 bits; of 128 bits.
        let (opcode, how) = match (distance, self.width) {
            (1, _) => (opcode::PERMUTE, 0xb1),
            (2, _) => (opcode::PERMUTE, 0x4e),
            (_, Width::Bits256) => (opcode::PERMUTE_128, 0x01),
            (4, Width::Bits512) => (opcode::SHUFFLE_128, 0xb1),
            (_, Width::Bits512) => (opcode::SHUFFLE_128, 0x4e),
        };
        let first = (opcode != opcode::PERMUTE).then_some(from);
        self.assembler.vector(opcode, to, first, JitOperand::Vector(from), Some(how));
    }

    fn make_mask(&mut self, slot: MemoryOperand, lanes: usize) {
        match (self.width, slot) {
            (Width::Bits256, MemoryOperand::Slot(slot)) => {
                let offset = self.assembler.slot(slot);
                for lane in 0..self.width.lanes() {
                    let bits = if lane < lanes { u32::MAX } else { 0 };
                    self.assembler.store_immediate(offset + 4 * lane as i32, bits);
                }
            }
            _ => self.assembler.set_mask((1 << lanes) - 1),
        }
    }

    fn has_tails_of(&self, lane: Lane) -> bool {
        self.width == Width::Bits512 || lane.bytes() == 4
    }

    fn spare(&self, operation: OnTail) -> usize {
        match (self.width, operation) {
            (Width::Bits512, _) => 0,
            (Width::Bits256, OnTail::Combine) => 2,
            (Width::Bits256, OnTail::Load | OnTail::Store | OnTail::Replace) => 1,
        }
    }

    fn load_tail(&mut self, lane: Lane, to: Vector, from: MemoryOperand, mask: MemoryOperand, spare: &[Vector]) {
        if let Some(mask) = self.mask(mask, spare) {
            self.assembler.vector(opcode::LOAD_WHERE, to, Some(mask), JitOperand::Memory(from), None);
        } else {
            self.assembler.where_masked(true);
            self.access(Self::widening(lane, self.is_wide), to, from);
        }
        self.widened(lane, to);
    }

    fn store_tail(&mut self, lane: Lane, from: Vector, to: MemoryOperand, mask: MemoryOperand, spare: &[Vector]) {
        if let Some(mask) = self.mask(mask, spare) {
            return self.assembler.vector(opcode::STORE_WHERE, from, Some(mask), JitOperand::Memory(to), None);
        }
        self.assembler.where_masked(false);
        let opcode = match lane.bytes() {
            8 => opcode::STORE_F64,
            4 => opcode::STORE,
            2 => opcode::STORE_I16,
            _ => opcode::STORE_I8,
        };
        self.access(opcode, from, to);
    }

    fn replace_tail(&mut self, to: Vector, lanes: Vector, mask: MemoryOperand, spare: &[Vector]) {
        if let Some(mask) = self.mask(mask, spare) {
            return self.choose(to, lanes, mask);
        }
        self.assembler.where_masked(false);
        let opcode = if self.is_wide { opcode::MOVE_F64 } else { opcode::MOVE };
        self.assembler.vector(opcode, to, None, JitOperand::Vector(lanes), None);
    }

    fn combine_tail(&mut self, op: Binary, to: Vector, other: Vector, mask: MemoryOperand, spare: &[Vector]) {
        if let &[all, chosen] = spare {
            self.access(opcode::LOAD, chosen, mask);
            self.binary(op, all, other, JitOperand::Vector(to));
            return self.choose(to, all, chosen);
        }
        self.assembler.where_masked(false);
        self.binary(op, to, other, JitOperand::Vector(to));
    }

    unsafe fn call(code: *const u8, addresses: *const *mut u8, lanes: usize) {
        // SAFETY: the caller's promise: it is a function of this type.
        unsafe {
            let function: unsafe extern "sysv64" fn(*const *mut u8, usize) = std::mem::transmute(code);
            function(addresses, lanes);
        }
    }

    unsafe fn call_rows(code: *const u8, addresses: *mut *mut u8, apart: *const isize, rows: usize) {
        // SAFETY: the caller's promise: it is a function of this type.
        unsafe {
            let function: unsafe extern "sysv64" fn(*mut *mut u8, *const isize, usize) = std::mem::transmute(code);
            function(addresses, apart, rows);
        }
    }
}
