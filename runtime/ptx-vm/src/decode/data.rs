//! `mov`, `ld`, `st`, and hints about memory (PTX ISA §9.7.9).

use super::arithmetic::map1;
use super::bind::compare::{P_MOV, PredicateLogic};
use super::bind::lanes::Map1;
use super::bind::load_store::{Discard, Load, Store};
use super::bind::{control, convert as fast, integer, moves};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use super::operands::elements_of;
use super::symbols::SymbolPlace;
use crate::error::ParseError;
use crate::memory::window;
use crate::program::Handler;
use crate::program::SpecialSource;
use crate::program::flags::{AccessFlags, GENERIC, GLOBAL, LOCAL, PARAMETER, SCOPE_SHIFT, SHARED, Widths, when};
use crate::syntax::ast::{Operand, ScalarType};

/// The extension of a loaded element to a wider register: the handler, the source, the destination.
type Extension = (Handler, u32, u32);

impl<'a> Decoder<'a> {
    /// Decodes a move, load or store; false if it is another instruction.
    pub(super) fn data(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<bool, ParseError> {
        match opcode.base() {
            "mov" => self.mov(opcode, operands)?,
            "ld" | "ldu" => self.load(opcode, operands)?,
            "st" if !opcode.text.contains(".async") => self.store(opcode, operands)?,
            "discard" => {
                opcode.take("global");
                if !opcode.take("L2") {
                    return Err(opcode.error("`.L2` is missing"));
                }
                self.count(opcode, operands, 2..=2)?;
                if self.literal(opcode, &operands[1])? != 128 {
                    return Err(opcode.error("128 bytes are expected"));
                }
                let address = self.address(&operands[0])?;
                let mut i = self.with(scalar_handler::<Discard>());
                (i.a, i.imm, i.flags) = (address.row, address.offset, address.flag());
                self.push(i);
            }
            "prefetch" | "prefetchu" | "applypriority" => {
                opcode.take_any(&["global", "local"]);
                opcode.take_any(&["L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap", "param", "const"]);
                opcode.skip_cache_hints();
                self.push(self.with(handler::<control::Nothing>()));
            }
            "isspacep" => self.is_in_space(opcode, operands)?,
            "createpolicy" => self.create_policy(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mov(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, 2..=2)?;
        match (&operands[0], &operands[1]) {
            (Operand::Name(name), source) if scalar == ScalarType::Pred => {
                let mut i = self.with(handler::<PredicateLogic<P_MOV>>());
                i.p = self.predicate_destination(name)?;
                let from = self.predicate(source)?;
                if from.negated {
                    return Err(opcode.error("a negated predicate is not allowed here"));
                }
                i.imm = from.index.into();
                self.push(i);
                Ok(())
            }
            _ if scalar == ScalarType::B128 => self.move_halves(&operands[0], &operands[1]),
            (Operand::Vector(parts), source) => self.unpack(opcode, parts, source, scalar),
            (_, Operand::Vector(parts)) => self.pack(opcode, &operands[0], parts, scalar),
            (_, Operand::Name("%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo")) => {
                let mut i = self.with(scalar_handler::<moves::Clock>());
                i.flags = when(Widths::WIDE_D, scalar.bytes() == 8);
                i.d = self.destination(&operands[0], scalar)?;
                self.push(i);
                Ok(())
            }
            _ => {
                let run = if scalar.bytes() == 8 { map1!(integer::Mov64) } else { map1!(integer::Mov32) };
                self.fill(self.with(run), operands, [scalar; 2])
            }
        }
    }

    /// `mov.b128` between 128-bit registers and pairs of 64-bit ones.
    fn move_halves(&mut self, to: &'a Operand<'a>, from: &'a Operand<'a>) -> Result<(), ParseError> {
        let mut sources = [0; 2];
        match from {
            Operand::Vector(parts) if parts.len() == 2 => {
                for (row, part) in sources.iter_mut().zip(parts) {
                    *row = self.source(part, ScalarType::B64)?;
                }
            }
            _ => sources = self.halves(from)?,
        }
        // Through a temporary pair, because `{b, a}` may be copied from `{a, b}`.
        let between = [self.register(true), self.register(true)];
        for (from, to) in sources.into_iter().zip(between) {
            self.move_row(from, to);
        }
        let targets = match to {
            Operand::Vector(parts) if parts.len() == 2 => {
                [self.destination(&parts[0], ScalarType::B64)?, self.destination(&parts[1], ScalarType::B64)?]
            }
            _ => self.halves(to)?,
        };
        for (from, to) in between.into_iter().zip(targets) {
            self.move_row(from, to);
        }
        Ok(())
    }

    /// Copies one 64-bit register to another.
    fn move_row(&mut self, from: u32, to: u32) {
        let mut i = self.with(map1!(integer::Mov64));
        (i.a, i.d) = (from, to);
        (self.uses, self.defs) = (vec![from], vec![to]);
        self.push(i);
    }

    /// The type of one part of a packed value.
    fn part(&self, opcode: &Opcode<'_>, scalar: ScalarType, parts: usize) -> Result<(ScalarType, u32), ParseError> {
        let bits = (scalar.bytes() * 8).checked_div(parts as u32).unwrap_or(0);
        match bits {
            8 => Ok((ScalarType::B8, 8)),
            16 => Ok((ScalarType::B16, 16)),
            32 => Ok((ScalarType::B32, 32)),
            _ => Err(opcode.error(format!("{parts} parts of this type are not supported"))),
        }
    }

    fn pack(
        &mut self,
        opcode: &Opcode<'_>,
        to: &Operand<'_>,
        parts: &[Operand<'_>],
        scalar: ScalarType,
    ) -> Result<(), ParseError> {
        let (part, bits) = self.part(opcode, scalar, parts.len())?;
        let mut rows = vec![];
        for operand in parts {
            rows.push(self.source(operand, part)?);
        }
        let mut i = self.with(handler::<moves::Pack>());
        i.list = self.list(&rows);
        i.imm = parts.len() as i64;
        i.flags = bits << 16 | when(Widths::WIDE_D, scalar.bytes() == 8);
        i.d = self.destination(to, scalar)?;
        self.push(i);
        Ok(())
    }

    fn unpack(
        &mut self,
        opcode: &Opcode<'_>,
        parts: &[Operand<'_>],
        from: &Operand<'_>,
        scalar: ScalarType,
    ) -> Result<(), ParseError> {
        let (part, bits) = self.part(opcode, scalar, parts.len())?;
        let mut i = self.with(handler::<moves::Unpack>());
        i.a = self.source(from, scalar)?;
        let mut rows = vec![];
        for operand in parts {
            rows.push(self.destination(operand, part)?);
        }
        i.list = self.list(&rows);
        i.imm = parts.len() as i64;
        i.flags = bits << 16 | when(Widths::WIDE_A, scalar.bytes() == 8);
        self.push(i);
        Ok(())
    }

    /// The flags of `.weak`, `.volatile`, `.relaxed.scope`, `.acquire.scope` and `.release.scope`.
    fn memory_order(&self, opcode: &mut Opcode<'a>) -> Result<u32, ParseError> {
        let order = match opcode.take_any(&["weak", "volatile", "relaxed", "acquire", "release", "mmio"]) {
            None | Some("weak") => return Ok(0),
            Some("volatile") => return Ok(AccessFlags::STRONG.bits() | 3 << SCOPE_SHIFT),
            Some("acquire") => AccessFlags::STRONG.bits() | AccessFlags::ACQUIRE.bits(),
            Some("release") => AccessFlags::STRONG.bits() | AccessFlags::RELEASE.bits(),
            Some(_) => AccessFlags::STRONG.bits(),
        };
        opcode.take("relaxed");
        Ok(order | self.scope(opcode, None)? << SCOPE_SHIFT)
    }

    /// `.cta`, `.cluster`, `.gpu`, `.sys` as a number.
    pub(super) fn scope(&self, opcode: &mut Opcode<'a>, default: Option<u32>) -> Result<u32, ParseError> {
        match opcode.take_any(&["cta", "cluster", "gpu", "sys"]) {
            Some("cta") => Ok(0),
            Some("cluster") => Ok(1),
            Some("gpu") => Ok(2),
            Some(_) => Ok(3),
            None => default.ok_or_else(|| opcode.error("the scope is missing")),
        }
    }

    /// The state space of a memory instruction.
    pub(super) fn space(&self, opcode: &mut Opcode<'a>) -> u8 {
        match opcode.take_any(&[
            "global",
            "const",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "param",
            "param::entry",
            "param::func",
        ]) {
            None => GENERIC,
            Some("global" | "const") => GLOBAL,
            Some("local") => LOCAL,
            Some("param" | "param::entry" | "param::func") => PARAMETER,
            Some(_) => SHARED,
        }
    }

    fn vector(&self, opcode: &mut Opcode<'a>) -> usize {
        match opcode.take_any(&["v2", "v4"]) {
            None => 1,
            Some("v2") => 2,
            Some(_) => 4,
        }
    }

    fn load(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let order = self.memory_order(opcode)?;
        let space = self.space(opcode);
        let non_coherent = opcode.take("nc");
        let hint = opcode.skip_cache_hints();
        let length = self.vector(opcode);
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, 2..=if hint { 3 } else { 2 })?;
        let elements = elements_of(&operands[0]);
        if elements.len() != length {
            return Err(opcode.error(format!("{} registers for {length} elements", elements.len())));
        }
        let place = self.place_of(&operands[1]);
        if let (PARAMETER, Some((SymbolPlace::Parameter { offset, size }, inner))) = (space, place) {
            return self.load_parameter(opcode, elements, scalar, offset, size, inner);
        }
        let space = match (space, place) {
            (PARAMETER, Some((SymbolPlace::Local(_), _))) => LOCAL,
            (PARAMETER | LOCAL, _) => LOCAL,
            (GENERIC, Some((SymbolPlace::Shared(_) | SymbolPlace::DynamicShared, _))) => SHARED,
            _ => space,
        };
        let pair = scalar == ScalarType::B128;
        if pair && (length > 1 || order != 0) {
            return Err(opcode.error("128 bits are supported as one weak access"));
        }
        let (bytes, length) = if pair { (8, 2) } else { (scalar.bytes(), length) };
        let Some(run) = load_handler(space, bytes, length) else {
            return Err(opcode.error("this type or vector is not supported"));
        };
        let mut i = self.with(run);
        let address = self.address(&operands[1])?;
        (i.a, i.imm) = (address.row, address.offset);
        i.flags = order | address.flag() | when(AccessFlags::NON_COHERENT, non_coherent);
        let mut rows = vec![];
        let mut extensions = vec![];
        if pair {
            rows.extend(self.halves(&operands[0])?);
            self.defs.extend_from_slice(&rows);
        } else {
            for element in elements {
                let (row, extension) = self.loaded(opcode, element, scalar)?;
                rows.push(row);
                extensions.extend(extension);
            }
        }
        if length == 1 {
            i.d = rows[0];
        } else {
            i.list = self.list(&rows);
        }
        if length == 1 && order == 0 {
            self.plain_loads.push((self.code.len(), (address.row, address.offset, bytes)));
        }
        self.push(i);
        for (run, from, to) in extensions {
            let mut extend = self.with(run);
            (extend.a, extend.d) = (from, to);
            self.uses.push(from);
            self.defs.push(to);
            self.extensions.insert(self.code.len());
            self.push(extend);
        }
        Ok(())
    }

    /// The register for a loaded element, and its extension if the register is wider than the element or the element is
    /// signed.
    fn loaded(
        &mut self,
        opcode: &Opcode<'_>,
        operand: &Operand<'_>,
        scalar: ScalarType,
    ) -> Result<(u32, Option<Extension>), ParseError> {
        let Some(register) = self.register_of(operand) else {
            return Ok((self.destination(operand, scalar)?, None));
        };
        let (from, to) = (scalar.bytes(), register.scalar.bytes());
        if to < from {
            return Err(opcode.error("the destination register is narrower than the type"));
        }
        let run = match (from, scalar.is_signed(), to) {
            (8, ..) | (4, _, 4) | (1 | 2, false, 1 | 2 | 4) | (2, true, 2) | (1, true, 1) => {
                self.defs.push(register.id);
                return Ok((register.id, None));
            }
            (4, false, _) | (1 | 2, false, _) => map1!(fast::Zero32To64),
            (4, true, _) => map1!(fast::Sign32To64),
            (2, true, 4) => map1!(fast::Sign16To32),
            (2, true, _) => map1!(fast::Sign16To64),
            (1, true, 2) => map1!(fast::Sign8To16),
            (1, true, 4) => map1!(fast::Sign8To32),
            (1, true, _) => map1!(fast::Sign8To64),
            _ => return Err(opcode.error("this type is not supported")),
        };
        let temporary = self.register(false);
        self.defs.push(temporary);
        Ok((temporary, Some((run, temporary, register.id))))
    }

    /// A parameter at a fixed offset is a row that is filled before the kernel starts.
    fn load_parameter(
        &mut self,
        opcode: &Opcode<'_>,
        elements: &[Operand<'_>],
        scalar: ScalarType,
        offset: u32,
        size: u32,
        inner: i64,
    ) -> Result<(), ParseError> {
        let bytes = scalar.bytes();
        let total = i64::from(bytes) * elements.len() as i64;
        let inside = inner >= 0 && inner.checked_add(total).is_some_and(|end| end <= i64::from(size));
        if !inside || bytes == 0 || bytes > 8 {
            return Err(opcode.error(format!("{total} bytes at offset {inner} of a parameter of {size} bytes")));
        }
        for (n, element) in elements.iter().enumerate() {
            let offset = offset + inner as u32 + n as u32 * bytes;
            let row = self.fixed(SpecialSource::Parameter { offset, bytes }, bytes == 8);
            let (to, extension) = self.loaded(opcode, element, scalar)?;
            let run = if bytes == 8 { map1!(integer::Mov64) } else { map1!(integer::Mov32) };
            let mut i = self.with(run);
            (i.a, i.d) = (row, to);
            self.push(i);
            if let Some((run, from, to)) = extension {
                let mut extend = self.with(run);
                (extend.a, extend.d) = (from, to);
                self.uses.push(from);
                self.defs.push(to);
                self.push(extend);
            }
        }
        Ok(())
    }

    fn store(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let order = self.memory_order(opcode)?;
        let space = self.space(opcode);
        let hint = opcode.skip_cache_hints();
        let length = self.vector(opcode);
        let scalar = opcode.scalar()?;
        self.count(opcode, operands, 2..=if hint { 3 } else { 2 })?;
        let elements = elements_of(&operands[1]);
        if elements.len() != length {
            return Err(opcode.error(format!("{} registers for {length} elements", elements.len())));
        }
        let place = self.place_of(&operands[0]);
        let space = match (space, place) {
            (PARAMETER, Some((SymbolPlace::Local(_), _))) => LOCAL,
            (PARAMETER, _) => return Err(opcode.error("kernel parameters can't be written")),
            (GENERIC, Some((SymbolPlace::Shared(_) | SymbolPlace::DynamicShared, _))) => SHARED,
            _ => space,
        };
        let pair = scalar == ScalarType::B128;
        if pair && (length > 1 || order != 0) {
            return Err(opcode.error("128 bits are supported as one weak access"));
        }
        let (bytes, length) = if pair { (8, 2) } else { (scalar.bytes(), length) };
        let Some(run) = store_handler(space, bytes, length) else {
            return Err(opcode.error("this type or vector is not supported"));
        };
        let mut rows = vec![];
        if pair {
            rows.extend(self.halves(&operands[1])?);
        } else {
            for element in elements {
                rows.push(self.stored(opcode, element, scalar)?);
            }
        }
        self.uses.extend_from_slice(&rows);
        let mut i = self.with(run);
        let address = self.address(&operands[0])?;
        (i.a, i.imm) = (address.row, address.offset);
        i.flags = order | address.flag();
        if length == 1 {
            i.b = rows[0];
        } else {
            i.list = self.list(&rows);
        }
        self.push(i);
        Ok(())
    }

    /// The register with an element to store. If it is wider, its low part is stored.
    fn stored(&mut self, opcode: &Opcode<'_>, operand: &Operand<'_>, scalar: ScalarType) -> Result<u32, ParseError> {
        let Some(register) = self.register_of(operand) else { return self.source(operand, scalar) };
        let (to, from) = (scalar.bytes(), register.scalar.bytes());
        if from < to {
            return Err(opcode.error("the source register is narrower than the type"));
        }
        if from < 8 || to == 8 {
            return Ok(register.id);
        }
        let uses = std::mem::take(&mut self.uses);
        let temporary = self.register(false);
        let mut i = self.with(map1!(fast::Low32));
        (i.a, i.d) = (register.id, temporary);
        self.uses.push(register.id);
        self.defs.push(temporary);
        self.extensions.insert(self.code.len());
        self.push(i);
        self.uses = uses;
        Ok(temporary)
    }

    fn is_in_space(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let space = self.space(opcode);
        self.count(opcode, operands, 2..=2)?;
        let Operand::Name(name) = operands[0] else {
            return Err(opcode.error("a predicate is expected as destination"));
        };
        let mut i = self.empty();
        i.p = self.predicate_destination(name)?;
        i.a = self.source(&operands[1], ScalarType::U64)?;
        i.flags = Widths::WIDE_A.bits();
        let range = match space {
            SHARED => window::SHARED..window::SHARED_END,
            LOCAL => window::LOCAL..window::SHARED,
            PARAMETER => window::PARAMETERS..window::LOCAL,
            GLOBAL => window::GLOBAL..u64::MAX,
            _ => return Err(opcode.error("the state space is missing")),
        };
        let tagged = space == LOCAL;
        self.push_test(i, move |[address, ..]| match address >> window::OWNER_SHIFT {
            0 => range.contains(&address),
            _ => tagged,
        });
        Ok(())
    }

    /// A cache policy is a number that has no effect here.
    fn create_policy(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        opcode.take_any(&["fractional", "range", "cvt"]);
        opcode.take("L2");
        opcode.take("global");
        opcode.skip_cache_hints();
        opcode.skip_cache_hints();
        opcode.take("b64");
        let Some(to) = operands.first() else { return Err(opcode.error("operands are missing")) };
        let mut i = self.with(map1!(integer::Mov64));
        i.a = self.constant(0, true);
        i.d = self.destination(to, ScalarType::B64)?;
        self.push(i);
        Ok(())
    }
}

macro_rules! by_shape {
    ($operation:ident, $space:ident, $bytes:expr, $length:expr) => {
        match ($bytes, $length) {
            (1, 1) => Some(handler::<$operation<u8, 1, $space>>()),
            (1, 2) => Some(handler::<$operation<u8, 2, $space>>()),
            (1, 4) => Some(handler::<$operation<u8, 4, $space>>()),
            (2, 1) => Some(handler::<$operation<u16, 1, $space>>()),
            (2, 2) => Some(handler::<$operation<u16, 2, $space>>()),
            (2, 4) => Some(handler::<$operation<u16, 4, $space>>()),
            (4, 1) => Some(handler::<$operation<u32, 1, $space>>()),
            (4, 2) => Some(handler::<$operation<u32, 2, $space>>()),
            (4, 4) => Some(handler::<$operation<u32, 4, $space>>()),
            (8, 1) => Some(handler::<$operation<u64, 1, $space>>()),
            (8, 2) => Some(handler::<$operation<u64, 2, $space>>()),
            _ => None,
        }
    };
}

fn load_handler(space: u8, bytes: u32, length: usize) -> Option<Handler> {
    match space {
        GENERIC => by_shape!(Load, GENERIC, bytes, length),
        SHARED => by_shape!(Load, SHARED, bytes, length),
        LOCAL => by_shape!(Load, LOCAL, bytes, length),
        _ => by_shape!(Load, GLOBAL, bytes, length),
    }
}

fn store_handler(space: u8, bytes: u32, length: usize) -> Option<Handler> {
    match space {
        GENERIC => by_shape!(Store, GENERIC, bytes, length),
        SHARED => by_shape!(Store, SHARED, bytes, length),
        LOCAL => by_shape!(Store, LOCAL, bytes, length),
        _ => by_shape!(Store, GLOBAL, bytes, length),
    }
}
