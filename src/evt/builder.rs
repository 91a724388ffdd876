//! The builder that the macros' expansion calls.

use smallvec::SmallVec;

use super::declared::DeclaredElement;
use super::tree::{
    BroadcastClass, Composed, Form, Node, NodeData, NodeId, Output, Parameter, ParameterClass, ParameterId, Position,
    Reduction, Site, Tree,
};
use crate::ElementType;
use crate::expr::{Body, Function, Logic, Op};

/// Builds a [`Tree`] node by node, operands before users.
#[derive(Debug)]
pub struct TreeBuilder {
    tree: Tree,
    site: Site,
}

impl TreeBuilder {
    /// Starts a tree: the epilogue's name and the user's source file.
    #[must_use]
    pub fn new(name: &'static str, file: &'static str) -> Self {
        let tree = Tree {
            name,
            file,
            accumulators: Vec::new(),
            nodes: Vec::new(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            significand: 0,
            refused: None,
        };
        Self { tree, site: Site::default() }
    }

    /// The source location of the nodes that follow.
    pub fn at(&mut self, line: u32, column: u32) -> &mut Self {
        self.site = Site { line, column };
        self
    }

    /// Functions are at least as accurate as outputs of this many significant bits need, whatever types outputs have.
    pub(crate) fn significand(&mut self, bits: u32) -> &mut Self {
        self.tree.significand = bits;
        self
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId::new(self.tree.nodes.len());
        self.tree.nodes.push(NodeData { node, name: None, site: self.site });
        id
    }

    /// The next accumulator: the first is the product of A and the first B, the second that of A and the second B, and
    /// so on.
    pub fn accum(&mut self, name: &'static str) -> NodeId {
        let id = self.push(Node::Accum(self.tree.accumulators.len()));
        self.tree.accumulators.push(name);
        self.name(id, name);
        id
    }

    /// The next parameter; its value is the node returned.
    pub fn parameter(
        &mut self,
        name: &'static str,
        class: ParameterClass,
        element: impl Into<DeclaredElement>,
    ) -> NodeId {
        let element = element.into();
        let parameter = ParameterId::new(self.tree.parameters.len());
        self.tree.parameters.push(Parameter { name, class, element, site: self.site });
        let id = self.push(match class.broadcast_class() {
            BroadcastClass::Tensor => Node::Load(parameter),
            BroadcastClass::Scalar | BroadcastClass::RowVector | BroadcastClass::ColumnVector => {
                Node::Broadcast(parameter)
            }
        });
        self.name(id, name);
        id
    }

    /// A number.
    pub fn literal(&mut self, value: f64) -> NodeId {
        self.push(Node::Literal(value))
    }

    /// An integer.
    pub fn integer_literal(&mut self, value: i64) -> NodeId {
        self.push(Node::Integer(value))
    }

    /// A position or an extent.
    pub fn position(&mut self, position: Position) -> NodeId {
        self.push(Node::Position(position))
    }

    /// A random number of every element, of a `Seed` parameter's stream.
    pub fn random(&mut self, seed: NodeId, stream: u32) -> NodeId {
        self.push(Node::Random(seed, stream))
    }

    /// The integer that a parameter has in memory.
    pub fn integer(&mut self, parameter: NodeId) -> NodeId {
        self.push(Node::ToInteger(parameter))
    }

    /// An integer converted to a number.
    pub fn real(&mut self, x: NodeId) -> NodeId {
        self.push(Node::ToReal(x))
    }

    /// An operation on truth values.
    pub fn logic(&mut self, logic: Logic, operands: &[NodeId]) -> NodeId {
        self.push(Node::Logic(logic, SmallVec::from_slice(operands)))
    }

    /// A primitive operation.
    pub fn apply(&mut self, op: Op, operands: &[NodeId]) -> NodeId {
        self.push(Node::Apply(op, SmallVec::from_slice(operands)))
    }

    /// A call; a function that is one primitive becomes that primitive.
    pub fn call(&mut self, function: &'static Function, operands: &[NodeId]) -> NodeId {
        match (function.body(), function.cuda()) {
            (Body::Primitive(op), None) => self.apply(*op, operands),
            _ => self.push(Node::Call(function, SmallVec::from_slice(operands))),
        }
    }

    /// Rounds to an element type and back.
    pub fn cast(&mut self, to: ElementType, x: NodeId) -> NodeId {
        self.push(Node::Cast(to, x))
    }

    /// A reduction.
    pub fn reduce(&mut self, reduction: Reduction, x: NodeId) -> NodeId {
        self.push(Node::Reduce(reduction, x))
    }

    /// A reduction that is made of others.
    pub fn compose(&mut self, composed: Composed, x: NodeId) -> NodeId {
        self.push(Node::Composed(composed, x))
    }

    /// How many complete reductions each node is computed from, one after another.
    pub(super) fn phases(&self) -> Vec<usize> {
        let mut phases: Vec<usize> = Vec::with_capacity(self.tree.nodes.len());
        for data in &self.tree.nodes {
            let before = data.node.operands().iter().map(|operand| phases[operand.index()]).max().unwrap_or(0);
            let completes = match &data.node {
                Node::Reduce(reduction, _) => usize::from(reduction.form == Form::Complete),
                Node::Composed(composed, _) => composed.op.length(),
                _ => 0,
            };
            phases.push(before + completes);
        }
        phases
    }

    /// The class of a value's extent.
    pub(super) fn class(&self, id: NodeId) -> BroadcastClass {
        let mut classes: Vec<BroadcastClass> = Vec::with_capacity(id.index() + 1);
        for data in &self.tree.nodes[..=id.index()] {
            let of_operands = || data.node.operands().iter().map(|operand| classes[operand.index()]);
            classes.push(match &data.node {
                Node::Accum(_) | Node::Load(_) | Node::Random(..) => BroadcastClass::Tensor,
                Node::Broadcast(p) => self.tree.parameters[p.index()].class.broadcast_class(),
                Node::Position(position) => position.class(),
                Node::Reduce(Reduction { axis, .. }, _) | Node::Composed(Composed { axis, .. }, _) => {
                    axis.result_class()
                }
                _ => of_operands().fold(BroadcastClass::Scalar, BroadcastClass::join),
            });
        }
        classes.last().copied().unwrap_or(BroadcastClass::Scalar)
    }

    /// Remembers the user's name of a value.
    pub fn name(&mut self, id: NodeId, name: &'static str) {
        self.tree.nodes[id.index()].name = Some(name);
    }

    /// Returns a value under a name. The name of a `TensorMut` parameter overwrites that parameter's memory.
    pub fn output(
        &mut self,
        name: &'static str,
        node: NodeId,
        class: BroadcastClass,
        element: impl Into<DeclaredElement>,
    ) {
        let element = element.into();
        let parameter = self
            .tree
            .parameters
            .iter()
            .position(|p| p.name == name && p.class == ParameterClass::TensorMut)
            .and_then(|i| u32::try_from(i).ok())
            .map(ParameterId);
        self.tree.outputs.push(Output { name, node, class, element, packed: false, parameter, site: self.site });
    }

    /// Returns M×N truth values under a name, eight columns in a byte; see [`ParameterClass::Bits`].
    pub fn output_bits(&mut self, name: &'static str, node: NodeId) {
        let (class, element, site) = (BroadcastClass::Tensor, DeclaredElement::Unwritten, self.site);
        self.tree.outputs.push(Output { name, node, class, element, packed: true, parameter: None, site });
    }

    /// Ends the tree.
    #[must_use]
    pub fn finish(mut self) -> Tree {
        // Every epilogue belongs to a product, even if it doesn't read the accumulator.
        if self.tree.accumulators.is_empty() {
            self.tree.accumulators.push("accum");
        }
        self.tree
    }
}
