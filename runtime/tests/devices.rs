//! The same programs on every device of this machine that runs kernels: the emulated ones, and GPUs where there are any.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "devices/graphs.rs"]
mod graphs;
#[path = "devices/ranks.rs"]
mod ranks;

use std::path::PathBuf;
use std::process::Command;

use cudarc::driver::{CudaContext, DevicePtr as _};
use epilogue_runtime::bundle::{Builder, Bundle};
use epilogue_runtime::{
    Arch, DataError, Device, DeviceKind, DeviceTensor, ElementType, Error, ExchangeError, Kernel, KernelArgument,
    L2Promotion, Launch, LayoutError, Site, Source, Stream, Swizzle, TensorMap, TiledMap, dlpack, ptx_vm, testing,
};
use proptest::prelude::*;

const KERNELS: &str = r#"
struct Affine { float scale; float shift; double unused; };

extern "C" __global__ void affine(const float* x, float* y, Affine f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f.scale * x[i] + f.shift;
}

extern "C" __global__ void reverse_blocks(float* x) {
    extern __shared__ float tile[];
    int i = threadIdx.x, n = blockDim.x;
    float* mine = x + blockIdx.x * n;
    tile[i] = mine[i];
    __syncthreads();
    mine[i] = tile[n - 1 - i];
}

struct Record { unsigned state, site; unsigned long long kernel; long long value, limit; };
struct Status { Record* record; unsigned long long kernel; };
extern "C" { __device__ Status epilogue_status; }

extern "C" __global__ void pick(const float* x, const int* index, float* y, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int at = index[i];
    if (at >= 0 && at < n) {
        y[i] = x[at];
    } else if (atomicCAS(&epilogue_status.record->state, 0u, 1u) == 0u) {
        Record* record = epilogue_status.record;
        record->site = 1;
        record->kernel = epilogue_status.kernel;
        record->value = at;
        record->limit = n;
        __threadfence_system();
        atomicExch(&record->state, 2u);
    }
}

extern "C" __global__ void spin(unsigned long long* out, unsigned n) {
    unsigned long long h = 1469598103934665603ull;
    for (unsigned i = 0; i < n; ++i) h = (h ^ i) * 1099511628211ull;
    *out = h;
}
"#;

/// Set in the processes that `the_cuda_code_runs_without_a_gpu` starts.
const ON_FAKE_DRIVER: &str = "EPILOGUE_TEST_ON_FAKE_DRIVER";

/// Set in the process that `a_gpu_runs_machine_code_from_a_bundle` starts: the bundle.
const FROM_BUNDLE: &str = "EPILOGUE_TEST_FROM_BUNDLE";

fn has_no_compiler() -> bool {
    epilogue_runtime::Compiler::find().is_err() && epilogue_runtime::KernelCache::of_user().is_none()
}

/// The devices to test on, or none where kernels can't be compiled.
fn devices(test: &str) -> Vec<Device> {
    if let Some(path) = std::env::var_os(FROM_BUNDLE) {
        assert!(has_no_compiler(), "nothing may be compiled");
        let device = Device::cuda(0).unwrap();
        Bundle::open(path).unwrap().install(&device).unwrap();
        return vec![device];
    }
    if testing::compiler(test).is_none() {
        return Vec::new();
    }
    if std::env::var_os(ON_FAKE_DRIVER).is_some() {
        let device = Device::cuda(0).unwrap();
        assert_eq!(device.properties().name, "fake A100");
        return vec![device];
    }
    let emulated = [Arch::SM_80, Arch::SM_90A].map(|arch| Device::emulated(arch).unwrap());
    emulated.into_iter().chain(Device::cuda(0)).collect()
}

fn source(entry: &str) -> Source {
    Source::new("kernels.cu", entry, KERNELS)
}

/// The bytes of `struct Affine`.
fn affine(scale: f32, shift: f32) -> Vec<u8> {
    [&scale.to_ne_bytes()[..], &shift.to_ne_bytes(), &[0; 8]].concat()
}

#[test]
fn kernels_compute() {
    for device in devices("kernels_compute") {
        let kernel = device.compile(&source("affine")).unwrap();
        let n = 1000usize;
        let host: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let x = device.tensor(&host, [n]).unwrap();
        let y = device.zeros::<f32>([n]).unwrap();
        let launch = Launch { grid: [8, 1, 1], block: [128, 1, 1], ..Launch::default() };
        let (parameters, count) = (affine(2.0, -1.0), (n as i32).to_ne_bytes());
        let arguments = [
            KernelArgument::Input(&x),
            KernelArgument::Output(&y),
            KernelArgument::Value(&parameters),
            KernelArgument::Value(&count),
        ];
        kernel.launch(&launch, &arguments, &device.default_stream()).unwrap();
        let expected: Vec<f32> = host.iter().map(|x| 2.0 * x - 1.0).collect();
        assert_eq!(y.to_vec::<f32>().unwrap(), expected, "{device}");
        assert!(kernel.ptx().contains(".entry affine"));
        if device.emulator().is_none() {
            assert!(kernel.registers().unwrap() > 0 && kernel.spill_bytes() == Some(0));
            assert!(kernel.blocks_per_multiprocessor(&launch).unwrap().unwrap() > 0);
        }
    }
}

