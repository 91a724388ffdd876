//! Comparison and selection (PTX ISA §9.7.5, §9.7.6).

use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::exec::Handler;
use crate::exec::compare::{self, AND, Choose, NEGATED, OR, Select32, Select64, TO_MASK, TO_ONE, XOR, r16, r32, r64};
use crate::exec::dispatch::{handler, scalar_handler};
use crate::exec::general::WIDE_D;
use crate::exec::lanes::Compare;
use crate::numerics::compare::Comparison;
use crate::numerics::convert;
use crate::numerics::format::{BF16, F16};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// `setp`, `set`, `selp`, `slct`; false if it is none of them.
    pub(super) fn comparison(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        match opcode.base() {
            "setp" | "set" => self.set(opcode, operands)?,
            "selp" => {
                let scalar = opcode.scalar()?;
                self.count(opcode, operands, 4..=4)?;
                let run = if scalar.bytes() == 8 { handler::<Select64>() } else { handler::<Select32>() };
                let mut i = self.with(run);
                let predicate = self.predicate(&operands[3])?;
                i.p = predicate.index;
                i.flags = if predicate.negated { NEGATED } else { 0 };
                self.fill(i, operands, [scalar; 3])?;
            }
            "slct" => {
                opcode.take("ftz");
                let (scalar, condition) = (opcode.scalar()?, opcode.scalar()?);
                if condition != ScalarType::S32 {
                    return Err(opcode.error("this type of condition is not supported"));
                }
                self.count(opcode, operands, 4..=4)?;
                let mut i = self.with(scalar_handler::<Choose>());
                i.flags = if scalar.bytes() == 8 { WIDE_D } else { 0 };
                self.fill(i, operands, [scalar, scalar, scalar, condition])?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        const OPERATORS: [(&str, Comparison); 18] = [
            ("eq", Comparison::Eq),
            ("ne", Comparison::Ne),
            ("lt", Comparison::Lt),
            ("le", Comparison::Le),
            ("gt", Comparison::Gt),
            ("ge", Comparison::Ge),
            ("lo", Comparison::Lt),
            ("ls", Comparison::Le),
            ("hi", Comparison::Gt),
            ("hs", Comparison::Ge),
            ("equ", Comparison::Equ),
            ("neu", Comparison::Neu),
            ("ltu", Comparison::Ltu),
            ("leu", Comparison::Leu),
            ("gtu", Comparison::Gtu),
            ("geu", Comparison::Geu),
            ("num", Comparison::Num),
            ("nan", Comparison::Nan),
        ];
        let Some(&(name, comparison)) = OPERATORS.iter().find(|o| opcode.take(o.0)) else {
            return Err(opcode.error("the comparison is missing"));
        };
        let unsigned_operator = matches!(name, "lo" | "ls" | "hi" | "hs");
        let mut flags = match opcode.take_any(&["and", "or", "xor"]) {
            None => 0,
            Some("and") => AND,
            Some("or") => OR,
            Some(_) => XOR,
        };
        let combined = flags != 0;
        let flush = opcode.take("ftz");
        let to = if opcode.base() == "set" { Some(opcode.scalar()?) } else { None };
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, if combined { 4..=4 } else { 3..=3 })?;
        let mut i = self.empty();
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], scalar)?;
        if combined {
            let with = self.predicate(&operands[3])?;
            i.imm = with.index.into();
            flags |= if with.negated { NEGATED } else { 0 };
        }
        match to {
            Some(to @ (ScalarType::U32 | ScalarType::S32 | ScalarType::F32)) => {
                flags |= if to == ScalarType::F32 { TO_ONE } else { TO_MASK };
                i.d = self.destination(&operands[0], to)?;
            }
            Some(_) => return Err(opcode.error("this type of result is not supported")),
            None => match operands[0] {
                Operand::Name(name) => i.p = self.predicate_destination(name)?,
                Operand::Pair(first, second) => {
                    i.p = self.predicate_destination(first)?;
                    i.q = self.predicate_destination(second)?;
                }
                _ => return Err(opcode.error("a predicate is expected as destination")),
            },
        }
        i.flags = flags;
        let half = match scalar {
            ScalarType::F16 => Some(false),
            ScalarType::Bf16 => Some(true),
            _ => None,
        };
        if let Some(is_bf16) = half {
            let format = if is_bf16 { BF16 } else { F16 };
            let widen = move |x: u64| {
                let x = if flush { format.flushed(x) } else { x };
                if is_bf16 { convert::bf16_to_f32(x as u16) } else { convert::f16_to_f32(x as u16) }
            };
            self.push_test(i, move |[a, b, _]| comparison.holds(widen(a), widen(b)));
            return Ok(());
        }
        let unsigned = unsigned_operator || !scalar.is_signed();
        i.run = match comparison_handler(comparison, scalar, unsigned, flush) {
            Some(run) => run,
            None => return Err(opcode.error("this comparison is not supported for this type")),
        };
        self.push(i);
        Ok(())
    }
}

fn comparison_handler(comparison: Comparison, scalar: ScalarType, unsigned: bool, flush: bool) -> Option<Handler> {
    macro_rules! integers {
        ($module:ident) => {
            match (comparison, unsigned) {
                (Comparison::Eq, _) => Some(handler::<Compare<$module::Eq>>()),
                (Comparison::Ne, _) => Some(handler::<Compare<$module::Ne>>()),
                (Comparison::Lt, true) => Some(handler::<Compare<$module::LtU>>()),
                (Comparison::Le, true) => Some(handler::<Compare<$module::LeU>>()),
                (Comparison::Gt, true) => Some(handler::<Compare<$module::GtU>>()),
                (Comparison::Ge, true) => Some(handler::<Compare<$module::GeU>>()),
                (Comparison::Lt, false) => Some(handler::<Compare<$module::LtS>>()),
                (Comparison::Le, false) => Some(handler::<Compare<$module::LeS>>()),
                (Comparison::Gt, false) => Some(handler::<Compare<$module::GtS>>()),
                (Comparison::Ge, false) => Some(handler::<Compare<$module::GeS>>()),
                _ => None,
            }
        };
    }
    match scalar {
        ScalarType::F32 => Some(compare::compare_f32(comparison, flush)),
        ScalarType::F64 => Some(compare::compare_f64(comparison)),
        _ if flush => None,
        ScalarType::B16 | ScalarType::U16 | ScalarType::S16 => integers!(r16),
        ScalarType::B32 | ScalarType::U32 | ScalarType::S32 => integers!(r32),
        ScalarType::B64 | ScalarType::U64 | ScalarType::S64 => integers!(r64),
        _ => None,
    }
}
