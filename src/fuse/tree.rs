//! Tensor expressions as the epilogue of a product: one walk, which makes each shared value once.
//!
//! Casts stay, because rounding is part of what an expression means. Values that an expression doesn't cast are held in
//! the epilogue's type, as te's own kernels hold them, so that joining changes no rounding. Integers are positions, sizes
//! and elements of tensors, which an epilogue compares; arithmetic that could wrap in te's type is not taken.

use std::collections::HashMap;
use std::sync::Arc;

use super::factor::{Index, View};
use super::kept::Kept;
use super::names;
use super::product::{Product, operation_of};
use super::reason::Apart;
use super::role::Role;
use crate::ElementType;
use crate::evt::{
    Axis as ReducedAxis, BroadcastClass, Form, NodeId, ParameterClass, Position, ReduceOp, Reduction, Tree, TreeBuilder,
};
use crate::expr::{Logic, Op, Real};
use crate::te::DType;
use crate::te::arith::{equal, simplify};
use crate::te::auto::{computed, is_size, parts, read_type};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Operands;
use crate::te::expr::tensor::{Operation, Tensor};
use crate::te::expr::var::Var;

/// The significant bits for which functions are accurate at least: so their errors are below 2⁻¹⁷, as te promises of its
/// own kernels. Outputs of 8 bits, as bf16 has, would allow less.
const SIGNIFICAND: u32 = 11;

/// An argument of an epilogue, beside its product.
#[derive(Clone, Debug)]
pub(super) enum Parameter {
    /// Elements of a tensor, of these rows, columns and batches.
    View(View, Extent),
    /// The value of a size.
    Size(Expr),
}

/// How a value extends over a product's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) batch: bool,
    pub(super) rows: bool,
    pub(super) columns: bool,
}

impl Extent {
    pub(super) fn class(self) -> BroadcastClass {
        match (self.rows, self.columns) {
            (true, true) => BroadcastClass::Tensor,
            (true, false) => BroadcastClass::ColumnVector,
            (false, true) => BroadcastClass::RowVector,
            (false, false) => BroadcastClass::Scalar,
        }
    }
}

/// The epilogue of a product, and what it is given.
#[derive(Clone, Debug)]
pub(super) struct Epilogue {
    pub(super) tree: Tree,
    pub(super) parameters: Vec<Parameter>,
    /// The tensors that it writes, in the given order.
    pub(super) outputs: Vec<(View, Extent)>,
}

/// A value to be stored: a tensor that the epilogue computes, in a type.
pub(super) type Stored = (Tensor, DType);

/// The epilogue of products of one left factor that computes what has `joined`, in order, and writes `stored`. Reductions
/// and kept tensors join.
///
/// # Errors
/// Why one of them can't be computed with the product.
pub(super) fn epilogue(
    products: &[Product],
    joined: &[Arc<Operation>],
    stored: &[Stored],
    kept: &Kept,
) -> Result<Epilogue, Apart> {
    let [first, ..] = products else { return Err(unknown("nothing")) };
    let mut making = Making::new(first, kept);
    for (number, product) in products.iter().enumerate() {
        making.accumulator(number, product)?;
    }
    for operation in joined {
        making.known_from_here(operation)?;
    }
    let mut outputs = Vec::with_capacity(stored.len());
    for (number, (tensor, dtype)) in stored.iter().enumerate() {
        outputs.push(making.store(number, tensor, *dtype)?);
    }
    let Making { builder, parameters, .. } = making;
    let tree = builder.finish();
    tree.validate(first.types).map_err(|error| Apart::Tree { why: error.mistake.to_string() })?;
    Ok(Epilogue { tree, parameters: parameters.into_iter().map(|(parameter, _)| parameter).collect(), outputs })
}

/// A value of the tree, by what it is.
#[derive(Clone, Copy, Debug)]
enum Value {
    Real(NodeId),
    Integer(NodeId),
    Truth(NodeId),
    /// The accumulator of integers, which is exact where it is stored, and a number where it is converted.
    Sum(NodeId),
}

/// The axes of an expression, by variable, as places of the product's.
type Places = HashMap<Var, usize>;

/// A result of the region: the accumulator or a reduction.
#[derive(Clone, Debug)]
struct Known {
    value: Value,
    /// The place of each of its axes.
    places: Vec<usize>,
}

