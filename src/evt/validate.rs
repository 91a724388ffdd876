//! Validates a tree: it becomes a checked, simplified, typed one.

use epilogue_float_mode::in_default_mode;
use smallvec::SmallVec;

use super::check::{Checker, Fact, NodeKind};
use super::integers;
use super::simplify::{Draft, Simplifier};
use super::valid::{Operands, OutputKind, resolve};
use super::{
    Cost, Node, ParameterClass, Tree, TreeError, Types, ValidOutput, ValidParameter, ValidTree, Value, ValueId,
    ValueKind, ValueType, Width,
};
use crate::ElementType;
use crate::expr::Real;
use crate::expr::identifier::{self, FreeNames};

impl Tree {
    /// Checks the tree for a product of the given types. Resolves element types, folds constants, and removes repeated
    /// and unused values. Computes the facts that choosing and emitting a kernel needs.
    ///
    /// # Errors
    /// [`TreeError`] says which value is wrong, why, and what to write instead.
    pub fn validate(&self, types: Types) -> Result<ValidTree, TreeError> {
        // Constants are folded in it.
        in_default_mode(|| {
            let facts = Checker { tree: self, types }.check()?;
            let (drafts, became) = Simplifier::run(self, types, &facts);
            let outputs = self.resolved_outputs(types, &facts, &became);
            Ok(assemble(self, types, &drafts, outputs))
        })
    }

    /// The outputs, with the values of the simplifier.
    fn resolved_outputs(&self, types: Types, facts: &[Fact], became: &[ValueId]) -> Vec<ValidOutput> {
        let outputs = self.outputs.iter().map(|output| {
            let node = &self.nodes[output.node.index()].node;
            // A returned reduction is stored by what completes it, whether others read it or not.
            let (kind, of) = match node {
                Node::Reduce(reduction, x) => (OutputKind::Reduce(*reduction), *x),
                _ => (OutputKind::Store, output.node),
            };
            let real = types.real();
            let default = facts[output.node.index()].stored_as(node).resolved(real).unwrap_or(types.a);
            let of_parameter = output.parameter.map(|p| {
                let parameter = &self.parameters[p.index()];
                resolve(parameter.element, parameter.class, types)
            });
            ValidOutput {
                name: output.name,
                value: became[of.index()],
                kind,
                class: output.class,
                element: if output.packed {
                    ElementType::U8
                } else {
                    output.element.resolved(real).or(of_parameter).unwrap_or(default)
                },
                packed: output.packed,
                parameter: output.parameter,
                site: output.site,
            }
        });
        outputs.collect()
    }
}

/// Keeps the values that an output depends on, and gives them names.
fn assemble(tree: &Tree, types: Types, drafts: &[Draft], mut outputs: Vec<ValidOutput>) -> ValidTree {
    let significand = significands(drafts, &outputs);
    let mut place: Vec<Option<ValueId>> = vec![None; drafts.len()];
    let mut values: Vec<Value> = Vec::new();
    let mut names = Identifiers::new(tree);
    let moved = |place: &[Option<ValueId>], id: ValueId| place[id.index()].unwrap_or(id);
    for (i, draft) in drafts.iter().enumerate() {
        let Some(significand) = significand[i].map(|bits| bits.max(tree.significand)) else { continue };
        let mut kind = draft.kind.clone();
        kind.operands_mut().into_iter().for_each(|operand| *operand = moved(&place, *operand));
        for operand in kind.operands() {
            values[operand.index()].uses += 1;
        }
        let ty = match draft.ty {
            NodeKind::Truth => ValueType::Bool,
            // Until the ranges of all integers are known.
            NodeKind::Integer => ValueType::Integer(Width::Bits64),
            NodeKind::Number => ValueType::Real(types.real()),
            NodeKind::Seed => ValueType::Seed,
        };
        place[i] = Some(ValueId::new(values.len()));
        let (name, user_name) = names.of(tree, draft);
        let Draft { class, site, phase, .. } = *draft;
        values.push(Value { kind, ty, class, name, user_name, site, uses: 0, phase, significand });
    }
    for output in &mut outputs {
        output.value = moved(&place, output.value);
        values[output.value.index()].uses += 1;
    }
    let mut parameters: Vec<ValidParameter> =
        tree.parameters.iter().map(|p| ValidParameter::new(p, resolve(p.element, p.class, types))).collect();
    for (i, value) in values.iter().enumerate() {
        if let ValueKind::Load(p) | ValueKind::Broadcast(p) = value.kind {
            parameters[p.index()].value = Some(ValueId::new(i));
        }
    }
    let width = integers::width(&values, &parameters);
    for value in &mut values {
        if let ValueType::Integer(own) = &mut value.ty {
            *own = width;
        }
    }
    let guards = guards(&values, &outputs, &parameters);
    let cost = Cost::of(types, &values, &parameters, &outputs);
    let accumulators = tree.accumulators.clone();
    ValidTree { name: tree.name, file: tree.file, types, accumulators, values, parameters, outputs, guards, cost }
}

