//! Every refusal that says what to do, beside that: who follows the advice has what runs.

use epilogue::evt::{
    Axis, BroadcastClass, Form, ParameterClass, Position, ReduceOp, Reduction, Tree, TreeBuilder, Types,
};
use epilogue::expr::Op;
use epilogue::gemm::{
    Builder, SplitK, Window, filter, gradient_filter, gradient_filter_in_groups, gradient_patches, patches, rows,
    scaled, transposed_patches,
};
use epilogue::prelude::*;
use epilogue::{Error, Seed, f8e4m3};
use epilogue_testing::advice::advised;

type Outcome = Result<(), Error>;

fn ones(shape: &[usize]) -> DeviceTensor {
    Device::cpu().full::<f32>(shape, 1.0).expect("memory")
}

/// Runs an epilogue of two operands that are planned for.
fn run<'a, E: Epilogue>(a: &DeviceTensor, b: &DeviceTensor, arguments: E::Arguments<'a>) -> Outcome {
    Gemm::plan::<E>(&Device::cpu(), a, b)?.run(a, b, arguments)
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn added(accum: Accum, c: Tensor) -> Tensor {
    let d = accum + c;
    d
}

#[epilogue]
fn updated(accum: Accum, d: TensorMut) -> Tensor {
    d += accum;
    d
}

#[epilogue]
fn gated(gate: Accum, up: Accum) -> Tensor {
    let d = gate * up;
    d
}

/// Memory that overlaps an operand, or an argument of another place, can't be updated in place.
#[test]
fn memory_that_is_shared() {
    let (a, b, own) = (ones(&[4, 4]), ones(&[4, 4]), || ones(&[4, 4]));
    let mut of_a = a.clone();
    let alone = || run::<Plain>(&a, &b, Plain { d: &mut own() });
    advised(
        run::<Plain>(&a, &b, Plain { d: &mut of_a }),
        "overlaps `A`, which is read meanwhile: give it memory of its own",
        alone(),
    );
    advised(run::<Updated>(&a, &b, Updated { d: &mut a.clone() }), "give it memory of its own", alone());
    let c = ones(&[4, 4]);
    let in_place = run::<Updated>(&a, &b, Updated { d: &mut c.clone() });
    advised(run::<Added>(&a, &b, Added { c: &c, d: &mut c.clone() }), "declare one `TensorMut` for both", in_place);
    assert_eq!(c.to_vec::<f32>().expect("values"), [5.0; 16]);
    // Elsewhere in the same memory, in place isn't said.
    let both = ones(&[5, 4]);
    let (mut first, second) = (both.slice(0, 0..4).expect("rows"), both.slice(0, 1..5).expect("rows"));
    let shifted = run::<Added>(&a, &b, Added { c: &second, d: &mut first });
    assert!(shifted.expect_err("it overlaps").to_string().ends_with("give it memory of its own"));
    let mut shared = ones(&[1, 4]).broadcast_to([4, 4]).expect("a view");
    advised(run::<Plain>(&a, &b, Plain { d: &mut shared }), "give one that does not", alone());
}

/// Types that an epilogue may hold are advised, and no others.
#[test]
fn element_types() {
    #[epilogue]
    fn statistics(accum: Accum, c: Tensor) -> (Tensor, ColumnVector, ColumnVector<bool>, ColumnVector) {
        let d = accum + c;
        let place = reduction_op(d, Row, ArgMax);
        let large = reduction_op(d > 3.0, Row, Any);
        let sums = reduction_op(d, Row, Add);
        (d, place, large, sums)
    }
    #[epilogue]
    fn of_others(
        accum: Accum,
        c: Tensor<i8>,
    ) -> (Tensor<f64>, ColumnVector<i32>, ColumnVector<bool>, ColumnVector<bf16>) {
        let d = accum + c;
        let place = reduction_op(d, Row, ArgMax);
        let large = reduction_op(d > 3.0, Row, Any);
        let sums = reduction_op(d, Row, Add);
        (d, place, large, sums)
    }
    use ElementType::{BF16, Bool, F32, F64, I8, I32, I64};
    let (device, a, b) = (Device::cpu(), ones(&[3, 4]), ones(&[4, 5]));
    let zeros = |element: ElementType, shape: &[usize]| device.zeros_of(element, shape).expect("memory");
    let given = |c: ElementType, of: [ElementType; 4]| {
        let [mut d, mut place, mut large, mut sums] =
            [(of[0], &[3, 5][..]), (of[1], &[3]), (of[2], &[3]), (of[3], &[3])]
                .map(|(element, shape)| zeros(element, shape));
        let c = zeros(c, &[3, 5]);
        run::<Statistics>(
            &a,
            &b,
            Statistics { c: &c, d: &mut d, place: &mut place, large: &mut large, sums: &mut sums },
        )
    };
    let followed = || {
        let [mut d, mut place] = [zeros(F64, &[3, 5]), zeros(I32, &[3])];
        let [mut large, mut sums] = [zeros(Bool, &[3]), zeros(BF16, &[3])];
        let c = zeros(I8, &[3, 5]);
        run::<OfOthers>(&a, &b, OfOthers { c: &c, d: &mut d, place: &mut place, large: &mut large, sums: &mut sums })
    };
    let right = || given(F32, [F32, I64, Bool, F32]);
    advised(given(I8, [F32, I64, Bool, F32]), "write `Tensor<i8>`", followed());
    advised(given(F32, [F64, I64, Bool, F32]), "write `Tensor<f64>`", followed());
    advised(given(F32, [F32, I32, Bool, F32]), "write `ColumnVector<i32>`", followed());
    advised(given(F32, [F32, I64, Bool, BF16]), "write `ColumnVector<bf16>`", followed());
    advised(given(Bool, [F32, I64, Bool, F32]), "give a tensor of f32", right());
    advised(given(F32, [Bool, I64, Bool, F32]), "give a tensor of f32", right());
    advised(given(F32, [F32, F32, Bool, F32]), "give a tensor of i64", right());
    advised(given(F32, [F32, I64, F32, F32]), "give a tensor of bool", right());
}

#[test]
fn operands() {
    let (device, mut d) = (Device::cpu(), ones(&[1, 5]));
    let (a, b) = (ones(&[4]), ones(&[4, 5]));
    let matrix = a.reshape([1, 4]).expect("a matrix");
    let followed = run::<Plain>(&matrix, &b, Plain { d: &mut d });
    advised(run::<Plain>(&a, &b, Plain { d: &mut d }), "give a matrix, or a batch of matrices", followed);
    let (two, three) = (ones(&[2, 1, 4]), ones(&[3, 4, 5]));
    let followed = run::<Plain>(&two, &b, Plain { d: &mut ones(&[2, 1, 5]) });
    advised(run::<Plain>(&two, &three, Plain { d: &mut d }), "or one of them no batch axis", followed);
    // Of the other order in memory.
    let weights = ones(&[5, 4]);
    let swapped = weights.transpose().expect("a matrix");
    let followed = run::<Plain>(&matrix, &swapped, Plain { d: &mut d });
    advised(run::<Plain>(&matrix, &weights, Plain { d: &mut d }), "give B's transpose, `&b.transpose()?`", followed);
    let columns = ones(&[4, 1]);
    let swapped = columns.transpose().expect("a matrix");
    let followed = run::<Plain>(&swapped, &b, Plain { d: &mut d });
    advised(run::<Plain>(&columns, &b, Plain { d: &mut d }), "give A's transpose, `&a.transpose()?`", followed);
    let neither = run::<Plain>(&matrix, &ones(&[6, 5]), Plain { d: &mut d }).expect_err("K differs").to_string();
    assert!(neither.ends_with("A is [M, K], B is [K, N]"), "{neither}");
    // Several B.
    let two = |b: &[&DeviceTensor]| {
        Gemm::plan::<Plain>(&device, &matrix, b)?.run(&matrix, b, Plain { d: &mut ones(&[1, 5]) })
    };
    advised(two(&[&b, &b]), "2 B for the 1 accumulator of `plain`: give one for each of", two(&[&b]));
    let gemm = Gemm::plan::<Gated>(&device, &matrix, [&b, &b]).expect("a plan");
    let mut gated = |all: &[&DeviceTensor]| gemm.run(&matrix, all, Gated { d: &mut d });
    advised(gated(&[&b]), "as in `[&gate, &up]`", gated(&[&b, &b]));
    let transposed = ones(&[5, 4]).transpose().expect("a matrix");
    let copied = transposed.contiguous().expect("a copy");
    let followed = gated(&[&b, &copied]);
    advised(gated(&[&b, &transposed]), "all B of a product lie in the same order; copy one of them", followed);
    // Packed.
    let gemm = Gemm::plan::<Plain>(&device, &matrix, &b).expect("a plan");
    let apart = ones(&[4, 10]).slice(1, 0..5).expect("columns");
    let strided = apart.reshape([4, 5, 1]).and_then(|x| x.broadcast_to([4, 5, 2])).and_then(|x| x.slice(2, 0..1));
    let strided = strided.and_then(|x| x.reshape([4, 5])).expect("a view");
    gemm.pack(&strided).expect("its columns are contiguous");
    let strided = ones(&[8, 10]).reshape([4, 2, 5, 2]).and_then(|x| x.slice(1, 0..1)?.slice(3, 0..1)?.reshape([4, 5]));
    let strided = strided.expect("a view");
    let followed = strided.contiguous().map_err(Error::from).and_then(|b| gemm.pack(&b)).map(drop);
    advised(gemm.pack(&strided).map(drop), "give a contiguous copy", followed);
}

#[test]
fn plans() {
    let device = Device::cpu();
    let builder = || Builder::<()>::new(&device, Plain::tree());
    let types = || builder().elements(ElementType::F32, ElementType::F32);
    let followed = types().problem(2, 3, 4).plan().map(drop);
    advised(builder().problem(2, 3, 4).plan().map(drop), "call `.elements(…)` before `.plan()`", followed);
    advised(types().plan().map(drop), "call `.problem(…)` before `.plan()`", types().problem(2, 3, 4).plan().map(drop));
    let split = || types().problem(2, 3, 4).split_k(SplitK::Serial(2));
    advised(
        split().plan().map(drop),
        "leave it out, or call `.ignore_unsupported_knobs()`",
        split().ignore_unsupported_knobs().plan().map(drop),
    );
    let mixed = |a, b| builder().elements(a, b).problem(2, 3, 4).plan().map(drop);
    let refused = mixed(ElementType::I8, ElementType::F32);
    advised(refused, "or A is a float and B is i8 or u8", mixed(ElementType::F32, ElementType::I8));
}

/// Views of several axes.
#[test]
fn axes() {
    #[epilogue]
    fn of_each(accum: Accum, mask: Tensor, bias: RowVector, weight: ColumnVector, scale: DeviceScalar) -> Tensor {
        let d = accum * scale + mask * weight + bias;
        d
    }
    let (a, b) = (ones(&[6, 4, 2]), ones(&[2, 5]));
    let with = |mask: &DeviceTensor, bias: &DeviceTensor, weight: &DeviceTensor, scale: &DeviceTensor| {
        run::<OfEach>(&a, &b, OfEach { mask, bias, weight, scale, d: &mut ones(&[6, 4, 5]) })
    };
    let mask = ones(&[2, 1, 4, 5]).broadcast_to([2, 3, 4, 5]).and_then(|x| x.as_batched_matrix(&[0, 1], &[2], &[3]));
    let bias = ones(&[2, 1, 5]).broadcast_to([2, 3, 5]).and_then(|x| x.as_batched_row_vector(&[0, 1], &[2]));
    let weight = ones(&[2, 1, 4]).broadcast_to([2, 3, 4]).and_then(|x| x.as_batched_column_vector(&[0, 1], &[2]));
    let scale = ones(&[2, 1]).broadcast_to([2, 3]).and_then(|x| x.as_batched_scalar(&[0, 1]));
    let [mask, bias, weight, scale] = [mask, bias, weight, scale].map(|view| view.expect("a view"));
    let right = || with(&mask, &bias, &weight, &scale);
    advised(with(&bias, &bias, &weight, &scale), "view it by `as_matrix`, or by `as_batched_matrix`", right());
    advised(
        with(&mask, &mask, &weight, &scale),
        "by `as_batched_row_vector` where it has values for each batch",
        right(),
    );
    advised(
        with(&mask, &bias, &mask, &scale),
        "by `as_batched_column_vector` where it has values for each batch",
        right(),
    );
    advised(with(&mask, &bias, &weight, &bias), "view it by `as_batched_scalar`", right());
    // Three axes that don't merge.
    let tensor = ones(&[2, 3, 4, 5]);
    let refused = tensor.as_matrix(&[2, 1, 0], &[3]).map(drop).map_err(Error::from);
    let copied = tensor.permute(&[2, 1, 0, 3]).and_then(|x| x.contiguous()?.as_matrix(&[0, 1, 2], &[3]));
    advised(
        refused,
        "make the tensor contiguous in this order (`permute`, then `contiguous()`)",
        copied.map(drop).map_err(Error::from),
    );
    let transposed = ones(&[3, 4]).transpose().expect("a matrix");
    let refused = transposed.reshape([12]).map(drop);
    let followed = transposed.contiguous().and_then(|x| x.reshape([12])).map(drop).map_err(Error::from);
    advised(refused.map_err(Error::from), "call `contiguous()` first", followed);
}

#[test]
fn seeds_and_bits() {
    #[epilogue]
    fn dropped(accum: Accum, seed: Seed, keep: Bits) -> Tensor {
        let d = if keep && random(seed) < 0.5 { accum } else { 0.0 };
        d
    }
    #[epilogue]
    fn kept(accum: Accum, keep: Tensor<bool>) -> Tensor {
        let d = if keep { accum } else { 0.0 };
        d
    }
    let (device, a, b) = (Device::cpu(), ones(&[3, 4]), ones(&[4, 5]));
    let bytes = device.zeros::<u8>([3, 1]).expect("memory");
    let words = device.zeros::<i64>([2]).expect("memory");
    let wrong = device.zeros::<i32>([2]).expect("memory");
    let with =
        |seed: Seed<'_>, keep: &DeviceTensor| run::<Dropped>(&a, &b, Dropped { seed, keep, d: &mut ones(&[3, 5]) });
    advised(
        with((&wrong).into(), &bytes),
        "give an i64 tensor of shape [2], or `Seed::new(7)`",
        with((&words).into(), &bytes),
    );
    with(Seed::new(7), &bytes).expect("a seed by value");
    let whole = device.zeros::<bool>([3, 5]).expect("memory");
    let followed = run::<Kept>(&a, &b, Kept { keep: &whole, d: &mut ones(&[3, 5]) });
    advised(with(Seed::new(7), &whole), "write `Tensor<bool>` for a byte each", followed);
}

#[test]
fn windows() {
    let (x, w) = (ones(&[1, 4, 5, 2]), ones(&[3, 2, 2, 2]));
    let of_w = filter(&w).expect("a filter");
    let window = Window::of([2, 2]);
    let with = |left: epilogue::gemm::Left<'_>, right: epilogue::gemm::Right<'_>, shape: &[usize]| {
        Gemm::plan::<Plain>(&Device::cpu(), left, right.clone())?.run(left, right, Plain { d: &mut ones(shape) })
    };
    let y = [1, 3, 4, 3];
    let right = || with(patches(&x, window), (&of_w).into(), &y);
    let matrix = ones(&[7, 8]);
    advised(with((&matrix).into(), (&of_w).into(), &[7, 3]), "give `patches(&x, window)`", right());
    advised(
        with((&matrix).into(), (&of_w).into(), &[7, 3]),
        "or the filter's `matrix()`",
        with((&matrix).into(), of_w.matrix().into(), &[7, 3]),
    );
    advised(with(patches(&x, Window::of([2])), (&of_w).into(), &y), "give [N, W, C]", right());
    advised(with(patches(&x, Window::of([3, 2])), (&of_w).into(), &y), "give a window of the filter's size", right());
    advised(with(patches(&x, Window::of([0, 2])), (&of_w).into(), &y), "give at least 1 for every axis", right());
    let large = filter(&ones(&[3, 5, 2, 2])).expect("a filter");
    let padded = Window::of([5, 2]).padding([1, 0]);
    let followed = with(patches(&x, padded), (&large).into(), &[1, 2, 4, 3]);
    advised(with(patches(&x, Window::of([5, 2])), (&large).into(), &y), "or more padding", followed);
    let in_groups = ones(&[4, 2, 2, 1]);
    let of_groups = filter(&in_groups).expect("a filter");
    let followed = with(patches(&x, window.groups(2)), (&of_groups).into(), &[1, 3, 4, 4]);
    advised(with(patches(&x, window.groups(3)), (&of_groups).into(), &y), "give `.groups(…)` a divisor of 2", followed);
    // Gradients.
    let dy = ones(&[1, 3, 4, 3]);
    let gradient = || gradient_patches(&dy, window, [4, 5]);
    let of_gradient = gradient_filter(&w).expect("a filter");
    let followed = || with(gradient(), (&of_gradient).into(), &[1, 4, 5, 2]);
    advised(
        with(gradient(), (&of_w).into(), &[1, 4, 5, 2]),
        "`gradient_patches(…)` by `gradient_filter(&w)?`",
        followed(),
    );
    let other = with(gradient_patches(&dy, window, [4, 6]), (&of_gradient).into(), &[1, 4, 6, 2]);
    advised(other, "give the extents of the images that the outputs were made of", followed());
    let dy = ones(&[1, 3, 4, 4]);
    let whole = gradient_filter(&in_groups).expect("a filter");
    let grouped = gradient_filter_in_groups(&in_groups, 2).expect("a filter");
    let of_groups = || gradient_patches(&dy, window.groups(2), [4, 5]);
    let followed = with(of_groups(), (&grouped).into(), &[1, 4, 5, 2]);
    advised(
        with(of_groups(), (&whole).into(), &[1, 4, 5, 2]),
        "make it by `gradient_filter_in_groups(&w, 2)?`",
        followed,
    );
    let apart = ones(&[1, 3, 6, 3]).slice(2, 0..4).expect("columns");
    let copied = apart.contiguous().expect("a copy");
    let followed = with(transposed_patches(&x, window), (&copied).into(), &[3, 2, 2, 2]);
    advised(with(transposed_patches(&x, window), (&apart).into(), &[3, 2, 2, 2]), "give a contiguous copy", followed);
}

#[test]
fn rows_and_scales() {
    #[epilogue]
    fn signs(accum: Accum) -> Bits {
        let d = accum > 0.0;
        d
    }
    #[epilogue]
    fn truths(accum: Accum) -> Tensor<bool> {
        let d = accum > 0.0;
        d
    }
    #[epilogue]
    fn sums(accum: Accum) -> ColumnVector {
        let d = reduction_op(accum, Row, Add);
        d
    }
    let (device, a, b) = (Device::cpu(), ones(&[3, 4]), ones(&[4, 8]));
    let index = device.tensor(&[0i32, 2, 1], [3]).expect("memory");
    let along_m = ones(&[4, 3]).transpose().expect("a matrix");
    let picked = |a: &DeviceTensor| {
        let a = rows(a).picked(&index);
        Gemm::plan::<Plain>(&device, a, &b)?.run(a, &b, Plain { d: &mut ones(&[3, 8]) })
    };
    let copied = along_m.contiguous().expect("a copy");
    advised(picked(&along_m), "give one whose rows are, along K, such as a copy of it", picked(&copied));
    let mut bytes = device.zeros::<u8>([3, 1]).expect("memory");
    let mut truths = device.zeros::<bool>([3, 8]).expect("memory");
    let places = rows(&a).scattered(&index);
    let refused =
        Gemm::plan::<Signs>(&device, places, &b).and_then(|gemm| gemm.run(places, &b, Signs { d: &mut bytes }));
    let followed =
        Gemm::plan::<Truths>(&device, places, &b).and_then(|gemm| gemm.run(places, &b, Truths { d: &mut truths }));
    advised(refused, "return a `Tensor<bool>`", followed);
    let refused = Gemm::plan::<Updated>(&device, places, &b).map(drop);
    let followed = Gemm::plan::<Added>(&device, places, &b).map(drop);
    advised(refused, "return another `Tensor`", followed);
    let mut of_rows = ones(&[3]);
    let refused = Gemm::plan::<Sums>(&device, places, &b).map(drop);
    advised(refused, "leave `.scattered(…)` out", run::<Sums>(&a, &b, Sums { d: &mut of_rows }));
    // Block scales.
    let fp8 = |shape: &[usize]| device.full::<f8e4m3>(shape, f8e4m3::from_f32(1.0)).expect("memory");
    let (a, b) = (fp8(&[3, 4]), fp8(&[4, 8]));
    let (of_a, of_b) = (ones(&[3, 1]), ones(&[1, 1]));
    let refused = Gemm::plan::<Plain>(&device, scaled(&a, &of_a), &b).map(drop);
    let followed = Gemm::plan::<Plain>(&device, scaled(&a, &of_a), scaled(&b, &of_b)).map(drop);
    advised(refused, "give both, as `scaled(&a, &a_scales)` and `scaled(&b, &b_scales)`", followed);
}

/// A tree of one node more than the accumulator.
fn tree(make: impl FnOnce(&mut TreeBuilder)) -> Tree {
    let mut b = TreeBuilder::new("example", file!());
    make(&mut b);
    b.finish()
}

#[test]
fn trees() {
    let valid = |make: &dyn Fn(&mut TreeBuilder)| {
        let types = Types::new(ElementType::F32, ElementType::F32);
        tree(make).validate(types).map(drop).map_err(Error::from)
    };
    let row_of = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };
    use BroadcastClass::{ColumnVector, RowVector, Scalar, Tensor};
    // A parameter that is returned: updated in place, or copied; of a vector there is a copy only.
    for (class, of_output) in [
        (ParameterClass::Tensor, Tensor),
        (ParameterClass::RowVector, RowVector),
        (ParameterClass::ColumnVector, ColumnVector),
        (ParameterClass::DeviceScalar, Scalar),
    ] {
        let returned = |class: ParameterClass, name: &'static str| {
            valid(&|b| {
                b.accum("accum");
                let c = b.parameter("c", class, None);
                b.output(name, c, of_output, None);
            })
        };
        advised(returned(class, "c"), "return a copy: `let copy = c;`", returned(class, "copy"));
        let message = returned(class, "c").expect_err("a parameter is returned").to_string();
        assert_eq!(message.contains("declare it `TensorMut`"), class == ParameterClass::Tensor, "{message}");
        if class == ParameterClass::Tensor {
            advised(returned(class, "c"), "declare it `TensorMut`", returned(ParameterClass::TensorMut, "c"));
        }
    }
    let unreturned = |class| {
        valid(&|b| {
            let accum = b.accum("accum");
            let c = b.parameter("c", class, None);
            let d = b.apply(Op::Add, &[accum, c]);
            b.output("d", d, Tensor, None);
        })
    };
    advised(unreturned(ParameterClass::TensorMut), "or declare it `Tensor`", unreturned(ParameterClass::Tensor));
    // Classes and types of what is returned.
    let stored = |class: BroadcastClass,
                  element: Option<ElementType>,
                  what: &dyn Fn(&mut TreeBuilder) -> epilogue::evt::NodeId| {
        valid(&|b| {
            let d = what(b);
            b.output("d", d, class, element);
        })
    };
    let accum = |b: &mut TreeBuilder| b.accum("accum");
    let sum = |b: &mut TreeBuilder| {
        let accum = b.accum("accum");
        b.reduce(row_of(ReduceOp::Add), accum)
    };
    let position = |b: &mut TreeBuilder| {
        b.accum("accum");
        b.position(Position::Row)
    };
    let truth = |b: &mut TreeBuilder| {
        let (accum, zero) = (b.accum("accum"), b.literal(0.0));
        b.apply(Op::Lt, &[accum, zero])
    };
    advised(stored(ColumnVector, None, &accum), "reduce it, or return a `Tensor`", stored(ColumnVector, None, &sum));
    stored(Tensor, None, &accum).expect("a tensor");
    advised(stored(RowVector, None, &sum), "declare what it is", stored(ColumnVector, None, &sum));
    let wide = |b: &mut TreeBuilder| {
        let (column, accum) = (sum(b), b.accum("up"));
        b.apply(Op::Add, &[accum, column])
    };
    advised(stored(Tensor, None, &sum), "combine it with a tensor, or declare what it is", stored(Tensor, None, &wide));
    let is_real = |b: &mut TreeBuilder| {
        let x = position(b);
        b.real(x)
    };
    let f32 = Some(ElementType::F32);
    advised(stored(ColumnVector, f32, &position), "or return `real(d)`", stored(ColumnVector, f32, &is_real));
    for element in [ElementType::I64, ElementType::I32, ElementType::I8, ElementType::U8] {
        advised(
            stored(ColumnVector, f32, &position),
            "declare it i64, i32, i8 or u8",
            stored(ColumnVector, Some(element), &position),
        );
    }
    let chosen = |b: &mut TreeBuilder| {
        let (t, one, zero) = (truth(b), b.literal(1.0), b.literal(0.0));
        b.apply(Op::Select, &[t, one, zero])
    };
    advised(stored(Tensor, f32, &truth), "declare it bool", stored(Tensor, Some(ElementType::Bool), &truth));
    advised(stored(Tensor, f32, &truth), "or return `if d { 1.0 } else { 0.0 }`", stored(Tensor, f32, &chosen));
    let bool = Some(ElementType::Bool);
    advised(stored(Tensor, bool, &accum), "return a comparison such as", stored(Tensor, bool, &truth));
    // Reductions.
    let of_batch = |batch| {
        move |b: &mut TreeBuilder| {
            let accum = b.accum("accum");
            b.reduce(Reduction { batch, ..row_of(ReduceOp::ArgMax) }, accum)
        }
    };
    advised(
        stored(ColumnVector, None, &of_batch(true)),
        "leave out `Batch`",
        stored(ColumnVector, None, &of_batch(false)),
    );
    let chain = |length: usize| {
        move |b: &mut TreeBuilder| {
            let accum = b.accum("accum");
            let mut x = accum;
            for _ in 1..length {
                let r = b.reduce(row_of(ReduceOp::Add), x);
                x = b.apply(Op::Sub, &[accum, r]);
            }
            b.reduce(row_of(ReduceOp::Add), x)
        }
    };
    advised(
        stored(ColumnVector, None, &chain(5)),
        "and go on in another epilogue",
        stored(ColumnVector, None, &chain(4)),
    );
    let scalar = |element| {
        valid(&|b| {
            let (accum, s) = (b.accum("accum"), b.parameter("s", ParameterClass::Scalar, element));
            let d = b.apply(Op::Mul, &[accum, s]);
            b.output("d", d, Tensor, None);
        })
    };
    advised(scalar(Some(ElementType::F16)), "leave the type out", scalar(None));
}

