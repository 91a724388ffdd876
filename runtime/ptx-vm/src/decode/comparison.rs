//! Comparison and selection (PTX ISA §9.7.5, §9.7.6).

use super::bind::compare::Compare;
use super::bind::compare::{self, Choose, Select32, Select64, r16, r32, r64};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::numerics::compare::Comparison;
use crate::numerics::convert;
use crate::numerics::format::F16;
use crate::program::Handler;
use crate::program::flags::{CompareFlags, Widths, when};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes `setp`, `set`, `selp` and `slct`; false if it is another instruction.
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
                i.flags = when(CompareFlags::NEGATED, predicate.negated);
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
                i.flags = when(Widths::WIDE_D, scalar.bytes() == 8);
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
            Some("and") => CompareFlags::AND.bits(),
            Some("or") => CompareFlags::OR.bits(),
            Some(_) => CompareFlags::XOR.bits(),
        };
        let flush = opcode.take("ftz");
        let to = if opcode.base() == "set" { Some(opcode.scalar()?) } else { None };
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, if flags == 0 { 3..=3 } else { 4..=4 })?;
        let unsigned = unsigned_operator || !scalar.is_signed();
        let pair = matches!(scalar, ScalarType::F16x2 | ScalarType::Bf16x2);
        if pair || !matches!(to, None | Some(ScalarType::U32 | ScalarType::S32 | ScalarType::F32)) {
            let Some(test) = element_test(comparison, scalar, unsigned, flush) else {
                return Err(opcode.error("this comparison is not supported for this type"));
            };
            return self.set_elements(opcode, operands, to, scalar, flags, test);
        }
        let mut i = self.empty();
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], scalar)?;
        if let Some(with) = operands.get(3) {
            let with = self.predicate(with)?;
            i.imm = with.index.into();
            flags |= when(CompareFlags::NEGATED, with.negated);
        }
        match (to, &operands[0]) {
            (Some(to), _) => {
                flags |= if to == ScalarType::F32 { CompareFlags::TO_ONE.bits() } else { CompareFlags::TO_MASK.bits() };
                i.d = self.destination(&operands[0], to)?;
            }
            (None, Operand::Name(name)) => i.p = self.predicate_destination(name)?,
            (None, Operand::Pair(first, second)) => {
                i.p = self.predicate_destination(first)?;
                i.q = self.predicate_destination(second)?;
            }
            _ => return Err(opcode.error("a predicate is expected as destination")),
        }
        i.flags = flags;
        if matches!(scalar, ScalarType::F16 | ScalarType::Bf16) {
            let Some(test) = element_test(comparison, scalar, unsigned, flush) else {
                return Err(opcode.error("a modifier is not known for this type"));
            };
            self.push_test(i, move |[a, b, _]| test(a, b));
            return Ok(());
        }
        i.run = match comparison_handler(comparison, scalar, unsigned, flush) {
            Some(run) => run,
            None => return Err(opcode.error("this comparison is not supported for this type")),
        };
        self.push(i);
        Ok(())
    }

    /// `set` with a 16-bit or packed result, and `setp` of pairs (PTX ISA §9.7.7): each element is compared separately.
    /// A `setp` of pairs writes the result of the low halves to its first predicate, and that of the high halves to its
    /// second.
    fn set_elements(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &'a [Operand<'a>],
        to: Option<ScalarType>,
        scalar: ScalarType,
        combination: u32,
        test: ElementTest,
    ) -> Result<(), ParseError> {
        use ScalarType::{Bf16, Bf16x2, F16, F16x2, S16, S32, U16, U32};
        let pair = matches!(scalar, F16x2 | Bf16x2);
        let truth = match (to, pair) {
            (None, true) => 1,
            (Some(U16 | S16), false) | (Some(U32 | S32), true) => 0xffff,
            (Some(F16), false) => 0x3c00,
            (Some(Bf16), false) => 0x3f80,
            (Some(F16x2), true) if scalar == F16x2 => 0x3c00,
            (Some(Bf16x2), true) if scalar == Bf16x2 => 0x3f80,
            _ => return Err(opcode.error("this type of result is not supported for this type of operands")),
        };
        let mut i = self.empty();
        if let Some(with) = operands.get(3) {
            let with = self.predicate(with)?;
            i.c = self.register(false);
            let mut select = self.with(handler::<Select32>());
            (select.a, select.b, select.d) = (self.constant(1, false), self.constant(0, false), i.c);
            (select.p, select.flags) = (with.index, when(CompareFlags::NEGATED, with.negated));
            self.defs.push(i.c);
            self.push(select);
            self.uses.push(i.c);
        }
        let wide = scalar.bytes() == 8;
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], scalar)?;
        i.flags = if wide { Widths::WIDE_A.bits() | Widths::WIDE_B.bits() } else { 0 };
        i.d = match to {
            Some(to) => self.destination(&operands[0], to)?,
            None => {
                let temporary = self.register(false);
                self.defs.push(temporary);
                temporary
            }
        };
        let bits = i.d;
        self.push_general(i, move |[a, b, with]| {
            let one = |shift: u32| {
                let (a, b) = if pair { (a >> shift & 0xffff, b >> shift & 0xffff) } else { (a, b) };
                let (holds, with) = (test(a, b), with != 0);
                let holds = match CompareFlags::from_bits_truncate(combination) {
                    CompareFlags::AND => holds & with,
                    CompareFlags::OR => holds | with,
                    CompareFlags::XOR => holds ^ with,
                    _ => holds,
                };
                if holds { truth << shift } else { 0 }
            };
            if pair { one(0) | one(16) } else { one(0) }
        });
        if to.is_some() {
            return Ok(());
        }
        let Operand::Pair(low, high) = operands[0] else {
            return Err(opcode.error("two predicates `p|q` are expected as destination"));
        };
        for (name, shift) in [(low, 0), (high, 16)] {
            let mut test = self.empty();
            test.a = bits;
            test.p = self.predicate_destination(name)?;
            self.uses.push(bits);
            self.push_test(test, move |[bits, ..]| bits >> shift & 1 != 0);
        }
        Ok(())
    }
}

