//! Decodes operands: registers, constants, special registers, addresses.

use super::decoder::{Decoder, FALSE, PREDICATE_SINK, SINK, TRUE};
use super::opcode::Opcode;
use super::symbols::{Register, Symbol, SymbolPlace};
use crate::error::ParseError;
use crate::memory::window;
use crate::program::flags::{AccessFlags, when};
use crate::program::{Special, SpecialSource};
use crate::syntax::ast::{Operand, ScalarType};

/// An address operand: a register and an offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressOperand {
    pub(super) row: u32,
    pub(super) wide: bool,
    pub(super) offset: i64,
}

impl AddressOperand {
    /// [`AccessFlags::WIDE_ADDRESS`] if the register is wide.
    pub(super) fn flag(&self) -> u32 {
        when(AccessFlags::WIDE_ADDRESS, self.wide)
    }
}

/// A predicate operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredicateOperand {
    pub(super) index: u16,
    pub(super) negated: bool,
}

impl<'a> Decoder<'a> {
    /// The row that always holds the value of this source.
    pub(super) fn fixed(&mut self, source: SpecialSource, wide: bool) -> u32 {
        if let Some(&id) = self.fixed.get(&(source, wide)) {
            return id;
        }
        let id = self.register(wide);
        self.fixed.insert((source, wide), id);
        id
    }

    pub(super) fn constant(&mut self, value: u64, wide: bool) -> u32 {
        let value = if wide { value } else { value & 0xffff_ffff };
        self.fixed(SpecialSource::Constant(value), wide)
    }

    /// Checks the number of operands.
    pub(super) fn count(
        &self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        allowed: std::ops::RangeInclusive<usize>,
    ) -> Result<(), ParseError> {
        if allowed.contains(&operands.len()) {
            return Ok(());
        }
        Err(opcode.error(format!("{} operands where {allowed:?} are expected", operands.len())))
    }

    /// A named register, whose width must be that of the type.
    fn named_register(&self, name: &str, wide: bool) -> Result<Register, ParseError> {
        match self.find(name) {
            Some(Symbol::Register(register)) if register.scalar == ScalarType::B128 => {
                Err(self.name_error(format!("register `{name}` has 128 bits, which is not the instruction's type")))
            }
            Some(Symbol::Register(register)) if register.is_wide() == wide => Ok(register),
            Some(Symbol::Register(register)) => Err(self.name_error(format!(
                "register `{name}` has {} bits, which is not the instruction's type",
                register.scalar.bytes() * 8
            ))),
            Some(Symbol::Predicate(_)) => Err(self.name_error(format!("`{name}` is a predicate"))),
            Some(_) => Err(self.name_error(format!("`{name}` is not a register"))),
            None => Err(self.name_error(format!("`{name}` is not declared"))),
        }
    }

