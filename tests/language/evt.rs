//! Properties of validation, the reference and the drawings over random trees.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::reference::{self, Argument, Array, Extent, Options, Product};
use epilogue::evt::{
    BroadcastClass, DeclaredElement, Node, NodeId, OutputKind, ParameterClass, Position, Tree, TreeBuilder, Types,
    ValidTree, ValueKind,
};
use epilogue::expr::{Body, ExprNode, Function, Logic, Op};
use epilogue::gemm::Builder;
use epilogue::{Arch, Device, ElementType, ops};
use epilogue_runtime::testing;
use proptest::prelude::*;

const EXTENT: Extent = Extent { m: 3, n: 4, l: 2 };

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig::with_cases(testing::cases(cases))
}

fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..160)
}

fn types() -> impl Strategy<Value = Types> {
    prop::sample::select(vec![
        ElementType::F32,
        ElementType::F16,
        ElementType::BF16,
        ElementType::F64,
        ElementType::F8E4M3,
        ElementType::I8,
    ])
    .prop_map(|element| Types::new(element, element))
}

/// Every parameter's values, by parameter.
fn arguments(tree: &ValidTree, choices: &mut Choices<'_>) -> Vec<Vec<f64>> {
    let values = |p: &epilogue::evt::ValidParameter| match p.class {
        ParameterClass::Scalar => vec![choices.pick(&[1.0, -0.5, 2.0, 0.1, 3.0])],
        _ => random::values(choices, p.element, EXTENT.len()),
    };
    tree.parameters().iter().map(values).collect()
}

/// A product for every accumulator.
fn products(tree: &ValidTree, choices: &mut Choices<'_>) -> Vec<Product> {
    let product = |_| Product::exact(EXTENT, random::values(choices, ElementType::F32, EXTENT.len()));
    tree.accumulators().iter().map(product).collect()
}

fn as_arguments<'a>(tree: &ValidTree, values: &'a [Vec<f64>]) -> Vec<Argument<'a>> {
    let argument = |(p, values): (&epilogue::evt::ValidParameter, &'a Vec<f64>)| match p.class {
        ParameterClass::Scalar => Argument::Scalar(values[0]),
        _ => Argument::Array(Array::packed(values, p.class.broadcast_class(), EXTENT, true)),
    };
    tree.parameters().iter().zip(values).map(argument).collect()
}

/// f32 arithmetic, operation by operation, as the user's Rust would do it: nothing folded, merged or skipped.
mod direct {
    use super::*;

    fn op(op: Op, x: &[f32]) -> f32 {
        let truth = |b: bool| f32::from(u8::from(b));
        match (op, x) {
            (Op::Neg, [x]) => -x,
            (Op::Abs, [x]) => x.abs(),
            (Op::Exp, [x]) => ops::exp(*x),
            (Op::Exp2, [x]) => ops::exp2(*x),
            (Op::Log, [x]) => ops::log(*x),
            (Op::Log2, [x]) => ops::log2(*x),
            (Op::Log1p, [x]) => ops::log1p(*x),
            (Op::Sqrt, [x]) => x.sqrt(),
            (Op::Rsqrt, [x]) => ops::rsqrt(*x),
            (Op::Recip, [x]) => 1.0 / x,
            (Op::Tanh, [x]) => ops::tanh(*x),
            (Op::Erf, [x]) => ops::erf(*x),
            (Op::Sin, [x]) => ops::sin(*x),
            (Op::Cos, [x]) => ops::cos(*x),
            (Op::Floor, [x]) => x.floor(),
            (Op::Ceil, [x]) => x.ceil(),
            (Op::Round, [x]) => x.round(),
            (Op::Add, [x, y]) => x + y,
            (Op::Sub, [x, y]) => x - y,
            (Op::Mul, [x, y]) => x * y,
            (Op::Div, [x, y]) => x / y,
            (Op::Min, [x, y]) => ops::min(*x, *y),
            (Op::Max, [x, y]) => ops::max(*x, *y),
            (Op::Pow, [x, y]) => ops::pow(*x, *y),
            (Op::Lt, [x, y]) => truth(x < y),
            (Op::Le, [x, y]) => truth(x <= y),
            (Op::Gt, [x, y]) => truth(x > y),
            (Op::Ge, [x, y]) => truth(x >= y),
            (Op::Eq, [x, y]) => truth(x == y),
            (Op::Ne, [x, y]) => truth(x != y),
            (Op::Fma, [x, y, z]) => ops::fma(*x, *y, *z),
            (Op::Select, [c, x, y]) => {
                if *c != 0.0 {
                    *x
                } else {
                    *y
                }
            }
            _ => unreachable!("{op:?} of {} operands", x.len()),
        }
    }

