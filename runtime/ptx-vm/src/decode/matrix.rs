//! `ldmatrix`, `stmatrix`, `movmatrix`, `mma` (PTX ISA §9.7.14).

use super::bind::handler;
use super::bind::matrix::{LoadMatrix, MoveMatrix, Multiply, MultiplyF64, MultiplyScaled, StoreMatrix};
use super::decoder::Decoder;
use super::opcode::Opcode;
use super::operands::elements_of;
use crate::error::ParseError;
use crate::numerics::mma::{Accumulator, Mma, Operand as Format, Shape};
use crate::numerics::scaled_mma::{Scale, ScaledMma};
use crate::program::Handler;
use crate::program::flags::{AccessFlags, GENERIC, MatrixFlags, when};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes a matrix instruction; false if it is another one.
    pub(super) fn matrix(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<bool, ParseError> {
        match opcode.base() {
            "ldmatrix" | "stmatrix" => self.move_tiles(opcode, operands)?,
            "movmatrix" => {
                self.sync_aligned(opcode)?;
                if !(opcode.take("m8n8") && opcode.take("trans")) {
                    return Err(opcode.error("only `.m8n8.trans` is supported"));
                }
                opcode.take("b16");
                self.unary(opcode, operands, Some(handler::<MoveMatrix>()), [ScalarType::B32; 2])?;
            }
            "mma" => self.multiply(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn sync_aligned(&self, opcode: &mut Opcode<'a>) -> Result<(), ParseError> {
        if opcode.take("sync") && opcode.take("aligned") {
            Ok(())
        } else {
            Err(opcode.error("`.sync.aligned` is missing"))
        }
    }

    fn move_tiles(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        self.sync_aligned(opcode)?;
        if !opcode.take("m8n8") {
            return Err(opcode.error("only `.m8n8` of `.b16` is supported: the other shapes need sm_100a"));
        }
        let count = match opcode.take_any(&["x1", "x2", "x4"]) {
            Some("x1") => 1,
            Some("x2") => 2,
            Some(_) => 4,
            None => return Err(opcode.error("`.x1`, `.x2` or `.x4` is missing")),
        };
        let mut flags = when(MatrixFlags::TRANSPOSED, opcode.take("trans"));
        if self.space(opcode) == GENERIC {
            flags |= AccessFlags::GENERIC_SHARED.bits();
        }
        if opcode.scalar()? != ScalarType::B16 {
            return Err(opcode.error("only `.b16` is supported"));
        }
        self.count(opcode, operands, 2..=2)?;
        let load = opcode.base() == "ldmatrix";
        let (address, registers) = if load { (1, 0) } else { (0, 1) };
        let run: Handler = match (load, count) {
            (true, 1) => handler::<LoadMatrix<1>>(),
            (true, 2) => handler::<LoadMatrix<2>>(),
            (true, _) => handler::<LoadMatrix<4>>(),
            (false, 1) => handler::<StoreMatrix<1>>(),
            (false, 2) => handler::<StoreMatrix<2>>(),
            (false, _) => handler::<StoreMatrix<4>>(),
        };
        let mut i = self.with(run);
        let place = self.address(&operands[address])?;
        (i.a, i.imm) = (place.row, place.offset);
        i.flags = flags | place.flag();
        let elements = elements_of(&operands[registers]);
        if elements.len() != count {
            return Err(opcode.error(format!("{} registers for {count} matrices", elements.len())));
        }
        let mut rows = vec![];
        for element in elements {
            rows.push(if load {
                self.destination(element, ScalarType::B32)?
            } else {
                self.source(element, ScalarType::B32)?
            });
        }
        match (count, load) {
            (1, true) => i.d = rows[0],
            (1, false) => i.b = rows[0],
            _ => i.list = self.list(&rows),
        }
        self.push(i);
        Ok(())
    }

    fn multiply(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.text.starts_with("mma.sp") {
            return Err(opcode.error("sparse products are not supported; expand A and use `mma.sync`"));
        }
        if opcode.text.split('.').any(|part| matches!(part, "s4" | "u4" | "b1")) {
            return Err(opcode.error("products of 4-bit and 1-bit elements are not supported; widen them to 8 bits"));
        }
        self.sync_aligned(opcode)?;
        if opcode.text.contains(".m8n8k4.") && opcode.text.contains(".f16.f16.") {
            return Err(opcode.error(
                "products of eight lanes each, made for sm_70, are not supported; use `.m16n8k8` or `.m16n8k16`",
            ));
        }
        const SHAPES: [(&str, Shape); 9] = [
            ("m8n8k4", Shape { m: 8, n: 8, k: 4 }),
            ("m8n8k16", Shape { m: 8, n: 8, k: 16 }),
            ("m8n8k32", Shape { m: 8, n: 8, k: 32 }),
            ("m16n8k4", Shape { m: 16, n: 8, k: 4 }),
            ("m16n8k8", Shape { m: 16, n: 8, k: 8 }),
            ("m16n8k16", Shape { m: 16, n: 8, k: 16 }),
            ("m16n8k32", Shape { m: 16, n: 8, k: 32 }),
            ("m16n8k64", Shape { m: 16, n: 8, k: 64 }),
            ("m16n8k128", Shape { m: 16, n: 8, k: 128 }),
        ];
        let Some(&(_, shape)) = SHAPES.iter().find(|s| opcode.take(s.0)) else {
            return Err(opcode.error("this shape is not supported"));
        };
        if !(opcode.take("row") && opcode.take("col")) {
            return Err(opcode.error("only `.row.col` is supported"));
        }
        if opcode.take("block_scale") {
            return self.multiply_scaled(opcode, operands, shape);
        }
        let mixed = opcode.take("kind::f8f6f4");
        let saturate = opcode.take("satfinite");
        let (d, a, b, c) = (opcode.scalar()?, opcode.scalar()?, opcode.scalar()?, opcode.scalar()?);
        let (Some(left), Some(right), Some(accumulator)) = (operand_format(a), operand_format(b), accumulator(d))
        else {
            return Err(opcode.error("this type is not supported"));
        };
        if c != d {
            return Err(opcode.error("C and D of different types are not supported"));
        }
        let narrow = left.is_narrow() || right.is_narrow();
        if mixed && !((left.is_fp8() || left.is_narrow()) && shape.k == 32) {
            return Err(opcode.error("`.kind::f8f6f4` is `.m16n8k32` of floats of 8, 6 and 4 bits"));
        }
        if narrow && !mixed {
            return Err(opcode.error("floats of 6 and 4 bits need `.kind::f8f6f4`"));
        }
        let mma = Mma::new(shape, left, right, accumulator, saturate).map_err(|e| opcode.error(e.to_string()))?;
        self.count(opcode, operands, 4..=4)?;
        let scalar = if d == ScalarType::F64 { ScalarType::F64 } else { ScalarType::B32 };
        let counts = [mma.c_registers(), mma.a_registers(), mma.b_registers(), mma.c_registers()];
        for (operand, count) in operands.iter().zip(counts) {
            if elements_of(operand).len() != count {
                let given = elements_of(operand).len();
                return Err(opcode.error(format!("a vector of {given} registers where {count} are expected")));
            }
        }
        let mut sources = vec![];
        for element in operands[1..].iter().flat_map(|o| elements_of(o).iter()) {
            sources.push(self.source(element, scalar)?);
        }
        let mut rows = vec![];
        for element in elements_of(&operands[0]) {
            rows.push(self.destination(element, scalar)?);
        }
        rows.extend(sources);
        let run = if d == ScalarType::F64 { handler::<MultiplyF64>() } else { handler::<Multiply>() };
        let mut i = self.with(run);
        i.list = self.list(&rows);
        i.imm = self.products.len() as i64;
        self.products.push(mma);
        self.push(i);
        Ok(())
    }
}

impl<'a> Decoder<'a> {
    /// `mma` with `.block_scale`, after its shape and layouts.
    fn multiply_scaled(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        shape: Shape,
    ) -> Result<(), ParseError> {
        let Some(kind) = opcode.take_any(&["kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"]) else {
            return Err(opcode.error("`.kind::mxf8f6f4`, `.kind::mxf4` or `.kind::mxf4nvf4` is missing"));
        };
        let vector = match opcode.take_any(&["scale_vec::1X", "scale_vec::2X", "scale_vec::4X"]) {
            Some("scale_vec::1X") => 1,
            Some("scale_vec::2X") => 2,
            Some(_) => 4,
            None if kind == "kind::mxf8f6f4" => 1,
            None if kind == "kind::mxf4" => 2,
            None => return Err(opcode.error("`.scale_vec::2X` or `.scale_vec::4X` is missing")),
        };
        let scale = match opcode.take_any(&["ue8m0", "ue4m3"]) {
            Some("ue8m0") => Scale::Ue8m0,
            Some(_) => Scale::Ue4m3,
            None => return Err(opcode.error("the type of the scales is missing")),
        };
        let (d, a, b, c) = (opcode.scalar()?, opcode.scalar()?, opcode.scalar()?, opcode.scalar()?);
        let (Some(left), Some(right), ScalarType::F32, ScalarType::F32) = (operand_format(a), operand_format(b), d, c)
        else {
            return Err(opcode.error("C and D are `.f32`, A and B floats of 8, 6 and 4 bits"));
        };
        let (product, k) = if kind == "kind::mxf8f6f4" {
            (ScaledMma::of_bytes(left, right, scale, vector), 32)
        } else if (left, right) == (Format::E2M1, Format::E2M1) {
            (ScaledMma::of_nibbles(kind == "kind::mxf4nvf4", scale, vector), 64)
        } else {
            return Err(opcode.error("A and B of this kind are `.e2m1`"));
        };
        let product = product.map_err(|e| opcode.error(e.to_string()))?;
        if (shape.m, shape.k) != (16, k) {
            return Err(opcode.error(format!("products of this kind are `.m16n8k{k}`")));
        }
        self.count(opcode, operands, 8..=8)?;
        for (operand, count) in operands.iter().zip([4, 4, 2, 4, 1, 2, 1, 2]) {
            let given = elements_of(operand).len();
            if given != count {
                return Err(opcode.error(format!("a vector of {given} registers where {count} are expected")));
            }
        }
        let mut sources = vec![];
        for (index, operand) in operands.iter().enumerate().skip(1) {
            let scalar = if matches!(index, 5 | 7) { ScalarType::U16 } else { ScalarType::B32 };
            for element in elements_of(operand) {
                sources.push(self.source(element, scalar)?);
            }
        }
        let mut rows = vec![];
        for element in elements_of(&operands[0]) {
            rows.push(self.destination(element, ScalarType::B32)?);
        }
        rows.extend(sources);
        let mut i = self.with(handler::<MultiplyScaled>());
        i.list = self.list(&rows);
        i.imm = self.scaled_products.len() as i64;
        self.scaled_products.push(product);
        self.push(i);
        Ok(())
    }
}

pub(super) fn operand_format(scalar: ScalarType) -> Option<Format> {
    Some(match scalar {
        ScalarType::F16 => Format::F16,
        ScalarType::Bf16 => Format::Bf16,
        ScalarType::Tf32 => Format::Tf32,
        ScalarType::F64 => Format::F64,
        ScalarType::S8 => Format::S8,
        ScalarType::U8 => Format::U8,
        ScalarType::E4m3 => Format::E4M3,
        ScalarType::E5m2 => Format::E5M2,
        ScalarType::E3m2 => Format::E3M2,
        ScalarType::E2m3 => Format::E2M3,
        ScalarType::E2m1 => Format::E2M1,
        _ => return None,
    })
}

pub(super) fn accumulator(scalar: ScalarType) -> Option<Accumulator> {
    Some(match scalar {
        ScalarType::F16 => Accumulator::F16,
        ScalarType::F32 => Accumulator::F32,
        ScalarType::S32 => Accumulator::S32,
        ScalarType::F64 => Accumulator::F64,
        _ => return None,
    })
}
