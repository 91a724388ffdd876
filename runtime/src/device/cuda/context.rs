//! The primary context of one GPU, and the GPU's properties.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute};

use super::driver::{Driver, call};
use super::power;
use crate::compile::arch::Arch;
use crate::device::properties::Properties;
use crate::error::{Absent, Error, Result};

/// A GPU's primary context. cudarc, candle and CUDA's own runtime use the same one, so pointers and streams can be
/// shared with them. It is retained for the rest of the process.
pub(crate) struct Context {
    ordinal: usize,
    context: CUcontext,
    driver: &'static Driver,
    pub(crate) properties: Properties,
    /// Whether memory can be allocated and freed in stream order.
    pub(super) has_pools: bool,
    /// Held while a stream is captured here, and while the whole GPU is waited for, which a capture would forbid.
    capturing: Mutex<()>,
}

// SAFETY: the driver's functions may be called from any thread; the handle is only passed to them.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A context that is the calling thread's current one until this is dropped.
#[must_use]
pub(super) struct Current {
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: a valid place to write to. Pushed by this thread, which this value can't leave; an error leaves the
        // thread's contexts as they are.
        let _ = unsafe { call!(cuCtxPopCurrent_v2(&raw mut popped)) };
    }
}

impl Context {
    /// Retains the context of a GPU.
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let driver = Driver::get().map_err(|absent| match absent {
            // (It was asked for none.)
            Absent::Device { count, .. } => Absent::Device { ordinal, count },
            other => other,
        })?;
        let mut count = 0;
        // SAFETY: the driver is initialised; a valid place to write to.
        unsafe { call!(cuDeviceGetCount(&raw mut count)) }?;
        let count = usize::try_from(count).unwrap_or(0);
        let number = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        let number = number.ok_or(Absent::Device { ordinal, count })?;
        let mut device = 0;
        let mut context = ptr::null_mut();
        // SAFETY: valid places to write to; the ordinal is below the count.
        unsafe {
            call!(cuDeviceGet(&raw mut device, number))?;
            call!(cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        }
        let properties = properties(device)?;
        let has_pools = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        Ok(Self { ordinal, context, driver, properties, has_pools, capturing: Mutex::default() })
    }

    /// Makes this the calling thread's current context, as all the driver's calls that work in a context need, until
    /// the returned value is dropped. So a program that uses CUDA itself finds its own context unchanged.
    pub(super) fn bind(&self) -> Result<Current> {
        // SAFETY: a retained primary context.
        unsafe { call!(cuCtxPushCurrent_v2(self.context)) }?;
        Ok(Current { _of_this_thread: PhantomData })
    }

    /// The GPU's number.
    pub(super) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Whether this is the given context.
    pub(super) fn is(&self, context: CUcontext) -> bool {
        self.context == context
    }

    /// Keeps captures and waits for the whole GPU apart.
    pub(super) fn capturing(&self) -> MutexGuard<'_, ()> {
        self.capturing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for everything that runs on the GPU. The context is current.
    pub(super) fn finish(&self) -> Result<()> {
        let _alone = self.capturing();
        // SAFETY: the context is current.
        unsafe { call!(cuCtxSynchronize()) }
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// [`Error::OutOfMemory`] if the driver's error means that.
    pub(super) fn allocation_error(&self, error: Error, bytes: usize) -> Error {
        match error {
            Error::Driver { name, .. } if name == "CUDA_ERROR_OUT_OF_MEMORY" => {
                let device = format!("CUDA device {} ({})", self.ordinal, self.properties.name);
                Error::OutOfMemory { device, bytes }
            }
            other => other,
        }
    }
}

fn attribute(device: CUdevice, attribute: Attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: an existing device and a valid place to write to.
    unsafe { call!(cuDeviceGetAttribute(&raw mut value, attribute, device)) }?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn properties(device: CUdevice) -> Result<Properties> {
    let mut name = [0u8; 256];
    let mut memory_bytes = 0;
    let mut driver_version = 0;
    // SAFETY: an existing device; places to write to of the stated sizes.
    unsafe {
        call!(cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), 256, device))?;
        call!(cuDeviceTotalMem_v2(&raw mut memory_bytes, device))?;
        call!(cuDriverGetVersion(&raw mut driver_version))?;
    }
    let name = CStr::from_bytes_until_nul(&name).map_or_else(|_| String::new(), |n| n.to_string_lossy().into_owned());
    let major = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let domain = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let place = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Ok(Properties {
        name,
        arch: Some(Arch::of_device(u8::try_from(major).unwrap_or(u8::MAX), u8::try_from(minor).unwrap_or(u8::MAX))),
        multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_bytes_per_multiprocessor: attribute(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        registers_per_multiprocessor: attribute(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        threads_per_multiprocessor: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        l2_bytes: u64::from(attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        memory_bytes: memory_bytes as u64,
        driver_version: u32::try_from(driver_version).unwrap_or(0),
        clock_khz: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_clock_khz: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus_bits: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        power_milliwatts: power::limit_milliwatts(domain, bus, place).unwrap_or(0),
    })
}