/// The largest number of significant bits of the outputs that each value reaches; `None` if it reaches none.
fn significands(drafts: &[Draft], outputs: &[ValidOutput]) -> Vec<Option<u32>> {
    let mut bits: Vec<Option<u32>> = vec![None; drafts.len()];
    for output in outputs {
        let needed = match output.kind {
            OutputKind::Store => element_significand(output.element),
            // Errors of the terms of a reduction add up, so its terms keep full accuracy.
            OutputKind::Reduce(_) => 53,
        };
        let slot = &mut bits[output.value.index()];
        *slot = (*slot).max(Some(needed));
    }
    for i in (0..drafts.len()).rev() {
        let needed = match drafts[i].kind {
            ValueKind::Reduce(..) => bits[i].and(Some(53)),
            _ => bits[i],
        };
        for operand in drafts[i].kind.operands() {
            bits[operand.index()] = bits[operand.index()].max(needed);
        }
    }
    bits
}

/// Significant bits of an element type, including the hidden one.
const fn element_significand(element: ElementType) -> u32 {
    match element {
        ElementType::F64 | ElementType::I64 => 53,
        ElementType::F16 => 11,
        ElementType::BF16 | ElementType::I8 | ElementType::U8 => 8,
        ElementType::F8E4M3 => 4,
        ElementType::F8E5M2 => 3,
        // f32 and i32, and any types that are added later.
        _ => 24,
    }
}

/// The factors, not all 0, for which a parameter's memory is needed; see [`ValidTree::guard`].
pub(super) fn guards(
    values: &[Value],
    outputs: &[ValidOutput],
    parameters: &[ValidParameter],
) -> Vec<Option<SmallVec<[ValueId; 2]>>> {
    // `None`: always needed. A value is needed if any of its users needs it.
    let mut needs: Vec<Option<Operands>> = vec![Some(Operands::new()); values.len()];
    for output in outputs {
        needs[output.value.index()] = None;
    }
    for (i, value) in values.iter().enumerate().rev() {
        let inherited = needs[i].clone();
        for (position, operand) in value.kind.operands().into_iter().enumerate() {
            let need = match value.kind {
                ValueKind::Scaled { scalar, .. } if position == 1 => Some(Operands::from_slice(&[scalar])),
                // It is computed, whether or not its value is used.
                ValueKind::Reduce(..) => None,
                _ => inherited.clone(),
            };
            match (&mut needs[operand.index()], need) {
                (Some(have), Some(more)) => {
                    for factor in more {
                        if !have.contains(&factor) {
                            have.push(factor);
                        }
                    }
                }
                (slot, _) => *slot = None,
            }
        }
    }
    let guard = |parameter: &ValidParameter| {
        let in_memory = !matches!(parameter.class, ParameterClass::Scalar | ParameterClass::Seed);
        let value = parameter.value.filter(|_| in_memory)?;
        needs[value.index()].as_ref().map(|factors| factors.iter().copied().collect())
    };
    parameters.iter().map(guard).collect()
}

/// Gives every value a unique identifier.
struct Identifiers {
    taken: FreeNames,
    /// The identifiers of the parameters.
    parameters: Vec<String>,
    unnamed: usize,
}

impl Identifiers {
    /// Parameters keep their names even if they are not read, so that arguments can be told apart.
    fn new(tree: &Tree) -> Self {
        let mut taken = FreeNames::numbered(2);
        let parameters = tree.parameters.iter().map(|p| taken.unique(&identifier::sanitize(p.name))).collect();
        Self { taken, parameters, unnamed: 0 }
    }

