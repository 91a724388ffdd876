//! Kernels compiled ahead of time: the same bits without a compiler, and errors that say what is missing.

use std::process::Command;

use epilogue::bundle::{Builder as Bundler, Bundle};
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Builder, Error, Major, OperandLayout, Tile};
use epilogue::prelude::*;
use epilogue::{Argument, te};
use epilogue_runtime::testing;

mod here {
    use epilogue::prelude::*;

    #[epilogue]
    pub(super) fn bias_relu(accum: Accum, bias: RowVector<f32>) -> Tensor {
        let d = relu(accum + bias);
        d
    }
}

/// The same function in another place in a file, as a build script would have it.
mod there {
    use epilogue::prelude::*;

    /// On other lines.
    #[epilogue]
    pub(super) fn bias_relu(accum: Accum, bias: RowVector<f32>) -> Tensor {
        let d = relu(accum + bias);
        d
    }
}

const PROBLEM: (usize, usize, usize) = (40, 24, 32);

fn builder<E: Epilogue>(device: &Device) -> Builder<E> {
    let (m, n, k) = PROBLEM;
    Gemm::builder::<E>(device).elements(ElementType::F16, ElementType::F16).problem(m, n, k)
}

/// Values that are not multiples of each other.
fn values(count: usize) -> Vec<f16> {
    (0..count).map(|i| f16::from_f32((i * 7 % 13) as f32 * 0.37 - 2.0)).collect()
}

/// The bytes of D.
fn product(gemm: &Gemm<here::BiasRelu>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let (device, (m, n, k)) = (gemm.device(), PROBLEM);
    let (a, b) = (device.tensor(&values(m * k), [m, k])?, device.tensor(&values(k * n), [k, n])?);
    let bias = device.full::<f32>([n], 0.25)?;
    let mut d = device.zeros::<f16>([m, n])?;
    gemm.run(&a, &b, here::BiasRelu { bias: &bias, d: &mut d })?;
    Ok(d.to_bytes()?)
}

/// A softmax, scheduled automatically.
struct Softmax {
    x: te::Tensor,
    result: te::Tensor,
    kernel: te::auto::Kernel,
}

impl Softmax {
    fn new(device: &Device) -> Result<Self, te::TeError> {
        let (n, m) = (te::var("n"), te::var("m"));
        let x = te::placeholder([n, m], "x");
        let result = te::ops::softmax(&x, 1)?;
        let kernel = te::auto::build(&[&result])?.build(device)?;
        Ok(Self { x, result, kernel })
    }

    fn prepare(&self, rows: usize, columns: usize) -> Result<(), te::TeError> {
        self.kernel.prepare(&[(&self.x, &[rows, columns]), (&self.result, &[rows, columns])])
    }

    fn run(&self, rows: usize, columns: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let device = self.kernel.device();
        let x: Vec<f32> = values(rows * columns).into_iter().map(f32::from).collect();
        let (x, mut y) = (device.tensor(&x, [rows, columns])?, device.zeros::<f32>([rows, columns])?);
        self.kernel.run_bound(&[(&self.x, Argument::Input(&x)), (&self.result, Argument::Output(&mut y))])?;
        Ok(y.to_bytes()?)
    }
}

/// A scheduled program: y = 2x + 1 in blocks of threads.
fn scheduled(device: &Device) -> Result<(te::Kernel, [te::Tensor; 2]), te::TeError> {
    let n = te::var("n");
    let x = te::placeholder([n], "x");
    let y = te::compute([n], "y", |[i]| x.at([i]) * 2.0 + 1.0)?;
    let mut schedule = te::create_schedule(&[&y]);
    let stage = schedule.stage(&y)?;
    let (block, thread) = stage.split(y.axis(0)?, 32)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    Ok((te::lower(&schedule, &[&x, &y], "twice")?.build(device)?, [x, y]))
}

fn run_scheduled(device: &Device) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let (kernel, [x, y]) = scheduled(device)?;
    let (xs, mut ys) = (device.tensor(&[1f32, -2.5, 3.0], [3])?, device.zeros::<f32>([3])?);
    kernel.run_bound(&[(&x, Argument::Input(&xs)), (&y, Argument::Output(&mut ys))])?;
    Ok(ys.to_bytes()?)
}