    fn cast(to: ElementType, x: f32) -> f32 {
        reference::round(to, x.into()) as f32
    }

    fn call(function: &Function, x: &[f32]) -> f32 {
        match function.body() {
            Body::Primitive(o) => op(*o, x),
            Body::Expression(e) => {
                let mut values: Vec<f32> = Vec::new();
                for node in e.nodes() {
                    let operands: Vec<f32> = node.operands().iter().map(|o| values[o.index()]).collect();
                    values.push(match node {
                        ExprNode::Parameter(p) => x[*p],
                        ExprNode::Literal(x) => *x as f32,
                        ExprNode::Apply(o, _) => op(*o, &operands),
                        ExprNode::Call(f, _) => call(f, &operands),
                        ExprNode::Cast(to, _) => cast(*to, operands[0]),
                    });
                }
                values[e.root().index()]
            }
        }
    }

    /// A value, as in Rust.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Plain {
        Number(f32),
        Integer(i64),
        Truth(bool),
    }

    impl Plain {
        pub(crate) fn as_f64(self) -> f64 {
            match self {
                Self::Number(x) => x.into(),
                Self::Integer(x) => x as f64,
                Self::Truth(x) => u8::from(x).into(),
            }
        }

        fn number(self) -> f32 {
            match self {
                Self::Number(x) => x,
                Self::Truth(x) => u8::from(x).into(),
                Self::Integer(_) => unreachable!("an integer where a number is"),
            }
        }

        fn integer(self) -> i64 {
            match self {
                Self::Integer(x) => x,
                Self::Number(_) | Self::Truth(_) => unreachable!("{self:?} where an integer is"),
            }
        }

        fn truth(self) -> bool {
            self.number() != 0.0
        }
    }

    fn apply(o: Op, x: &[Plain]) -> Plain {
        if let (Op::Select, [c, x, y]) = (o, x) {
            return if c.truth() { *x } else { *y };
        }
        let Plain::Integer(first) = x[0] else {
            let result = op(o, &x.iter().map(|x| x.number()).collect::<Vec<_>>());
            return if o.is_comparison() { Plain::Truth(result != 0.0) } else { Plain::Number(result) };
        };
        let second = x.get(1).map_or(0, |x| x.integer());
        match o {
            Op::Neg => Plain::Integer(first.wrapping_neg()),
            Op::Add => Plain::Integer(first.wrapping_add(second)),
            Op::Sub => Plain::Integer(first.wrapping_sub(second)),
            Op::Mul => Plain::Integer(first.wrapping_mul(second)),
            Op::Min => Plain::Integer(first.min(second)),
            Op::Max => Plain::Integer(first.max(second)),
            Op::Lt => Plain::Truth(first < second),
            Op::Le => Plain::Truth(first <= second),
            Op::Gt => Plain::Truth(first > second),
            Op::Ge => Plain::Truth(first >= second),
            Op::Eq => Plain::Truth(first == second),
            Op::Ne => Plain::Truth(first != second),
            _ => unreachable!("{o:?} of integers"),
        }
    }

    /// The value of every node for one element; for a reduction, its operand's value.
    pub(crate) fn element(
        tree: &Tree,
        accums: &[f64],
        arguments: &[Argument<'_>],
        [l, m, n]: [usize; 3],
    ) -> Vec<Plain> {
        let mut values: Vec<Plain> = Vec::new();
        let in_memory = |p: &epilogue::evt::ParameterId| match &arguments[p.index()] {
            Argument::Scalar(x) => *x,
            Argument::Seed(..) => unreachable!("a profile without chance"),
            Argument::Array(a) => {
                let place: isize = [l, m, n].iter().zip(a.strides).map(|(i, stride)| *i as isize * stride).sum();
                a.values[a.offset + place as usize]
            }
        };
        for data in tree.nodes() {
            let operands: Vec<Plain> = data.node.operands().iter().map(|o| values[o.index()]).collect();
            let numbers = || operands.iter().map(|x| x.number()).collect::<Vec<f32>>();
            values.push(match &data.node {
                Node::Accum(i) => Plain::Number(accums[*i] as f32),
                Node::Load(p) | Node::Broadcast(p) => {
                    if tree.parameters()[p.index()].element == DeclaredElement::Written(ElementType::Bool) {
                        Plain::Truth(in_memory(p) != 0.0)
                    } else {
                        Plain::Number(in_memory(p) as f32)
                    }
                }
                Node::Literal(x) => Plain::Number(*x as f32),
                Node::Integer(x) => Plain::Integer(*x),
                Node::Position(position) => Plain::Integer(match position {
                    Position::Row => m as i64,
                    Position::Column => n as i64,
                    Position::Batch => l as i64,
                    Position::Rows => EXTENT.m as i64,
                    Position::Columns => EXTENT.n as i64,
                }),
                Node::Random(..) => unreachable!("a profile without chance"),
                Node::Apply(o, _) => apply(*o, &operands),
                Node::Logic(Logic::And, _) => Plain::Truth(operands[0].truth() & operands[1].truth()),
                Node::Logic(Logic::Or, _) => Plain::Truth(operands[0].truth() | operands[1].truth()),
                Node::Logic(Logic::Not, _) => Plain::Truth(!operands[0].truth()),
                Node::ToInteger(x) => match &tree.nodes()[x.index()].node {
                    Node::Load(p) | Node::Broadcast(p) => Plain::Integer(in_memory(p) as i64),
                    _ => unreachable!("`integer` of a value"),
                },
                Node::ToReal(_) => Plain::Number(operands[0].integer() as f32),
                Node::Call(f, _) => Plain::Number(call(f, &numbers())),
                Node::Cast(to, _) => Plain::Number(cast(*to, operands[0].number())),
                Node::Reduce(..) | Node::Composed(..) => operands[0],
            });
        }
        values
    }
}

