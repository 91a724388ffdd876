//! Graphs: this library's on every device, and others' captures with this library's work in them.

use std::ptr;

use cudarc::driver::sys;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use epilogue_runtime::bundle::Builder;
use epilogue_runtime::{
    Arch, DataError, Device, DeviceKind, DeviceTensor, ElementType, Error, GpuModel, Kernel, KernelArgument, Launch,
    Site, Stream, testing,
};

use super::{affine, devices, source};

const N: usize = 64;

/// `to = scale·from + 1`, on a stream.
fn step(kernel: &Kernel, scale: f32, from: &DeviceTensor, to: &DeviceTensor, stream: &Stream) -> Result<(), Error> {
    let (parameters, count) = (affine(scale, 1.0), (N as i32).to_ne_bytes());
    let arguments = [
        KernelArgument::Input(from),
        KernelArgument::Output(to),
        KernelArgument::Value(&parameters),
        KernelArgument::Value(&count),
    ];
    kernel.launch(&Launch { block: [N as u32, 1, 1], ..Launch::default() }, &arguments, stream)
}

fn first(tensor: &DeviceTensor) -> f32 {
    tensor.to_vec::<f32>().unwrap()[0]
}

#[test]
fn a_graph_does_each_time_what_was_recorded() {
    for device in devices("a_graph_does_each_time_what_was_recorded") {
        let kernel = device.compile(&source("affine")).unwrap();
        let (mut x, y) = (device.full::<f32>([N], 1.0).unwrap(), device.zeros::<f32>([N]).unwrap());
        let graph = {
            let between = device.zeros::<f32>([N]).unwrap();
            device.capture(|stream| {
                step(&kernel, 2.0, &x, &between, stream)?;
                step(&kernel, 3.0, &between, &y, stream)
            })
        };
        // The kernel and the tensor between are the graph's now.
        let graph = graph.unwrap();
        drop(kernel);
        assert_eq!((graph.len(), graph.is_empty(), graph.device()), (2, false, &device));
        assert_eq!(first(&y), 0.0, "{device}: nothing has run");
        for (round, stream) in
            [device.default_stream(), device.new_stream().unwrap()].iter().cycle().take(6).enumerate()
        {
            x.copy_from(&[round as f32; N]).unwrap();
            graph.launch(stream).unwrap();
            assert_eq!(first(&y), 3.0 * (2.0 * round as f32 + 1.0) + 1.0, "{device}");
        }
        drop(graph);
        assert_eq!(first(&y), 34.0, "{device}");
    }
}

/// A graph's launch is ordered with what uses its tensors on other streams, before and after it.
#[test]
fn graphs_are_ordered_by_what_they_use() {
    for device in devices("graphs_are_ordered_by_what_they_use") {
        let kernel = device.compile(&source("affine")).unwrap();
        let [x, y, z] = [1.0, 0.0, 0.0].map(|value| device.full::<f32>([N], value).unwrap());
        let streams = [0; 3].map(|_| device.new_stream().unwrap());
        let graph = device.capture(|stream| step(&kernel, 2.0, &y, &z, stream)).unwrap();
        for _ in 0..4 {
            step(&kernel, 1.0, &x, &y, &streams[0]).unwrap();
            graph.launch(&streams[1]).unwrap();
            step(&kernel, 1.0, &z, &x, &streams[2]).unwrap();
        }
        // y = x + 1, z = 2y + 1, x = z + 1: x is 6, 16, 36, 76.
        assert_eq!([&x, &y, &z].map(first), [76.0, 37.0, 75.0], "{device}");
        drop((graph, x, y));
        assert_eq!(first(&z), 75.0, "{device}");
    }
}