    /// The register of an operand, with its declared type, if the operand is a register.
    pub(super) fn register_of(&self, operand: &Operand<'_>) -> Option<Register> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Register(register)) => Some(register),
                _ => None,
            },
            _ => None,
        }
    }

    /// The halves of a 128-bit register, the low one first.
    pub(super) fn halves(&self, operand: &Operand<'_>) -> Result<[u32; 2], ParseError> {
        match self.register_of(operand) {
            Some(register) if register.scalar == ScalarType::B128 => Ok(register.halves()),
            _ => Err(self.name_error("a 128-bit register is expected")),
        }
    }

    /// A destination register; `_` gives the sink.
    pub(super) fn destination(&mut self, operand: &Operand<'_>, scalar: ScalarType) -> Result<u32, ParseError> {
        let Operand::Name(name) = operand else {
            return Err(self.name_error("a register is expected as destination"));
        };
        if *name == "_" {
            return Ok(SINK);
        }
        let register = self.named_register(name, scalar.bytes() == 8)?;
        self.defs.push(register.id);
        Ok(register.id)
    }

    /// A source: a register, a constant, a special register or the address of a variable.
    pub(super) fn source(&mut self, operand: &Operand<'_>, scalar: ScalarType) -> Result<u32, ParseError> {
        let wide = scalar.bytes() == 8;
        match operand {
            Operand::Name(name) => {
                if let Some(Symbol::Register(_)) = self.find(name) {
                    let register = self.named_register(name, wide)?;
                    self.uses.push(register.id);
                    return Ok(register.id);
                }
                if let Some(special) = special(name) {
                    return self.special(special, wide);
                }
                if name.starts_with("%envreg") || name.starts_with("%pm") {
                    return Err(self.name_error(format!("the special register `{name}` is not supported")));
                }
                match self.find(name) {
                    Some(Symbol::Variable(place)) => self.variable_address(place, 0, wide),
                    Some(Symbol::Predicate(_)) => Err(self.name_error(format!("`{name}` is a predicate"))),
                    _ if *name == "WARP_SZ" => Ok(self.constant(32, wide)),
                    _ => Err(self.name_error(format!("`{name}` is not declared"))),
                }
            }
            Operand::NameOffset(name, offset) => match self.find(name) {
                Some(Symbol::Variable(place)) => self.variable_address(place, *offset, wide),
                _ => Err(self.name_error(format!("`{name}` is not a variable"))),
            },
            _ => {
                let value = self.immediate(operand, scalar)?;
                Ok(self.constant(value, wide))
            }
        }
    }

    /// The bits of a literal, in a type.
    pub(super) fn immediate(&self, operand: &Operand<'_>, scalar: ScalarType) -> Result<u64, ParseError> {
        let mask = match scalar.bytes() {
            1 => 0xff,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        match operand {
            Operand::Integer(value) => Ok(value & mask),
            Operand::Float32(bits) if scalar == ScalarType::F64 => Ok(f64::from(f32::from_bits(*bits)).to_bits()),
            Operand::Float32(bits) => Ok(u64::from(*bits)),
            Operand::Float64(bits) if scalar == ScalarType::F32 => Ok((f64::from_bits(*bits) as f32).to_bits().into()),
            Operand::Float64(bits) if scalar.bytes() == 8 => Ok(*bits),
            _ => Err(self.name_error("a register or a number of the instruction's type is expected")),
        }
    }

    /// An integer literal whose value is needed during decoding.
    pub(super) fn literal(&self, opcode: &Opcode<'_>, operand: &Operand<'_>) -> Result<i64, ParseError> {
        match operand {
            Operand::Integer(value) => Ok(value.cast_signed()),
            _ => Err(opcode.error("this operand must be a number")),
        }
    }

    fn special(&mut self, special: Special, wide: bool) -> Result<u32, ParseError> {
        if wide && special == Special::Grid {
            return Ok(self.constant(0, true));
        }
        if wide {
            return Err(self.name_error("a special register of 32 bits is read as one of 64"));
        }
        Ok(self.fixed(SpecialSource::Special(special), false))
    }

    fn variable_address(&mut self, place: SymbolPlace, offset: i64, wide: bool) -> Result<u32, ParseError> {
        let source = match place {
            SymbolPlace::Shared(start) => SpecialSource::Constant(u64::from(start).wrapping_add_signed(offset)),
            SymbolPlace::DynamicShared => SpecialSource::DynamicShared { offset },
            SymbolPlace::Module(index) => SpecialSource::Variable { index, offset },
            SymbolPlace::Local(start) => {
                SpecialSource::Constant((window::LOCAL + u64::from(start)).wrapping_add_signed(offset))
            }
            SymbolPlace::Parameter { offset: start, .. } => {
                let offset = i64::from(start).checked_add(offset).and_then(|offset| u32::try_from(offset).ok());
                let Some(offset) = offset else {
                    return Err(self.name_error("an address outside of the parameters"));
                };
                SpecialSource::ParameterAddress { offset }
            }
        };
        if !wide && matches!(source, SpecialSource::Variable { .. }) {
            return Err(self.name_error("a global variable's address has 64 bits"));
        }
        Ok(self.fixed(source, wide))
    }

    /// `[base + offset]`
    pub(super) fn address(&mut self, operand: &Operand<'_>) -> Result<AddressOperand, ParseError> {
        let Operand::Address { base, offset, coordinates } = operand else {
            return Err(self.name_error("an address in brackets is expected"));
        };
        if !coordinates.is_empty() {
            return Err(self.name_error("an address without coordinates is expected"));
        }
        self.address_of(base, *offset)
    }

    pub(super) fn address_of(&mut self, base: &Operand<'_>, offset: i64) -> Result<AddressOperand, ParseError> {
        match base {
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Register(register)) => {
                    self.uses.push(register.id);
                    if !matches!(register.scalar.bytes(), 4 | 8) {
                        return Err(self.name_error(format!(
                            "register `{name}` is not an address: it has {} bits",
                            register.scalar.bytes() * 8
                        )));
                    }
                    Ok(AddressOperand { row: register.id, wide: register.is_wide(), offset })
                }
                Some(Symbol::Variable(place)) => {
                    let wide = !matches!(place, SymbolPlace::Shared(_) | SymbolPlace::DynamicShared);
                    let row = self.variable_address(place, 0, wide)?;
                    Ok(AddressOperand { row, wide, offset })
                }
                _ => Err(self.name_error(format!("`{name}` is neither a register nor a variable"))),
            },
            Operand::Integer(value) => {
                let row = self.constant(*value, true);
                Ok(AddressOperand { row, wide: true, offset })
            }
            _ => Err(self.name_error("a register or variable is expected as address")),
        }
    }

    /// The variable that an address operand names, if it names one.
    pub(super) fn place_of(&self, operand: &Operand<'_>) -> Option<(SymbolPlace, i64)> {
        let Operand::Address { base, offset, .. } = operand else { return None };
        let Operand::Name(name) = **base else { return None };
        match self.find(name) {
            Some(Symbol::Variable(place)) => Some((place, *offset)),
            _ => None,
        }
    }

    pub(super) fn predicate_name(&self, name: &str) -> Result<u16, ParseError> {
        match self.find(name) {
            Some(Symbol::Predicate(index)) => Ok(index),
            _ => Err(self.name_error(format!("`{name}` is not a predicate"))),
        }
    }

    /// A source predicate: `p`, `!p`, or a constant.
    pub(super) fn predicate(&mut self, operand: &Operand<'_>) -> Result<PredicateOperand, ParseError> {
        match operand {
            Operand::Name(name) | Operand::Not(name) => {
                let index = self.predicate_name(name)?;
                self.predicate_uses.push(index);
                Ok(PredicateOperand { index, negated: matches!(operand, Operand::Not(_)) })
            }
            Operand::Integer(0) => Ok(PredicateOperand { index: FALSE, negated: false }),
            Operand::Integer(_) => Ok(PredicateOperand { index: TRUE, negated: false }),
            _ => Err(self.name_error("a predicate is expected")),
        }
    }

    /// A destination predicate; `_` gives the sink.
    pub(super) fn predicate_destination(&mut self, name: &str) -> Result<u16, ParseError> {
        if name == "_" {
            return Ok(PREDICATE_SINK);
        }
        let index = self.predicate_name(name)?;
        self.predicate_defs.push(index);
        Ok(index)
    }
}