struct Making<'a> {
    product: &'a Product,
    kept: &'a Kept,
    builder: TreeBuilder,
    known: HashMap<*const Operation, Known>,
    parameters: Vec<(Parameter, Value)>,
    real: ElementType,
}

impl<'a> Making<'a> {
    fn new(product: &'a Product, kept: &'a Kept) -> Self {
        let mut builder = TreeBuilder::new(names::TREE, names::FILE);
        builder.significand(SIGNIFICAND);
        let real = product.types.real().element();
        Self { product, kept, builder, known: HashMap::new(), parameters: Vec::new(), real }
    }

    /// Adds a product, whose axes have the places of the first one's.
    fn accumulator(&mut self, number: usize, product: &Product) -> Result<(), Apart> {
        let accumulator = self.builder.accum(names::accumulator(number).ok_or(Apart::Accumulators)?);
        let operation = &product.operation;
        let axes = operation.as_compute().map(|compute| compute.axes.as_slice()).unwrap_or_default();
        let places: Vec<usize> = axes.iter().filter_map(|axis| product.place(axis)).collect();
        let is_integer = product.types.accumulator == ElementType::I32;
        let value = if is_integer { Value::Sum(accumulator) } else { Value::Real(accumulator) };
        let known = match &product.init {
            None => Known { value, places },
            Some(init) => {
                let own = axes.iter().zip(&places).map(|(axis, place)| (axis.var(), *place)).collect();
                let init = self.real(&self.kept.inlined(init), &own)?;
                let Value::Real(sum) = value else { return Err(self.other_type(&DType::I32)) };
                Known { value: Value::Real(self.builder.apply(Op::Add, &[sum, init])), places }
            }
        };
        self.known.insert(Arc::as_ptr(operation), known);
        Ok(())
    }

    fn other_type(&self, given: &DType) -> Apart {
        Apart::Type { given: given.to_string(), computed: self.real }
    }

    /// Adds a reduction or a kept tensor, whose result is a value from here on.
    fn known_from_here(&mut self, operation: &Arc<Operation>) -> Result<(), Apart> {
        if parts(operation).is_some() {
            return self.reduction(operation);
        }
        let known = self.element(operation, 0)?;
        self.known.insert(Arc::as_ptr(operation), known);
        Ok(())
    }

    /// Adds a reduction over whole rows or columns.
    fn reduction(&mut self, operation: &Arc<Operation>) -> Result<(), Apart> {
        let (compute, reduce) = parts(operation).ok_or(Apart::Reduction)?;
        let [source] = reduce.source.as_slice() else { return Err(Apart::Reduction) };
        let op = match operation_of(&reduce.combiner) {
            Some(Binary::Add) => ReduceOp::Add,
            Some(Binary::Mul) => ReduceOp::Mul,
            Some(Binary::Max) => ReduceOp::Max,
            Some(Binary::Min) => ReduceOp::Min,
            _ => return Err(Apart::Reduction),
        };
        if !reduce.init.is_empty() || reduce.condition.as_int() != Some(1) {
            return Err(Apart::Reduction);
        }
        let source = self.kept.inlined(source);
        let axes: Vec<Axis> = compute.axes.iter().chain(reduce.axes.iter()).copied().collect();
        let own = self.places(&source, &axes)?;
        let place = |axis: &Axis| own.get(&axis.var()).copied();
        let reduced: Vec<usize> = reduce.axes.iter().filter_map(place).collect();
        let of_role = |role| self.extends(&reduced, role).ok_or(Apart::Reduction);
        let axis = match (of_role(Role::Row)?, of_role(Role::Column)?) {
            (false, true) => ReducedAxis::Row,
            (true, false) => ReducedAxis::Column,
            (true, true) => ReducedAxis::All,
            (false, false) => return Err(Apart::Reduction),
        };
        let batch = of_role(Role::Batch)?;
        let places: Vec<usize> = compute.axes.iter().filter_map(place).collect();
        if places.len() + reduced.len() != self.product.axes.iter().filter(|(_, role)| *role != Role::Depth).count() {
            return Err(Apart::Axes);
        }
        let x = self.real(&source, &own)?;
        let value = Value::Real(self.builder.reduce(Reduction { axis, batch, op, form: Form::Complete }, x));
        self.known.insert(Arc::as_ptr(operation), Known { value, places });
        Ok(())
    }

