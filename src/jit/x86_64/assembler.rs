//! Encodes the instructions of vector loops: AVX2, FMA and F16C on all 256 bits, or AVX-512 on 512, and the few
//! instructions on general registers that count and address.
//!
//! The encoder is written here because that of `iced-x86` takes 20 s of processor time to compile. Encodings are those
//! of the Intel 64 Architectures Software Developer's Manual, volume 2. The tests compare them with GNU's assembler.

use crate::jit::isa::{Address, Counter, JitOperand, MemoryOperand, Vector};

/// The width of vectors, and so how instructions are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::jit) enum Width {
    /// AVX2, with the prefix VEX.
    #[default]
    Bits256,
    /// AVX-512, with the prefix EVEX.
    Bits512,
}

impl Width {
    /// Lanes of 32 bits.
    pub(super) const fn lanes(self) -> usize {
        self.bytes() / 4
    }

    /// Bytes of a vector.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Bits256 => 32,
            Self::Bits512 => 64,
        }
    }

    /// The number of vector registers.
    pub(super) const fn registers(self) -> usize {
        match self {
            Self::Bits256 => 16,
            Self::Bits512 => 32,
        }
    }
}

/// A general register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct General(pub(super) u8);

/// Counts lanes, up to a function's second argument (which is in rsi).
pub(super) const LANE: General = General(0);
/// Counts lanes modulo the period of cyclic streams.
pub(super) const CYCLE: General = General(2);
/// The first argument of a function.
pub(super) const ARGUMENTS: General = General(7);
/// Registers that a function must preserve.
pub(super) const SAVED: [General; 5] = [General(3), General(12), General(13), General(14), General(15)];
/// The registers of streams' addresses, the saved ones last. [`ARGUMENTS`] is among them: it must be loaded last.
pub(super) const STREAMS: [General; 11] = [
    General(1),
    General(8),
    General(9),
    General(10),
    General(11),
    ARGUMENTS,
    SAVED[0],
    SAVED[1],
    SAVED[2],
    SAVED[3],
    SAVED[4],
];

/// The register of a stream's address.
pub(super) fn general(Address(number): Address) -> General {
    STREAMS[usize::from(number)]
}

/// The register of a counter.
const fn index(counter: Counter) -> General {
    match counter {
        Counter::Lane => LANE,
        Counter::Cycle => CYCLE,
    }
}

/// The part of a vector that an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Half,
    /// 128 bits.
    Least,
}

/// How an instruction is encoded: the prefix that VEX and EVEX stand for (0: none, 1: 66, 2: F3), the map of opcodes (1: 0F,
/// 2: 0F 38, 3: 0F 3A), the opcode, the length, and the bit W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opcode {
    prefix: u8,
    map: u8,
    code: u8,
    part: Part,
    wide: bool,
    /// Whether it is of f64s: EVEX says so by the bit W, too.
    double: bool,
}

impl Opcode {
    pub(super) const fn new(prefix: u8, map: u8, code: u8) -> Self {
        Self { prefix, map, code, part: Part::Whole, wide: false, double: false }
    }

    /// This operation on half a vector.
    pub(super) const fn half(self) -> Self {
        Self { part: Part::Half, ..self }
    }

    /// This operation on 128 bits.
    pub(super) const fn least(self) -> Self {
        Self { part: Part::Least, ..self }
    }

    /// This operation on f64s.
    pub(super) const fn double(self) -> Self {
        Self { double: true, ..self }
    }

    /// This operation with the bit W.
    pub(super) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// Opcodes that are used outside of operations.
pub(super) mod opcode {
    use super::Opcode;

