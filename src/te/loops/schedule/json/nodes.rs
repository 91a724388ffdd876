//! Reads variables, axes, functions, expressions and operations from JSON.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;

use super::{limits, mistake, names};
use crate::expr::{ExprId, Function, FunctionBuilder, Op};
use crate::sync::lock;
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, AxisKind, Domain, thread_axis};
use crate::te::expr::define::compute::compute_operation;
use crate::te::expr::define::extents::{check_extents, check_range};
use crate::te::expr::define::scan::scan_all;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::tensor::{Operation, OperationKind, Scan, Tensor};
use crate::te::expr::var::{Var, interned};
use crate::te::loops::schedule::primitives::is_size;

/// What a node stands for.
enum Node {
    Var(Var),
    Axis(Axis),
    Function(Called),
    Expr(Expr),
    Reduction(Arc<Reduce>),
    Operation(Arc<Operation>),
}

/// A function, and how many steps it has, including those of functions that it calls.
#[derive(Clone, Copy)]
struct Called {
    function: &'static Function,
    steps: usize,
    /// The depth of function calls.
    calls: usize,
}

/// The nodes read so far.
pub(super) struct Nodes {
    all: Vec<Node>,
    /// The number of parts read so far. A shared part counts for each of its users.
    parts: Cell<usize>,
}

/// A member of an object, by its name.
pub(super) fn member<'a>(object: &'a Value, name: &str) -> Result<&'a Value, TeError> {
    object.get(name).ok_or_else(|| mistake(format!("`{name}` is missing in {}", shortened(object))))
}

/// Checks that an object has no other members than these.
pub(super) fn only(object: &Value, members: &[&str]) -> Result<(), TeError> {
    let Some(given) = object.as_object() else {
        return Err(mistake(format!("{} is not an object", shortened(object))));
    };
    match given.keys().find(|name| !members.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = members.join("`, `");
            Err(mistake(format!("`{name}` is no member of {}, which may have `{known}`", shortened(object))))
        }
    }
}

pub(super) fn list<'a>(object: &'a Value, name: &str) -> Result<&'a [Value], TeError> {
    elements(member(object, name)?)
}

pub(super) fn elements(value: &Value) -> Result<&[Value], TeError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| mistake(format!("{} is not a list", shortened(value))))
}

pub(super) fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, TeError> {
    let value = member(object, name)?;
    value.as_str().ok_or_else(|| mistake(format!("`{name}` is {}, not a string", shortened(value))))
}

pub(super) fn truth(object: &Value, name: &str) -> Result<bool, TeError> {
    let value = member(object, name)?;
    value.as_bool().ok_or_else(|| mistake(format!("`{name}` is {}, not true or false", shortened(value))))
}

pub(super) fn place(value: &Value) -> Result<usize, TeError> {
    let place = value.as_u64().and_then(|place| usize::try_from(place).ok());
    place.ok_or_else(|| mistake(format!("{} is not a place in a list", shortened(value))))
}

pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn known<T>(found: Option<T>, what: &str, name: &str) -> Result<T, TeError> {
    found.ok_or_else(|| mistake(format!("`{name}` is no {what}")))
}

fn dtype(object: &Value) -> Result<DType, TeError> {
    let name = text(object, "type")?;
    known(names::parse_dtype(name), "type", name)
}

/// A floating-point number as it is written: no other text of the same number.
fn number(text: &str) -> Result<f64, TeError> {
    let given = text.parse::<f64>().ok().filter(|given| format!("{given:?}") == text);
    given.ok_or_else(|| mistake(format!("\"{text}\" is not a number as they are written here: 1.0, -2.5e-7, inf, NaN")))
}

/// The members of a node of a kind.
fn members(node: &str) -> Result<&'static [&'static str], TeError> {
    Ok(match node {
        "variable" => &["node", "name", "type", "counter"],
        "axis" => &["node", "name", "kind", "domain"],
        "function" => &["node", "name", "parameters", "body", "cuda"],
        "reduction" => {
            &["node", "left", "right", "result", "identity", "commutative", "source", "init", "axes", "condition"]
        }
        "placeholder" => &["node", "name", "type", "shape"],
        "compute" => &["node", "name", "axes", "body"],
        "scan" => &["node", "name", "axis", "init", "update", "state", "inputs"],
        "int" | "float" => &["node", "type", "value"],
        "value" => &["node", "of"],
        "binary" | "apply" => &["node", "op", "operands"],
        "not" | "likely" | "select" => &["node", "operands"],
        "cast" => &["node", "type", "operands"],
        "call" => &["node", "function", "operands"],
        "read" => &["node", "operation", "value", "operands"],
        "reduced" => &["node", "reduction", "index"],
        other => return Err(mistake(format!("`{other}` is not a kind of node"))),
    })
}

