//! Trees that the macros build, compared with trees built by hand, and the run-time behaviour of the expansion.

mod conditions;
mod element;
mod followed;
mod hygiene;
mod kept;
mod quiet;
mod typed;

use epilogue::evt::{
    Axis, BroadcastClass, DeclaredElement, Form, NodeId, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder,
};
use epilogue::expr::Op;
use epilogue::prelude::*;
use epilogue::{Argument, Arguments, Epilogue};

/// Everything about a tree except where it was written.
fn content(tree: &Tree) -> String {
    let nodes: Vec<_> = tree.nodes().iter().map(|node| (&node.node, node.name)).collect();
    let parameters: Vec<_> = tree.parameters().iter().map(|it| (it.name, it.class, it.element)).collect();
    let outputs: Vec<_> =
        tree.outputs().iter().map(|it| (it.name, it.node, it.class, it.element, it.parameter)).collect();
    format!("{} {nodes:#?} {parameters:#?} {outputs:#?}", tree.name())
}

/// Compares an epilogue's tree with the one that a function builds after the accumulator.
#[track_caller]
fn same<E: Epilogue>(name: &'static str, build: impl FnOnce(&mut TreeBuilder, NodeId)) {
    let mut builder = TreeBuilder::new(name, file!());
    let accum = builder.accum("accum");
    build(&mut builder, accum);
    assert_eq!(content(&E::tree()), content(&builder.finish()));
}

const COMPLETE_ROWS: Reduction = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };

/// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
#[epilogue]
pub fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add);
    (d, reduction)
}

#[test]
fn the_first_example() {
    same::<RowReduction>("row_reduction", |builder, accum| {
        let c = builder.parameter("c", ParameterClass::Tensor, None);
        let alpha = builder.parameter("alpha", ParameterClass::Scalar, None);
        let beta = builder.parameter("beta", ParameterClass::Scalar, None);
        let left = builder.apply(Op::Mul, &[alpha, accum]);
        let right = builder.apply(Op::Mul, &[beta, c]);
        let right = builder.call(tanh::function(), &[right]);
        let d = builder.apply(Op::Add, &[left, right]);
        builder.name(d, "d");
        let reduction = builder.reduce(COMPLETE_ROWS, d);
        builder.name(reduction, "reduction");
        builder.output("d", d, BroadcastClass::Tensor, None);
        builder.output("reduction", reduction, BroadcastClass::ColumnVector, None);
    });
}

/// A complete reduction is a value: named, in the middle of an expression, assigned to, and chosen by an `if`.
#[epilogue]
fn softmax(accum: Accum, sharp: DeviceScalar) -> (Tensor, ColumnVector) {
    let mut shift = reduction_op(accum, Row, Max);
    shift += if sharp > 0.0 { sharp } else { reduction_op(accum, All, Min) };
    let e = exp(accum - shift);
    let d = e / reduction_op(e, Row, Add);
    (d, shift)
}

#[test]
fn a_reduction_is_a_value() {
    same::<Softmax>("softmax", |builder, accum| {
        let sharp = builder.parameter("sharp", ParameterClass::DeviceScalar, None);
        let shift = builder.reduce(Reduction { op: ReduceOp::Max, ..COMPLETE_ROWS }, accum);
        builder.name(shift, "shift");
        let zero = builder.literal(0.0);
        let positive = builder.apply(Op::Gt, &[sharp, zero]);
        let least = builder.reduce(Reduction { axis: Axis::All, op: ReduceOp::Min, ..COMPLETE_ROWS }, accum);
        let chosen = builder.apply(Op::Select, &[positive, sharp, least]);
        let shift = builder.apply(Op::Add, &[shift, chosen]);
        builder.name(shift, "shift");
        let shifted = builder.apply(Op::Sub, &[accum, shift]);
        let e = builder.call(exp::function(), &[shifted]);
        builder.name(e, "e");
        let sum = builder.reduce(COMPLETE_ROWS, e);
        let d = builder.apply(Op::Div, &[e, sum]);
        builder.name(d, "d");
        builder.output("d", d, BroadcastClass::Tensor, None);
        builder.output("shift", shift, BroadcastClass::ColumnVector, None);
    });
}

