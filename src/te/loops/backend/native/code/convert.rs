//! Conversions between types, and the bit patterns of narrow ones.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::value::scalar_type;
use super::{Translator, Val, unexpected};
use crate::ElementType;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::loops::backend::native::host;

const F64: DType = DType::Number(ElementType::F64);

impl Translator<'_, '_, '_> {
    /// Converts a value to another type. Integers wrap; floating-point numbers are rounded, or truncated to integers,
    /// saturating.
    pub(super) fn converted(&mut self, value: Val, from: DType, to: DType) -> Result<Val, TeError> {
        if from == to {
            return Ok(value);
        }
        if to == DType::Bool {
            return Ok(self.is_not_zero(value, from));
        }
        if from == DType::Bool {
            let number = self.each(value, |this, x| {
                if this.b.func.dfg.value_type(x) == types::I8 {
                    this.b.ins().uextend(types::I32, x)
                } else {
                    this.b.ins().ushr_imm_u(x, 31)
                }
            });
            return self.converted(number, DType::I32, to);
        }
        match (from.is_float(), to.is_float()) {
            (false, false) => self.integer_to_integer(value, from, to),
            (false, true) => self.integer_to_float(value, from, to),
            (true, false) => self.float_to_integer(value, from, to),
            (true, true) => self.float_to_float(value, from, to),
        }
    }

    fn is_not_zero(&mut self, value: Val, from: DType) -> Val {
        let many = matches!(value, Val::Many(_));
        if many && matches!(scalar_type(from), types::F64 | types::I64) {
            // This goes through single values, because a comparison of 64-bit lanes gives masks of that width.
            let mut lanes = Vec::new();
            for lane in 0..self.lanes.map_or(0, |lanes| lanes.count) {
                let one = Val::One(self.lane(&value, lane, from));
                let truth = self.is_not_zero(one, from);
                lanes.push(self.lane(&truth, 0, DType::Bool));
            }
            return Val::Many(self.gathered(&lanes, DType::Bool));
        }
        let zero = Val::One(self.constant(0.0, from));
        self.zip(value, zero, from, |this, x, zero| {
            if from.is_float() {
                this.b.ins().fcmp(FloatCC::NotEqual, x, zero)
            } else {
                this.b.ins().icmp(IntCC::NotEqual, x, zero)
            }
        })
    }

    fn integer_to_integer(&mut self, value: Val, from: DType, to: DType) -> Result<Val, TeError> {
        let value = match (scalar_type(from), scalar_type(to)) {
            (types::I64, types::I32) => {
                self.in_lanes(&[(value, from)], DType::I32, &mut |this, x| Ok(this.b.ins().ireduce(types::I32, x[0])))?
            }
            (types::I32, types::I64) => match value {
                Val::One(x) => Val::One(self.b.ins().sextend(types::I64, x)),
                Val::Many(vectors) => Val::Many(
                    vectors
                        .into_iter()
                        .flat_map(|x| [self.b.ins().swiden_low(x), self.b.ins().swiden_high(x)])
                        .collect(),
                ),
            },
            _ => value,
        };
        Ok(self.wrapped(value, to))
    }

    /// An integer wrapped to a type that is narrower than what holds it.
    pub(super) fn wrapped(&mut self, value: Val, dtype: DType) -> Val {
        match dtype.narrow_range() {
            Some((0, greatest)) => self.each(value, |this, x| this.and_bits(x, greatest)),
            Some((_, greatest)) => self.each(value, |this, x| {
                // One bit of the type is the sign.
                let beyond = 31 - i64::from(greatest.count_ones());
                let high = this.b.ins().ishl_imm_u(x, beyond);
                this.b.ins().sshr_imm_u(high, beyond)
            }),
            None => value,
        }
    }

    /// `x & bits`, for one value or every lane.
    fn and_bits(&mut self, x: Value, bits: i64) -> Value {
        let mask = self.same(x, bits);
        self.b.ins().band(x, mask)
    }

    /// An integer of as many bits as a value's lanes have, for one value or every lane.
    fn same(&mut self, like: Value, bits: i64) -> Value {
        let ty = self.b.func.dfg.value_type(like);
        let is_wide = ty.lane_bits() == 64;
        let (lane, lanes) = if is_wide { (types::I64, types::I64X2) } else { (types::I32, types::I32X4) };
        let constant = self.b.ins().iconst(lane, if is_wide { bits } else { bits & 0xffff_ffff });
        if ty.is_vector() { self.b.ins().splat(lanes, constant) } else { constant }
    }

    fn integer_to_float(&mut self, value: Val, from: DType, to: DType) -> Result<Val, TeError> {
        let DType::Number(element) = to else { return Err(unexpected("a truth value as a number")) };
        // Wider integers could be rounded twice. For these, f32 is exact enough.
        let exact = scalar_type(from) == types::I32
            && (from != DType::I32 || matches!(element, ElementType::F64 | ElementType::F32 | ElementType::F16));
        if scalar_type(to) == types::F32 && exact {
            let single = self.each(value, |this, x| {
                let ty = if this.b.func.dfg.value_type(x).is_vector() { types::F32X4 } else { types::F32 };
                this.b.ins().fcvt_from_sint(ty, x)
            });
            return self.narrow(single, to);
        }
        let ty = scalar_type(to);
        self.in_lanes(&[(value, from)], to, &mut |this, x| {
            if let Some(address) = host::round_integer(element) {
                let wide = if scalar_type(from) == types::I64 { x[0] } else { this.b.ins().sextend(types::I64, x[0]) };
                return this.result(address, &[(types::I64, wide)], types::F32);
            }
            Ok(this.b.ins().fcvt_from_sint(ty, x[0]))
        })
    }

    fn float_to_integer(&mut self, value: Val, from: DType, to: DType) -> Result<Val, TeError> {
        if scalar_type(to) == types::I64 || scalar_type(from) == types::F64 {
            let ty = scalar_type(to);
            let whole =
                self.in_lanes(&[(value, from)], to, &mut |this, x| Ok(this.b.ins().fcvt_to_sint_sat(ty, x[0])))?;
            return Ok(self.clamped(whole, to));
        }
        let whole = self.each(value, |this, x| {
            let ty = if this.b.func.dfg.value_type(x).is_vector() { types::I32X4 } else { types::I32 };
            this.b.ins().fcvt_to_sint_sat(ty, x)
        });
        Ok(self.clamped(whole, to))
    }

    /// An integer, limited to the range of a type that is narrower than what holds it.
    fn clamped(&mut self, value: Val, dtype: DType) -> Val {
        let Some((low, high)) = dtype.narrow_range() else { return value };
        self.each(value, |this, x| {
            let (low, high) = (this.same(x, low), this.same(x, high));
            let x = this.smaller(x, low, IntCC::SignedGreaterThan);
            this.smaller(x, high, IntCC::SignedLessThan)
        })
    }

    fn float_to_float(&mut self, value: Val, from: DType, to: DType) -> Result<Val, TeError> {
        match (scalar_type(from), scalar_type(to)) {
            (types::F32, types::F64) => Ok(match value {
                Val::One(x) => Val::One(self.b.ins().fpromote(types::F64, x)),
                Val::Many(vectors) => Val::Many(vectors.into_iter().flat_map(|x| self.promoted_halves(x)).collect()),
            }),
            (types::F64, types::F32) => self.demoted(value, to),
            _ => self.narrow(value, to),
        }
    }

    fn promoted_halves(&mut self, x: Value) -> [Value; 2] {
        let low = self.b.ins().fvpromote_low(x);
        let bytes = self.cast_bits(types::I8X16, x);
        let moved = self.shuffled(bytes, bytes, [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]);
        let moved = self.cast_bits(types::F32X4, moved);
        [low, self.b.ins().fvpromote_low(moved)]
    }

    fn demoted(&mut self, value: Val, to: DType) -> Result<Val, TeError> {
        let DType::Number(element) = to else { return Err(unexpected("a truth value as a number")) };
        if let Some(address) = host::round(element) {
            return self
                .in_lanes(&[(value, F64)], to, &mut |this, x| this.result(address, &[(types::F64, x[0])], types::F32));
        }
        Ok(match value {
            Val::One(x) => Val::One(self.b.ins().fdemote(types::F32, x)),
            Val::Many(vectors) => Val::Many(
                vectors
                    .chunks_exact(2)
                    .map(|pair| {
                        let halves = [pair[0], pair[1]].map(|x| {
                            let half = self.b.ins().fvdemote(x);
                            self.cast_bits(types::I8X16, half)
                        });
                        let places = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
                        let whole = self.shuffled(halves[0], halves[1], places);
                        self.cast_bits(types::F32X4, whole)
                    })
                    .collect(),
            ),
        })
    }

    fn result(&mut self, address: usize, arguments: &[(Type, Value)], ty: Type) -> Result<Value, TeError> {
        self.call(address, arguments, Some(ty)).ok_or_else(|| unexpected("a call without a result"))
    }

    /// An f32 rounded to a narrower type.
    pub(super) fn narrow(&mut self, value: Val, dtype: DType) -> Result<Val, TeError> {
        match dtype {
            DType::Number(ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2) => {
                let bits = self.encoded(value, dtype)?;
                self.decoded(bits, dtype)
            }
            _ => Ok(value),
        }
    }

    /// The bits of values of a narrow type, in 32 bits.
    pub(super) fn encoded(&mut self, value: Val, dtype: DType) -> Result<Val, TeError> {
        let DType::Number(element) = dtype else { return Ok(value) };
        match element {
            ElementType::F16 => Ok(self.each(value, Self::f16_bits)),
            ElementType::BF16 => Ok(self.each(value, Self::bf16_bits)),
            _ => {
                let Some((encode, _)) = host::bits(element) else { return Ok(value) };
                // A value from memory is rounded already; a result of arithmetic is not.
                let round = host::round(element);
                self.in_lanes(&[(value, dtype)], DType::I32, &mut |this, x| {
                    let mut x = x[0];
                    if let Some(round) = round {
                        let wide = this.b.ins().fpromote(types::F64, x);
                        x = this.result(round, &[(types::F64, wide)], types::F32)?;
                    }
                    this.result(encode, &[(types::F32, x)], types::I32)
                })
            }
        }
    }

    /// The values of bits, in 32 bits, of a narrow type.
    pub(super) fn decoded(&mut self, bits: Val, dtype: DType) -> Result<Val, TeError> {
        let DType::Number(element) = dtype else { return Ok(bits) };
        match element {
            ElementType::F16 => Ok(self.each(bits, Self::f16_value)),
            ElementType::BF16 => Ok(self.each(bits, |this, x| {
                let high = this.b.ins().ishl_imm_u(x, 16);
                this.as_floats(high)
            })),
            _ => {
                let Some((_, decode)) = host::bits(element) else { return Ok(bits) };
                self.in_lanes(&[(bits, DType::I32)], dtype, &mut |this, x| {
                    this.result(decode, &[(types::I32, x[0])], types::F32)
                })
            }
        }
    }

    fn as_floats(&mut self, x: Value) -> Value {
        let ty = if self.b.func.dfg.value_type(x).is_vector() { types::F32X4 } else { types::F32 };
        self.cast_bits(ty, x)
    }

    fn as_bits(&mut self, x: Value) -> Value {
        let ty = if self.b.func.dfg.value_type(x).is_vector() { types::I32X4 } else { types::I32 };
        self.cast_bits(ty, x)
    }

    /// `if condition { a } else { b }` of bit patterns, for one value or every lane.
    fn pick(&mut self, condition: Value, a: Value, b: Value) -> Value {
        if self.b.func.dfg.value_type(a).is_vector() {
            self.b.ins().bitselect(condition, a, b)
        } else {
            self.b.ins().select(condition, a, b)
        }
    }

    fn f16_value(&mut self, bits: Value) -> Value {
        let sign = self.and_bits(bits, 0x8000);
        let sign = self.b.ins().ishl_imm_u(sign, 16);
        let magnitude = self.and_bits(bits, 0x7fff);
        let limit = self.same(bits, 0x7c00);
        let special = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, limit);
        // As an f32 with the half's exponent. Multiplication by 2^112 corrects the exponent's bias, for subnormal
        // numbers too.
        let shifted = self.b.ins().ishl_imm_u(magnitude, 13);
        let shifted = self.as_floats(shifted);
        let scale = self.same(bits, i64::from(2f32.powi(112).to_bits()));
        let scale = self.as_floats(scale);
        let scaled = self.b.ins().fmul(shifted, scale);
        let scaled = self.as_bits(scaled);
        let exponent = self.same(bits, 0x7f80_0000);
        let infinite = self.b.ins().bor(scaled, exponent);
        let magnitude = self.pick(special, infinite, scaled);
        let all = self.b.ins().bor(magnitude, sign);
        self.as_floats(all)
    }

    fn f16_bits(&mut self, x: Value) -> Value {
        let bits = self.as_bits(x);
        let sign = self.b.ins().ushr_imm_u(bits, 16);
        let sign = self.and_bits(sign, 0x8000);
        let magnitude = self.and_bits(bits, 0x7fff_ffff);
        // Normal numbers: the exponent's bias changes by 112. Half a unit is added, minus one unless the last bit is
        // odd.
        let last = self.b.ins().ushr_imm_u(magnitude, 13);
        let last = self.and_bits(last, 1);
        let rebias = self.same(bits, 0x0fff - (112 << 23));
        let normal = self.b.ins().iadd(magnitude, rebias);
        let normal = self.b.ins().iadd(normal, last);
        let normal = self.b.ins().ushr_imm_u(normal, 13);
        // Subnormal numbers: near 0.5, an f32's last bit is the smallest step of a half, so the addition rounds.
        let half = self.same(bits, i64::from(0.5f32.to_bits()));
        let (small, half_value) = (self.as_floats(magnitude), self.as_floats(half));
        let small = self.b.ins().fadd(small, half_value);
        let small = self.as_bits(small);
        let small = self.b.ins().isub(small, half);
        let least = self.same(bits, 0x3880_0000);
        let is_small = self.b.ins().icmp(IntCC::SignedLessThan, magnitude, least);
        let finite = self.pick(is_small, small, normal);
        let (beyond, infinity, nan) = (self.same(bits, 0x4780_0000), self.same(bits, 0x7c00), self.same(bits, 0x7e00));
        let is_beyond = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, beyond);
        let code = self.pick(is_beyond, infinity, finite);
        let largest = self.same(bits, 0x7f80_0000);
        let is_nan = self.b.ins().icmp(IntCC::SignedGreaterThan, magnitude, largest);
        let code = self.pick(is_nan, nan, code);
        self.b.ins().bor(code, sign)
    }

    fn bf16_bits(&mut self, x: Value) -> Value {
        let bits = self.as_bits(x);
        let high = self.b.ins().ushr_imm_u(bits, 16);
        let last = self.and_bits(high, 1);
        let half = self.same(bits, 0x7fff);
        let rounded = self.b.ins().iadd(bits, half);
        let rounded = self.b.ins().iadd(rounded, last);
        let rounded = self.b.ins().ushr_imm_u(rounded, 16);
        let quiet = self.same(bits, 0x40);
        let nan = self.b.ins().bor(high, quiet);
        let magnitude = self.and_bits(bits, 0x7fff_ffff);
        let largest = self.same(bits, 0x7f80_0000);
        let is_nan = self.b.ins().icmp(IntCC::SignedGreaterThan, magnitude, largest);
        self.pick(is_nan, nan, rounded)
    }
}