/// Losses and log-sum-exps are f32 where A has 16 bits, as the reductions are that they are made of.
#[test]
fn vectors_of_reductions_have_their_type() {
    #[epilogue]
    fn loss(
        accum: Accum,
        label: ColumnVector<i32>,
        gain: RowVector,
    ) -> (ColumnVector, ColumnVector, RowVector, Tensor) {
        let picked = reduction_op(if column() == integer(label) { accum } else { 0.0 }, Row, Add);
        let log_sum = reduction_op(accum, Row, LogSumExp);
        let loss = log_sum - picked;
        let doubled = gain * 2.0;
        let probabilities = exp(accum - log_sum);
        (loss, log_sum, doubled, probabilities)
    }
    let tree = Loss::tree().validate(Types::new(ElementType::BF16, ElementType::BF16)).expect("a tree");
    let elements: Vec<ElementType> = tree.outputs().iter().map(|output| output.element).collect();
    assert_eq!(elements, [ElementType::F32, ElementType::F32, ElementType::BF16, ElementType::BF16]);
    let device = Device::cpu();
    let one = bf16::from_f32(1.0);
    let (a, b) = (device.full::<bf16>([2, 4], one).expect("memory"), device.full::<bf16>([4, 4], one).expect("memory"));
    let label = device.tensor(&[1i32, 3], [2]).expect("memory");
    let gain = device.full::<bf16>([4], one).expect("memory");
    let (mut of_rows, mut log_sum) = (ones(&[2]), ones(&[2]));
    let mut doubled = device.zeros::<bf16>([4]).expect("memory");
    let mut probabilities = device.zeros::<bf16>([2, 4]).expect("memory");
    let arguments = Loss {
        label: &label,
        gain: &gain,
        loss: &mut of_rows,
        log_sum: &mut log_sum,
        doubled: &mut doubled,
        probabilities: &mut probabilities,
    };
    run::<Loss>(&a, &b, arguments).expect("it runs");
    // All logits are 4: a loss is ln 4.
    for (loss, log_sum) in of_rows.to_vec::<f32>().expect("values").iter().zip(log_sum.to_vec::<f32>().expect("values"))
    {
        assert!((loss - 4f32.ln()).abs() < 1e-5 && (log_sum - 4.0 - 4f32.ln()).abs() < 1e-5, "{loss} {log_sum}");
    }
}