proptest! {
    #![proptest_config(config(1500))]

    /// The guarantees of validation.
    #[test]
    fn random_trees_are_valid(choices in choices(), types in types()) {
        let profile = Profile { phases: choices.len() % 2 == 1, chance: true, bits: true, ..Profile::default() };
        let tree = random::tree(&mut Choices::new(&choices), profile);
        let valid = tree.validate(types).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut names = HashSet::new();
        let mut used = vec![0; valid.values().len()];
        for (id, value) in valid.enumerate() {
            prop_assert!(names.insert(&value.name), "two values named {}", value.name);
            prop_assert!(!value.name.contains("__") && !value.name.starts_with('_'));
            for operand in value.kind.operands() {
                prop_assert!(operand < id);
                used[operand.index()] += 1;
            }
        }
        for output in valid.outputs() {
            used[output.value.index()] += 1;
        }
        for (value, used) in valid.values().iter().zip(used) {
            prop_assert_eq!(value.uses, used);
            prop_assert!(used > 0, "{} is not used", value.name);
        }
        // Once simplified there is nothing more to merge: kinds are all different.
        let kinds: Vec<&ValueKind> = valid.values().iter().map(|v| &v.kind).collect();
        for (i, kind) in kinds.iter().enumerate() {
            let same = |other: &&ValueKind| match (kind, other) {
                (ValueKind::Literal(x), ValueKind::Literal(y)) => x.to_bits() == y.to_bits(),
                _ => kind == other,
            };
            prop_assert!(!kinds[..i].iter().any(same), "{kind:?} twice");
        }
    }

    /// Plain f32 arithmetic on the tree as written lies within the bounds of the simplified one.
    #[test]
    fn the_reference_agrees_with_plain_f32(numbers in choices(), data in choices()) {
        let profile = Profile { reductions: false, ..Profile::default() };
        let tree = random::tree(&mut Choices::new(&numbers), profile);
        let valid = tree.validate(Types::new(ElementType::F32, ElementType::F32)).expect("valid");
        let mut data = Choices::new(&data);
        let values = arguments(&valid, &mut data);
        let arguments = as_arguments(&valid, &values);
        let products = products(&valid, &mut data);
        let outputs = reference::evaluate(&valid, &products, &arguments, Options::default()).expect("complete");
        for place in 0..EXTENT.len() {
            let accums: Vec<f64> = products.iter().map(|product| product.values[place]).collect();
            let index = [place / (EXTENT.m * EXTENT.n), place / EXTENT.n % EXTENT.m, place % EXTENT.n];
            let nodes = direct::element(&tree, &accums, &arguments, index);
            for ((output, written), valid) in outputs.iter().zip(tree.outputs()).zip(valid.outputs()) {
                prop_assert_eq!(valid.kind, OutputKind::Store);
                let result = reference::round(valid.element, nodes[written.node.index()].as_f64());
                let place = match output.shape.len() {
                    3 => place,
                    1 => index[0],
                    _ if valid.class == BroadcastClass::RowVector => index[0] * EXTENT.n + index[2],
                    _ => index[0] * EXTENT.m + index[1],
                };
                let bounds = output.bounds[place];
                prop_assert!(
                    bounds.admit(result),
                    "{}: f32 gives {result:e}, exact is {:e}, allowed {bounds:?}", output.name, output.values[place]
                );
                prop_assert!(bounds.admit(output.values[place]), "the exact value is out of its bounds: {bounds:?}");
            }
        }
    }
}

