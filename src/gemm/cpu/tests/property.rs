//! Random epilogues on random products: every result must lie within the bounds of the f64 reference.

use epilogue_runtime::{Device, DeviceTensor, testing};
use fastrand::Rng;
use proptest::prelude::*;

use super::super::{Operands, Programs, TileShape, choose_tile, execute};
use crate::evt::reference::{self, Array, Extent, Multiplication, Options, Product};
use crate::evt::{
    Axis, BroadcastClass, Form, NodeId, OutputKind, ParameterClass, Phases, Prices, ReduceOp, Reduction, Tree,
    TreeBuilder, Types, ValidTree,
};
use crate::expr::{Op, Real};
use crate::{Argument, ElementType, ops};

const BINARY: [Op; 7] = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max, Op::Pow];
/// The first element types of the list are those of numbers.
const NUMBERS: usize = 10;
const COMPARISONS: [Op; 6] = [Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne];
const REDUCTIONS: [ReduceOp; 6] =
    [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min, ReduceOp::AbsMax, ReduceOp::SumSquares];
const CLASSES: [ParameterClass; 8] = [
    ParameterClass::Tensor,
    ParameterClass::TensorMut,
    ParameterClass::RowVector,
    ParameterClass::ColumnVector,
    ParameterClass::Scalar,
    ParameterClass::DeviceScalar,
    ParameterClass::Seed,
    ParameterClass::Bits,
];
const NAMES: [&str; 5] = ["p0", "p1", "p2", "p3", "p4"];
const ACCUMULATORS: [&str; 3] = ["accum", "gate", "up"];
const OUTPUTS: [&str; 3] = ["o0", "o1", "o2"];
const OPERANDS: [(ElementType, ElementType); 10] = [
    (ElementType::F32, ElementType::F32),
    (ElementType::F16, ElementType::F16),
    (ElementType::BF16, ElementType::BF16),
    (ElementType::F64, ElementType::F64),
    (ElementType::F8E4M3, ElementType::F8E5M2),
    (ElementType::F32, ElementType::BF16),
    (ElementType::F16, ElementType::F32),
    (ElementType::I8, ElementType::I8),
    (ElementType::U8, ElementType::I8),
    (ElementType::U8, ElementType::U8),
];

/// The layout of a tensor in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Packed,
    Transposed,
    /// A window of a larger tensor.
    Window,
}

#[derive(Clone, Copy, Debug)]
struct ParameterRecipe {
    class: usize,
    element: usize,
    batched: bool,
    layout: Layout,
}

#[derive(Clone, Copy, Debug)]
struct OutputRecipe {
    pick: usize,
    /// 0: stored; else reduced.
    kind: usize,
    op: usize,
    batch: bool,
    element: usize,
    layout: Layout,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    extents: [usize; 3],
    batch: Option<usize>,
    /// Whether the B of each accumulator has a batch axis.
    b_batched: [bool; 2],
    accumulators: usize,
    operands: usize,
    layouts: (Layout, [Layout; 2]),
    parameters: Vec<ParameterRecipe>,
    operations: Vec<[usize; 4]>,
    outputs: Vec<OutputRecipe>,
    own_tile: bool,
    special: bool,
    seed: u64,
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Packed), Just(Layout::Transposed), Just(Layout::Window)]
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0usize), 2 => Just(1usize), 8 => 2usize..20, 4 => 20usize..70, 1 => Just(263usize)]
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let parameter = (0..CLASSES.len(), 0..NUMBERS, any::<bool>(), layout())
        .prop_map(|(class, element, batched, layout)| ParameterRecipe { class, element, batched, layout });
    let output = (0usize..64, 0usize..8, 0..REDUCTIONS.len(), any::<bool>(), 0..NUMBERS, layout())
        .prop_map(|(pick, kind, op, batch, element, layout)| OutputRecipe { pick, kind, op, batch, element, layout });
    let k = prop_oneof![1 => Just(0usize), 10 => 1usize..40, 1 => Just(1300usize)];
    (
        (extent(), extent(), k, prop_oneof![3 => Just(None), 1 => (0usize..4).prop_map(Some)], any::<[bool; 2]>()),
        (
            0..OPERANDS.len(),
            (layout(), [layout(), layout()]),
            prop_oneof![3 => Just(1usize), 1 => Just(2), 1 => Just(3)],
        ),
        prop::collection::vec(parameter, 0..NAMES.len()),
        prop::collection::vec([0usize..48, 0usize..64, 0usize..64, 0usize..64], 0..10),
        prop::collection::vec(output, 1..=OUTPUTS.len()),
        (any::<bool>(), prop::bool::weighted(0.2), any::<u64>()),
    )
        .prop_map(
            |(
                (m, n, k, batch, b_batched),
                (operands, layouts, accumulators),
                parameters,
                operations,
                outputs,
                last,
            )| {
                Case {
                    // Long sums only for small outputs, since the reference is slow.
                    extents: if k > 1000 { [m.min(9), n.min(9), k] } else { [m, n, k] },
                    batch,
                    b_batched,
                    accumulators,
                    operands,
                    layouts,
                    parameters,
                    operations,
                    outputs,
                    own_tile: last.0,
                    special: last.1,
                    seed: last.2,
                }
            },
        )
}

