//! Refusals of a run, before anything is written.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use epilogue::evt::{Axis, BroadcastClass, Form, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::{Arithmetic, Builder, MAX_EXTENT, Major, OperandLayout, SplitK, Tile, sm90};
use epilogue::{Argument, Device, DeviceTensor, ElementType, Error, Event, Gemm, Kernel, Source, Stream, runtime};

const M: usize = 6;
const N: usize = 10;
const K: usize = 4;

/// d = alpha * accum + c, its row sums, and r updated in place.
fn tree() -> Tree {
    let mut b = TreeBuilder::new("example", file!());
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
    let r = b.parameter("r", ParameterClass::TensorMut, None);
    let scaled = b.apply(Op::Mul, &[alpha, accum]);
    let d = b.apply(Op::Add, &[scaled, c]);
    let updated = b.apply(Op::Add, &[d, r]);
    let reduction = |form| Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form };
    let sums = b.reduce(reduction(Form::Complete), d);
    let partial = b.reduce(reduction(Form::Partial), d);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("r", updated, BroadcastClass::Tensor, None);
    b.output("sums", sums, BroadcastClass::ColumnVector, None);
    b.output("partial", partial, BroadcastClass::ColumnVector, None);
    b.finish()
}

struct Tensors {
    a: DeviceTensor,
    b: DeviceTensor,
    c: DeviceTensor,
    r: DeviceTensor,
    d: DeviceTensor,
    sums: DeviceTensor,
    partial: DeviceTensor,
}

fn plan(device: &Device) -> Gemm {
    Builder::<()>::new(device, tree()).elements(ElementType::F32, ElementType::F32).problem(M, N, K).plan().unwrap()
}

impl Tensors {
    fn new(device: &Device, gemm: &Gemm) -> Self {
        let ones = |shape: &[usize]| device.full::<f32>(shape, 1.0).unwrap();
        let partial = gemm.partials_shape("partial").unwrap();
        Self {
            a: ones(&[M, K]),
            b: ones(&[K, N]),
            c: ones(&[M, N]),
            r: ones(&[M, N]),
            d: ones(&[M, N]),
            sums: ones(&[M]),
            partial: ones(&partial),
        }
    }

    fn run(&mut self, gemm: &Gemm) -> Result<(), Error> {
        let Self { a, b, c, r, d, sums, partial } = self;
        let arguments = [
            Argument::Input(c),
            Argument::Scalar(2.0),
            Argument::Output(r),
            Argument::Output(d),
            Argument::Output(sums),
            Argument::Output(partial),
        ];
        gemm.run_arguments(&gemm.device().default_stream(), a, b, &arguments)
    }

    fn outputs(&self) -> Vec<f32> {
        let all = [&self.r, &self.d, &self.sums, &self.partial];
        all.iter().filter(|t| t.element_type() == ElementType::F32).flat_map(|t| t.to_vec::<f32>().unwrap()).collect()
    }
}

/// Makes one thing wrong, and expects that the run is refused with this message, and that no output has changed.
fn refused(wrong: impl FnOnce(&mut Tensors), expected: &str) {
    let device = Device::cpu();
    let gemm = plan(&device);
    let mut tensors = Tensors::new(&device, &gemm);
    wrong(&mut tensors);
    let before = tensors.outputs();
    let error = tensors.run(&gemm).expect_err("this must be refused");
    assert_eq!(error.to_string(), expected);
    assert_eq!(tensors.outputs(), before, "something was written");
}

fn zeros(shape: &[usize]) -> DeviceTensor {
    Device::cpu().zeros::<f32>(shape).unwrap()
}

#[test]
fn what_is_right_runs() {
    let device = Device::cpu();
    let gemm = plan(&device);
    let mut tensors = Tensors::new(&device, &gemm);
    tensors.run(&gemm).unwrap();
    assert_eq!(tensors.d.to_vec::<f32>().unwrap(), vec![9.0; M * N]);
    assert_eq!(tensors.r.to_vec::<f32>().unwrap(), vec![10.0; M * N]);
    assert_eq!(tensors.sums.to_vec::<f32>().unwrap(), vec![90.0; M]);
}