#[test]
fn graphs_within_graphs_and_empty_ones() {
    for device in devices("graphs_within_graphs_and_empty_ones") {
        let kernel = device.compile(&source("affine")).unwrap();
        let x = device.full::<f32>([N], 1.0).unwrap();
        let stream = device.new_stream().unwrap();
        let inner = device.capture(|stream| step(&kernel, 2.0, &x, &x, stream)).unwrap();
        let outer = device.capture(|stream| {
            inner.launch(stream)?;
            step(&kernel, 1.0, &x, &x, stream)?;
            inner.launch(stream)
        });
        let outer = outer.unwrap();
        drop(inner);
        outer.launch(&stream).unwrap();
        assert_eq!((outer.len(), first(&x)), (3, 9.0), "{device}");
        let empty = device.capture(|_| Ok::<_, Error>(())).unwrap();
        empty.launch(&stream).unwrap();
        assert!(empty.is_empty());
        // An error in the function is the capture's error, and nothing has run.
        let failed = device.capture(|stream| {
            step(&kernel, 2.0, &x, &x, stream)?;
            step(&kernel, 2.0, &x, &Device::cpu().zeros::<f32>([N])?, stream)
        });
        assert!(matches!(failed, Err(Error::Device { .. })));
        assert_eq!(first(&x), 9.0);
    }
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let captured = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Capture { .. }), "{error}");
    };
    let refused = Device::cpu().capture(|_| Ok::<_, Error>(())).map(drop).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the CPU can't capture launches: its work is done when the call returns, so there is nothing to save: run it each \
         time"
    );
    for device in devices("what_cannot_be_captured_is_refused") {
        let kernel = device.compile(&source("affine")).unwrap();
        let x = device.full::<f32>([N], 1.0).unwrap();
        let event = device.default_stream().record().unwrap();
        let mut kept = None;
        let graph = device.capture(|stream| {
            captured(stream.synchronize());
            captured(stream.record().map(drop));
            captured(stream.wait(&event));
            kept = Some(stream.clone());
            Ok::<_, Error>(())
        });
        captured(step(&kernel, 2.0, &x, &x, &kept.unwrap()));
        assert!(graph.unwrap().is_empty());
        // Nor is what comes after a panic in the function, which ends the capture, too.
        let mut kept = None;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            device.capture(|stream| -> Result<(), Error> {
                kept = Some(stream.clone());
                step(&kernel, 2.0, &x, &x, stream)?;
                resume_unwind(Box::new("a panic in the function"))
            })
        }));
        assert!(panicked.is_err());
        captured(step(&kernel, 2.0, &x, &x, &kept.unwrap()));
        step(&kernel, 2.0, &x, &x, &device.new_stream().unwrap()).unwrap();
        assert_eq!(first(&x), 3.0, "{device}");
        let other = Device::emulated(Arch::SM_80).unwrap();
        let graph = other.capture(|_| Ok::<_, Error>(())).unwrap();
        assert!(matches!(graph.launch(&device.new_stream().unwrap()), Err(Error::Device { .. })));
    }
}

/// A program that is started on a bundle's target captures there, too: its kernels are kept, and nothing is launched.
#[test]
fn on_a_target_kernels_are_kept() {
    if testing::compiler("on_a_target_kernels_are_kept").is_none() {
        return;
    }
    let builder = Builder::new();
    let target = builder.target(GpuModel::A100);
    let x = target.zeros::<f32>([N]).unwrap();
    let graph = target.capture(|stream| step(&target.compile(&source("affine"))?, 2.0, &x, &x, stream)).unwrap();
    graph.launch(&target.default_stream()).unwrap();
    assert!(graph.is_empty() && builder.len() == 1);
}

/// Kernels in a graph report data that they can't use as others do.
#[test]
fn a_graph_reports_data_that_it_cannot_use() {
    for device in devices("a_graph_reports_data_that_it_cannot_use") {
        let mut pick = source("pick");
        let site = |dimension| Site::Index { tensor: "x".to_owned(), dimension };
        pick.sites = vec![site(7), site(0)];
        let (x, y) = (device.tensor(&[1f32, 2.0], [2]).unwrap(), device.zeros::<f32>([2]).unwrap());
        let mut index = device.tensor(&[1i32, 0], [2]).unwrap();
        let (two, stream) = (2i32.to_ne_bytes(), device.new_stream().unwrap());
        let graph = device.capture(|stream| {
            let arguments = [
                KernelArgument::Input(&x),
                KernelArgument::Input(&index),
                KernelArgument::Output(&y),
                KernelArgument::Value(&two),
                KernelArgument::Value(&two),
            ];
            device.compile(&pick)?.launch(&Launch { block: [32, 1, 1], ..Launch::default() }, &arguments, stream)
        });
        let graph = graph.unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 1.0], "{device}");
        index.copy_from(&[0i32, 5]).unwrap();
        graph.launch(&stream).unwrap();
        let said = stream.synchronize().unwrap_err();
        let failure = DataError::Index { tensor: "x".to_owned(), dimension: 0, index: 5, extent: 2 };
        assert!(matches!(&said, Error::Data(data) if *data == failure), "{device}: {said}");
    }
}

#[test]
fn a_graph_that_failed_is_not_launched_again() {
    if testing::compiler("a_graph_that_failed_is_not_launched_again").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).unwrap();
    let kernel = device.compile(&source("affine")).unwrap();
    let x = device.zeros::<f32>([4]).unwrap();
    let graph = device.capture(|stream| step(&kernel, 1.0, &x, &x, stream)).unwrap();
    let stream = device.default_stream();
    assert!(matches!(graph.launch(&stream), Err(Error::Emulation { .. })), "it leaves the tensor");
    let again = graph.launch(&stream).unwrap_err();
    assert!(again.to_string().contains("capture it again"), "{again}");
}