#[test]
fn dynamic_shared_memory_beyond_48_kib() {
    for device in devices("dynamic_shared_memory_beyond_48_kib") {
        let kernel = device.compile(&source("reverse_blocks")).unwrap();
        let x = device.tensor(&(0..2048).map(|i| i as f32).collect::<Vec<_>>(), [2, 1024]).unwrap();
        let launch = Launch { grid: [2, 1, 1], block: [1024, 1, 1], shared_bytes: 100 << 10, ..Launch::default() };
        kernel.launch(&launch, &[KernelArgument::Output(&x)], &device.default_stream()).unwrap();
        let expected: Vec<f32> = (0..1024).rev().chain((1024..2048).rev()).map(|i| i as f32).collect();
        assert_eq!(x.to_vec::<f32>().unwrap(), expected, "{device}");
    }
}

#[test]
fn streams_are_ordered_by_what_they_use() {
    for device in devices("streams_are_ordered_by_what_they_use") {
        let (spin, add) = (device.compile(&source("spin")).unwrap(), device.compile(&source("affine")).unwrap());
        let streams = [device.default_stream(), device.new_stream().unwrap(), device.new_stream().unwrap()];
        let rounds: u32 = if device.emulator().is_none() { 2_000_000 } else { 200 };
        let slow = device.zeros::<i64>([1]).unwrap();
        let (a, b) = (device.full::<f32>([64], 1.0).unwrap(), device.zeros::<f32>([64]).unwrap());
        let launch = Launch { block: [64, 1, 1], ..Launch::default() };
        let (parameters, count) = (affine(2.0, 1.0), 64i32.to_ne_bytes());
        // A long kernel first on each stream; `a` and `b` then go back and forth between the streams.
        for (i, stream) in streams.iter().enumerate() {
            let arguments = [KernelArgument::Output(&slow), KernelArgument::Value(&rounds.to_ne_bytes())];
            spin.launch(&Launch::default(), &arguments, stream).unwrap();
            let (from, to) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let arguments = [
                KernelArgument::Input(from),
                KernelArgument::Output(to),
                KernelArgument::Value(&parameters),
                KernelArgument::Value(&count),
            ];
            add.launch(&launch, &arguments, stream).unwrap();
        }
        // 1 -> 3 -> 7 -> 15.
        assert_eq!(b.to_vec::<f32>().unwrap(), [15.0; 64], "{device}");
        assert_eq!(a.to_vec::<f32>().unwrap(), [7.0; 64], "{device}");
    }
}

#[test]
fn dropped_buffers_live_until_their_last_use() {
    for device in devices("dropped_buffers_live_until_their_last_use") {
        let (spin, add) = (device.compile(&source("spin")).unwrap(), device.compile(&source("affine")).unwrap());
        let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
        let rounds: u32 = if device.emulator().is_none() { 2_000_000 } else { 200 };
        let launch = Launch { block: [64, 1, 1], ..Launch::default() };
        let (parameters, count) = (affine(1.0, 1.0), 64i32.to_ne_bytes());
        let results: Vec<_> = (0..20)
            .map(|i| {
                let stream = &streams[i % 2];
                let slow = device.zeros::<i64>([1]).unwrap();
                let arguments = [KernelArgument::Output(&slow), KernelArgument::Value(&rounds.to_ne_bytes())];
                spin.launch(&Launch::default(), &arguments, stream).unwrap();
                let x = device.full::<f32>([64], i as f32).unwrap();
                let y = device.zeros::<f32>([64]).unwrap();
                let arguments = [
                    KernelArgument::Input(&x),
                    KernelArgument::Output(&y),
                    KernelArgument::Value(&parameters),
                    KernelArgument::Value(&count),
                ];
                add.launch(&launch, &arguments, stream).unwrap();
                y // `x` and `slow` are dropped while the kernels may still be waiting
            })
            .collect();
        for (i, y) in results.iter().enumerate() {
            assert_eq!(y.to_vec::<f32>().unwrap(), [i as f32 + 1.0; 64], "{device}");
        }
    }
}

/// What a kernel reports reaches the streams and tensors that were there, each once; it stops nothing.
#[test]
fn data_that_a_kernel_cannot_use_is_reported() {
    for device in devices("data_that_a_kernel_cannot_use_is_reported") {
        let mut pick = source("pick");
        let index = |dimension| Site::Index { tensor: "x".to_owned(), dimension };
        pick.sites = vec![index(7), index(0)];
        let x = device.tensor(&[1f32, 2.0, 3.0], [3]).unwrap();
        let launch = Launch { block: [64, 1, 1], ..Launch::default() };
        let (n, streams) = (3i32.to_ne_bytes(), [device.default_stream(), device.new_stream().unwrap()]);
        let weights = device.tensor(&[5f32], [1]).unwrap();
        for (round, (stream, bad)) in streams.iter().cycle().zip([-1, 3, i32::MAX, i32::MIN, 100]).enumerate() {
            let kernel = device.compile(&pick).unwrap();
            let failure = DataError::Index { tensor: "x".to_owned(), dimension: 0, index: bad.into(), extent: 3 };
            let failed = |result: Result<(), Error>| match result {
                Err(Error::Data(said)) => assert_eq!(said, failure, "{device}, round {round}"),
                other => panic!("{device}, round {round}: {other:?}"),
            };
            let run = |indices: &[i32], y: &DeviceTensor| {
                let indices = device.tensor(indices, [indices.len()]).unwrap();
                let count = (indices.len() as i32).to_ne_bytes();
                let arguments = [
                    KernelArgument::Input(&x),
                    KernelArgument::Input(&indices),
                    KernelArgument::Output(y),
                    KernelArgument::Value(&n),
                    KernelArgument::Value(&count),
                ];
                kernel.launch(&launch, &arguments, stream).unwrap();
            };
            let y = device.zeros::<f32>([4]).unwrap();
            run(&[2, bad, 0, bad], &y);
            if round % 2 == 1 {
                // A kernel that is forgotten has reported before.
                drop(kernel.clone());
            }
            failed(stream.synchronize());
            stream.synchronize().unwrap();
            failed(y.to_vec::<f32>().map(drop));
            assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 0.0, 1.0, 0.0], "{device}");
            failed(weights.to_vec::<f32>().map(drop));
            assert_eq!(weights.to_vec::<f32>().unwrap(), [5.0]);
            failed(device.check());
            device.check().unwrap();
            // Nothing is left of it.
            let later = device.zeros::<f32>([2]).unwrap();
            run(&[1, 2], &later);
            assert_eq!(later.to_vec::<f32>().unwrap(), [2.0, 3.0], "{device}");
            run(&[bad], &later);
            drop(kernel);
            failed(later.to_vec::<f32>().map(drop));
            failed(device.check());
            failed(weights.to_vec::<f32>().map(drop));
            failed(stream.synchronize());
            let other = streams.iter().find(|other| other.cuda_handle() != stream.cuda_handle());
            let _ = other.unwrap_or(stream).synchronize();
        }
    }
}