#[test]
fn operands_that_do_not_multiply() {
    refused(
        |t| t.b = zeros(&[K + 1, N]),
        "A of shape [6, 4] and B of shape [5, 10] differ in K: A is [M, K], B is [K, N]",
    );
    refused(|t| t.a = zeros(&[K]), "A has shape [4]: give a matrix, or a batch of matrices with the batch axis first");
    refused(
        |t| {
            t.a = zeros(&[2, M, K]);
            t.b = zeros(&[3, K, N]);
        },
        "A has 2 batches and B has 3: give both the same number, or one of them no batch axis",
    );
    refused(|t| t.a = Device::cpu().zeros::<f64>([M, K]).unwrap(), "A holds f64; this GEMM was planned for f32");
}

#[test]
fn arguments_of_the_wrong_shape_or_type() {
    refused(|t| t.c = zeros(&[N, M]), "argument `c` has shape [10, 6]; needed is [6, 10]");
    refused(|t| t.d = zeros(&[M, N, 1]), "argument `d` has shape [6, 10, 1]; needed is [6, 10]");
    refused(|t| t.sums = zeros(&[N]), "argument `sums` has shape [10]; needed is [6]");
    refused(|t| t.partial = zeros(&[7, M]), "argument `partial` has shape [7, 6]; needed is [1, 6]");
    refused(
        |t| t.c = Device::cpu().zeros::<i8>([M, N]).unwrap(),
        "argument `c` holds i8; `example` has f32 there (write `Tensor<i8>` to have it)",
    );
    refused(
        |t| t.sums = Device::cpu().zeros::<f64>([M]).unwrap(),
        "argument `sums` holds f64; `example` has f32 there (write `ColumnVector<f64>` to have it)",
    );
    refused(
        |t| t.r = Device::cpu().zeros::<f64>([M, N]).unwrap(),
        "argument `r` holds f64; `example` has f32 there (write `TensorMut<f64>` to have it)",
    );
    refused(
        |t| t.partial = Device::cpu().zeros::<f64>([1, M]).unwrap(),
        "argument `partial` holds f64; `example` has f32 there (per-tile partials are f32: give a tensor of that)",
    );
    refused(|t| t.a = zeros(&[3, M, K]), "argument `d` has shape [6, 10]; needed is [3, 6, 10]");
}

#[test]
fn memory_that_is_shared() {
    refused(|t| t.d = t.r.clone(), "outputs `d` and `r` overlap in memory: give each its own");
    refused(
        |t| t.d = t.c.clone(),
        "output `d` overlaps `c`, which is read meanwhile: give it memory of its own, or declare one `TensorMut` for both, which \
         is updated in place: assign to that and return it",
    );
    refused(
        |t| {
            let both = zeros(&[M, N + K]);
            t.a = both.slice(1, N - 1..N - 1 + K).unwrap();
            t.d = both.slice(1, 0..N).unwrap();
        },
        "output `d` overlaps `A`, which is read meanwhile: give it memory of its own",
    );
    refused(
        |t| t.d = zeros(&[1, N]).broadcast_to([M, N]).unwrap(),
        "output `d` reaches some element by two indices (a broadcast view): give one that does not",
    );
}

#[test]
fn neighbours_in_one_buffer_are_not_shared_memory() {
    let device = Device::cpu();
    let gemm = plan(&device);
    let mut tensors = Tensors::new(&device, &gemm);
    let both = zeros(&[M, 2 * N]);
    tensors.c = both.slice(1, 0..N).unwrap();
    tensors.d = both.slice(1, N..2 * N).unwrap();
    tensors.run(&gemm).unwrap();
    assert_eq!(tensors.d.to_vec::<f32>().unwrap(), vec![8.0; M * N]);
}

