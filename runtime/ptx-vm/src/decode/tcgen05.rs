//! `tcgen05` (PTX ISA §9.7.16) for one CTA. Forms that are not supported are refused by name.

use super::bind::tcgen05::allocation::{Allocate, Free, Relinquish};
use super::bind::tcgen05::moves::{Fence, Load, Store, Wait};
use super::bind::tcgen05::products::{Commit, Copy, Multiply};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use super::operands::{AddressOperand, elements_of};
use crate::error::ParseError;
use crate::numerics::tcgen05::Kind;
use crate::numerics::tensor_memory::MoveShape;
use crate::program::Instruction;
use crate::program::flags::{AccessFlags, GENERIC, TensorFlags, WgmmaFlags, when};
use crate::program::forms::{MoveForm, TensorCopyForm, TensorProductForm};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes an instruction on tensor memory; false if it is another one.
    pub(super) fn tensor_memory(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        if opcode.base() != "tcgen05" {
            return Ok(false);
        }
        if opcode.take("cta_group::2") {
            return Err(opcode.error("pairs of blocks are not supported; use `.cta_group::1`"));
        }
        opcode.take("cta_group::1");
        let Some(operation) = opcode.take_any(&[
            "alloc",
            "dealloc",
            "relinquish_alloc_permit",
            "mma",
            "cp",
            "ld",
            "st",
            "shift",
            "commit",
            "wait::ld",
            "wait::st",
            "fence::before_thread_sync",
            "fence::after_thread_sync",
        ]) else {
            return Err(opcode.error("this operation is not supported"));
        };
        match operation {
            "alloc" => self.tensor_allocation(opcode, operands)?,
            "dealloc" => {
                self.sync_aligned(opcode)?;
                opcode.take("b32");
                self.count(opcode, operands, 2..=2)?;
                let mut i = self.with(scalar_handler::<Free>());
                i.a = self.source(&operands[0], ScalarType::B32)?;
                i.b = self.source(&operands[1], ScalarType::B32)?;
                self.push(i);
            }
            "relinquish_alloc_permit" => {
                self.sync_aligned(opcode)?;
                self.push(self.with(scalar_handler::<Relinquish>()));
            }
            "mma" => self.tensor_product(opcode, operands)?,
            "cp" => self.tensor_copy(opcode, operands)?,
            "ld" | "st" => self.tensor_move(opcode, operands, operation == "st")?,
            "commit" => self.tensor_commit(opcode, operands)?,
            "shift" => {
                return Err(
                    opcode.error("rows of tensor memory are not shifted; load them, and store them one lane down")
                );
            }
            "wait::ld" | "wait::st" => {
                self.sync_aligned(opcode)?;
                let mut i = self.with(scalar_handler::<Wait>());
                i.flags = when(TensorFlags::STORES, operation == "wait::st");
                self.push(i);
            }
            _ => {
                let mut i = self.with(scalar_handler::<Fence>());
                i.flags = when(TensorFlags::AFTER, operation == "fence::after_thread_sync");
                self.push(i);
            }
        }
        Ok(true)
    }

    fn tensor_allocation(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        self.sync_aligned(opcode)?;
        let generic = self.space(opcode) == GENERIC;
        opcode.take("b32");
        self.count(opcode, operands, 2..=2)?;
        let mut i = self.with(scalar_handler::<Allocate>());
        i.b = self.source(&operands[1], ScalarType::B32)?;
        self.push_shared(i, &operands[0], generic)
    }

    /// Emits an instruction with an address in shared memory.
    fn push_shared(&mut self, mut i: Instruction, address: &Operand<'a>, generic: bool) -> Result<(), ParseError> {
        let address = self.address(address)?;
        (i.a, i.imm) = (address.row, address.offset);
        i.flags |= address.flag() | when(AccessFlags::GENERIC_SHARED, generic);
        self.push(i);
        Ok(())
    }

    fn tensor_commit(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if !opcode.take("mbarrier::arrive::one") {
            return Err(opcode.error("`.mbarrier::arrive::one` is missing"));
        }
        let generic = self.space(opcode) == GENERIC;
        let multicast = opcode.take("multicast::cluster");
        opcode.take("b64");
        let wanted = if multicast { 2 } else { 1 };
        self.count(opcode, operands, wanted..=wanted)?;
        let mut i = self.with(scalar_handler::<Commit>());
        if multicast {
            i.flags = TensorFlags::MULTICAST.bits();
            i.b = self.source(&operands[1], ScalarType::B16)?;
        }
        self.push_shared(i, &operands[0], generic)
    }

    /// An address in tensor memory, and what is added to it.
    fn tensor_address(&mut self, opcode: &Opcode<'a>, operand: &Operand<'a>) -> Result<(u32, i32), ParseError> {
        let AddressOperand { row, wide, offset } = self.address(operand)?;
        match i32::try_from(offset) {
            Ok(offset) if !wide => Ok((row, offset)),
            _ => Err(opcode.error("an address of tensor memory has 32 bits")),
        }
    }

    fn tensor_product(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        for (modifier, message) in [
            ("sp", "sparse products are not supported; expand A and leave out `.sp`"),
            ("ws", "weight-stationary products are not supported; leave out `.ws`"),
            ("ashift", "A is not shifted; store its rows one lane further"),
            ("block_scale", "block scales are not supported; multiply the elements by them"),
            ("kind::mxf8f6f4", "block scales are not supported; use `.kind::f8f6f4`"),
            ("kind::mxf4", "block scales are not supported; use `.kind::f8f6f4`"),
            ("kind::mxf4nvf4", "block scales are not supported; use `.kind::f8f6f4`"),
            ("collector::a::fill", "the collector buffer is not modelled; leave out the modifier"),
            ("collector::a::use", "the collector buffer is not modelled; leave out the modifier"),
            ("collector::a::lastuse", "the collector buffer is not modelled; leave out the modifier"),
        ] {
            if opcode.take(modifier) {
                return Err(opcode.error(message));
            }
        }
        // The default: nothing is kept.
        opcode.take("collector::a::discard");
        let kind = match opcode.take_any(&["kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8"]) {
            Some("kind::f16") => Kind::F16,
            Some("kind::tf32") => Kind::Tf32,
            Some("kind::f8f6f4") => Kind::F8F6F4,
            Some(_) => Kind::I8,
            None => return Err(opcode.error("the kind is missing")),
        };
        if operands.iter().any(|operand| matches!(operand, Operand::Vector(_))) {
            return Err(opcode.error("disable-output-lane is not supported; leave it out and ignore those rows"));
        }
        if operands.len() == 6 {
            return Err(opcode.error("scale-input-d is not supported; scale the accumulator by tcgen05.ld and st"));
        }
        self.count(opcode, operands, 5..=5)?;
        let mut i = self.with(handler::<Multiply>());
        let d_offset;
        (i.d, d_offset) = self.tensor_address(opcode, &operands[0])?;
        let mut a_offset = None;
        if matches!(operands[1], Operand::Address { .. }) {
            let (row, offset) = self.tensor_address(opcode, &operands[1])?;
            (i.a, a_offset) = (row, Some(offset));
        } else {
            i.a = self.source(&operands[1], ScalarType::B64)?;
        }
        i.b = self.source(&operands[2], ScalarType::B64)?;
        i.c = self.source(&operands[3], ScalarType::B32)?;
        let enabled = self.predicate(&operands[4])?;
        i.p = enabled.index;
        i.flags = when(WgmmaFlags::NEGATED, enabled.negated);
        i.imm = self.tensor_products.len() as i64;
        self.tensor_products.push(TensorProductForm { kind, d_offset, a_offset });
        self.push(i);
        Ok(())
    }

    fn tensor_copy(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take_any(&["b6x16_p32", "b4x16_p64", "b8x16"]).is_some() {
            return Err(opcode.error("decompression is not supported; widen the elements to 8 bits before"));
        }
        const WHOLE: &[(u32, u32, u32)] = &[(0, 0, 128)];
        const QUARTERS: &[(u32, u32, u32)] = &[(0, 0, 32), (0, 32, 32), (0, 64, 32), (0, 96, 32)];
        const EVEN_AND_ODD: &[(u32, u32, u32)] = &[(0, 0, 32), (0, 64, 32), (32, 32, 32), (32, 96, 32)];
        const HALVES: &[(u32, u32, u32)] = &[(0, 0, 32), (0, 32, 32), (32, 64, 32), (32, 96, 32)];
        let shape = opcode.take_any(&["128x256b", "4x256b", "128x128b", "64x128b", "32x128b"]);
        let multicast = opcode.take_any(&["warpx2::02_13", "warpx2::01_23", "warpx4"]);
        let (rows, bytes, parts) = match (shape, multicast) {
            (Some("128x256b"), None) => (128, 32, WHOLE),
            (Some("128x128b"), None) => (128, 16, WHOLE),
            (Some("64x128b"), Some("warpx2::02_13")) => (64, 16, EVEN_AND_ODD),
            (Some("64x128b"), Some("warpx2::01_23")) => (64, 16, HALVES),
            (Some("32x128b"), Some("warpx4")) => (32, 16, QUARTERS),
            (Some("4x256b"), _) => {
                return Err(opcode.error("the lanes that `.4x256b` writes are not documented; use `.128x256b`"));
            }
            _ => {
                return Err(opcode.error(
                    "the shapes are `.128x256b`, `.128x128b`, `.64x128b` with `.warpx2::02_13` or `.warpx2::01_23`, and \
                     `.32x128b.warpx4`",
                ));
            }
        };
        self.count(opcode, operands, 2..=2)?;
        let mut i = self.with(scalar_handler::<Copy>());
        let offset;
        (i.a, offset) = self.tensor_address(opcode, &operands[0])?;
        i.b = self.source(&operands[1], ScalarType::B64)?;
        i.imm = self.tensor_copies.len() as i64;
        self.tensor_copies.push(TensorCopyForm { rows, bytes, parts, offset });
        self.push(i);
        Ok(())
    }

    fn tensor_move(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        stores: bool,
    ) -> Result<(), ParseError> {
        if opcode.take("red") {
            return Err(opcode.error("`.red` needs sm_103a; reduce the registers"));
        }
        self.sync_aligned(opcode)?;
        if opcode.take("pack::16b") || opcode.take("unpack::16b") {
            return Err(opcode.error("packing is not supported; pack the registers by `cvt` or `prmt`"));
        }
        let shape = opcode.take_any(&["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]);
        let counts = ["x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"];
        let count = opcode.take_any(&counts).and_then(|name| counts.iter().position(|other| *other == name));
        let Some(count) = count.map(|power| 1u32 << power) else {
            return Err(opcode.error("the number of repetitions, `.x1` to `.x128`, is missing"));
        };
        opcode.take("b32");
        // The half's offset comes after the address.
        let twice = shape == Some("16x32bx2");
        let wanted = if twice { 3 } else { 2 };
        self.count(opcode, operands, wanted..=wanted)?;
        let (address, vector, split) = match (stores, twice) {
            (false, _) => (&operands[1], &operands[0], operands.get(2)),
            (true, false) => (&operands[0], &operands[1], None),
            (true, true) => (&operands[0], &operands[2], operands.get(1)),
        };
        let shape = match shape {
            Some("32x32b") => MoveShape::Lanes32,
            Some("16x64b") => MoveShape::Bits64,
            Some("16x128b") => MoveShape::Bits128,
            Some("16x256b") => MoveShape::Bits256,
            Some(_) => {
                let split = split.map_or(Ok(0), |split| self.literal(opcode, split))?;
                let split = u32::try_from(split).ok().filter(|&split| (count..512).contains(&split));
                let Some(split) = split else {
                    return Err(opcode.error("the second half begins at a column between the first half's end and 512"));
                };
                MoveShape::Twice { split }
            }
            None => return Err(opcode.error("the shape is missing")),
        };
        let registers = elements_of(vector);
        let expected = shape.registers(count);
        if expected > 128 || registers.len() != expected as usize {
            let given = registers.len();
            return Err(
                opcode.error(format!("a vector of {given} registers where {expected}, at most 128, are expected"))
            );
        }
        let mut i = self.with(if stores { scalar_handler::<Store>() } else { scalar_handler::<Load>() });
        let offset;
        (i.a, offset) = self.tensor_address(opcode, address)?;
        let mut rows = vec![];
        for register in registers {
            rows.push(if stores {
                self.source(register, ScalarType::B32)?
            } else {
                self.destination(register, ScalarType::B32)?
            });
        }
        i.list = self.list(&rows);
        i.imm = self.tensor_moves.len() as i64;
        self.tensor_moves.push(MoveForm { shape, count, offset });
        self.push(i);
        Ok(())
    }
}