/// Whatever is done here, the thread's current context is the caller's afterwards.
#[test]
fn the_callers_context_stays_current() {
    use cudarc::driver::sys;
    for device in devices("the_callers_context_stays_current") {
        if device.emulator().is_some() {
            continue;
        }
        let current = || {
            let mut context = std::ptr::null_mut();
            // SAFETY: the driver is loaded; a valid place to write to.
            assert_eq!(unsafe { sys::cuCtxGetCurrent(&raw mut context) }, sys::CUresult::CUDA_SUCCESS);
            context
        };
        let before = current();
        let kernel = device.compile(&source("spin")).unwrap();
        let stream = device.new_stream().unwrap();
        let x = device.zeros::<i64>([1]).unwrap();
        let arguments = [KernelArgument::Output(&x), KernelArgument::Value(&7u32.to_ne_bytes())];
        kernel.launch(&Launch::default(), &arguments, &stream).unwrap();
        let event = stream.record().unwrap();
        stream.wait(&event).unwrap();
        event.synchronize().unwrap();
        x.to_vec::<i64>().unwrap();
        device.zeros::<f32>([1 << 50]).unwrap_err();
        kernel.blocks_per_multiprocessor(&Launch::default()).unwrap();
        drop((kernel, stream, x, event));
        assert_eq!(current(), before, "{device}");
    }
}

#[test]
fn impossible_launches_are_refused() {
    for device in devices("impossible_launches_are_refused") {
        let kernel = device.compile(&source("affine")).unwrap();
        let (x, n) = (device.zeros::<f32>([4]).unwrap(), 4i32.to_ne_bytes());
        let stream = device.default_stream();
        let parameters = affine(1.0, 0.0);
        let good = [
            KernelArgument::Output(&x),
            KernelArgument::Reads(&x),
            KernelArgument::Output(&x),
            KernelArgument::Value(&parameters),
            KernelArgument::Value(&n),
        ];
        let one = Launch::default();
        kernel.launch(&one, &good, &stream).unwrap();
        let refusal = |launch: Launch, arguments: &[KernelArgument<'_>]| {
            let error = kernel.launch(&launch, arguments, &stream).unwrap_err();
            assert!(matches!(error, Error::Launch { .. }), "{device}: {error}");
            error.to_string()
        };
        assert!(refusal(one, &good[..4]).contains("takes 4 arguments, and 3 were given"));
        let short = [good[0], good[2], KernelArgument::Value(&n), good[4]];
        assert!(refusal(one, &short).contains("parameter 2 has 16 bytes, and the argument has 4"));
        assert!(refusal(Launch { grid: [0, 1, 1], ..one }, &good).contains("at least 1"));
        assert!(refusal(Launch { grid: [1, 65536, 1], ..one }, &good).contains("larger than"));
        assert!(refusal(Launch { block: [1025, 1, 1], ..one }, &good).contains("1025 threads"));
        assert!(refusal(Launch { shared_bytes: 1 << 20, ..one }, &good).contains("allows"));
        assert!(refusal(Launch { cluster: [2, 1, 1], ..one }, &good).contains("divide"));
        let elsewhere = Device::cpu().zeros::<f32>([4]).unwrap();
        let error = kernel.launch(&one, &[KernelArgument::Input(&elsewhere)], &stream).unwrap_err();
        assert!(matches!(error, Error::Device { .. }), "{error}");
        let error = kernel.launch(&one, &good, &Device::cpu().default_stream()).unwrap_err();
        assert!(matches!(error, Error::Device { .. }), "{error}");
        let missing = device.compile(&source("no_such_kernel")).unwrap_err();
        assert!(!missing.to_string().is_empty());
    }
}

