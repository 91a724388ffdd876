//! Writes a schedule as JSON.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{FORMAT, VERSION, mistake, names};
use crate::expr::{Body, ExprNode, Function};
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::schedule::group::{Enclosing, Membership};
use crate::te::loops::schedule::primitives::is_size;
use crate::te::loops::schedule::properties::MemoryLayout;
use crate::te::loops::schedule::{Attach, Relation, Schedule, SplitBy, Stage};

pub(super) fn write_schedule(schedule: &Schedule, tensors: &[&Tensor]) -> Result<Value, TeError> {
    let mut writer = Writer::default();
    // Threads first: expressions may use them before a loop is bound to them.
    for stage in &schedule.stages {
        let bound = stage.leaves.iter().filter_map(|leaf| stage.threads.get(leaf));
        for thread in bound.chain(&stage.env_threads) {
            writer.axis(*thread)?;
        }
    }
    let mut stages = Vec::new();
    for stage in &schedule.stages {
        stages.push(writer.stage(stage)?);
    }
    let mut outputs = Vec::new();
    for output in &schedule.outputs {
        outputs.push(writer.operation(output)?);
    }
    let mut groups = Vec::new();
    for Membership { parent, at } in &schedule.groups {
        let parent = parent.as_ref().map(|parent| writer.enclosing(parent)).transpose()?;
        let at = at.as_ref().map(|(operation, axis)| writer.place(operation, *axis)).transpose()?;
        groups.push(json!({ "parent": parent, "at": at }));
    }
    let mut scan_groups = Vec::new();
    for (scan, group) in &schedule.scan_groups {
        scan_groups.push(json!([writer.operation(scan)?, group.0]));
    }
    let mut named = Vec::new();
    for tensor in tensors {
        let stage = &schedule.stages[schedule.index(tensor)?];
        // A handle from before or after a rewrite of the stage: both are known.
        let operation =
            if Arc::ptr_eq(tensor.operation(), &stage.operation) { &stage.operation } else { &stage.origin };
        named.push(json!([writer.operation(operation)?, tensor.value()]));
    }
    Ok(json!({
        "format": FORMAT,
        "version": VERSION,
        "nodes": writer.nodes,
        "schedule": { "stages": stages, "outputs": outputs, "groups": groups, "scan_groups": scan_groups },
        "record": schedule.primitive_record(),
        "tensors": named,
    }))
}

/// The nodes written so far, and their places. Shared parts are recognised by their addresses, which stay valid because
/// the schedule being written holds them all.
#[derive(Default)]
struct Writer {
    nodes: Vec<Value>,
    vars: HashMap<Var, usize>,
    axes: HashMap<Axis, usize>,
    functions: HashMap<*const Function, usize>,
    expressions: HashMap<*const Kind, usize>,
    reductions: HashMap<*const Reduce, usize>,
    operations: HashMap<*const Operation, usize>,
    /// Expressions that are kept alive, so that no other expression gets their address.
    kept: Vec<Expr>,
}

impl Writer {
    fn add(&mut self, node: Value) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn var(&mut self, var: Var) -> usize {
        if let Some(place) = self.vars.get(&var) {
            return *place;
        }
        let dtype = names::dtype(var.dtype());
        let place =
            self.add(json!({ "node": "variable", "name": var.name(), "type": dtype, "counter": var.is_counter() }));
        self.vars.insert(var, place);
        place
    }

    fn axis(&mut self, axis: Axis) -> Result<usize, TeError> {
        if let Some(place) = self.axes.get(&axis) {
            return Ok(*place);
        }
        let mut domain = Value::Null;
        if let Some(range) = axis.domain() {
            if !is_size(&range.min) || !is_size(&range.extent) {
                let reason = "it depends on data or on an index, which has no text";
                return Err(mistake(format!("the range of {} is no size: {reason}", axis.name())));
            }
            domain = json!([self.expression(&range.min)?, self.expression(&range.extent)?]);
        }
        let kind = names::axis(axis.kind());
        let place = self.add(json!({ "node": "axis", "name": axis.name(), "kind": kind, "domain": domain }));
        self.axes.insert(axis, place);
        self.vars.insert(axis.var(), place);
        Ok(place)
    }