/// Every mistake with integers and truth values, with its message.
#[test]
fn wrong_types_are_refused() {
    type Build = fn(&mut TreeBuilder, [NodeId; 5]) -> (NodeId, BroadcastClass, Option<ElementType>);
    use BroadcastClass::{ColumnVector, Tensor};
    let cases: [(Build, &str); 14] = [
        (
            |b, [accum, .., row]| (b.apply(Op::Add, &[accum, row]), Tensor, None),
            "`row()` is an integer and `accum` a number; write `real(…)` of the integer, or `integer(…)` of a parameter \
             that holds integers",
        ),
        (
            |b, [.., row]| (b.apply(Op::Tanh, &[row]), ColumnVector, None),
            "`tanh` takes numbers, and `row()` is an integer; write `real(…)` of it",
        ),
        (
            |b, [.., row]| (b.call(ops::gelu::function(), &[row]), ColumnVector, None),
            "`gelu` takes numbers, and `row()` is an integer; write `real(…)` of it",
        ),
        (
            |b, [.., row]| (b.cast(ElementType::F16, row), ColumnVector, None),
            "`cast` takes numbers, and `row()` is an integer; write `real(…)` of it",
        ),
        (
            |b, [accum, ..]| (b.cast(ElementType::Bool, accum), Tensor, None),
            "`cast` rounds numbers, and bool is not a type of numbers; of `accum`, a comparison such as `x != 0.0` is the truth \
             value",
        ),
        (
            |b, [accum, _, mask, ..]| (b.apply(Op::Mul, &[mask, accum]), Tensor, None),
            "`mask` is a truth value where a number is needed; write `if … { 1.0 } else { 0.0 }` with it as the condition",
        ),
        (
            |b, [accum, _, mask, ..]| (b.logic(Logic::And, &[mask, accum]), Tensor, None),
            "`&&` combines truth values, and `accum` is none; compare it with something, as in `x > 0.0`",
        ),
        (
            |b, [_, half, ..]| (b.integer(half), Tensor, None),
            "`integer` reads exact integers, but `half` is f16 here; declare it of i64, i32, i8, u8 or bool",
        ),
        (
            |b, [.., alpha, _]| (b.integer(alpha), BroadcastClass::Scalar, None),
            "`integer` reads exact integers, but `alpha` is a `Scalar`, f32 here; declare a `DeviceScalar` of i64, i32, i8, \
             u8 or bool",
        ),
        (
            |b, [accum, ..]| (b.integer(accum), Tensor, None),
            "`integer` reads a parameter that holds integers, and `accum` is computed; `floor`, `ceil` and `round` give \
             whole numbers",
        ),
        (
            |b, [accum, ..]| (b.real(accum), Tensor, None),
            "`real` makes a number of an integer, and `accum` is a number already; leave `real` out",
        ),
        (
            |_, [_, _, mask, ..]| (mask, Tensor, Some(ElementType::F16)),
            "`d` is a truth value and is returned as f16; declare it bool, or return `if d { 1.0 } else { 0.0 }`",
        ),
        (
            |_, [.., row]| (row, ColumnVector, Some(ElementType::Bool)),
            "`d` is an integer and is returned as bool; declare it i64, i32, i8 or u8, or return `real(d)`",
        ),
        (
            |_, [accum, ..]| (accum, Tensor, Some(ElementType::Bool)),
            "`d` is a number and is returned as bool; return a comparison such as `d != 0.0`",
        ),
    ];
    for (build, expected) in cases {
        let mut b = TreeBuilder::new("e", "e.rs");
        let values = [
            b.accum("accum"),
            b.parameter("half", ParameterClass::Tensor, Some(ElementType::F16)),
            b.parameter("mask", ParameterClass::Tensor, Some(ElementType::Bool)),
            b.parameter("alpha", ParameterClass::Scalar, None),
            b.position(Position::Row),
        ];
        let (d, class, element) = build(&mut b, values);
        b.output("d", d, class, element);
        let error = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).unwrap_err();
        assert_eq!(error.mistake.to_string(), expected);
    }
}

