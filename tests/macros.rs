//! Trees that the macros build, against trees built by hand.

use epilogue::Epilogue;
use epilogue::evt::{Axis, Form, ParameterClass, ReduceOp, Reduction, ShapeClass, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::prelude::*;

/// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
#[epilogue]
pub fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add);
    (d, reduction)
}

/// A tree without what depends on where it was written.
fn shape(tree: &Tree) -> String {
    let nodes: Vec<_> = tree.nodes().iter().map(|node| (&node.node, node.name)).collect();
    let parameters: Vec<_> = tree.parameters().iter().map(|it| (it.name, it.class, it.element)).collect();
    let outputs: Vec<_> =
        tree.outputs().iter().map(|it| (it.name, it.node, it.class, it.element, it.parameter)).collect();
    format!("{} {nodes:#?} {parameters:#?} {outputs:#?}", tree.name())
}

#[test]
fn the_tree_of_the_first_example() {
    let mut builder = TreeBuilder::new("row_reduction", file!());
    let accum = builder.accum("accum");
    let c = builder.parameter("c", ParameterClass::Tensor, None);
    let alpha = builder.parameter("alpha", ParameterClass::Scalar, None);
    let beta = builder.parameter("beta", ParameterClass::Scalar, None);
    let left = builder.apply(Op::Mul, &[alpha, accum]);
    let right = builder.apply(Op::Mul, &[beta, c]);
    let right = builder.call(tanh::function(), &[right]);
    let d = builder.apply(Op::Add, &[left, right]);
    builder.name(d, "d");
    let reduction =
        builder.reduce(Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete }, d);
    builder.name(reduction, "reduction");
    builder.output("d", d, ShapeClass::Tensor, None);
    builder.output("reduction", reduction, ShapeClass::ColumnVector, None);
    assert_eq!(shape(&RowReduction::tree()), shape(&builder.finish()));
}
