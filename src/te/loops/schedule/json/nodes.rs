//! Makes variables, axes, expressions and operations of the document's nodes, by the checks that programs go through.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use super::document::{JsonNode, JsonReduction, Scan, TensorPlace};
use super::functions::Called;
use super::known::{KnownNodes, number};
use super::names::{Name, Named};
use super::{limits, mistake};
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain, thread_axis};
use crate::te::expr::define::compute::compute_operation;
use crate::te::expr::define::extents::{check_extents, check_range};
use crate::te::expr::define::scan::scan_all;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::tensor::{self, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::schedule::primitives::is_size;

/// The nodes read so far.
pub(super) struct Nodes {
    /// Variables, and those of axes.
    vars: KnownNodes<Var>,
    pub(super) axes: KnownNodes<Axis>,
    functions: KnownNodes<Called>,
    pub(super) expressions: KnownNodes<Expr>,
    reductions: KnownNodes<Arc<Reduce>>,
    pub(super) operations: KnownNodes<Arc<Operation>>,
    /// The number of parts read so far. A shared part counts for each of its users.
    parts: Cell<usize>,
}

impl Nodes {
    pub(super) fn read(nodes: &[JsonNode]) -> Result<Self, TeError> {
        limits::NODES.check(nodes.len())?;
        let mut all = Self {
            vars: KnownNodes::new("a variable"),
            axes: KnownNodes::new("an axis"),
            functions: KnownNodes::new("a function"),
            expressions: KnownNodes::new("an expression"),
            reductions: KnownNodes::new("a reduction"),
            operations: KnownNodes::new("an operation"),
            parts: Cell::new(0),
        };
        for (place, node) in nodes.iter().enumerate() {
            all.add(place, node).map_err(|error| match error {
                TeError::Schedule(ScheduleError::Json { reason }) => mistake(format!("node {place}: {reason}")),
                other => other,
            })?;
        }
        Ok(all)
    }

    fn add(&mut self, place: usize, node: &JsonNode) -> Result<(), TeError> {
        let truth_of = |nodes: &Self, place: usize| match nodes.expressions.get(place)? {
            x if x.dtype() == DType::Bool => Ok(x),
            _ => Err(mistake(format!("node {place} is not a truth value"))),
        };
        let x = match node {
            JsonNode::Variable { name, r#type: Name(dtype), counter } => {
                self.vars.add(place, if *counter { Var::local(name, *dtype) } else { Var::new(name, *dtype) });
                return Ok(());
            }
            JsonNode::Axis { name, kind, domain } => {
                let axis = self.new_axis(name, kind.0, *domain)?;
                self.vars.add(place, axis.var());
                self.axes.add(place, axis);
                return Ok(());
            }
            JsonNode::Function { name, parameters, body, cuda } => {
                let called = Called::read(&self.functions, name, parameters, body, cuda.as_deref())?;
                self.functions.add(place, called);
                return Ok(());
            }
            JsonNode::Reduction(reduction) => {
                self.reductions.add(place, Arc::new(self.new_reduction(reduction)?));
                return Ok(());
            }
            JsonNode::Placeholder { name, r#type: Name(dtype), shape } => {
                let shape = shape.iter().map(|size| self.size(*size)).collect::<Result<Vec<_>, _>>()?;
                check_extents(&shape, |d| format!("dimension {d} of {name}"))?;
                self.operations.add(place, Operation::new(name, OperationKind::Placeholder { shape, dtype: *dtype }));
                return Ok(());
            }
            JsonNode::Compute { name, axes, body } => {
                self.operations.add(place, self.new_compute(name, axes, body)?);
                return Ok(());
            }
            JsonNode::Scan(scan) => {
                self.operations.add(place, self.new_scan(scan)?);
                return Ok(());
            }
            // A u64 is written as the i64 of its bits.
            JsonNode::Int { r#type: Name(dtype), value } if dtype.holds(*value) || *dtype == DType::U64 => {
                Expr::new(*dtype, Kind::Int(*value))
            }
            JsonNode::Float { r#type: Name(dtype), value } if dtype.is_float() => {
                Expr::new(*dtype, Kind::Float(number(value)?))
            }
            JsonNode::Int { r#type: Name(dtype), .. } | JsonNode::Float { r#type: Name(dtype), .. } => {
                return Err(mistake(format!("its `value` is not one of type `{}`", Named::name(*dtype))));
            }
            JsonNode::Value { of } => self.vars.get(*of)?.into(),
            JsonNode::Binary { op, operands: [a, b] } => {
                Expr::binary(op.0, self.expressions.get(*a)?, self.expressions.get(*b)?)
            }
            JsonNode::Not { operands: [x] } => Expr::new(DType::Bool, Kind::Not(truth_of(self, *x)?)),
            JsonNode::Likely { operands: [x] } => truth_of(self, *x)?.likely(),
            JsonNode::Select { operands: [condition, a, b] } => {
                let (a, b) = (self.expressions.get(*a)?, self.expressions.get(*b)?);
                self.expressions.get(*condition)?.select(a, b)
            }
            JsonNode::Cast { r#type: Name(dtype), operands: [x] } => self.expressions.get(*x)?.cast(*dtype),
            JsonNode::Apply { op, operands } => Expr::apply(op.0, self.expressions.all(operands)?),
            JsonNode::Call { function, operands } => {
                Expr::call(self.functions.get(*function)?.function, self.expressions.all(operands)?)
            }
            JsonNode::Read { operation, value, operands } => {
                self.tensor((*operation, *value))?.at(self.expressions.all(operands)?)
            }
            JsonNode::Reduced { reduction, index } => {
                let reduce = self.reductions.get(*reduction)?;
                let missing = || mistake(format!("the reduction of node {reduction} has no value {index}"));
                let dtype = reduce.source.get(*index).ok_or_else(missing)?.dtype();
                Expr::new(dtype, Kind::Reduce(reduce, *index))
            }
        };
        if let Kind::Invalid(error) = x.kind() {
            return Err(error.clone());
        }
        self.expressions.add(place, x);
        Ok(())
    }

    pub(super) fn tensor(&self, (operation, value): TensorPlace) -> Result<Tensor, TeError> {
        let operation = self.operations.get(operation)?;
        if value >= operation.values() {
            return Err(mistake(format!("{} has no value {value}", operation.name())));
        }
        Ok(Tensor::new(operation, value))
    }

    /// Counts the parts of expressions that are walked here and where they are used.
    fn count<'a>(&self, all: impl IntoIterator<Item = &'a Expr>) -> Result<(), TeError> {
        for x in all {
            let mut parts = self.parts.get();
            x.visit(&mut |_| parts += 1);
            self.parts.set(parts);
            limits::PARTS.check(parts)?;
        }
        Ok(())
    }

    /// An integer that depends on sizes only.
    pub(super) fn size(&self, place: usize) -> Result<Expr, TeError> {
        let size = self.expressions.get(place)?;
        self.count([&size])?;
        if is_size(&size) {
            Ok(size)
        } else {
            Err(mistake(format!("{} is not a size", crate::te::text::expression(&size))))
        }
    }

    fn new_axis(&self, name: &str, kind: AxisKind, domain: Option<(usize, usize)>) -> Result<Axis, TeError> {
        let domain = match domain {
            Some(_) if kind == AxisKind::Thread => {
                return Err(mistake(format!("{name} counts threads, but has a range")));
            }
            None if kind == AxisKind::Thread => return Ok(thread_axis(name)),
            None => None,
            Some((min, extent)) => Some(Domain::new(&self.size(min)?, &self.size(extent)?)),
        };
        if let Some(domain) = &domain {
            check_range(domain, name)?;
        }
        Ok(Axis::new(name, domain, kind))
    }

    fn new_compute(&self, name: &str, axes: &[usize], body: &[usize]) -> Result<Arc<Operation>, TeError> {
        let (axes, body) = (self.axes.all(axes)?, self.expressions.all(body)?);
        self.count(&body)?;
        let from_0 = |domain: Domain| domain.min.as_int() == Some(0);
        let data = |axis: &Axis| axis.kind() == AxisKind::Data && axis.domain().is_some_and(from_0);
        if !axes.iter().all(data) || !distinct(&axes) {
            return Err(mistake(format!("the axes of {name} are not data axes from 0 on, each once")));
        }
        compute_operation(name, axes, body)
    }

    fn new_reduction(&self, given: &JsonReduction) -> Result<Reduce, TeError> {
        let all = |places: &[usize]| self.expressions.all(places);
        let (source, init) = (all(&given.source)?, all(&given.init)?);
        let combiner = Combiner {
            left: self.vars.all(&given.left)?,
            right: self.vars.all(&given.right)?,
            result: all(&given.result)?,
            identity: all(&given.identity)?,
            commutative: given.commutative,
        };
        let types: Vec<DType> = source.iter().map(Expr::dtype).collect();
        let of_vars = |vars: &[Var]| {
            vars.iter().map(|var| var.dtype()).eq(types.iter().copied()) && !vars.iter().any(|var| var.is_counter())
        };
        let of = |all: &[Expr]| all.iter().map(Expr::dtype).eq(types.iter().copied());
        let (axes, condition) = (self.axes.all(&given.axes)?, self.expressions.get(given.condition)?);
        self.count(combiner.result.iter().chain(&combiner.identity))?;
        combiner.check("reduction")?;
        let reduced = |axis: &Axis| axis.kind() == AxisKind::Reduce && axis.domain().is_some();
        let whole = !source.is_empty()
            && of_vars(&combiner.left)
            && of_vars(&combiner.right)
            && of(&combiner.result)
            && of(&combiner.identity)
            && (init.is_empty() || of(&init) && init.iter().all(starts))
            && axes.iter().all(reduced)
            && distinct(&axes)
            && condition.dtype() == DType::Bool;
        if !whole {
            return Err(mistake("the parts of the reduction don't fit together".to_owned()));
        }
        Ok(Reduce { combiner, source, init, axes: axes.into(), condition })
    }

    fn new_scan(&self, given: &Scan) -> Result<Arc<Operation>, TeError> {
        let tensors = |places: &[TensorPlace]| places.iter().map(|place| self.tensor(*place)).collect();
        let [init, update, state, inputs]: [Result<Vec<Tensor>, TeError>; 4] =
            [&given.init, &given.update, &given.state, &given.inputs].map(|places| tensors(places));
        let (init, update, state, inputs) = (init?, update?, state?, inputs?);
        let axis = self.axes.get(given.axis)?;
        let checked = scan_all(&init, &update, &state, &inputs)?;
        let needed = checked.first().and_then(|tensor| tensor.scan_axis().ok()?.domain());
        let same = |a: &Domain, b: &Domain| equal(&a.min, &b.min) && equal(&a.extent, &b.extent);
        let fits = axis.kind() == AxisKind::Ordered && needed.zip(axis.domain()).is_some_and(|(a, b)| same(&a, &b));
        if !fits {
            return Err(mistake("a scan's axis doesn't run over the steps after the initial ones".to_owned()));
        }
        Operation::checked(&given.name, OperationKind::Scan(tensor::Scan { axis, init, update, state, inputs }))
    }
}

/// Whether a reduction can start from it: a constant, an element, or a choice between them (a cache over padding has
/// one).
fn starts(x: &Expr) -> bool {
    let (mut seen, mut pending) = (HashSet::new(), vec![x]);
    while let Some(x) = pending.pop() {
        match x.kind() {
            Kind::Int(_) | Kind::Float(_) | Kind::Read(..) => {}
            Kind::Select(_, then, otherwise) if seen.insert(x.id()) => pending.extend([then, otherwise]),
            Kind::Select(..) => {}
            _ => return false,
        }
    }
    true
}

fn distinct(axes: &[Axis]) -> bool {
    let mut seen = HashSet::new();
    axes.iter().all(|axis| seen.insert(*axis))
}
