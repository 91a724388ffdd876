//! Constant folding, exact identities and common subexpressions, in one pass over the tree by value numbering.
//!
//! Only identities that hold for every value are used, so that NaN, infinities and the sign of zero survive: `x * 1`,
//! `x / 1`, `x + -0`, `x - 0`, `--x`, `||x||`, `|-x|`, division by a power of two; equal branches of a select, casts
//! that can't round. `x + 0` (which turns −0 into +0), `x * 0` and `x - x` stay as they are.

use std::collections::{HashMap, HashSet};

use super::check::{Fact, NodeKind};
use super::valid::Operands;
use super::{
    BroadcastClass, Form, Node, NodeId, ParameterClass, ParameterId, Position, Reduction, Site, Tree, Types, ValueId,
    ValueKind,
};
use crate::ElementType;
use crate::expr::{Logic, Op, fold};

/// A value before names, uses and costs are known.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) kind: ValueKind,
    pub(super) class: BroadcastClass,
    pub(super) ty: NodeKind,
    pub(super) name: Option<&'static str>,
    pub(super) site: Site,
    pub(super) phase: usize,
    /// Whether it is a product of host scalars only.
    host_factor: bool,
    /// Whether it depends on an accumulator, or on a reduction.
    on_accum: bool,
    /// Whether it depends on memory.
    on_memory: bool,
}

/// Two values with the same key are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Accum(usize),
    Parameter(usize),
    Literal(u64),
    Integer(i64),
    Position(Position),
    Random(ValueId, u32),
    Apply(Op, Operands),
    Logic(Logic, Operands),
    ToReal(ValueId),
    Call(usize, Operands),
    Cast(ElementType, ValueId),
    Reduce(Reduction, ValueId),
}

/// The simplified values in order, each different from all before it.
pub(super) struct Simplifier<'a> {
    tree: &'a Tree,
    types: Types,
    drafts: Vec<Draft>,
    known: HashMap<Key, ValueId>,
    truths: HashMap<ValueId, bool>,
    /// The parameters that are read as integers. If their numbers are used too, these are converted from the integers.
    integers: HashSet<ParameterId>,
}

impl<'a> Simplifier<'a> {
    /// Gives the simplified values, and the value that every node of the tree became; partials became their operand.
    pub(super) fn run(tree: &'a Tree, types: Types, facts: &[Fact]) -> (Vec<Draft>, Vec<ValueId>) {
        let integers = integer_parameters(tree, facts);
        let (drafts, known, truths) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut this = Self { tree, types, drafts, known, truths, integers };
        let mut values: Vec<ValueId> = Vec::with_capacity(tree.nodes.len());
        for (data, fact) in tree.nodes.iter().zip(facts) {
            let value = |id: &NodeId| values[id.index()];
            let id = match &data.node {
                Node::Accum(i) => this.add(ValueKind::Accum(*i), fact.class, data.site),
                Node::Load(p) | Node::Broadcast(p) => {
                    let leaf = this.leaf(&data.node, fact.class, data.site);
                    if this.integers.contains(p) { this.real(leaf, data.site) } else { leaf }
                }
                Node::Literal(x) => this.literal(*x, data.site),
                Node::Integer(x) => this.integer(*x, data.site),
                Node::Position(position) => this.add(ValueKind::Position(*position), fact.class, data.site),
                Node::Random(seed, stream) => this.add(ValueKind::Random(value(seed), *stream), fact.class, data.site),
                Node::Logic(logic, operands) => this.logic(*logic, operands.iter().map(value).collect(), data.site),
                Node::ToInteger(x) => {
                    let parameter = &tree.nodes[x.index()];
                    let leaf = this.leaf(&parameter.node, fact.class, parameter.site);
                    if this.draft(leaf).ty == NodeKind::Truth { this.zero_or_one(leaf, data.site) } else { leaf }
                }
                Node::ToReal(x) => this.real(value(x), data.site),
                Node::Apply(op, operands) => this.apply(*op, operands.iter().map(value).collect(), data.site),
                Node::Call(function, operands) => {
                    let operands = operands.iter().map(value).collect();
                    this.add(ValueKind::Call(function, operands), fact.class, data.site)
                }
                Node::Cast(to, x) => this.cast(*to, value(x), data.site),
                Node::Reduce(reduction, x) if reduction.form == Form::Complete => {
                    this.add(ValueKind::Reduce(*reduction, value(x)), fact.class, data.site)
                }
                Node::Reduce(_, x) => value(x),
                Node::Composed(composed, x) => this.composed(*composed, value(x), data.site),
            };
            let another = match &data.node {
                Node::Reduce(reduction, _) => reduction.form == Form::Partial,
                node => matches!(node, Node::ToInteger(_)),
            };
            if let (Some(name), false) = (data.name, another) {
                this.drafts[id.index()].name.get_or_insert(name);
            }
            values.push(id);
        }
        (this.drafts, values)
    }

