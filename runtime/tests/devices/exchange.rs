//! Memory and streams of others, and strided views.

use cudarc::driver::{CudaContext, DevicePtr as _};
use epilogue_runtime::{
    Arch, Device, DeviceKind, DeviceTensor, ElementType, Error, ExchangeError, Kernel, KernelArgument, Launch,
    LayoutError, Stream, dlpack,
};

use super::{affine, devices, source};

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

        // Taken memory lives as long as it is used.
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

        // A tensor that has left the scope has no memory.
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
