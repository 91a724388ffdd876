//! Results of kernels, and launches that are refused or don't fit.

use epilogue_runtime::{Arch, Device, Error, KernelArgument, Launch, Source, testing};

use super::{affine, devices, source};

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
fn more_memory_than_there_is() {
    for device in devices("more_memory_than_there_is").into_iter().chain([Device::cpu()]) {
        let refused = device.zeros::<u8>([1 << 50]).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { bytes, .. } if bytes == 1 << 50), "{refused}");
    }
}