    pub(in crate::jit::x86_64) const MOVE: Opcode = Opcode::new(0, 1, 0x28);
    pub(in crate::jit::x86_64) const LOAD: Opcode = Opcode::new(0, 1, 0x10);
    pub(in crate::jit::x86_64) const STORE: Opcode = Opcode::new(0, 1, 0x11);
    /// Past the caches, at a multiple of the vector's bytes.
    pub(in crate::jit::x86_64) const STORE_PAST: Opcode = Opcode::new(0, 1, 0x2b);
    pub(in crate::jit::x86_64) const STORE_8: Opcode = Opcode::new(1, 1, 0xd6).least();
    pub(in crate::jit::x86_64) const BROADCAST: Opcode = Opcode::new(1, 2, 0x18);
    pub(in crate::jit::x86_64) const BROADCAST_F64: Opcode = Opcode::new(1, 2, 0x19).double();
    pub(in crate::jit::x86_64) const BROADCAST_I32: Opcode = Opcode::new(1, 2, 0x58);
    pub(in crate::jit::x86_64) const FROM_GENERAL: Opcode = Opcode::new(1, 1, 0x6e).least();
    pub(in crate::jit::x86_64) const ADD_I32: Opcode = Opcode::new(1, 1, 0xfe);
    pub(in crate::jit::x86_64) const WIDEN_F16: Opcode = Opcode::new(1, 2, 0x13);
    /// f64s of half a vector of f32s.
    pub(in crate::jit::x86_64) const WIDEN_F32: Opcode = Opcode::new(0, 1, 0x5a);
    pub(in crate::jit::x86_64) const WIDEN_U16: Opcode = Opcode::new(1, 2, 0x33);
    pub(in crate::jit::x86_64) const WIDEN_I8: Opcode = Opcode::new(1, 2, 0x21);
    pub(in crate::jit::x86_64) const WIDEN_U8: Opcode = Opcode::new(1, 2, 0x31);
    pub(in crate::jit::x86_64) const SHIFT: Opcode = Opcode::new(1, 1, 0x72);
    pub(in crate::jit::x86_64) const SHIFT_64: Opcode = Opcode::new(1, 1, 0x73).double();
    pub(in crate::jit::x86_64) const PACK_U16: Opcode = Opcode::new(1, 2, 0x2b);
    pub(in crate::jit::x86_64) const PACK_U8: Opcode = Opcode::new(1, 1, 0x67);
    pub(in crate::jit::x86_64) const PERMUTE_I64: Opcode = Opcode::new(1, 3, 0x00).wide();
    pub(in crate::jit::x86_64) const EXTRACT_HALF: Opcode = Opcode::new(1, 3, 0x19);
    pub(in crate::jit::x86_64) const SELECT: Opcode = Opcode::new(1, 3, 0x4a);
    pub(in crate::jit::x86_64) const FMA: Opcode = Opcode::new(1, 2, 0xa8);
    /// The result replaces what is added.
    pub(in crate::jit::x86_64) const ADD_PRODUCT: Opcode = Opcode::new(1, 2, 0xb8);
    // Moves whose masks are of lanes of 64 bits.
    pub(in crate::jit::x86_64) const MOVE_F64: Opcode = Opcode::new(1, 1, 0x28).double();
    pub(in crate::jit::x86_64) const LOAD_F64: Opcode = Opcode::new(1, 1, 0x10).double();
    pub(in crate::jit::x86_64) const STORE_F64: Opcode = Opcode::new(1, 1, 0x11).double();
    /// The first lane only: of 32, 16 and 8 bits.
    pub(in crate::jit::x86_64) const STORE_FIRST: Opcode = Opcode::new(2, 1, 0x11).least();
    pub(in crate::jit::x86_64) const STORE_FIRST_16: Opcode = Opcode::new(1, 3, 0x15).least();
    pub(in crate::jit::x86_64) const STORE_FIRST_8: Opcode = Opcode::new(1, 3, 0x14).least();
    /// Lanes within each 128 bits.
    pub(in crate::jit::x86_64) const PERMUTE: Opcode = Opcode::new(1, 3, 0x04);
    // Instructions that only AVX has.
    pub(in crate::jit::x86_64) const PERMUTE_128: Opcode = Opcode::new(1, 3, 0x06);
    pub(in crate::jit::x86_64) const LOAD_WHERE: Opcode = Opcode::new(1, 2, 0x2c);
    pub(in crate::jit::x86_64) const STORE_WHERE: Opcode = Opcode::new(1, 2, 0x2e);
    // Instructions that only AVX-512 has.
    pub(in crate::jit::x86_64) const EXTRACT_256: Opcode = Opcode::new(1, 3, 0x1b).wide();
    pub(in crate::jit::x86_64) const INSERT_256: Opcode = Opcode::new(1, 3, 0x1a).wide();
    /// All bits of lanes whose bit in a mask register is set.
    pub(in crate::jit::x86_64) const FROM_MASK: Opcode = Opcode::new(2, 2, 0x38);
    /// Each bit by the bits of three operands and a table.
    pub(in crate::jit::x86_64) const TERNARY: Opcode = Opcode::new(1, 3, 0x25);
    pub(in crate::jit::x86_64) const NARROW_16: Opcode = Opcode::new(2, 2, 0x33);
    pub(in crate::jit::x86_64) const NARROW_8: Opcode = Opcode::new(2, 2, 0x31);
    pub(in crate::jit::x86_64) const SHUFFLE_128: Opcode = Opcode::new(1, 3, 0x23);
    /// Stores that may leave lanes out.
    pub(in crate::jit::x86_64) const STORE_I16: Opcode = Opcode::new(3, 1, 0x7f).wide().half();
    pub(in crate::jit::x86_64) const STORE_I8: Opcode = Opcode::new(3, 1, 0x7f).least();
}

/// A constant's bits, in each 64-bit part of a vector.
pub(super) type Constant = u64;

/// Code that grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembler {
    width: Width,
    /// Whether lanes have 64 bits.
    is_wide: bool,
    code: Vec<u8>,
    /// EVEX's mask field, for the next instruction.
    masked: u8,
    /// Places of 32-bit distances to constants: the place, the end of the instruction, the constant.
    fixups: Vec<(usize, usize, usize)>,
}

