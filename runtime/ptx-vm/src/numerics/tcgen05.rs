//! `tcgen05.mma` of one CTA (PTX ISA 9.7.16.10): its instruction descriptor, and the product.
//!
//! Types, sizes and the preparation of B are those of [`wgmma`]. New are the instruction descriptor (9.7.16.4.2), 64 or
//! 128 rows at once, and the arithmetic: FP8 products have 25 fractional bits, like all others (MMA-Sim, `tcgen05mma`).
//!
//! [`wgmma`]: super::wgmma

use super::descriptor::Major;
use super::dot::Unit;
use super::fragment::{LANES, Lanes, c_element};
use super::mma::{Accumulator, Arithmetic, Operand};
use super::wgmma::{Columns, Elements, Wgmma};

/// The `.kind` of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `.kind::f16`: f16 or bf16.
    F16,
    /// `.kind::tf32`
    Tf32,
    /// `.kind::f8f6f4`: FP8 only; the types of six and four bits are not supported.
    F8F6F4,
    /// `.kind::i8`
    I8,
}

impl Kind {
    /// The name, as in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::F16 => "kind::f16",
            Kind::Tf32 => "kind::tf32",
            Kind::F8F6F4 => "kind::f8f6f4",
            Kind::I8 => "kind::i8",
        }
    }
}

/// An instruction descriptor that the kind does not have, or that this crate does not know.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstructionDescriptorError {
    /// A bit that must be 0.
    #[error("the instruction descriptor {bits:#010x} sets bit {bit}, which must be 0 for a dense .{} without .ws (PTX ISA 9.7.16.4.2)", kind.name())]
    Reserved {
        /// The descriptor.
        bits: u32,
        /// The bit.
        bit: u32,
        /// The kind.
        kind: Kind,
    },
    /// A is sparse.
    #[error("the instruction descriptor {bits:#010x} says that A is sparse (bit 2); expand A and clear it")]
    Sparse {
        /// The descriptor.
        bits: u32,
    },
    /// Types of six or four bits.
    #[error(
        "the instruction descriptor {bits:#010x} has elements of 6 or 4 bits; .kind::f8f6f4 is supported with e4m3 and \
         e5m2: widen the elements to 8 bits"
    )]
    NarrowElements {
        /// The descriptor.
        bits: u32,
    },
    /// Types that the kind does not have.
    #[error(
        "the instruction descriptor {bits:#010x} has types D {d}, A {a}, B {b}, which .{} has not: .kind::f16 takes f16 \
         into f16 or f32 and bf16 into f32, both operands alike; tf32 goes into f32, fp8 into f16 or f32, s8 and u8 into \
         s32 (PTX ISA 9.7.16.4.2)", kind.name()
    )]
    Types {
        /// The descriptor.
        bits: u32,
        /// The code of D's type.
        d: u32,
        /// That of A's.
        a: u32,
        /// That of B's.
        b: u32,
        /// The kind.
        kind: Kind,
    },
    /// A shape that the kind does not have.
    #[error(
        "the instruction descriptor {bits:#010x} has M {m} and N {n}: for one CTA, M is 64 and N a multiple of 8, or M is 128 \
         and N a multiple of 16, up to 256; for i8, and for N-major B of 8 bits, N is 8, 16, 24 or a multiple of 16 \
         (PTX ISA 9.7.16.2.1)"
    )]
    Shape {
        /// The descriptor.
        bits: u32,
        /// Rows.
        m: usize,
        /// Columns.
        n: usize,
    },
    /// MN-major `tf32`.
    #[error(
        "the instruction descriptor {bits:#010x} transposes an operand of .kind::tf32, which needs the swizzle of 128 bytes \
         with 32-byte atoms; this is not supported: store it K-major"
    )]
    Transposed {
        /// The descriptor.
        bits: u32,
    },
}

crate::message::debug!(InstructionDescriptorError);

/// One valid dense `tcgen05.mma` of one CTA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    m: usize,
    columns: Wgmma,
    negate_a: bool,
    negate_b: bool,
    a_major: Major,
    b_major: Major,
}