    pub(super) fn draft(&self, id: ValueId) -> &Draft {
        &self.drafts[id.index()]
    }

    fn literal_of(&self, id: ValueId) -> Option<f64> {
        match self.draft(id).kind {
            ValueKind::Literal(x) => Some(x),
            _ => None,
        }
    }

    fn integer_of(&self, id: ValueId) -> Option<i64> {
        match self.draft(id).kind {
            ValueKind::Integer(x) => Some(x),
            _ => None,
        }
    }

    fn integer(&mut self, x: i64, site: Site) -> ValueId {
        self.add(ValueKind::Integer(x), BroadcastClass::Scalar, site)
    }

    /// The value that reads a parameter's memory.
    fn leaf(&mut self, node: &Node, class: BroadcastClass, site: Site) -> ValueId {
        let kind = match node {
            Node::Load(p) => ValueKind::Load(*p),
            Node::Broadcast(p) => ValueKind::Broadcast(*p),
            // Can't happen: checking made sure that `integer` is applied to a parameter.
            _ => ValueKind::Integer(0),
        };
        self.add(kind, class, site)
    }

    /// An integer converted to a number.
    pub(super) fn real(&mut self, x: ValueId, site: Site) -> ValueId {
        let class = self.draft(x).class;
        match self.integer_of(x) {
            Some(known) => self.literal(self.types.real().of_integer(known), site),
            None => self.add(ValueKind::ToReal(x), class, site),
        }
    }

    /// A truth value as the integer 0 or 1.
    fn zero_or_one(&mut self, truth: ValueId, site: Site) -> ValueId {
        let (one, zero) = (self.integer(1, site), self.integer(0, site));
        self.apply(Op::Select, Operands::from_slice(&[truth, one, zero]), site)
    }

    fn logic(&mut self, logic: Logic, operands: Operands, site: Site) -> ValueId {
        let known = |id: ValueId| self.truths.get(&id).copied();
        match (logic, operands.as_slice()) {
            (Logic::And | Logic::Or, &[x, y]) => {
                let decides = logic == Logic::Or;
                match (known(x), known(y)) {
                    (Some(truth), _) => return if truth == decides { x } else { y },
                    (_, Some(truth)) => return if truth == decides { y } else { x },
                    _ if x == y => return x,
                    _ => {}
                }
            }
            (Logic::Not, &[x]) => {
                if let ValueKind::Logic(Logic::Not, inner) = &self.draft(x).kind {
                    return inner[0];
                }
                if let Some(truth) = known(x) {
                    let zero = self.integer(0, site);
                    return self.known_truth(if truth { Op::Ne } else { Op::Eq }, &[zero, zero], !truth, site);
                }
            }
            _ => {}
        }
        let class = operands.iter().map(|o| self.draft(*o).class).fold(BroadcastClass::Scalar, BroadcastClass::join);
        self.add(ValueKind::Logic(logic, operands), class, site)
    }

