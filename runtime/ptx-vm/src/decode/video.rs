//! SIMD video instructions (PTX ISA §9.7.18).

use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::numerics::compare::Comparison;
use crate::numerics::video::{Video, VideoForm};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes a video instruction; false if it is another one.
    pub(super) fn video(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<bool, ParseError> {
        let base = opcode.base();
        let count = match base.strip_suffix('2').map(|_| 2).or_else(|| base.strip_suffix('4').map(|_| 4)) {
            Some(count) if base.starts_with('v') => count,
            _ => return Ok(false),
        };
        let operation = match &base[..base.len() - 1] {
            "vadd" => Video::Add,
            "vsub" => Video::Subtract,
            "vavrg" => Video::Average,
            "vabsdiff" => Video::AbsoluteDifference,
            "vmin" => Video::Min,
            "vmax" => Video::Max,
            "vset" => Video::Set(match opcode.take_any(&["eq", "ne", "lt", "le", "gt", "ge"]) {
                Some("eq") => Comparison::Eq,
                Some("ne") => Comparison::Ne,
                Some("lt") => Comparison::Lt,
                Some("le") => Comparison::Le,
                Some("gt") => Comparison::Gt,
                Some(_) => Comparison::Ge,
                None => return Err(opcode.error("the comparison is missing")),
            }),
            _ => return Ok(false),
        };
        let (saturate, accumulate) = (opcode.take("sat"), opcode.take("add"));
        let mut is_signed = || -> Result<bool, ParseError> {
            match opcode.scalar()? {
                ScalarType::U32 => Ok(false),
                ScalarType::S32 => Ok(true),
                _ => Err(opcode.error("the types are `.u32` or `.s32`")),
            }
        };
        let result = if matches!(operation, Video::Set(_)) { false } else { is_signed()? };
        let signed = [is_signed()?, is_signed()?, result];
        self.count(opcode, operands, 4..=4)?;
        let (to, mask) = selected(&operands[0]);
        let (a, a_selector) = selected(&operands[1]);
        let (b, b_selector) = selected(&operands[2]);
        let bad = || opcode.error("a mask or selector is not known");
        let form = VideoForm {
            operation,
            count,
            signed,
            saturate,
            accumulate,
            mask: mask.map_or(Some(15), |text| mask_bits(text, count)).ok_or_else(bad)?,
            selectors: [
                selector(a_selector, count, 0).ok_or_else(bad)?,
                selector(b_selector, count, count as u8).ok_or_else(bad)?,
            ],
        };
        let mut i = self.empty();
        i.a = self.source(&a, ScalarType::B32)?;
        i.b = self.source(&b, ScalarType::B32)?;
        i.c = self.source(&operands[3], ScalarType::B32)?;
        i.d = self.destination(&to, ScalarType::B32)?;
        self.push_general(i, move |[a, b, c]| form.apply(a as u32, b as u32, c as u32).into());
        Ok(true)
    }
}

/// A register, and the selector after it: `%r1.b3210` is `%r1` and `b3210`.
fn selected<'a>(operand: &Operand<'a>) -> (Operand<'a>, Option<&'a str>) {
    if let Operand::Name(name) = operand
        && let Some((register, text)) = name.rsplit_once('.')
        && text.starts_with(['b', 'h'])
    {
        return (Operand::Name(register), Some(text));
    }
    (operand.clone(), None)
}

/// `h10`, `b3210`: digits, the highest element first.
fn digits(text: &str, count: u32) -> Option<Vec<u8>> {
    let letter = if count == 2 { 'h' } else { 'b' };
    let digits = text.strip_prefix(letter)?;
    digits.bytes().rev().map(|d| d.checked_sub(b'0').filter(|d| u32::from(*d) < 2 * count)).collect()
}

fn mask_bits(text: &str, count: u32) -> Option<u8> {
    let all = digits(text, count)?;
    all.iter().try_fold(0, |mask, digit| (u32::from(*digit) < count).then_some(mask | 1 << digit))
}

fn selector(text: Option<&str>, count: u32, first: u8) -> Option<[u8; 4]> {
    let mut places = [first, first + 1, first + 2, first + 3];
    if let Some(text) = text {
        let all = digits(text, count).filter(|all| all.len() == count as usize)?;
        places[..all.len()].copy_from_slice(&all);
    }
    Some(places)
}
