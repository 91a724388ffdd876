//! Loaded kernels and their launch.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute_enum as Attribute, CUlaunchAttribute, CUlaunchAttributeID_enum as LaunchAttribute,
    CUlaunchConfig, CUmodule, CUresult, CUstream,
};
use smallvec::SmallVec;

use super::driver::call;
use super::gpu::Gpu;
use super::graph::Relaxed;
use super::stream::CudaStream;
use crate::device::launch::Launch;
use crate::error::{Error, Result};

/// Dynamic shared memory that a kernel may use without setting an attribute (CUDA C++ Programming Guide, "Shared
/// memory").
const UNASKED_SHARED_BYTES: u32 = 48 * 1024;

const INVALID_CLUSTER_SIZE: u32 = CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE as u32;

/// A kernel in a loaded module.
pub(crate) struct Function {
    gpu: &'static Gpu,
    module: CUmodule,
    function: CUfunction,
    granted: Mutex<Granted>,
}

/// The limits that the function's attributes allow so far.
struct Granted {
    shared_bytes: u32,
    large_clusters: bool,
}

// SAFETY: the driver's functions may be called from any thread; the handles are only passed to them.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Loads machine code.
    pub(crate) fn load(gpu: &'static Gpu, cubin: &[u8], entry: &str) -> Result<Self> {
        let name = CString::new(entry).map_err(|_| Error::Launch {
            kernel: entry.to_owned(),
            reason: "its name contains a zero byte".to_owned(),
        })?;
        if !cubin.starts_with(b"\x7fELF") {
            let reason = "a GPU needs machine code: compile with `Output::Cubin`".to_owned();
            return Err(Error::Launch { kernel: entry.to_owned(), reason });
        }
        let _current = gpu.context.bind()?;
        // Others may capture a stream meanwhile, to which this is nothing.
        let _relaxed = Relaxed::enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: `cubin` is a whole ELF image (its hash or its compiler vouches for it); the driver copies it.
        unsafe { call!(cuModuleLoadData(&raw mut module, cubin.as_ptr().cast::<c_void>())) }?;
        let granted = Mutex::new(Granted { shared_bytes: UNASKED_SHARED_BYTES, large_clusters: false });
        let mut loaded = Self { gpu, module, function: ptr::null_mut(), granted };
        // SAFETY: a loaded module, a valid place to write to, a text that ends with zero.
        unsafe { call!(cuModuleGetFunction(&raw mut loaded.function, module, name.as_ptr())) }?;
        Ok(loaded)
    }

    /// Fills a variable of the module, before any launch.
    pub(crate) fn write_variable(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let refuse = |reason: String| Error::Launch { kernel: name.to_owned(), reason };
        let symbol = CString::new(name).map_err(|_| refuse("its name contains a zero byte".to_owned()))?;
        let _current = self.gpu.context.bind()?;
        let (mut address, mut size) = (0, 0);
        // SAFETY: valid places to write to, a loaded module, a text that ends with zero.
        unsafe { call!(cuModuleGetGlobal_v2(&raw mut address, &raw mut size, self.module, symbol.as_ptr())) }?;
        if size != bytes.len() {
            return Err(refuse(format!("the variable has {size} bytes, {} are needed", bytes.len())));
        }
        let stream = self.gpu.default_stream()?;
        // SAFETY: the variable is as large as `bytes`, which outlive the copy, because the stream is waited for.
        unsafe { call!(cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast::<c_void>(), size, stream.handle())) }?;
        stream.synchronize()
    }

    /// Waits for everything that runs on the GPU.
    pub(crate) fn finish(&self) -> Result<()> {
        let _current = self.gpu.context.bind()?;
        self.gpu.context.finish()
    }

    /// How many blocks of `threads` threads and `shared_bytes` dynamic shared memory can be on one multiprocessor at
    /// once.
    pub(crate) fn blocks_per_multiprocessor(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        let _current = self.gpu.context.bind()?;
        self.grant(shared_bytes, false)?;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let mut blocks = 0;
        // SAFETY: a loaded function and a valid place to write to.
        unsafe {
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function,
                threads,
                shared_bytes as usize
            ))
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// How many clusters of the launch's shape can be on the whole GPU at once.
    pub(crate) fn active_clusters(&self, launch: &Launch) -> Result<u32> {
        let _current = self.gpu.context.bind()?;
        self.grant(launch.shared_bytes, launch.has_large_clusters())?;
        let mut attributes = attributes(launch);
        let config = config(launch, &mut attributes, ptr::null_mut());
        let mut clusters = 0;
        // SAFETY: a valid place to write to; the configuration and its attributes live during the call.
        match unsafe { call!(cuOccupancyMaxActiveClusters(&raw mut clusters, self.function, &raw const config)) } {
            // Clusters of this size are allowed, but the GPU has no room for one.
            Err(Error::Driver { code, .. }) if code == INVALID_CLUSTER_SIZE && launch.has_large_clusters() => Ok(0),
            answer => answer.map(|()| u32::try_from(clusters).unwrap_or(0)),
        }
    }

    fn grant(&self, shared_bytes: u32, large_clusters: bool) -> Result<()> {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let set = |attribute, value: u32| {
            let value = c_int::try_from(value).unwrap_or(c_int::MAX);
            // SAFETY: a loaded function.
            unsafe { call!(cuFuncSetAttribute(self.function, attribute, value)) }
        };
        if shared_bytes > granted.shared_bytes {
            set(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)?;
            granted.shared_bytes = shared_bytes;
        }
        if large_clusters && !granted.large_clusters {
            set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
            granted.large_clusters = true;
        }
        Ok(())
    }

    /// Launches the kernel on a stream.
    ///
    /// # Safety
    /// Each of `arguments` points to a value of its parameter's size; their number is the kernel's. The memory that
    /// they name lives until the kernel is done.
    pub(crate) unsafe fn launch(&self, launch: &Launch, arguments: &[*const u8], stream: &CudaStream) -> Result<()> {
        let _current = self.gpu.context.bind()?;
        self.grant(launch.shared_bytes, launch.has_large_clusters())?;
        let mut attributes = attributes(launch);
        let config = config(launch, &mut attributes, stream.handle());
        // The driver only reads the arguments, although their type is mutable.
        let mut parameters: SmallVec<[*mut c_void; 8]> =
            arguments.iter().map(|argument| argument.cast_mut().cast::<c_void>()).collect();
        // SAFETY: the configuration and its attributes live during the call; the caller vouches for the arguments.
        unsafe { call!(cuLaunchKernelEx(&raw const config, self.function, parameters.as_mut_ptr(), ptr::null_mut())) }
    }
}

