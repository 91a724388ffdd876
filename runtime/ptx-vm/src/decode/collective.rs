//! Warp collectives and fences (PTX ISA §9.7.9.6, §9.7.13).

use super::atomics::reduced_element;
use super::bind::atomics::Fence;
use super::bind::collective::{self, ActiveMask, Elect, Match, Redux, Shuffle, Vote};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::numerics::reduction::{Element, Reduction};
use crate::program::Handler;
use crate::program::flags::{CollectiveFlags, FenceFlags, SCOPE_SHIFT, when};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes a collective, an atomic or a fence; false if it is another instruction.
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
                self.push_collective(i);
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
                // On sm_70 and later it is `fence.sc` (PTX ISA 9.7.13.6).
                self.fence(scope, true);
            }
            "fence" if !opcode.text.contains("proxy") && !opcode.text.contains("mbarrier_init") => {
                let order = opcode.take_any(&["sc", "acq_rel", "acquire", "release"]);
                if opcode.text.contains("sync_restrict") {
                    return Err(opcode.error(
                        "fences that order shared memory only are not supported; `fence.acq_rel.cluster` orders more",
                    ));
                }
                let scope = self.scope(opcode, None)?;
                self.fence(scope, order == Some("sc"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn fence(&mut self, scope: u32, sequential: bool) {
        let mut i = self.with(scalar_handler::<Fence>());
        i.flags = scope << SCOPE_SHIFT | when(FenceFlags::SEQUENTIAL, sequential);
        self.push(i);
    }

    fn shuffle(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if !opcode.take("sync") {
            return Err(opcode.error(
                "only `shfl.sync` is supported: sm_70 and later have no other; name the lanes in a member mask",
            ));
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
        self.push_collective(i);
        Ok(())
    }

    fn vote(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if !opcode.take("sync") {
            return Err(opcode.error(
                "only `vote.sync` is supported: sm_70 and later have no other; name the lanes in a member mask",
            ));
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
        i.flags = when(CollectiveFlags::NEGATED, source.negated);
        i.a = self.source(&operands[2], ScalarType::B32)?;
        match operands[0] {
            _ if mode == Some("ballot") => i.d = self.destination(&operands[0], ScalarType::B32)?,
            Operand::Name(name) => i.p = self.predicate_destination(name)?,
            _ => return Err(opcode.error("a predicate is expected as destination")),
        }
        self.push_collective(i);
        Ok(())
    }

    fn matching(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let all = opcode.take_any(&["any", "all"]) == Some("all");
        opcode.take("sync");
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(scalar_handler::<Match>());
        i.flags = when(CollectiveFlags::MATCH_ALL, all);
        i.flags |= when(CollectiveFlags::MATCH_WIDE, scalar.bytes() == 8);
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        match operands[0] {
            Operand::Pair(to, predicate) if all => {
                i.d = self.destination(&Operand::Name(to), ScalarType::B32)?;
                i.p = self.predicate_destination(predicate)?;
            }
            _ => i.d = self.destination(&operands[0], ScalarType::B32)?,
        }
        self.push_collective(i);
        Ok(())
    }

    fn redux(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        opcode.take("sync");
        let operation = opcode.take_any(&["add", "min", "max", "and", "or", "xor"]).unwrap_or("");
        let scalar = opcode.scalar()?;
        let function = Reduction::from_name(operation)
            .zip(reduced_element(scalar))
            .filter(|(_, e)| matches!(e, Element::B32 | Element::U32 | Element::S32));
        let Some(function) = function.and_then(|(reduction, element)| reduction.function(element)) else {
            return Err(opcode.error(if scalar == ScalarType::F32 {
                "sums and extrema of `.f32` need sm_100a; use `shfl.sync`"
            } else {
                "this operation is not supported"
            }));
        };
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(scalar_handler::<Redux>());
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        i.d = self.destination(&operands[0], scalar)?;
        i.list = self.functions.len() as u32;
        self.functions.push(Box::new(move |[a, b, _]| function(a, b)));
        self.push_collective(i);
        Ok(())
    }
}
