//! The order of work on streams.

use epilogue_runtime::{Device, Kernel, KernelArgument, Launch, Stream, testing};
use proptest::prelude::*;

use super::{affine, devices, source};

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

/// Kernels, graphs and copies of several threads are ordered by what they use, too: each is done as a whole.
#[test]
fn work_of_several_threads_is_ordered_by_what_it_uses() {
    const N: usize = 1 << 13;
    let devices = devices("work_of_several_threads_is_ordered_by_what_it_uses");
    for device in devices.into_iter().filter(|device| device.emulator().is_some()) {
        let kernel = device.compile(&source("affine")).unwrap();
        let values = [1.0f32, 2.0];
        let inputs = values.map(|value| device.full::<f32>([N], value).unwrap());
        let output = device.zeros::<f32>([N]).unwrap();
        let run = |thread: usize, scale: f32, stream: &Stream| {
            let (parameters, count) = (affine(scale, 0.0), (N as i32).to_ne_bytes());
            let arguments = [
                KernelArgument::Input(&inputs[thread]),
                KernelArgument::Output(&output),
                KernelArgument::Value(&parameters),
                KernelArgument::Value(&count),
            ];
            let launch = Launch { grid: [N as u32 / 128, 1, 1], block: [128, 1, 1], ..Launch::default() };
            kernel.launch(&launch, &arguments, stream)
        };
        // Only the values of its last launch are ever seen.
        let capture =
            |thread| device.capture(|stream| run(thread, 9.0, stream).and_then(|()| run(thread, 3.0, stream)));
        let graphs = [0, 1].map(|thread| capture(thread).unwrap());
        std::thread::scope(|scope| {
            for (thread, graph) in graphs.iter().enumerate() {
                let (run, device, output) = (&run, &device, &output);
                scope.spawn(move || {
                    for round in 0..12 {
                        match round % 2 {
                            0 => run(thread, 1.0, &device.default_stream()).unwrap(),
                            _ => graph.launch(&device.default_stream()).unwrap(),
                        }
                        let seen = output.to_vec::<f32>().unwrap();
                        assert!(seen.iter().all(|x| *x == seen[0]), "{device}: parts of two runs");
                        assert!([1.0, 2.0, 3.0, 6.0].contains(&seen[0]), "{device}: {}", seen[0]);
                    }
                });
            }
        });
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