    fn type_of(&self, kind: &ValueKind) -> NodeKind {
        let of = |id: &ValueId| self.draft(*id).ty;
        match kind {
            ValueKind::Load(p) | ValueKind::Broadcast(p) => {
                let parameter = &self.tree.parameters[p.index()];
                let element = super::valid::resolve(parameter.element, parameter.class, self.types);
                match element {
                    _ if parameter.class == ParameterClass::Seed => NodeKind::Seed,
                    _ if parameter.class == ParameterClass::Bits => NodeKind::Truth,
                    ElementType::Bool => NodeKind::Truth,
                    _ if self.integers.contains(p) => NodeKind::Integer,
                    _ => NodeKind::Number,
                }
            }
            ValueKind::Integer(_) | ValueKind::Position(_) => NodeKind::Integer,
            ValueKind::Reduce(reduction, _) if reduction.op.gives_index() => NodeKind::Integer,
            ValueKind::Logic(..) => NodeKind::Truth,
            ValueKind::Apply(op, _) if op.is_comparison() => NodeKind::Truth,
            ValueKind::Apply(Op::Select, operands) => of(&operands[1]),
            ValueKind::Apply(_, operands) => of(&operands[0]),
            ValueKind::Accum(_)
            | ValueKind::Literal(_)
            | ValueKind::Random(..)
            | ValueKind::ToReal(_)
            | ValueKind::Scaled { .. }
            | ValueKind::Call(..)
            | ValueKind::Cast(..)
            | ValueKind::Reduce(..) => NodeKind::Number,
        }
    }

    pub(super) fn literal(&mut self, x: f64, site: Site) -> ValueId {
        self.add(ValueKind::Literal(self.types.real().round(x)), BroadcastClass::Scalar, site)
    }

    fn key(kind: &ValueKind) -> Key {
        match kind {
            ValueKind::Accum(i) => Key::Accum(*i),
            ValueKind::Load(p) | ValueKind::Broadcast(p) => Key::Parameter(p.index()),
            ValueKind::Literal(x) => Key::Literal(x.to_bits()),
            ValueKind::Integer(x) => Key::Integer(*x),
            ValueKind::Position(position) => Key::Position(*position),
            ValueKind::Random(seed, stream) => Key::Random(*seed, *stream),
            ValueKind::Logic(logic, operands) => Key::Logic(*logic, sorted(operands)),
            ValueKind::ToReal(x) => Key::ToReal(*x),
            ValueKind::Apply(op, operands) => Key::Apply(*op, commutative_order(*op, operands)),
            // Equal operands always become either `Mul` or `Scaled`, so one key is enough for both.
            ValueKind::Scaled { scalar, x } => Key::Apply(Op::Mul, commutative_order(Op::Mul, &[*scalar, *x])),
            ValueKind::Call(function, operands) => Key::Call(std::ptr::from_ref(*function).addr(), operands.clone()),
            ValueKind::Cast(to, x) => Key::Cast(*to, *x),
            ValueKind::Reduce(reduction, x) => Key::Reduce(*reduction, *x),
        }
    }

    pub(super) fn add(&mut self, kind: ValueKind, class: BroadcastClass, site: Site) -> ValueId {
        let key = Self::key(&kind);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let operands = kind.operands();
        let any = |test: fn(&Draft) -> bool| operands.iter().any(|o| test(self.draft(*o)));
        let class_of = |p: &ParameterId| self.tree.parameters[p.index()].class;
        let on_memory = match &kind {
            ValueKind::Load(_) => true,
            // It is computed, whatever of.
            ValueKind::Reduce(..) => false,
            // Random numbers are computed, of whatever seed.
            ValueKind::Broadcast(p) => !matches!(class_of(p), ParameterClass::Scalar | ParameterClass::Seed),
            _ => any(|d| d.on_memory),
        };
        let host_factor = match &kind {
            ValueKind::Broadcast(p) => class_of(p) == ParameterClass::Scalar,
            ValueKind::Apply(Op::Neg, _) => any(|d| d.host_factor),
            ValueKind::Apply(Op::Mul, operands) => {
                any(|d| d.host_factor)
                    && operands.iter().all(|o| self.draft(*o).host_factor || self.literal_of(*o).is_some())
            }
            _ => false,
        };
        let on_accum = matches!(kind, ValueKind::Accum(_) | ValueKind::Reduce(..)) || any(|d| d.on_accum);
        let reduced = usize::from(matches!(kind, ValueKind::Reduce(..)));
        let phase = reduced + operands.iter().map(|o| self.draft(*o).phase).max().unwrap_or(0);
        let ty = self.type_of(&kind);
        let id = ValueId::new(self.drafts.len());
        self.drafts.push(Draft { kind, class, ty, name: None, site, phase, host_factor, on_accum, on_memory });
        self.known.insert(key, id);
        id
    }

