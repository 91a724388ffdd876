//! Replaces `cuda` in a build without the feature `cuda`: values of these types can't exist.

pub(crate) mod tensor_map;

use std::ffi::c_void;
use std::sync::Arc;

use crate::compile::failure::RECORD_BYTES;
use crate::device::launch::Launch;
use crate::device::properties::Properties;
use crate::error::{Absent, Result};

/// A GPU, which can't exist.
pub(crate) struct Gpu {
    pub(crate) context: Context,
}

/// A GPU's context.
pub(crate) struct Context {
    pub(crate) properties: Properties,
    none: Never,
}

enum Never {}

/// Its streams.
pub(crate) enum CudaStream {}

/// Points in its streams.
pub(crate) enum CudaEvent {}

/// Its code.
pub(crate) enum Function {}

/// Its memory.
pub(crate) struct Allocation(Never);

/// Its record of failures.
pub(crate) enum HostRecord {}

/// Its graphs.
pub(crate) enum ExecutableGraph {}

/// Accesses of memory by a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AllocationAccess {
    Read,
    Write,
}

/// The owner that keeps foreign memory.
pub(crate) type Keeper = Box<dyn std::any::Any + Send + Sync>;

impl Gpu {
    pub(crate) fn get(_: usize) -> Result<&'static Self> {
        Err(Absent::Feature.into())
    }

    pub(crate) fn default_stream(&'static self) -> Result<&'static Arc<CudaStream>> {
        match self.context.none {}
    }
}

impl CudaStream {
    pub(crate) fn new(context: &'static Context) -> Result<Self> {
        match context.none {}
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        match *self {}
    }

    pub(crate) fn capture_id(&self) -> Result<Option<u64>> {
        match *self {}
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn record(&self, _: bool) -> Result<CudaEvent> {
        match *self {}
    }

    pub(crate) fn wait(&self, _: &CudaEvent) -> Result<()> {
        match *self {}
    }
}

impl CudaEvent {
    pub(crate) fn synchronize(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn elapsed_ms(&self, _: &Self) -> Result<f32> {
        match *self {}
    }
}

impl Function {
    pub(crate) fn load(gpu: &'static Gpu, _: &[u8], _: &str) -> Result<Self> {
        match gpu.context.none {}
    }

    pub(crate) fn write_variable(&self, _: &str, _: &[u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn finish(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn blocks_per_multiprocessor(&self, _: u32, _: u32) -> Result<u32> {
        match *self {}
    }

    pub(crate) fn active_clusters(&self, _: &Launch) -> Result<u32> {
        match *self {}
    }

    /// # Safety
    /// None is needed: there is no function.
    pub(crate) unsafe fn launch(&self, _: &Launch, _: &[*const u8], _: &CudaStream) -> Result<()> {
        match *self {}
    }
}

impl Allocation {
    pub(crate) fn zeroed(gpu: &'static Gpu, _: usize) -> Result<Self> {
        match gpu.context.none {}
    }

    pub(crate) fn holding(gpu: &'static Gpu, _: &[u8]) -> Result<Self> {
        match gpu.context.none {}
    }

    pub(crate) fn uninitialised(gpu: &'static Gpu, _: usize) -> Result<Self> {
        match gpu.context.none {}
    }

    /// # Safety
    /// None is needed: there is no GPU.
    pub(crate) unsafe fn kept_by(gpu: &'static Gpu, _: u64, _: bool, _: Keeper) -> Self {
        match gpu.context.none {}
    }

    pub(crate) fn is_of_scope(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_writable(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn wait(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn address(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn read(&self, _: usize, _: &mut [u8]) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<()> {
        match self.0 {}
    }
}

impl HostRecord {
    pub(crate) fn new(context: &'static Context) -> Result<Self> {
        match context.none {}
    }

    pub(crate) fn device_address(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn take(&self) -> Option<[u8; RECORD_BYTES]> {
        match *self {}
    }
}

impl ExecutableGraph {
    pub(crate) fn of(context: &'static Context, _: impl FnOnce(&CudaStream) -> Result<()>) -> Result<Self> {
        match context.none {}
    }

    pub(crate) fn launch(&self, _: &CudaStream) -> Result<()> {
        match *self {}
    }
}

/// Work in the order of a GPU's streams.
pub(crate) fn order(
    on: &Arc<CudaStream>,
    _: &[(&Allocation, AllocationAccess)],
    _: impl FnOnce() -> Result<()>,
) -> Result<()> {
    match **on {}
}

/// Work beside a stream that is captured.
pub(crate) fn beside<T>(stream: &CudaStream, _: impl FnOnce() -> Result<T>) -> Result<T> {
    match *stream {}
}