impl Nodes {
    pub(super) fn read(nodes: &[Value]) -> Result<Self, TeError> {
        limits::NODES.check(nodes.len())?;
        let mut all = Self { all: Vec::with_capacity(nodes.len()), parts: Cell::new(0) };
        for value in nodes {
            let node = all.node(value)?;
            if let Node::Expr(x) = &node
                && let Kind::Invalid(error) = x.kind()
            {
                return Err(error.clone());
            }
            all.all.push(node);
        }
        Ok(all)
    }

    fn node(&self, value: &Value) -> Result<Node, TeError> {
        let node = text(value, "node")?;
        only(value, members(node)?)?;
        match node {
            "variable" => {
                let (name, dtype) = (text(value, "name")?, dtype(value)?);
                let var = if truth(value, "counter")? { Var::local(name, dtype) } else { Var::new(name, dtype) };
                Ok(Node::Var(var))
            }
            "axis" => Ok(Node::Axis(self.new_axis(value)?)),
            "function" => Ok(Node::Function(self.new_function(value)?)),
            "reduction" => Ok(Node::Reduction(Arc::new(self.new_reduction(value)?))),
            "placeholder" => {
                let (name, shape) = (text(value, "name")?, self.sizes(list(value, "shape")?)?);
                check_extents(&shape, |d| format!("dimension {d} of {name}"))?;
                let kind = OperationKind::Placeholder { shape, dtype: dtype(value)? };
                Ok(Node::Operation(Operation::new(name, kind)))
            }
            "compute" => {
                let axes = self.axes(list(value, "axes")?)?;
                let body = self.expressions(list(value, "body")?)?;
                self.count(&body)?;
                let from_0 = |domain: Domain| domain.min.as_int() == Some(0);
                let data = |axis: &Axis| axis.kind() == AxisKind::Data && axis.domain().is_some_and(from_0);
                let name = text(value, "name")?;
                if !axes.iter().all(data) || !distinct(&axes) {
                    return Err(mistake(format!("the axes of {name} are not data axes from 0 on, each once")));
                }
                Ok(Node::Operation(compute_operation(name, axes, body)?))
            }
            "scan" => Ok(Node::Operation(self.new_scan(value)?)),
            other => Ok(Node::Expr(self.new_expression(other, value)?)),
        }
    }

    fn at(&self, value: &Value) -> Result<&Node, TeError> {
        let place = place(value)?;
        let missing = || mistake(format!("node {place} is used before it is given"));
        self.all.get(place).ok_or_else(missing)
    }

    pub(super) fn axis(&self, value: &Value) -> Result<Axis, TeError> {
        match self.at(value)? {
            Node::Axis(axis) => Ok(*axis),
            _ => Err(mistake(format!("node {value} is not an axis"))),
        }
    }

    pub(super) fn axes(&self, values: &[Value]) -> Result<Vec<Axis>, TeError> {
        values.iter().map(|value| self.axis(value)).collect()
    }

    pub(super) fn expression(&self, value: &Value) -> Result<Expr, TeError> {
        match self.at(value)? {
            Node::Expr(x) => Ok(x.clone()),
            _ => Err(mistake(format!("node {value} is not an expression"))),
        }
    }

    fn expressions(&self, values: &[Value]) -> Result<Vec<Expr>, TeError> {
        values.iter().map(|value| self.expression(value)).collect()
    }

    pub(super) fn operation(&self, value: &Value) -> Result<Arc<Operation>, TeError> {
        match self.at(value)? {
            Node::Operation(operation) => Ok(operation.clone()),
            _ => Err(mistake(format!("node {value} is not an operation"))),
        }
    }

    pub(super) fn tensor(&self, value: &Value) -> Result<Tensor, TeError> {
        let [operation, index] = elements(value)? else {
            return Err(mistake(format!("{} is not a tensor", shortened(value))));
        };
        self.value_of(operation, index)
    }

    fn value_of(&self, operation: &Value, index: &Value) -> Result<Tensor, TeError> {
        let (operation, index) = (self.operation(operation)?, place(index)?);
        if index >= operation.values() {
            return Err(mistake(format!("{} has no value {index}", operation.name())));
        }
        Ok(Tensor::new(operation, index))
    }

