//! Makes the document of a schedule.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::document::{self, Document, JsonNode, JsonPlace, LoopPlace, Parent, Stages, TensorPlace};
use super::names::Name;
use super::{FORMAT, VERSION, mistake};
use crate::expr::{Body, ExprNode, Function};
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::schedule::group::Enclosing;
use crate::te::loops::schedule::primitives::is_size;
use crate::te::loops::schedule::properties::MemoryLayout;
use crate::te::loops::schedule::{Attach, Relation, Schedule, SplitBy, Stage};

pub(super) fn write_schedule(schedule: &Schedule, tensors: &[&Tensor]) -> Result<Document, TeError> {
    let mut writer = Writer::default();
    // Threads first: expressions may use them before a loop is bound to them.
    for stage in &schedule.stages {
        let bound = stage.leaves.iter().filter_map(|leaf| stage.threads.get(leaf));
        bound.chain(&stage.env_threads).try_for_each(|thread| writer.axis(*thread).map(drop))?;
    }
    let stages = all(&schedule.stages, |stage| writer.stage(stage))?;
    let outputs = all(&schedule.outputs, |output| writer.operation(output))?;
    let groups = all(&schedule.groups, |group| {
        let parent = group.parent.as_ref().map(|parent| match parent {
            Enclosing::Group(group) => Ok(Parent::Group(group.0)),
            Enclosing::Scan(scan) => writer.operation(scan).map(Parent::Scan),
        });
        let parent = parent.transpose()?;
        let at = group.at.as_ref().map(|(operation, axis)| writer.place(operation, *axis)).transpose()?;
        Ok(document::Group { parent, at })
    })?;
    let scan_groups = all(&schedule.scan_groups, |(scan, group)| Ok((writer.operation(scan)?, group.0)))?;
    let tensors = all(tensors, |tensor| {
        let stage = &schedule.stages[schedule.index(tensor)?];
        // A handle from before or after a rewrite of the stage: both are known.
        let rewritten = Arc::ptr_eq(tensor.operation(), &stage.operation);
        let operation = if rewritten { &stage.operation } else { &stage.origin };
        Ok((writer.operation(operation)?, tensor.value()))
    })?;
    Ok(Document {
        format: FORMAT.to_owned(),
        version: VERSION,
        nodes: writer.nodes,
        schedule: Stages { stages, outputs, groups, scan_groups },
        record: schedule.primitive_record().into_iter().map(str::to_owned).collect(),
        tensors,
    })
}

fn all<'a, T: 'a, U>(
    of: impl IntoIterator<Item = &'a T>,
    write: impl FnMut(&'a T) -> Result<U, TeError>,
) -> Result<Vec<U>, TeError> {
    of.into_iter().map(write).collect()
}

/// The part that a node was written for. Shared parts are recognised by their addresses, which stay valid because the schedule
/// being written holds them all.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Var(Var),
    Axis(Axis),
    Function(*const Function),
    Expression(*const Kind),
    Reduction(*const Reduce),
    Operation(*const Operation),
}

/// The nodes written so far, and their places.
#[derive(Default)]
struct Writer {
    nodes: Vec<JsonNode>,
    places: HashMap<Key, usize>,
    /// Expressions that are kept alive, so that no other expression gets their address.
    kept: Vec<Expr>,
}

impl Writer {
    fn add(&mut self, key: Key, node: JsonNode) -> usize {
        let place = self.nodes.len();
        self.nodes.push(node);
        self.places.insert(key, place);
        place
    }

    /// The place of what was written before, or now.
    fn once(&mut self, key: Key, node: impl FnOnce(&mut Self) -> Result<JsonNode, TeError>) -> Result<usize, TeError> {
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let node = node(self)?;
        Ok(self.add(key, node))
    }

