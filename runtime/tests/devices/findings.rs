//! Reports of kernels, and findings of emulated devices.

use epilogue_runtime::{
    Arch, DataError, Device, DeviceTensor, Error, KernelArgument, Launch, Site, Source, ptx_vm, testing,
};

use super::{KERNELS, affine, devices, source};

/// A kernel's reports reach the streams and tensors that were there, each once; they stop nothing.
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
    let unknown = Device::emulated(Arch::SM_90).unwrap_err();
    assert!(matches!(unknown, Error::Unsupported { .. }), "{unknown}");
    assert!(Arch::EMULATED.iter().all(|arch| unknown.to_string().contains(&arch.to_string())), "{unknown}");
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

/// The accesses of two launches at once are of different launches for the race detector.
#[test]
fn threads_that_launch_at_once_race_with_nobody() {
    const N: usize = 1 << 12;
    if testing::compiler("threads_that_launch_at_once_race_with_nobody").is_none() {
        return;
    }
    let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On);
    let device = Device::emulated_with(Arch::SM_80, options).unwrap();
    let kernel = device.compile(&source("affine")).unwrap();
    let input = device.full::<f32>([N], 1.0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (device, kernel, input) = (&device, &kernel, &input);
            scope.spawn(move || {
                // Memory that another thread has given back may be used again.
                for round in 0..8 {
                    let output = device.zeros::<f32>([N]).unwrap();
                    let (parameters, count) = (affine(thread as f32, round as f32), (N as i32).to_ne_bytes());
                    let arguments = [
                        KernelArgument::Input(input),
                        KernelArgument::Output(&output),
                        KernelArgument::Value(&parameters),
                        KernelArgument::Value(&count),
                    ];
                    let launch = Launch { grid: [N as u32 / 64, 1, 1], block: [64, 1, 1], ..Launch::default() };
                    kernel.launch(&launch, &arguments, &device.default_stream()).unwrap();
                    assert_eq!(output.to_vec::<f32>().unwrap(), [thread as f32 + round as f32; N]);
                }
            });
        }
    });
}
