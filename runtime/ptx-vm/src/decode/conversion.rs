//! `cvt`, `cvta` (PTX ISA §9.7.9.20, §9.7.9.21).

use super::arithmetic::{map1, map2};
use super::bind::convert as fast;
use super::bind::float::{bf16, f16};
use super::bind::integer::{self, b64};
use super::bind::lanes::{Map1, Map2};
use super::bind::local::ConvertLocal;
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::memory::window;
use crate::numerics::convert::{self, Bf16Type, F16Type, FloatCast, Fp8, Integer, Saturation};
use crate::numerics::format::{BF16, F16, F32, F64, Format, Rounding, TF32};
use crate::numerics::packed;
use crate::program::flags::{Widths, when};
use crate::program::{Handler, Instruction};
use crate::syntax::ast::{Operand, ScalarType};

/// The format of a floating-point type with a single element.
pub(super) fn format(scalar: ScalarType) -> Option<Format> {
    Some(match scalar {
        ScalarType::F16 => F16,
        ScalarType::Bf16 => BF16,
        ScalarType::Tf32 => TF32,
        ScalarType::F32 => F32,
        ScalarType::F64 => F64,
        _ => return None,
    })
}

fn integer_kind(scalar: ScalarType) -> Integer {
    let bits = scalar.bytes() * 8;
    if scalar.is_signed() { Integer::signed(bits) } else { Integer::unsigned(bits) }
}