impl Case {
    /// Mostly elements that vector code reads and writes.
    pub(super) fn of_floats(mut self) -> Self {
        let floats = [ElementType::F32, ElementType::F16, ElementType::BF16];
        let number = |which: usize| {
            let element = floats[which % floats.len()];
            Real::ELEMENTS.iter().position(|known| *known == element).unwrap_or(0)
        };
        self.operands %= 3;
        let of_parameters = self.parameters.iter_mut().map(|recipe| &mut recipe.element);
        for element in of_parameters.chain(self.outputs.iter_mut().map(|recipe| &mut recipe.element)) {
            if *element < NUMBERS - 2 {
                *element = number(*element);
            }
        }
        self
    }
}

/// Mostly from -2 to 2; now and then zeros, larger values, NaN and infinities.
fn value(random: &mut Rng, special: bool) -> f64 {
    let uniform = random.f64() * 4.0 - 2.0;
    match random.u8(0..64) {
        0 if special => f64::NAN,
        1 if special => f64::INFINITY,
        2 if special => f64::NEG_INFINITY,
        3 if special => 1e30,
        4 => -0.0,
        5 => 0.0,
        6 => 37.0 * uniform,
        _ => uniform,
    }
}

/// Values and the tensor that holds them.
struct Held {
    values: Vec<f64>,
    tensor: DeviceTensor,
}

fn hold(element: ElementType, shape: &[usize], layout: Layout, special: bool, random: &mut Rng) -> Held {
    let count: usize = shape.iter().product();
    let scale = if element.is_float() { 1.0 } else { 40.0 };
    let wanted: Vec<f64> = (0..count).map(|_| value(random, special && element.is_float()) * scale).collect();
    let bytes = reference::encode(element, &wanted);
    let mut tensor = place(element, shape, layout);
    tensor.copy_from_bytes(&bytes).unwrap();
    Held { values: reference::decode(element, &bytes), tensor }
}

fn place(element: ElementType, shape: &[usize], layout: Layout) -> DeviceTensor {
    let device = Device::cpu();
    match layout {
        Layout::Transposed if shape.len() >= 2 => {
            let mut turned = shape.to_vec();
            let last = turned.len() - 1;
            turned.swap(last, last - 1);
            device.zeros_of(element, turned).unwrap().transpose().unwrap()
        }
        Layout::Window => {
            let larger: Vec<usize> = shape.iter().map(|extent| extent + 3).collect();
            let mut tensor = device.zeros_of(element, larger).unwrap();
            for (axis, &extent) in shape.iter().enumerate() {
                tensor = tensor.slice(axis, 1..1 + extent).unwrap();
            }
            tensor
        }
        Layout::Packed | Layout::Transposed => device.zeros_of(element, shape).unwrap(),
    }
}