    fn all_axes(&mut self, axes: &[Axis]) -> Result<Vec<usize>, TeError> {
        axes.iter().map(|axis| self.axis(*axis)).collect()
    }

    fn all(&mut self, expressions: &[Expr]) -> Result<Vec<usize>, TeError> {
        expressions.iter().map(|x| self.expression(x)).collect()
    }

    fn expression(&mut self, x: &Expr) -> Result<usize, TeError> {
        if let Some(place) = self.expressions.get(&std::ptr::from_ref(x.kind())) {
            return Ok(*place);
        }
        // Operands come first, so that no node has to descend.
        let nodes = x.bottom_up();
        nodes.into_iter().try_fold(0, |_, node| self.node(node))
    }

    fn node(&mut self, x: &Expr) -> Result<usize, TeError> {
        let address = std::ptr::from_ref(x.kind());
        if let Some(place) = self.expressions.get(&address) {
            return Ok(*place);
        }
        let operands = match x.kind() {
            // Its operands are the reduction's.
            Kind::Reduce(..) => Vec::new(),
            _ => x.operands().into_iter().map(|operand| self.expression(operand)).collect::<Result<_, _>>()?,
        };
        let dtype = names::dtype(x.dtype());
        let node = match x.kind() {
            Kind::Int(value) => json!({ "node": "int", "type": dtype, "value": value }),
            Kind::Float(value) => json!({ "node": "float", "type": dtype, "value": format!("{value:?}") }),
            Kind::Var(var) => json!({ "node": "value", "of": self.var(*var) }),
            Kind::Binary(op, ..) => json!({ "node": "binary", "op": names::binary(*op), "operands": operands }),
            Kind::Not(_) => json!({ "node": "not", "operands": operands }),
            Kind::Select(..) => json!({ "node": "select", "operands": operands }),
            Kind::Cast(_) => json!({ "node": "cast", "type": dtype, "operands": operands }),
            Kind::Likely(_) => json!({ "node": "likely", "operands": operands }),
            Kind::Apply(op, _) => json!({ "node": "apply", "op": names::op(*op), "operands": operands }),
            Kind::Call(function, _) => {
                json!({ "node": "call", "function": self.function(function), "operands": operands })
            }
            Kind::Read(tensor, _) => {
                let operation = self.operation(tensor.operation())?;
                json!({ "node": "read", "operation": operation, "value": tensor.value(), "operands": operands })
            }
            Kind::Reduce(reduce, index) => {
                json!({ "node": "reduced", "reduction": self.reduction(reduce)?, "index": index })
            }
            Kind::Load(buffer, _) => {
                return Err(mistake(format!("{} is a buffer of a lowered program", buffer.name())));
            }
            Kind::Invalid(error) => return Err(error.clone()),
        };
        let place = self.add(node);
        self.expressions.insert(address, place);
        self.kept.push(x.clone());
        Ok(place)
    }

    fn function(&mut self, function: &'static Function) -> usize {
        if let Some(place) = self.functions.get(&std::ptr::from_ref(function)) {
            return *place;
        }
        let body = match function.body() {
            Body::Primitive(op) => json!({ "op": names::op(*op) }),
            Body::Expression(expression) => {
                let steps: Vec<Value> = expression.nodes().iter().map(|node| self.step(node)).collect();
                json!({ "steps": steps, "names": expression.names(), "root": expression.root().index() })
            }
        };
        let place = self.add(json!({
            "node": "function",
            "name": function.name(),
            "parameters": function.parameters(),
            "body": body,
            "cuda": function.cuda(),
        }));
        self.functions.insert(std::ptr::from_ref(function), place);
        place
    }