    /// An element of a tensor without reductions.
    fn element(&mut self, operation: &Operation, value: usize) -> Result<Known, Apart> {
        let compute = operation.as_compute().ok_or(Apart::Axes)?;
        let body = self.kept.inlined(&compute.body[value]);
        let own = self.places(&body, &compute.axes)?;
        let places = compute.axes.iter().filter_map(|axis| own.get(&axis.var()).copied()).collect();
        Ok(Known { value: self.value(&body, &own)?, places })
    }

    /// Adds an output.
    fn store(&mut self, number: usize, tensor: &Tensor, dtype: DType) -> Result<(View, Extent), Apart> {
        let name = names::output(number).ok_or_else(|| Apart::Operation { what: "so many outputs".to_owned() })?;
        let operation = tensor.operation();
        let (value, places) = match self.known.get(&Arc::as_ptr(operation)) {
            Some(Known { value, places }) => (*value, places.clone()),
            None => {
                let Known { value, places } = self.element(operation, tensor.value())?;
                (value, places)
            }
        };
        let extent = self.extent(&places).ok_or(Apart::Axes)?;
        let whole = |role| self.extends(&places, role).is_some();
        let batched = self.product.of_role(Role::Batch).next().is_some();
        if !(whole(Role::Row) && whole(Role::Column) && whole(Role::Batch)) {
            return Err(Apart::Axes);
        }
        // Only a reduction of all batches has none of its own.
        if batched && !extent.batch && extent.class() != BroadcastClass::Scalar {
            return Err(Apart::Axes);
        }
        let element = match (value, dtype) {
            (Value::Real(_), DType::Number(element)) if is_stored(element) => element,
            (Value::Sum(_), DType::I32) => ElementType::I32,
            _ => return Err(self.other_type(&dtype)),
        };
        let (Value::Real(node) | Value::Integer(node) | Value::Truth(node) | Value::Sum(node)) = value;
        self.builder.output(name, node, extent.class(), Some(element));
        let indices = places.into_iter().map(Index::Axis).collect();
        Ok((View { tensor: tensor.clone(), indices }, extent))
    }

    /// Whether places are all of a role's; `None` if only some are.
    fn extends(&self, places: &[usize], role: Role) -> Option<bool> {
        let all = self.product.of_role(role).count();
        match self.product.of_role(role).filter(|place| places.contains(place)).count() {
            0 => Some(false),
            some if some == all => Some(true),
            _ => None,
        }
    }

    /// How a value with these axes extends; `None` if an axis is there twice or is summed over.
    fn extent(&self, places: &[usize]) -> Option<Extent> {
        let twice = places.iter().enumerate().any(|(i, place)| places[..i].contains(place));
        let has = |role| places.iter().any(|place| self.product.axes[*place].1 == role);
        let extent = Extent { batch: has(Role::Batch), rows: has(Role::Row), columns: has(Role::Column) };
        (!twice && !has(Role::Depth)).then_some(extent)
    }

    /// The places of axes, from where an expression reads results of the region.
    fn places(&self, x: &Expr, axes: &[Axis]) -> Result<Places, Apart> {
        let mut own = Places::new();
        let mut fits = Ok(());
        x.visit(&mut |x| {
            let Kind::Read(tensor, indices) = x.kind() else { return };
            let Some(known) = self.known.get(&Arc::as_ptr(tensor.operation())) else { return };
            for (index, place) in indices.iter().zip(&known.places) {
                let var = simplify(index).as_var().filter(|var| axes.iter().any(|axis| axis.var() == *var));
                let same = var.is_some_and(|var| *own.entry(var).or_insert(*place) == *place);
                if !same {
                    fits = Err(Apart::Places { tensor: tensor.name() });
                }
            }
        });
        fits?;
        for axis in axes {
            let place = own.get(&axis.var()).ok_or(Apart::Axes)?;
            let (of, product) = (axis.domain(), self.product.axes[*place].0.domain());
            let same = of
                .zip(product)
                .is_some_and(|(of, product)| of.min.as_int() == Some(0) && equal(&of.extent, &product.extent));
            if !same || axes.iter().filter(|axis| own.get(&axis.var()) == Some(place)).count() > 1 {
                return Err(Apart::Axes);
            }
        }
        Ok(own)
    }

