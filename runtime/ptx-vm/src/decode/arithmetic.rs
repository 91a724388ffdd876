//! Integer arithmetic, logic, shifts, bit fields (PTX ISA §9.7.1, §9.7.2, §9.7.8).

use super::bind::compare::{P_AND, P_NOT, P_OR, P_XOR, PredicateLogic};
use super::bind::integer::{self, b16, b32, b64};
use super::bind::lanes::{Map1, Map2, Map3, Sparse2};
use super::bind::moves;
use super::bind::{handler, scalar_handler};
use super::decoder::{CARRY, Decoder};
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::program::Handler;
use crate::program::Instruction;
use crate::program::flags::{CarryFlags, Widths, when};
use crate::syntax::ast::{Operand, ScalarType};

macro_rules! map1 {
    ($f:ty) => {
        handler::<Map1<$f>>()
    };
}
macro_rules! map2 {
    ($f:ty) => {
        handler::<Map2<$f>>()
    };
}
macro_rules! map3 {
    ($f:ty) => {
        handler::<Map3<$f>>()
    };
}
pub(super) use {map1, map2, map3};

/// The handlers of a function, by width and sign.
macro_rules! by_type {
    ($scalar:expr, $map:ident, $u:ident, $s:ident) => {{
        use ScalarType::*;
        match $scalar {
            U16 | B16 => Some($map!(b16::$u)),
            S16 => Some($map!(b16::$s)),
            U32 | B32 => Some($map!(b32::$u)),
            S32 => Some($map!(b32::$s)),
            U64 | B64 => Some($map!(b64::$u)),
            S64 => Some($map!(b64::$s)),
            _ => None,
        }
    }};
    ($scalar:expr, $map:ident, $f:ident) => {
        by_type!($scalar, $map, $f, $f)
    };
}

macro_rules! sparse2 {
    ($f:ty) => {
        scalar_handler::<Sparse2<$f>>()
    };
}