#[test]
fn an_emulated_device_finds_faults() {
    let Some(_) = testing::compiler("an_emulated_device_finds_faults") else { return };
    let device = Device::emulated(Arch::SM_80).unwrap();
    let kernel = device.compile(&source("affine")).unwrap();
    let x = device.zeros::<f32>([4]).unwrap();
    let parameters = affine(1.0, 0.0);
    let arguments = [
        KernelArgument::Input(&x),
        KernelArgument::Output(&x),
        KernelArgument::Value(&parameters),
        KernelArgument::Value(&5i32.to_ne_bytes()),
    ];
    let launch = Launch { block: [32, 1, 1], ..Launch::default() };
    let error = kernel.launch(&launch, &arguments, &device.default_stream()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Emulation { .. }), "{text}");
    assert!(text.contains("the f32 tensor [4]") && text.contains("lane 4"), "{text}");
    let unknown = Device::emulated(Arch::SM_86).unwrap_err();
    assert!(matches!(unknown, Error::Unsupported { .. }), "{unknown}");
    // Each emulated device has memory of its own.
    assert_ne!(device, Device::emulated(Arch::SM_80).unwrap());
}

#[test]
fn an_emulated_device_finds_races() {
    let Some(_) = testing::compiler("an_emulated_device_finds_races") else { return };
    // Without the check for memory never written, which would stop the faulty kernel first.
    let watched = ptx_vm::Options::default().detector(ptx_vm::Detector::On).memory_checks(false);
    let device = Device::emulated_with(Arch::SM_80, watched).unwrap();
    let launch = Launch { grid: [2, 1, 1], block: [128, 1, 1], shared_bytes: 512, ..Launch::default() };
    let run = |code: &str| {
        let kernel = device.compile(&Source::new("kernels.cu", "reverse_blocks", code)).unwrap();
        let x = device.zeros::<f32>([2, 128]).unwrap();
        kernel.launch(&launch, &[KernelArgument::Output(&x)], &device.default_stream())
    };
    run(KERNELS).unwrap();
    let error = run(&KERNELS.replace("__syncthreads();", "")).unwrap_err();
    assert!(matches!(&error, Error::Races { findings, .. } if !findings.is_empty()), "{error}");
    assert!(error.to_string().contains("shared"), "{error}");
}

#[test]
fn every_loaded_kernel_has_variables_of_its_own() {
    const CODE: &str = r#"
__device__ int calls = 0;
extern "C" __global__ void count(int* out) { *out = ++calls; }
"#;
    let Some(_) = testing::compiler("every_loaded_kernel_has_variables_of_its_own") else { return };
    let device = Device::emulated(Arch::SM_80).unwrap();
    let out = device.zeros::<i32>([1]).unwrap();
    let stream = device.default_stream();
    for _ in 0..2 {
        let kernel = device.compile(&Source::new("count.cu", "count", CODE)).unwrap();
        for expected in 1..3 {
            kernel.launch(&Launch::default(), &[KernelArgument::Output(&out)], &stream).unwrap();
            assert_eq!(out.to_vec::<i32>().unwrap(), [expected]);
        }
    }
}

