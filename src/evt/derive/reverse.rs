//! The sweep over the forward tree, from its outputs to its leaves.

use std::collections::BTreeSet;

use super::error::DeriveError;
use super::place::DerivedFrom;
use super::prune::pruned;
use super::wanted::WantedGradients;
use crate::ElementType;
use crate::evt::check::{Checker, Fact, NodeKind};
use crate::evt::{
    Axis, BroadcastClass, DeclaredElement, Form, Node, NodeId, Output, ParameterClass, ParameterId, Position, ReduceOp,
    Reduction, Site, Tree, TreeBuilder, Types,
};
use crate::expr::Op;
use crate::sync::{Mutex, lock};

/// The gradient of a value, in parts: what is still to be summed over M×N, over the columns, over the rows, and what is not.
/// Sums are taken where a value begins, or where a reduction needs them.
type Gradient = [Option<NodeId>; 4];

const CLASSES: [BroadcastClass; 4] =
    [BroadcastClass::Tensor, BroadcastClass::RowVector, BroadcastClass::ColumnVector, BroadcastClass::Scalar];

fn part(class: BroadcastClass) -> usize {
    CLASSES.iter().position(|known| *known == class).unwrap_or(0)
}

pub(super) struct Reverse<'b> {
    forward: &'b Tree,
    what: &'b WantedGradients,
    facts: Vec<Fact>,
    pub(super) builder: TreeBuilder,
    /// The forward values that the backward tree has.
    values: Vec<Option<NodeId>>,
    /// The outputs that are read, by their nodes.
    saved: Vec<Option<&'b Output>>,
    /// The values of parameters.
    parameters: Vec<Option<NodeId>>,
    gradients: Vec<Gradient>,
    /// Whether a wanted gradient follows from that of a value.
    leads: Vec<bool>,
    through: &'b Output,
    /// Where what is differentiated was written.
    site: Site,
}