/// The elements of `{a, b}`, or the operand itself.
pub(super) fn elements_of<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

/// The special register of this name, if its value is constant while a block runs.
fn special(name: &str) -> Option<Special> {
    let axis = |prefix: &str| match name.strip_prefix(prefix)? {
        ".x" => Some(0),
        ".y" => Some(1),
        ".z" => Some(2),
        _ => None,
    };
    Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::Multiprocessor,
        "%nsmid" => Special::MultiprocessorCount,
        "%gridid" => Special::Grid,
        "%envreg1" => Special::GridWorkspaceHigh,
        "%envreg2" => Special::GridWorkspaceLow,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%cluster_ctarank" => Special::RankInCluster,
        "%cluster_nctarank" => Special::ClusterSize,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" => Special::TotalShared,
        _ => {
            return axis("%tid")
                .map(Special::Thread)
                .or_else(|| axis("%ntid").map(Special::ThreadCount))
                .or_else(|| axis("%ctaid").map(Special::Block))
                .or_else(|| axis("%nctaid").map(Special::BlockCount))
                .or_else(|| axis("%clusterid").map(Special::Cluster))
                .or_else(|| axis("%nclusterid").map(Special::ClusterCount))
                .or_else(|| axis("%cluster_ctaid").map(Special::BlockInCluster))
                .or_else(|| axis("%cluster_nctaid").map(Special::BlocksInCluster));
        }
    })
}
