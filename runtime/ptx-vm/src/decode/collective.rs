//! Warp collectives, atomics and fences (PTX ISA §9.7.9.6, §9.7.13).

use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::exec::access::{ACQUIRE, RELEASE, SCOPE_SHIFT, STRONG};
use crate::exec::atomics::{Atomic, Fence, RETURNS, SIZE_SHIFT, SPACE_SHIFT};
use crate::exec::collective::{self, ActiveMask, Elect, Match, Redux, Shuffle, Vote};
use crate::exec::dispatch::{handler, scalar_handler};
use crate::exec::{Handler, LaneFunction};
use crate::numerics::convert::{Bf16Type, F16Type};
use crate::numerics::float::{self, MinMax};
use crate::numerics::half::{self, HalfMode};
use crate::numerics::packed;
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes a collective, an atomic or a fence; false if it is none.
    pub(super) fn collective(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        match opcode.base() {
            "shfl" => self.shuffle(opcode, operands)?,
            "vote" => self.vote(opcode, operands)?,
            "match" => self.matching(opcode, operands)?,
            "redux" => self.redux(opcode, operands)?,
            "elect" => {
                opcode.take("sync");
                self.count(opcode, operands, 2..=2)?;
                let mut i = self.with(scalar_handler::<Elect>());
                i.a = self.source(&operands[1], ScalarType::B32)?;
                let Operand::Pair(to, predicate) = operands[0] else {
                    return Err(opcode.error("`d|p` is expected as destination"));
                };
                i.d = self.destination(&Operand::Name(to), ScalarType::B32)?;
                i.p = self.predicate_destination(predicate)?;
                self.push(i);
            }
            "activemask" => {
                opcode.take("b32");
                self.count(opcode, operands, 1..=1)?;
                let mut i = self.with(scalar_handler::<ActiveMask>());
                i.d = self.destination(&operands[0], ScalarType::B32)?;
                self.push(i);
            }
            "atom" | "red" if !opcode.text.contains(".async") => self.atomic(opcode, operands)?,
            "membar" => {
                let scope = match opcode.take_any(&["cta", "gl", "sys"]) {
                    Some("cta") => 0,
                    Some("gl") => 2,
                    Some(_) => 3,
                    None => return Err(opcode.error("the scope is missing")),
                };
                self.fence(scope);
            }
            "fence" if !opcode.text.contains("proxy") && !opcode.text.contains("mbarrier_init") => {
                let Some(order) = opcode.take_any(&["sc", "acq_rel", "acquire", "release"]) else {
                    let scope = self.scope(opcode, None)?;
                    self.fence(scope);
                    return Ok(true);
                };
                if matches!(order, "acquire" | "release") && opcode.text.contains("sync_restrict") {
                    return Err(opcode.error("`.sync_restrict` is not supported"));
                }
                let scope = self.scope(opcode, None)?;
                self.fence(scope);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn fence(&mut self, scope: u32) {
        let mut i = self.with(scalar_handler::<Fence>());
        i.flags = scope << SCOPE_SHIFT;
        self.push(i);
    }

    fn shuffle(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if !opcode.take("sync") {
            return Err(opcode.error("only `shfl.sync` is supported"));
        }
        let run: Handler = match opcode.take_any(&["up", "down", "bfly", "idx"]) {
            Some("up") => handler::<Shuffle<{ collective::UP }>>(),
            Some("down") => handler::<Shuffle<{ collective::DOWN }>>(),
            Some("bfly") => handler::<Shuffle<{ collective::BUTTERFLY }>>(),
            Some(_) => handler::<Shuffle<{ collective::INDEX }>>(),
            None => return Err(opcode.error("the mode is missing")),
        };
        opcode.take("b32");
        self.count(opcode, operands, 5..=5)?;
        let mut i = self.with(run);
        let members = self.source(&operands[4], ScalarType::B32)?;
        i.list = self.list(&[members]);
        i.a = self.source(&operands[1], ScalarType::B32)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        i.c = self.source(&operands[3], ScalarType::B32)?;
        match operands[0] {
            Operand::Pair(to, predicate) => {
                i.d = self.destination(&Operand::Name(to), ScalarType::B32)?;
                i.p = self.predicate_destination(predicate)?;
            }
            _ => i.d = self.destination(&operands[0], ScalarType::B32)?,
        }
        self.push(i);
        Ok(())
    }

    fn vote(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if !opcode.take("sync") {
            return Err(opcode.error("only `vote.sync` is supported"));
        }
        let mode = opcode.take_any(&["all", "any", "uni", "ballot"]);
        let run: Handler = match mode {
            Some("all") => scalar_handler::<Vote<{ collective::ALL }>>(),
            Some("any") => scalar_handler::<Vote<{ collective::ANY }>>(),
            Some("uni") => scalar_handler::<Vote<{ collective::UNIFORM }>>(),
            Some(_) => scalar_handler::<Vote<{ collective::BALLOT }>>(),
            None => return Err(opcode.error("the mode is missing")),
        };
        opcode.take_any(&["b32", "pred"]);
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(run);
        let source = self.predicate(&operands[1])?;
        i.q = source.index;
        i.flags = if source.negated { collective::NEGATED } else { 0 };
        i.a = self.source(&operands[2], ScalarType::B32)?;
        match operands[0] {
            _ if mode == Some("ballot") => i.d = self.destination(&operands[0], ScalarType::B32)?,
            Operand::Name(name) => i.p = self.predicate_destination(name)?,
            _ => return Err(opcode.error("a predicate is expected as destination")),
        }
        self.push(i);
        Ok(())
    }

    fn matching(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let all = opcode.take_any(&["any", "all"]) == Some("all");
        opcode.take("sync");
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(scalar_handler::<Match>());
        i.flags = if all { collective::MATCH_ALL } else { 0 };
        i.flags |= if scalar.bytes() == 8 { collective::MATCH_WIDE } else { 0 };
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        match operands[0] {
            Operand::Pair(to, predicate) if all => {
                i.d = self.destination(&Operand::Name(to), ScalarType::B32)?;
                i.p = self.predicate_destination(predicate)?;
            }
            _ => i.d = self.destination(&operands[0], ScalarType::B32)?,
        }
        self.push(i);
        Ok(())
    }

    fn redux(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        opcode.take("sync");
        let operation = opcode.take_any(&["add", "min", "max", "and", "or", "xor"]).unwrap_or("");
        let scalar = opcode.scalar()?;
        let Some(function) = integer_update(operation, scalar).filter(|_| scalar.bytes() == 4) else {
            return Err(opcode.error("this operation is not supported"));
        };
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(scalar_handler::<Redux>());
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        i.d = self.destination(&operands[0], scalar)?;
        i.list = self.functions.len() as u32;
        self.functions.push(function);
        self.push(i);
        Ok(())
    }

    fn atomic(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let order = match opcode.take_any(&["relaxed", "acquire", "release", "acq_rel"]) {
            None | Some("relaxed") => 0,
            Some("acquire") => ACQUIRE,
            Some("release") => RELEASE,
            Some(_) => ACQUIRE | RELEASE,
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
        let returns = opcode.base() == "atom";
        let expected = 2 + usize::from(returns) + usize::from(operation == "cas");
        self.count(opcode, operands, expected..=expected + usize::from(hint))?;
        let (to, rest) = if returns { (Some(&operands[0]), &operands[1..]) } else { (None, operands) };
        if length > 1 && (operation == "cas" || operation == "exch") {
            return Err(opcode.error("vectors are not supported for this operation"));
        }
        let element = |operand: &'a Operand<'a>, n: usize| -> Option<&'a Operand<'a>> {
            match operand {
                Operand::Vector(parts) => parts.get(n),
                other if length == 1 => Some(other),
                _ => None,
            }
        };
        for n in 0..length {
            let Some(function) = update(operation, scalar) else {
                return Err(opcode.error("this operation is not supported for this type"));
            };
            let mut i = self.with(scalar_handler::<Atomic>());
            let address = self.address(&rest[0])?;
            i.a = address.row;
            i.imm = address.offset + n as i64 * i64::from(scalar.bytes());
            let missing = || opcode.error("a vector has too few elements");
            i.b = self.source(element(&rest[1], n).ok_or_else(missing)?, scalar)?;
            if operation == "cas" {
                i.c = self.source(&rest[2], scalar)?;
            }
            i.flags = STRONG | order | scope << SCOPE_SHIFT | address.flag();
            i.flags |= u32::from(space) << SPACE_SHIFT | scalar.bytes() << SIZE_SHIFT;
            if let Some(to) = to {
                i.d = self.destination(element(to, n).ok_or_else(missing)?, scalar)?;
                i.flags |= RETURNS;
            }
            i.list = self.functions.len() as u32;
            self.functions.push(function);
            self.push(i);
        }
        Ok(())
    }
}

/// `new = f(old, b, c)` of an atomic operation.
fn update(operation: &str, scalar: ScalarType) -> Option<LaneFunction> {
    use ScalarType::{Bf16, Bf16x2, F16, F16x2, F32, F64};
    match (operation, scalar) {
        // `atom.cas d, [a], b, c`: c is stored where b is found.
        ("cas", _) if scalar.is_integer() => Some(Box::new(|[old, b, c]| if old == b { c } else { old })),
        ("exch", _) if scalar.is_integer() => Some(Box::new(|[_, b, _]| b)),
        ("add", F32) => Some(Box::new(|[old, b, _]| {
            // Atomic f32 addition on global memory flushes nothing on sm_80 and later (PTX ISA §9.7.13.5).
            float::add_f32::<false, false>(f32::from_bits(old as u32), f32::from_bits(b as u32)).to_bits().into()
        })),
        ("add", F64) => Some(Box::new(|[old, b, _]| (f64::from_bits(old) + f64::from_bits(b)).to_bits())),
        ("add" | "min" | "max", F16 | F16x2 | Bf16 | Bf16x2) => half_update(operation, scalar),
        _ if scalar.is_integer() => integer_update(operation, scalar),
        _ => None,
    }
}

fn half_update(operation: &str, scalar: ScalarType) -> Option<LaneFunction> {
    let is_f16 = matches!(scalar, ScalarType::F16 | ScalarType::F16x2);
    let pair = matches!(scalar, ScalarType::F16x2 | ScalarType::Bf16x2);
    let (mode, ext) = (HalfMode::default(), MinMax::default());
    let one: fn(u16, u16, HalfMode, MinMax) -> u16 = match (operation, is_f16) {
        ("add", true) => |a, b, mode, _| half::add::<F16Type>(a, b, mode),
        ("add", false) => |a, b, mode, _| half::add::<Bf16Type>(a, b, mode),
        ("min", true) => |a, b, _, ext| half::min::<F16Type>(a, b, ext),
        ("min", false) => |a, b, _, ext| half::min::<Bf16Type>(a, b, ext),
        ("max", true) => |a, b, _, ext| half::max::<F16Type>(a, b, ext),
        ("max", false) => |a, b, _, ext| half::max::<Bf16Type>(a, b, ext),
        _ => return None,
    };
    Some(Box::new(move |[old, b, _]| {
        if pair {
            packed::map2(old as u32, b as u32, |x, y| one(x, y, mode, ext)).into()
        } else {
            one(old as u16, b as u16, mode, ext).into()
        }
    }))
}

/// Integer operations of `atom`, `red` and `redux`.
fn integer_update(operation: &str, scalar: ScalarType) -> Option<LaneFunction> {
    let wide = scalar.bytes() == 8;
    if !matches!(scalar.bytes(), 4 | 8) {
        return None;
    }
    let signed = scalar.is_signed();
    let value = move |x: u64| if wide { x.cast_signed() } else { i64::from(x as u32 as i32) };
    Some(match operation {
        "add" if wide => Box::new(|[a, b, _]| a.wrapping_add(b)),
        "add" => Box::new(|[a, b, _]| (a as u32).wrapping_add(b as u32).into()),
        "and" => Box::new(|[a, b, _]| a & b),
        "or" => Box::new(|[a, b, _]| a | b),
        "xor" => Box::new(|[a, b, _]| a ^ b),
        "min" if signed => Box::new(move |[a, b, _]| if value(b) < value(a) { b } else { a }),
        "max" if signed => Box::new(move |[a, b, _]| if value(b) > value(a) { b } else { a }),
        "min" => Box::new(|[a, b, _]| a.min(b)),
        "max" => Box::new(|[a, b, _]| a.max(b)),
        "inc" if !wide => Box::new(|[a, b, _]| if a >= b { 0 } else { a + 1 }),
        "dec" if !wide => Box::new(|[a, b, _]| if a == 0 || a > b { b } else { a - 1 }),
        _ => return None,
    })
}