impl<'a> Decoder<'a> {
    /// Decodes an integer instruction; false if it is another one.
    pub(super) fn arithmetic(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        match opcode.base() {
            "add" | "sub" | "min" | "max" | "neg" | "abs" | "mul" | "mad" | "div" => {
                if is_float(opcode.text) {
                    return Ok(false);
                }
                self.integer_arithmetic(opcode, operands)?;
            }
            "addc" | "subc" | "madc" => self.carry(opcode, operands)?,
            "rem" => {
                let scalar = opcode.scalar()?;
                let run = by_type!(scalar, sparse2, RemU, RemS);
                self.binary(opcode, operands, run, scalar)?;
            }
            "sad" => {
                let scalar = opcode.scalar()?;
                let run = by_type!(scalar, map3, SadU, SadS);
                self.ternary(opcode, operands, run, [scalar; 4])?;
            }
            "mul24" | "mad24" => self.mul24(opcode, operands)?,
            "and" | "or" | "xor" | "not" | "cnot" => self.logic(opcode, operands)?,
            "shl" | "shr" | "shf" => self.shift(opcode, operands)?,
            "lop3" => {
                opcode.take("b32");
                self.count(opcode, operands, 5..=5)?;
                let mut i = self.with(handler::<moves::Lop3>());
                i.imm = self.literal(opcode, &operands[4])? & 0xff;
                self.fill(i, operands, [ScalarType::B32; 4])?;
            }
            "prmt" | "dp4a" | "dp2a" | "bfe" | "bfi" | "bfind" | "brev" | "popc" | "clz" | "bmsk" | "szext" => {
                self.bits(opcode, operands)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Emits `d = f(a, …)`. `types` has the type of the destination, then that of each source.
    pub(super) fn fill<const N: usize>(
        &mut self,
        mut i: Instruction,
        operands: &[Operand<'_>],
        types: [ScalarType; N],
    ) -> Result<(), ParseError> {
        if operands.len() < N {
            return Err(self.name_error(format!("{N} operands are expected")));
        }
        let mut rows = [0; 3];
        for n in 1..N {
            rows[n - 1] = self.source(&operands[n], types[n])?;
        }
        [i.a, i.b, i.c] = rows;
        i.d = self.destination(&operands[0], types[0])?;
        self.push(i);
        Ok(())
    }

    pub(super) fn unary(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        run: Option<Handler>,
        types: [ScalarType; 2],
    ) -> Result<(), ParseError> {
        self.count(opcode, operands, 2..=2)?;
        let run = run.ok_or_else(|| opcode.error("this type is not supported"))?;
        self.fill(self.with(run), operands, types)
    }

    pub(super) fn binary(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        run: Option<Handler>,
        scalar: ScalarType,
    ) -> Result<(), ParseError> {
        self.count(opcode, operands, 3..=3)?;
        let run = run.ok_or_else(|| opcode.error("this type is not supported"))?;
        self.fill(self.with(run), operands, [scalar; 3])
    }

    pub(super) fn ternary(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        run: Option<Handler>,
        types: [ScalarType; 4],
    ) -> Result<(), ParseError> {
        self.count(opcode, operands, 4..=4)?;
        let run = run.ok_or_else(|| opcode.error("this type is not supported"))?;
        self.fill(self.with(run), operands, types)
    }

    fn integer_arithmetic(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take("cc") {
            return self.carry_with(opcode, operands, false);
        }
        match opcode.base() {
            "mul" | "mad" => return self.product(opcode, operands),
            _ => {}
        }
        let saturate = opcode.take("sat");
        let relu = opcode.take("relu");
        if opcode.take("u16x2") || opcode.take("s16x2") {
            return self.packed_integers(opcode, operands, saturate || relu);
        }
        let scalar = opcode.scalar()?;
        let s32 = scalar == ScalarType::S32;
        let run = match opcode.base() {
            "add" if saturate => s32.then(|| map2!(integer::AddSatS32)),
            "sub" if saturate => s32.then(|| map2!(integer::SubSatS32)),
            "min" if relu => s32.then(|| map2!(integer::Min32Relu)),
            "max" if relu => s32.then(|| map2!(integer::Max32Relu)),
            "min" if relu && s32 => {
                return self.clamped_extremum(opcode, operands, |x, y| (x as i32).min(y as i32).max(0) as u32);
            }
            _ if saturate || relu => None,
            "add" => by_type!(scalar, map2, Add),
            "sub" => by_type!(scalar, map2, Sub),
            "min" => by_type!(scalar, map2, MinU, MinS),
            "max" => by_type!(scalar, map2, MaxU, MaxS),
            "div" => by_type!(scalar, sparse2, DivU, DivS),
            "neg" => by_type!(scalar, map1, Neg),
            _ => by_type!(scalar, map1, Abs),
        };
        if matches!(opcode.base(), "neg" | "abs") {
            return self.unary(opcode, operands, run, [scalar; 2]);
        }
        self.binary(opcode, operands, run, scalar)
    }

    /// `min.relu`, `max.relu`: 32 bits in, 32 bits out.
    fn clamped_extremum(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        function: impl Fn(u32, u32) -> u32 + Send + Sync + 'static,
    ) -> Result<(), ParseError> {
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.empty();
        i.a = self.source(&operands[1], ScalarType::B32)?;
        i.b = self.source(&operands[2], ScalarType::B32)?;
        i.d = self.destination(&operands[0], ScalarType::B32)?;
        self.push_general(i, move |[x, y, _]| function(x as u32, y as u32).into());
        Ok(())
    }

    fn packed_integers(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        modified: bool,
    ) -> Result<(), ParseError> {
        let signed = opcode.text.contains("s16x2");
        if modified && signed && matches!(opcode.base(), "min" | "max") && opcode.text.contains("relu") {
            let maximum = opcode.base() == "max";
            return self.clamped_extremum(opcode, operands, move |x, y| {
                crate::numerics::packed::map2(x, y, |x, y| {
                    let (x, y) = (x.cast_signed(), y.cast_signed());
                    let kept = if maximum { x.max(y) } else { x.min(y) };
                    kept.max(0).cast_unsigned()
                })
            });
        }
        let run = match (opcode.base(), signed) {
            _ if modified => None,
            ("add", _) => Some(map2!(integer::AddPair)),
            ("min", false) => Some(map2!(integer::MinPairU)),
            ("max", false) => Some(map2!(integer::MaxPairU)),
            ("min", true) => Some(map2!(integer::MinPairS)),
            ("max", true) => Some(map2!(integer::MaxPairS)),
            _ => None,
        };
        self.binary(opcode, operands, run, ScalarType::B32)
    }

    fn product(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        use ScalarType::{S16, S32, U16, U32};
        let mode = opcode.take_any(&["lo", "hi", "wide"]).unwrap_or("lo");
        let saturate = opcode.take("sat");
        let scalar = opcode.scalar()?;
        let mad = opcode.base() == "mad";
        if mode == "wide" {
            let run = match (scalar, mad) {
                (U16, false) => Some(map2!(integer::MulWideU16)),
                (S16, false) => Some(map2!(integer::MulWideS16)),
                (U32, false) => Some(map2!(integer::MulWideU32)),
                (S32, false) => Some(map2!(integer::MulWideS32)),
                (U16, true) => Some(map3!(integer::MadWideU16)),
                (S16, true) => Some(map3!(integer::MadWideS16)),
                (U32, true) => Some(map3!(integer::MadWideU32)),
                (S32, true) => Some(map3!(integer::MadWideS32)),
                _ => None,
            };
            let wide = if scalar.bytes() == 2 { ScalarType::B32 } else { ScalarType::B64 };
            if mad {
                return self.ternary(opcode, operands, run, [wide, scalar, scalar, wide]);
            }
            self.count(opcode, operands, 3..=3)?;
            let run = run.ok_or_else(|| opcode.error("this type is not supported"))?;
            return self.fill(self.with(run), operands, [wide, scalar, scalar]);
        }
        let run = match (mode, mad, saturate) {
            ("hi", true, true) if scalar == S32 => Some(map3!(integer::MadHiSatS32)),
            (_, _, true) => None,
            ("lo", false, _) => by_type!(scalar, map2, MulLo),
            ("hi", false, _) => by_type!(scalar, map2, MulHiU, MulHiS),
            ("lo", true, _) => by_type!(scalar, map3, MadLo),
            _ => by_type!(scalar, map3, MadHiU, MadHiS),
        };
        if mad {
            return self.ternary(opcode, operands, run, [scalar; 4]);
        }
        self.binary(opcode, operands, run, scalar)
    }

    fn mul24(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let low = opcode.take("lo");
        let scalar = opcode.scalar()?;
        let signed = scalar == ScalarType::S32;
        if opcode.base() == "mul24" {
            let run = low.then(|| if signed { map2!(integer::Mul24LoS) } else { map2!(integer::Mul24LoU) });
            return self.binary(opcode, operands, run, scalar);
        }
        let run = low.then(|| if signed { map3!(integer::Mad24LoS) } else { map3!(integer::Mad24LoU) });
        self.ternary(opcode, operands, run, [scalar; 4])
    }

    /// `addc`, `subc`, `madc`, with or without `.cc`.
    fn carry(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        self.carry_with(opcode, operands, true)
    }

    fn carry_with(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        carry_in: bool,
    ) -> Result<(), ParseError> {
        let carry_out = !carry_in || opcode.take("cc");
        let mad = opcode.base().starts_with("mad");
        let mut flags = when(CarryFlags::CARRY_IN, carry_in) | when(CarryFlags::CARRY_OUT, carry_out);
        if opcode.base().starts_with("sub") {
            flags |= CarryFlags::SUBTRACT.bits();
        }
        if mad {
            flags |= if opcode.take("hi") { CarryFlags::PRODUCT_HIGH.bits() } else { CarryFlags::PRODUCT_LOW.bits() };
            opcode.take("lo");
        }
        let scalar = opcode.scalar()?;
        if scalar.is_signed() {
            flags |= CarryFlags::SIGNED.bits();
        }
        if !matches!(scalar.bytes(), 4 | 8) {
            return Err(opcode.error("this type is not supported"));
        }
        let mut i = self.with(scalar_handler::<moves::Carry>());
        i.flags = flags | when(Widths::WIDE_D, scalar.bytes() == 8);
        i.p = CARRY;
        if mad {
            self.count(opcode, operands, 4..=4)?;
            return self.fill(i, operands, [scalar; 4]);
        }
        self.count(opcode, operands, 3..=3)?;
        self.fill(i, operands, [scalar; 3])
    }

    fn logic(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let scalar = opcode.scalar()?;
        let base = opcode.base();
        if scalar == ScalarType::Pred {
            return self.predicate_logic(opcode, operands);
        }
        let run = match base {
            "and" => by_type!(scalar, map2, And),
            "or" => by_type!(scalar, map2, Or),
            "xor" => by_type!(scalar, map2, Xor),
            "not" => by_type!(scalar, map1, Not),
            _ => by_type!(scalar, map1, Cnot),
        };
        if matches!(base, "not" | "cnot") {
            return self.unary(opcode, operands, run, [scalar; 2]);
        }
        self.binary(opcode, operands, run, scalar)
    }

    fn predicate_logic(&mut self, opcode: &Opcode<'_>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let (run, sources): (Handler, usize) = match opcode.base() {
            "and" => (handler::<PredicateLogic<P_AND>>(), 2),
            "or" => (handler::<PredicateLogic<P_OR>>(), 2),
            "xor" => (handler::<PredicateLogic<P_XOR>>(), 2),
            "not" => (handler::<PredicateLogic<P_NOT>>(), 1),
            _ => return Err(opcode.error("this type is not supported")),
        };
        self.count(opcode, operands, sources + 1..=sources + 1)?;
        let mut i = self.with(run);
        let Operand::Name(name) = operands[0] else {
            return Err(opcode.error("a predicate is expected as destination"));
        };
        i.p = self.predicate_destination(name)?;
        i.imm = self.plain_predicate(opcode, &operands[1])?.into();
        if sources == 2 {
            i.q = self.plain_predicate(opcode, &operands[2])?;
        }
        self.push(i);
        Ok(())
    }

    fn plain_predicate(&mut self, opcode: &Opcode<'_>, operand: &Operand<'_>) -> Result<u16, ParseError> {
        let predicate = self.predicate(operand)?;
        if predicate.negated {
            Err(opcode.error("a negated predicate is not allowed here"))
        } else {
            Ok(predicate.index)
        }
    }

    fn shift(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let base = opcode.base();
        if base == "shf" {
            let left = opcode.take_any(&["l", "r"]) == Some("l");
            let clamp = opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
            let scalar = opcode.scalar()?;
            let run = match (left, clamp) {
                (true, true) => map3!(integer::ShfLClamp),
                (true, false) => map3!(integer::ShfLWrap),
                (false, true) => map3!(integer::ShfRClamp),
                (false, false) => map3!(integer::ShfRWrap),
            };
            return self.ternary(opcode, operands, Some(run), [scalar; 4]);
        }
        let scalar = opcode.scalar()?;
        let run = if base == "shl" { by_type!(scalar, map2, Shl) } else { by_type!(scalar, map2, ShrU, ShrS) };
        self.count(opcode, operands, 3..=3)?;
        let run = run.ok_or_else(|| opcode.error("this type is not supported"))?;
        self.fill(self.with(run), operands, [scalar, scalar, ScalarType::U32])
    }

    fn bits(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        use ScalarType::{B32, B64, S32, S64, U32, U64};
        match opcode.base() {
            "prmt" => {
                opcode.take("b32");
                let run = match opcode.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
                    None => map3!(integer::PrmtIndex),
                    Some("f4e") => map3!(integer::PrmtF4e),
                    Some("b4e") => map3!(integer::PrmtB4e),
                    Some("rc8") => map3!(integer::PrmtRc8),
                    Some("ecl") => map3!(integer::PrmtEcl),
                    Some("ecr") => map3!(integer::PrmtEcr),
                    Some(_) => map3!(integer::PrmtRc16),
                };
                self.ternary(opcode, operands, Some(run), [B32; 4])
            }
            "dp4a" => {
                let (a, b) = (opcode.scalar()?.is_signed(), opcode.scalar()?.is_signed());
                let run = match (a, b) {
                    (false, false) => map3!(integer::Dp4aUU),
                    (false, true) => map3!(integer::Dp4aUS),
                    (true, false) => map3!(integer::Dp4aSU),
                    (true, true) => map3!(integer::Dp4aSS),
                };
                self.ternary(opcode, operands, Some(run), [B32; 4])
            }
            "dp2a" => {
                let high = opcode.take_any(&["lo", "hi"]) == Some("hi");
                let (a, b) = (opcode.scalar()?.is_signed(), opcode.scalar()?.is_signed());
                self.count(opcode, operands, 4..=4)?;
                let mut i = self.empty();
                i.a = self.source(&operands[1], B32)?;
                i.b = self.source(&operands[2], B32)?;
                i.c = self.source(&operands[3], B32)?;
                i.d = self.destination(&operands[0], B32)?;
                self.push_general(i, move |[x, y, z]| {
                    crate::numerics::integer::dp2a(x as u32, a, y as u32, b, z as u32, high).into()
                });
                Ok(())
            }
            "bfe" => {
                let scalar = opcode.scalar()?;
                let run = match scalar {
                    U32 => Some(map3!(integer::BfeU32)),
                    S32 => Some(map3!(integer::BfeS32)),
                    U64 => Some(map3!(integer::BfeU64)),
                    S64 => Some(map3!(integer::BfeS64)),
                    _ => None,
                };
                self.ternary(opcode, operands, run, [scalar, scalar, U32, U32])
            }
            "bfi" => {
                let scalar = opcode.scalar()?;
                if !matches!(scalar, B32 | B64) {
                    return Err(opcode.error("this type is not supported"));
                }
                self.count(opcode, operands, 5..=5)?;
                let length = self.source(&operands[4], U32)?;
                let mut i = self.with(scalar_handler::<moves::InsertBits>());
                i.list = self.list(&[length]);
                i.flags = when(Widths::WIDE_D, scalar == B64);
                self.fill(i, operands, [scalar, scalar, scalar, U32])
            }
            "bfind" => {
                let shift = opcode.take("shiftamt");
                let scalar = opcode.scalar()?;
                let run = match (scalar, shift) {
                    (U32, false) => Some(map1!(integer::FindU32)),
                    (S32, false) => Some(map1!(integer::FindS32)),
                    (U64, false) => Some(map1!(integer::FindU64)),
                    (S64, false) => Some(map1!(integer::FindS64)),
                    (U32, true) => Some(map1!(integer::FindShiftU32)),
                    (S32, true) => Some(map1!(integer::FindShiftS32)),
                    (U64, true) => Some(map1!(integer::FindShiftU64)),
                    (S64, true) => Some(map1!(integer::FindShiftS64)),
                    _ => None,
                };
                self.unary(opcode, operands, run, [U32, scalar])
            }
            "brev" => {
                let scalar = opcode.scalar()?;
                let run = match scalar {
                    B32 => Some(map1!(integer::Brev32)),
                    B64 => Some(map1!(integer::Brev64)),
                    _ => None,
                };
                self.unary(opcode, operands, run, [scalar; 2])
            }
            "bmsk" => {
                let clamp = opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
                opcode.take("b32");
                let run = if clamp { map2!(integer::MaskClamp) } else { map2!(integer::MaskWrap) };
                self.binary(opcode, operands, Some(run), B32)
            }
            "szext" => {
                let clamp = opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
                let signed = opcode.scalar()?.is_signed();
                self.count(opcode, operands, 3..=3)?;
                let mut i = self.empty();
                i.a = self.source(&operands[1], B32)?;
                i.b = self.source(&operands[2], B32)?;
                i.d = self.destination(&operands[0], B32)?;
                self.push_general(i, move |[x, width, _]| {
                    crate::numerics::integer::szext(x as u32, width as u32, signed, clamp).into()
                });
                Ok(())
            }
            base => {
                let scalar = opcode.scalar()?;
                let run = match (base, scalar) {
                    ("popc", B32) => Some(map1!(integer::Popc32)),
                    ("popc", B64) => Some(map1!(integer::Popc64)),
                    ("clz", B32) => Some(map1!(integer::Clz32)),
                    ("clz", B64) => Some(map1!(integer::Clz64)),
                    _ => None,
                };
                self.unary(opcode, operands, run, [U32, scalar])
            }
        }
    }
}

/// Whether an opcode's type is a floating-point type.
pub(super) fn is_float(opcode: &str) -> bool {
    opcode.split('.').any(|part| matches!(part, "f32" | "f64" | "f16" | "f16x2" | "bf16" | "bf16x2" | "f32x2"))
}