impl Product {
    /// Decodes an instruction descriptor.
    ///
    /// # Errors
    /// If a reserved bit is set, or the kind lacks the combination.
    pub fn decode(kind: Kind, bits: u32) -> Result<Self, InstructionDescriptorError> {
        use InstructionDescriptorError as E;
        if bits >> 2 & 1 != 0 {
            return Err(E::Sparse { bits });
        }
        // Sparsity selector, reserved bits, the shift of `.ws`; saturation and negation by kind.
        let by_kind = if kind == Kind::I8 { 3 << 13 } else { 1 << 3 };
        let reserved = bits & (3 | 1 << 6 | 1 << 23 | 1 << 29 | 3 << 30 | by_kind);
        if reserved != 0 {
            return Err(E::Reserved { bits, bit: reserved.trailing_zeros(), kind });
        }
        let field = |shift: u32, width: u32| bits >> shift & ((1 << width) - 1);
        let (d, a, b) = (field(4, 2), field(7, 3), field(10, 3));
        if kind == Kind::F8F6F4 && (matches!(a, 3..=5) || matches!(b, 3..=5)) {
            return Err(E::NarrowElements { bits });
        }
        let types = E::Types { bits, d, a, b, kind };
        let operand = |code: u32| match (kind, code) {
            (Kind::F16, 0) => Ok(Operand::F16),
            (Kind::F16, 1) => Ok(Operand::Bf16),
            (Kind::Tf32, 2) => Ok(Operand::Tf32),
            (Kind::F8F6F4, 0) => Ok(Operand::E4M3),
            (Kind::F8F6F4, 1) => Ok(Operand::E5M2),
            (Kind::I8, 0) => Ok(Operand::U8),
            (Kind::I8, 1) => Ok(Operand::S8),
            _ => Err(types),
        };
        let accumulator = match d {
            0 => Accumulator::F16,
            1 => Accumulator::F32,
            2 => Accumulator::S32,
            _ => return Err(types),
        };
        let (a, b) = (operand(a)?, operand(b)?);
        let (m, n) = (field(24, 5) as usize * 16, field(17, 6) as usize * 8);
        let major = |bit: u32| if bits >> bit & 1 != 0 { Major::Mn } else { Major::K };
        let (a_major, b_major) = (major(15), major(16));
        // `Wgmma::new` refuses types and N together; a size that every type has tells which it is.
        if Wgmma::new(64, a, b, accumulator, bits >> 3 & 1 != 0).is_err() {
            return Err(types);
        }
        let step = if m == 128 || b.bits() == 8 && b_major == Major::Mn { 16 } else { 8 };
        let columns = Wgmma::new(n, a, b, accumulator, bits >> 3 & 1 != 0);
        let (Ok(columns), 64 | 128, true) = (columns, m, n.is_multiple_of(step)) else {
            return Err(E::Shape { bits, m, n });
        };
        if kind == Kind::Tf32 && (a_major, b_major) != (Major::K, Major::K) {
            return Err(E::Transposed { bits });
        }
        let (negate_a, negate_b) = (bits >> 13 & 1 != 0, bits >> 14 & 1 != 0);
        Ok(Product { m, columns, negate_a, negate_b, a_major, b_major })
    }

    /// Rows of A and D.
    pub const fn m(&self) -> usize {
        self.m
    }

    /// Columns of B and D.
    pub const fn n(&self) -> usize {
        self.columns.n()
    }

    /// The type of A.
    pub const fn a(&self) -> Operand {
        self.columns.a()
    }

    /// The type of B.
    pub const fn b(&self) -> Operand {
        self.columns.b()
    }

    /// Which dimension of A is contiguous in shared memory.
    pub const fn a_major(&self) -> Major {
        self.a_major
    }

    /// Which dimension of B is contiguous.
    pub const fn b_major(&self) -> Major {
        self.b_major
    }

    /// The lane of tensor memory that holds a row of D, and of A if it is there, relative to the operand's address: all 128
    /// lanes (layout D), or the lower half of each quarter (layout F).
    pub const fn lane(&self, row: usize) -> usize {
        if self.m == 128 { row } else { row / 16 * 32 + row % 16 }
    }

    /// `D = A·B + D`, or `A·B` without `accumulate`. `start` gives the place of a row's first cell in `cells`; an element
    /// of D has a cell of its own, whatever its type.
    pub fn multiply(
        &self,
        arithmetic: Arithmetic,
        (mut a, mut b): (Elements, Elements),
        accumulate: bool,
        cells: &mut [u32],
        start: impl Fn(usize) -> usize,
    ) {
        if self.negate_a {
            a.negate();
        }
        if self.negate_b {
            b.negate();
        }
        let k = self.columns.k();
        let unit = Unit::tcgen05(self.columns.accumulator(), k);
        let columns = self.columns.columns_by(arithmetic, unit, &b);
        for first in (0..self.m).step_by(16) {
            self.multiply_rows(&columns, &a, first, accumulate, cells, &start);
        }
    }

