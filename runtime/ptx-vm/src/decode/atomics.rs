//! `atom`, `red` (PTX ISA §9.7.13.5, §9.7.13.7).

use super::bind::atomics::Atomic;
use super::bind::scalar_handler;
use super::decoder::Decoder;
use super::opcode::Opcode;
use super::operands::elements_of;
use crate::error::ParseError;
use crate::numerics::reduction::{Element, Reduction};
use crate::program::flags::{
    ALIGNMENT_SHIFT, AccessFlags, AtomicFlags, GENERIC, SCOPE_SHIFT, SHARED, SIZE_SHIFT, SPACE_SHIFT, when,
};
use crate::program::forms::LaneFunction;
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes an atomic operation or reduction that the threads do themselves, not a bulk copy.
    pub(super) fn atomic(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let order = match opcode.take_any(&["relaxed", "acquire", "release", "acq_rel"]) {
            None | Some("relaxed") => 0,
            Some("acquire") => AccessFlags::ACQUIRE.bits(),
            Some("release") => AccessFlags::RELEASE.bits(),
            Some(_) => AccessFlags::ACQUIRE.bits() | AccessFlags::RELEASE.bits(),
        };
        let scope = self.scope(opcode, Some(2))?;
        let space = self.space(opcode);
        let operation = opcode
            .take_any(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
            .ok_or_else(|| opcode.error("the operation is missing"))?;
        opcode.take("noftz");
        let hint = opcode.skip_cache_hints();
        let length = match opcode.take_any(&["v2", "v4", "v8"]) {
            None => 1,
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
        };
        let scalar = opcode.scalar()?;
        if scalar == ScalarType::B128 {
            return Err(
                opcode.error("atomics of 128 bits are not supported: the host has none; use 64 bits, or a lock")
            );
        }
        let returns = opcode.base() == "atom";
        let expected = 2 + usize::from(returns) + usize::from(operation == "cas");
        self.count(opcode, operands, expected..=expected + usize::from(hint))?;
        let (to, rest) = if returns { (Some(&operands[0]), &operands[1..]) } else { (None, operands) };
        if length > 1 && (operation == "cas" || operation == "exch") {
            return Err(opcode.error("vectors are not supported for this operation"));
        }
        for operand in to.into_iter().chain([&rest[1]]) {
            let given = elements_of(operand).len();
            if given != length {
                return Err(opcode.error(format!("{given} registers for {length} elements")));
            }
        }
        for n in 0..length {
            let (functions, flushes) = updates(operation, scalar, space)
                .ok_or_else(|| opcode.error("this operation is not supported for this type"))?;
            let mut i = self.with(scalar_handler::<Atomic>());
            let address = self.address(&rest[0])?;
            i.a = address.row;
            i.imm = address.offset + n as i64 * i64::from(scalar.bytes());
            i.b = self.source(&elements_of(&rest[1])[n], scalar)?;
            if operation == "cas" {
                self.compared.push((i.a, i.imm, scalar.bytes()));
                i.c = self.source(&rest[2], scalar)?;
            }
            i.flags = AccessFlags::STRONG.bits() | order | scope << SCOPE_SHIFT | address.flag();
            i.flags |= u32::from(space) << SPACE_SHIFT | scalar.bytes() << SIZE_SHIFT;
            i.flags |= when(AtomicFlags::FLUSHED_IN_GLOBAL, flushes);
            // A vector must be aligned as a whole.
            i.flags |= if n == 0 { (length as u32 * scalar.bytes()) << ALIGNMENT_SHIFT } else { 0 };
            if let Some(to) = to {
                i.d = self.destination(&elements_of(to)[n], scalar)?;
                i.flags |= AtomicFlags::RETURNS.bits();
            }
            i.list = self.functions.len() as u32;
            self.functions.extend(functions);
            self.push(i);
        }
        Ok(())
    }
}

/// `new = f(old, b, c)` of an atomic operation, and whether a second function for global memory follows.
fn updates(operation: &str, scalar: ScalarType, space: u8) -> Option<(Vec<LaneFunction>, bool)> {
    let whole = scalar.is_integer() && matches!(scalar.bytes(), 2 | 4 | 8);
    match operation {
        // `atom.cas d, [a], b, c`: stores c if it finds b.
        "cas" if whole => return Some((vec![Box::new(|[old, b, c]| if old == b { c } else { old })], false)),
        "exch" if whole => return Some((vec![Box::new(|[_, b, _]| b)], false)),
        _ => {}
    }
    let reduction = Reduction::from_name(operation)?;
    let lane = |element| -> Option<LaneFunction> {
        let function = reduction.function(element)?;
        Some(Box::new(move |[old, b, _]| function(old, b)))
    };
    let element = reduced_element(scalar)?;
    Some(match (element, space) {
        (Element::F32, GENERIC) => (vec![lane(Element::F32)?, lane(Element::F32Flushed)?], true),
        (Element::F32, SHARED) => (vec![lane(Element::F32)?], false),
        (Element::F32, _) => (vec![lane(Element::F32Flushed)?], false),
        _ => (vec![lane(element)?], false),
    })
}

/// The element type of a reduction.
pub(super) fn reduced_element(scalar: ScalarType) -> Option<Element> {
    Some(match scalar {
        ScalarType::B32 => Element::B32,
        ScalarType::U32 => Element::U32,
        ScalarType::S32 => Element::S32,
        ScalarType::B64 => Element::B64,
        ScalarType::U64 => Element::U64,
        ScalarType::S64 => Element::S64,
        ScalarType::F16 => Element::F16,
        ScalarType::F16x2 => Element::F16x2,
        ScalarType::Bf16 => Element::Bf16,
        ScalarType::Bf16x2 => Element::Bf16x2,
        ScalarType::F32 => Element::F32,
        ScalarType::F64 => Element::F64,
        _ => return None,
    })
}