/// Builds the tree that a case describes.
fn tree(case: &Case) -> Tree {
    let mut b = TreeBuilder::new("random", file!());
    let mut values: Vec<(NodeId, BroadcastClass)> =
        ACCUMULATORS[..case.accumulators].iter().map(|name| (b.accum(name), BroadcastClass::Tensor)).collect();
    for (name, recipe) in NAMES.into_iter().zip(&case.parameters) {
        let class = CLASSES[recipe.class];
        let typed = !matches!(class, ParameterClass::Scalar | ParameterClass::Seed | ParameterClass::Bits);
        let parameter = b.parameter(name, class, typed.then(|| Real::ELEMENTS[recipe.element]));
        values.push(match class {
            ParameterClass::Seed => (b.random(parameter, recipe.element as u32 % 3), BroadcastClass::Tensor),
            ParameterClass::Bits => {
                let (one, other) = (b.literal(1.0), b.literal(-0.5));
                (b.apply(Op::Select, &[parameter, one, other]), BroadcastClass::Tensor)
            }
            class => (parameter, class.broadcast_class()),
        });
    }
    for &[which, x, y, z] in &case.operations {
        let pick = |i: usize| values[values.len() - 1 - i % values.len()];
        let ((x, x_class), (y, y_class), (z, z_class)) = (pick(x), pick(y), pick(z));
        values.push(match which {
            // Operations of one operand come first.
            0..17 => (b.apply(Op::ALL[which], &[x]), x_class),
            17..30 => (b.apply(BINARY[(which - 17) % BINARY.len()], &[x, y]), x_class.join(y_class)),
            30..36 => {
                let condition = b.apply(COMPARISONS[which - 30], &[x, y]);
                (b.apply(Op::Select, &[condition, y, z]), x_class.join(y_class).join(z_class))
            }
            36..38 => (b.apply(Op::Fma, &[x, y, z]), x_class.join(y_class).join(z_class)),
            38..41 => (b.cast(Real::ELEMENTS[which % NUMBERS], x), x_class),
            41 => (b.call(ops::gelu::function(), &[x]), x_class),
            42 => (b.call(ops::silu::function(), &[x]), x_class),
            43 => (b.call(ops::gelu_tanh_grad::function(), &[x]), x_class),
            44 => (b.call(ops::softplus::function(), &[x]), x_class),
            _ => {
                let half = b.literal(0.375);
                (b.apply(Op::Mul, &[half, x]), x_class)
            }
        });
    }
    for (name, recipe) in NAMES.into_iter().zip(&case.parameters) {
        if CLASSES[recipe.class] == ParameterClass::TensorMut {
            let (last, _) = values[values.len() - 1];
            let stored = b.apply(Op::Add, &[values[0].0, last]);
            b.output(name, stored, BroadcastClass::Tensor, None);
        }
    }
    for (name, recipe) in OUTPUTS.into_iter().zip(&case.outputs) {
        let (node, class) = values[values.len() - 1 - recipe.pick % values.len()];
        let element = Some(Real::ELEMENTS[recipe.element]);
        let axis = [Axis::Row, Axis::Column, Axis::All][recipe.kind % 3];
        match recipe.kind {
            3 if recipe.batch && class == BroadcastClass::Tensor => {
                let bound = b.literal(0.25);
                let truth = b.apply(COMPARISONS[recipe.op % COMPARISONS.len()], &[node, bound]);
                b.output_bits(name, truth);
            }
            0..4 => b.output(name, node, class, element),
            4..7 => {
                let reduction =
                    Reduction { axis, batch: recipe.batch, op: REDUCTIONS[recipe.op], form: Form::Complete };
                let reduced = b.reduce(reduction, node);
                b.output(name, reduced, axis.result_class(), element);
            }
            _ => {
                let axis = if recipe.batch { Axis::Row } else { Axis::Column };
                let reduction = Reduction { axis, batch: false, op: REDUCTIONS[recipe.op], form: Form::Partial };
                let reduced = b.reduce(reduction, node);
                b.output(name, reduced, axis.result_class(), None);
            }
        }
    }
    b.finish()
}

#[derive(Clone, Copy)]
struct Shape {
    extent: Extent,
    batched: bool,
    tile: TileShape,
}

impl Shape {
    fn of_class(&self, class: BroadcastClass, batched: bool) -> Vec<usize> {
        let mut shape = if batched { vec![self.extent.l] } else { vec![] };
        match class {
            BroadcastClass::Scalar => {}
            BroadcastClass::RowVector => shape.push(self.extent.n),
            BroadcastClass::ColumnVector => shape.push(self.extent.m),
            BroadcastClass::Tensor => shape.extend([self.extent.m, self.extent.n]),
        }
        shape
    }

