//! Every derivative against the difference of the reference's results in f64, in a random direction of everything that is
//! differentiated.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{Backward, DeriveError};
use crate::evt::random::{self, Choices, Profile};
use crate::evt::reference::{self, Argument, Array, Extent, Options, Product};
use crate::evt::{
    Axis, BroadcastClass, Composed, ComposedOp, DeclaredElement, Form, Mistake, NodeId, ParameterClass, Position,
    ReduceOp, Reduction, Tree, TreeBuilder, Types, ValidTree, ValueType,
};
use crate::expr::{Function, Op};
use crate::{ElementType, ops};

const EXTENT: Extent = Extent { m: 3, n: 4, l: 2 };
const F64: Types = Types::new(ElementType::F64, ElementType::F64);

/// From 0.2 to 1.7, where all operations are defined; half of them negative if `signed`.
fn numbers(random: &mut fastrand::Rng, count: usize, signed: bool) -> Vec<f64> {
    let one = |_| {
        let x = 0.2 + 1.5 * random.f64();
        if signed && random.bool() { -x } else { x }
    };
    (0..count).map(one).collect()
}

fn length(class: BroadcastClass) -> usize {
    let Extent { m, n, l } = EXTENT;
    l * match class {
        BroadcastClass::Scalar => 1,
        BroadcastClass::RowVector => n,
        BroadcastClass::ColumnVector => m,
        BroadcastClass::Tensor => m * n,
    }
}

/// The values that a tree is evaluated with, by name.
type Values = Vec<(&'static str, Vec<f64>)>;

fn of<'v>(values: &'v Values, name: &str) -> &'v [f64] {
    values.iter().find(|(known, _)| *known == name).map_or(&[], |(_, values)| values)
}

/// The outputs of a tree, by name.
fn evaluate(tree: &ValidTree, accumulators: &Values, values: &Values) -> Values {
    let products: Vec<Product> = tree
        .accumulators()
        .iter()
        .map(|name| {
            let given = of(accumulators, name);
            Product::exact(EXTENT, if given.is_empty() { vec![0.0; EXTENT.len()] } else { given.to_vec() })
        })
        .collect();
    let argument = |parameter: &crate::evt::ValidParameter| {
        let class = parameter.class.broadcast_class();
        match parameter.class {
            ParameterClass::Seed => Argument::Seed(11, 3),
            ParameterClass::Scalar => Argument::Scalar(of(values, parameter.name)[0]),
            _ => Argument::Array(Array::packed(of(values, parameter.name), class, EXTENT, true)),
        }
    };
    let arguments: Vec<Argument<'_>> = tree.parameters().iter().map(argument).collect();
    let outputs = reference::evaluate(tree, &products, &arguments, Options::default()).expect("complete arguments");
    outputs.into_iter().map(|output| (output.name, output.values)).collect()
}

