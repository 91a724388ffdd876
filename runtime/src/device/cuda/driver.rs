//! The driver's library: whether it exists and has the functions that this crate calls, and what its errors mean.

use std::error::Error as _;
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUevent, CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureStatus};
use libloading::Library;

use crate::error::{Absent, Error, Result};
use crate::trace;

/// The names under which cudarc's loader looks for the driver, in its order: the probe must find the same library.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// Every function of the driver that this crate calls. cudarc panics at the first call of one that is missing.
const SYMBOLS: [&str; 50] = [
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled",
    "cuThreadExchangeStreamCaptureMode",
];

type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
type CaptureInfo = unsafe extern "C" fn(
    CUstream,
    *mut CUstreamCaptureStatus,
    *mut u64,
    *mut CUgraph,
    *mut *const CUgraphNode,
    *mut usize,
) -> CUresult;

/// The initialised driver.
pub(crate) struct Driver {
    /// Loaded here for cudarc's sake: its 13.x bindings have only `cuEventElapsedTime_v2`, which drivers before 12.8
    /// lack. Its 12.x bindings have only this one, and every driver has it.
    pub(super) elapsed_time: ElapsedTime,
    /// By hand for the same reason: cudarc's 13.x bindings know only `_v3`, which drivers before 12.3 lack.
    capture_info: CaptureInfo,
}

/// The loader's message; the error itself only says that it failed.
fn cause(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

impl Driver {
    /// The driver, initialised at the first call.
    pub(super) fn get() -> Result<&'static Self, Absent> {
        static DRIVER: OnceLock<Result<Driver, Absent>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Absent> {
        let absent = |reason: String| Absent::Driver { reason };
        let mut reasons = Vec::new();
        let library = NAMES.iter().find_map(|name| {
            // SAFETY: loading NVIDIA's driver library runs its initialisers, which have no preconditions.
            unsafe { Library::new(*name) }.map_err(|error| reasons.push(cause(&error))).ok()
        });
        let library = library.ok_or_else(|| absent(reasons.join("; ")))?;
        for symbol in SYMBOLS {
            // SAFETY: the address is only tested, not called.
            if unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err() {
                return Err(absent(format!("it is too old, it lacks {symbol} (CUDA 12.0 or newer is needed)")));
            }
        }
        // SAFETY: the type is the function's declaration in cuda.h.
        let elapsed_time =
            *unsafe { library.get::<ElapsedTime>(b"cuEventElapsedTime") }.map_err(|e| absent(e.to_string()))?;
        // SAFETY: as above.
        let capture_info =
            *unsafe { library.get::<CaptureInfo>(b"cuStreamGetCaptureInfo_v2") }.map_err(|e| absent(e.to_string()))?;
        // The functions' addresses must stay valid.
        std::mem::forget(library);
        // SAFETY: the symbol exists, and 0 is the only flag.
        match unsafe { sys::cuInit(0) } {
            CUresult::CUDA_SUCCESS => Ok(Self { elapsed_time, capture_info }),
            CUresult::CUDA_ERROR_NO_DEVICE => Err(Absent::Device { ordinal: 0, count: 0 }),
            status => {
                let reason = check("cuInit", status).err().map_or_else(String::new, |e| e.to_string());
                let reason = format!("{reason}{}", advice(status));
                trace::event!(WARN, "the CUDA driver is there and does not work", reason = reason.as_str());
                Err(absent(reason))
            }
        }
    }
}

/// Advice if the driver is there and does not begin.
fn advice(status: CUresult) -> &'static str {
    match status {
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            " (the driver's library and its kernel module are of different versions, as after an update: restart the machine, \
             or in a container, update the host's driver)"
        }
        CUresult::CUDA_ERROR_UNKNOWN => {
            " (as after the machine slept, or without rights to `/dev/nvidia*`: see the kernel's log, and load the module \
             `nvidia_uvm` again or restart the machine)"
        }
        _ => "",
    }
}

impl Driver {
    /// The number of the capture that a live stream of the current context is in, if it is in one.
    pub(super) fn capture_id(&self, stream: CUstream) -> Result<Option<u64>> {
        let (mut status, mut id) = (CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        let (graph, nodes, count) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: two valid places to write to; what is null is not asked for.
        let answer = unsafe { (self.capture_info)(stream, &raw mut status, &raw mut id, graph, nodes, count) };
        check("cuStreamGetCaptureInfo", answer)?;
        Ok((status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE).then_some(id))
    }
}

/// The driver's status as a result. The driver must be loaded.
pub(crate) fn check(call: &'static str, status: CUresult) -> Result<()> {
    if status == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |function: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text = ptr::null();
        // SAFETY: `text` is a valid place to write to; the strings given are static and end with zero.
        unsafe {
            if function(status, &raw mut text) == CUresult::CUDA_SUCCESS && !text.is_null() {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            } else {
                "an unknown error".to_owned()
            }
        }
    };
    let (name, message) = (text(sys::cuGetErrorName), text(sys::cuGetErrorString));
    Err(Error::Driver { call, code: status as u32, name, message })
}

/// Calls a function of the driver and checks its status. It must be used in an `unsafe` block.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::device::cuda::driver::check(stringify!($function), cudarc::driver::sys::$function($($argument),*))
    };
}
pub(super) use call;
