//! One plan, used from several threads at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use epilogue::evt::{BroadcastClass, Tree, TreeBuilder};
use epilogue::gemm::{Builder, SplitK};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType, Gemm, te};
use epilogue_runtime::testing;

fn plain() -> Tree {
    let mut builder = TreeBuilder::new("plain", file!());
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, Some(ElementType::F32));
    builder.finish()
}

/// A product of two matrices of ones, with `extent` rows and columns.
struct Ones {
    ones: DeviceTensor,
    d: DeviceTensor,
    extent: usize,
}

impl Ones {
    /// If `padded`, tensor copies can't load the operands.
    fn new(device: &Device, extent: usize, padded: bool) -> Self {
        let memory = device.full::<half::f16>([extent, extent + 1], half::f16::ONE).expect("memory");
        let ones = memory.slice(1, 0..extent).expect("a view");
        let ones = if padded { ones } else { ones.contiguous().expect("memory") };
        Self { ones, d: device.zeros::<f32>([extent, extent]).expect("memory"), extent }
    }

    fn run(&mut self, gemm: &Gemm) {
        let arguments = [Argument::Output(&mut self.d)];
        gemm.run_arguments(&gemm.device().default_stream(), &self.ones, &self.ones, &arguments).expect("a run");
    }

    fn check(&self) {
        let d = self.d.to_vec::<f32>().expect("values");
        assert!(d.iter().all(|x| *x == self.extent as f32), "{} ones", self.extent);
    }
}

/// An extent whose product takes an emulated GPU some seconds.
const LONG: usize = 768;

/// A run waits for no other run, neither for its workspace nor for its copies of operands.
#[test]
fn a_long_run_holds_no_short_one_up() {
    if testing::compiler("a_long_run_holds_no_short_one_up").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_90A).expect("an emulated device");
    let builder = Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16).problem(64, 64, 64);
    let gemm =
        builder.sm90(epilogue::gemm::sm90::Request::default()).split_k(SplitK::Serial(2)).plan().expect("a plan");
    let (mut long, mut short) = (Ones::new(&device, LONG, true), Ones::new(&device, 16, true));
    // Everything is compiled before times are compared.
    short.run(&gemm);
    let (ended, mut meanwhile) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            long.run(&gemm);
            ended.store(true, Ordering::SeqCst);
        });
        // Then the long run has started.
        std::thread::sleep(Duration::from_millis(100));
        while !ended.load(Ordering::SeqCst) {
            short.run(&gemm);
            meanwhile += usize::from(!ended.load(Ordering::SeqCst));
        }
    });
    assert!(meanwhile > 0, "a short run ends while the long one is under way");
    long.check();
    short.check();
}

/// Eight threads on one stream, with operands in different layouts: each run has its own memory.
#[test]
fn threads_with_layouts_of_their_own_get_their_own_results() {
    if testing::compiler("threads_with_layouts_of_their_own_get_their_own_results").is_none() {
        return;
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch).expect("an emulated device");
        let builder = Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16);
        let gemm = builder.problem(64, 64, 64).split_k(SplitK::Parallel(2)).plan().expect("a plan");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let gemm = &gemm;
                scope.spawn(move || {
                    for i in 0..4 {
                        let mut product = Ones::new(gemm.device(), 8 + 3 * thread + 16 * i, (thread + i) % 2 == 0);
                        product.run(gemm);
                        product.check();
                    }
                });
            }
        });
    }
}

/// Handles can be shared between threads.
#[test]
fn handles_are_send_and_sync() {
    const fn shared<T: Send + Sync>() {}
    shared::<Device>();
    shared::<DeviceTensor>();
    shared::<epilogue::Stream>();
    shared::<epilogue::Event>();
    shared::<Gemm>();
    shared::<Builder<()>>();
    shared::<epilogue::Kernel>();
    shared::<epilogue::Graph>();
    shared::<epilogue::bundle::Builder>();
    shared::<te::Kernel>();
    shared::<te::auto::Kernel>();
}

/// A service under load: every thread runs one plan and one kernel of tensor expressions on tensors of its own.
#[test]
fn sixteen_threads_run_ten_thousand_products_each() {
    const THREADS: usize = 16;
    const RUNS: usize = 10_000;
    let device = Device::cpu();
    let gemm = Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16).problem(8, 8, 8);
    let gemm = gemm.plan().expect("a plan");
    let x = te::placeholder([te::var("n")], "x");
    let sum = te::ops::sum(&x, [0]).expect("a sum");
    let sums = te::auto::build(&[&sum]).and_then(|built| built.build(&device)).expect("a kernel");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gemm, sums, device, x, sum) = (&gemm, &sums, &device, &x, &sum);
            scope.spawn(move || {
                let mut product = Ones::new(device, 5 + thread, false);
                let values = device.full::<f32>([64 + thread], 2.0).expect("memory");
                let mut total = device.zeros::<f32>([]).expect("memory");
                for run in 1..=RUNS {
                    product.run(gemm);
                    sums.run_bound(&[(x, (&values).into()), (sum, (&mut total).into())]).expect("a run");
                    if run % 2_000 == 0 {
                        product.check();
                        assert_eq!(total.to_vec::<f32>().expect("values"), [2.0 * (64 + thread) as f32]);
                        product.d = device.zeros::<f32>([product.extent; 2]).expect("memory");
                    }
                }
            });
        }
    });
}