    fn real(&mut self, x: &Expr, own: &Places) -> Result<NodeId, Apart> {
        match self.value(x, own)? {
            Value::Real(node) => Ok(node),
            _ => Err(self.other_type(&x.dtype())),
        }
    }

    /// The value of an expression, each of whose parts is made once.
    fn value(&mut self, x: &Expr, own: &Places) -> Result<Value, Apart> {
        let mut made: HashMap<_, Value> = HashMap::new();
        let mut pending = vec![(x, false)];
        while let Some((x, entered)) = pending.pop() {
            if made.contains_key(&x.id()) {
                continue;
            }
            let operands = operands(x);
            if entered || operands.is_empty() {
                let values: Vec<Value> = operands.iter().filter_map(|x| made.get(&x.id()).copied()).collect();
                let value = self.part(x, &values, own)?;
                made.insert(x.id(), value);
            } else {
                pending.push((x, true));
                pending.extend(operands.into_iter().map(|x| (x, false)));
            }
        }
        made.get(&x.id()).copied().ok_or_else(|| unknown("nothing"))
    }

    /// The value of a part whose operands have been made.
    fn part(&mut self, x: &Expr, operands: &[Value], own: &Places) -> Result<Value, Apart> {
        let dtype = x.dtype();
        match (x.kind(), operands) {
            (Kind::Read(tensor, indices), _) => self.read(tensor, indices, own),
            (Kind::Float(value), _) => {
                self.computes(x)?;
                Ok(Value::Real(self.builder.literal(*value)))
            }
            (Kind::Int(value), _) if dtype == DType::Bool => {
                let [value, one] = [*value, 1].map(|value| self.builder.integer_literal(value));
                Ok(Value::Truth(self.builder.apply(Op::Eq, &[value, one])))
            }
            (Kind::Int(value), _) => Ok(Value::Integer(self.builder.integer_literal(*value))),
            (Kind::Var(var), _) => self.variable(*var, own),
            (Kind::Likely(_), [inner]) => Ok(*inner),
            (Kind::Cast(inner), []) => self.size(inner, dtype),
            (Kind::Cast(inner), [value]) => self.cast(inner.dtype(), dtype, *value),
            (Kind::Not(_), [Value::Truth(x)]) => Ok(Value::Truth(self.builder.logic(Logic::Not, &[*x]))),
            (Kind::Binary(Binary::And, ..), [Value::Truth(a), Value::Truth(b)]) => {
                Ok(Value::Truth(self.builder.logic(Logic::And, &[*a, *b])))
            }
            (Kind::Binary(Binary::Or, ..), [Value::Truth(a), Value::Truth(b)]) => {
                Ok(Value::Truth(self.builder.logic(Logic::Or, &[*a, *b])))
            }
            (Kind::Binary(op, a, _), [Value::Real(x), Value::Real(y)]) => {
                self.computes(a)?;
                let applied = operation(*op).ok_or_else(|| unknown(&format!("{op:?}")))?;
                let node = self.builder.apply(applied, &[*x, *y]);
                Ok(if op.is_truth() { Value::Truth(node) } else { Value::Real(node) })
            }
            (Kind::Binary(op, a, b), [Value::Integer(x), Value::Integer(y)]) => {
                let applied = operation(*op).ok_or_else(|| unknown(&format!("{op:?} of integers")))?;
                // Positions and sizes are indices, which don't wrap; what tensors hold might.
                let holds = |x: &Expr| x.contains(|x| matches!(x.kind(), Kind::Read(..)));
                if op.is_truth() {
                    Ok(Value::Truth(self.builder.apply(applied, &[*x, *y])))
                } else if matches!(op, Binary::Add | Binary::Sub) && !holds(a) && !holds(b) {
                    Ok(Value::Integer(self.builder.apply(applied, &[*x, *y])))
                } else {
                    Err(unknown(&format!("{op:?} of integers")))
                }
            }
            (Kind::Select(..), [Value::Truth(c), Value::Real(a), Value::Real(b)]) => {
                self.computes(x)?;
                Ok(Value::Real(self.builder.apply(Op::Select, &[*c, *a, *b])))
            }
            (Kind::Apply(op, _), values) => {
                self.computes(x)?;
                let nodes = self.reals(values, x)?;
                Ok(Value::Real(self.builder.apply(*op, &nodes)))
            }
            (Kind::Call(function, _), values) => {
                self.computes(x)?;
                let nodes = self.reals(values, x)?;
                Ok(Value::Real(self.builder.call(function, &nodes)))
            }
            _ => Err(unknown(&format!("this operation of {dtype}"))),
        }
    }