#[test]
fn positions_are_those_of_the_source() {
    let tree = RowReduction::tree();
    assert_eq!(tree.file(), file!());
    let d = tree.nodes().iter().find(|node| node.name == Some("d")).expect("d");
    let reduction = tree.nodes().iter().find(|node| node.name == Some("reduction")).expect("reduction");
    // The `+` of d's line, and `reduction_op` on the next.
    assert_eq!((d.site.column, reduction.site.column), (27, 21));
    assert_eq!(reduction.site.line, d.site.line + 1);
    let lines: Vec<&str> = include_str!("mod.rs").lines().collect();
    assert!(lines[d.site.line as usize - 1].contains("let d = alpha * accum"));
}

#[test]
fn arguments_come_in_the_order_of_the_parameters() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let c = device.full::<f32>([2, 3], 1.0)?;
    let (mut d, mut reduction) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([2])?);
    let arguments = RowReduction { reduction: &mut reduction, alpha: 2.0, d: &mut d, beta: 0.5, c: &c }.arguments();
    let [Argument::Input(c), Argument::Scalar(alpha), Argument::Scalar(beta), Argument::Output(d), Argument::Output(r)] =
        &arguments[..]
    else {
        panic!("{arguments:?}");
    };
    assert_eq!((c.to_vec::<f32>()?, *alpha, *beta), (vec![1.0; 6], 2.0, 0.5));
    assert_eq!((d.shape(), r.shape()), (&[2, 3][..], &[2][..]));
    Ok(())
}

#[epilogue(name = Accumulate)]
fn in_place(
    accum: Accum,
    total: TensorMut<f16>,
    bias: RowVector<bf16>,
    scale: DeviceScalar,
) -> (TensorMut, Tensor<f32>) {
    total += scale * accum;
    let shifted = total - bias;
    (total, shifted)
}

#[test]
fn a_tensor_that_is_overwritten_is_one_argument() {
    same::<Accumulate>("in_place", |builder, accum| {
        let total = builder.parameter("total", ParameterClass::TensorMut, Some(ElementType::F16));
        let bias = builder.parameter("bias", ParameterClass::RowVector, Some(ElementType::BF16));
        let scale = builder.parameter("scale", ParameterClass::DeviceScalar, None);
        let product = builder.apply(Op::Mul, &[scale, accum]);
        let sum = builder.apply(Op::Add, &[total, product]);
        builder.name(sum, "total");
        let shifted = builder.apply(Op::Sub, &[sum, bias]);
        builder.name(shifted, "shifted");
        builder.output("total", sum, BroadcastClass::Tensor, Some(ElementType::F16));
        builder.output("shifted", shifted, BroadcastClass::Tensor, Some(ElementType::F32));
    });
    let tree = Accumulate::tree();
    assert_eq!(tree.outputs()[0].parameter.map(epilogue::evt::ParameterId::index), Some(0));
    assert_eq!(tree.outputs()[1].parameter, None);
}

mod scales {
    pub(super) const HALF: f32 = 0.5;
}
const THIRD: f32 = 1.0 / 3.0;

#[epilogue]
fn values(accum: Accum, c: Tensor) -> (Tensor, Tensor, Tensor) {
    let half = scales::HALF * accum + THIRD * c - THIRD;
    let bounded = half.max(0.1).min(std::f32::consts::PI);
    let rounded = (-bounded).cast::<bf16>();
    (half, bounded, rounded)
}