    fn var(&mut self, var: Var) -> Result<usize, TeError> {
        self.once(Key::Var(var), |_| {
            Ok(JsonNode::Variable { name: var.name().to_owned(), r#type: Name(var.dtype()), counter: var.is_counter() })
        })
    }

    fn axis(&mut self, axis: Axis) -> Result<usize, TeError> {
        let place = self.once(Key::Axis(axis), |writer| {
            let domain = axis.domain().map(|range| {
                if !is_size(&range.min) || !is_size(&range.extent) {
                    let reason = "it depends on data or on an index, which has no text";
                    return Err(mistake(format!("the range of {} is no size: {reason}", axis.name())));
                }
                Ok((writer.expression(&range.min)?, writer.expression(&range.extent)?))
            });
            Ok(JsonNode::Axis { name: axis.name().to_owned(), kind: Name(axis.kind()), domain: domain.transpose()? })
        })?;
        self.places.insert(Key::Var(axis.var()), place);
        Ok(place)
    }

    fn axes(&mut self, axes: &[Axis]) -> Result<Vec<usize>, TeError> {
        all(axes, |axis| self.axis(*axis))
    }

    fn expressions(&mut self, expressions: &[Expr]) -> Result<Vec<usize>, TeError> {
        all(expressions, |x| self.expression(x))
    }

    fn expression(&mut self, x: &Expr) -> Result<usize, TeError> {
        if let Some(place) = self.places.get(&Key::Expression(x.kind())) {
            return Ok(*place);
        }
        // Operands come first, so that no node has to descend.
        let nodes = x.bottom_up();
        nodes.into_iter().try_fold(0, |_, node| self.once(Key::Expression(node.kind()), |writer| writer.node(node)))
    }

    fn node(&mut self, x: &Expr) -> Result<JsonNode, TeError> {
        self.kept.push(x.clone());
        let r#type = Name(x.dtype());
        Ok(match x.kind() {
            Kind::Int(value) => JsonNode::Int { r#type, value: *value },
            Kind::Float(value) => JsonNode::Float { r#type, value: format!("{value:?}") },
            Kind::Var(var) => JsonNode::Value { of: self.var(*var)? },
            Kind::Binary(op, a, b) => {
                JsonNode::Binary { op: Name(*op), operands: [self.expression(a)?, self.expression(b)?] }
            }
            Kind::Not(x) => JsonNode::Not { operands: [self.expression(x)?] },
            Kind::Likely(x) => JsonNode::Likely { operands: [self.expression(x)?] },
            Kind::Select(condition, a, b) => {
                JsonNode::Select { operands: [self.expression(condition)?, self.expression(a)?, self.expression(b)?] }
            }
            Kind::Cast(x) => JsonNode::Cast { r#type, operands: [self.expression(x)?] },
            Kind::Apply(op, operands) => JsonNode::Apply { op: Name(*op), operands: self.expressions(operands)? },
            Kind::Call(function, operands) => {
                JsonNode::Call { function: self.function(function)?, operands: self.expressions(operands)? }
            }
            Kind::Read(tensor, indices) => {
                let (operation, value) = self.tensor(tensor)?;
                JsonNode::Read { operation, value, operands: self.expressions(indices)? }
            }
            Kind::Reduce(reduce, index) => JsonNode::Reduced { reduction: self.reduction(reduce)?, index: *index },
            Kind::Load(buffer, _) => {
                return Err(mistake(format!("{} is a buffer of a lowered program", buffer.name())));
            }
            Kind::Invalid(error) => return Err(error.clone()),
        })
    }

    fn function(&mut self, function: &'static Function) -> Result<usize, TeError> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        self.once(Key::Function(function), |writer| {
            let body = match function.body() {
                Body::Primitive(op) => document::Body::Primitive { op: Name(*op) },
                Body::Expression(expression) => document::Body::Expression {
                    steps: all(expression.nodes(), |node| writer.step(node))?,
                    names: expression.names().iter().map(|name| name.map(str::to_owned)).collect(),
                    root: expression.root().index(),
                },
            };
            let (name, cuda) = (function.name().to_owned(), function.cuda().map(str::to_owned));
            Ok(JsonNode::Function { name, parameters: owned(function.parameters()), body, cuda })
        })
    }

    fn step(&mut self, node: &ExprNode) -> Result<document::JsonStep, TeError> {
        let operands: Vec<usize> = node.operands().iter().map(|id| id.index()).collect();
        Ok(match node {
            ExprNode::Parameter(place) => document::JsonStep::Parameter { parameter: *place },
            ExprNode::Literal(value) => document::JsonStep::Literal { literal: format!("{value:?}") },
            ExprNode::Apply(op, _) => document::JsonStep::Apply { apply: Name(*op), operands },
            ExprNode::Call(function, _) => document::JsonStep::Call { call: self.function(function)?, operands },
            ExprNode::Cast(element, x) => {
                document::JsonStep::Cast { cast: Name((*element).into()), operands: [x.index()] }
            }
        })
    }

    fn reduction(&mut self, reduce: &Arc<Reduce>) -> Result<usize, TeError> {
        self.once(Key::Reduction(Arc::as_ptr(reduce)), |writer| {
            let combiner = &reduce.combiner;
            Ok(JsonNode::Reduction(document::JsonReduction {
                axes: writer.axes(&reduce.axes)?,
                left: all(&combiner.left, |var| writer.var(*var))?,
                right: all(&combiner.right, |var| writer.var(*var))?,
                result: writer.expressions(&combiner.result)?,
                identity: writer.expressions(&combiner.identity)?,
                commutative: combiner.commutative,
                source: writer.expressions(&reduce.source)?,
                init: writer.expressions(&reduce.init)?,
                condition: writer.expression(&reduce.condition)?,
            }))
        })
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<TensorPlace, TeError> {
        Ok((self.operation(tensor.operation())?, tensor.value()))
    }

    fn operation(&mut self, operation: &Arc<Operation>) -> Result<usize, TeError> {
        // Its inputs come first, so that no operation has to descend.
        let (mut found, mut pending) = (Vec::new(), vec![Arc::clone(operation)]);
        let mut seen = HashSet::new();
        while let Some(next) = pending.pop() {
            if !self.places.contains_key(&Key::Operation(Arc::as_ptr(&next))) && seen.insert(Arc::as_ptr(&next)) {
                pending.extend(next.inputs().iter().map(|input| Arc::clone(input.operation())));
                found.push(next);
            }
        }
        found.sort_by_key(|operation| operation.depth());
        found.iter().try_for_each(|operation| self.one_operation(operation).map(drop))?;
        self.one_operation(operation)
    }

    fn one_operation(&mut self, operation: &Arc<Operation>) -> Result<usize, TeError> {
        self.once(Key::Operation(Arc::as_ptr(operation)), |writer| {
            let name = operation.name().to_owned();
            Ok(match operation.kind() {
                OperationKind::Placeholder { shape, dtype } => {
                    JsonNode::Placeholder { name, r#type: Name(*dtype), shape: writer.expressions(shape)? }
                }
                OperationKind::Compute(compute) => {
                    let axes = writer.axes(&compute.axes)?;
                    writer.axes(&compute.reduce_axes)?;
                    JsonNode::Compute { name, axes, body: writer.expressions(&compute.body)? }
                }
                OperationKind::Scan(scan) => JsonNode::Scan(document::Scan {
                    name,
                    axis: writer.axis(scan.axis)?,
                    init: all(&scan.init, |tensor| writer.tensor(tensor))?,
                    update: all(&scan.update, |tensor| writer.tensor(tensor))?,
                    state: all(&scan.state, |tensor| writer.tensor(tensor))?,
                    inputs: all(&scan.inputs, |tensor| writer.tensor(tensor))?,
                }),
            })
        })
    }

    fn place(&mut self, operation: &Arc<Operation>, axis: Axis) -> Result<LoopPlace, TeError> {
        Ok((self.operation(operation)?, self.axis(axis)?))
    }

    fn relation(&mut self, relation: &Relation) -> Result<document::Relation, TeError> {
        Ok(match relation {
            Relation::Split { parent, outer, inner, by, predicated } => {
                let split = [self.axis(*parent)?, self.axis(*outer)?, self.axis(*inner)?];
                let predicated = *predicated;
                match by {
                    SplitBy::Factor(x) => document::Relation::Factor { split, factor: self.expression(x)?, predicated },
                    SplitBy::Parts(x) => document::Relation::Parts { split, parts: self.expression(x)?, predicated },
                }
            }
            Relation::Fuse { outer, inner, fused } => {
                document::Relation::Fuse { fuse: [self.axis(*outer)?, self.axis(*inner)?, self.axis(*fused)?] }
            }
            // Refused together with the stage.
            Relation::Transform { .. } => return Err(mistake("a new layout has no text".to_owned())),
            Relation::Singleton { axis } => document::Relation::Singleton { singleton: self.axis(*axis)? },
        })
    }

    fn stage(&mut self, stage: &Stage) -> Result<document::Stage, TeError> {
        // All fields are listed by name, so that a new one must be added here.
        let Stage {
            origin,
            operation,
            root_axes: _,
            leaves,
            relations,
            kinds,
            threads,
            attach,
            group,
            member,
            time,
            scope,
            store_predicate,
            env_threads,
            pragmas,
            output: _,
            memory: MemoryLayout { alignments, double, rolling },
            layout,
            prefetches,
            tensorized,
            record: _,
        } = stage;
        if let Some((axis, _)) = tensorized {
            let reason = "an intrinsic has no text; save the schedule before it is tensorized".to_owned();
            return Err(mistake(format!("{} is tensorized at {}: {reason}", stage.name(), axis.name())));
        }
        if layout.is_some() {
            let reason = "a new layout has no text; save the schedule before `transform_layout`";
            return Err(mistake(format!("{} is laid out anew: {reason}", stage.name())));
        }
        let marked = leaves.iter().filter_map(|leaf| Some((*leaf, *kinds.get(leaf)?)));
        let bound = leaves.iter().filter_map(|leaf| Some((*leaf, *threads.get(leaf)?)));
        let said = pragmas.iter().filter(|(axis, _)| leaves.contains(axis));
        let fetched = prefetches.iter().filter(|prefetch| leaves.contains(&prefetch.axis));
        Ok(document::Stage {
            origin: self.operation(origin)?,
            operation: self.operation(operation)?,
            relations: all(relations, |relation| self.relation(relation))?,
            loops: self.axes(leaves)?,
            kinds: marked.map(|(axis, kind)| Ok((self.axis(axis)?, Name(kind)))).collect::<Result<_, TeError>>()?,
            threads: bound
                .map(|(axis, thread)| Ok((self.axis(axis)?, self.axis(thread)?)))
                .collect::<Result<_, TeError>>()?,
            place: match attach {
                Attach::Root => JsonPlace::Root,
                Attach::Inline => JsonPlace::Inline,
                Attach::At(operation, axis) => JsonPlace::At(self.place(operation, *axis)?),
                Attach::ScanInit(scan) => JsonPlace::InitOf(self.operation(scan)?),
                Attach::ScanUpdate(scan) => JsonPlace::UpdateOf(self.operation(scan)?),
            },
            scan: group.as_ref().map(|scan| self.operation(scan)).transpose()?,
            group: member.map(|group| group.0),
            time: time.and(stage.time_dimension()),
            scope: scope.map(|scope| scope.name().to_owned()),
            store_predicate: store_predicate.as_ref().map(|x| self.expression(x)).transpose()?,
            env_threads: self.axes(env_threads)?,
            pragmas: all(said, |(axis, pragma)| Ok((self.axis(*axis)?, pragma.key().to_owned(), pragma.value())))?,
            aligned: alignments.iter().map(|a| (a.dimension, a.factor, a.offset)).collect(),
            double_buffer: *double,
            rolling_buffer: *rolling,
            prefetches: all(fetched, |prefetch| {
                let tensor = self.tensor(&prefetch.tensor)?;
                Ok((tensor, self.axis(prefetch.axis)?, self.expression(&prefetch.offset)?))
            })?,
        })
    }
}