    /// Checks that a value's type is one that the epilogue computes in.
    fn computes(&self, x: &Expr) -> Result<(), Apart> {
        if computed(x.dtype()) == DType::Number(self.real) { Ok(()) } else { Err(self.other_type(&x.dtype())) }
    }

    fn reals(&self, values: &[Value], x: &Expr) -> Result<Vec<NodeId>, Apart> {
        let real = |value: &Value| match value {
            Value::Real(node) => Ok(*node),
            _ => Err(self.other_type(&x.dtype())),
        };
        values.iter().map(real).collect()
    }

    /// A position, or an extent.
    fn variable(&mut self, var: Var, own: &Places) -> Result<Value, Apart> {
        let axes = &self.product.axes;
        let alone = |role| self.product.of_role(role).count() == 1;
        let position = match own.get(&var) {
            Some(place) => match axes[*place].1 {
                Role::Row if alone(Role::Row) => Some(Position::Row),
                Role::Column if alone(Role::Column) => Some(Position::Column),
                Role::Batch if alone(Role::Batch) => Some(Position::Batch),
                _ => None,
            },
            None => {
                let is_extent =
                    |(axis, _): &&(Axis, Role)| axis.domain().is_some_and(|domain| domain.extent.as_var() == Some(var));
                axes.iter().find(is_extent).and_then(|(_, role)| match role {
                    Role::Row if alone(Role::Row) => Some(Position::Rows),
                    Role::Column if alone(Role::Column) => Some(Position::Columns),
                    _ => None,
                })
            }
        };
        let position = position.ok_or_else(|| unknown(&format!("the integer {}", var.name())))?;
        Ok(Value::Integer(self.builder.position(position)))
    }

    /// A number that is made of sizes: a scalar of each run.
    fn size(&mut self, x: &Expr, dtype: DType) -> Result<Value, Apart> {
        if computed(dtype) != DType::Number(self.real) {
            return Err(self.other_type(&dtype));
        }
        let value = match x.as_int() {
            Some(value) => Value::Real(self.builder.literal(value as f64)),
            None => self.parameter(Parameter::Size(simplify(x)), ParameterClass::Scalar, None)?,
        };
        let (Value::Real(node), DType::Number(element)) = (value, dtype) else { return Ok(value) };
        Ok(if element == self.real { value } else { Value::Real(self.builder.cast(element, node)) })
    }

    fn cast(&mut self, from: DType, to: DType, value: Value) -> Result<Value, Apart> {
        let (held, real) = (computed(to), DType::Number(self.real));
        match (value, to) {
            _ if from == to => Ok(value),
            (Value::Real(_), DType::Number(_)) if held == to && computed(from) == to => Ok(value),
            // What an element of another type becomes when it is read: no value changes.
            (Value::Real(_), DType::Number(_)) if to == real && from.is_float() => Ok(value),
            (Value::Real(node), DType::Number(element)) if is_stored(element) => {
                Ok(Value::Real(self.builder.cast(element, node)))
            }
            (Value::Integer(node), _) if to == real => Ok(Value::Real(self.builder.real(node))),
            (Value::Sum(node), _) if to == real => Ok(Value::Real(node)),
            (Value::Integer(_), DType::I64) => Ok(value),
            (Value::Truth(node), _) if to == real => {
                let [one, zero] = [1.0, 0.0].map(|value| self.builder.literal(value));
                Ok(Value::Real(self.builder.apply(Op::Select, &[node, one, zero])))
            }
            _ => Err(unknown(&format!("a conversion of {from} to {to}"))),
        }
    }

