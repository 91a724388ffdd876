//! `cp.async` and its groups (PTX ISA §9.7.9.25).

use super::bind::copies::{Commit, Copy, Wait};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::program::Handler;
use crate::program::flags::{CopyFlags, when};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes an asynchronous instruction; false if it is another one.
    pub(super) fn asynchronous(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        let is_hopper = opcode.text.contains("bulk") || opcode.text.contains("mbarrier");
        if opcode.base() != "cp" || is_hopper || !opcode.take("async") {
            return Ok(false);
        }
        if opcode.take("commit_group") {
            self.push(self.with(scalar_handler::<Commit>()));
            return Ok(true);
        }
        let all = opcode.take("wait_all");
        if all || opcode.take("wait_group") {
            let mut i = self.with(scalar_handler::<Wait>());
            i.imm = -1;
            if !all {
                self.count(opcode, operands, 1..=1)?;
                i.imm = self.literal(opcode, &operands[0])?;
                if i.imm < 0 {
                    return Err(opcode.error("the number of groups must not be negative"));
                }
            }
            self.push(i);
            return Ok(true);
        }
        self.copy(opcode, operands)?;
        Ok(true)
    }

    fn copy(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let bypass = opcode.take_any(&["ca", "cg"]) == Some("cg");
        if !((opcode.take("shared") || opcode.take("shared::cta")) && opcode.take("global")) {
            return Err(opcode.error("only copies from global to shared memory are supported"));
        }
        let hint = opcode.skip_cache_hints();
        self.count(opcode, operands, 3..=4 + usize::from(hint))?;
        let size = self.literal(opcode, &operands[2])?;
        let run: Handler = match size {
            4 if !bypass => handler::<Copy<4>>(),
            8 if !bypass => handler::<Copy<8>>(),
            16 => handler::<Copy<16>>(),
            _ => return Err(opcode.error(format!("a copy of {size} bytes: 4, 8 or 16, with `.cg` 16"))),
        };
        let mut i = self.with(run);
        let to = self.address(&operands[0])?;
        let from = self.address(&operands[1])?;
        (i.a, i.imm, i.flags) = (to.row, to.offset, to.flag());
        i.b = from.row;
        i.flags |= when(CopyFlags::WIDE_SOURCE, from.wide);
        let Ok(offset) = i32::try_from(from.offset) else {
            return Err(opcode.error("the source's offset does not fit in 32 bits"));
        };
        i.list = offset.cast_unsigned();
        match operands.get(3) {
            None => {}
            // With a cache policy, the last operand is the policy.
            Some(_) if hint && operands.len() == 4 => {}
            Some(operand) if self.predicate_like(operand) => {
                let predicate = self.predicate(operand)?;
                i.p = predicate.index;
                i.flags |= CopyFlags::IGNORE_SOURCE.bits() | when(CopyFlags::NEGATED, predicate.negated);
            }
            Some(operand) => {
                i.c = self.source(operand, ScalarType::U32)?;
                i.flags |= CopyFlags::SIZED.bits();
            }
        }
        self.push(i);
        Ok(())
    }

    fn predicate_like(&self, operand: &Operand<'_>) -> bool {
        match operand {
            Operand::Name(name) => self.predicate_name(name).is_ok(),
            Operand::Not(_) => true,
            _ => false,
        }
    }
}