#[test]
fn constants_methods_and_casts() {
    same::<Values>("values", |builder, accum| {
        let c = builder.parameter("c", ParameterClass::Tensor, None);
        let scale = builder.literal(0.5);
        let left = builder.apply(Op::Mul, &[scale, accum]);
        let third = builder.literal(f64::from(1.0_f32 / 3.0));
        let right = builder.apply(Op::Mul, &[third, c]);
        let sum = builder.apply(Op::Add, &[left, right]);
        let third = builder.literal(f64::from(1.0_f32 / 3.0));
        let half = builder.apply(Op::Sub, &[sum, third]);
        builder.name(half, "half");
        let lowest = builder.literal(0.1);
        let bounded = builder.call(max::function(), &[half, lowest]);
        let highest = builder.literal(f64::from(std::f32::consts::PI));
        let bounded = builder.call(min::function(), &[bounded, highest]);
        builder.name(bounded, "bounded");
        let negative = builder.apply(Op::Neg, &[bounded]);
        let rounded = builder.cast(ElementType::BF16, negative);
        builder.name(rounded, "rounded");
        builder.output("half", half, BroadcastClass::Tensor, None);
        builder.output("bounded", bounded, BroadcastClass::Tensor, None);
        builder.output("rounded", rounded, BroadcastClass::Tensor, None);
    });
}

#[epilogue]
fn scopes(accum: Accum, c: Tensor) -> (Tensor, Tensor) {
    let x = accum;
    let x = x * 2.0;
    let mut total = x;
    total += {
        let x = c;
        total *= x;
        x
    };
    let chosen = if total > x {
        let x = x / 3.0;
        x
    } else if c != 0.0 {
        c
    } else {
        1.0
    };
    total = chosen - total;
    (total, chosen)
}

#[test]
fn shadowing_assignment_and_choice_mean_what_rust_means() {
    same::<Scopes>("scopes", |builder, accum| {
        let c = builder.parameter("c", ParameterClass::Tensor, None);
        let two = builder.literal(2.0);
        let x = builder.apply(Op::Mul, &[accum, two]);
        builder.name(x, "x");
        // The right-hand side of `+=` is evaluated first.
        let product = builder.apply(Op::Mul, &[x, c]);
        builder.name(product, "total");
        let total = builder.apply(Op::Add, &[product, c]);
        builder.name(total, "total");
        let greater = builder.apply(Op::Gt, &[total, x]);
        let three = builder.literal(3.0);
        let third = builder.apply(Op::Div, &[x, three]);
        builder.name(third, "x");
        let zero = builder.literal(0.0);
        let nonzero = builder.apply(Op::Ne, &[c, zero]);
        let one = builder.literal(1.0);
        let otherwise = builder.apply(Op::Select, &[nonzero, c, one]);
        let chosen = builder.apply(Op::Select, &[greater, third, otherwise]);
        builder.name(chosen, "chosen");
        let total = builder.apply(Op::Sub, &[chosen, total]);
        builder.name(total, "total");
        builder.output("total", total, BroadcastClass::Tensor, None);
        builder.output("chosen", chosen, BroadcastClass::Tensor, None);
    });
}

#[epilogue]
#[allow(non_snake_case)]
fn reductions(
    accum: Accum,
    v: ColumnVector,
) -> (Tensor, RowVector, DeviceScalar, ColumnVector<f16>, RowPartials, ColumnPartials, ColumnVector) {
    let columns = reduction_op(accum * v, Column, SumSquares);
    let all = reduction_op(accum, (All, Batch), AbsMax);
    let batched = reduction_op(accum, (Batch, Row), Min);
    let R = reduction_op(accum, Row, Mul, threadblock_shape.n);
    let C = reduction_op(accum, Column, Max, threadblock_shape.m);
    let w = 2.0 * v;
    (accum, columns, all, batched, R, C, w)
}

#[test]
fn every_form_of_reduction() {
    let reduction = |axis, batch, op, form| Reduction { axis, batch, op, form };
    same::<Reductions>("reductions", |builder, accum| {
        let v = builder.parameter("v", ParameterClass::ColumnVector, None);
        let product = builder.apply(Op::Mul, &[accum, v]);
        let columns = builder.reduce(reduction(Axis::Column, false, ReduceOp::SumSquares, Form::Complete), product);
        builder.name(columns, "columns");
        let all = builder.reduce(reduction(Axis::All, true, ReduceOp::AbsMax, Form::Complete), accum);
        builder.name(all, "all");
        let batched = builder.reduce(reduction(Axis::Row, true, ReduceOp::Min, Form::Complete), accum);
        builder.name(batched, "batched");
        let rows = builder.reduce(reduction(Axis::Row, false, ReduceOp::Mul, Form::Partial), accum);
        builder.name(rows, "R");
        let tiles = builder.reduce(reduction(Axis::Column, false, ReduceOp::Max, Form::Partial), accum);
        builder.name(tiles, "C");
        let two = builder.literal(2.0);
        let w = builder.apply(Op::Mul, &[two, v]);
        builder.name(w, "w");
        builder.output("accum", accum, BroadcastClass::Tensor, None);
        builder.output("columns", columns, BroadcastClass::RowVector, None);
        builder.output("all", all, BroadcastClass::Scalar, None);
        builder.output("batched", batched, BroadcastClass::ColumnVector, Some(ElementType::F16));
        builder.output("R", rows, BroadcastClass::ColumnVector, None);
        builder.output("C", tiles, BroadcastClass::RowVector, None);
        builder.output("w", w, BroadcastClass::ColumnVector, None);
    });
}

