use super::*;
use crate::evt::{Axis, Form, NodeId, ParameterClass, ReduceOp, Reduction, TreeBuilder, Types};
use crate::expr::Op;

const BF16: Types = Types::new(ElementType::BF16, ElementType::BF16);

fn reduce(b: &mut TreeBuilder, x: NodeId, op: ReduceOp, name: &'static str) -> NodeId {
    let node = b.reduce(Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete }, x);
    b.name(node, name);
    node
}

fn apply(b: &mut TreeBuilder, op: Op, operands: &[NodeId], name: &'static str) -> NodeId {
    let node = b.apply(op, operands);
    b.name(node, name);
    node
}

/// `d = exp(x - max x) / sum exp(x - max x)` of `x = scale * accum`; gives also the maxima, and the sums if asked for.
pub(super) fn softmax(sums: bool) -> ValidTree {
    let mut b = TreeBuilder::new("softmax", "a.rs");
    let accum = b.accum("accum");
    let scale = b.parameter("scale", ParameterClass::Scalar, None);
    let x = apply(&mut b, Op::Mul, &[scale, accum], "x");
    let m = reduce(&mut b, x, ReduceOp::Max, "m");
    let shifted = b.apply(Op::Sub, &[x, m]);
    let e = apply(&mut b, Op::Exp, &[shifted], "e");
    let s = reduce(&mut b, e, ReduceOp::Add, "s");
    let d = apply(&mut b, Op::Div, &[e, s], "d");
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("m", m, BroadcastClass::ColumnVector, Some(ElementType::F16));
    if sums {
        b.output("s", s, BroadcastClass::ColumnVector, None);
    }
    b.finish().validate(BF16).expect("a valid tree")
}

/// `d = (x - sum x) / sum (x - sum x)^2` of `x = scale * accum`; gives also the first sums, and the second if asked for.
fn norm(squares: bool) -> ValidTree {
    let mut b = TreeBuilder::new("norm", "a.rs");
    let accum = b.accum("accum");
    let scale = b.parameter("scale", ParameterClass::Scalar, None);
    let x = apply(&mut b, Op::Mul, &[scale, accum], "x");
    let s = reduce(&mut b, x, ReduceOp::Add, "s");
    let shifted = b.apply(Op::Sub, &[x, s]);
    let q = reduce(&mut b, shifted, ReduceOp::SumSquares, "q");
    let d = apply(&mut b, Op::Div, &[shifted, q], "d");
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("s", s, BroadcastClass::ColumnVector, Some(ElementType::F16));
    if squares {
        b.output("q", q, BroadcastClass::ColumnVector, None);
    }
    b.finish().validate(BF16).expect("a valid tree")
}

/// Each part's reads from slots, writes to slots, and outputs.
fn described(tree: &ValidTree) -> Vec<String> {
    described_for(tree, Prices::GPU)
}

fn described_for(tree: &ValidTree, prices: Prices) -> Vec<String> {
    let phases = Phases::of(tree.clone(), prices);
    let name = |binding: &PartBinding| match binding {
        PartBinding::Slot(slot) => Some(phases.slots[*slot].name.clone()),
        PartBinding::Argument(_) => None,
    };
    phases
        .parts
        .iter()
        .map(|part| {
            let (reads, writes) = part.bindings.split_at(part.tree.parameters().len());
            let given: Vec<&str> =
                part.tree.outputs().iter().map(|o| o.name).filter(|name| !name.contains(' ')).collect();
            let list = |bindings: &[PartBinding]| bindings.iter().filter_map(name).collect::<Vec<_>>().join(" ");
            format!("reads {}; keeps {}; gives {}", list(reads), list(writes), given.join(" "))
        })
        .collect()
}

#[test]
fn a_norm_is_three_parts_and_keeps_one_value() {
    let tree = norm(false);
    assert_eq!(tree.phases(), 3);
    let parts = ["reads ; keeps s x; gives ", "reads x s; keeps q; gives s", "reads x s q; keeps ; gives d"];
    assert_eq!(described(&tree), parts);
    let phases = Phases::of(tree.clone(), Prices::GPU);
    assert!(phases.first().multiplies() && phases.parts[1..].iter().all(|part| !part.tree.multiplies()));
    assert!(phases.parts.iter().all(|part| part.tree.phases() == 1));
    let lengths: Vec<_> =
        phases.parts.iter().map(|part| (part.bindings.len(), part.tree.argument_names().count())).collect();
    assert!(lengths.iter().all(|(bindings, names)| bindings == names), "{lengths:?}");
    assert_eq!(described(&norm(true))[2], "reads x s q; keeps ; gives d q");
}

/// A GPU saves a launch that would read all elements.
#[test]
fn a_softmax_has_its_sums_in_the_pass_of_its_maxima() {
    let tree = softmax(false);
    assert_eq!(tree.phases(), 3);
    assert_eq!(described(&tree), ["reads ; keeps m s x; gives ", "reads x m s; keeps ; gives d m"]);
    assert_eq!(described(&softmax(true))[1], "reads x m s; keeps ; gives d m s");
    // In a core's caches, an exponential costs more than to keep it.
    assert_eq!(
        described_for(&tree, Prices::CPU),
        ["reads ; keeps m x; gives ", "reads x m; keeps s e; gives m", "reads e s; keeps ; gives d"]
    );
}

