//! The driver's functions, as cuda.h declares them.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::Arc;

use super::kernels::{kernel, parameter_bytes};
use super::{
    Address, CAPTURE_UNSUPPORTED, CONTEXT, CURRENT, Capture, Event, Function, Handle, INVALID_CLUSTER_SIZE,
    INVALID_IMAGE, INVALID_VALUE, MEMORY_BYTES, MODE, Memory, NOT_FOUND, NOT_READY, OUT_OF_MEMORY, Operation, SUCCESS,
    Status, Stream, apart_from_captures, die, number, with,
};

/// `CUlaunchConfig`.
#[repr(C)]
pub struct Config {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: Handle,
    attribute_count: c_uint,
}

/// `CUlaunchAttribute`, whose value is a union of 64 bytes.
#[repr(C)]
struct Attribute {
    id: c_uint,
    padding: c_uint,
    value: [u32; 16],
}

/// A launch attribute's value; `CLUSTER_DIMENSION` is 4, `PROGRAMMATIC_STREAM_SERIALIZATION` 6.
pub(super) fn attribute(config: &Config, id: c_uint) -> Option<[u32; 16]> {
    if config.attribute_count == 0 {
        return None;
    }
    // SAFETY: the caller of the driver gives as many attributes as it says.
    let all =
        unsafe { std::slice::from_raw_parts(config.attributes.cast::<Attribute>(), config.attribute_count as usize) };
    all.iter().find(|attribute| attribute.id == id).map(|attribute| attribute.value)
}

fn cluster_blocks(config: &Config) -> u32 {
    attribute(config, 4).map_or(1, |size| size[..3].iter().product())
}

impl Function {
    /// Whether clusters are of the portable size, or larger ones are allowed and there is room.
    fn takes(&self, config: &Config) -> bool {
        let most = number("FAKE_DRIVER_CLUSTER", 16);
        cluster_blocks(config) <= if self.large_clusters { most as u32 } else { 8 }
    }
}