    fn of(&mut self, tree: &Tree, draft: &Draft) -> (String, Option<&'static str>) {
        if let ValueKind::Load(p) | ValueKind::Broadcast(p) = draft.kind {
            return (self.parameters[p.index()].clone(), Some(tree.parameters[p.index()].name));
        }
        let wanted = match draft.name {
            Some(name) => identifier::sanitize(name),
            None => {
                if let ValueKind::Position(position) = draft.kind {
                    return (self.taken.unique(position.name()), None);
                }
                let wanted = format!("t{}", self.unnamed);
                self.unnamed += 1;
                wanted
            }
        };
        (self.taken.unique(&wanted), draft.name)
    }
}

impl Value {
    /// Whether it is a literal, a parameter or an accumulator, for which nothing is computed.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        matches!(
            self.kind,
            ValueKind::Accum(_)
                | ValueKind::Load(_)
                | ValueKind::Broadcast(_)
                | ValueKind::Literal(_)
                | ValueKind::Integer(_)
                | ValueKind::Position(_)
        )
    }

    /// The 32-bit registers that it takes.
    #[must_use]
    pub const fn registers(&self) -> usize {
        match self.ty {
            ValueType::Real(Real::F64) | ValueType::Integer(Width::Bits64) => 2,
            ValueType::Real(Real::F32) | ValueType::Integer(Width::Bits32) | ValueType::Bool => 1,
            ValueType::Seed => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evt::{Axis, BroadcastClass, Form, Mistake, ReduceOp, Reduction, TreeBuilder};
    use crate::expr::Op;

    const F16: Types = Types::new(ElementType::F16, ElementType::F16);

    /// `d = alpha * accum + tanh(beta * c)`, and the sum of each row.
    fn row_reduction() -> Tree {
        let mut b = TreeBuilder::new("row_reduction", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        let left = b.apply(Op::Mul, &[alpha, accum]);
        let right = b.apply(Op::Mul, &[beta, c]);
        let tanh = b.apply(Op::Tanh, &[right]);
        let d = b.apply(Op::Add, &[left, tanh]);
        b.name(d, "d");
        let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
        let reduction = b.reduce(sum, d);
        b.name(reduction, "reduction");
        b.output("d", d, BroadcastClass::Tensor, None);
        b.output("reduction", reduction, BroadcastClass::ColumnVector, None);
        b.finish()
    }

    fn mistake(tree: &Tree) -> Mistake {
        tree.validate(F16).expect_err("the tree is wrong").mistake
    }

    #[test]
    fn the_first_example() {
        let tree = row_reduction().validate(F16).unwrap();
        assert_eq!(tree.values().len(), 8);
        assert_eq!(tree.parameters()[0].element, ElementType::F16);
        assert_eq!(tree.outputs()[0].element, ElementType::F16);
        assert_eq!(tree.outputs()[1].element, ElementType::F32);
        assert_eq!(tree.outputs()[0].value, tree.outputs()[1].value);
        let (c, _) = tree.loads().next().unwrap();
        let beta = tree.parameters()[2].value.unwrap();
        assert_eq!(tree.guard(c), Some(&[beta][..]));
        let cost = tree.cost();
        assert_eq!((cost.loads, cost.stores, cost.bytes_read, cost.bytes_written), (1, 1, 2, 2));
        assert_eq!((cost.row_reductions, cost.costly_operations), (1, 1));
        assert_eq!(tree.argument_names().collect::<Vec<_>>(), ["c", "alpha", "beta", "d", "reduction"]);
        assert_eq!((tree.output_argument(0), tree.output_argument(1)), (3, 4));
    }

    #[test]
    fn f64_operands_make_everything_f64() {
        let tree = row_reduction().validate(Types::new(ElementType::F64, ElementType::F64)).unwrap();
        assert!(tree.outputs().iter().all(|o| o.element == ElementType::F64));
        assert_eq!(tree.real(), Real::F64);
    }

    #[test]
    fn repeated_and_unused_values_disappear() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let unused = b.parameter("unused", ParameterClass::Tensor, None);
        b.apply(Op::Exp, &[unused]);
        let x = b.apply(Op::Add, &[accum, c]);
        let y = b.apply(Op::Add, &[c, accum]);
        let one = b.literal(1.0);
        let z = b.apply(Op::Mul, &[y, one]);
        let d = b.apply(Op::Mul, &[x, z]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F16).unwrap();
        assert_eq!(tree.values().len(), 4);
        assert_eq!(tree.parameters()[1].value, None);
        assert_eq!(tree.loads().count(), 1);
    }

    #[test]
    fn identities_that_are_not_exact_stay() {
        for (op, literal, kept) in [
            (Op::Add, 0.0, true),
            (Op::Add, -0.0, false),
            (Op::Sub, 0.0, false),
            (Op::Sub, -0.0, true),
            (Op::Mul, 0.0, true),
            (Op::Mul, 1.0, false),
            (Op::Div, 1.0, false),
            (Op::Div, 3.0, true),
        ] {
            let mut b = TreeBuilder::new("e", "a.rs");
            let accum = b.accum("accum");
            let literal_node = b.literal(literal);
            let d = b.apply(op, &[accum, literal_node]);
            b.output("d", d, BroadcastClass::Tensor, None);
            let tree = b.finish().validate(F16).unwrap();
            assert_eq!(tree.values().len() > 1, kept, "{op:?} {literal}");
        }
    }

    #[test]
    fn a_guard_needs_every_use_to_be_scaled() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let e = b.parameter("e", ParameterClass::Tensor, None);
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        let gamma = b.parameter("gamma", ParameterClass::Scalar, None);
        let exp = b.apply(Op::Exp, &[c]);
        let x = b.apply(Op::Mul, &[exp, beta]);
        let y = b.apply(Op::Mul, &[gamma, c]);
        let z = b.apply(Op::Mul, &[gamma, e]);
        let w = b.apply(Op::Add, &[z, e]);
        let on_accum = b.apply(Op::Mul, &[gamma, accum]);
        let d = [x, y, w, on_accum].into_iter().reduce(|p, q| b.apply(Op::Add, &[p, q])).unwrap();
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F16).unwrap();
        let guards: Vec<_> = tree.loads().map(|(p, _)| tree.guard(p).map(<[_]>::len)).collect();
        assert_eq!(guards, [Some(2), None]);
        let scaled = tree.values().iter().filter(|v| matches!(v.kind, ValueKind::Scaled { .. })).count();
        assert_eq!(scaled, 3);
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let zero = b.literal(0.0);
        let positive = b.at(3, 7).apply(Op::Gt, &[accum, zero]);
        b.name(positive, "positive");
        let d = b.at(4, 9).apply(Op::Mul, &[positive, accum]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let error = b.finish().validate(F16).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.rs:4:9: in the epilogue `e`: `positive` is a truth value where a number is needed; write `if … { 1.0 } \
             else { 0.0 }` with it as the condition"
        );

        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        b.output("d", accum, BroadcastClass::RowVector, None);
        assert!(matches!(mistake(&b.finish()), Mistake::OutputClass { name: "d", .. }));

        let mut b = TreeBuilder::new("e", "a.rs");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        b.output("c", c, BroadcastClass::Tensor, None);
        assert!(matches!(mistake(&b.finish()), Mistake::ParameterReturned { name: "c", .. }));

        let b = TreeBuilder::new("e", "a.rs");
        assert_eq!(mistake(&b.finish()), Mistake::NothingReturned);

        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let sum = Reduction { axis: Axis::All, batch: false, op: ReduceOp::Add, form: Form::Partial };
        let sum = b.reduce(sum, accum);
        b.output("s", sum, BroadcastClass::Scalar, None);
        assert!(matches!(mistake(&b.finish()), Mistake::Partial { .. }));

        let mut b = TreeBuilder::new("e", "a.rs");
        let big = b.literal(1e300);
        b.output("s", big, BroadcastClass::Scalar, None);
        assert!(matches!(mistake(&b.finish()), Mistake::LiteralOverflow { .. }));
    }

    #[test]
    fn names_are_unique_and_fit_cuda() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("double");
        let c = b.parameter("x", ParameterClass::Tensor, None);
        let x = b.apply(Op::Add, &[accum, c]);
        b.name(x, "x");
        let y = b.apply(Op::Exp, &[x]);
        b.name(y, "x");
        b.output("d", y, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F16).unwrap();
        let names: Vec<_> = tree.values().iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["double_v", "x", "x_2", "x_3"]);
    }
}