/// All results on one device.
fn results(device: &Device) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let gemm = builder::<here::BiasRelu>(device).plan()?;
    Ok(vec![product(&gemm)?, Softmax::new(device)?.run(5, 300)?, run_scheduled(device)?])
}

const BUNDLE: &str = "EPILOGUE_TEST_BUNDLE";

/// A process without NVRTC and without a cache runs products and tensor expressions from a bundle, with the same bits
/// as where they are compiled. It refuses what the bundle doesn't have.
#[test]
fn a_process_without_a_compiler_runs_from_a_bundle() {
    const NAME: &str = "bundle::a_process_without_a_compiler_runs_from_a_bundle";
    let archs = [Arch::SM_80, Arch::SM_90A];
    if let Ok(path) = std::env::var(BUNDLE) {
        assert!(epilogue_runtime::Compiler::find().is_err() && epilogue_runtime::KernelCache::of_user().is_none());
        let bundle = Bundle::open(&path).expect("a bundle");
        for arch in archs {
            let device = Device::emulated(arch).expect("a device");
            let refused = results(&device).expect_err("nothing is installed");
            assert!(refused.to_string().contains("NVRTC was not found"), "{refused}");
            bundle.install(&device).expect("it is for this device, too");
            let bits = results(&device).expect("results").concat();
            std::fs::write(format!("{path}.{arch}"), bits).expect("a file");
        }
        return;
    }
    if testing::compiler(NAME).is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("epilogue-bundled-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (bundler, path) = (Bundler::new(), folder.join("kernels.bundle"));
    for arch in archs {
        let target = bundler.emulated_target(arch).expect("a target");
        builder::<there::BiasRelu>(&target).plan().expect("a plan");
        Softmax::new(&target).and_then(|softmax| softmax.prepare(5, 300)).expect("a kernel");
        scheduled(&target).expect("a kernel");
    }
    bundler.write(&path).expect("a file");
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME, "--nocapture"])
        .env(BUNDLE, &path)
        .env("EPILOGUE_NVRTC", folder.join("no-such-library.so"))
        .env("EPILOGUE_CACHE", "off")
        .output()
        .expect("a process");
    assert!(
        child.status.success(),
        "{}{}",
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr)
    );
    for arch in archs {
        let made = std::fs::read(format!("{}.{arch}", path.display())).expect("the other process's results");
        let device = Device::emulated(arch).expect("a device");
        assert_eq!(made, results(&device).expect("results").concat(), "{arch}");
    }
    std::fs::remove_dir_all(folder).expect("it is there");
}

/// A process without NVRTC runs a kernel that another process compiled, from the cache on disk.
#[test]
fn a_cached_kernel_is_found_where_the_compiler_is_gone() {
    const NAME: &str = "bundle::a_cached_kernel_is_found_where_the_compiler_is_gone";
    const ROLE: &str = "EPILOGUE_TEST_CACHED";
    if let Some(path) = std::env::var_os(ROLE) {
        let device = Device::emulated(Arch::SM_80).expect("a device");
        let bits = results(&device).unwrap_or_else(|error| panic!("{error}")).concat();
        return std::fs::write(path, bits).expect("a file");
    }
    if testing::compiler(NAME).is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("epilogue-cached-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let child = |output: &str, nvrtc: Option<&str>| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", NAME, "--nocapture"]).env("EPILOGUE_CACHE", folder.join("cache"));
        if let Some(nvrtc) = nvrtc {
            child.env("EPILOGUE_NVRTC", folder.join(nvrtc));
        }
        let child = child.env(ROLE, folder.join(output)).output().expect("a process");
        let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
        (child.status.success(), text)
    };
    let (done, text) = child("missing", Some("no-such-library.so"));
    assert!(!done && text.contains("NVRTC was not found"), "{text}");
    for (output, nvrtc) in [("compiled", None), ("found", Some("no-such-library.so"))] {
        let (done, text) = child(output, nvrtc);
        assert!(done, "{output}: {text}");
    }
    let [compiled, found] = ["compiled", "found"].map(|name| std::fs::read(folder.join(name)).expect("results"));
    assert!(!compiled.is_empty() && compiled == found);
    std::fs::remove_dir_all(folder).expect("it is there");
}

fn installed(bundler: &Bundler, device: &Device) {
    Bundle::from_bytes(bundler.to_bytes()).expect("a bundle").install(device).expect("kernels for it");
}