impl Assembler {
    pub(super) fn new(width: Width) -> Self {
        Self { width, ..Self::default() }
    }

    pub(super) const fn set_wide(&mut self, is_wide: bool) {
        self.is_wide = is_wide;
    }

    /// Lanes of a vector.
    pub(super) const fn lanes(&self) -> usize {
        if self.is_wide { self.width.lanes() / 2 } else { self.width.lanes() }
    }

    /// An instruction with up to three operands: `to`, `first` (which some lack), `last`, and a byte.
    pub(super) fn vector(
        &mut self,
        opcode: Opcode,
        to: Vector,
        first: Option<Vector>,
        last: JitOperand,
        byte: Option<u8>,
    ) {
        let Opcode { prefix, map, code, part, wide, double } = opcode;
        let (x, b) = match last {
            JitOperand::Vector(last) => (last.0 >> 4, last.0 >> 3 & 1),
            JitOperand::Memory(MemoryOperand::Lanes { base, counter, .. }) => {
                (index(counter).0 >> 3, general(base).0 >> 3)
            }
            JitOperand::Memory(MemoryOperand::After(base, _)) => (0, general(base).0 >> 3),
            JitOperand::Memory(MemoryOperand::Slot(_) | MemoryOperand::Constant(_)) => (0, 0),
        };
        let first = first.map_or(0, |first| first.0);
        // The bits that extend registers' numbers are inverted.
        let high = ((to.0 >> 3 & 1 ^ 1) << 7) | ((x ^ 1) << 6) | ((b ^ 1) << 5) | map;
        let low = ((first & 0xf ^ 0xf) << 3) | prefix;
        match self.width {
            Width::Bits256 => {
                let long = u8::from(part == Part::Whole) << 2;
                self.bytes(&[0xc4, high, u8::from(wide) << 7 | low | long, code]);
            }
            Width::Bits512 => {
                let long = match part {
                    Part::Whole => 2 << 5,
                    Part::Half => 1 << 5,
                    Part::Least => 0,
                };
                let high = high | (to.0 >> 4 ^ 1) << 4;
                let low = u8::from(wide || double) << 7 | low | 1 << 2;
                let masked = std::mem::take(&mut self.masked);
                self.bytes(&[0x62, high, low, masked | long | (first >> 4 ^ 1) << 3, code]);
            }
        }
        let constant = self.operand(to.0, last);
        if let Some(byte) = byte {
            self.code.push(byte);
        }
        if let Some((at, constant)) = constant {
            self.fixups.push((at, self.code.len(), constant));
        }
    }

    /// The last operand. Gives the place of a distance to a constant.
    fn operand(&mut self, to: u8, last: JitOperand) -> Option<(usize, usize)> {
        let to = (to & 7) << 3;
        match last {
            JitOperand::Vector(last) => self.code.push(0xc0 | to | (last.0 & 7)),
            JitOperand::Memory(MemoryOperand::Lanes { base, counter, bytes, vectors }) => {
                let (base, index) = (general(base).0 & 7, index(counter).0 & 7);
                let offset = (vectors * self.lanes() * bytes) as i32;
                // Without an offset there are bases that can't be encoded.
                let has_offset = offset != 0 || base == 5;
                let scale = bytes.trailing_zeros() as u8;
                self.bytes(&[to | 4 | (u8::from(has_offset) << 7), (scale << 6) | (index << 3) | base]);
                if has_offset {
                    self.bytes(&offset.to_le_bytes());
                }
            }
            JitOperand::Memory(MemoryOperand::After(base, offset)) => {
                let base = general(base).0 & 7;
                self.code.push(0x80 | to | base);
                if base == 4 {
                    self.code.push(0x24);
                }
                self.bytes(&(offset as i32).to_le_bytes());
            }
            JitOperand::Memory(MemoryOperand::Slot(number)) => {
                self.bytes(&[0x84 | to, 0x24]);
                self.bytes(&self.slot(number).to_le_bytes());
            }
            JitOperand::Memory(MemoryOperand::Constant(number)) => {
                self.code.push(5 | to);
                let at = self.code.len();
                self.bytes(&[0; 4]);
                return Some((at, number));
            }
        }
        None
    }