    fn function(&self, value: &Value) -> Result<Called, TeError> {
        match self.at(value)? {
            Node::Function(called) => Ok(*called),
            _ => Err(mistake(format!("node {value} is not a function"))),
        }
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
    pub(super) fn size(&self, value: &Value) -> Result<Expr, TeError> {
        let size = self.expression(value)?;
        self.count([&size])?;
        if is_size(&size) {
            Ok(size)
        } else {
            Err(mistake(format!("{} is not a size", crate::te::text::expression(&size))))
        }
    }

    fn sizes(&self, values: &[Value]) -> Result<Vec<Expr>, TeError> {
        values.iter().map(|value| self.size(value)).collect()
    }

    fn new_axis(&self, value: &Value) -> Result<Axis, TeError> {
        let (name, kind) = (text(value, "name")?, text(value, "kind")?);
        let kind = known(names::parse_axis(kind), "kind of axis", kind)?;
        if kind == AxisKind::Thread {
            return match member(value, "domain")? {
                Value::Null => Ok(thread_axis(name)),
                _ => Err(mistake(format!("{name} counts threads, but has a range"))),
            };
        }
        let domain = match member(value, "domain")? {
            Value::Null => None,
            range => match self.sizes(elements(range)?)?.as_slice() {
                [min, extent] => {
                    let range = Domain::new(min, extent);
                    check_range(&range, name)?;
                    Some(range)
                }
                _ => return Err(mistake(format!("the range of {name} is not a pair"))),
            },
        };
        Ok(Axis::new(name, domain, kind))
    }

    fn new_expression(&self, node: &str, value: &Value) -> Result<Expr, TeError> {
        let operands = match node {
            "int" | "float" | "value" | "reduced" => Vec::new(),
            _ => self.expressions(list(value, "operands")?)?,
        };
        let wrong = || mistake(format!("wrong operands: {}", shortened(value)));
        let truth_of = |x: &Expr| if x.dtype() == DType::Bool { Ok(x.clone()) } else { Err(wrong()) };
        match (node, operands.as_slice()) {
            ("int", []) => {
                let (dtype, given) = (dtype(value)?, member(value, "value")?.as_i64());
                let range = match dtype {
                    DType::Bool => Some((0, 1)),
                    _ if dtype == DType::I64 => Some((i64::MIN, i64::MAX)),
                    _ if dtype.is_integer() => Some((dtype.least() as i64, dtype.greatest() as i64)),
                    DType::Number(_) => None,
                };
                let inside = |given: &i64| range.is_some_and(|(least, greatest)| (least..=greatest).contains(given));
                let given = given.filter(inside).ok_or_else(wrong)?;
                Ok(Expr::new(dtype, Kind::Int(given)))
            }
            ("float", []) => {
                let dtype = dtype(value)?;
                let given = number(text(value, "value")?)?;
                if dtype.is_float() { Ok(Expr::new(dtype, Kind::Float(given))) } else { Err(wrong()) }
            }
            ("value", []) => match self.at(member(value, "of")?)? {
                Node::Var(var) => Ok((*var).into()),
                Node::Axis(axis) => Ok((*axis).into()),
                _ => Err(wrong()),
            },
            ("binary", [a, b]) => {
                let name = text(value, "op")?;
                Ok(Expr::binary(known(names::parse_binary(name), "operation", name)?, a.clone(), b.clone()))
            }
            ("not", [x]) => Ok(Expr::new(DType::Bool, Kind::Not(truth_of(x)?))),
            ("likely", [x]) => Ok(truth_of(x)?.likely()),
            ("select", [condition, a, b]) => Ok(condition.clone().select(a, b)),
            ("cast", [x]) => Ok(x.clone().cast(dtype(value)?)),
            ("apply", _) => {
                let name = text(value, "op")?;
                Ok(Expr::apply(known(names::parse_op(name), "operation", name)?, operands))
            }
            ("call", _) => Ok(Expr::call(self.function(member(value, "function")?)?.function, operands)),
            ("read", _) => {
                let tensor = self.value_of(member(value, "operation")?, member(value, "value")?)?;
                Ok(tensor.at(operands))
            }
            ("reduced", []) => {
                let Node::Reduction(reduce) = self.at(member(value, "reduction")?)? else { return Err(wrong()) };
                let index = place(member(value, "index")?)?;
                let dtype = reduce.source.get(index).ok_or_else(wrong)?.dtype();
                Ok(Expr::new(dtype, Kind::Reduce(reduce.clone(), index)))
            }
            (known @ ("binary" | "not" | "likely" | "select" | "cast"), _) => {
                Err(mistake(format!("`{known}` has another number of operands: {}", shortened(value))))
            }
            _ => Err(mistake(format!("`{node}` is not a kind of node"))),
        }
    }

    fn variables(&self, values: &[Value]) -> Result<Vec<Var>, TeError> {
        let var = |value: &Value| match self.at(value)? {
            Node::Var(var) if !var.is_counter() => Ok(*var),
            _ => Err(mistake(format!("node {value} is not a variable of a reducer"))),
        };
        values.iter().map(var).collect()
    }

    fn new_reduction(&self, value: &Value) -> Result<Reduce, TeError> {
        let all = |name: &str| self.expressions(list(value, name)?);
        let (source, init) = (all("source")?, all("init")?);
        let combiner = Combiner {
            left: self.variables(list(value, "left")?)?,
            right: self.variables(list(value, "right")?)?,
            result: all("result")?,
            identity: all("identity")?,
            commutative: truth(value, "commutative")?,
        };
        let types: Vec<DType> = source.iter().map(Expr::dtype).collect();
        let of_vars = |vars: &[Var]| vars.iter().map(|var| var.dtype()).eq(types.iter().copied());
        let of = |all: &[Expr]| all.iter().map(Expr::dtype).eq(types.iter().copied());
        let axes = self.axes(list(value, "axes")?)?;
        let condition = self.expression(member(value, "condition")?)?;
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
            return Err(mistake(format!("a reduction whose parts don't fit together: {}", shortened(value))));
        }
        Ok(Reduce { combiner, source, init, axes: axes.into(), condition })
    }