#[test]
fn the_wrong_number_and_kind_of_arguments() {
    let device = Device::cpu();
    let gemm = plan(&device);
    let tensors = Tensors::new(&device, &gemm);
    let run = |arguments: &[Argument<'_>]| {
        gemm.run_arguments(&device.default_stream(), &tensors.a, &tensors.b, arguments).unwrap_err().to_string()
    };
    assert_eq!(
        run(&[Argument::Scalar(1.0)]),
        "1 arguments were given, and `example` has 6: c, alpha, r, d, sums, partial"
    );
    let all = || {
        [
            Argument::Scalar(1.0),
            Argument::Scalar(1.0),
            Argument::Scalar(1.0),
            Argument::Scalar(1.0),
            Argument::Scalar(1.0),
            Argument::Scalar(1.0),
        ]
    };
    assert_eq!(run(&all()), "argument `c` is a scalar, and a tensor to read is needed");
}

/// Arguments by name: in any order, all of them, each once, and no others.
#[test]
fn arguments_by_name() {
    let device = Device::cpu();
    let gemm = plan(&device);
    let stream = device.default_stream();
    let mut tensors = Tensors::new(&device, &gemm);
    let Tensors { a, b, c, r, d, sums, partial } = &mut tensors;
    let named = [
        ("partial", Argument::from(&mut *partial)),
        ("r", Argument::from(&mut *r)),
        ("alpha", Argument::Scalar(2.0)),
        ("sums", Argument::from(&mut *sums)),
        ("c", Argument::from(&*c)),
        ("d", Argument::from(&mut *d)),
    ];
    gemm.run_bound(&stream, a, b, named).unwrap();
    assert_eq!(tensors.d.to_vec::<f32>().unwrap(), vec![9.0; M * N]);
    assert_eq!(tensors.sums.to_vec::<f32>().unwrap(), vec![90.0; M]);

    let before = tensors.outputs();
    let Tensors { a, b, c, r, d, sums, partial } = &mut tensors;
    let (a, b) = (&*a, &*b);
    let end = "; the arguments of `example` are c, alpha, r, d, sums, partial";
    let mut refused = |names: &[&str], expected: &str| {
        let mut left = [&mut *r, &mut *d, &mut *sums, &mut *partial].map(Some);
        let arguments = names.iter().map(|name| {
            let output = ["r", "d", "sums", "partial"].iter().position(|output| output == name);
            match output.and_then(|output| left[output].take()) {
                Some(output) => (*name, Argument::from(output)),
                None if *name == "alpha" => (*name, Argument::Scalar(2.0)),
                None => (*name, Argument::from(&*c)),
            }
        });
        let arguments: Vec<_> = arguments.collect();
        let error = gemm.run_bound(&stream, a, b, arguments).unwrap_err();
        assert!(matches!(&error, Error::ArgumentNames { names, .. } if names.len() == 6), "{error:?}");
        assert_eq!(error.to_string(), format!("{expected}{end}"));
    };
    refused(&["c", "alpha", "r", "d", "sums"], "nothing is given for `partial`");
    refused(&["r", "partial", "sums", "alpha"], "nothing is given for `c`, `d`");
    refused(&[], "nothing is given for `c`, `alpha`, `r`, `d`, `sums`, `partial`");
    refused(&["c", "alpha", "r", "d", "sums", "partial", "c"], "argument `c` is given twice");
    refused(&["c", "d", "d"], "argument `d` is given twice");
    refused(&["c", "alpha", "r", "d", "sums", "partial", "bias"], "no argument is named `bias`");
    refused(&["c", "alpha", "r", "d", "sum", "partial"], "no argument is named `sum`");
    refused(&["A", "c", "alpha", "r", "d", "sums", "partial"], "no argument is named `A`");
    assert_eq!(tensors.outputs(), before, "something was written");
}