/// Exports functions under their names, with the body in the driver's hands.
macro_rules! exports {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            // SAFETY: the test's process has no other symbols of these names.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                // SAFETY: the caller keeps to cuda.h: pointers are valid for what the function reads or writes.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

exports! {
    cuInit(_flags: c_uint) { number("FAKE_DRIVER_INIT", SUCCESS) }
    cuDeviceGetCount(count: *mut c_int) { *count = number("FAKE_DRIVER_DEVICES", 1); SUCCESS }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) { *device = ordinal; SUCCESS }
    cuDeviceGetName(name: *mut c_char, _length: c_int, _device: c_int) {
        name.copy_from(c"fake A100".as_ptr(), 10);
        SUCCESS
    }
    cuDriverGetVersion(version: *mut c_int) { *version = 13_000; SUCCESS }
    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) { *bytes = MEMORY_BYTES; SUCCESS }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        let pools = std::env::var_os("FAKE_DRIVER_POOLS").is_none_or(|pools| pools != "no");
        *value = match attribute {
            75 => number("FAKE_DRIVER_MAJOR", 8), // COMPUTE_CAPABILITY_MAJOR
            16 => 108,           // MULTIPROCESSOR_COUNT
            97 => 163 << 10,     // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            81 => 164 << 10,     // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
            115 => c_int::from(pools), // MEMORY_POOLS_SUPPORTED
            _ => 0,
        };
        SUCCESS
    }
    cuDevicePrimaryCtxRetain(context: *mut usize, _device: c_int) { *context = CONTEXT; SUCCESS }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) { SUCCESS }
    cuCtxSetCurrent(context: usize) {
        CURRENT.with_borrow_mut(|all| { all.pop(); all.push(context) });
        SUCCESS
    }
    cuCtxPushCurrent_v2(context: usize) { CURRENT.with_borrow_mut(|all| all.push(context)); SUCCESS }
    cuCtxPopCurrent_v2(context: *mut usize) {
        match CURRENT.with_borrow_mut(Vec::pop) {
            Some(popped) => { *context = popped; SUCCESS }
            None => INVALID_VALUE,
        }
    }
    cuCtxGetCurrent(context: *mut usize) {
        *context = CURRENT.with_borrow(|all| all.last().copied().unwrap_or(0));
        SUCCESS
    }
    cuCtxSynchronize() {
        with(|d| {
            if d.streams.iter().any(|stream| stream.capture.is_some()) { die("all is waited for in a capture"); }
            (0..d.streams.len()).for_each(|s| d.finish(s));
            SUCCESS
        })
    }

    cuStreamCreate(stream: *mut Handle, _flags: c_uint) {
        with(|d| { *stream = d.streams.len() as Handle; d.streams.push(Stream::default()); SUCCESS })
    }
    cuStreamDestroy_v2(stream: Handle) { with(|d| { d.streams[stream as usize].destroyed = true; SUCCESS }) }
    cuStreamSynchronize(stream: Handle) {
        apart_from_captures(|d| {
            if d.is_captured(stream) { return CAPTURE_UNSUPPORTED; }
            d.finish(stream as usize);
            SUCCESS
        })
    }
    cuStreamGetCaptureInfo_v2(
        stream: Handle, status: *mut c_uint, id: *mut u64, _graph: *mut Handle, _nodes: *mut Handle, _count: *mut usize
    ) {
        with(|d| {
            let capture = d.streams[stream as usize].capture.as_ref();
            *status = c_uint::from(capture.is_some());
            if let Some(capture) = capture { *id = capture.id; }
            SUCCESS
        })
    }
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) { *mode = MODE.replace(*mode); SUCCESS }
    cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        with(|d| {
            d.captures += 1;
            d.streams[stream as usize].capture = Some(Capture { id: d.captures, mode, work: Vec::new() });
            SUCCESS
        })
    }
    cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        with(|d| {
            let Some(capture) = d.streams[stream as usize].capture.take() else { die("there is no capture") };
            d.graphs.push(Some(capture.work));
            *graph = d.graphs.len() as Handle;
            SUCCESS
        })
    }
    cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) {
        with(|d| {
            let copy = d.graphs[graph as usize - 1].clone();
            d.graphs.push(copy);
            *executable = d.graphs.len() as Handle;
            SUCCESS
        })
    }
    cuGraphDestroy(graph: Handle) { with(|d| { d.graphs[graph as usize - 1] = None; SUCCESS }) }
    cuGraphExecDestroy(graph: Handle) { with(|d| { d.graphs[graph as usize - 1] = None; SUCCESS }) }
    cuGraphLaunch(graph: Handle, stream: Handle) {
        with(|d| {
            let Some(all) = d.graphs[graph as usize - 1].clone() else { die("a destroyed graph is launched") };
            all.into_iter().map(|work| d.launch(stream, work)).find(|status| *status != SUCCESS).unwrap_or(SUCCESS)
        })
    }
    cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        with(|d| match d.event(event).recorded {
            Some((other, count)) => d.push(stream, Operation::Wait(other, count)),
            // As the driver has it, and cudarc relies on it: there is nothing to wait for.
            None => SUCCESS,
        })
    }

    cuEventCreate(event: *mut Handle, flags: c_uint) {
        with(|d| {
            d.events.push(Event { timed: flags & 2 == 0, ..Event::default() });
            *event = d.events.len() as Handle;
            SUCCESS
        })
    }
    cuEventDestroy_v2(event: Handle) { with(|d| { d.event(event).destroyed = true; SUCCESS }) }
    cuEventRecord(event: Handle, stream: Handle) {
        with(|d| {
            d.work(stream, |_| {});
            d.event(event).recorded = Some((stream as usize, d.streams[stream as usize].total));
            SUCCESS
        })
    }
    cuEventSynchronize(event: Handle) {
        apart_from_captures(|d| {
            if let Some((stream, count)) = d.event(event).recorded { d.run_to(stream, count); }
            SUCCESS
        })
    }
    cuEventQuery(event: Handle) {
        apart_from_captures(|d| {
            let recorded = d.event(event).recorded;
            // A caller that asks again and again gets there.
            if let Some((stream, count)) = recorded && d.streams[stream].done < count { d.step(stream, true); }
            if recorded.is_some_and(|(stream, count)| d.streams[stream].done < count) { NOT_READY } else { SUCCESS }
        })
    }
    cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        *milliseconds = 1.0;
        with(|d| if d.event(start).timed && d.event(end).timed { SUCCESS } else { INVALID_VALUE })
    }

    cuMemAllocAsync(address: *mut Address, bytes: usize, stream: Handle) {
        with(|d| match d.allocate(bytes) {
            _ if bytes == 0 => INVALID_VALUE,
            Some(made) => { *address = made; d.work(stream, |_| {}) }
            None => OUT_OF_MEMORY,
        })
    }
    cuMemAlloc_v2(address: *mut Address, bytes: usize) {
        apart_from_captures(|d| match d.allocate(bytes) {
            _ if bytes == 0 => INVALID_VALUE,
            Some(made) => { *address = made; SUCCESS }
            None => OUT_OF_MEMORY,
        })
    }
    cuMemFreeAsync(address: Address, stream: Handle) { with(|d| d.work(stream, move |memory| memory.free(address))) }
    cuMemFree_v2(address: Address) { apart_from_captures(|d| { d.memory.free(address); SUCCESS }) }
    cuMemHostAlloc(address: *mut Address, bytes: usize, _flags: c_uint) {
        with(|d| match d.allocate(bytes) {
            Some(made) => { *address = made; SUCCESS }
            None => OUT_OF_MEMORY,
        })
    }
    cuMemHostGetDevicePointer_v2(device: *mut Address, host: Address, _flags: c_uint) { *device = host; SUCCESS }
    cuMemsetD8Async(address: Address, value: u8, bytes: usize, stream: Handle) {
        with(|d| d.launch(stream, Arc::new(move |memory: &mut Memory| memory.bytes(address, bytes).fill(value))))
    }
    cuMemcpyHtoDAsync_v2(address: Address, from: *const u8, bytes: usize, stream: Handle) {
        let from = from as usize;
        with(|d| d.work(stream, move |memory| {
            // SAFETY: page-locked memory is read when the copy runs, and the caller keeps it until then.
            let from = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) };
            memory.bytes(address, bytes).copy_from_slice(from);
        }))
    }
    cuMemcpyDtoHAsync_v2(to: *mut u8, address: Address, bytes: usize, stream: Handle) {
        let to = to as usize;
        with(|d| d.work(stream, move |memory| {
            // SAFETY: the caller keeps the memory until the copy has run.
            let to = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes) };
            to.copy_from_slice(memory.bytes(address, bytes));
        }))
    }

    cuModuleLoadData(module: *mut Handle, image: *const [u8; 4]) {
        apart_from_captures(|d| {
            d.modules += 1;
            *module = d.modules as Handle;
            if *image == *b"\x7fELF" { SUCCESS } else { INVALID_IMAGE }
        })
    }
    cuModuleUnload(module: Handle) {
        with(|d| {
            if let Some(variable) = d.variables.remove(&(module as usize)) { d.memory.free(variable); }
            SUCCESS
        })
    }
    cuModuleGetGlobal_v2(address: *mut Address, bytes: *mut usize, module: Handle, _name: *const c_char) {
        with(|d| {
            let Some(made) = d.allocate(16) else { return OUT_OF_MEMORY };
            d.memory.bytes(made, 16).fill(0);
            d.variables.insert(module as usize, made);
            (*address, *bytes) = (made, 16);
            SUCCESS
        })
    }
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        if parameter_bytes(&name).is_none() {
            return NOT_FOUND;
        }
        with(|d| {
            d.functions.push(Function { name, module: module as usize, shared_bytes: 48 << 10, large_clusters: false });
            *function = d.functions.len() as Handle;
            SUCCESS
        })
    }
    cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        with(|d| {
            let function = &mut d.functions[function as usize - 1];
            match attribute {
                8 => function.shared_bytes = value as u32, // MAX_DYNAMIC_SHARED_SIZE_BYTES
                14 => function.large_clusters = value != 0, // NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                _ => return INVALID_VALUE,
            }
            SUCCESS
        })
    }
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, _function: Handle, _threads: c_int, _bytes: usize) {
        *blocks = 2;
        SUCCESS
    }
    cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: Handle, config: *const Config) {
        with(|d| {
            let config = &*config;
            if !d.functions[function as usize - 1].takes(config) { return INVALID_CLUSTER_SIZE; }
            *clusters = 108 / cluster_blocks(config) as c_int;
            SUCCESS
        })
    }
    cuTensorMapEncodeTiled(
        map: *mut [u64; 16], element: c_uint, rank: c_uint, address: Address, extents: *const u64, strides: *const u64,
        boxes: *const c_uint, element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint, promotion: c_uint,
        fill: c_uint
    ) {
        if !(map as usize).is_multiple_of(64) || interleave != 0 || fill != 0 || promotion > 3 || swizzle > 3 { return INVALID_VALUE; }
        let rank = rank as usize;
        let list = |from: *const c_uint| std::slice::from_raw_parts(from, rank);
        if list(element_strides).iter().any(|s| *s != 1) || !address.is_multiple_of(16) { return INVALID_VALUE; }
        let mut words = [0; 16];
        words[..4].copy_from_slice(&[rank as u64, u64::from(element), address, u64::from(swizzle)]);
        words[4..4 + rank].copy_from_slice(std::slice::from_raw_parts(extents, rank));
        words[9..8 + rank].copy_from_slice(std::slice::from_raw_parts(strides, rank - 1));
        list(boxes).iter().enumerate().for_each(|(i, b)| words[13] |= u64::from(*b) << (10 * i));
        *map = words;
        SUCCESS
    }
    cuTensorMapEncodeIm2col(
        map: *mut [u64; 16], element: c_uint, rank: c_uint, address: Address, extents: *const u64, strides: *const u64,
        lower: *const c_int, upper: *const c_int, channels: c_uint, pixels: c_uint, steps: *const c_uint,
        interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint
    ) {
        if !(map as usize).is_multiple_of(64) || interleave != 0 || fill != 0 || promotion > 3 || swizzle > 3 { return INVALID_VALUE; }
        let rank = rank as usize;
        let (extents, strides) = (std::slice::from_raw_parts(extents, rank), std::slice::from_raw_parts(strides, rank - 1));
        let corner = |from: *const c_int| std::slice::from_raw_parts(from, rank - 2);
        let steps = std::slice::from_raw_parts(steps, rank);
        if !(3..=5).contains(&rank) || steps[0] != 1 || steps[rank - 1] != 1 || !address.is_multiple_of(16) { return INVALID_VALUE; }
        // A bit that must not be set where the images are small, as of drivers to 13.1.
        let mut words = [0, u64::from(element) | 1 << 21, address, u64::from(channels) | u64::from(pixels) << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        words[4..4 + rank].copy_from_slice(extents);
        words[9..8 + rank].copy_from_slice(strides);
        for axis in 0..rank - 2 {
            let numbers = [corner(lower)[axis] as u16, corner(upper)[axis] as u16, steps[axis + 1] as u16];
            words[13 + axis] = numbers.iter().rev().fold(0, |word, number| word << 16 | u64::from(*number));
        }
        *map = words;
        SUCCESS
    }
    cuLaunchKernelEx(config: *const Config, function: Handle, values: *const *const u8, _extra: Handle) {
        let config = &*config;
        with(|d| {
            let of = &d.functions[function as usize - 1];
            if !of.takes(config) { return INVALID_CLUSTER_SIZE; }
            let Function { name, module, shared_bytes, large_clusters: _ } = of;
            if config.shared_bytes > *shared_bytes || (config.attribute_count > 0 && config.attributes.is_null()) {
                return INVALID_VALUE;
            }
            let sizes = parameter_bytes(name).unwrap().iter().enumerate();
            // SAFETY: as many arguments as parameters, each of its size.
            let arguments: Vec<Vec<u8>> =
                sizes.map(|(i, &bytes)| unsafe { std::slice::from_raw_parts(*values.add(i), bytes) }.to_vec()).collect();
            let work = kernel(name, config, &arguments, d.variables.get(module).copied());
            d.launch(config.stream, work)
        })
    }

    cuGetErrorName(status: Status, name: *mut *const c_char) {
        *name = match status {
            OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY".as_ptr(),
            _ => c"CUDA_ERROR_OF_THE_FAKE_DRIVER".as_ptr(),
        };
        SUCCESS
    }
    cuGetErrorString(_status: Status, text: *mut *const c_char) { *text = c"as asked".as_ptr(); SUCCESS }
}