    pub(super) fn apply(&mut self, op: Op, operands: Operands, site: Site) -> ValueId {
        if let Some(id) = self.folded(op, &operands, site).or_else(|| self.identity(op, &operands, site)) {
            return id;
        }
        let class = operands.iter().map(|o| self.draft(*o).class).fold(BroadcastClass::Scalar, BroadcastClass::join);
        if op == Op::Mul
            && let Some(kind) = self.scaled(operands[0], operands[1])
        {
            return self.add(kind, class, site);
        }
        self.add(ValueKind::Apply(op, operands), class, site)
    }

    fn scaled(&self, a: ValueId, b: ValueId) -> Option<ValueKind> {
        let loaded = |id: ValueId| self.draft(id).on_memory && !self.draft(id).on_accum;
        if self.draft(a).host_factor && loaded(b) {
            Some(ValueKind::Scaled { scalar: a, x: b })
        } else if self.draft(b).host_factor && loaded(a) {
            Some(ValueKind::Scaled { scalar: b, x: a })
        } else {
            None
        }
    }

    fn folded(&mut self, op: Op, operands: &[ValueId], site: Site) -> Option<ValueId> {
        if op == Op::Select {
            return self.truths.get(&operands[0]).map(|&truth| operands[if truth { 1 } else { 2 }]);
        }
        if let Some(integers) = operands.iter().map(|o| self.integer_of(*o)).collect::<Option<Vec<i64>>>() {
            return self.folded_integers(op, operands, &integers, site);
        }
        let numbers = operands.iter().map(|o| self.literal_of(*o)).collect::<Option<Vec<f64>>>()?;
        if op.is_comparison() {
            let truth = fold::compare(op, numbers[0], numbers[1])?;
            return Some(self.known_truth(op, operands, truth, site));
        }
        let result = fold::apply(op, &numbers, self.types.real())?;
        Some(self.literal(result, site))
    }

    /// A comparison whose result is known.
    fn known_truth(&mut self, op: Op, operands: &[ValueId], truth: bool, site: Site) -> ValueId {
        let id = self.add(ValueKind::Apply(op, Operands::from_slice(operands)), BroadcastClass::Scalar, site);
        self.truths.insert(id, truth);
        id
    }

    fn folded_integers(&mut self, op: Op, operands: &[ValueId], values: &[i64], site: Site) -> Option<ValueId> {
        if op.is_comparison() {
            let truth = fold::compare_integers(op, values[0], values[1])?;
            return Some(self.known_truth(op, operands, truth, site));
        }
        fold::integers(op, values).map(|result| self.integer(result, site))
    }