    fn step(&mut self, node: &ExprNode) -> Value {
        let operands: Vec<usize> = node.operands().iter().map(|id| id.index()).collect();
        match node {
            ExprNode::Parameter(place) => json!({ "parameter": place }),
            ExprNode::Literal(value) => json!({ "literal": format!("{value:?}") }),
            ExprNode::Apply(op, _) => json!({ "apply": names::op(*op), "operands": operands }),
            ExprNode::Call(function, _) => json!({ "call": self.function(function), "operands": operands }),
            ExprNode::Cast(element, _) => json!({ "cast": element.name(), "operands": operands }),
        }
    }

    fn reduction(&mut self, reduce: &Arc<Reduce>) -> Result<usize, TeError> {
        if let Some(place) = self.reductions.get(&Arc::as_ptr(reduce)) {
            return Ok(*place);
        }
        let axes = self.all_axes(&reduce.axes)?;
        let combiner = &reduce.combiner;
        let left: Vec<usize> = combiner.left.iter().map(|var| self.var(*var)).collect();
        let right: Vec<usize> = combiner.right.iter().map(|var| self.var(*var)).collect();
        let node = json!({
            "node": "reduction",
            "left": left,
            "right": right,
            "result": self.all(&combiner.result)?,
            "identity": self.all(&combiner.identity)?,
            "commutative": combiner.commutative,
            "source": self.all(&reduce.source)?,
            "init": self.all(&reduce.init)?,
            "axes": axes,
            "condition": self.expression(&reduce.condition)?,
        });
        let place = self.add(node);
        self.reductions.insert(Arc::as_ptr(reduce), place);
        Ok(place)
    }

    fn tensors(&mut self, tensors: &[Tensor]) -> Result<Vec<Value>, TeError> {
        tensors.iter().map(|tensor| Ok(json!([self.operation(tensor.operation())?, tensor.value()]))).collect()
    }

    fn operation(&mut self, operation: &Arc<Operation>) -> Result<usize, TeError> {
        // What it is computed from comes first, so that no operation has to descend.
        let (mut found, mut pending) = (Vec::new(), vec![Arc::clone(operation)]);
        let mut seen = HashSet::new();
        while let Some(next) = pending.pop() {
            if !self.operations.contains_key(&Arc::as_ptr(&next)) && seen.insert(Arc::as_ptr(&next)) {
                pending.extend(next.inputs().iter().map(|input| Arc::clone(input.operation())));
                found.push(next);
            }
        }
        found.sort_by_key(|operation| operation.depth());
        found.iter().try_for_each(|operation| self.one_operation(operation).map(drop))?;
        self.one_operation(operation)
    }

    fn one_operation(&mut self, operation: &Arc<Operation>) -> Result<usize, TeError> {
        if let Some(place) = self.operations.get(&Arc::as_ptr(operation)) {
            return Ok(*place);
        }
        let name = operation.name();
        let node = match operation.kind() {
            OperationKind::Placeholder { shape, dtype } => {
                json!({ "node": "placeholder", "name": name, "type": names::dtype(*dtype), "shape": self.all(shape)? })
            }
            OperationKind::Compute(compute) => {
                let axes = self.all_axes(&compute.axes)?;
                self.all_axes(&compute.reduce_axes)?;
                json!({ "node": "compute", "name": name, "axes": axes, "body": self.all(&compute.body)? })
            }
            OperationKind::Scan(scan) => json!({
                "node": "scan",
                "name": name,
                "axis": self.axis(scan.axis)?,
                "init": self.tensors(&scan.init)?,
                "update": self.tensors(&scan.update)?,
                "state": self.tensors(&scan.state)?,
                "inputs": self.tensors(&scan.inputs)?,
            }),
        };
        let place = self.add(node);
        self.operations.insert(Arc::as_ptr(operation), place);
        Ok(place)
    }