/// The sum of what is above 1 and how much that is, as tuples are written.
#[reducer]
mod above_one {
    use super::mine::squared_relu;

    const NOTHING: f32 = 0.0;
    const IDENTITY: (f32, f32) = (NOTHING, 0.0);

    /// The running result of one element.
    pub(super) fn lift(x: f32) -> (f32, f32) {
        let big = squared_relu(x) > 1.0;
        if big { (x, 1.0) } else { (0.0, 0.0) }
    }

    pub(super) fn combine(a: (f32, f32), (sum, mut count): (f32, f32)) -> (f32, f32) {
        count += a.1;
        let (p, q) = (sum, a.0);
        let (q, p) = (p, q);
        (p + q, count)
    }

    pub(super) fn finish(s: (f32, f32)) -> f32 {
        let s = if s.1 > 0.0 { s } else { (-1.0, 1.0) };
        s.0 / s.1
    }
}

#[epilogue]
fn of_own(accum: Accum) -> (ColumnVector, DeviceScalar) {
    let mean = reduction_op(accum, Row, above_one);
    let all = reduction_op(accum, (All, Batch), self::above_one);
    (mean, all)
}

#[test]
fn a_reducer_is_rust() {
    assert_eq!(above_one::reduce([0.5, 2.0, -3.0, 4.0]), 3.0);
    assert_eq!(above_one::reduce([]), -1.0);
    assert_eq!(above_one::combine((1.0, 2.0), (3.0, 5.0)), (4.0, 7.0));
    assert_eq!(above_one::finish(above_one::lift(7.0)), 7.0);
    let reducer = above_one::reducer();
    assert_eq!((reducer.name(), reducer.words(), reducer.identity()), ("above_one", 2, &[0.0, 0.0][..]));
    let names: Vec<&str> = reducer.combine().iter().map(epilogue::expr::Function::name).collect();
    assert_eq!(names, ["above_one_combine_0", "above_one_combine_1"]);
    same::<OfOwn>("of_own", |builder, accum| {
        let op = ReduceOp::User(reducer);
        let reduction = |axis, batch| Reduction { axis, batch, op, form: Form::Complete };
        let mean = builder.reduce(reduction(Axis::Row, false), accum);
        builder.name(mean, "mean");
        let all = builder.reduce(reduction(Axis::All, true), accum);
        builder.name(all, "all");
        builder.output("mean", mean, BroadcastClass::ColumnVector, None);
        builder.output("all", all, BroadcastClass::Scalar, None);
    });
}

mod mine {
    use epilogue::prelude::*;

    /// `max(x, 0)²`
    #[elementwise]
    pub(super) fn squared_relu(x: f32) -> f32 {
        let r = x.max(0.0);
        r * r
    }

    /// Two functions of the user's own, one calling the other, with a body for CUDA.
    #[elementwise(cuda = "return x > limit ? limit : x;")]
    pub(super) fn capped(x: f32, limit: f32) -> f32 {
        let mut y = squared_relu(x) * super::THIRD;
        y -= 1.0;
        if y > limit { limit } else { y }
    }
}

use mine::squared_relu as square;

#[epilogue]
fn operations(accum: Accum) -> Tensor {
    let d = mine::capped(square(accum), 6.0);
    d
}