    /// Bytes from the stack's end to a vector.
    pub(super) const fn slot(&self, number: usize) -> i32 {
        (number * self.width.bytes()) as i32
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// Begins a function: reserves `frame` bytes of stack, and saves the registers that it may then change. The frame
    /// is a multiple of a vector's bytes, and is aligned to them.
    pub(super) fn enter(&mut self, frame: i32, saved: &[General]) {
        // push rbp; mov rbp, rsp; sub rsp, bytes; and rsp, -(a vector's bytes)
        self.bytes(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec]);
        self.bytes(&(frame + 8 * SAVED.len() as i32).to_le_bytes());
        self.bytes(&[0x48, 0x83, 0xe4, (self.width.bytes() as u8).wrapping_neg()]);
        for (number, register) in saved.iter().enumerate() {
            self.save(*register, 0x89, number);
        }
    }

    /// Ends a function that [`enter`](Self::enter) has begun.
    pub(super) fn leave(&mut self, saved: &[General]) {
        for (number, register) in saved.iter().enumerate() {
            self.save(*register, 0x8b, number);
        }
        // vzeroupper; mov rsp, rbp; pop rbp; ret
        self.bytes(&[0xc5, 0xf8, 0x77, 0x48, 0x89, 0xec, 0x5d, 0xc3]);
    }

    /// `mov [rbp - …], register`, or the other way.
    fn save(&mut self, register: General, code: u8, number: usize) {
        let offset = -8 * (number as i8 + 1);
        self.bytes(&[0x48 | (register.0 >> 3 << 2), code, 0x45 | ((register.0 & 7) << 3), offset.to_le_bytes()[0]]);
    }

    /// Loads an address from the list of arguments.
    pub(super) fn load_argument(&mut self, to: General, number: usize) {
        self.bytes(&[0x48 | (to.0 >> 3 << 2), 0x8b, 0x87 | ((to.0 & 7) << 3)]);
        self.bytes(&(8 * number as i32).to_le_bytes());
    }

    /// Stores 32 bits on the stack.
    pub(super) fn store_immediate(&mut self, offset: i32, bits: u32) {
        self.bytes(&[0xc7, 0x84, 0x24]);
        self.bytes(&offset.to_le_bytes());
        self.bytes(&bits.to_le_bytes());
    }

    /// The place of what comes next.
    pub(super) const fn here(&self) -> usize {
        self.code.len()
    }

    /// The distance from the end of these four bytes to a place.
    pub(super) fn distance(&mut self, to: usize) {
        let distance = to as i64 - (self.code.len() as i64 + 4);
        self.bytes(&(distance as i32).to_le_bytes());
    }

    /// Writes the distance to the next instruction at a place that was left for it.
    pub(super) fn skip_from(&mut self, place: usize) {
        let distance = (self.code.len() - (place + 4)) as i32;
        self.code[place..place + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Puts bits into the mask register of [`where_masked`](Self::where_masked). ([`LANE`] is changed.)
    pub(super) fn set_mask(&mut self, bits: u32) {
        // mov eax, bits; kmovw k2, eax
        self.code.push(0xb8);
        self.bytes(&bits.to_le_bytes());
        self.bytes(&[0xc5, 0xf8, 0x92, 0xd0]);
    }

    /// Restricts the next instruction, of AVX-512, to the lanes of the mask register k2. The others become 0, or stay.
    pub(super) const fn where_masked(&mut self, zero: bool) {
        self.masked = 2 | (zero as u8) << 7;
    }

    /// The code, followed by its constants.
    pub(super) fn finish(mut self, constants: &[Constant]) -> Vec<u8> {
        let bytes = self.width.bytes();
        let table = self.code.len().next_multiple_of(bytes);
        for (at, end, constant) in &self.fixups {
            let distance = (table + constant * bytes) as i32 - *end as i32;
            self.code[*at..*at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        // Bytes that never run are `int3`.
        self.code.resize(table, 0xcc);
        for constant in constants {
            for _ in 0..bytes / size_of::<Constant>() {
                self.code.extend_from_slice(&constant.to_le_bytes());
            }
        }
        self.code
    }
}