/// A comparison of two elements, given by their bits, zero-extended.
type ElementTest = Box<dyn Fn(u64, u64) -> bool + Send + Sync>;

/// The comparison of one element, or of one half of a pair; `None` if the type doesn't have the comparison.
fn element_test(comparison: Comparison, scalar: ScalarType, unsigned: bool, flush: bool) -> Option<ElementTest> {
    use ScalarType::{Bf16, Bf16x2, F16 as Half, F16x2, F32, F64};
    let ordered = matches!(
        comparison,
        Comparison::Eq | Comparison::Ne | Comparison::Lt | Comparison::Le | Comparison::Gt | Comparison::Ge
    );
    Some(match scalar {
        Half | F16x2 => {
            let widen = move |x: u64| convert::f16_to_f32(if flush { F16.flushed(x) } else { x } as u16);
            Box::new(move |a, b| comparison.holds(widen(a), widen(b)))
        }
        F32 if flush => {
            Box::new(move |a, b| comparison.holds_flushed(f32::from_bits(a as u32), f32::from_bits(b as u32)))
        }
        F32 => Box::new(move |a, b| comparison.holds(f32::from_bits(a as u32), f32::from_bits(b as u32))),
        _ if flush => return None,
        Bf16 | Bf16x2 => {
            Box::new(move |a, b| comparison.holds(convert::bf16_to_f32(a as u16), convert::bf16_to_f32(b as u16)))
        }
        F64 => Box::new(move |a, b| comparison.holds(f64::from_bits(a), f64::from_bits(b))),
        _ if !scalar.is_integer() || !ordered => return None,
        _ if unsigned => Box::new(move |a, b| comparison.holds(a, b)),
        _ => {
            let shift = 64 - 8 * scalar.bytes();
            let value = move |x: u64| (x << shift).cast_signed() >> shift;
            Box::new(move |a, b| comparison.holds(value(a), value(b)))
        }
    })
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