    fn new_scan(&self, value: &Value) -> Result<Arc<Operation>, TeError> {
        let tensors = |name: &str| -> Result<Vec<Tensor>, TeError> {
            list(value, name)?.iter().map(|tensor| self.tensor(tensor)).collect()
        };
        let (init, update, state) = (tensors("init")?, tensors("update")?, tensors("state")?);
        let inputs = tensors("inputs")?;
        let axis = self.axis(member(value, "axis")?)?;
        let checked = scan_all(&init, &update, &state, &inputs)?;
        let needed = checked.first().and_then(|tensor| tensor.scan_axis().ok()?.domain());
        let same = |a: &Domain, b: &Domain| equal(&a.min, &b.min) && equal(&a.extent, &b.extent);
        let fits = axis.kind() == AxisKind::Ordered && needed.zip(axis.domain()).is_some_and(|(a, b)| same(&a, &b));
        if !fits {
            return Err(mistake("a scan's axis doesn't run over the steps after the initial ones".to_owned()));
        }
        let kind = OperationKind::Scan(Scan { axis, init, update, state, inputs });
        Operation::checked(text(value, "name")?, kind)
    }

    fn new_function(&self, value: &Value) -> Result<Called, TeError> {
        let string =
            |value: &Value| name(value.as_str().ok_or_else(|| mistake(format!("{} is not a name", shortened(value))))?);
        let name = name(text(value, "name")?)?;
        let parameters: Vec<&'static str> = list(value, "parameters")?.iter().map(string).collect::<Result<_, _>>()?;
        let body = member(value, "body")?;
        let (mut steps, mut calls) = (1, 1);
        let function = if body.get("op").is_some() {
            only(body, &["op"])?;
            let op_name = text(body, "op")?;
            let op = known(names::parse_op(op_name), "operation", op_name)?;
            if op.arity() != parameters.len() || op.is_comparison() || op == Op::Select {
                return Err(mistake(format!("`{op_name}` is not a function of {} numbers", parameters.len())));
            }
            Function::primitive(name, &parameters, op)
        } else {
            only(body, &["steps", "names", "root"])?;
            for step in list(body, "steps")? {
                let called = step.get("call").map(|function| self.function(function)).transpose()?;
                steps += called.map_or(1, |called| called.steps);
                limits::STEPS.check(steps)?;
                calls = calls.max(called.map_or(0, |called| called.calls) + 1);
            }
            limits::CALLS.check(calls)?;
            self.with_steps(name, &parameters, body)?
        };
        let function = match member(value, "cuda")? {
            Value::Null => function,
            cuda => function.with_cuda(string(cuda)?),
        };
        Ok(Called { function: kept(function, steps)?, steps, calls })
    }