fn config(launch: &Launch, attributes: &mut [CUlaunchAttribute], stream: CUstream) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as c_uint,
    }
}

fn attributes(launch: &Launch) -> SmallVec<[CUlaunchAttribute; 2]> {
    let mut attributes = SmallVec::new();
    if launch.cluster != [1; 3] {
        let mut cluster = attribute(LaunchAttribute::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        [cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z] = launch.cluster;
        attributes.push(cluster);
    }
    if launch.programmatic_dependent_launch {
        let mut dependent = attribute(LaunchAttribute::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        dependent.value.programmaticStreamSerializationAllowed = 1;
        attributes.push(dependent);
    }
    attributes
}

fn attribute(id: LaunchAttribute) -> CUlaunchAttribute {
    // SAFETY: the structure is integers and a union of integers and pointers; all of them may be zero.
    let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = id;
    attribute
}

impl Drop for Function {
    fn drop(&mut self) {
        if let Ok(_current) = self.gpu.context.bind() {
            // SAFETY: a loaded module, none of whose kernels runs any more. Errors can only be those of earlier work,
            // which every later synchronisation reports too.
            let unload = || unsafe { call!(cuModuleUnload(self.module)) };
            let _ = self.gpu.context.finish().and_then(|()| unload());
        }
    }
}
