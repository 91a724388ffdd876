//! Code for expressions: representations, constants, variables, and lazy evaluation.

use std::collections::HashMap;

use cranelift_codegen::ir::{BlockArg, InstBuilder, Type, Value, types};

use super::{Binding, Translator, Val, unexpected};
use crate::te::dtype::{DType, Held};
use crate::te::error::{ExpressionError, LoweringError, TeError};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::number;
use crate::te::text::expression;

/// The type that holds one value.
pub(super) fn scalar_type(dtype: DType) -> Type {
    match dtype.held() {
        Held::Bool => types::I8,
        Held::F64 => types::F64,
        Held::I64 => types::I64,
        Held::I32 => types::I32,
        Held::F32 => types::F32,
    }
}

/// The type of a vector of values: 4 or 2 lanes. A truth value is a lane of all ones or all zeros.
pub(super) fn vector_type(dtype: DType) -> Type {
    match scalar_type(dtype) {
        types::F64 => types::F64X2,
        types::I64 => types::I64X2,
        types::F32 => types::F32X4,
        _ => types::I32X4,
    }
}

/// The lanes of one vector of a type.
pub(super) fn lanes_per_vector(dtype: DType) -> usize {
    if matches!(scalar_type(dtype), types::F64 | types::I64) { 2 } else { 4 }
}

/// Whether unnecessary evaluation could fail: it reads memory, or divides by what may be zero.
pub(super) fn is_lazy(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |x| {
        found |= match x.kind() {
            Kind::Load(..) => true,
            Kind::Binary(Binary::FloorDiv | Binary::FloorMod, _, by) => by.as_int().is_none_or(|by| by <= 0),
            _ => false,
        }
    });
    found
}

/// The values of the current expression's nodes that are available at this place in the code.
#[derive(Default)]
pub(super) struct Known {
    values: HashMap<Id, Val>,
    order: Vec<Id>,
    nested: usize,
    steps: usize,
}

/// Code under conditions is repeated for each of them; this limits the operations of one expression.
const MOST_STEPS: usize = 1 << 18;

impl Known {
    /// Starts a new expression: statements in between may have changed memory.
    fn start(&mut self) {
        if self.nested == 0 {
            *self = Self::default();
        }
    }

    fn get(&self, x: &Expr) -> Option<Val> {
        self.values.get(&x.id()).cloned()
    }

    fn leave(&mut self, x: &Expr, value: Option<&Val>) {
        self.nested -= 1;
        if let Some(value) = value.filter(|_| x.is_met_again()) {
            self.add(x.id(), value.clone());
        }
    }

    fn enter(&mut self) -> Result<(), TeError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(ExpressionError::Unfolded { most: MOST_STEPS }.into());
        }
        self.nested += 1;
        Ok(())
    }

    fn add(&mut self, id: Id, value: Val) {
        self.order.push(id);
        self.values.insert(id, value);
    }

    /// Forgets the values that were computed in a block, after its end.
    fn forget(&mut self, before: usize) {
        for id in self.order.drain(before..) {
            self.values.remove(&id);
        }
    }
}

/// Computes one value from single operands.
type InOneLane<'a, T> = dyn FnMut(&mut T, &[Value]) -> Result<Value, TeError> + 'a;