/// Bounds that allow everything would be worthless: over the random trees most are a few ULP wide.
#[test]
fn most_bounds_are_narrow() {
    let (mut narrow, mut all, mut anything) = (0, 0, 0);
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ (state >> 16)
    };
    for _ in 0..300 {
        let numbers: Vec<u32> = (0..160).map(|_| next()).collect();
        let data: Vec<u32> = (0..160).map(|_| next()).collect();
        let tree = random::tree(&mut Choices::new(&numbers), Profile::default());
        let valid = tree.validate(Types::new(ElementType::F32, ElementType::F32)).expect("valid");
        let mut data = Choices::new(&data);
        let values = arguments(&valid, &mut data);
        let products = products(&valid, &mut data);
        let options = Options { tile: Some((2, 2)), ..Options::default() };
        let outputs =
            reference::evaluate(&valid, &products, &as_arguments(&valid, &values), options).expect("complete");
        for (bounds, value) in outputs.iter().flat_map(|o| o.bounds.iter().zip(&o.values)) {
            all += 1;
            let width = bounds.high - bounds.low;
            let tight = !bounds.nan && (width <= 1e-3 * value.abs() || width == 0.0 || bounds.low == bounds.high);
            let only_nan = bounds.nan && bounds.low > bounds.high;
            narrow += usize::from(tight || only_nan);
            anything += usize::from(bounds.nan && width == f64::INFINITY);
        }
    }
    assert!(narrow * 10 > all * 7, "{narrow} of {all} are narrow, {anything} allow anything");
}

/// Tags that are opened and closed in order, quotes that are closed, and no bare `&`.
fn is_well_formed(svg: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        if text.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "").replace("&quot;", "").contains(['&', '>'])
        {
            return Err(format!("bare character in {text:?}"));
        }
        let end = tag.find('>').ok_or("a tag that doesn't end")?;
        let inside = &tag[1..end];
        if inside.matches('"').count() % 2 != 0 || inside.contains('<') {
            return Err(format!("quotes in <{inside}>"));
        }
        let name = inside.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if inside.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
        } else if !inside.ends_with('/') {
            open.push(name);
        }
        rest = &tag[end + 1..];
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} not closed")) }
}

proptest! {
    #![proptest_config(config(300))]

    /// Drawings of any tree are valid documents, contain every name, and show no malformed numbers.
    #[test]
    fn drawings_are_well_formed(numbers in choices(), types in types()) {
        let tree = random::tree(&mut Choices::new(&numbers), Profile { operations: 30, ..Profile::default() });
        let valid = tree.validate(types).expect("valid");
        let (svg, dot, text) = (valid.to_svg(), valid.to_dot(), valid.to_string());
        if let Err(fault) = is_well_formed(&svg) {
            prop_assert!(false, "{fault} in {svg}");
        }
        // A literal may be NaN or infinite, a place may not.
        let mut tags = svg.split('<').map(|part| part.split('>').next().unwrap_or(part));
        prop_assert!(!tags.any(|tag| tag.contains("NaN") || tag.contains("inf")), "{svg}");
        let whole = dot.starts_with("digraph") && dot.trim_end().ends_with(char::from(b'}'));
        prop_assert!(whole, "{dot}");
        prop_assert_eq!(dot.matches('{').count(), dot.matches('}').count());
        for output in valid.outputs() {
            prop_assert!(svg.contains(output.name) && dot.contains(output.name) && text.contains(output.name));
        }
    }
}

/// `x = x op x`, or `x = x op y` with another number each time, `count` times.
fn chained(count: u32, op: Op, shared: bool) -> Tree {
    let mut b = TreeBuilder::new("e", "a.rs");
    let accum = b.accum("accum");
    let root = (0..count).fold(accum, |x, step| {
        let other = if shared { x } else { b.literal(f64::from(step % 7) + 0.5) };
        b.apply(op, &[x, other])
    });
    b.output("d", root, BroadcastClass::Tensor, None);
    b.finish()
}