#[test]
fn borrowed_memory_and_streams() {
    for device in
        devices("borrowed_memory_and_streams").into_iter().filter(|d| matches!(d.kind(), DeviceKind::Cuda { .. }))
    {
        let kernel = device.compile(&source("affine")).unwrap();
        let owner = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).unwrap();
        let stream = device.new_stream().unwrap();
        // SAFETY: `owner` and `stream` outlive what is borrowed from them.
        let (borrowed, on) = unsafe {
            let address = owner.device_address();
            let view = DeviceTensor::from_raw_cuda(&device, address, ElementType::F32, [3, 2], [1, 3]);
            (view.unwrap(), Stream::borrow(&device, stream.cuda_handle().unwrap()).unwrap())
        };
        assert!(borrowed.overlaps(&owner));
        assert_eq!(borrowed.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let result = device.zeros::<f32>([6]).unwrap();
        let (parameters, count) = (affine(10.0, 0.0), 6i32.to_ne_bytes());
        let arguments = [
            KernelArgument::Input(&borrowed),
            KernelArgument::Output(&result),
            KernelArgument::Value(&parameters),
            KernelArgument::Value(&count),
        ];
        kernel.launch(&Launch { block: [32, 1, 1], ..Launch::default() }, &arguments, &on).unwrap();
        drop(borrowed);
        assert_eq!(result.to_vec::<f32>().unwrap(), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        // SAFETY: refused before anything is read.
        let refused = |address, strides: [isize; 1]| unsafe {
            DeviceTensor::from_raw_cuda(&device, address, ElementType::F32, [2], strides).unwrap_err()
        };
        let address = owner.device_address();
        assert!(matches!(refused(address + 2, [1]), Error::Layout(LayoutError::Misaligned { .. })));
        assert!(matches!(refused(address, [-1]), Error::Layout(LayoutError::NegativeStride { .. })));
    }
}

/// `y = scale·x` of `count` numbers, on a stream.
fn scale(kernel: &Kernel, by: f32, x: &DeviceTensor, y: &DeviceTensor, on: &Stream) -> Result<(), Error> {
    let (parameters, count) = (affine(by, 0.0), (x.len() as i32).to_ne_bytes());
    let (input, output) = (KernelArgument::Input(x), KernelArgument::Output(y));
    let arguments = [input, output, KernelArgument::Value(&parameters), KernelArgument::Value(&count)];
    kernel.launch(&Launch { block: [32, 1, 1], ..Launch::default() }, &arguments, on)
}

#[test]
fn dlpack_of_a_gpu() {
    for device in devices("dlpack_of_a_gpu").into_iter().filter(|d| matches!(d.kind(), DeviceKind::Cuda { .. })) {
        let kernel = device.compile(&source("affine")).unwrap();
        let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
        let (y, z) = (device.zeros::<f32>([2, 2]).unwrap(), device.zeros::<f32>([2, 2]).unwrap());
        let place = y.device_address();
        scale(&kernel, 2.0, &x, &y, &device.new_stream().unwrap()).unwrap();
        // The pending work is waited for, since whoever takes it doesn't know of it.
        let given = y.to_dlpack().unwrap();
        drop(y);
        // SAFETY: it comes from this library, and nobody else writes it.
        let back = unsafe { device.take_dlpack(given) }.unwrap();
        assert_eq!(back.device_address(), place);
        // Nor does its maker know of the streams that it is used on, when it is released.
        scale(&kernel, 10.0, &back, &z, &device.new_stream().unwrap()).unwrap();
        drop(back);
        assert_eq!(z.to_vec::<f32>().unwrap(), [20.0, 40.0, 60.0, 80.0]);

        // SAFETY: refused before anything is read.
        let shown = unsafe { Device::cpu().take_dlpack(x.to_dlpack().unwrap()) }.unwrap_err();
        assert!(shown.to_string().contains("device 0 of DLPack's type 2 (1: CPU, 2: CUDA), and the CPU"), "{shown}");
        let mut marked = x.to_dlpack().unwrap().into_raw();
        // SAFETY: a valid structure, which is this function's.
        let read_only = unsafe {
            marked.as_mut().flags = dlpack::DLManagedTensorVersioned::READ_ONLY;
            device.take_dlpack(dlpack::Owned::from_raw(marked)).unwrap()
        };
        let refused = scale(&kernel, 1.0, &x, &read_only, &device.default_stream());
        assert!(matches!(refused, Err(Error::Exchange(ExchangeError::ReadOnly))));
        assert!(matches!(read_only.clone().copy_from(&[0.0f32; 4]), Err(Error::Exchange(ExchangeError::ReadOnly))));
        let values = [0.0f32];
        assert!(matches!(device.scope(|scope| scope.borrow(&values, [1])), Err(Error::Unsupported { .. })));
    }
}

#[test]
fn cudarc_slices_and_streams() {
    for device in
        devices("cudarc_slices_and_streams").into_iter().filter(|d| matches!(d.kind(), DeviceKind::Cuda { .. }))
    {
        let kernel = device.compile(&source("affine")).unwrap();
        let context = CudaContext::new(0).unwrap();
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        // cudarc relies on copies of pageable memory being done at once, which the fake driver's are not.
        let (before, values, mut after) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0, 7.0, 8.0], [0.0f32; 4]);
        let mut theirs = first.clone_htod(&before).unwrap();
        // Pending work on another of cudarc's streams than the slice's own.
        second.memcpy_htod(&values, &mut theirs).unwrap();
        let place = theirs.device_ptr(&first).0;
        let x = device.take_cuda_slice(theirs, [2, 2]).unwrap();
        assert_eq!(x.device_address(), place);
        let y = device.zeros::<f32>([2, 2]).unwrap();
        let on = Stream::of_cudarc(&device, &second).unwrap();
        scale(&kernel, 2.0, &x, &y, &device.new_stream().unwrap()).unwrap();
        scale(&kernel, 10.0, &y, &x, &on).unwrap();
        drop((on, second));
        let view = x.transpose().unwrap();
        let kept = x.into_cuda_slice::<f32>().unwrap_err();
        assert!(matches!(kept.reason, Error::Exchange(ExchangeError::InUse)));
        drop(view);
        let back = kept.tensor.into_cuda_slice::<f32>().unwrap();
        // On any stream of cudarc's.
        let third = context.new_stream().unwrap();
        third.memcpy_dtoh(&back, &mut after).unwrap();
        third.synchronize().unwrap();
        assert_eq!(after, [100.0, 120.0, 140.0, 160.0]);
        assert_eq!(back.device_ptr(&first).0, place);

        // What is taken lives as long as it is used.
        let x = device.take_cuda_slice(back, [4]).unwrap();
        scale(&kernel, 0.5, &x, &y, &device.new_stream().unwrap()).unwrap();
        drop(x);
        assert_eq!(y.to_vec::<f32>().unwrap(), [50.0, 60.0, 70.0, 80.0]);

        let short = device.take_cuda_slice(first.clone_htod(&before[..1]).unwrap(), [2]).unwrap_err();
        assert!(matches!(short, Error::Layout(LayoutError::DataLength { needed: 2, given: 1, .. })));
        let ours = y.into_cuda_slice::<f32>().unwrap_err();
        assert!(matches!(ours.reason, Error::Exchange(ExchangeError::NotTaken { .. })));
        let cpu = Stream::of_cudarc(&Device::cpu(), &first).unwrap_err();
        assert!(matches!(cpu, Error::Unsupported { .. }));
        first.synchronize().unwrap(); // while `before` lives
    }
}

