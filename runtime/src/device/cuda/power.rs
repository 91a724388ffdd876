//! The power limit of a GPU, which only NVIDIA's management library knows. It is asked if it loads.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::{Library, Symbol};

/// The names of the library (NVML API Reference, "Known issues" and the driver's packages).
const NAMES: &[&str] = if cfg!(windows) { &["nvml.dll"] } else { &["libnvidia-ml.so.1"] };
/// `NVML_SUCCESS`.
const SUCCESS: c_int = 0;

type Begin = unsafe extern "C" fn() -> c_int;
type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type Limit = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;

/// The limit that holds now for the GPU at a place of the PCI bus, in milliwatts; `None` if the library is missing or does
/// not tell.
pub(super) fn limit_milliwatts(domain: u32, bus: u32, device: u32) -> Option<u32> {
    let place = CString::new(format!("{domain:08X}:{bus:02X}:{device:02X}.0")).ok()?;
    // SAFETY: the driver's own library, whose initialisers a process with a CUDA driver may run.
    let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    let (mut handle, mut milliwatts) = (std::ptr::null_mut(), 0);
    // SAFETY: the functions have these types (NVML API Reference, "Initialization and Cleanup" and "Device Queries"); the
    // text ends with a zero, and both places can be written to. `nvmlShutdown` follows a successful `nvmlInit_v2`.
    unsafe {
        let begin: Symbol<'_, Begin> = library.get(b"nvmlInit_v2\0").ok()?;
        let end: Symbol<'_, Begin> = library.get(b"nvmlShutdown\0").ok()?;
        let find: Symbol<'_, Find> = library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?;
        let limit: Symbol<'_, Limit> = library.get(b"nvmlDeviceGetEnforcedPowerLimit\0").ok()?;
        if begin() != SUCCESS {
            return None;
        }
        let told = find(place.as_ptr(), &raw mut handle) == SUCCESS && limit(handle, &raw mut milliwatts) == SUCCESS;
        end();
        told.then_some(milliwatts)
    }
}