/// Plans and runs on the CPU with the stack that the guide's page of services asks for; validates, draws and emits for sm_80
/// on a thread of 2 MiB.
fn everything(tree: &Tree) -> Vec<f64> {
    let run = || {
        let cpu = Device::cpu();
        let a = cpu.tensor(&[1f32; 4], [2, 2]).unwrap();
        let b = cpu.tensor(&[0.5f32; 4], [2, 2]).unwrap();
        let mut d = cpu.full::<f32>([2, 2], f32::NAN).unwrap();
        let gemm = Builder::<()>::new(&cpu, tree.clone()).operands(&a, &b).unwrap().plan().unwrap();
        gemm.run_arguments(&cpu.default_stream(), &a, &b, &[(&mut d).into()]).unwrap();
        d.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    };
    let emit = || {
        let f32s = Types::new(ElementType::F32, ElementType::F32);
        let valid = tree.validate(f32s).unwrap();
        assert!(valid.to_string().len() < 1 << 22);
        if testing::compiler("large_trees").is_some() {
            let device = Device::emulated(Arch::SM_80).unwrap();
            let builder = Builder::<()>::new(&device, tree.clone()).problem(64, 64, 64);
            let gemm = builder.elements(ElementType::F32, ElementType::F32).plan().unwrap();
            assert!(gemm.source().len() < 1 << 22);
        }
    };
    std::thread::scope(|scope| {
        let thread = |stack: usize| std::thread::Builder::new().stack_size(stack);
        thread(2 << 20).spawn_scoped(scope, emit).unwrap().join().unwrap();
        thread(1 << 20).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

#[test]
fn shared_values_and_long_chains() {
    // Products of a value with itself: 2^40 leaves.
    assert_eq!(everything(&chained(40, Op::Mul, true)), [1.0; 4]);
    assert_eq!(everything(&chained(40, Op::Add, true)), [40f64.exp2(); 4]);
    let sum: f64 = (0..10_000).map(|step| f64::from(step % 7) + 0.5).sum();
    assert_eq!(everything(&chained(10_000, Op::Add, false)), [1.0 + sum; 4]);
    assert_eq!(everything(&chained(1000, Op::Max, false)), [6.5; 4]);
}

/// Seeds are no values, random numbers are of seeds alone, and a seed's type is not chosen.
#[test]
fn seeds_are_no_values() {
    type Build = fn(&mut TreeBuilder, NodeId, NodeId) -> NodeId;
    let check = |element: Option<ElementType>, build: Build| {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let seed = b.parameter("seed", ParameterClass::Seed, element);
        let d = build(&mut b, accum, seed);
        b.output("d", d, BroadcastClass::Tensor, None);
        let valid = b.finish().validate(Types::new(ElementType::F16, ElementType::F16));
        valid.map(|tree| tree.values().len()).map_err(|error| error.mistake.to_string())
    };
    let value = "`seed` is a seed and no value; `random` of it gives each element a number from 0 to 1";
    let seed = |what: &str| {
        Err(format!("`random` takes a parameter of the class `Seed`, and {what} is a value; declare a `Seed`"))
    };
    assert_eq!(check(None, |b, accum, seed| b.apply(Op::Add, &[accum, seed])), Err(value.to_owned()));
    assert_eq!(check(None, |b, _, seed| b.real(seed)), Err(value.to_owned()));
    assert_eq!(check(None, |b, _, seed| b.logic(Logic::Not, &[seed])), Err(value.to_owned()));
    assert_eq!(check(None, |b, accum, _| b.random(accum, 0)), seed("`accum`"));
    let twice = |b: &mut TreeBuilder, accum: NodeId, seed: NodeId| {
        let (first, again, other) = (b.random(seed, 0), b.random(seed, 0), b.random(seed, 1));
        let sum = b.apply(Op::Add, &[first, again]);
        let product = b.apply(Op::Mul, &[sum, other]);
        b.apply(Op::Add, &[accum, product])
    };
    // The accumulator, the seed, two streams, a sum, a product, and the sum with the accumulator.
    assert_eq!(check(Some(ElementType::I64), twice), Ok(7));
    let element = "`seed` is a seed, two 64-bit integers, and is declared with f32; write `Seed`";
    assert_eq!(check(Some(ElementType::F32), twice), Err(element.to_owned()));
}