fn product(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Each given gradient has the element type of its output, for every type of operands.
fn given_as_stored(forward: &Tree, backward: &Tree) -> Result<(), String> {
    for element in [ElementType::F32, ElementType::BF16, ElementType::F16, ElementType::F8E5M2, ElementType::I8] {
        let types = Types::new(element, element);
        let (Ok(forward), Ok(backward)) = (forward.validate(types), backward.validate(types)) else { continue };
        for output in forward.outputs() {
            let name = format!("d_{}", output.name);
            let given = backward.parameters().iter().find(|parameter| parameter.name == name);
            if let Some(given) = given.filter(|given| given.element != output.element) {
                return Err(format!("A is {element}: {name} is {}, the output {}", given.element, output.element));
            }
        }
    }
    Ok(())
}

/// Compares with differences; `Ok(false)` if there are none to compare with: at a kink, or beyond all bounds.
fn check(forward: &Tree, through: &str, signed: bool, seed: u64) -> Result<bool, String> {
    let valid = forward.validate(F64).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(seed);
    let is_number = |output: &crate::evt::ValidOutput| {
        let ty = valid.value(output.value).ty;
        matches!(ty, ValueType::Real(_))
            && !output.packed
            && output.reduction().is_none_or(|reduction| !reduction.op.gives_index())
    };
    let float = |parameter: &crate::evt::ValidParameter| {
        parameter.element.is_float() && !matches!(parameter.class, ParameterClass::Seed | ParameterClass::Bits)
    };
    // A host scalar is one number for all batches.
    let wanted: Vec<_> = valid.parameters().iter().filter(|p| float(p) && p.class != ParameterClass::Scalar).collect();
    let mut backward = Backward::of(forward, through);
    for output in valid.outputs().iter().filter(|output| is_number(output) && output.name != through) {
        backward = backward.given(output.name);
    }
    let mut led = Vec::new();
    for parameter in &wanted {
        // Not all of them have an influence.
        let with = backward.clone().gradient(parameter.name);
        match with.tree() {
            Ok(_) => {
                led.push(parameter.name);
                backward = with;
            }
            Err(DeriveError::NoInfluence { .. }) => {}
            Err(DeriveError::VectorSum { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let tree = match backward.tree() {
        Ok(tree) => tree,
        Err(DeriveError::Nothing { .. } | DeriveError::VectorSum { .. }) => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let derived = match tree.validate(F64) {
        Ok(derived) => derived,
        // It needs more reductions, one after another, than there may be, or one of what is a vector by then.
        Err(error)
            if matches!(
                error.mistake,
                Mistake::ReductionChain { .. } | Mistake::ComposedChain { .. } | Mistake::ReducedAgain { .. }
            ) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(format!("{error}\n{tree:#?}")),
    };
    given_as_stored(forward, &tree)?;

    let parameters: Values = valid
        .parameters()
        .iter()
        .map(|parameter| {
            let count =
                if parameter.class == ParameterClass::Scalar { 1 } else { length(parameter.class.broadcast_class()) };
            let values = numbers(&mut random, count, signed);
            let whole = |x: &f64| if parameter.element.is_float() { *x } else { (2.0 * x).round() };
            (parameter.name, values.iter().map(whole).collect())
        })
        .collect();
    let accumulators: Values =
        valid.accumulators().iter().map(|name| (*name, numbers(&mut random, EXTENT.len(), signed))).collect();
    let direction = |values: &Values, random: &mut fastrand::Rng, moves: &dyn Fn(&str) -> bool| -> Values {
        let one = |(name, values): &(&'static str, Vec<f64>)| {
            let along = numbers(random, values.len(), true);
            (*name, if moves(name) { along } else { vec![0.0; values.len()] })
        };
        values.iter().map(one).collect()
    };
    let of_parameters = direction(&parameters, &mut random, &|name| led.contains(&name));
    let of_accumulators = direction(&accumulators, &mut random, &|_| true);
    let along = |values: &Values, direction: &Values, h: f64| -> Values {
        let moved = |(x, v): (&f64, &f64)| x + h * v;
        values.iter().zip(direction).map(|((name, x), (_, v))| (*name, x.iter().zip(v).map(moved).collect())).collect()
    };
    let at =
        |h: f64| evaluate(&valid, &along(&accumulators, &of_accumulators, h), &along(&parameters, &of_parameters, h));
    let here = at(0.0);
    let weights: Values = here.iter().map(|(name, values)| (*name, numbers(&mut random, values.len(), true))).collect();
    let weighed = |outputs: &Values| -> f64 {
        let numbers = valid.outputs().iter().filter(|output| is_number(output));
        numbers.map(|output| product(of(outputs, output.name), of(&weights, output.name))).sum()
    };
    let difference = |h: f64| (weighed(&at(h)) - weighed(&at(-h))) / (2.0 * h);
    let (coarse, fine) = (difference(1e-5), difference(2.5e-6));
    let largest = here.iter().flat_map(|(_, values)| values).fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let near = |x: f64, y: f64| (x - y).abs() <= 1e-5 * (1.0 + x.abs() + y.abs());
    if !coarse.is_finite() || !near(coarse, fine) || largest > 1e4 || largest.is_nan() {
        return Ok(false);
    }

    let mut given = parameters.clone();
    given.extend(accumulators.clone());
    let gradients = derived.parameters().iter().filter_map(|parameter| {
        let of_output = parameter.name.strip_prefix("d_")?;
        let values = of(&weights, of_output);
        (!values.is_empty()).then(|| (parameter.name, values.to_vec()))
    });
    given.extend(gradients);
    let own: Values = vec![(derived.accumulators()[0], of(&weights, through).to_vec())];
    let results = evaluate(&derived, &own, &given);
    let mut slope = 0.0;
    for (name, gradient) in &results {
        let of_what = name.strip_prefix("d_").unwrap_or(name);
        let direction = [&of_accumulators, &of_parameters].map(|all| of(all, of_what));
        let along = if direction[0].is_empty() { direction[1] } else { direction[0] };
        assert_eq!(along.len(), gradient.len(), "{name}");
        slope += product(gradient, along);
    }
    // A derivative that is infinite where what it is multiplied by is 0: see the module's page.
    if slope.is_nan() {
        return Ok(false);
    }
    if (slope - fine).abs() <= 2e-4 * (1.0 + slope.abs() + fine.abs()) {
        return Ok(true);
    }
    Err(format!("the derivative is {slope}, the difference {fine} and {coarse}\n{valid}\n{derived}"))
}

/// A tree of an accumulator, and of a vector and a scalar.
fn tree(make: impl Fn(&mut TreeBuilder, NodeId, NodeId) -> NodeId) -> Tree {
    let mut b = TreeBuilder::new("forward", "forward.rs");
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let scale = b.parameter("scale", ParameterClass::DeviceScalar, None);
    let scaled = b.apply(Op::Mul, &[bias, scale]);
    let y = make(&mut b, accum, scaled);
    let nothing = b.literal(0.0);
    let nothing = b.apply(Op::Mul, &[accum, nothing]);
    let y = b.apply(Op::Add, &[y, nothing]);
    b.output("y", y, BroadcastClass::Tensor, None);
    b.finish()
}

fn holds(what: &str, tree: &Tree) {
    for (signed, seed) in [(false, 1), (false, 2), (true, 3)] {
        match check(tree, "y", signed, seed) {
            Ok(compared) => assert!(compared || signed, "{what}: nothing to compare with"),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

#[test]
fn every_operation() {
    for op in Op::ALL.into_iter().filter(|op| !op.is_comparison() && *op != Op::Select) {
        holds(
            op.symbol(),
            &tree(|b, accum, scaled| {
                let third = b.apply(Op::Add, &[accum, scaled]);
                b.apply(op, &[accum, scaled, third][..op.arity()])
            }),
        );
    }
    let chosen = tree(|b, accum, scaled| {
        let (square, less) = (b.apply(Op::Mul, &[accum, accum]), b.apply(Op::Lt, &[accum, scaled]));
        b.apply(Op::Select, &[less, square, scaled])
    });
    holds("select", &chosen);
}

#[test]
fn every_function() {
    let functions: [&'static Function; 24] = [
        ops::relu::function(),
        ops::sigmoid::function(),
        ops::silu::function(),
        ops::gelu::function(),
        ops::gelu_tanh::function(),
        ops::hardswish::function(),
        ops::softplus::function(),
        ops::square::function(),
        ops::leaky_relu::function(),
        ops::clamp::function(),
        // Slopes have slopes: what is made of others.
        ops::relu_grad::function(),
        ops::leaky_relu_grad::function(),
        ops::sigmoid_grad::function(),
        ops::tanh_grad::function(),
        ops::silu_grad::function(),
        ops::gelu_grad::function(),
        ops::gelu_tanh_grad::function(),
        ops::hardswish_grad::function(),
        ops::softplus_grad::function(),
        ops::exp_grad::function(),
        ops::erf_grad::function(),
        ops::sin_grad::function(),
        ops::cos_grad::function(),
        ops::abs_grad::function(),
    ];
    for function in functions {
        holds(
            function.name(),
            &tree(|b, accum, scaled| {
                let high = b.literal(1.1);
                let others = [scaled, high];
                let operands: Vec<NodeId> =
                    std::iter::once(accum).chain(others).take(function.parameters().len()).collect();
                b.call(function, &operands)
            }),
        );
    }
}

#[test]
fn every_reduction() {
    for axis in [Axis::Row, Axis::Column, Axis::All] {
        for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::AbsMax, ReduceOp::SumSquares] {
            holds(
                &format!("{axis:?} {op:?}"),
                &tree(|b, accum, scaled| {
                    let x = b.apply(Op::Mul, &[accum, scaled]);
                    let reduced = b.reduce(Reduction { axis, batch: false, op, form: Form::Complete }, x);
                    let squared = b.apply(Op::Mul, &[reduced, reduced]);
                    b.apply(Op::Mul, &[squared, accum])
                }),
            );
        }
        for op in [ComposedOp::Mean, ComposedOp::Variance, ComposedOp::LogSumExp] {
            holds(
                &format!("{axis:?} {op:?}"),
                &tree(|b, accum, scaled| {
                    let x = b.apply(Op::Add, &[accum, scaled]);
                    let reduced = b.compose(Composed { axis, batch: false, op }, x);
                    b.apply(Op::Mul, &[reduced, accum])
                }),
            );
        }
    }
}

/// Softmax, layer norm, and GELU with dropout and a residual.
#[test]
fn layers() {
    let softmax = tree(|b, accum, scaled| {
        let x = accum;
        let rows = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };
        let largest = b.reduce(rows(ReduceOp::Max), x);
        let below = b.apply(Op::Sub, &[x, largest]);
        let e = b.apply(Op::Exp, &[below]);
        let sum = b.reduce(rows(ReduceOp::Add), e);
        let parts = b.apply(Op::Div, &[e, sum]);
        b.apply(Op::Add, &[parts, scaled])
    });
    holds("softmax", &softmax);
    let norm = tree(|b, accum, scaled| {
        let composed = |op| Composed { axis: Axis::Row, batch: false, op };
        let (mean, variance) =
            (b.compose(composed(ComposedOp::Mean), accum), b.compose(composed(ComposedOp::Variance), accum));
        let (from, eps) = (b.apply(Op::Sub, &[accum, mean]), b.literal(1e-5));
        let raised = b.apply(Op::Add, &[variance, eps]);
        let factor = b.apply(Op::Rsqrt, &[raised]);
        let normal = b.apply(Op::Mul, &[from, factor]);
        b.apply(Op::Mul, &[normal, scaled])
    });
    holds("layer norm", &norm);
    let dropout = tree(|b, accum, scaled| {
        let seed = b.parameter("seed", ParameterClass::Seed, None);
        let residual = b.parameter("residual", ParameterClass::Tensor, None);
        let z = b.apply(Op::Add, &[accum, scaled]);
        let (active, u) = (b.call(ops::gelu::function(), &[z]), b.random(seed, 1));
        let (p, zero) = (b.literal(0.3), b.literal(0.0));
        let keep = b.apply(Op::Ge, &[u, p]);
        let kept = b.apply(Op::Select, &[keep, active, zero]);
        let column = b.position(Position::Column);
        let column = b.real(column);
        let weighed = b.apply(Op::Mul, &[kept, column]);
        b.apply(Op::Add, &[weighed, residual])
    });
    holds("dropout", &dropout);
}

#[test]
fn random_trees() {
    let cases = epilogue_runtime::testing::cases(600);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let compared = Cell::new(0);
    let strategy = (prop::collection::vec(any::<u32>(), 0..120), any::<u64>(), any::<bool>());
    let result = TestRunner::new(config).run(&strategy, |(choices, seed, signed)| {
        let profile = Profile {
            phases: choices.len() % 3 == 2,
            partials: false,
            batch: false,
            chance: true,
            elements: &[ElementType::F64],
            ..Profile::default()
        };
        let tree = random::tree(&mut Choices::new(&choices), profile);
        let valid = tree.validate(F64).expect("a valid tree");
        let through = valid.outputs().iter().find(|output| {
            output.class == BroadcastClass::Tensor
                && output.reduction().is_none()
                && matches!(valid.value(output.value).ty, ValueType::Real(_))
        });
        let Some(through) = through else { return Ok(()) };
        match check(&tree, through.name, signed, seed) {
            Ok(with_differences) => compared.set(compared.get() + u32::from(with_differences)),
            Err(error) if error.contains("is a `TensorMut`") || error.contains("has no derivative here") => {}
            Err(error) => return Err(TestCaseError::fail(error)),
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(compared.get() >= cases / 20, "only {} of {cases} could be compared", compared.get());
}

/// Only a needed value is a parameter.
#[test]
fn what_is_saved_is_not_computed_again() {
    let mut b = TreeBuilder::new("forward", "forward.rs");
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let z = b.apply(Op::Add, &[accum, bias]);
    let zero = b.literal(0.0);
    let keep = b.apply(Op::Gt, &[z, zero]);
    let y = b.apply(Op::Select, &[keep, z, zero]);
    b.output("y", y, BroadcastClass::Tensor, None);
    b.output("z", z, BroadcastClass::Tensor, Some(ElementType::F16));
    b.output_bits("keep", keep);
    let forward = b.finish();
    let parameters = |backward: Backward<'_>| -> Vec<_> {
        let tree = backward.tree().expect("a derivative");
        assert!(tree.validate(F64).is_ok());
        tree.parameters().iter().map(|p| (p.name, p.class, p.element)).collect()
    };
    let (tensor, unwritten) = (ParameterClass::Tensor, DeclaredElement::Unwritten);
    let all = Backward::of(&forward, "y").gradient_of_all("bias");
    assert_eq!(parameters(all.clone()), [("accum", tensor, unwritten), ("bias", ParameterClass::RowVector, unwritten)]);
    assert_eq!(parameters(all.clone().saved("z")), [("z", tensor, DeclaredElement::Written(ElementType::F16))]);
    assert_eq!(parameters(all.saved("keep")), [("keep", ParameterClass::Bits, unwritten)]);
    assert!(parameters(Backward::of(&forward, "z")).is_empty());
}

#[test]
fn what_has_no_derivative_is_refused() {
    let mut b = TreeBuilder::new("forward", "forward.rs");
    let accum = b.accum("accum");
    let unused = b.parameter("unused", ParameterClass::RowVector, None);
    let _ = b.apply(Op::Exp, &[unused]);
    b.parameter("seed", ParameterClass::Seed, None);
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let y = b.apply(Op::Mul, &[accum, c]);
    let product = b.reduce(Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Mul, form: Form::Complete }, y);
    b.output("y", y, BroadcastClass::Tensor, None);
    b.output("product", product, BroadcastClass::ColumnVector, None);
    let forward = b.finish();
    let refused = |backward: Backward<'_>| backward.tree().expect_err("no derivative").to_string();
    let of = || Backward::of(&forward, "y");
    for (error, expected) in [
        (refused(Backward::of(&forward, "x")), "there is no output `x`; `forward` returns y, product"),
        (
            refused(Backward::of(&forward, "product")),
            "`product` is not an M×N number: an accumulator is the gradient of one",
        ),
        (refused(of().gradient("d")), "there is no parameter `d`; `forward` has unused, seed, c"),
        (refused(of().gradient("seed")), "`seed` is a `Seed`, of which there is no gradient: leave it out"),
        (
            refused(of().gradient("unused")),
            "nothing that `unused` changes has a gradient: no derivative leads from the outputs with one to `unused`",
        ),
        (refused(of().gradient("c").gradient("c")), "`c` is named twice: leave one out"),
        (
            refused(of().gradient_of_all("c")),
            "`c` is M×N, and nothing is summed over the batch alone: take a gradient for each batch, and add them up",
        ),
        (
            refused(of().given("product")),
            "`reduction_op(…, Row, Mul)` has no derivative here: of positive values use `exp(reduction_op(log(x), …, Add))`",
        ),
        (
            refused(of().saved("product")),
            "`product` is neither M×N numbers nor truth values: others are computed again: leave it out",
        ),
    ] {
        assert_eq!(error, expected);
    }
}

/// The parameters that might be needed are there, in their order, whether they are or not.
#[test]
fn all_parameters_in_their_order() {
    let mut b = TreeBuilder::new("forward", "forward.rs");
    let accum = b.accum("accum");
    let residual = b.parameter("residual", ParameterClass::Tensor, None);
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let z = b.apply(Op::Add, &[accum, bias]);
    let activated = b.call(ops::gelu::function(), &[z]);
    let y = b.apply(Op::Add, &[activated, residual]);
    let energy = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let energy = b.reduce(energy, z);
    b.output("y", y, BroadcastClass::Tensor, None);
    b.output("z", z, BroadcastClass::Tensor, None);
    b.output("energy", energy, BroadcastClass::ColumnVector, None);
    let forward = b.finish();

    let backward = Backward::of(&forward, "y").given("energy").gradient("bias").all_parameters();
    let tree = backward.clone().saved("z").tree().expect("a derivative");
    let names: Vec<&str> = tree.parameters().iter().map(|parameter| parameter.name).collect();
    assert_eq!(names, ["residual", "bias", "z", "d_energy"]);
    let valid = tree.validate(F64).expect("a valid tree");
    let read = valid.parameters().iter().map(|parameter| parameter.value.is_some()).collect::<Vec<_>>();
    assert_eq!(read, [false, false, true, true]);
    let outputs: Vec<&str> = tree.outputs().iter().map(|output| output.name).collect();
    assert_eq!(outputs, ["d_accum", "d_bias"]);

    assert_eq!(backward.tree(), Err(DeriveError::Accumulator { name: "accum" }));
    let place = crate::evt::Site { line: 7, column: 3 };
    let error = Backward::of(&forward, "x").tree_or_refusal(place).validate(F64).expect_err("there is no x");
    assert_eq!(
        error.to_string(),
        "forward.rs:7:3: in the epilogue `forward_backward`: there is no output `x`; `forward` \
                                   returns y, z, energy"
    );
}
