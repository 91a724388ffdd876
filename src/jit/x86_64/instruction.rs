//! The instructions for the operations of a body.

use super::assembler::{Opcode, Width, opcode};
use crate::jit::body::{Binary, Unary};

/// How an instruction of one operand is encoded, and a byte that it has at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The result first, and the operand last.
    Plain(Option<u8>),
    /// The result in the middle: a part of the opcode is in its place.
    Part(u8, u8),
    /// The result last.
    Reversed(Option<u8>),
    /// The operand's upper half is taken out first.
    HighHalf,
    /// Lanes narrowed to this many bytes, by several instructions.
    Packed { bytes: usize },
}

/// The instruction of one operand.
pub(super) const fn unary(op: Unary, width: Width) -> (Opcode, Encoding) {
    let plain = Encoding::Plain(None);
    match op {
        Unary::Sqrt => (Opcode::new(0, 1, 0x51), plain),
        // Without exceptions.
        Unary::Round(how) => (Opcode::new(1, 3, 0x08), Encoding::Plain(Some(8 | how))),
        Unary::Float => (Opcode::new(0, 1, 0x5b), plain),
        Unary::Truncate => (Opcode::new(2, 1, 0x5b), plain),
        Unary::ShiftRight(by) => (opcode::SHIFT, Encoding::Part(2, by)),
        Unary::ShiftSigned(by) => (opcode::SHIFT, Encoding::Part(4, by)),
        Unary::ShiftLeft(by) => (opcode::SHIFT, Encoding::Part(6, by)),
        Unary::ToF16 => (Opcode::new(1, 3, 0x1d), Encoding::Reversed(Some(0))),
        Unary::FromF16 => (opcode::WIDEN_F16, plain),
        Unary::Pack16 => match width {
            Width::Bits256 => (opcode::PACK_U16, Encoding::Packed { bytes: 2 }),
            Width::Bits512 => (opcode::NARROW_16, Encoding::Reversed(None)),
        },
        Unary::Pack8 => match width {
            Width::Bits256 => (opcode::PACK_U16, Encoding::Packed { bytes: 1 }),
            Width::Bits512 => (opcode::NARROW_8, Encoding::Reversed(None)),
        },
        Unary::WidenLow => (Opcode::new(0, 1, 0x5a), plain),
        Unary::WidenHigh => (Opcode::new(0, 1, 0x5a), Encoding::HighHalf),
        Unary::Narrow => (Opcode::new(1, 1, 0x5a).double(), plain),
        Unary::SqrtF64 => (Opcode::new(1, 1, 0x51).double(), plain),
        Unary::ShiftRight64(by) => (opcode::SHIFT_64, Encoding::Part(2, by)),
        Unary::ShiftLeft64(by) => (opcode::SHIFT_64, Encoding::Part(6, by)),
    }
}

/// The instruction of two operands, and a byte that it has at its end. AVX-512's comparisons give mask registers.
pub(super) const fn binary(op: Binary, width: Width) -> (Opcode, Option<u8>) {
    let compare = Opcode::new(0, 1, 0xc2);
    let compare_f64 = Opcode::new(1, 1, 0xc2).double();
    match op {
        Binary::Add => (Opcode::new(0, 1, 0x58), None),
        Binary::Sub => (Opcode::new(0, 1, 0x5c), None),
        Binary::Mul => (Opcode::new(0, 1, 0x59), None),
        Binary::Div => (Opcode::new(0, 1, 0x5e), None),
        Binary::FirstLess => (Opcode::new(0, 1, 0x5d), None),
        Binary::FirstGreater => (Opcode::new(0, 1, 0x5f), None),
        Binary::And => (Opcode::new(0, 1, 0x54), None),
        Binary::Without => (Opcode::new(0, 1, 0x55), None),
        Binary::Or => (Opcode::new(0, 1, 0x56), None),
        Binary::Xor => (Opcode::new(0, 1, 0x57), None),
        // The quiet ones.
        Binary::Less => (compare, Some(0x11)),
        Binary::LessEqual => (compare, Some(0x12)),
        Binary::Equal => (compare, Some(0x00)),
        Binary::NotEqual => (compare, Some(0x04)),
        Binary::Unordered => (compare, Some(0x03)),
        Binary::AddI32 => (opcode::ADD_I32, None),
        Binary::SubI32 => (Opcode::new(1, 1, 0xfa), None),
        Binary::MulI32 => (Opcode::new(1, 2, 0x40), None),
        Binary::LeastI32 => (Opcode::new(1, 2, 0x39), None),
        Binary::GreatestI32 => (Opcode::new(1, 2, 0x3d), None),
        Binary::GreatestU32 => (Opcode::new(1, 2, 0x3f), None),
        Binary::EqualI32 => (Opcode::new(1, 1, 0x76), None),
        Binary::GreaterI32 => (Opcode::new(1, 1, 0x66), None),
        Binary::AddF64 => (Opcode::new(1, 1, 0x58).double(), None),
        Binary::MulF64 => (Opcode::new(1, 1, 0x59).double(), None),
        Binary::SubF64 => (Opcode::new(1, 1, 0x5c).double(), None),
        Binary::DivF64 => (Opcode::new(1, 1, 0x5e).double(), None),
        Binary::FirstLessF64 => (Opcode::new(1, 1, 0x5d).double(), None),
        Binary::FirstGreaterF64 => (Opcode::new(1, 1, 0x5f).double(), None),
        Binary::LessF64 => (compare_f64, Some(0x11)),
        Binary::LessEqualF64 => (compare_f64, Some(0x12)),
        Binary::EqualF64 => (compare_f64, Some(0x00)),
        Binary::NotEqualF64 => (compare_f64, Some(0x04)),
        Binary::UnorderedF64 => (compare_f64, Some(0x03)),
        Binary::AddI64 => (Opcode::new(1, 1, 0xd4).double(), None),
        Binary::SubI64 => (Opcode::new(1, 1, 0xfb).double(), None),
        Binary::MulI64 => (Opcode::new(1, 2, 0x40).double(), None),
        Binary::MulU32 => (Opcode::new(1, 1, 0xf4).double(), None),
        Binary::LeastI64 => (Opcode::new(1, 2, 0x39).double(), None),
        Binary::GreatestI64 => (Opcode::new(1, 2, 0x3d).double(), None),
        Binary::EqualI64 => (Opcode::new(1, 2, 0x29).double(), None),
        Binary::GreaterI64 => (Opcode::new(1, 2, 0x37).double(), None),
        Binary::Scale => (Opcode::new(1, 2, 0x2c), None),
        Binary::Join => match width {
            Width::Bits256 => (Opcode::new(1, 3, 0x18), Some(1)),
            Width::Bits512 => (opcode::INSERT_256, Some(1)),
        },
    }
}