impl<'b> Reverse<'b> {
    pub(super) fn new(forward: &'b Tree, what: &'b WantedGradients) -> Result<Self, DeriveError> {
        let facts = Checker { tree: forward, types: Types::new(ElementType::F32, ElementType::F32) }.check()?;
        let output = |name: &str| {
            let outputs = || forward.outputs.iter().map(|output| output.name).collect();
            let found = forward.outputs.iter().find(|output| output.name == name);
            found.ok_or_else(|| DeriveError::NoOutput {
                name: name.to_owned(),
                epilogue: forward.name,
                outputs: outputs(),
            })
        };
        if let Some(parameter) = forward.parameters.iter().find(|p| p.class == ParameterClass::TensorMut) {
            return Err(DeriveError::Overwritten { name: parameter.name });
        }
        let named = std::iter::once(&what.through).chain(&what.given).collect::<Vec<_>>();
        for names in [named, what.saved.iter().collect(), what.gradients.iter().map(|(name, _)| name).collect()] {
            let mut twice = names.iter().enumerate().filter(|(i, name)| names[..*i].contains(*name));
            if let Some((_, name)) = twice.next() {
                return Err(DeriveError::Twice { name: (*name).clone() });
            }
        }
        let through = output(&what.through)?;
        let refuse = |output: &Output, is, advice| Err(DeriveError::Output { name: output.name, is, advice });
        let fact = |output: &Output| facts[output.node.index()];
        if fact(through).ty != NodeKind::Number || through.class != BroadcastClass::Tensor {
            return refuse(through, "is not an M×N number", "an accumulator is the gradient of one");
        }
        for name in &what.given {
            let given = output(name)?;
            if fact(given).ty != NodeKind::Number {
                return refuse(given, "is not a number", "it has no gradient: leave it out");
            }
        }
        let mut saved = vec![None; forward.nodes.len()];
        for name in &what.saved {
            let output = output(name)?;
            if output.class != BroadcastClass::Tensor || !matches!(fact(output).ty, NodeKind::Number | NodeKind::Truth)
            {
                return refuse(
                    output,
                    "is neither M×N numbers nor truth values",
                    "others are computed again: leave it out",
                );
            }
            saved[output.node.index()] = Some(output);
        }
        for (name, all) in &what.gradients {
            let parameters = || forward.parameters.iter().map(|parameter| parameter.name).collect();
            let parameter = forward.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
                DeriveError::NoParameter { name: name.clone(), epilogue: forward.name, parameters: parameters() }
            })?;
            let truths = parameter.element == DeclaredElement::Written(ElementType::Bool);
            if truths || matches!(parameter.class, ParameterClass::Seed | ParameterClass::Bits) {
                return Err(DeriveError::NoGradient { name: parameter.name, class: parameter.class.name() });
            }
            if *all && parameter.class == ParameterClass::Tensor {
                return Err(DeriveError::BatchAlone { name: parameter.name });
            }
        }
        let mut leads: Vec<bool> = Vec::with_capacity(forward.nodes.len());
        for (data, fact) in forward.nodes.iter().zip(&facts) {
            leads.push(match &data.node {
                _ if fact.ty != NodeKind::Number => false,
                Node::Accum(_) => true,
                Node::Load(p) | Node::Broadcast(p) => {
                    let name = forward.parameters[p.index()].name;
                    what.gradients.iter().any(|(wanted, _)| wanted == name)
                }
                node => node.operands().iter().any(|operand| leads[operand.index()]),
            });
        }
        Ok(Self {
            forward,
            what,
            facts,
            builder: TreeBuilder::new(name(forward), forward.file),
            values: vec![None; forward.nodes.len()],
            saved,
            parameters: vec![None; forward.parameters.len()],
            gradients: vec![[None; 4]; forward.nodes.len()],
            leads,
            through,
            site: Site::default(),
        })
    }

    /// The backward tree; an error has the place of what has no derivative, if there is one.
    pub(super) fn run(mut self) -> Result<Tree, (DeriveError, Site)> {
        let first = match self.sweep() {
            Ok(first) => first,
            Err(error) => return Err((error, self.site)),
        };
        let (all, forward) = (self.what.all, self.forward);
        let tree = pruned(self.builder.finish(), first);
        match tree.parameters.get(first) {
            Some(needed) if all => {
                let site = forward.nodes.iter().find(|data| data.name == Some(needed.name)).map(|data| data.site);
                Err((DeriveError::Accumulator { name: needed.name }, site.unwrap_or_default()))
            }
            _ => Ok(tree),
        }
    }

    /// Gives how many parameters stay, needed or not.
    fn sweep(&mut self) -> Result<usize, DeriveError> {
        let through = self.through;
        let g = self.builder.accum(self.gradient_name(through.name)?);
        self.add(through.node, BroadcastClass::Tensor, g);
        if self.what.all {
            self.parameters_in_order();
        }
        for name in &self.what.given {
            let Some(output) = self.forward.outputs.iter().find(|output| output.name == name) else { continue };
            let name = self.gradient_name(output.name)?;
            // As the output is stored.
            let node = &self.forward.nodes[output.node.index()].node;
            let element = output.element.or(self.facts[output.node.index()].stored_as(node));
            let g = self.builder.parameter(name, output.class.in_memory(), element);
            self.add(output.node, output.class, g);
        }
        let forward = self.forward;
        let first =
            if self.what.all { forward.parameters.len() + self.what.saved.len() + self.what.given.len() } else { 0 };
        for at in (0..self.forward.nodes.len()).rev() {
            if self.leads[at] && self.gradients[at].iter().any(Option::is_some) {
                self.site = forward.nodes[at].site;
                self.node(NodeId::new(at))?;
            }
        }
        self.site = Site::default();
        self.outputs()?;
        Ok(first)
    }

    /// Declares the forward parameters and the saved outputs.
    fn parameters_in_order(&mut self) {
        for p in 0..self.forward.parameters.len() {
            self.parameter(ParameterId::new(p));
        }
        for name in &self.what.saved {
            let Some(output) = self.forward.outputs.iter().find(|output| output.name == name) else { continue };
            let node = self.saved_again(output);
            self.values[output.node.index()].get_or_insert(node);
        }
    }

    /// Adds to the gradient of a value, if that leads somewhere.
    fn add(&mut self, to: NodeId, over: BroadcastClass, g: NodeId) {
        if self.leads_to(to) {
            let before = self.gradients[to.index()][part(over)];
            self.gradients[to.index()][part(over)] = self.sum(before, g);
        }
    }

    /// Hands a value's gradient on to its operands.
    fn node(&mut self, id: NodeId) -> Result<(), DeriveError> {
        let forward = self.forward;
        let data = &forward.nodes[id.index()];
        self.builder.at(data.site.line, data.site.column);
        match &data.node {
            Node::Reduce(reduction, x) => {
                let g = self.collapsed(id, reduction.axis.result_class(), false)?;
                let g = self.reduced(id, *reduction, *x, g)?;
                self.add(*x, BroadcastClass::Tensor, g);
                return Ok(());
            }
            Node::Composed(composed, x) => {
                let g = self.collapsed(id, composed.axis.result_class(), false)?;
                let g = self.composed(id, *composed, *x, g)?;
                self.add(*x, BroadcastClass::Tensor, g);
                return Ok(());
            }
            _ => {}
        }
        for (class, g) in CLASSES.into_iter().zip(self.gradients[id.index()]) {
            let Some(g) = g else { continue };
            match &data.node {
                Node::Apply(op, operands) => {
                    for (i, operand) in operands.iter().enumerate() {
                        if !self.leads_to(*operand) {
                            continue;
                        }
                        if let Some(g) = self.primitive(*op, DerivedFrom::Forward(id, operands), i, g) {
                            self.add(*operand, class, g);
                        }
                    }
                }
                Node::Call(function, operands) => {
                    let wanted: Vec<bool> = operands.iter().map(|operand| self.leads_to(*operand)).collect();
                    let values: Vec<NodeId> = operands.iter().map(|operand| self.again(*operand)).collect();
                    let gradients = self.call(function, &values, &wanted, g);
                    for (operand, g) in operands.iter().zip(gradients) {
                        if let Some(g) = g {
                            self.add(*operand, class, g);
                        }
                    }
                }
                Node::Cast(_, x) => self.add(*x, class, g),
                _ => {}
            }
        }
        Ok(())
    }

    fn leads_to(&self, id: NodeId) -> bool {
        self.leads[id.index()]
    }

    /// A value's whole gradient, summed to a class.
    fn collapsed(&mut self, id: NodeId, class: BroadcastClass, batch: bool) -> Result<NodeId, DeriveError> {
        let mut whole = None;
        for (from, g) in CLASSES.into_iter().zip(self.gradients[id.index()]) {
            let Some(g) = g else { continue };
            let axis = match (summed(from, class), from == class) {
                (Some(axis), _) => axis,
                (None, true) if !batch => {
                    whole = self.sum(whole, g);
                    continue;
                }
                (None, true) => return Err(self.vector_sum(id, "the batch")),
                (None, false) if from == BroadcastClass::RowVector => return Err(self.vector_sum(id, "the columns")),
                (None, false) => return Err(self.vector_sum(id, "the rows")),
            };
            // A gradient that follows from a reduction and is the same along the axis counts for each element here, as
            // M×N values do.
            let g = if self.builder.phases()[g.index()] > 0 { self.extended(g, BroadcastClass::Tensor) } else { g };
            let reduction = Reduction { axis, batch, op: ReduceOp::Add, form: Form::Complete };
            let g = self.builder.reduce(reduction, g);
            whole = self.sum(whole, g);
        }
        whole.ok_or(DeriveError::Nothing { through: self.through.name })
    }

    /// Only leaves have names here, and reductions, whose operands are M×N.
    fn vector_sum(&self, id: NodeId, over: &'static str) -> DeriveError {
        let name = self.forward.nodes[id.index()].name.map(|name| format!("`{name}`"));
        DeriveError::VectorSum { what: name.unwrap_or_else(|| "a reduction's result".to_owned()), over }
    }

    /// A forward value in the backward tree.
    pub(super) fn again(&mut self, id: NodeId) -> NodeId {
        let forward = self.forward;
        // A work list, as an expression may be deeper than a thread's stack.
        let mut rest = vec![id];
        while let Some(id) = rest.last().copied() {
            if self.values[id.index()].is_some() {
                rest.pop();
                continue;
            }
            let data = &forward.nodes[id.index()];
            let missing = |operand: &&NodeId| self.values[operand.index()].is_none();
            let before = rest.len();
            if self.saved[id.index()].is_none() {
                // The first operand is the next.
                rest.extend(data.node.operands().iter().rev().filter(missing));
            }
            if rest.len() == before {
                rest.pop();
                self.values[id.index()] = Some(self.made(id));
            }
        }
        self.values[id.index()].unwrap_or(id)
    }

    /// Makes a forward value whose operands are there.
    fn made(&mut self, id: NodeId) -> NodeId {
        let forward = self.forward;
        let data = &forward.nodes[id.index()];
        let of = |this: &Self, operand: &NodeId| this.values[operand.index()].unwrap_or(*operand);
        self.builder.at(data.site.line, data.site.column);
        if let Some(output) = self.saved[id.index()] {
            return self.saved_again(output);
        }
        let operands: Vec<NodeId> = data.node.operands().iter().map(|operand| of(self, operand)).collect();
        let made = match &data.node {
            Node::Accum(i) => {
                return self.builder.parameter(forward.accumulators[*i], ParameterClass::Tensor, None);
            }
            Node::Load(p) | Node::Broadcast(p) => return self.parameter(*p),
            Node::Literal(x) => self.builder.literal(*x),
            Node::Integer(x) => self.builder.integer_literal(*x),
            Node::Position(position) => self.builder.position(*position),
            Node::Random(_, stream) => self.builder.random(operands[0], *stream),
            Node::Apply(op, _) => self.builder.apply(*op, &operands),
            Node::Logic(logic, _) => self.builder.logic(*logic, &operands),
            Node::ToInteger(_) => self.builder.integer(operands[0]),
            Node::ToReal(_) => self.builder.real(operands[0]),
            Node::Call(function, _) => self.builder.call(function, &operands),
            Node::Cast(to, _) => self.builder.cast(*to, operands[0]),
            Node::Reduce(reduction, _) => self.builder.reduce(*reduction, operands[0]),
            Node::Composed(composed, _) => self.builder.compose(*composed, operands[0]),
        };
        if let Some(name) = data.name {
            self.builder.name(made, name);
        }
        made
    }

    /// An output that is read.
    fn saved_again(&mut self, output: &Output) -> NodeId {
        let truths = self.facts[output.node.index()].ty == NodeKind::Truth;
        match (output.packed, truths) {
            (true, _) => self.builder.parameter(output.name, ParameterClass::Bits, None),
            (false, true) => self.builder.parameter(output.name, ParameterClass::Tensor, Some(ElementType::Bool)),
            (false, false) => self.builder.parameter(output.name, ParameterClass::Tensor, output.element),
        }
    }

    fn parameter(&mut self, p: ParameterId) -> NodeId {
        let parameter = &self.forward.parameters[p.index()];
        *self.parameters[p.index()]
            .get_or_insert_with(|| self.builder.parameter(parameter.name, parameter.class, parameter.element))
    }

    fn outputs(&mut self) -> Result<(), DeriveError> {
        let forward = self.forward;
        let mut returned: Vec<(&'static str, NodeId, BroadcastClass, DeclaredElement)> = Vec::new();
        let gradient = |this: &mut Self, is_it: &dyn Fn(&Node) -> bool, class, all| {
            let mut whole = None;
            for at in 0..forward.nodes.len() {
                if is_it(&forward.nodes[at].node) && this.gradients[at].iter().any(Option::is_some) {
                    let g = this.collapsed(NodeId::new(at), class, all)?;
                    whole = this.sum(whole, g);
                }
            }
            Ok::<_, DeriveError>(whole)
        };
        for (i, name) in forward.accumulators.iter().enumerate() {
            let g = gradient(self, &|node| *node == Node::Accum(i), BroadcastClass::Tensor, false)?;
            match g {
                Some(g) => returned.push((name, g, BroadcastClass::Tensor, DeclaredElement::Unwritten)),
                None if self.what.all => return Err(DeriveError::NoInfluence { name }),
                None => {}
            }
        }
        for (wanted, all) in &self.what.gradients {
            let Some(p) = forward.parameters.iter().position(|parameter| parameter.name == wanted) else { continue };
            let parameter = &forward.parameters[p];
            let class = parameter.class.broadcast_class();
            let is_it = |node: &Node| matches!(node, Node::Load(q) | Node::Broadcast(q) if q.index() == p);
            let g = gradient(self, &is_it, class, *all)?;
            let g = g.ok_or(DeriveError::NoInfluence { name: parameter.name })?;
            let element = match (parameter.element, class) {
                (DeclaredElement::Written(element), _) if element.is_float() => parameter.element,
                (_, BroadcastClass::Tensor) => DeclaredElement::Unwritten,
                // It mostly is a sum; one that is none has the same type.
                _ => DeclaredElement::Arithmetic,
            };
            returned.push((parameter.name, g, class, element));
        }
        if returned.is_empty() {
            return Err(DeriveError::Nothing { through: self.through.name });
        }
        for (of, g, class, element) in returned {
            let name = self.gradient_name(of)?;
            let g = self.extended(g, class);
            self.builder.output(name, g, class, element);
        }
        Ok(())
    }

    /// A gradient with the extent of a class, where it is the same along it.
    fn extended(&mut self, g: NodeId, class: BroadcastClass) -> NodeId {
        let places: &[Position] = match class {
            BroadcastClass::Scalar => &[],
            BroadcastClass::RowVector => &[Position::Column],
            BroadcastClass::ColumnVector => &[Position::Row],
            BroadcastClass::Tensor => &[Position::Row, Position::Column],
        };
        if self.builder.class(g) == class {
            return g;
        }
        let mut whole = g;
        for position in places {
            let place = self.builder.position(*position);
            let (place, zero) = (self.builder.real(place), self.builder.literal(0.0));
            let nothing = self.builder.apply(Op::Mul, &[zero, place]);
            whole = self.builder.apply(Op::Add, &[whole, nothing]);
        }
        whole
    }

    /// `d_` and a name that nothing else has.
    fn gradient_name(&self, of: &'static str) -> Result<&'static str, DeriveError> {
        let name = kept(format!("d_{of}"));
        let parameters = self.forward.parameters.iter().map(|parameter| parameter.name);
        let outputs = self.forward.outputs.iter().map(|output| output.name);
        let mut taken = parameters.chain(outputs).chain(self.forward.accumulators.iter().copied());
        match taken.any(|taken| taken == name) {
            true => Err(DeriveError::NameTaken { of, name }),
            false => Ok(name),
        }
    }
}

/// The name of a backward tree.
pub(super) fn name(forward: &Tree) -> &'static str {
    kept(format!("{}_backward", forward.name))
}

/// A name that lives as long as the program, as a tree's do. Equal ones are one.
fn kept(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = lock(&NAMES);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

/// The axes along which what is used for M×N values must be summed, to be of a smaller class.
const fn summed(from: BroadcastClass, to: BroadcastClass) -> Option<Axis> {
    match (from, to) {
        (BroadcastClass::Tensor, BroadcastClass::RowVector) => Some(Axis::Column),
        (BroadcastClass::Tensor, BroadcastClass::ColumnVector) => Some(Axis::Row),
        (BroadcastClass::Tensor, BroadcastClass::Scalar) => Some(Axis::All),
        _ => None,
    }
}