/// Work in a scope comes after cudarc's earlier work on any of its streams, and before its later work.
#[test]
fn a_scope_borrows_memory_of_cudarc() {
    for device in
        devices("a_scope_borrows_memory_of_cudarc").into_iter().filter(|d| matches!(d.kind(), DeviceKind::Cuda { .. }))
    {
        let kernel = device.compile(&source("affine")).unwrap();
        let context = CudaContext::new(0).unwrap();
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let (before, values, mut after) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0, 7.0, 8.0], [0.0f32; 4]);
        let mut theirs = first.clone_htod(&before).unwrap();
        second.memcpy_htod(&values, &mut theirs).unwrap();
        let mut result = second.alloc_zeros::<f32>(4).unwrap();
        let place = theirs.device_ptr(&first).0;
        let (left, written) = device.scope(|scope| {
            let x = scope.borrow_cuda(theirs.as_view(), [2, 2]).unwrap();
            assert_eq!(x.device_address(), place, "in place");
            let y = scope.borrow_cuda_mut(result.as_view_mut(), [2, 2]).unwrap();
            scale(&kernel, 10.0, &x, &y, &device.new_stream().unwrap()).unwrap();
            // Read by the host within the scope.
            let part = scope.borrow_cuda_strided(theirs.slice(1..), [2], [2]).unwrap();
            assert_eq!(part.to_vec::<f32>().unwrap(), [6.0, 8.0]);
            assert!(matches!(x.to_dlpack(), Err(Error::Exchange(ExchangeError::Borrowed))));
            let refused = scale(&kernel, 1.0, &y, &x, &device.default_stream());
            assert!(matches!(refused, Err(Error::Exchange(ExchangeError::ReadOnly))), "{refused:?}");
            (x, y)
        });
        // cudarc's later work comes after it, on any of its streams.
        let third = context.new_stream().unwrap();
        third.memcpy_dtoh(&result, &mut after).unwrap();
        third.memcpy_htod(&before, &mut theirs).unwrap();
        third.synchronize().unwrap();
        assert_eq!(after, [50.0, 60.0, 70.0, 80.0]);

        // What has left the scope has no memory.
        let ended = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::Exchange(ExchangeError::Ended))), "{result:?}");
        };
        let ours = device.zeros::<f32>([2, 2]).unwrap();
        ended(left.to_vec::<f32>().map(drop));
        ended(written.clone().copy_from(&before));
        ended(scale(&kernel, 1.0, &left, &ours, &device.default_stream()));
        ended(scale(&kernel, 1.0, &ours, &written, &Stream::of_cudarc(&device, &third).unwrap()));
        let recorded = device.capture(|stream| scale(&kernel, 1.0, &left, &ours, stream));
        ended(recorded.and_then(|graph| graph.launch(&device.default_stream())));

        device.scope(|scope| {
            let short = scope.borrow_cuda(theirs.as_view(), [5]).unwrap_err();
            assert!(matches!(short, Error::Layout(LayoutError::DataLength { needed: 5, given: 4, .. })), "{short}");
            let beyond = scope.borrow_cuda_strided(theirs.as_view(), [2, 2], [3, 1]).unwrap_err();
            assert!(matches!(beyond, Error::Layout(LayoutError::TooShort { needed: 5, given: 4, .. })), "{beyond}");
            let negative = scope.borrow_cuda_strided(theirs.as_view(), [2], [-1]).unwrap_err();
            assert!(matches!(negative, Error::Layout(LayoutError::NegativeStride { .. })), "{negative}");
        });
        let host = Device::cpu().scope(|scope| scope.borrow_cuda(theirs.as_view(), [4]).map(drop)).unwrap_err();
        assert!(matches!(host, Error::Unsupported { .. }), "{host}");
        first.synchronize().unwrap(); // while `before` lives
    }
}

#[test]
fn more_memory_than_there_is() {
    for device in devices("more_memory_than_there_is").into_iter().chain([Device::cpu()]) {
        let refused = device.zeros::<u8>([1 << 50]).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { bytes, .. } if bytes == 1 << 50), "{refused}");
    }
}