    fn place(&mut self, operation: &Arc<Operation>, axis: Axis) -> Result<Value, TeError> {
        Ok(json!([self.operation(operation)?, self.axis(axis)?]))
    }

    fn enclosing(&mut self, group: &Enclosing) -> Result<Value, TeError> {
        Ok(match group {
            Enclosing::Group(group) => json!({ "group": group.0 }),
            Enclosing::Scan(scan) => json!({ "scan": self.operation(scan)? }),
        })
    }

    fn relation(&mut self, relation: &Relation) -> Result<Value, TeError> {
        Ok(match relation {
            Relation::Split { parent, outer, inner, by, predicated } => {
                let (what, x) = match by {
                    SplitBy::Factor(factor) => ("factor", factor),
                    SplitBy::Parts(parts) => ("parts", parts),
                };
                let axes = self.all_axes(&[*parent, *outer, *inner])?;
                json!({ "split": axes, what: self.expression(x)?, "predicated": predicated })
            }
            Relation::Fuse { outer, inner, fused } => json!({ "fuse": self.all_axes(&[*outer, *inner, *fused])? }),
            // Refused together with the stage.
            Relation::Transform { .. } => return Err(mistake("a new layout has no text".to_owned())),
            Relation::Singleton { axis } => json!({ "singleton": self.axis(*axis)? }),
        })
    }

    fn stage(&mut self, stage: &Stage) -> Result<Value, TeError> {
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
        let aligned: Vec<Value> = alignments.iter().map(|a| json!([a.dimension, a.factor, a.offset])).collect();
        let mut fetched = Vec::new();
        for prefetch in prefetches.iter().filter(|prefetch| leaves.contains(&prefetch.axis)) {
            let tensor = self.tensors(std::slice::from_ref(&prefetch.tensor))?;
            fetched.push(json!([tensor[0], self.axis(prefetch.axis)?, self.expression(&prefetch.offset)?]));
        }
        let mut related = Vec::new();
        let origin = self.operation(origin)?;
        let operation = self.operation(operation)?;
        for relation in relations {
            related.push(self.relation(relation)?);
        }
        let leaves_at = self.all_axes(leaves)?;
        let mut marked = Vec::new();
        let mut bound = Vec::new();
        for leaf in leaves {
            if let Some(kind) = kinds.get(leaf) {
                marked.push(json!([self.axis(*leaf)?, names::loop_kind(*kind)]));
            }
            if let Some(thread) = threads.get(leaf) {
                bound.push(json!([self.axis(*leaf)?, self.axis(*thread)?]));
            }
        }
        let place = match attach {
            Attach::Root => json!("root"),
            Attach::Inline => json!("inline"),
            Attach::At(operation, axis) => json!({ "at": self.place(operation, *axis)? }),
            Attach::ScanInit(scan) => json!({ "init_of": self.operation(scan)? }),
            Attach::ScanUpdate(scan) => json!({ "update_of": self.operation(scan)? }),
        };
        let env_threads = self.all_axes(env_threads)?;
        let mut said = Vec::new();
        for (axis, pragma) in pragmas.iter().filter(|(axis, _)| leaves.contains(axis)) {
            said.push(json!([self.axis(*axis)?, pragma.key(), pragma.value()]));
        }
        Ok(json!({
            "origin": origin,
            "operation": operation,
            "relations": related,
            "loops": leaves_at,
            "kinds": marked,
            "threads": bound,
            "place": place,
            "scan": group.as_ref().map(|scan| self.operation(scan)).transpose()?,
            "group": member.map(|group| group.0),
            "time": time.and(stage.time_dimension()),
            "scope": scope.map(crate::te::expr::buffer::Scope::name),
            "store_predicate": store_predicate.as_ref().map(|x| self.expression(x)).transpose()?,
            "env_threads": env_threads,
            "pragmas": said,
            "aligned": aligned,
            "double_buffer": double,
            "rolling_buffer": rolling,
            "prefetches": fetched,
        }))
    }
}