/// The exponentials are an output, whose launch gives their sums too.
#[test]
fn sums_that_save_no_launch_are_made_where_they_stand() {
    let mut b = TreeBuilder::new("exponentials", "a.rs");
    let accum = b.accum("accum");
    let m = reduce(&mut b, accum, ReduceOp::Max, "m");
    let shifted = b.apply(Op::Sub, &[accum, m]);
    let e = apply(&mut b, Op::Exp, &[shifted], "e");
    let s = reduce(&mut b, e, ReduceOp::Add, "s");
    b.output("e", e, BroadcastClass::Tensor, None);
    b.output("s", s, BroadcastClass::ColumnVector, None);
    let tree = b.finish().validate(BF16).expect("a valid tree");
    assert_eq!(described(&tree), ["reads ; keeps m accum; gives ", "reads accum m; keeps ; gives e s"]);
}

#[test]
fn a_reduction_that_is_only_returned_is_no_phase() {
    let mut b = TreeBuilder::new("e", "a.rs");
    let accum = b.accum("accum");
    let sum = reduce(&mut b, accum, ReduceOp::Add, "sum");
    b.output("sum", sum, BroadcastClass::ColumnVector, None);
    let tree = b.finish().validate(BF16).expect("a valid tree");
    assert_eq!((tree.phases(), tree.values().len()), (1, 1));
    assert_eq!(Phases::of(tree.clone(), Prices::GPU).first(), &tree);
}

/// Equal reductions are one, and what follows from a parameter alone is computed again.
#[test]
fn what_is_cheap_is_computed_again() {
    let mut b = TreeBuilder::new("e", "a.rs");
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let exp = apply(&mut b, Op::Exp, &[c], "exp");
    let x = apply(&mut b, Op::Add, &[accum, exp], "x");
    let one = reduce(&mut b, x, ReduceOp::SumSquares, "one");
    let two = reduce(&mut b, x, ReduceOp::SumSquares, "two");
    let sum = apply(&mut b, Op::Add, &[one, two], "sum");
    let d = apply(&mut b, Op::Mul, &[exp, sum], "d");
    b.output("d", d, BroadcastClass::Tensor, None);
    let tree = b.finish().validate(BF16).expect("a valid tree");
    assert_eq!(described(&tree), ["reads ; keeps one; gives ", "reads one; keeps ; gives d"]);
}

/// A value that an output overwrites is kept for a later part that reads it.
#[test]
fn what_is_overwritten_is_kept() {
    let mut b = TreeBuilder::new("e", "a.rs");
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::TensorMut, None);
    let sum = reduce(&mut b, accum, ReduceOp::Add, "sum");
    let new = apply(&mut b, Op::Add, &[accum, c], "new");
    let d = apply(&mut b, Op::Mul, &[c, sum], "d");
    b.output("c", new, BroadcastClass::Tensor, None);
    b.output("d", d, BroadcastClass::Tensor, None);
    let tree = b.finish().validate(BF16).expect("a valid tree");
    assert_eq!(described(&tree), ["reads ; keeps sum c; gives c", "reads c sum; keeps ; gives d"]);
}

/// Values with one number a row are computed in the launch that completes the reductions of rows, and other values are
/// not.
#[test]
fn vectors_are_the_tail_of_their_reductions() {
    let launches = |tree: &ValidTree| -> Vec<(usize, bool)> {
        let phases = Phases::of(tree.clone(), Prices::GPU);
        let place = |part: &PhasePart| phases.parts.iter().position(|other| other == part).expect("a part");
        phases.passes().iter().map(|pass| (place(pass.part), pass.tail.is_some())).collect()
    };
    // In its second phase only the sums are given, but there are sums of M×N squares too.
    assert_eq!(launches(&norm(false)), [(0, false), (1, false), (2, false)]);
    assert_eq!(launches(&softmax(false)), [(0, false), (1, false)]);
    let factor = |axis: Axis, batch: bool, column: bool| {
        let mut b = TreeBuilder::new("factor", "a.rs");
        let accum = b.accum("accum");
        let bias = b.parameter("bias", ParameterClass::ColumnVector, None);
        let sum = b.reduce(Reduction { axis, batch, op: ReduceOp::SumSquares, form: Form::Complete }, accum);
        let root = b.apply(Op::Sqrt, &[sum]);
        let d = if column { b.apply(Op::Mul, &[root, bias]) } else { root };
        let class = if column { BroadcastClass::ColumnVector } else { axis.result_class() };
        b.output("d", d, class, None);
        b.output("e", accum, BroadcastClass::Tensor, None);
        b.finish().validate(BF16).expect("a valid tree")
    };
    assert_eq!(launches(&factor(Axis::Row, false, true)), [(0, true)]);
    assert_eq!(launches(&factor(Axis::Column, false, false)), [(0, true)]);
    assert_eq!(launches(&factor(Axis::All, false, false)), [(0, true)]);
    // All batches' sums, one vector each; and of the whole matrix, for every row.
    assert_eq!(launches(&factor(Axis::Row, true, true)), [(0, false), (1, false)]);
    assert_eq!(launches(&factor(Axis::All, false, true)), [(0, false), (1, false)]);
}