    fn read(&mut self, tensor: &Tensor, indices: &[Expr], own: &Places) -> Result<Value, Apart> {
        if let Some(known) = self.known.get(&Arc::as_ptr(tensor.operation())) {
            return Ok(known.value);
        }
        let elsewhere = || Apart::Places { tensor: tensor.name() };
        let mut places = Vec::new();
        let mut view = Vec::with_capacity(indices.len());
        for index in indices.iter().map(simplify) {
            match index.as_var().and_then(|var| own.get(&var)) {
                Some(place) => {
                    places.push(*place);
                    view.push(Index::Axis(*place));
                }
                None if is_size(&index) => view.push(Index::At(index)),
                None => return Err(elsewhere()),
            }
        }
        let extent = self.extent(&places).ok_or_else(elsewhere)?;
        let held = if parts(tensor.operation()).is_some() { read_type(tensor.dtype()) } else { tensor.dtype() };
        let view = Parameter::View(View { tensor: tensor.clone(), indices: view }, extent);
        let class = match extent.class() {
            BroadcastClass::Tensor => ParameterClass::Tensor,
            BroadcastClass::RowVector => ParameterClass::RowVector,
            BroadcastClass::ColumnVector => ParameterClass::ColumnVector,
            BroadcastClass::Scalar => ParameterClass::DeviceScalar,
        };
        let value = self.parameter(view, class, Some(held.in_memory()))?;
        match (value, tensor.dtype()) {
            (Value::Integer(node), DType::Bool) => {
                let zero = self.builder.integer_literal(0);
                Ok(Value::Truth(self.builder.apply(Op::Ne, &[node, zero])))
            }
            _ => Ok(value),
        }
    }

    /// The value of a parameter, which equal ones share.
    fn parameter(
        &mut self,
        parameter: Parameter,
        class: ParameterClass,
        element: Option<ElementType>,
    ) -> Result<Value, Apart> {
        let same = |(known, _): &&(Parameter, Value)| match (known, &parameter) {
            (Parameter::View(a, _), Parameter::View(b, _)) => a == b,
            (Parameter::Size(a), Parameter::Size(b)) => a == b,
            _ => false,
        };
        if let Some((_, value)) = self.parameters.iter().find(same) {
            return Ok(*value);
        }
        let name = names::parameter(self.parameters.len());
        let name = name.ok_or_else(|| unknown("so many tensors"))?;
        let node = self.builder.parameter(name, class, element);
        let value = match element {
            Some(element) if !Real::takes(element) => return Err(self.other_type(&DType::Number(element))),
            Some(element) if !element.is_float() => Value::Integer(self.builder.integer(node)),
            // What an f64 holds, an epilogue in f32 doesn't.
            Some(ElementType::F64) if self.real != ElementType::F64 => {
                return Err(self.other_type(&DType::Number(ElementType::F64)));
            }
            _ => Value::Real(node),
        };
        self.parameters.push((parameter, value));
        Ok(value)
    }
}

/// The operands that are values: not indices, nor the parts of a size.
fn operands(x: &Expr) -> Operands<'_> {
    match x.kind() {
        Kind::Read(..) => Operands::new(),
        Kind::Cast(inner) if x.dtype().is_float() && is_size(inner) => Operands::new(),
        _ => x.operands(),
    }
}

/// Whether an epilogue's rounding to a type is te's.
fn is_stored(element: ElementType) -> bool {
    matches!(element, ElementType::F64 | ElementType::F32 | ElementType::F16 | ElementType::BF16)
}

fn operation(op: Binary) -> Option<Op> {
    Some(match op {
        Binary::Add => Op::Add,
        Binary::Sub => Op::Sub,
        Binary::Mul => Op::Mul,
        Binary::Div => Op::Div,
        Binary::Min => Op::Min,
        Binary::Max => Op::Max,
        Binary::Lt => Op::Lt,
        Binary::Le => Op::Le,
        Binary::Gt => Op::Gt,
        Binary::Ge => Op::Ge,
        Binary::Eq => Op::Eq,
        Binary::Ne => Op::Ne,
        Binary::FloorDiv | Binary::FloorMod | Binary::And | Binary::Or => return None,
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => return None,
    })
}

fn unknown(what: &str) -> Apart {
    Apart::Operation { what: what.to_owned() }
}
