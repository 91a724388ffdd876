//! Branches, calls, exits, barriers, hints (PTX ISA §9.7.12, §9.7.13.1, §9.7.19).

use super::bind::barrier::BarrierOperation;
use super::bind::collective::WarpBarrier;
use super::bind::control::{Branch, Exit, IndexedBranch, Nothing, SetRegisters, Sleep, Trap};
use super::bind::{handler, scalar_handler};
use super::decoder::{Decoder, TRUE};
use super::effect::Successor;
use super::opcode::Opcode;
use super::symbols::{Symbol, SymbolPlace};
use crate::error::ParseError;
use crate::program::flags::{BarrierFlags, RegisterFlags, when};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes a control instruction; false if it is another one.
    pub(super) fn control(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<bool, ParseError> {
        match opcode.base() {
            "bra" => {
                opcode.take("uni");
                self.count(opcode, operands, 1..=1)?;
                let label = self.label_operand(&operands[0])?;
                self.branch(label);
            }
            "brx" => {
                opcode.take("idx");
                opcode.take("uni");
                self.count(opcode, operands, 2..=2)?;
                let Operand::Name(name) = operands[1] else {
                    return Err(opcode.error("a list of branch targets is expected"));
                };
                let Some(Symbol::Targets(table)) = self.find(name) else {
                    return Err(self.name_error(format!("`{name}` is not a list of branch targets")));
                };
                let mut i = self.with(scalar_handler::<IndexedBranch>());
                i.a = self.source(&operands[0], ScalarType::U32)?;
                i.imm = self.tables[table].len() as i64;
                self.push_to(i, Successor::Table(table));
            }
            "ret" => {
                opcode.take("uni");
                match self.return_label() {
                    Some(label) => self.branch(label),
                    None => self.push_ending(self.with(handler::<Exit>())),
                }
            }
            "exit" => self.push_ending(self.with(handler::<Exit>())),
            "trap" => self.push_ending(self.with(scalar_handler::<Trap>())),
            "setmaxnreg" => self.set_registers(opcode, operands)?,
            "brkpt" | "pmevent" => {
                opcode.take_any(&["mask"]);
                self.push(self.with(handler::<Nothing>()));
            }
            "nanosleep" => {
                opcode.take("u32");
                self.push(self.with(scalar_handler::<Sleep>()));
            }
            "call" => self.call(opcode, operands)?,
            "bar" | "barrier" => self.barrier(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `setmaxnreg`: the machine doesn't need these registers, but the detector counts them (PTX ISA §9.7.19.5).
    fn set_registers(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'_>]) -> Result<(), ParseError> {
        let grows = match opcode.take_any(&["inc", "dec"]) {
            Some(direction) => direction == "inc",
            None => return Err(opcode.error("`.inc` or `.dec` is missing")),
        };
        opcode.take("sync");
        opcode.take("aligned");
        opcode.take("u32");
        self.count(opcode, operands, 1..=1)?;
        let number = self.literal(opcode, &operands[0])?;
        if (24..=256).contains(&number) && number % 8 == 0 {
            let mut i = self.with(scalar_handler::<SetRegisters>());
            (i.imm, i.flags) = (number, when(RegisterFlags::GROWS, grows));
            self.push(i);
            return Ok(());
        }
        Err(opcode.error(format!("{number} registers: a multiple of 8 from 24 to 256 is expected")))
    }

    fn label_operand(&self, operand: &Operand<'_>) -> Result<u32, ParseError> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Label(label)) => Ok(label),
                _ => Err(self.name_error(format!("`{name}` is not a label"))),
            },
            _ => Err(self.name_error("a label is expected")),
        }
    }

    fn branch(&mut self, label: u32) {
        self.push_to(self.with(handler::<Branch>()), Successor::Label(label));
    }

    /// `call (results), name, (arguments);` is expanded in place. If it has a guard, lanes for which this is false jump
    /// over it.
    fn call(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        opcode.take("uni");
        let mut rest = operands.iter().peekable();
        let mut list = |decoder: &Self| -> Result<Vec<SymbolPlace>, ParseError> {
            match rest.peek() {
                Some(Operand::List(names)) => {
                    rest.next();
                    names.iter().map(|n| decoder.call_parameter(n)).collect()
                }
                _ => Ok(vec![]),
            }
        };
        let returns = list(self)?;
        let callee = match operands.iter().find(|o| matches!(o, Operand::Name(_))) {
            Some(Operand::Name(name)) => *name,
            _ => return Err(opcode.error("the name of a function is expected")),
        };
        let arguments = match operands.iter().skip_while(|o| !matches!(o, Operand::Name(_))).nth(1) {
            Some(Operand::List(names)) => {
                names.iter().map(|n| self.call_parameter(n)).collect::<Result<Vec<_>, _>>()?
            }
            None => vec![],
            Some(_) => return Err(opcode.error("calls through pointers are not supported")),
        };
        let Some(&function) = self.globals.functions.get(callee) else {
            return Err(
                opcode.error(format!("`{callee}` is not a function (calls through pointers are not supported)"))
            );
        };
        if function.body.is_none() {
            return self.system_call(callee, &returns, &arguments);
        }
        let guard = self.guard();
        if guard == (TRUE, false) {
            return self.expand(function, returns, arguments);
        }
        let over = self.label();
        let mut skip = self.with(handler::<Branch>());
        (skip.guard, skip.negated) = (guard.0, !guard.1);
        self.push_to(skip, Successor::Label(over));
        self.expand(function, returns, arguments)?;
        self.place_label(over);
        Ok(())
    }

    fn call_parameter(&self, operand: &Operand<'_>) -> Result<SymbolPlace, ParseError> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Variable(place)) => Ok(place),
                _ => Err(self.name_error(format!("`{name}` is not a .param variable"))),
            },
            _ => Err(self.name_error("a .param variable is expected")),
        }
    }

    fn barrier(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take("warp") {
            opcode.take("sync");
            self.count(opcode, operands, 1..=1)?;
            let mut i = self.with(scalar_handler::<WarpBarrier>());
            i.a = self.source(&operands[0], ScalarType::B32)?;
            self.push_collective(i);
            return Ok(());
        }
        if opcode.take("cluster") {
            return self.cluster_barrier(opcode);
        }
        opcode.take("cta");
        // `bar` is `barrier.aligned` (PTX ISA §9.7.13.1).
        let aligned = opcode.base() == "bar" || opcode.take("aligned");
        opcode.take("aligned");
        let mut flags = if aligned { 0 } else { BarrierFlags::UNALIGNED.bits() };
        let mut i = self.with(scalar_handler::<BarrierOperation>());
        let mut sources = operands;
        match opcode.take_any(&["sync", "arrive", "red"]) {
            Some("sync") => {}
            Some("arrive") => flags |= BarrierFlags::ARRIVE.bits(),
            Some(_) => {
                let kind = opcode.take_any(&["popc", "and", "or"]);
                flags |= match kind {
                    Some("popc") => BarrierFlags::REDUCE_POPC.bits(),
                    Some("and") => BarrierFlags::REDUCE_AND.bits(),
                    _ => BarrierFlags::REDUCE_OR.bits(),
                };
                opcode.take("aligned");
                opcode.take_any(&["u32", "pred"]);
                self.count(opcode, operands, 3..=4)?;
                if kind == Some("popc") {
                    i.d = self.destination(&operands[0], ScalarType::U32)?;
                } else if let Operand::Name(name) = operands[0] {
                    i.q = self.predicate_destination(name)?;
                } else {
                    return Err(opcode.error("a predicate is expected as destination"));
                }
                let vote = self.predicate(&operands[operands.len() - 1])?;
                i.p = vote.index;
                flags |= when(BarrierFlags::NEGATED, vote.negated);
                sources = &operands[1..operands.len() - 1];
            }
            None => return Err(opcode.error("`.sync`, `.arrive` or `.red` is missing")),
        }
        opcode.take("aligned");
        self.count(opcode, sources, 1..=2)?;
        i.a = self.source(&sources[0], ScalarType::U32)?;
        if let Some(count) = sources.get(1) {
            i.b = self.source(count, ScalarType::U32)?;
            flags |= BarrierFlags::COUNTED.bits();
        } else if flags & BarrierFlags::ARRIVE.bits() != 0 {
            return Err(opcode.error("`.arrive` needs a thread count"));
        }
        i.flags = flags;
        if flags & (BarrierFlags::UNALIGNED | BarrierFlags::COUNTED).bits() == 0 {
            self.block_barriers.push(self.code.len());
        }
        self.push(i);
        Ok(())
    }
}