    fn with_steps(&self, name: &'static str, parameters: &[&'static str], body: &Value) -> Result<Function, TeError> {
        let mut builder = FunctionBuilder::new(name);
        // Each step, and whether it is a truth value.
        let mut steps: Vec<(ExprId, bool)> = Vec::new();
        let mut given = 0;
        for step in list(body, "steps")? {
            let wrong = || mistake(format!("`{name}` has a wrong step: {}", shortened(step)));
            let mut operands = Vec::new();
            for operand in step.get("operands").map_or(Ok([].as_slice()), elements)? {
                operands.push(*steps.get(place(operand)?).ok_or_else(wrong)?);
            }
            let ids: Vec<ExprId> = operands.iter().map(|(id, _)| *id).collect();
            let numbers = |all: &[(ExprId, bool)]| all.iter().all(|(_, truth)| !truth);
            let made = if let Some(parameter) = step.get("parameter") {
                only(step, &["parameter"])?;
                let expected = place(parameter)? == given;
                let parameter = parameters.get(given).filter(|_| expected).ok_or_else(wrong)?;
                given += 1;
                (builder.parameter(parameter), false)
            } else if step.get("literal").is_some() {
                only(step, &["literal"])?;
                (builder.literal(number(text(step, "literal")?)?), false)
            } else if step.get("apply").is_some() {
                only(step, &["apply", "operands"])?;
                let op = names::parse_op(text(step, "apply")?).filter(|op| op.arity() == ids.len());
                let op = op.ok_or_else(wrong)?;
                let fits = match (op, operands.as_slice()) {
                    (Op::Select, [condition, rest @ ..]) => condition.1 && numbers(rest),
                    (_, all) => numbers(all),
                };
                if !fits {
                    return Err(wrong());
                }
                (builder.apply(op, &ids), op.is_comparison())
            } else if let Some(function) = step.get("call") {
                only(step, &["call", "operands"])?;
                let function = self.function(function)?.function;
                if function.parameters().len() != ids.len() || !numbers(&operands) {
                    return Err(wrong());
                }
                (builder.call(function, &ids), false)
            } else {
                only(step, &["cast", "operands"])?;
                let element = crate::ElementType::ALL.into_iter().find(|e| Some(e.name()) == step["cast"].as_str());
                match (element, operands.as_slice()) {
                    (Some(element), [(x, false)]) if element != crate::ElementType::Bool => {
                        (builder.cast(element, *x), false)
                    }
                    _ => return Err(wrong()),
                }
            };
            steps.push(made);
        }
        let names = list(body, "names")?;
        if names.len() > steps.len() {
            return Err(mistake(format!("`{name}` has {} steps, but {} names", steps.len(), names.len())));
        }
        for (name, (id, _)) in names.iter().zip(&steps) {
            match name {
                Value::Null => {}
                Value::String(name) => builder.name(*id, self::name(name)?),
                other => return Err(mistake(format!("{} is not a name", shortened(other)))),
            }
        }
        let root = steps.get(place(member(body, "root")?)?).filter(|(_, truth)| !truth && given == parameters.len());
        let (root, _) = root.ok_or_else(|| mistake(format!("`{name}` has no result, or not all its parameters")))?;
        Ok(builder.finish(*root))
    }
}

/// A function's name lives as long as the process.
fn name(text: &str) -> Result<&'static str, TeError> {
    interned(text).ok_or_else(|| mistake("this process has read too many different names of functions".to_owned()))
}

/// How many different functions are kept.
const MOST_FUNCTIONS: usize = 1 << 12;

/// How many steps they may have together.
const MOST_STEPS: usize = 1 << 20;

/// Functions live as long as the process; each different one is kept once.
fn kept(function: Function, steps: usize) -> Result<&'static Function, TeError> {
    #[derive(Default)]
    struct Kept {
        all: Vec<&'static Function>,
        steps: usize,
    }
    static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);
    let mut kept = lock(&KEPT);
    if let Some(known) = kept.all.iter().find(|known| ***known == function) {
        return Ok(known);
    }
    if kept.all.len() >= MOST_FUNCTIONS || kept.steps + steps > MOST_STEPS {
        return Err(mistake(format!(
            "this process keeps the functions that it has read, up to {MOST_FUNCTIONS} different ones of {MOST_STEPS} \
             steps together: no other is read"
        )));
    }
    let leaked: &'static Function = Box::leak(Box::new(function));
    kept.all.push(leaked);
    kept.steps += steps;
    Ok(leaked)
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