/// A graph of somebody else's, made and launched by the driver's functions.
struct Foreign(sys::CUgraphExec);

impl Foreign {
    /// Captures what `work` does, in the mode that forbids the most.
    fn capture(handle: sys::CUstream, work: impl FnOnce()) -> Self {
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: a live stream, valid places to write to.
        unsafe {
            sys::cuStreamBeginCapture_v2(handle, mode).result().unwrap();
            work();
            sys::cuStreamEndCapture(handle, &raw mut graph).result().unwrap();
            sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result().unwrap();
            sys::cuGraphDestroy(graph).result().unwrap();
        }
        Self(executable)
    }

    fn launch(&self, handle: sys::CUstream) {
        // SAFETY: a live graph and a live stream.
        unsafe { sys::cuGraphLaunch(self.0, handle).result().unwrap() };
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: a live graph.
        unsafe { sys::cuGraphExecDestroy(self.0).result().unwrap() };
    }
}

/// The GPUs among the devices, each with its context current on this thread, as those who capture by themselves have it.
fn gpus(test: &str) -> Vec<(Device, std::sync::Arc<cudarc::driver::CudaContext>)> {
    let gpus = devices(test).into_iter().filter(|device| matches!(device.kind(), DeviceKind::Cuda { .. }));
    let gpus = gpus.map(|device| {
        let context = cudarc::driver::CudaContext::new(0).unwrap();
        context.bind_to_thread().unwrap();
        (device, context)
    });
    gpus.collect()
}

/// Others capture a stream, ours or borrowed, with our work in it: no stream is waited for, and nothing is allocated there.
#[test]
fn others_capture_our_work() {
    for (device, _context) in gpus("others_capture_our_work") {
        let kernel = device.compile(&source("affine")).unwrap();
        let own = device.new_stream().unwrap();
        let handle = own.cuda_handle().unwrap();
        // SAFETY: `own` lives as long.
        let borrowed = unsafe { Stream::borrow(&device, handle) }.unwrap();
        for stream in [&own, &borrowed] {
            // Uploaded, filled and computed on other streams, and nothing has waited for them.
            let mut x = device.full::<f32>([N], 1.0).unwrap();
            let y = device.zeros::<f32>([N]).unwrap();
            step(&kernel, 1.0, &x, &x, &device.new_stream().unwrap()).unwrap();
            let mut kept = None;
            let graph = Foreign::capture(handle, || {
                let between = stream.zeros_of(ElementType::F32, [N]).unwrap();
                step(&kernel, 2.0, &x, &between, stream).unwrap();
                step(&kernel, 3.0, &between, &y, stream).unwrap();
                // Kernels are loaded, too; to unload one, the whole GPU would be waited for.
                let loaded = device.compile(&source("spin")).unwrap();
                assert!(stream.key().unwrap().is_of_others());
                kept = Some((between, loaded));
            });
            assert!(!stream.key().unwrap().is_of_others());
            for value in [5.0, 7.0] {
                x.copy_from(&[value; N]).unwrap();
                graph.launch(handle);
                own.synchronize().unwrap();
                assert_eq!(first(&y), 3.0 * (2.0 * value + 1.0) + 1.0, "{device}");
            }
        }
    }
}

#[test]
fn what_others_cannot_capture_is_refused() {
    for (device, _context) in gpus("what_others_cannot_capture_is_refused") {
        let kernel = device.compile(&source("affine")).unwrap();
        let x = device.full::<f32>([N], 1.0).unwrap();
        let default = device.default_stream();
        drop(Foreign::capture(default.cuda_handle().unwrap(), || {
            for error in [
                step(&kernel, 2.0, &x, &x, &default).unwrap_err(),
                default.zeros_of(ElementType::F32, [N]).map(drop).unwrap_err(),
            ] {
                assert!(error.to_string().contains("can't be captured: use `Device::new_stream`"), "{error}");
            }
        }));
        // A tensor that one captured stream has yet to be done with, on another.
        let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        step(&kernel, 2.0, &x, &x, &one).unwrap();
        drop(Foreign::capture(one.cuda_handle().unwrap(), || {
            drop(Foreign::capture(other.cuda_handle().unwrap(), || {
                let error = step(&kernel, 2.0, &x, &x, &other).unwrap_err();
                assert!(matches!(error, Error::Capture { .. }), "{error}");
            }));
        }));
        assert_eq!(first(&x), 3.0);
    }
}