#[test]
fn plans_that_can_not_be() {
    let device = Device::cpu();
    let builder = || Builder::<()>::new(&device, tree());
    let text = |result: Result<Gemm, Error>| result.expect_err("no such plan").to_string();
    assert_eq!(text(builder().plan()), "the plan lacks the element types: call `.elements(…)` before `.plan()`");
    let f32s = builder().elements(ElementType::F32, ElementType::F32);
    assert_eq!(text(f32s.clone().plan()), "the plan lacks the extents: call `.problem(…)` before `.plan()`");
    let huge = f32s.problem(usize::MAX, 1, 1);
    assert_eq!(
        text(huge.plan()),
        "M is 18446744073709551615; the largest possible is 2147482624: split the product along M"
    );
    let f16s = builder().elements(ElementType::F16, ElementType::F16).problem(M, N, K);
    assert_eq!(
        text(f16s.arithmetic(Arithmetic::Tf32).plan()),
        "TF32 is an arithmetic of f32 operands, and A holds f16"
    );
}

/// A device without kernels says what it does in words, and names no kernel.
#[test]
fn the_cpu_says_what_runs_there() {
    let gemm = plan(&Device::cpu());
    let (rows, columns) = gemm.choice().tile();
    let words = gemm.source();
    assert!(words.starts_with("// The epilogue `example` ("), "{words}");
    assert!(words.contains(&format!("tiles of {rows}x{columns}")), "{words}");
    assert!(words.lines().all(|line| line.starts_with("//")), "it is a comment: {words}");
    for output in gemm.tree().outputs() {
        assert!(words.contains(&format!("//     {} = ", output.name)), "{words}");
    }
    assert!(gemm.kernel_source().is_none());
}

/// Knobs of kernels are not ignored silently, and requests must make sense.
#[test]
fn requests_that_the_cpu_has_no_kernels_for() {
    let device = Device::cpu();
    let builder = || Builder::<()>::new(&device, tree()).elements(ElementType::F16, ElementType::F16).problem(M, N, K);
    let text = |builder: Builder| builder.plan().expect_err("no such plan").to_string();
    let end = "has no effect on the CPU, which runs no kernels: leave it out, or call `.ignore_unsupported_knobs()`, for \
               plans that are described once for several devices";
    let requests = [
        builder().split_k(SplitK::Serial(3)),
        builder().stages(3),
        builder().sm90(sm90::Request::default()),
        builder().sm90(sm90::Request { swap_ab: Some(true), ..sm90::Request::default() }),
        builder().multiprocessors(4),
        builder().fast_math(true),
        builder().dependent_launch(true),
    ];
    for request in requests {
        assert!(text(request.clone()).ends_with(end), "{}", text(request));
        let plan = request.ignore_unsupported_knobs().plan().unwrap();
        assert_eq!(plan.choice().to_string(), builder().plan().unwrap().choice().to_string());
    }
    assert!(builder().split_k(SplitK::None).plan().is_ok());
    let tile = |m, n| builder().tile(Tile { m, n, k: 0, warp_m: 0, warp_n: 0, stages: 0 });
    assert!(text(tile(0, 64)).starts_with("the tile's number of rows is 0; it must be from 1 to "));
    assert!(text(tile(64, usize::MAX)).starts_with("the tile's number of columns is 18446744073709551615"));
    assert_eq!(tile(2, 3).plan().unwrap().partials_shape("partial").unwrap(), [N.div_ceil(3), M]);
    let layout = OperandLayout { major: Major::K, copy_bytes: 3 };
    assert!(text(builder().layouts(layout, layout)).starts_with("A is to be copied 3 bytes at a time"));
}

/// The model can rank kernels for every product that can be asked for.
#[test]
fn extents_up_to_the_largest_are_chosen_for() {
    let devices = [
        Device::cpu(),
        Device::emulated(epilogue_runtime::Arch::SM_80).unwrap(),
        Device::emulated(epilogue_runtime::Arch::SM_90A).unwrap(),
    ];
    let extents = [0, 1, 130, 1 << 20, MAX_EXTENT - 1, MAX_EXTENT];
    let of = |seed: usize| [0, 1, 2, 3].map(|axis| extents[seed / extents.len().pow(axis) % extents.len()]);
    for (device, seed) in devices.iter().flat_map(|device| (0..extents.len().pow(4)).map(move |seed| (device, seed))) {
        let [m, n, k, batch] = of(seed);
        let builder = Builder::<()>::new(device, tree()).elements(ElementType::F16, ElementType::F16);
        let choice = builder.problem(m, n, k).batch(batch).choose().expect("a kernel");
        let time = choice.kernel().map_or(0.0, |kernel| kernel.microseconds);
        assert!(time.is_finite() && time >= 0.0, "{device}: {m}x{n}x{k}, {batch} times: {choice}");
    }
}

