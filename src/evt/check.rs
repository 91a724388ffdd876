//! Checks the meaning of a tree: operands, arities, types, classes, reductions, names.

use std::collections::HashSet;

use super::declared::DeclaredElement;
use super::valid::resolve;
use super::{
    BroadcastClass, Form, MAX_ACCUMULATORS, Mistake, Node, NodeId, Parameter, ParameterClass, Site, Tree, TreeError,
    Types,
};
use crate::ElementType;
use crate::expr::identifier::LONGEST_NAME;
use crate::expr::{Body, ExprNode, Expression, Function, Op, Real};

/// The kind of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// A number of the arithmetic type.
    Number,
    Integer,
    /// A truth value.
    Truth,
    /// The seed and offset of random numbers.
    Seed,
}

/// A node's extent, type and phase, as checking finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    /// The class of its extent.
    pub(super) class: BroadcastClass,
    pub(super) ty: NodeKind,
    /// How many reductions it is computed from, one after another.
    pub(super) phase: usize,
}

impl Fact {
    /// Has phase 0; the caller sets its operands' phase when that is known.
    pub(super) const fn new(class: BroadcastClass, ty: NodeKind) -> Self {
        Self { class, ty, phase: 0 }
    }

    const fn number(class: BroadcastClass) -> Self {
        Self::new(class, NodeKind::Number)
    }

    /// The element type of an output of this node, if none is declared. A vector that is computed from reductions counts
    /// as a result of reductions: a loss is the difference of two.
    pub(super) const fn stored_as(self, node: &Node) -> DeclaredElement {
        let of_reductions = matches!(node, Node::Reduce(..)) || self.phase > 0;
        match (self.ty, self.class) {
            (NodeKind::Truth, _) => DeclaredElement::Written(ElementType::Bool),
            (NodeKind::Integer | NodeKind::Seed, _) => DeclaredElement::Written(ElementType::I64),
            (NodeKind::Number, BroadcastClass::Scalar) => DeclaredElement::Arithmetic,
            (NodeKind::Number, BroadcastClass::RowVector | BroadcastClass::ColumnVector) if of_reductions => {
                DeclaredElement::Arithmetic
            }
            // A's.
            (NodeKind::Number, _) => DeclaredElement::Unwritten,
        }
    }
}

pub(super) struct Checker<'a> {
    pub(super) tree: &'a Tree,
    pub(super) types: Types,
}

