//! Arithmetic on values of one type.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::value::{scalar_type, vector_type};
use super::{Site, Translator, Val, unexpected};
use crate::ElementType;
use crate::expr::{Body, ExprNode, Function, Op};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::expression::{Binary, Expr};
use crate::te::loops::backend::native::host;
use crate::te::text::expression;

impl Translator<'_, '_, '_> {
    /// `a op b`; `right` is the expression of `b`.
    pub(super) fn binary(&mut self, op: Binary, a: Val, b: Val, right: &Expr) -> Result<Val, TeError> {
        let dtype = right.dtype();
        if dtype.is_float() {
            let operation = match op {
                Binary::Add => Op::Add,
                Binary::Sub => Op::Sub,
                Binary::Mul => Op::Mul,
                Binary::Div => Op::Div,
                Binary::Min => Op::Min,
                Binary::Max => Op::Max,
                Binary::Lt => return Ok(self.float_compare(FloatCC::LessThan, a, b, dtype)),
                Binary::Le => return Ok(self.float_compare(FloatCC::LessThanOrEqual, a, b, dtype)),
                Binary::Gt => return Ok(self.float_compare(FloatCC::GreaterThan, a, b, dtype)),
                Binary::Ge => return Ok(self.float_compare(FloatCC::GreaterThanOrEqual, a, b, dtype)),
                Binary::Eq => return Ok(self.float_compare(FloatCC::Equal, a, b, dtype)),
                Binary::Ne => return Ok(self.float_compare(FloatCC::NotEqual, a, b, dtype)),
                _ => {
                    return Err(ExpressionError::OperandType { operation: format!("{op:?}"), given: dtype }.into());
                }
            };
            return self.apply(operation, vec![a, b], dtype);
        }
        let condition = match op {
            Binary::Lt => IntCC::SignedLessThan,
            Binary::Le => IntCC::SignedLessThanOrEqual,
            Binary::Gt => IntCC::SignedGreaterThan,
            Binary::Ge => IntCC::SignedGreaterThanOrEqual,
            Binary::Eq => IntCC::Equal,
            Binary::Ne => IntCC::NotEqual,
            _ => return self.integers(op, a, b, right),
        };
        // The true one of two truth values is the greater. But its lane is all ones, which compares as the smaller
        // number.
        let ordered = !matches!(condition, IntCC::Equal | IntCC::NotEqual);
        if dtype == DType::Bool && ordered {
            let compared = self.in_lanes(&[(a, dtype), (b, dtype)], DType::Bool, &mut |this, values| {
                Ok(this.b.ins().icmp(condition, values[0], values[1]))
            })?;
            return Ok(compared);
        }
        let result = self.zip(a, b, dtype, |this, a, b| this.b.ins().icmp(condition, a, b));
        Ok(self.mask(result, dtype))
    }

    fn integers(&mut self, op: Binary, a: Val, b: Val, right: &Expr) -> Result<Val, TeError> {
        let dtype = right.dtype();
        let result = match op {
            Binary::FloorDiv | Binary::FloorMod | Binary::Div => {
                let quotient = op != Binary::FloorMod;
                self.in_lanes(&[(a, dtype), (b, dtype)], dtype, &mut |this, values| {
                    Ok(this.floor_division(quotient, values[0], values[1], right))
                })?
            }
            Binary::Shl | Binary::Shr => self.in_lanes(&[(a, dtype), (b, dtype)], dtype, &mut |this, values| {
                Ok(this.shifted(op, values[0], values[1], dtype))
            })?,
            _ => self.zip(a, b, dtype, |this, a, b| match op {
                Binary::Add => this.b.ins().iadd(a, b),
                Binary::Sub => this.b.ins().isub(a, b),
                Binary::Mul => this.b.ins().imul(a, b),
                Binary::Min => this.smaller(a, b, IntCC::SignedLessThan),
                Binary::Max => this.smaller(a, b, IntCC::SignedGreaterThan),
                Binary::And | Binary::BitAnd => this.b.ins().band(a, b),
                Binary::BitXor => this.b.ins().bxor(a, b),
                _ => this.b.ins().bor(a, b),
            }),
        };
        Ok(self.wrapped(result, dtype))
    }

    /// One value, shifted. By as many places as it has bits, or by a negative number, nothing is left but the sign.
    fn shifted(&mut self, op: Binary, x: Value, by: Value, dtype: DType) -> Value {
        let ty = self.b.func.dfg.value_type(x);
        let bits = i64::from(ty.bits());
        let is_within = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, by, bits);
        let (most, zero) = (self.b.ins().iconst(ty, bits - 1), self.b.ins().iconst(ty, 0));
        let places = self.b.ins().select(is_within, by, most);
        let shifted = match op {
            Binary::Shl => self.b.ins().ishl(x, places),
            _ if dtype == DType::U64 => self.b.ins().ushr(x, places),
            _ => return self.b.ins().sshr(x, places),
        };
        self.b.ins().select(is_within, shifted, zero)
    }

    /// The first of two values if a condition holds, else the second.
    pub(super) fn smaller(&mut self, a: Value, b: Value, condition: IntCC) -> Value {
        let chosen = self.b.ins().icmp(condition, a, b);
        if self.b.func.dfg.value_type(a).is_vector() {
            self.b.ins().bitselect(chosen, a, b)
        } else {
            self.b.ins().select(chosen, a, b)
        }
    }

    /// `floor(a / b)` or `a - b * floor(a / b)` of one value. A divisor of zero is recorded, and replaced by 1.
    fn floor_division(&mut self, quotient: bool, a: Value, b: Value, right: &Expr) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        if let Some(by) = right.as_int().filter(|by| *by > 0) {
            return self.divide_by_constant(quotient, a, by, ty);
        }
        let one = self.b.ins().iconst(ty, 1);
        let zero = self.b.ins().iconst(ty, 0);
        let is_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        self.fail_if(is_zero, |this| {
            let nothing = this.integer(0);
            (Site::Division(expression(right)), nothing, nothing)
        });
        // A divisor of -1 gives the negation, which wraps; the processor's instruction would fault.
        let negates = self.b.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let special = self.b.ins().bor(is_zero, negates);
        let by = self.b.ins().select(special, one, b);
        let truncated = self.b.ins().sdiv(a, by);
        let product = self.b.ins().imul(truncated, by);
        let rest = self.b.ins().isub(a, product);
        let sign = self.b.ins().bxor(rest, by);
        let opposite = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, sign, 0);
        let inexact = self.b.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
        let down = self.b.ins().band(opposite, inexact);
        if quotient {
            let down = if ty == types::I8 { down } else { self.b.ins().uextend(ty, down) };
            let floor = self.b.ins().isub(truncated, down);
            let negated = self.b.ins().ineg(a);
            self.b.ins().select(negates, negated, floor)
        } else {
            let up = self.b.ins().iadd(rest, by);
            self.b.ins().select(down, up, rest)
        }
    }

    fn divide_by_constant(&mut self, quotient: bool, a: Value, by: i64, ty: Type) -> Value {
        if by.count_ones() == 1 {
            return if quotient {
                self.b.ins().sshr_imm_u(a, i64::from(by.trailing_zeros()))
            } else {
                self.b.ins().band_imm_u(a, by - 1)
            };
        }
        let divisor = self.b.ins().iconst(ty, by);
        let truncated = self.b.ins().sdiv(a, divisor);
        let product = self.b.ins().imul(truncated, divisor);
        let rest = self.b.ins().isub(a, product);
        let bits = i64::from(ty.bits()) - 1;
        // All ones if the remainder is negative.
        let down = self.b.ins().sshr_imm_u(rest, bits);
        if quotient {
            self.b.ins().iadd(truncated, down)
        } else {
            let up = self.b.ins().band(divisor, down);
            self.b.ins().iadd(rest, up)
        }
    }

    /// Records a failure if a condition holds, and continues.
    pub(super) fn fail_if(&mut self, condition: Value, what: impl FnOnce(&mut Self) -> (Site, Value, Value)) {
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(condition, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        let (site, value, limit) = what(self);
        self.fail(site, value, limit);
        self.b.ins().jump(good, &[]);
        self.b.switch_to_block(good);
    }

    fn float_compare(&mut self, condition: FloatCC, a: Val, b: Val, dtype: DType) -> Val {
        let result = self.zip(a, b, dtype, |this, a, b| this.b.ins().fcmp(condition, a, b));
        self.mask(result, dtype)
    }

    /// Converts the result of a comparison to a truth value: vectors of 64-bit lanes are halved.
    fn mask(&mut self, result: Val, compared: DType) -> Val {
        match result {
            Val::Many(vectors) if matches!(scalar_type(compared), types::F64 | types::I64) => {
                Val::Many(vectors.chunks_exact(2).map(|pair| self.halved(pair[0], pair[1])).collect())
            }
            other => other,
        }
    }

    /// The low halves of the 64-bit lanes of two vectors.
    pub(super) fn halved(&mut self, low: Value, high: Value) -> Value {
        let (low, high) = (self.cast_bits(types::I8X16, low), self.cast_bits(types::I8X16, high));
        let both = self.shuffled(low, high, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
        self.cast_bits(types::I32X4, both)
    }

    /// Bytes of two vectors of bytes.
    pub(super) fn shuffled(&mut self, a: Value, b: Value, places: [u8; 16]) -> Value {
        let mask = self.b.func.dfg.immediates.push(places.as_slice().into());
        self.b.ins().shuffle(a, b, mask)
    }

    /// Takes the bits as another type.
    pub(super) fn cast_bits(&mut self, ty: Type, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        self.b.ins().bitcast(ty, flags, value)
    }

    /// The negation of a truth value.
    pub(super) fn not(&mut self, a: Val) -> Val {
        match a {
            Val::One(value) => Val::One(self.b.ins().bxor_imm_u(value, 1)),
            Val::Many(vectors) => Val::Many(vectors.into_iter().map(|v| self.b.ins().bnot(v)).collect()),
        }
    }

    /// One of two values; both are computed.
    pub(super) fn chosen(&mut self, condition: Val, a: Val, b: Val, dtype: DType) -> Val {
        match (condition, a, b) {
            (Val::One(condition), Val::One(a), Val::One(b)) => Val::One(self.b.ins().select(condition, a, b)),
            (Val::One(condition), a, b) => {
                let (a, b) = (self.spread(a, dtype), self.spread(b, dtype));
                let pairs = a.into_iter().zip(b);
                Val::Many(pairs.map(|(a, b)| self.b.ins().select(condition, a, b)).collect())
            }
            (Val::Many(masks), a, b) => {
                let (a, b) = (self.spread(a, dtype), self.spread(b, dtype));
                let ty = vector_type(dtype);
                let wide = matches!(ty, types::F64X2 | types::I64X2);
                let masks: Vec<Value> = if wide {
                    masks
                        .into_iter()
                        .flat_map(|mask| [self.b.ins().swiden_low(mask), self.b.ins().swiden_high(mask)])
                        .collect()
                } else {
                    masks
                };
                let parts = masks.into_iter().zip(a.into_iter().zip(b));
                Val::Many(
                    parts
                        .map(|(mask, (a, b))| {
                            let mask = self.cast_bits(ty, mask);
                            self.b.ins().bitselect(mask, a, b)
                        })
                        .collect(),
                )
            }
        }
    }

    /// A primitive operation of floating-point numbers of one type.
    pub(super) fn apply(&mut self, op: Op, mut operands: Vec<Val>, dtype: DType) -> Result<Val, TeError> {
        let double = scalar_type(dtype) == types::F64;
        let result = match (op, operands.as_mut_slice()) {
            (Op::Neg, [x]) => self.each(x.clone(), |this, x| this.b.ins().fneg(x)),
            (Op::Abs, [x]) => self.each(x.clone(), |this, x| this.b.ins().fabs(x)),
            (Op::Sqrt, [x]) => self.each(x.clone(), |this, x| this.b.ins().sqrt(x)),
            (Op::Floor, [x]) => self.each(x.clone(), |this, x| this.b.ins().floor(x)),
            (Op::Ceil, [x]) => self.each(x.clone(), |this, x| this.b.ins().ceil(x)),
            (Op::Round, [x]) => self.each(x.clone(), Self::rounded_away),
            (Op::Recip, [x]) => {
                let one = Val::One(self.constant(1.0, dtype));
                self.zip(one, x.clone(), dtype, |this, a, b| this.b.ins().fdiv(a, b))
            }
            (Op::Rsqrt, [x]) => self.reciprocal_root(x.clone(), dtype)?,
            (Op::Add, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fadd(a, b)),
            (Op::Sub, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fsub(a, b)),
            (Op::Mul, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fmul(a, b)),
            (Op::Div, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fdiv(a, b)),
            // Cranelift's are IEEE 754-2019's `minimum` and `maximum`: NaN goes through, and -0 is below +0.
            (Op::Min, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fmin(a, b)),
            (Op::Max, [a, b]) => self.zip(a.clone(), b.clone(), dtype, |this, a, b| this.b.ins().fmax(a, b)),
            (Op::Fma, [_, _, _]) if self.unit.fused => self.fused(operands, dtype),
            (Op::Pow | Op::Fma, _) => self.called(op, &operands, dtype)?,
            (_, [x]) => {
                let Some(address) = host::unary(op, double) else { return Err(unexpected(&format!("{op:?}"))) };
                let ty = scalar_type(dtype);
                self.in_lanes(&[(x.clone(), dtype)], dtype, &mut |this, values| {
                    this.call(address, &[(ty, values[0])], Some(ty))
                        .ok_or_else(|| unexpected("a call without a result"))
                })?
            }
            _ => return Err(unexpected(&format!("the operation {op:?}"))),
        };
        self.narrow(result, dtype)
    }

    /// To the nearest integer, halves away from zero.
    fn rounded_away(&mut self, x: Value) -> Value {
        let ty = self.b.func.dfg.value_type(x);
        let double = ty.lane_type() == types::F64;
        // The largest number below one half. With 0.5 itself, the next number below 0.5 would be rounded up.
        let half =
            if double { self.b.ins().f64const(0.5f64.next_down()) } else { self.b.ins().f32const(0.5f32.next_down()) };
        let minus_half = self.b.ins().fneg(half);
        let (half, minus_half, zero) = if ty.is_vector() {
            let zero = if double { self.b.ins().f64const(0.0) } else { self.b.ins().f32const(0.0) };
            let [half, minus_half, zero] = [half, minus_half, zero].map(|x| self.b.ins().splat(ty, x));
            (half, minus_half, zero)
        } else {
            let zero = if double { self.b.ins().f64const(0.0) } else { self.b.ins().f32const(0.0) };
            (half, minus_half, zero)
        };
        let negative = self.b.ins().fcmp(FloatCC::LessThan, x, zero);
        let step = if ty.is_vector() {
            let mask = self.cast_bits(ty, negative);
            self.b.ins().bitselect(mask, minus_half, half)
        } else {
            self.b.ins().select(negative, minus_half, half)
        };
        let moved = self.b.ins().fadd(x, step);
        let rounded = self.b.ins().trunc(moved);
        // A zero keeps its sign: it is not below 0, and adding a half would lose it.
        let zeros = self.b.ins().fcmp(FloatCC::Equal, x, zero);
        if ty.is_vector() {
            let mask = self.cast_bits(ty, zeros);
            self.b.ins().bitselect(mask, x, rounded)
        } else {
            self.b.ins().select(zeros, x, rounded)
        }
    }

    /// `1 / sqrt(x)`, computed in f64 and rounded to f32 once.
    fn reciprocal_root(&mut self, x: Val, dtype: DType) -> Result<Val, TeError> {
        let f64s = DType::from(ElementType::F64);
        let wide = self.converted(x, dtype, f64s)?;
        let one = Val::One(self.constant(1.0, f64s));
        let root = self.each(wide, |this, x| this.b.ins().sqrt(x));
        let result = self.zip(one, root, f64s, |this, a, b| this.b.ins().fdiv(a, b));
        if scalar_type(dtype) == types::F64 { Ok(result) } else { self.converted(result, f64s, DType::F32) }
    }

    fn fused(&mut self, operands: Vec<Val>, dtype: DType) -> Val {
        if operands.iter().all(|x| matches!(x, Val::One(_))) {
            let [x, y, z] = [0, 1, 2].map(|i| self.lane(&operands[i], 0, dtype));
            return Val::One(self.b.ins().fma(x, y, z));
        }
        let parts: Vec<Vec<Value>> = operands.into_iter().map(|x| self.spread(x, dtype)).collect();
        let fused = (0..parts[0].len()).map(|i| self.b.ins().fma(parts[0][i], parts[1][i], parts[2][i]));
        Val::Many(fused.collect())
    }

    /// An operation that calls a function of the host.
    fn called(&mut self, op: Op, operands: &[Val], dtype: DType) -> Result<Val, TeError> {
        let address = match (op, scalar_type(dtype) == types::F64) {
            (Op::Pow, false) => host::pow_single as *const () as usize,
            (Op::Pow, true) => host::pow_double as *const () as usize,
            (_, false) => host::fma_single as *const () as usize,
            (_, true) => host::fma_double as *const () as usize,
        };
        let ty = scalar_type(dtype);
        let operands: Vec<(Val, DType)> = operands.iter().map(|x| (x.clone(), dtype)).collect();
        self.in_lanes(&operands, dtype, &mut |this, values| {
            let arguments: Vec<(Type, Value)> = values.iter().map(|value| (ty, *value)).collect();
            this.call(address, &arguments, Some(ty)).ok_or_else(|| unexpected("a call without a result"))
        })
    }

    /// An elementwise function, by its definition: computed in f32 or f64, and rounded to the element type once.
    pub(super) fn function(&mut self, function: &Function, operands: &[Val], dtype: DType) -> Result<Val, TeError> {
        let expression = match function.body() {
            Body::Primitive(op) => return self.apply(*op, operands.to_vec(), dtype),
            Body::Expression(expression) => expression,
        };
        let real = if scalar_type(dtype) == types::F64 { dtype } else { DType::F32 };
        let mut values: Vec<Val> = Vec::with_capacity(expression.nodes().len());
        for node in expression.nodes() {
            let operand = |place: usize| node.operands().get(place).map(|id| values[id.index()].clone());
            let missing = || unexpected(&format!("{} with an operand missing", function.name()));
            let value = match node {
                ExprNode::Parameter(place) => operands.get(*place).cloned().ok_or_else(missing)?,
                ExprNode::Literal(value) => Val::One(self.constant(*value, real)),
                ExprNode::Apply(Op::Select, _) => {
                    let parts = operand(0).zip(operand(1)).zip(operand(2)).ok_or_else(missing)?;
                    let ((condition, a), b) = parts;
                    self.chosen(condition, a, b, real)
                }
                ExprNode::Apply(op, _) if op.is_comparison() => {
                    let (a, b) = operand(0).zip(operand(1)).ok_or_else(missing)?;
                    let condition = match op {
                        Op::Lt => FloatCC::LessThan,
                        Op::Le => FloatCC::LessThanOrEqual,
                        Op::Gt => FloatCC::GreaterThan,
                        Op::Ge => FloatCC::GreaterThanOrEqual,
                        Op::Eq => FloatCC::Equal,
                        _ => FloatCC::NotEqual,
                    };
                    self.float_compare(condition, a, b, real)
                }
                ExprNode::Apply(op, ids) => {
                    let operands = ids.iter().map(|id| values[id.index()].clone()).collect();
                    self.apply(*op, operands, real)?
                }
                ExprNode::Call(inner, ids) => {
                    let operands: Vec<Val> = ids.iter().map(|id| values[id.index()].clone()).collect();
                    self.function(inner, &operands, real)?
                }
                ExprNode::Cast(element, _) => {
                    let x = operand(0).ok_or_else(missing)?;
                    self.function_cast(x, real, *element)?
                }
            };
            values.push(value);
        }
        let result = values.get(expression.root().index()).cloned();
        self.converted(result.ok_or_else(|| unexpected("a function without a result"))?, real, dtype)
    }

    /// A cast inside a function: rounding to a type, ties to even, and back.
    fn function_cast(&mut self, x: Val, real: DType, element: ElementType) -> Result<Val, TeError> {
        let to = DType::from(element);
        let x = if to.is_integer() { self.each(x, |this, x| this.b.ins().nearest(x)) } else { x };
        let there = self.converted(x, real, to)?;
        self.converted(there, to, real)
    }
}
