//! Devices, and what is known of each.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::arch::Arch;
use crate::buffer::{Buffer, Memory};
use crate::element::{Element, ElementType};
use crate::error::{LayoutError, Result};
use crate::host::{self, HostMemory};
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::DeviceTensor;

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU, through the CUDA driver.
    Cuda {
        /// The driver's number of the GPU.
        ordinal: usize,
    },
    /// This computer's CPU.
    Cpu,
    /// A GPU of the given architecture, executed by ptx-vm on the CPU.
    Emulated {
        /// The architecture.
        arch: Arch,
    },
}

/// What kernels are chosen by. A number that means nothing on a device is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The maker's name for it.
    pub name: String,
    /// The architecture to compile for; `None` on the CPU.
    pub arch: Option<Arch>,
    /// Streaming multiprocessors; on the CPU, the threads that run at once.
    pub multiprocessors: u32,
    /// Shared memory that one block can have when it opts in, in bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Threads that one multiprocessor holds.
    pub threads_per_multiprocessor: u32,
    /// The second-level cache, in bytes; on the CPU, one core's.
    pub l2_bytes: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Peak clock, in kHz.
    pub clock_khz: u32,
}

/// A device: a cheap handle, to be cloned and sent freely.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    kind: DeviceKind,
    properties: Properties,
}

impl Device {
    /// This computer's CPU. Work on it is finished when the call that does it returns.
    #[must_use]
    pub fn cpu() -> Self {
        static CPU: LazyLock<Device> =
            LazyLock::new(|| Device(Arc::new(Inner { kind: DeviceKind::Cpu, properties: host::properties() })));
        CPU.clone()
    }

    /// What kind of device it is.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.0.kind
    }

    /// What is known of it.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// The architecture to compile kernels for; `None` on the CPU, which runs none.
    #[must_use]
    pub fn arch(&self) -> Option<Arch> {
        self.0.properties.arch
    }

    /// The stream that uploads, fills and readbacks are ordered on.
    #[must_use]
    pub fn default_stream(&self) -> Stream {
        Stream::immediate(self.clone())
    }

    /// A tensor holding `values` in row-major order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] when `shape` needs another number of values; out of memory.
    pub fn tensor<T: Element>(&self, values: &[T], shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let shape = shape.as_ref();
        check_length(shape, values.len())?;
        self.tensor_from_bytes(T::TYPE, bytemuck::cast_slice(values), shape)
    }

    /// A tensor holding the elements whose bytes are given, in row-major order and this machine's byte order.
    ///
    /// # Errors
    /// [`LayoutError::DataLength`] when `bytes` is not exactly `shape`'s elements; out of memory.
    pub fn tensor_from_bytes(
        &self,
        element: ElementType,
        bytes: &[u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {
        let shape = shape.as_ref();
        let layout = Layout::packed(shape, element.size())?;
        if bytes.len() != layout.len() * element.size() {
            let given = bytes.len() / element.size();
            return Err(LayoutError::DataLength { shape: shape.to_vec(), needed: layout.len(), given }.into());
        }
        let buffer = self.allocate(bytes.len())?;
        buffer.write(0, bytes)?;
        Ok(DeviceTensor::new(Arc::new(buffer), element, layout))
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn zeros<T: Element>(&self, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        self.zeros_of(T::TYPE, shape)
    }

    /// A tensor of zeros, with its element type as a value.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn zeros_of(&self, element: ElementType, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {
        let layout = Layout::packed(shape.as_ref(), element.size())?;
        let buffer = self.allocate(layout.len() * element.size())?;
        Ok(DeviceTensor::new(Arc::new(buffer), element, layout))
    }

    /// A tensor whose elements are all `value`.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`]; out of memory.
    pub fn full<T: Element>(&self, shape: impl AsRef<[usize]>, value: T) -> Result<DeviceTensor> {
        let layout = Layout::packed(shape.as_ref(), size_of::<T>())?;
        if bytemuck::bytes_of(&value) == bytemuck::bytes_of(&T::zeroed()) {
            return self.zeros::<T>(shape);
        }
        self.tensor(&vec![value; layout.len()], shape)
    }

    /// Zeroed memory.
    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let memory = match self.0.kind {
            DeviceKind::Cpu => Memory::Host(HostMemory::zeroed(bytes)?),
            DeviceKind::Cuda { .. } | DeviceKind::Emulated { .. } => unreachable!(),
        };
        Ok(Buffer::new(self.clone(), bytes, memory))
    }
}

fn check_length(shape: &[usize], given: usize) -> Result<(), LayoutError> {
    let needed = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
    match needed {
        Some(needed) if needed == given => Ok(()),
        Some(needed) => Err(LayoutError::DataLength { shape: shape.to_vec(), needed, given }),
        None => Err(LayoutError::TooLarge { shape: shape.to_vec() }),
    }
}

/// Handles are equal when they are of one device: tensors of one are valid on the other.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            DeviceKind::Cuda { ordinal } => write!(f, "CUDA device {ordinal} ({})", self.0.properties.name),
            DeviceKind::Cpu => f.write_str("the CPU"),
            DeviceKind::Emulated { arch } => write!(f, "an emulated {arch}"),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