#[test]
fn operations_of_the_users_own() {
    same::<Operations>("operations", |builder, accum| {
        let squared = builder.call(mine::squared_relu::function(), &[accum]);
        let six = builder.literal(6.0);
        let d = builder.call(mine::capped::function(), &[squared, six]);
        builder.name(d, "d");
        builder.output("d", d, BroadcastClass::Tensor, None);
    });
    assert_eq!((mine::squared_relu(3.0), mine::squared_relu(-3.0)), (9.0, 0.0));
    assert!(mine::squared_relu(f32::NAN).is_nan());
    assert_eq!((mine::capped(3.0, 1.5), mine::capped(3.0, 9.0)), (1.5, 2.0));
    let capped = mine::capped::function();
    assert_eq!((capped.name(), capped.parameters()), ("capped", &["x", "limit"][..]));
    assert_eq!(capped.cuda(), Some("return x > limit ? limit : x;"));
}

#[test]
fn operations_inside_a_function() {
    const SHIFT: f32 = 1.0;
    #[elementwise]
    fn shifted(x: f32) -> f32 {
        x + SHIFT
    }
    #[elementwise]
    fn twice(x: f32) -> f32 {
        shifted(shifted(x))
    }
    #[epilogue]
    fn local(accum: Accum) -> Tensor {
        let d = twice(accum) * SHIFT;
        d
    }
    assert_eq!(twice(1.0), 3.0);
    assert_eq!(Local::tree().nodes().len(), 4);
}

#[test]
fn literals_keep_their_precision() {
    #[epilogue]
    fn literals(accum: Accum) -> Tensor {
        let d = 0.1 * accum + 0.1f32 + 1e-3_f32 + 1_000.5;
        d
    }
    let tree = Literals::tree();
    let literals: Vec<f64> = tree
        .nodes()
        .iter()
        .filter_map(|node| match node.node {
            epilogue::evt::Node::Literal(value) => Some(value),
            _ => None,
        })
        .collect();
    assert_eq!(literals, [0.1, f64::from(0.1_f32), f64::from(1e-3_f32), 1000.5]);
}

#[test]
fn the_closure_form_has_setters() -> Result<(), Box<dyn std::error::Error>> {
    let value = epilogue::closure!(|accum, c: Tensor<f16>, alpha: Scalar, r#type: RowVector| {
        let d: Tensor<bf16> = alpha * accum + c + r#type;
        let sums = reduction_op(d, Row, Add);
        (d, sums)
    });
    fn tree<E: Epilogue>(_: &E) -> Tree {
        E::tree()
    }
    fn arguments<'a, E: Epilogue>(_: &E, arguments: E::Arguments<'a>) -> Vec<Argument<'a>> {
        arguments.arguments()
    }
    let device = Device::cpu();
    let (c, row) = (device.zeros::<f16>([2, 3])?, device.zeros::<f32>([3])?);
    let (mut d, mut sums) = (device.zeros::<bf16>([2, 3])?, device.zeros::<f32>([2])?);
    for alpha in [1.0, 2.0] {
        let arguments = arguments(&value, value.sums(&mut sums).alpha(alpha).d(&mut d).c(&c).r#type(&row));
        assert!(matches!(arguments[1], Argument::Scalar(given) if given == alpha));
        assert_eq!(arguments.len(), 5);
    }
    let tree = tree(&value);
    assert_eq!(tree.parameters()[2].name, "type");
    assert_eq!(tree.outputs()[0].element, DeclaredElement::Written(ElementType::BF16));
    assert_eq!(tree.outputs()[1].class, BroadcastClass::ColumnVector);
    Ok(())
}

#[test]
fn both_forms_stand_side_by_side() {
    use epilogue::closure;
    #[epilogue]
    fn doubled(accum: Accum) -> Tensor {
        let d = 2.0 * accum;
        d
    }
    let value = closure!(|accum| {
        let d = 2.0 * accum;
        d
    });
    fn nodes<E: Epilogue>(_: &E) -> usize {
        E::tree().nodes().len()
    }
    assert_eq!(nodes(&value), Doubled::tree().nodes().len());
}