#[test]
fn strided_views_come_back_and_are_written_on_every_device() {
    let mut all = vec![Device::cpu(), Device::emulated(Arch::SM_80).unwrap()];
    all.extend(Device::cuda(0));
    for device in all {
        let m = device.tensor(&(0..12).map(|i| i as f32).collect::<Vec<_>>(), [3, 4]).unwrap();
        let mut columns = m.slice(1, 1..3).unwrap();
        assert_eq!(columns.to_vec::<f32>().unwrap(), [1.0, 2.0, 5.0, 6.0, 9.0, 10.0], "{device}");
        columns.copy_from(&[-1.0f32, -2.0, -3.0, -4.0, -5.0, -6.0]).unwrap();
        let expected = [0.0, -1.0, -2.0, 3.0, 4.0, -3.0, -4.0, 7.0, 8.0, -5.0, -6.0, 11.0];
        assert_eq!(m.to_vec::<f32>().unwrap(), expected, "{device}");
        assert!(m.alignment() >= 64);
        let there = columns.copy_to(&Device::cpu()).unwrap();
        assert_eq!(there.to_vec::<f32>().unwrap(), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
        assert_eq!(device.zeros::<f32>([0, 3]).unwrap().to_vec::<f32>().unwrap(), [0.0f32; 0]);
    }
}

/// A step of a random program over four tensors.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// `tensor[to] = 2·tensor[from] + 1` on a stream.
    Affine { from: usize, to: usize, stream: usize },
    /// A new tensor takes the place of an old one, which is dropped.
    Replace { tensor: usize, value: i8 },
    /// The host overwrites a tensor.
    Write { tensor: usize, value: i8 },
    /// The host reads a tensor.
    Read { tensor: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..4, 0usize..4, 0usize..4).prop_map(|(from, to, stream)| Step::Affine { from, to, stream }),
        1 => (0usize..4, -5i8..5).prop_map(|(tensor, value)| Step::Replace { tensor, value }),
        1 => (0usize..4, -5i8..5).prop_map(|(tensor, value)| Step::Write { tensor, value }),
        1 => (0usize..4).prop_map(|tensor| Step::Read { tensor }),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Whatever streams a program uses, the tensors hold what they would hold if it ran step by step.
#[test]
fn streams_never_change_a_result() {
    for device in devices("streams_never_change_a_result") {
        let kernel = device.compile(&source("affine")).unwrap();
        let own: Vec<Stream> = (0..3).map(|_| device.new_stream().unwrap()).collect();
        let mut streams = vec![device.default_stream(), own[0].clone(), own[1].clone(), own[2].clone()];
        if let Some(handle) = own[2].cuda_handle() {
            // SAFETY: `own` keeps the stream alive.
            streams[3] = unsafe { Stream::borrow(&device, handle) }.unwrap();
        }
        let config = proptest::test_runner::Config {
            cases: testing::cases(64),
            failure_persistence: None,
            ..Default::default()
        };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        runner.run(&steps(), |steps| run_steps(&device, &kernel, &streams, &steps)).unwrap();
    }
}

fn run_steps(device: &Device, kernel: &Kernel, streams: &[Stream], steps: &[Step]) -> Result<(), TestCaseError> {
    const N: usize = 32;
    let launch = Launch { block: [32, 1, 1], ..Launch::default() };
    let (parameters, count) = (affine(2.0, 1.0), (N as i32).to_ne_bytes());
    let mut tensors: Vec<_> = (0..4).map(|i| device.full::<f32>([N], i as f32).unwrap()).collect();
    let mut expected = [0.0f32, 1.0, 2.0, 3.0];
    for &step in steps {
        match step {
            Step::Affine { from, to, stream } => {
                let arguments = [
                    KernelArgument::Input(&tensors[from]),
                    KernelArgument::Output(&tensors[to]),
                    KernelArgument::Value(&parameters),
                    KernelArgument::Value(&count),
                ];
                kernel.launch(&launch, &arguments, &streams[stream]).unwrap();
                // Infinities stay what they are on both sides.
                expected[to] = 2.0 * expected[from] + 1.0;
            }
            Step::Replace { tensor, value } => {
                tensors[tensor] = device.full::<f32>([N], f32::from(value)).unwrap();
                expected[tensor] = f32::from(value);
            }
            Step::Write { tensor, value } => {
                tensors[tensor].copy_from(&[f32::from(value); N]).unwrap();
                expected[tensor] = f32::from(value);
            }
            Step::Read { tensor } => {
                prop_assert_eq!(tensors[tensor].to_vec::<f32>().unwrap(), [expected[tensor]; N]);
            }
        }
    }
    for (tensor, expected) in tensors.iter().zip(expected) {
        prop_assert_eq!(tensor.to_vec::<f32>().unwrap(), [expected; N]);
    }
    Ok(())
}

/// Kernels that need compute capability 9.0. The box of `copy_box` has 8 rows of 16 floats.
const HOPPER_KERNELS: &str = r#"
extern "C" __global__ void cluster_shape(unsigned* out) {
    unsigned x, y, z;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
    asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
    asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(z));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (blockIdx.x == 0) { out[0] = x; out[1] = y; out[2] = z; out[3] = 0; }
}

struct __align__(64) Map { unsigned long long words[16]; };

extern "C" __global__ void copy_box(const __grid_constant__ Map map, float* out, int x, int y) {
    __shared__ __align__(128) float box[128];
    __shared__ unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box);
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra WAIT;\n}" :: "r"(bar) : "memory");
    out[threadIdx.x] = box[threadIdx.x];
}
"#;

#[test]
fn clusters_and_tensor_maps() {
    let hopper = |device: &Device| device.arch().is_some_and(|arch| arch.capability() == (9, 0));
    for device in devices("clusters_and_tensor_maps").into_iter().filter(hopper) {
        let stream = device.default_stream();
        let kernel = |entry| device.compile(&Source::new("hopper.cu", entry, HOPPER_KERNELS)).unwrap();
        let (shape, copy) = (kernel("cluster_shape"), kernel("copy_box"));
        for (cluster, dependent) in [([1, 1, 1], false), ([2, 1, 1], true), ([2, 2, 1], false), ([1, 1, 4], true)] {
            let out = device.zeros::<i32>([4]).unwrap();
            let launch =
                Launch { grid: [4, 4, 4], cluster, programmatic_dependent_launch: dependent, ..Launch::default() };
            let clusters = shape.active_clusters(&launch).unwrap();
            assert!(
                clusters > 0 && clusters * cluster.iter().product::<u32>() <= device.properties().multiprocessors * 32
            );
            shape.launch(&launch, &[KernelArgument::Output(&out)], &stream).unwrap();
            let seen = out.to_vec::<i32>().unwrap();
            assert_eq!(seen[..3], cluster.map(|n| n as i32), "{device}");
            if std::env::var_os(ON_FAKE_DRIVER).is_some() {
                assert_eq!(seen[3], i32::from(dependent));
            }
        }
        let host: Vec<f32> = (0..20 * 12).map(|i| i as f32 + 1.0).collect();
        let tensor = device.tensor(&host, [12, 20]).unwrap();
        let map = TensorMap::new(&TiledMap {
            tensor: &tensor,
            extents: &[20, 12],
            strides: &[80],
            box_extents: &[16, 8],
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::Bytes128,
        })
        .unwrap();
        for (x, y) in [(0, 0), (8, 5), (-3, -2), (100, 0)] {
            let out = device.zeros::<f32>([8, 16]).unwrap();
            let (from, x_bytes, y_bytes) = (map.as_bytes(), i32::to_ne_bytes(x), i32::to_ne_bytes(y));
            let arguments = [
                KernelArgument::Value(from),
                KernelArgument::Output(&out),
                KernelArgument::Value(&x_bytes),
                KernelArgument::Value(&y_bytes),
                KernelArgument::Reads(&tensor),
            ];
            copy.launch(&Launch { block: [128, 1, 1], ..Launch::default() }, &arguments, &stream).unwrap();
            let at = |row: i32, column: i32| {
                let inside = (0..12).contains(&row) && (0..20).contains(&column);
                if inside { host[(row * 20 + column) as usize] } else { 0.0 }
            };
            let expected: Vec<f32> =
                (0..8).flat_map(|row| (0..16).map(move |column| at(y + row, x + column))).collect();
            assert_eq!(out.to_vec::<f32>().unwrap(), expected, "{device} at {x}, {y}");
        }
    }
}