/// No kernel is compiled for these requests: they are refused before.
#[test]
fn kernels_that_can_not_be() {
    let device = Device::emulated(epilogue_runtime::Arch::SM_80).unwrap();
    let builder = |a, b| Builder::<()>::new(&device, tree()).elements(a, b).problem(M, N, K);
    let text = |result: Result<epilogue::gemm::Choice, Error>| result.expect_err("no such kernel").to_string();
    let mixed = builder(ElementType::F16, ElementType::BF16);
    assert!(text(mixed.choose()).contains("A of f16 and B of bf16 can't be multiplied"));
    let words = builder(ElementType::I32, ElementType::I32);
    assert!(text(words.choose()).ends_with("give f16, bf16, f32, f64, FP8 or 8-bit integers"));
    let f16s = builder(ElementType::F16, ElementType::F16);
    let tile = Tile { m: 48, n: 48, k: 32, warp_m: 16, warp_n: 16, stages: 3 };
    assert!(text(f16s.clone().tile(tile).choose()).starts_with("mma.m16n8k16 f16 kernels don't come in tile 48x48x32"));
    assert_eq!(text(f16s.clone().stages(9).choose()), "the number of stages is 9; it must be from 2 to 8");
    assert_eq!(text(f16s.clone().stages(0).choose()), "the number of stages is 0; it must be from 2 to 8");
    assert_eq!(
        text(f16s.clone().split_k(SplitK::Serial(0)).choose()),
        "the number of splits of K is 0; it must be from 1 to 256"
    );
    let hopper = Device::emulated(epilogue_runtime::Arch::SM_90A).unwrap();
    let on_hopper = Builder::<()>::new(&hopper, tree()).elements(ElementType::F16, ElementType::F16).problem(M, N, K);
    assert!(
        text(on_hopper.multiprocessors(0).choose())
            .starts_with("the number of multiprocessors is 0; it must be from 1 to ")
    );
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        f16s.choose().unwrap();
    }
    assert!(begun.elapsed().as_millis() < 20 * 20, "choosing takes well under 20 ms even in a debug build");
}

/// An epilogue's type need not be printable, and a plan's signature needs no names of other crates.
#[test]
fn plans_and_builders_ask_nothing_of_their_epilogue() {
    fn twice<E>(builder: &Builder<E>, gemm: &Gemm<E>) -> (Builder<E>, Gemm<E>, [String; 2]) {
        (builder.clone(), gemm.clone(), [format!("{builder:?}"), format!("{gemm:?}")])
    }
    struct Named<'a> {
        stream: Stream,
        kernel: Option<&'a Kernel>,
        source: Option<&'a Source>,
        properties: &'a runtime::Properties,
        record: fn(&Stream) -> Result<Event, runtime::Error>,
    }
    let device = Device::cpu();
    let builder =
        Builder::<()>::new(&device, tree()).elements(ElementType::F32, ElementType::F32).problem(M, N, K).clone();
    let (again, gemm, texts) = twice(&builder, &plan(&device));
    assert!(texts[0].contains("problem") && texts[1].contains("settings"), "{texts:?}");
    assert_eq!(again.choose().unwrap().to_string(), gemm.choice().to_string());
    let named = Named {
        stream: device.default_stream(),
        kernel: gemm.kernel(),
        source: gemm.kernel_source(),
        properties: device.properties(),
        record: Stream::record,
    };
    assert!(named.kernel.is_none() && named.source.is_none() && named.properties.arch.is_none());
    assert!(named.stream.device() == &device);
    let _ = named.record;
}