    fn identity(&mut self, op: Op, operands: &[ValueId], site: Site) -> Option<ValueId> {
        let is = |id: ValueId, x: f64| self.literal_of(id).is_some_and(|y| y.to_bits() == x.to_bits());
        let inner = |id: ValueId| match &self.draft(id).kind {
            ValueKind::Apply(op, operands) => Some((*op, operands.clone())),
            _ => None,
        };
        match (op, operands) {
            (Op::Mul, [x, y]) if is(*y, 1.0) => Some(*x),
            (Op::Mul, [x, y]) if is(*x, 1.0) => Some(*y),
            (Op::Mul, [x, y]) if is(*y, -1.0) => Some(self.negated(*x, site)),
            (Op::Mul, [x, y]) if is(*x, -1.0) => Some(self.negated(*y, site)),
            (Op::Div, [x, y]) if is(*y, 1.0) => Some(*x),
            (Op::Div, [x, y]) => {
                let reciprocal = self.literal_of(*y).and_then(|y| exact_reciprocal(y, self.types))?;
                let reciprocal = self.literal(reciprocal, site);
                Some(self.apply(Op::Mul, Operands::from_slice(&[*x, reciprocal]), site))
            }
            (Op::Add, [x, y]) if is(*y, -0.0) => Some(*x),
            (Op::Add, [x, y]) if is(*x, -0.0) => Some(*y),
            (Op::Sub, [x, y]) if is(*y, 0.0) => Some(*x),
            (Op::Neg, [x]) => match inner(*x) {
                Some((Op::Neg, inner)) => Some(inner[0]),
                _ => None,
            },
            (Op::Abs, [x]) => match inner(*x) {
                Some((Op::Abs, _)) => Some(*x),
                Some((Op::Neg, inner)) => Some(self.apply(Op::Abs, inner, site)),
                _ => None,
            },
            (Op::Floor | Op::Ceil | Op::Round, [x]) => match inner(*x) {
                Some((Op::Floor | Op::Ceil | Op::Round, _)) => Some(*x),
                _ => None,
            },
            (Op::Min | Op::Max, [x, y]) if x == y => Some(*x),
            (Op::Select, [_, x, y]) if x == y => Some(*x),
            _ => None,
        }
    }

    fn negated(&mut self, x: ValueId, site: Site) -> ValueId {
        self.apply(Op::Neg, Operands::from_slice(&[x]), site)
    }

    fn cast(&mut self, to: ElementType, x: ValueId, site: Site) -> ValueId {
        let real = self.types.real();
        let exact_already = match &self.draft(x).kind {
            ValueKind::Cast(from, _) => *from == to,
            ValueKind::Load(p) | ValueKind::Broadcast(p) => {
                let parameter = &self.tree.parameters[p.index()];
                super::valid::resolve(parameter.element, parameter.class, self.types) == to
                    && parameter.class != ParameterClass::Scalar
                    && to.size() <= real.element().size()
                    && to != ElementType::I32
            }
            _ => false,
        };
        let holds_every_value = to == ElementType::F64 || to == real.element();
        if exact_already || holds_every_value {
            return x;
        }
        let class = self.draft(x).class;
        self.add(ValueKind::Cast(to, x), class, site)
    }
}

/// The parameters, except those of truth values, that `integer` is applied to.
fn integer_parameters(tree: &Tree, facts: &[Fact]) -> HashSet<ParameterId> {
    let read = tree.nodes.iter().filter_map(|data| match &data.node {
        Node::ToInteger(x) if facts[x.index()].ty == NodeKind::Number => Some(&tree.nodes[x.index()].node),
        _ => None,
    });
    read.filter_map(|node| match node {
        Node::Load(p) | Node::Broadcast(p) => Some(*p),
        _ => None,
    })
    .collect()
}

fn sorted(operands: &[ValueId]) -> Operands {
    let mut operands = Operands::from_slice(operands);
    operands.sort_unstable();
    operands
}

/// Operands in an order that doesn't depend on how the user wrote a commutative operation.
///
/// `Min` and `Max` are commutative here: NaN wins on either side, and −0 is less than +0.
fn commutative_order(op: Op, operands: &[ValueId]) -> Operands {
    if matches!(op, Op::Add | Op::Mul | Op::Min | Op::Max | Op::Eq | Op::Ne) {
        return sorted(operands);
    }
    Operands::from_slice(operands)
}

/// `1 / y` when `x / y` and `x * (1 / y)` are the same for every x: y is ± a power of two and neither it nor its
/// reciprocal is subnormal.
fn exact_reciprocal(y: f64, types: Types) -> Option<f64> {
    let mantissa = y.to_bits() & ((1 << 52) - 1);
    let limit = match types.real() {
        crate::expr::Real::F32 => f64::from(f32::MIN_POSITIVE),
        crate::expr::Real::F64 => f64::MIN_POSITIVE,
    };
    let fits = |v: f64| v.is_finite() && v.abs() >= limit;
    (mantissa == 0 && fits(y) && fits(1.0 / y)).then_some(1.0 / y)
}