    fn of_output(&self, kind: OutputKind, class: BroadcastClass) -> Vec<usize> {
        match kind {
            OutputKind::Reduce(Reduction { form: Form::Partial, axis, .. }) => {
                let mut shape = if self.batched { vec![self.extent.l] } else { vec![] };
                shape.extend(match axis {
                    Axis::Row => [self.extent.n.div_ceil(self.tile.n), self.extent.m],
                    Axis::Column | Axis::All => [self.extent.m.div_ceil(self.tile.m), self.extent.n],
                });
                shape
            }
            OutputKind::Reduce(reduction) => self.of_class(class, self.batched && !reduction.batch),
            OutputKind::Store => self.of_class(class, self.batched),
        }
    }
}

/// The shape of bytes with eight columns each.
fn packed(mut shape: Vec<usize>) -> Vec<usize> {
    shape.iter_mut().last().into_iter().for_each(|columns| *columns = columns.div_ceil(8));
    shape
}

/// The inputs of a case.
pub(super) struct Setup {
    pub(super) tree: ValidTree,
    shape: Shape,
    k: usize,
    a: Held,
    /// With whether it has a batch axis.
    all_b: Vec<(Held, bool)>,
    /// Parameters in their order; those of host scalars are not used.
    held: Vec<(Held, bool)>,
    scalars: Vec<f64>,
    layouts: Vec<Layout>,
}

impl Setup {
    pub(super) fn of(case: &Case) -> Result<Self, TestCaseError> {
        let (a_type, b_type) = OPERANDS[case.operands];
        let types = Types::new(a_type, b_type);
        let tree: ValidTree = tree(case).validate(types).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let [m, n, k] = case.extents;
        let batched = case.batch.is_some();
        let extent = Extent { m, n, l: case.batch.unwrap_or(1) };
        let tile = if case.own_tile {
            TileShape { m: 6, n: 10 }
        } else {
            choose_tile((a_type, b_type), [m, n, k], extent.l, case.accumulators, 0)
        };
        let shape = Shape { extent, batched, tile };
        let mut random = Rng::with_seed(case.seed);

        let operand = |matrix: [usize; 2], batched: bool| -> Vec<usize> {
            if batched { vec![extent.l, matrix[0], matrix[1]] } else { matrix.to_vec() }
        };
        let a = hold(a_type, &operand([m, k], batched), case.layouts.0, case.special, &mut random);
        let mut all_b = Vec::new();
        for i in 0..case.accumulators {
            let b_batched = batched && case.b_batched[i % 2];
            let b = hold(b_type, &operand([k, n], b_batched), case.layouts.1[i % 2], case.special, &mut random);
            all_b.push((b, b_batched));
        }
        let mut held: Vec<(Held, bool)> = Vec::new();
        for (parameter, recipe) in tree.parameters().iter().zip(&case.parameters) {
            let in_place = parameter.class == ParameterClass::TensorMut;
            let batched = batched && (recipe.batched || in_place);
            let shape = match parameter.class {
                ParameterClass::Seed => vec![2],
                ParameterClass::Bits => packed(shape.of_class(BroadcastClass::Tensor, batched)),
                class => shape.of_class(class.broadcast_class(), batched),
            };
            held.push((hold(parameter.element, &shape, recipe.layout, case.special, &mut random), batched));
        }
        // A third of the host scalars are 0, so that what they multiply is not read.
        let scalars: Vec<f64> = tree
            .parameters()
            .iter()
            .map(|_| if random.u8(0..3) == 0 { 0.0 } else { value(&mut random, case.special) })
            .collect();
        let layouts = (0..tree.outputs().len()).map(|i| case.outputs[i % case.outputs.len()].layout).collect();
        Ok(Self { tree, shape, k, a, all_b, held, scalars, layouts })
    }