impl<'a> Decoder<'a> {
    /// Decodes a conversion; false if it is another instruction.
    pub(super) fn conversion(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        match opcode.base() {
            "cvt" => {
                let integral = opcode.take_any(&["rni", "rzi", "rmi", "rpi"]);
                let rounding = opcode.rounding();
                let relu = opcode.take("relu");
                let flush = opcode.take("ftz");
                let saturation = match opcode.take_any(&["sat", "satfinite"]) {
                    None => Saturation::None,
                    Some("sat") => Saturation::Unit,
                    Some(_) => Saturation::Finite,
                };
                let (to, from) = (opcode.scalar()?, opcode.scalar()?);
                let cast = FloatCast { rounding: rounding.unwrap_or_default(), flush, saturation, relu };
                if operands.len() == 3 || is_packed(to) || is_packed(from) {
                    self.packed_conversion(opcode, operands, to, from, cast)?;
                } else {
                    self.count(opcode, operands, 2..=2)?;
                    self.plain_conversion(opcode, operands, to, from, cast, integral)?;
                }
            }
            "cvta" => self.address_conversion(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn plain_conversion(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        to: ScalarType,
        from: ScalarType,
        cast: FloatCast,
        integral: Option<&str>,
    ) -> Result<(), ParseError> {
        let nearest = cast == FloatCast::default();
        if let Some(run) = self.fast_conversion(operands, to, from, cast, nearest, integral) {
            return self.fill(self.with(run), operands, [to, from]);
        }
        let rounding = match integral {
            None => cast.rounding,
            Some("rni") => Rounding::NearestEven,
            Some("rzi") => Rounding::TowardZero,
            Some("rmi") => Rounding::Down,
            Some(_) => Rounding::Up,
        };
        let cast = FloatCast { rounding, ..cast };
        // Registers may be wider than the types.
        let (wide_to, wide_from) = (self.is_wide(&operands[0], to), self.is_wide(&operands[1], from));
        let function: Box<dyn Fn(u64) -> u64 + Send + Sync> = match (format(to), format(from)) {
            (Some(to), Some(from)) if integral.is_some() => {
                Box::new(move |bits| convert::float_to_integral(from, to, bits, cast))
            }
            (Some(TF32), Some(F32)) => {
                Box::new(move |bits| convert::f32_to_tf32_with(f32::from_bits(bits as u32), cast).into())
            }
            (Some(to), Some(from)) if from != TF32 && to != TF32 => {
                Box::new(move |bits| convert::float_to_float(from, to, bits, cast))
            }
            (None, Some(from)) if to.is_integer() && (integral.is_some() || from != F32) => {
                let kind = integer_kind(to);
                Box::new(move |bits| extend(kind, convert::float_to_integer(from, kind, bits, rounding, cast.flush)))
            }
            (Some(to), None) if from.is_integer() => {
                let kind = integer_kind(from);
                Box::new(move |bits| convert::integer_to_float(kind, to, bits, cast))
            }
            (None, None) if to.is_integer() && from.is_integer() => {
                let (kind, source) = (integer_kind(to), integer_kind(from));
                let saturate = cast.saturation == Saturation::Unit;
                Box::new(move |bits| extend(kind, convert::integer_to_integer(source, kind, bits, saturate)))
            }
            _ => return Err(opcode.error("this conversion is not supported")),
        };
        let mut i = self.empty();
        i.a = self.source(&operands[1], wide_from)?;
        i.d = self.destination(&operands[0], wide_to)?;
        i.flags = when(Widths::WIDE_D, wide_to.bytes() == 8) | when(Widths::WIDE_A, wide_from.bytes() == 8);
        let narrow_result = self.register_of(&operands[0]).map_or(to.bytes(), |r| r.scalar.bytes());
        let mask = if narrow_result >= 8 { u64::MAX } else { (1 << (8 * narrow_result)) - 1 };
        self.push_general(i, move |[a, ..]| function(a) & mask);
        Ok(())
    }

    /// The type that tells the actual width of the operand's register.
    fn is_wide(&self, operand: &Operand<'_>, scalar: ScalarType) -> ScalarType {
        let bytes = self.register_of(operand).map_or(scalar.bytes(), |r| r.scalar.bytes());
        match bytes {
            8 => ScalarType::B64,
            2 => ScalarType::B16,
            1 => ScalarType::B8,
            _ => ScalarType::B32,
        }
    }

    /// The dedicated handler of a conversion, if it has one and the registers are exactly as wide as the types.
    fn fast_conversion(
        &self,
        operands: &[Operand<'_>],
        to: ScalarType,
        from: ScalarType,
        cast: FloatCast,
        nearest: bool,
        integral: Option<&str>,
    ) -> Option<Handler> {
        use ScalarType::{Bf16, F16, F32, F64, S8, S16, S32, S64, Tf32, U8, U16, U32, U64};
        let declared = |operand, scalar: ScalarType| {
            self.register_of(operand).map_or(scalar.bytes(), |r: super::symbols::Register| r.scalar.bytes())
        };
        let (to_bytes, from_bytes) = (declared(&operands[0], to), declared(&operands[1], from));
        let exact = to_bytes == to.bytes() && from_bytes == from.bytes();
        if let (Some("rzi" | "rni"), F32, S32) = (integral, from, to)
            && exact
            && nearest
        {
            return Some(if integral == Some("rzi") {
                map1!(fast::F32ToS32Truncated)
            } else {
                map1!(fast::F32ToS32Nearest)
            });
        }
        if integral == Some("rni") && (to, from) == (F32, F32) && exact && nearest {
            return Some(map1!(fast::RoundF32));
        }
        if integral.is_some() {
            return None;
        }
        if exact
            && cast == (FloatCast { saturation: Saturation::Unit, ..FloatCast::default() })
            && (to, from) == (F32, F32)
        {
            return Some(map1!(fast::SaturateF32));
        }
        if exact && cast == FloatCast::rounding(Rounding::NearestAway) && (to, from) == (Tf32, F32) {
            return Some(map1!(fast::F32ToTf32));
        }
        if !nearest {
            return None;
        }
        match (to, from) {
            (U64 | S64, U32) if exact => Some(map1!(fast::Zero32To64)),
            (U64 | S64, S32) if exact => Some(map1!(fast::Sign32To64)),
            (U32 | S32, U64 | S64) if exact => Some(map1!(fast::Low32)),
            (U32 | S32, U32 | S32) if exact => Some(map1!(integer::Mov32)),
            (U64 | S64, U64 | S64) if exact => Some(map1!(integer::Mov64)),
            (U16 | S16, U32 | S32) if exact => Some(map1!(fast::Low16)),
            (U16 | S16, U64 | S64) if exact => Some(map1!(fast::Low16Of64)),
            (U32 | S32, U16) if exact => Some(map1!(integer::Mov32)),
            (U32 | S32, S16) if exact => Some(map1!(fast::Sign16To32)),
            // 8-bit values are in wider registers; only the low byte of the source counts.
            (U16 | U32 | S16 | S32, U8) if to_bytes == to.bytes() && from_bytes <= 4 => Some(map1!(fast::Low8)),
            (U32 | S32, S8) if to_bytes == 4 && from_bytes <= 4 => Some(map1!(fast::Sign8To32)),
            (U16 | S16, S8) if to_bytes == 2 && from_bytes <= 4 => Some(map1!(fast::Sign8To16)),
            (F32, S32) if exact => Some(map1!(fast::S32ToF32)),
            (F32, U32) if exact => Some(map1!(fast::U32ToF32)),
            (F64, F32) if exact => Some(map1!(fast::F32ToF64)),
            (F32, F64) if exact => Some(map1!(fast::F64ToF32)),
            (F64, S32) if exact => Some(map1!(fast::S32ToF64)),
            (F64, U32) if exact => Some(map1!(fast::U32ToF64)),
            (F32, F16) if exact => Some(map1!(f16::Widen)),
            (F32, Bf16) if exact => Some(map1!(bf16::Widen)),
            (F16, F32) if exact => Some(map1!(f16::Narrow)),
            (Bf16, F32) if exact => Some(map1!(bf16::Narrow)),
            _ => None,
        }
    }

    /// Conversions to or from pairs.
    fn packed_conversion(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        to: ScalarType,
        from: ScalarType,
        cast: FloatCast,
    ) -> Result<(), ParseError> {
        use ScalarType::{B16, B32, Bf16x2, E4m3x2, E5m2x2, F16x2, F32};
        let fp8 = |scalar| match scalar {
            E4m3x2 => Some(Fp8::E4M3),
            E5m2x2 => Some(Fp8::E5M2),
            _ => None,
        };
        let plain = cast == FloatCast::default();
        let finite = FloatCast { saturation: Saturation::Finite, ..FloatCast::default() };
        match (to, from, operands.len()) {
            (F16x2, F32, 3) if plain => self.fill(self.with(map2!(f16::Narrow2)), operands, [B32, F32, F32]),
            (Bf16x2, F32, 3) if plain => self.fill(self.with(map2!(bf16::Narrow2)), operands, [B32, F32, F32]),
            (F16x2 | Bf16x2, F32, 3) => {
                let mut i = self.empty();
                i.a = self.source(&operands[1], F32)?;
                i.b = self.source(&operands[2], F32)?;
                i.d = self.destination(&operands[0], B32)?;
                let is_f16 = to == F16x2;
                self.push_general(i, move |[a, b, _]| {
                    let (high, low) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
                    if is_f16 {
                        packed::narrow_pair_with::<F16Type>(high, low, cast).into()
                    } else {
                        packed::narrow_pair_with::<Bf16Type>(high, low, cast).into()
                    }
                });
                Ok(())
            }
            (_, F32, 3) if fp8(to).is_some() && (FloatCast { relu: false, ..cast }) == finite => {
                let (kind, relu) = (fp8(to).unwrap_or(Fp8::E4M3), cast.relu);
                let mut i = self.empty();
                i.a = self.source(&operands[1], F32)?;
                i.b = self.source(&operands[2], F32)?;
                i.d = self.destination(&operands[0], B16)?;
                self.push_general(i, move |[a, b, _]| {
                    packed::fp8_pair(kind, f32::from_bits(a as u32), f32::from_bits(b as u32), relu).into()
                });
                Ok(())
            }
            (_, F16x2, 2) if fp8(to).is_some() && (FloatCast { relu: false, ..cast }) == finite => {
                let (kind, relu) = (fp8(to).unwrap_or(Fp8::E4M3), cast.relu);
                let mut i = self.empty();
                i.a = self.source(&operands[1], B32)?;
                i.d = self.destination(&operands[0], B16)?;
                self.push_general(i, move |[a, ..]| packed::fp8_pair_from_f16(kind, a as u32, relu).into());
                Ok(())
            }
            (F16x2, _, 2) if fp8(from).is_some() && (FloatCast { relu: false, ..cast }) == FloatCast::default() => {
                let (kind, relu) = (fp8(from).unwrap_or(Fp8::E4M3), cast.relu);
                let mut i = self.empty();
                i.a = self.source(&operands[1], B16)?;
                i.d = self.destination(&operands[0], B32)?;
                self.push_general(i, move |[a, ..]| packed::f16_pair_from_fp8(kind, a as u16, relu).into());
                Ok(())
            }
            _ => Err(opcode.error("this conversion is not supported")),
        }
    }

    /// `cvta` and `cvta.to`, between a state space and generic addresses.
    fn address_conversion(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let back = opcode.take("to");
        let Some(space) = opcode.take_any(&[
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "const",
            "param",
            "param::entry",
        ]) else {
            return Err(opcode.error("the state space is missing"));
        };
        let scalar = opcode.scalar()?;
        if scalar.bytes() != 8 {
            return Err(opcode.error("only 64-bit addresses are supported"));
        }
        self.count(opcode, operands, 2..=2)?;
        if space == "local" {
            let i = Instruction { imm: back.into(), ..self.with(scalar_handler::<ConvertLocal>()) };
            return self.fill(i, operands, [scalar; 2]);
        }
        if !space.starts_with("shared") {
            return self.fill(self.with(map1!(integer::Mov64)), operands, [scalar; 2]);
        }
        let run = if back { map2!(b64::Sub) } else { map2!(b64::Add) };
        let mut i = self.with(run);
        i.a = self.source(&operands[1], scalar)?;
        i.b = self.constant(window::SHARED, true);
        i.d = self.destination(&operands[0], scalar)?;
        self.push(i);
        Ok(())
    }
}

fn is_packed(scalar: ScalarType) -> bool {
    use ScalarType::{Bf16x2, E4m3x2, E5m2x2, F16x2};
    matches!(scalar, F16x2 | Bf16x2 | E4m3x2 | E5m2x2)
}

/// Extends an integer result to the register's width, according to its sign.
fn extend(kind: Integer, bits: u64) -> u64 {
    convert::extended(kind, bits)
}