/// What the child process of `a_driver_without_a_device_is_absence` must find.
const EXPECTED_ABSENCE: &str = "EPILOGUE_TEST_EXPECTED_ABSENCE";

#[test]
fn a_driver_without_a_device_is_absence() {
    const NAME: &str = "a_driver_without_a_device_is_absence";
    if let Ok(expected) = std::env::var(EXPECTED_ABSENCE) {
        let Err(Error::Absent(absent)) = Device::cuda(0) else { panic!("the driver has no device") };
        assert!(absent.to_string().contains(&expected), "{absent}");
        assert_eq!(Device::best().unwrap(), Device::cpu());
        return;
    }
    if std::env::var_os(ON_FAKE_DRIVER).is_some() || !cfg!(target_os = "linux") {
        return;
    }
    let driver = FakeDriver::new(NAME);
    // CUDA_ERROR_NO_DEVICE; CUDA_ERROR_STUB_LIBRARY, as of the toolkit's stub; a driver that counts no device.
    for (status, devices, expected) in
        [("100", "1", "this machine has 0"), ("34", "1", "cuInit failed"), ("0", "0", "this machine has 0")]
    {
        let mut child = driver.command(&["--exact", NAME]);
        child.env("FAKE_DRIVER_INIT", status).env("FAKE_DRIVER_DEVICES", devices).env(EXPECTED_ABSENCE, expected);
        assert_success(&mut child);
    }
    let mut child = driver.command(&["--exact", NAME]);
    std::fs::write(driver.library(), b"no library").unwrap();
    assert_success(child.env(EXPECTED_ABSENCE, "no usable CUDA driver"));
}

/// Machine code that was compiled for a GPU which was not there, in a process without a compiler: with its parameters and
/// registers.
#[test]
fn a_gpu_runs_machine_code_from_a_bundle() {
    const NAME: &str = "a_gpu_runs_machine_code_from_a_bundle";
    let is_child = [ON_FAKE_DRIVER, FROM_BUNDLE].iter().any(|name| std::env::var_os(name).is_some());
    if is_child || testing::compiler(NAME).is_none() || !cfg!(target_os = "linux") {
        return;
    }
    let (driver, builder) = (FakeDriver::new(NAME), Builder::new());
    let target = builder.target(Arch::SM_80).unwrap();
    target.compile(&source("affine")).unwrap();
    let path = driver.0.join("kernels.bundle");
    builder.write(&path).unwrap();
    let mut child = driver.command(&["--exact", "kernels_compute"]);
    child.env(FROM_BUNDLE, path).env("FAKE_DRIVER_MAJOR", "8");
    assert_success(child.env("EPILOGUE_NVRTC", "no-such-library").env("EPILOGUE_CACHE", "off"));
}

/// A folder with the fake driver as `libcuda.so`.
struct FakeDriver(PathBuf);

impl FakeDriver {
    fn new(test: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap().with_file_name("examples").join("libfake_cuda_driver.so");
        let folder = std::env::temp_dir().join(format!("epilogue-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let driver = Self(folder);
        std::fs::copy(&built, driver.library()).unwrap_or_else(|e| {
            panic!("{}: {e}; build it with `cargo build -p epilogue-runtime --examples`", built.display())
        });
        driver
    }

    fn library(&self) -> PathBuf {
        self.0.join("libcuda.so")
    }

    /// This test program again, on the fake driver.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).env("LD_LIBRARY_PATH", &self.0);
        command
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn assert_success(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
}

/// Runs this file's tests again on a driver of our own, which delays all work for as long as it may. It shows what no
/// GPU shows reliably: an order that nobody asked for.
#[test]
fn the_cuda_code_runs_without_a_gpu() {
    const NAME: &str = "the_cuda_code_runs_without_a_gpu";
    if std::env::var_os(ON_FAKE_DRIVER).is_some() || testing::compiler(NAME).is_none() || !cfg!(target_os = "linux") {
        return;
    }
    let driver = FakeDriver::new(NAME);
    for (order, pools, major) in
        [("lazy", "yes", "9"), ("random", "yes", "8"), ("lazy", "no", "8"), ("random", "no", "9")]
    {
        let mut child = driver.command(&["--test-threads=1", "--skip", NAME]);
        child
            .env(ON_FAKE_DRIVER, "1")
            .env("EPILOGUE_NCCL", driver.library())
            .env("FAKE_DRIVER_DEVICES", "2")
            .env("FAKE_DRIVER_MAJOR", major)
            .env("FAKE_DRIVER_ORDER", order)
            .env("FAKE_DRIVER_POOLS", pools);
        assert_success(&mut child);
    }
}