    /// The values of every output of a run.
    pub(super) fn run(&self, programs: &Programs) -> Result<Vec<Vec<f64>>, TestCaseError> {
        let tree = &self.tree;
        let mut results: Vec<Option<DeviceTensor>> = tree
            .outputs()
            .iter()
            .zip(&self.layouts)
            .map(|(output, layout)| {
                let shape = self.shape.of_output(output.kind, output.class);
                let shape = if output.packed { packed(shape) } else { shape };
                output.parameter.is_none().then(|| place(output.element, &shape, *layout))
            })
            .collect();
        let mut in_place: Vec<DeviceTensor> = self.held.iter().map(|(held, _)| held.tensor.clone()).collect();
        let before: Vec<Vec<u8>> = in_place.iter().map(|tensor| tensor.to_bytes().unwrap()).collect();
        let mut arguments: Vec<Argument<'_>> = Vec::new();
        for ((parameter, tensor), &scalar) in tree.parameters().iter().zip(&mut in_place).zip(&self.scalars) {
            arguments.push(match parameter.class {
                ParameterClass::Scalar => Argument::Scalar(scalar),
                ParameterClass::TensorMut => Argument::Output(tensor),
                _ => Argument::Input(tensor),
            });
        }
        arguments.extend(results.iter_mut().flatten().map(Argument::Output));
        let all_b: Vec<&DeviceTensor> = self.all_b.iter().map(|(b, _)| &b.tensor).collect();
        let phases = Phases::of(tree.clone(), Prices::CPU);
        execute(programs, &phases, Operands::of(&self.a.tensor, &all_b), None, &arguments, self.shape.tile)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        drop(arguments);
        let mut values = Vec::new();
        for (output, result) in tree.outputs().iter().zip(&results) {
            let tensor = match (output.parameter, result) {
                (Some(parameter), _) => &in_place[parameter.index()],
                (None, Some(result)) => result,
                (None, None) => return Err(TestCaseError::fail("an output without memory")),
            };
            let bytes = tensor.to_bytes().unwrap();
            values.push(if output.packed {
                prop_assert!(!reference::has_padding(&bytes, self.shape.extent.n));
                reference::unpack(&bytes, self.shape.extent.n)
            } else {
                reference::decode(output.element, &bytes)
            });
        }
        // The next run overwrites the same memory.
        in_place.iter_mut().zip(&before).for_each(|(tensor, bytes)| tensor.copy_from_bytes(bytes).unwrap());
        Ok(values)
    }

    /// Compares every output with the reference.
    fn check(&self) -> Result<(), TestCaseError> {
        let Shape { extent, batched, tile } = self.shape;
        fn array(held: &Held, batched: bool, [rows, columns]: [usize; 2]) -> Array<'_> {
            let strides = [if batched { (rows * columns) as isize } else { 0 }, columns as isize, 1];
            Array { values: &held.values, offset: 0, strides }
        }
        let fail = |error: &dyn std::fmt::Display| TestCaseError::fail(error.to_string());
        let mut products = Vec::new();
        for (b, b_batched) in &self.all_b {
            let of_a = array(&self.a, batched, [extent.m, self.k]);
            let of_b = array(b, *b_batched, [self.k, extent.n]);
            let product = Product::new(self.tree.types(), Multiplication::Exact, extent, self.k, &of_a, &of_b);
            products.push(product.map_err(|error| fail(&error))?);
        }
        let with_held = || self.tree.parameters().iter().zip(&self.held);
        let bits: Vec<Vec<f64>> = with_held()
            .map(|(parameter, (held, _))| match parameter.class {
                ParameterClass::Bits => reference::unpack(&held.tensor.to_bytes().unwrap(), extent.n),
                _ => Vec::new(),
            })
            .collect();
        let given: Vec<reference::Argument<'_>> = with_held()
            .zip(self.scalars.iter().zip(&bits))
            .map(|((parameter, (held, batched)), (&scalar, bits))| {
                if parameter.class == ParameterClass::Scalar {
                    return reference::Argument::Scalar(scalar);
                }
                if parameter.class == ParameterClass::Seed {
                    let words = held.tensor.to_vec::<i64>().unwrap();
                    return reference::Argument::Seed(words[0].cast_unsigned(), words[1].cast_unsigned());
                }
                let class = parameter.class.broadcast_class();
                if parameter.class == ParameterClass::Bits {
                    return reference::Argument::Array(Array::packed(bits, class, extent, *batched));
                }
                reference::Argument::Array(Array::packed(&held.values, class, extent, *batched))
            })
            .collect();
        let options = Options { tile: Some((tile.m, tile.n)), ..Options::default() };
        let expected = reference::evaluate(&self.tree, &products, &given, options).map_err(|error| fail(&error))?;
        for ((output, expected), got) in self.tree.outputs().iter().zip(&expected).zip(self.run(&Programs::default())?)
        {
            if let Some(wrong) = expected.first_wrong(&got) {
                return Err(TestCaseError::fail(format!("{}: {wrong:?}\n{:?}", output.name, self.tree)));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_lie_in_the_bounds_of_the_reference(case in case()) {
        Setup::of(&case)?.check()?;
    }
}