impl Translator<'_, '_, '_> {
    /// The value of an expression. A node that is used several times is computed once.
    pub(super) fn value(&mut self, x: &Expr) -> Result<Val, TeError> {
        self.known.start();
        if let Some(value) = self.known.get(x) {
            return Ok(value);
        }
        self.known.enter()?;
        let value = self.computed(x);
        self.known.leave(x, value.as_ref().ok());
        value
    }

    /// Computes a node. Each kind of node has a function of its own. This function calls itself at every level of an
    /// expression, so it must use little of the stack.
    fn computed(&mut self, x: &Expr) -> Result<Val, TeError> {
        match x.kind() {
            Kind::Int(value) => Ok(Val::One(self.integer_constant(*value, x.dtype()))),
            Kind::Float(value) => Ok(Val::One(self.constant(*value, x.dtype()))),
            Kind::Var(_) => self.variable(x),
            Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => self.both(*op == Binary::And, a, b),
            Kind::Binary(op, a, b) => self.combined(*op, a, b),
            Kind::Not(a) => self.value(a).map(|a| self.not(a)),
            Kind::Select(c, a, b) => self.select(c, a, b),
            Kind::Cast(a) => self.value(a).and_then(|value| self.converted(value, a.dtype(), x.dtype())),
            Kind::Likely(a) => self.value(a),
            Kind::Apply(op, operands) => {
                self.values(operands).and_then(|operands| self.apply(*op, operands, x.dtype()))
            }
            Kind::Call(function, operands) => {
                self.values(operands).and_then(|operands| self.function(function, &operands, x.dtype()))
            }
            Kind::Load(buffer, indices) => self.load(buffer, indices),
            Kind::Read(..) | Kind::Reduce(..) => Err(LoweringError::NotLowered { what: expression(x) }.into()),
            Kind::Invalid(error) => Err(error.clone()),
        }
    }

    fn combined(&mut self, op: Binary, a: &Expr, b: &Expr) -> Result<Val, TeError> {
        let (left, right) = (self.value(a)?, self.value(b)?);
        self.binary(op, left, right, b)
    }

    fn values(&mut self, operands: &[Expr]) -> Result<Vec<Val>, TeError> {
        operands.iter().map(|x| self.value(x)).collect()
    }

    /// An expression that is the same in all lanes, or that of the lane being computed.
    pub(super) fn scalar(&mut self, x: &Expr) -> Result<Value, TeError> {
        match self.value(x)? {
            Val::One(value) => Ok(value),
            Val::Many(_) => Err(unexpected(&format!("{}, which differs from lane to lane,", expression(x)))),
        }
    }

    /// An integer in 64 bits.
    pub(super) fn wide(&mut self, x: &Expr) -> Result<Value, TeError> {
        let value = self.scalar(x)?;
        Ok(self.widened(value))
    }

    fn widened(&mut self, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == types::I64 { value } else { self.b.ins().sextend(types::I64, value) }
    }

    /// An index in 64 bits: its sums and products don't wrap.
    pub(super) fn index(&mut self, x: &Expr) -> Result<Value, TeError> {
        let mut known = HashMap::new();
        self.index_once(x, &mut known)
    }

    fn index_once(&mut self, x: &Expr, known: &mut HashMap<Id, Value>) -> Result<Value, TeError> {
        match x.kind() {
            Kind::Int(value) => Ok(self.integer(*value)),
            Kind::Binary(op @ (Binary::Add | Binary::Sub | Binary::Mul), a, b)
                if matches!(x.dtype(), DType::I32 | DType::I64) =>
            {
                if let Some(value) = known.get(&x.id()) {
                    return Ok(*value);
                }
                let (a, b) = (self.index_once(a, known)?, self.index_once(b, known)?);
                let value = match op {
                    Binary::Add => self.b.ins().iadd(a, b),
                    Binary::Sub => self.b.ins().isub(a, b),
                    _ => self.b.ins().imul(a, b),
                };
                known.insert(x.id(), value);
                Ok(value)
            }
            Kind::Var(var) => match (self.vars.get(var), self.lanes) {
                (Some(Binding::Counter(value)), _) => Ok(*value),
                (_, Some(lanes)) if lanes.var == *var => Ok(self.lane_counter(lanes.base, lanes.single.unwrap_or(0))),
                _ => self.wide(x),
            },
            _ => self.wide(x),
        }
    }

    fn lane_counter(&mut self, base: Value, lane: usize) -> Value {
        let lane = i64::try_from(lane).unwrap_or(i64::MAX);
        let lane = self.integer(lane);
        self.b.ins().iadd(base, lane)
    }

    fn variable(&mut self, x: &Expr) -> Result<Val, TeError> {
        let missing = || LoweringError::Unbound { variable: expression(x) };
        let var = x.as_var().ok_or_else(missing)?;
        if let Some(lanes) = self.lanes.filter(|lanes| lanes.var == var) {
            let first = self.lane_counter(lanes.base, lanes.single.unwrap_or(0));
            let first = self.narrowed(first, x.dtype());
            if lanes.single.is_some() {
                return Ok(Val::One(first));
            }
            return Ok(self.counted_from(first, lanes.count, x.dtype()));
        }
        match (self.vars.get(&var).cloned().ok_or_else(missing)?, self.lanes.and_then(|lanes| lanes.single)) {
            (Binding::Counter(value), _) => Ok(Val::One(self.narrowed(value, x.dtype()))),
            (Binding::Named(value), Some(lane)) => Ok(Val::One(self.lane(&value, lane, x.dtype()))),
            (Binding::Named(value), None) => Ok(value),
        }
    }

    fn narrowed(&mut self, value: Value, dtype: DType) -> Value {
        if scalar_type(dtype) == types::I64 { value } else { self.b.ins().ireduce(types::I32, value) }
    }

    /// Lanes with consecutive values.
    fn counted_from(&mut self, first: Value, count: usize, dtype: DType) -> Val {
        let width = lanes_per_vector(dtype);
        let ty = scalar_type(dtype);
        let mut vectors = Vec::with_capacity(count / width);
        for start in (0..count).step_by(width) {
            let lanes: Vec<Value> = (start..start + width)
                .map(|lane| {
                    let lane = self.b.ins().iconst(ty, i64::try_from(lane).unwrap_or(i64::MAX));
                    self.b.ins().iadd(first, lane)
                })
                .collect();
            vectors.extend(self.gathered(&lanes, dtype));
        }
        Val::Many(vectors)
    }

    /// A constant of a type, rounded to it.
    pub(super) fn constant(&mut self, value: f64, dtype: DType) -> Value {
        let DType::Number(element) = dtype else { return self.integer_constant(i64::from(value != 0.0), dtype) };
        #[expect(clippy::cast_possible_truncation, reason = "rounded before, and saturated")]
        match scalar_type(dtype) {
            types::F64 => self.b.ins().f64const(value),
            types::F32 => self.b.ins().f32const(number::round(element, value) as f32),
            _ => self.integer_constant(value as i64, dtype),
        }
    }

    /// An integer constant of a type, wrapped to it.
    pub(super) fn integer_constant(&mut self, value: i64, dtype: DType) -> Value {
        let wrapped = dtype.wrap(value);
        match scalar_type(dtype) {
            ty @ (types::I8 | types::I32 | types::I64) => self.b.ins().iconst(ty, wrapped),
            _ => self.constant(value as f64, dtype),
        }
    }

    /// `a and b`, or `a or b`; `b` is evaluated only if necessary.
    fn both(&mut self, and: bool, a: &Expr, b: &Expr) -> Result<Val, TeError> {
        if !is_lazy(b) {
            let (a, b) = (self.value(a)?, self.value(b)?);
            return Ok(self.zip(
                a,
                b,
                DType::Bool,
                |this, a, b| {
                    if and { this.b.ins().band(a, b) } else { this.b.ins().bor(a, b) }
                },
            ));
        }
        match self.value(a)? {
            Val::One(first) => {
                let many = self.varies(b);
                self.either(
                    first,
                    many,
                    DType::Bool,
                    |this, holds| {
                        if holds == and { this.value(b) } else { Ok(Val::One(first)) }
                    },
                )
            }
            Val::Many(_) => {
                let whole = Expr::binary(if and { Binary::And } else { Binary::Or }, a.clone(), b.clone());
                self.lane_by_lane(&whole)
            }
        }
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Result<Val, TeError> {
        let condition = self.value(c)?;
        if !is_lazy(a) && !is_lazy(b) {
            let (then, otherwise) = (self.value(a)?, self.value(b)?);
            return Ok(self.chosen(condition, then, otherwise, a.dtype()));
        }
        match condition {
            Val::One(condition) => {
                let many = self.varies(a) || self.varies(b);
                self.either(condition, many, a.dtype(), |this, holds| this.value(if holds { a } else { b }))
            }
            Val::Many(_) => self.lane_by_lane(&c.clone().select(a, b)),
        }
    }

    /// One of two values; only that one is computed.
    fn either(
        &mut self,
        condition: Value,
        many: bool,
        dtype: DType,
        mut side: impl FnMut(&mut Self, bool) -> Result<Val, TeError>,
    ) -> Result<Val, TeError> {
        let [then, otherwise, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(condition, then, &[], otherwise, &[]);
        let mut count = 0;
        for (block, holds) in [(then, true), (otherwise, false)] {
            self.b.switch_to_block(block);
            let before = self.known.order.len();
            let value = side(self, holds)?;
            self.known.forget(before);
            let values = match value {
                Val::One(value) if !many => vec![value],
                value => self.spread(value, dtype),
            };
            count = values.len();
            let arguments: Vec<BlockArg> = values.into_iter().map(BlockArg::Value).collect();
            self.b.ins().jump(join, &arguments);
        }
        let ty = if many { vector_type(dtype) } else { scalar_type(dtype) };
        for _ in 0..count {
            self.b.append_block_param(join, ty);
        }
        self.b.switch_to_block(join);
        let values = self.b.block_params(join).to_vec();
        Ok(match values.as_slice() {
            [value] if !many => Val::One(*value),
            _ => Val::Many(values),
        })
    }

    /// Whether a value may differ between lanes.
    pub(super) fn varies(&self, x: &Expr) -> bool {
        let Some(lanes) = self.lanes.filter(|lanes| lanes.single.is_none()) else { return false };
        let mut found = false;
        x.visit(&mut |x| {
            found |= x.as_var().is_some_and(|var| {
                var == lanes.var || matches!(self.vars.get(&var), Some(Binding::Named(Val::Many(_))))
            });
        });
        found
    }

    /// Evaluates an expression for one lane after another.
    pub(super) fn lane_by_lane(&mut self, x: &Expr) -> Result<Val, TeError> {
        let Some(lanes) = self.lanes else { return self.value(x) };
        let mut values = Vec::with_capacity(lanes.count);
        for lane in 0..lanes.count {
            self.lanes = Some(super::Lanes { single: Some(lane), ..lanes });
            let known = std::mem::take(&mut self.known);
            let value = self.scalar(x);
            self.known = known;
            self.lanes = Some(lanes);
            values.push(value?);
        }
        Ok(Val::Many(self.gathered(&values, x.dtype())))
    }

    /// A value as vectors.
    pub(super) fn spread(&mut self, value: Val, dtype: DType) -> Vec<Value> {
        match value {
            Val::Many(vectors) => vectors,
            Val::One(value) => {
                let value = if dtype == DType::Bool {
                    let wide = self.b.ins().uextend(types::I32, value);
                    self.b.ins().ineg(wide)
                } else {
                    value
                };
                let vector = self.b.ins().splat(vector_type(dtype), value);
                let count = self.lanes.map_or(0, |lanes| lanes.count);
                vec![vector; count / lanes_per_vector(dtype)]
            }
        }
    }

    /// One lane of a value.
    pub(super) fn lane(&mut self, value: &Val, lane: usize, dtype: DType) -> Value {
        match value {
            Val::One(value) => *value,
            Val::Many(vectors) => {
                let width = lanes_per_vector(dtype);
                let place = u8::try_from(lane % width).unwrap_or(0);
                let one = self.b.ins().extractlane(vectors[lane / width], place);
                if dtype == DType::Bool {
                    let one = self.b.ins().band_imm_s(one, 1);
                    self.b.ins().ireduce(types::I8, one)
                } else {
                    one
                }
            }
        }
    }

    /// Vectors of the values of all lanes.
    pub(super) fn gathered(&mut self, lanes: &[Value], dtype: DType) -> Vec<Value> {
        let width = lanes_per_vector(dtype);
        let mut vectors = Vec::with_capacity(lanes.len() / width);
        for part in lanes.chunks_exact(width) {
            let mut vector = None;
            for (place, value) in part.iter().enumerate() {
                let value = if dtype == DType::Bool {
                    let wide = self.b.ins().uextend(types::I32, *value);
                    self.b.ins().ineg(wide)
                } else {
                    *value
                };
                vector = Some(match vector {
                    None => self.b.ins().scalar_to_vector(vector_type(dtype), value),
                    Some(vector) => self.b.ins().insertlane(vector, value, u8::try_from(place).unwrap_or(0)),
                });
            }
            vectors.extend(vector);
        }
        vectors
    }

    /// Does an operation on every part of a value.
    pub(super) fn each(&mut self, value: Val, mut f: impl FnMut(&mut Self, Value) -> Value) -> Val {
        match value {
            Val::One(value) => Val::One(f(self, value)),
            Val::Many(vectors) => Val::Many(vectors.into_iter().map(|v| f(self, v)).collect()),
        }
    }

    /// Does an operation on every part of two values of one type.
    pub(super) fn zip(
        &mut self,
        a: Val,
        b: Val,
        dtype: DType,
        mut f: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Val {
        match (a, b) {
            (Val::One(a), Val::One(b)) => Val::One(f(self, a, b)),
            (a, b) => {
                let (a, b) = (self.spread(a, dtype), self.spread(b, dtype));
                Val::Many(a.into_iter().zip(b).map(|(a, b)| f(self, a, b)).collect())
            }
        }
    }

    /// An operation that exists only for single values, done in each lane.
    pub(super) fn in_lanes(
        &mut self,
        operands: &[(Val, DType)],
        result: DType,
        f: &mut InOneLane<'_, Self>,
    ) -> Result<Val, TeError> {
        if operands.iter().all(|(value, _)| matches!(value, Val::One(_))) {
            let values: Vec<Value> = operands.iter().map(|(value, dtype)| self.lane(value, 0, *dtype)).collect();
            return Ok(Val::One(f(self, &values)?));
        }
        let count = self.lanes.map_or(0, |lanes| lanes.count);
        let mut lanes = Vec::with_capacity(count);
        for lane in 0..count {
            let values: Vec<Value> = operands.iter().map(|(value, dtype)| self.lane(value, lane, *dtype)).collect();
            lanes.push(f(self, &values)?);
        }
        Ok(Val::Many(self.gathered(&lanes, result)))
    }
}