impl Checker<'_> {
    pub(super) fn fail<T>(&self, site: Site, mistake: Mistake) -> Result<T, TreeError> {
        Err(TreeError { epilogue: self.tree.name, file: self.tree.file, site, mistake })
    }

    /// The name of a node in error messages.
    pub(super) fn describe(&self, id: NodeId) -> String {
        let data = &self.tree.nodes[id.index()];
        match (data.name, &data.node) {
            (Some(name), _) => format!("`{name}`"),
            (None, Node::Apply(op, _)) => format!("a value of `{}`", op.symbol()),
            (None, Node::Call(function, _)) => format!("a value of `{}`", function.name()),
            (None, Node::Reduce(..) | Node::Composed(..)) => "of a `reduction_op`".to_owned(),
            (None, Node::Position(position)) => format!("`{}()`", position.name()),
            (None, Node::Integer(value)) => format!("`{value}`"),
            (None, Node::Literal(value)) => format!("`{value:?}`"),
            (None, Node::Logic(logic, _)) => format!("a value of `{}`", logic.symbol()),
            (None, Node::ToInteger(x)) => format!("`integer` of {}", self.describe(*x)),
            (None, Node::Random(..)) => "a random number".to_owned(),
            (None, Node::ToReal(_)) => "a value of `real`".to_owned(),
            (None, _) => "a value".to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<Vec<Fact>, TreeError> {
        if let Some((reason, site)) = &self.tree.refused {
            return self.fail(*site, Mistake::Derivative { reason: reason.clone() });
        }
        self.lengths()?;
        self.operand_types()?;
        self.accumulators()?;
        let mut facts = Vec::with_capacity(self.tree.nodes.len());
        for index in 0..self.tree.nodes.len() {
            let fact = self.node(index, &facts)?;
            let phase = fact.phase.max(self.phase_of_operands(&self.tree.nodes[index].node, &facts));
            facts.push(Fact { phase, ..fact });
        }
        self.names()?;
        self.outputs(&facts)?;
        Ok(facts)
    }

    fn operand_types(&self) -> Result<(), TreeError> {
        let Err(reason) = self.types.check() else { return Ok(()) };
        let Types { a, b, accumulator } = self.types;
        self.fail(Site::default(), Mistake::OperandTypes { a, b, accumulator, reason })
    }

    fn accumulators(&self) -> Result<(), TreeError> {
        let names = &self.tree.accumulators;
        if names.len() > MAX_ACCUMULATORS {
            return self.fail(Site::default(), Mistake::Accumulators { given: names.len() });
        }
        match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            Some((_, name)) => self.fail(Site::default(), Mistake::DuplicateName { name }),
            None => Ok(()),
        }
    }

    fn node(&self, index: usize, facts: &[Fact]) -> Result<Fact, TreeError> {
        let data = &self.tree.nodes[index];
        let id = NodeId::new(index);
        for operand in data.node.operands() {
            if operand.index() >= index {
                return self.fail(data.site, Mistake::UndefinedOperand { what: self.describe(id) });
            }
            self.no_partials(id, *operand)?;
            if facts[operand.index()].ty == NodeKind::Seed && !matches!(data.node, Node::Random(..)) {
                return self.fail(data.site, Mistake::SeedAsValue { name: self.describe(*operand) });
            }
        }
        let class = data
            .node
            .operands()
            .iter()
            .map(|o| facts[o.index()].class)
            .fold(BroadcastClass::Scalar, BroadcastClass::join);
        match &data.node {
            Node::Accum(_) => Ok(Fact::number(BroadcastClass::Tensor)),
            Node::Load(parameter) | Node::Broadcast(parameter) => {
                let is_load = matches!(data.node, Node::Load(_));
                let declared = self.tree.parameters.get(parameter.index());
                match declared.map(|p| (p.class.broadcast_class(), self.element(p))) {
                    Some(_) if !is_load && declared.is_some_and(|p| p.class == ParameterClass::Seed) => {
                        Ok(Fact::new(BroadcastClass::Scalar, NodeKind::Seed))
                    }
                    Some((class, element)) if (class == BroadcastClass::Tensor) == is_load => {
                        let truths =
                            element == ElementType::Bool || declared.is_some_and(|p| p.class == ParameterClass::Bits);
                        let ty = if truths { NodeKind::Truth } else { NodeKind::Number };
                        Ok(Fact::new(class, ty))
                    }
                    _ => self.fail(data.site, Mistake::UndefinedParameter { index: parameter.index() }),
                }
            }
            Node::Literal(value) => {
                let real = self.types.real();
                if value.is_finite() && real.round(*value).is_infinite() {
                    return self.fail(data.site, Mistake::LiteralOverflow { value: *value, real });
                }
                Ok(Fact::number(BroadcastClass::Scalar))
            }
            Node::Integer(_) => Ok(Fact::new(BroadcastClass::Scalar, NodeKind::Integer)),
            Node::Position(position) => Ok(Fact::new(position.class(), NodeKind::Integer)),
            Node::Random(seed, _) => match facts[seed.index()].ty {
                NodeKind::Seed => Ok(Fact::number(BroadcastClass::Tensor)),
                _ => self.fail(data.site, Mistake::NoSeed { what: self.describe(*seed) }),
            },
            Node::Apply(op, operands) => {
                self.arity(data.site, op.symbol(), op.arity(), operands.len())?;
                let ty = self.operation(id, *op, operands, facts)?;
                Ok(Fact::new(class, ty))
            }
            Node::Logic(logic, operands) => {
                self.arity(data.site, logic.symbol(), logic.arity(), operands.len())?;
                match operands.iter().find(|operand| facts[operand.index()].ty != NodeKind::Truth) {
                    Some(operand) => {
                        let (operator, what) = (logic.symbol(), self.describe(*operand));
                        self.fail(data.site, Mistake::NoTruthValue { operator, what })
                    }
                    None => Ok(Fact::new(class, NodeKind::Truth)),
                }
            }
            Node::ToInteger(x) => {
                self.integers_in_memory(data.site, *x)?;
                Ok(Fact::new(class, NodeKind::Integer))
            }
            Node::ToReal(x) => match facts[x.index()].ty {
                NodeKind::Integer => Ok(Fact::number(class)),
                NodeKind::Number => self.fail(data.site, Mistake::RealOfNumber { what: self.describe(*x) }),
                NodeKind::Truth => self.fail(data.site, Mistake::TruthValue { what: self.describe(*x) }),
                NodeKind::Seed => self.fail(data.site, Mistake::SeedAsValue { name: self.describe(*x) }),
            },
            Node::Call(function, operands) => {
                self.arity(data.site, function.name(), function.parameters().len(), operands.len())?;
                self.function(data.site, function)?;
                self.numbers(data.site, function.name(), operands, facts)?;
                Ok(Fact::number(class))
            }
            Node::Cast(to, x) => {
                if *to == ElementType::Bool {
                    return self.fail(data.site, Mistake::CastToBool { what: self.describe(*x) });
                }
                self.takes(data.site, || "the type of a cast".to_owned(), Some(*to))?;
                self.numbers(data.site, "cast", &[*x], facts)?;
                Ok(Fact::number(class))
            }
            Node::Reduce(reduction, x) => {
                self.numbers(data.site, "reduction_op", &[*x], facts)?;
                self.reduction(id, reduction, *x, facts)
            }
            Node::Composed(composed, x) => self.composed(id, composed, *x, facts),
        }
    }

    fn arity(&self, site: Site, function: &str, needed: usize, given: usize) -> Result<(), TreeError> {
        if needed == given {
            return Ok(());
        }
        self.fail(site, Mistake::Arity { function: function.to_owned(), needed, given })
    }

    /// Whether epilogues have an element type, if one is written.
    fn takes(&self, site: Site, what: impl FnOnce() -> String, element: Option<ElementType>) -> Result<(), TreeError> {
        match element {
            Some(element) if !Real::takes(element) => self.fail(site, Mistake::Element { what: what(), element }),
            _ => Ok(()),
        }
    }

    /// The element type of a parameter.
    fn element(&self, parameter: &Parameter) -> ElementType {
        resolve(parameter.element, parameter.class, self.types)
    }

    /// Checks the operands of a primitive; gives the kind of its result.
    fn operation(&self, id: NodeId, op: Op, operands: &[NodeId], facts: &[Fact]) -> Result<NodeKind, TreeError> {
        let site = self.tree.nodes[id.index()].site;
        let ty = |operand: &NodeId| facts[operand.index()].ty;
        let values = match operands {
            [condition, branches @ ..] if op == Op::Select => {
                if ty(condition) != NodeKind::Truth {
                    return self.fail(site, Mistake::NumericCondition { what: self.describe(id) });
                }
                if branches.iter().all(|branch| ty(branch) == NodeKind::Truth) {
                    return Ok(NodeKind::Truth);
                }
                branches
            }
            all => all,
        };
        if let Some(operand) = values.iter().find(|operand| ty(operand) == NodeKind::Truth) {
            return self.fail(site, Mistake::TruthValue { what: self.describe(*operand) });
        }
        let integer = values.iter().find(|operand| ty(operand) == NodeKind::Integer);
        let number = values.iter().find(|operand| ty(operand) == NodeKind::Number);
        let given = match (integer, number) {
            (Some(integer), Some(number)) => {
                let (integer, number) = (self.describe(*integer), self.describe(*number));
                return self.fail(site, Mistake::MixedTypes { integer, number });
            }
            (Some(integer), None) if !op.takes_integers() => {
                let (function, what) = (op.symbol().to_owned(), self.describe(*integer));
                return self.fail(site, Mistake::IntegerGiven { function, what });
            }
            (Some(_), None) => NodeKind::Integer,
            (None, _) => NodeKind::Number,
        };
        Ok(if op.is_comparison() { NodeKind::Truth } else { given })
    }

    /// Checks that `integer` is applied to a parameter that holds integers.
    fn integers_in_memory(&self, site: Site, x: NodeId) -> Result<(), TreeError> {
        let (Node::Load(p) | Node::Broadcast(p)) = self.tree.nodes[x.index()].node else {
            return self.fail(site, Mistake::IntegerOfValue { what: self.describe(x) });
        };
        let parameter = &self.tree.parameters[p.index()];
        let element = self.element(parameter);
        if parameter.class != ParameterClass::Scalar && (element.is_integer() || element == ElementType::Bool) {
            return Ok(());
        }
        self.fail(site, Mistake::NoIntegers { name: parameter.name, element, class: parameter.class })
    }

    pub(super) fn numbers(
        &self,
        site: Site,
        function: &str,
        operands: &[NodeId],
        facts: &[Fact],
    ) -> Result<(), TreeError> {
        for operand in operands {
            let what = || self.describe(*operand);
            match facts[operand.index()].ty {
                NodeKind::Number => {}
                NodeKind::Truth => return self.fail(site, Mistake::TruthValue { what: what() }),
                NodeKind::Seed => return self.fail(site, Mistake::SeedAsValue { name: what() }),
                NodeKind::Integer => {
                    return self.fail(site, Mistake::IntegerGiven { function: function.to_owned(), what: what() });
                }
            }
        }
        Ok(())
    }

    fn function(&self, site: Site, function: &'static Function) -> Result<(), TreeError> {
        match function_fault(function) {
            Some((function, reason)) => self.fail(site, Mistake::MalformedFunction { function, reason }),
            None => Ok(()),
        }
    }

    fn names(&self) -> Result<(), TreeError> {
        let mut seen = HashSet::new();
        for parameter in &self.tree.parameters {
            if !seen.insert(parameter.name) {
                return self.fail(parameter.site, Mistake::DuplicateName { name: parameter.name });
            }
            let returned = self.tree.outputs.iter().any(|output| output.name == parameter.name);
            if parameter.class == ParameterClass::TensorMut && !returned {
                return self.fail(parameter.site, Mistake::TensorMutNotReturned { name: parameter.name });
            }
            let real = self.types.real();
            let element = parameter.element.resolved(real);
            self.takes(parameter.site, || format!("`{}`", parameter.name), element)?;
            match element {
                Some(element) if parameter.class == ParameterClass::Scalar && element != real.element() => {
                    let mistake = Mistake::ScalarElement { name: parameter.name, element, real };
                    return self.fail(parameter.site, mistake);
                }
                Some(element) if parameter.class == ParameterClass::Bits => {
                    return self.fail(parameter.site, Mistake::BitsElement { name: parameter.name, element });
                }
                Some(element) if parameter.class == ParameterClass::Seed && element != ElementType::I64 => {
                    return self.fail(parameter.site, Mistake::SeedElement { name: parameter.name, element });
                }
                _ => {}
            }
        }
        let mut returned = HashSet::new();
        for output in &self.tree.outputs {
            self.takes(output.site, || format!("`{}`", output.name), output.element.resolved(self.types.real()))?;
            if !returned.insert(output.name) {
                return self.fail(output.site, Mistake::DuplicateName { name: output.name });
            }
            let parameter = self.tree.parameters.iter().find(|p| p.name == output.name);
            match parameter {
                Some(p) if p.class != ParameterClass::TensorMut || output.parameter.is_none() => {
                    return self.fail(output.site, Mistake::ParameterReturned { name: p.name, class: p.class });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn outputs(&self, facts: &[Fact]) -> Result<(), TreeError> {
        if self.tree.outputs.is_empty() {
            return self.fail(Site::default(), Mistake::NothingReturned);
        }
        for output in &self.tree.outputs {
            let Some(fact) = facts.get(output.node.index()) else {
                return self.fail(output.site, Mistake::UndefinedOperand { what: format!("`{}`", output.name) });
            };
            self.stored_type(output, *fact)?;
            if fact.class != output.class {
                let mistake = Mistake::OutputClass { name: output.name, declared: output.class, actual: fact.class };
                return self.fail(output.site, mistake);
            }
            let real = self.types.real();
            match (&self.tree.nodes[output.node.index()].node, output.element.resolved(real)) {
                (Node::Reduce(reduction, _), Some(element))
                    if reduction.form == Form::Partial && element != real.element() =>
                {
                    return self.fail(output.site, Mistake::PartialElement { name: output.name, element, real });
                }
                _ => {}
            }
            self.tensor_mut(output)?;
        }
        Ok(())
    }

    /// Checks that a value can be stored in the element type that its output has.
    fn stored_type(&self, output: &super::Output, fact: Fact) -> Result<(), TreeError> {
        if output.packed && fact.ty != NodeKind::Truth {
            return self.fail(output.site, Mistake::NoTruthPacked { name: output.name });
        }
        let of_parameter = output.parameter.and_then(|p| self.tree.parameters.get(p.index())).map(|p| self.element(p));
        let Some(element) = output.element.resolved(self.types.real()).or(of_parameter) else { return Ok(()) };
        let name = output.name;
        match fact.ty {
            NodeKind::Truth if element != ElementType::Bool => {
                self.fail(output.site, Mistake::TruthReturned { name, element })
            }
            NodeKind::Integer if !element.is_integer() => {
                self.fail(output.site, Mistake::IntegerReturned { name, element })
            }
            NodeKind::Number if element == ElementType::Bool => {
                self.fail(output.site, Mistake::NumberReturned { name })
            }
            _ => Ok(()),
        }
    }

    fn tensor_mut(&self, output: &super::Output) -> Result<(), TreeError> {
        let Some(parameter) = output.parameter else { return Ok(()) };
        let Some(parameter) = self.tree.parameters.get(parameter.index()) else {
            return self.fail(output.site, Mistake::UndefinedParameter { index: parameter.index() });
        };
        match (self.element(parameter), output.element.resolved(self.types.real())) {
            (read, Some(written)) if read != written => {
                self.fail(output.site, Mistake::TensorMutElement { name: output.name, read, written })
            }
            _ => Ok(()),
        }
    }
}

/// Finds a mistake in a function's body, or in that of a function that it calls. Functions can't be recursive, since a
/// `&'static Function` exists only after its body.
fn function_fault(function: &'static Function) -> Option<(&'static str, String)> {
    if let Some(excess) = function.excess() {
        return Some((function.name(), excess));
    }
    function_fault_within(function)
}

/// Finds a mistake in a function that is not too long: the time grows with its operations.
fn function_fault_within(function: &'static Function) -> Option<(&'static str, String)> {
    let fault = |reason: String| Some((function.name(), reason));
    let names = function.parameters().iter().copied().chain([function.name()]);
    if names.chain(inner_names(function)).any(|name| name.len() > LONGEST_NAME) {
        return fault(format!("it has a name of more than {LONGEST_NAME} bytes: give it a shorter one"));
    }
    match function.body() {
        Body::Primitive(op) if op.arity() != function.parameters().len() => fault(format!(
            "`{}` takes {} operands, the function {}",
            op.symbol(),
            op.arity(),
            function.parameters().len()
        )),
        Body::Primitive(_) => None,
        Body::Expression(expression) => {
            let mut truths = Vec::with_capacity(expression.nodes().len());
            for (index, node) in expression.nodes().iter().enumerate() {
                match expression_node(function, expression, index, node, &truths) {
                    Ok(truth) => truths.push(truth),
                    Err(reason) => return fault(reason),
                }
                if let ExprNode::Call(callee, _) = node
                    && let Some(inner) = function_fault_within(callee)
                {
                    return Some(inner);
                }
            }
            match truths.get(expression.root().index()) {
                Some(false) => None,
                Some(true) => fault("it returns a comparison's result".to_owned()),
                None => fault("its result is not one of its values".to_owned()),
            }
        }
    }
}

/// The names of values in its body.
fn inner_names(function: &Function) -> impl Iterator<Item = &'static str> {
    let names = match function.body() {
        Body::Primitive(_) => &[][..],
        Body::Expression(expression) => expression.names(),
    };
    names.iter().copied().flatten()
}

fn expression_node(
    function: &Function,
    expression: &Expression,
    index: usize,
    node: &ExprNode,
    truths: &[bool],
) -> Result<bool, String> {
    let (what, arity, operands, op) = match node {
        ExprNode::Parameter(p) if *p >= function.parameters().len() => {
            return Err(format!("it reads parameter number {p} of {}", function.parameters().len()));
        }
        ExprNode::Parameter(_) | ExprNode::Literal(_) => return Ok(false),
        ExprNode::Apply(op, operands) => (op.symbol(), op.arity(), operands.as_slice(), Some(*op)),
        ExprNode::Call(callee, operands) => (callee.name(), callee.parameters().len(), operands.as_slice(), None),
        ExprNode::Cast(ElementType::Bool, _) => {
            return Err("`cast` rounds numbers, and bool is not a type of numbers".to_owned());
        }
        ExprNode::Cast(element, _) if !Real::takes(*element) => {
            return Err(format!("it casts to {element}, which is a type of tensor expressions only"));
        }
        ExprNode::Cast(_, x) => ("cast", 1, std::slice::from_ref(x), None),
    };
    if operands.len() != arity {
        return Err(format!("`{what}` takes {arity} arguments, {} are given", operands.len()));
    }
    for (position, operand) in operands.iter().enumerate() {
        let Some(truth) = truths.get(operand.index()) else {
            return Err(format!("value {index} of {} reads a later value", expression.nodes().len()));
        };
        let needs_truth = op == Some(Op::Select) && position == 0;
        if *truth != needs_truth {
            let (given, needed) = if *truth { ("a truth value", "a number") } else { ("a number", "a truth value") };
            return Err(format!("`{what}` is given {given} where it needs {needed}"));
        }
    }
    Ok(op.is_some_and(Op::is_comparison))
}