    /// Sixteen rows of D, by way of the registers that a warp of a warpgroup would have.
    fn multiply_rows(
        &self,
        columns: &Columns,
        a: &Elements,
        first: usize,
        accumulate: bool,
        cells: &mut [u32],
        start: &impl Fn(usize) -> usize,
    ) {
        let half = self.columns.accumulator() == Accumulator::F16;
        let mut d: Vec<Lanes> = vec![[0; LANES]; self.columns.d_registers()];
        // Element, register and shift of each place.
        let places = || {
            (0..self.n() / 8).flat_map(move |block| {
                (0..4 * LANES).map(move |i| {
                    let (register, lane) = (i / LANES, i % LANES);
                    let at = c_element(lane, register);
                    let (index, shift) =
                        if half { (2 * block + register / 2, 16 * (register % 2)) } else { (4 * block + register, 0) };
                    (at.row, 8 * block + at.column, index, lane, shift)
                })
            })
        };
        let rows: [usize; 16] = std::array::from_fn(|row| start(first + row));
        if accumulate {
            for (row, column, register, lane, shift) in places() {
                let value = cells[rows[row] + column];
                d[register][lane] |= if half { (value & 0xffff) << shift } else { value };
            }
        }
        columns.multiply(a, first, accumulate, &mut d);
        for (row, column, register, lane, shift) in places() {
            let value = d[register][lane];
            cells[rows[row] + column] = if half { value >> shift & 0xffff } else { value };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bf16 × bf16 → f32, K-major, 128 × 256: the value that CUTLASS' fields give.
    const BF16: u32 = 1 << 4 | 1 << 7 | 1 << 10 | (256 / 8) << 17 | (128 / 16) << 24;

    #[test]
    fn the_fields_are_those_of_the_table() {
        let product = Product::decode(Kind::F16, BF16).unwrap();
        assert_eq!((product.m(), product.n(), product.a(), product.b()), (128, 256, Operand::Bf16, Operand::Bf16));
        assert_eq!((product.a_major(), product.b_major()), (Major::K, Major::K));
        let transposed = Product::decode(Kind::F16, BF16 | 1 << 16).unwrap();
        assert_eq!((transposed.a_major(), transposed.b_major()), (Major::K, Major::Mn));
        let small = Product::decode(Kind::I8, 2 << 4 | 1 << 7 | (24 / 8) << 17 | (64 / 16) << 24).unwrap();
        assert_eq!((small.m(), small.n(), small.a(), small.b()), (64, 24, Operand::S8, Operand::U8));
        assert_eq!([0, 15, 16, 63].map(|row| small.lane(row)), [0, 15, 32, 111]);
    }

    #[test]
    fn every_reserved_bit_is_refused() {
        for bit in [0, 1, 2, 3, 6, 23, 29, 30, 31] {
            assert!(Product::decode(Kind::F16, BF16 | 1 << bit).is_err(), "bit {bit}");
        }
        let i8 = 2 << 4 | (32 / 8) << 17 | (128 / 16) << 24;
        assert!(Product::decode(Kind::I8, i8 | 1 << 3).is_ok(), "saturation");
        for bit in [13, 14] {
            assert!(Product::decode(Kind::I8, i8 | 1 << bit).is_err(), "negation, bit {bit}");
        }
    }

    #[test]
    fn shapes_and_types_outside_of_the_table_are_refused() {
        let shape = |m: u32, n: u32| BF16 & !(0x3f << 17 | 0x1f << 24) | (n / 8) << 17 | (m / 16) << 24;
        for (m, n, good) in
            [(64, 8, true), (64, 248, true), (128, 8, false), (128, 24, false), (128, 16, true), (256, 256, false)]
        {
            assert_eq!(Product::decode(Kind::F16, shape(m, n)).is_ok(), good, "{m} × {n}");
        }
        assert!(matches!(Product::decode(Kind::F16, shape(64, 0)), Err(InstructionDescriptorError::Shape { .. })));
        // f16 × bf16, bf16 into f16, tf32 as f16, and e2m1.
        for (kind, bits) in [
            (Kind::F16, BF16 & !(7 << 10)),
            (Kind::F16, BF16 & !(3 << 4)),
            (Kind::F16, BF16 | 2 << 7),
            (Kind::F8F6F4, BF16 & !(7 << 7) | 5 << 7),
        ] {
            assert!(Product::decode(kind, bits).is_err(), "{bits:#x}");
        }
        assert!(Product::decode(Kind::Tf32, 1 << 4 | 2 << 7 | 2 << 10 | 1 << 15 | 8 << 17 | 8 << 24).is_err());
    }
}
