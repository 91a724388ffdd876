//! Elementwise functions: named, pure, of any arity.

use smallvec::SmallVec;

use super::Op;
use crate::ElementType;

/// The most operations of a function. The functions that it calls count, each as often as it is called.
pub const MOST_OPERATIONS: usize = 1 << 14;

/// An elementwise function: what `#[elementwise]` makes, and what the built-in operations are.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    name: &'static str,
    parameters: Vec<&'static str>,
    body: Body,
    cuda: Option<&'static str>,
    operations: usize,
}

/// The computation of an elementwise function.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One primitive operation on the parameters in order.
    Primitive(Op),
    /// An expression over the parameters.
    Expression(Expression),
}

/// A scalar expression: a directed acyclic graph with operands before users.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    nodes: Vec<ExprNode>,
    names: Vec<Option<&'static str>>,
    root: ExprId,
}

/// A node's index in its [`Expression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(u32);

impl ExprId {
    /// The index in [`Expression::nodes`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node of an [`Expression`].
#[derive(Clone, Debug)]
pub enum ExprNode {
    /// The function's parameter with this index.
    Parameter(usize),
    /// A number.
    Literal(f64),
    /// A primitive operation.
    Apply(Op, SmallVec<[ExprId; 3]>),
    /// A call of another function.
    Call(&'static Function, SmallVec<[ExprId; 3]>),
    /// Rounding to an element type and back.
    Cast(ElementType, ExprId),
}

impl PartialEq for ExprNode {
    /// Numbers are equal if their bits are. Called functions are mostly the same object. So if each function of a chain
    /// calls the next twice, the next is not compared again at each call.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Parameter(a), Self::Parameter(b)) => a == b,
            (Self::Literal(a), Self::Literal(b)) => a.to_bits() == b.to_bits(),
            (Self::Apply(a, x), Self::Apply(b, y)) => a == b && x == y,
            (Self::Call(a, x), Self::Call(b, y)) => x == y && (std::ptr::eq(*a, *b) || a == b),
            (Self::Cast(a, x), Self::Cast(b, y)) => a == b && x == y,
            _ => false,
        }
    }
}

impl ExprNode {
    /// The nodes that this one reads.
    #[must_use]
    pub fn operands(&self) -> &[ExprId] {
        match self {
            Self::Parameter(_) | Self::Literal(_) => &[],
            Self::Apply(_, operands) | Self::Call(_, operands) => operands,
            Self::Cast(_, x) => std::slice::from_ref(x),
        }
    }
}

impl Function {
    /// A function that is one primitive operation.
    #[must_use]
    pub fn primitive(name: &'static str, parameters: &[&'static str], op: Op) -> Self {
        debug_assert_eq!(parameters.len(), op.arity());
        Self { name, parameters: parameters.to_vec(), body: Body::Primitive(op), cuda: None, operations: 1 }
    }

    /// Gives the function a hand-written CUDA C++ body. It may use the parameters by name and must `return`.
    #[must_use]
    pub fn with_cuda(mut self, body: &'static str) -> Self {
        self.cuda = Some(body);
        self
    }

    /// The function's name, as the user wrote it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The parameters' names, in order.
    #[must_use]
    pub fn parameters(&self) -> &[&'static str] {
        &self.parameters
    }

    /// Its computation.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Its number of operations. The functions that it calls count, each as often as it is called. A function of more
    /// than [`MOST_OPERATIONS`] can't be used.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Why it is too long to be used, if it is.
    pub(crate) fn excess(&self) -> Option<String> {
        (self.operations > MOST_OPERATIONS).then(|| {
            format!(
                "with the functions that it calls, each as often as it is called, it has {} operations, and at most \
                 {MOST_OPERATIONS} are allowed: call them less often, on values that are computed once",
                self.operations
            )
        })
    }

    /// The hand-written CUDA C++ body, if there is one.
    #[must_use]
    pub fn cuda(&self) -> Option<&'static str> {
        self.cuda
    }
}

impl Expression {
    /// The nodes, operands before users.
    #[must_use]
    pub fn nodes(&self) -> &[ExprNode] {
        &self.nodes
    }

    /// The user's name of a node: the last `let` that bound it.
    #[must_use]
    pub fn name(&self, id: ExprId) -> Option<&'static str> {
        self.names[id.index()]
    }

    /// The user's names of all nodes, in order.
    #[must_use]
    pub fn names(&self) -> &[Option<&'static str>] {
        &self.names
    }

    /// The result.
    #[must_use]
    pub fn root(&self) -> ExprId {
        self.root
    }
}

/// Builds a [`Function`]; the macros' expansion calls it.
#[derive(Debug)]
pub struct FunctionBuilder {
    name: &'static str,
    parameters: Vec<&'static str>,
    nodes: Vec<ExprNode>,
    names: Vec<Option<&'static str>>,
    operations: usize,
}

impl FunctionBuilder {
    /// Starts a function.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, parameters: Vec::new(), nodes: Vec::new(), names: Vec::new(), operations: 0 }
    }

    fn push(&mut self, node: ExprNode) -> ExprId {
        let id = ExprId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.operations = self.operations.saturating_add(match &node {
            ExprNode::Parameter(_) | ExprNode::Literal(_) => 0,
            ExprNode::Apply(..) | ExprNode::Cast(..) => 1,
            // A call is something in itself.
            ExprNode::Call(function, _) => function.operations.saturating_add(1),
        });
        self.nodes.push(node);
        self.names.push(None);
        id
    }

    /// The next parameter.
    pub fn parameter(&mut self, name: &'static str) -> ExprId {
        self.parameters.push(name);
        self.push(ExprNode::Parameter(self.parameters.len() - 1))
    }

    /// A number.
    pub fn literal(&mut self, value: f64) -> ExprId {
        self.push(ExprNode::Literal(value))
    }

    /// A primitive operation.
    pub fn apply(&mut self, op: Op, operands: &[ExprId]) -> ExprId {
        self.push(ExprNode::Apply(op, SmallVec::from_slice(operands)))
    }

    /// A call; a function that is one primitive becomes that primitive.
    pub fn call(&mut self, function: &'static Function, operands: &[ExprId]) -> ExprId {
        match (function.body(), function.cuda()) {
            (Body::Primitive(op), None) => self.apply(*op, operands),
            _ => self.push(ExprNode::Call(function, SmallVec::from_slice(operands))),
        }
    }

    /// Rounds to an element type and back.
    pub fn cast(&mut self, to: ElementType, x: ExprId) -> ExprId {
        self.push(ExprNode::Cast(to, x))
    }

    /// Remembers the user's name of a value.
    pub fn name(&mut self, id: ExprId, name: &'static str) {
        self.names[id.index()] = Some(name);
    }

    /// Ends the function with its result.
    #[must_use]
    pub fn finish(self, root: ExprId) -> Function {
        Function {
            name: self.name,
            parameters: self.parameters,
            body: Body::Expression(Expression { nodes: self.nodes, names: self.names, root }),
            cuda: None,
            operations: self.operations,
        }
    }
}