fn missing(result: Result<Gemm<here::BiasRelu>, Error>) -> String {
    match result {
        Err(Error::Runtime(error @ epilogue_runtime::Error::NotInBundle { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Without a request, a plan takes the best kernel that the bundle has, and says so. A requested kernel that the bundle
/// doesn't have is refused by name, and so are other types.
#[test]
fn a_plan_chooses_among_what_the_bundle_has() {
    if testing::compiler("a_plan_chooses_among_what_the_bundle_has").is_none() {
        return;
    }
    let (bundler, device) = (Bundler::new(), Device::emulated(Arch::SM_80).expect("a device"));
    let target = bundler.emulated_target(Arch::SM_80).expect("a target");
    let free = builder::<here::BiasRelu>(&target).choose().expect("a choice");
    let worst = free.candidates().last().expect("candidates");
    assert_ne!(worst.key, free.candidates()[0].key);
    builder::<here::BiasRelu>(&target).candidate(worst).plan().expect("a plan");
    let before = product(&builder::<here::BiasRelu>(&device).plan().expect("a plan")).expect("a product");
    installed(&bundler, &device);

    let gemm = builder::<here::BiasRelu>(&device).plan().expect("a plan from the bundle, not the one made before");
    assert_eq!(gemm.choice().kernel().expect("a kernel").key, worst.key);
    let said = gemm.choice().to_string();
    assert!(said.contains("the best that the bundle holds: the model ranks"), "{said}");
    assert_eq!(product(&gemm).expect("a product"), before);

    let asked = builder::<here::BiasRelu>(&device).tile(*tile_of(&free)).plan();
    let said = missing(asked);
    assert!(said.contains("`bias_relu_f16_") && said.contains("for an emulated sm_80"), "{said}");
    let said = missing(builder::<here::BiasRelu>(&device).elements(ElementType::BF16, ElementType::BF16).plan());
    assert!(said.contains("`bias_relu_bf16_") && said.contains("none has this name"), "{said}");
    // A run whose operands lie in another way, and which is worth another kernel.
    let (a, b) = (device.zeros::<f16>([320, 321]), device.zeros::<f16>([321, 320]));
    let (a, b, bias) = (a.expect("a"), b.expect("b"), device.zeros::<f32>([320]).expect("bias"));
    let mut d = device.full::<f16>([320, 320], f16::ONE).expect("d");
    let refused = gemm.run(&a, &b, here::BiasRelu { bias: &bias, d: &mut d }).expect_err("it isn't there");
    assert!(refused.to_string().contains("no bundle of this device holds the kernel `bias_relu_f16_"), "{refused}");
    assert!(d.to_vec::<f16>().expect("values").iter().all(|x| *x == f16::ONE), "nothing was written");
}

/// A bundle may list a kernel with a text that this library doesn't write any more. Choosing can't know that. The plan takes
/// the next kernel that is listed, unless the stale one was asked for.
#[test]
fn a_stale_entry_falls_through_to_the_next_candidate() {
    if testing::compiler("a_stale_entry_falls_through_to_the_next_candidate").is_none() {
        return;
    }
    let (bundler, device) = (Bundler::new(), Device::emulated(Arch::SM_80).expect("a device"));
    let target = bundler.emulated_target(Arch::SM_80).expect("a target");
    let choice = builder::<here::BiasRelu>(&device).choose().expect("a choice");
    let (best, other) = (&choice.candidates()[0], choice.candidates().last().expect("candidates"));
    assert_ne!(best.key, other.key);
    let of_candidate = |candidate| {
        let gemm = builder::<here::BiasRelu>(&device).candidate(candidate).plan().expect("a plan");
        (product(&gemm).expect("a product"), gemm.kernel_source().expect("a kernel").clone())
    };
    let ((_, mut stale), (expected, good)) = (of_candidate(best), of_candidate(other));
    stale.code.push_str("static_assert(true, \"another library wrote this\");\n");
    for source in [&stale, &good] {
        target.compile(source).expect("a kernel");
    }
    installed(&bundler, &device);

    let chosen = builder::<here::BiasRelu>(&device).choose().expect("a choice");
    assert_eq!(chosen.kernel().expect("a kernel").key, best.key, "it is listed");
    let gemm = builder::<here::BiasRelu>(&device).plan().expect("a plan");
    assert_eq!(gemm.choice().kernel().expect("a kernel").key, other.key);
    assert!(gemm.choice().to_string().contains("the best that the bundle holds"), "{}", gemm.choice());
    assert_eq!(product(&gemm).expect("a product"), expected);
    let said = missing(builder(&device).candidate(best).plan());
    assert!(said.contains("one of this name is there with another text"), "{said}");
}

fn tile_of(choice: &epilogue::gemm::Choice) -> &Tile {
    match &choice.kernel().expect("a kernel").key {
        epilogue::gemm::KernelKey::Sm80(key) => &key.tile,
        epilogue::gemm::KernelKey::Sm90(_) => panic!("an sm_80 has none"),
    }
}

/// Planning on a target also compiles the copies of operands that come before the plan's runs. A shape that needs a kernel
/// that was not prepared is refused.
#[test]
fn what_runs_begin_with_is_in_the_bundle() {
    if testing::compiler("what_runs_begin_with_is_in_the_bundle").is_none() {
        return;
    }
    let (bundler, device) = (Bundler::new(), Device::emulated(Arch::SM_90A).expect("a device"));
    let target = bundler.emulated_target(Arch::SM_90A).expect("a target");
    let narrow = |major| OperandLayout { major, copy_bytes: 2 };
    let plan = |device: &Device| {
        builder::<here::BiasRelu>(device).sm90(Request::default()).layouts(narrow(Major::K), narrow(Major::Mn)).plan()
    };
    plan(&target).expect("a plan");
    let names: Vec<String> = {
        let bundle = Bundle::from_bytes(bundler.to_bytes()).expect("a bundle");
        bundle.kernels().map(|kernel| kernel.name.to_owned()).collect()
    };
    assert!(names.len() >= 2 && names.iter().any(|name| name.contains("repack")), "{names:?}");
    let softmax = Softmax::new(&target).expect("a kernel");
    softmax.prepare(4, 64).expect("it is compiled");
    installed(&bundler, &device);

    let gemm = plan(&device).expect("a plan");
    let (m, n, k) = (19, 21, 23);
    let (a, b) = (device.tensor(&values(m * k), [m, k]).expect("a"), device.tensor(&values(k * n), [k, n]).expect("b"));
    let (bias, d) = (device.zeros::<f32>([n]).expect("bias"), device.zeros::<f16>([m, 24]).expect("d"));
    let mut view = d.slice(1, 0..n).expect("rows of whole 16 bytes");
    gemm.run(&a, &b, here::BiasRelu { bias: &bias, d: &mut view }).expect("copies, and the product");
    let reference = gemm.reference(&a, &b, here::BiasRelu { bias: &bias, d: &mut view }).expect("a reference");
    reference.compare("d", &view).and_then(epilogue::gemm::Comparison::check).expect("within its bounds");

    let softmax = Softmax::new(&device).expect("a kernel");
    softmax.run(4, 64).expect("it is in the bundle");
    let refused = softmax.run(4, 3000).expect_err("another class").to_string();
    assert!(refused.contains("one of this name is there with another text"), "{refused}");
}

/// Machine code for GPUs that this machine doesn't have.
#[test]
fn targets_compile_for_architectures_that_are_not_here() {
    if testing::compiler("targets_compile_for_architectures_that_are_not_here").is_none() {
        return;
    }
    let bundler = Bundler::new();
    let archs = [Arch::SM_80, Arch::SM_89, Arch::SM_90A];
    for arch in archs {
        let target = bundler.target(arch).expect("a target");
        assert_eq!(target.arch(), Some(arch));
        let gemm = builder::<here::BiasRelu>(&target).plan().expect("a plan");
        assert!(
            product(&gemm).expect_err("nothing runs there").to_string().contains("can't read a tensor without memory")
        );
    }
    let bundle = Bundle::from_bytes(bundler.to_bytes()).expect("a bundle");
    let mut held: Vec<Arch> = bundle.kernels().map(|kernel| kernel.arch).collect();
    held.sort_unstable();
    assert_eq!(held, archs);
    let refused = bundle.install(&Device::emulated(Arch::SM_80).expect("a device")).expect_err("it runs PTX");
    assert!(refused.to_string().contains("it holds kernels for sm_80, sm_89, sm_90a"), "{refused}");
}
