//! DLPack's structures as they are in memory (its header `dlpack.h`, version 1), with the header's names.

use std::ffi::c_void;

use crate::layout::element::ElementType;

/// The version of a [`DLManagedTensorVersioned`]. With another `major`, only the fields before `dl_tensor` are the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Changes with the layout.
    pub major: u32,
    /// Changes with new constants.
    pub minor: u32,
}

impl DLPackVersion {
    /// The version that this library writes. It reads any `minor` of this `major`.
    pub const OURS: Self = Self { major: 1, minor: 0 };
}

/// Where a tensor's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// A number of the header's `DLDeviceType`.
    pub device_type: i32,
    /// The number of the device among those of its type.
    pub device_id: i32,
}

impl DLDevice {
    /// `kDLCPU`.
    pub const CPU: i32 = 1;
    /// `kDLCUDA`.
    pub const CUDA: i32 = 2;
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    /// A number of the header's `DLDataTypeCode`.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// 1, except for vector types.
    pub lanes: u16,
}

impl DLDataType {
    pub(super) const fn of(element: ElementType) -> Self {
        let (code, bits) = match element {
            ElementType::F64 => (2, 64),
            ElementType::F32 => (2, 32),
            ElementType::F16 => (2, 16),
            ElementType::BF16 => (4, 16),
            ElementType::F8E4M3 => (10, 8),
            ElementType::F8E5M2 => (12, 8),
            ElementType::I64 => (0, 64),
            ElementType::I32 => (0, 32),
            ElementType::I16 => (0, 16),
            ElementType::I8 => (0, 8),
            ElementType::U64 => (1, 64),
            ElementType::U32 => (1, 32),
            ElementType::U16 => (1, 16),
            ElementType::U8 => (1, 8),
            ElementType::Bool => (6, 8),
        };
        Self { code, bits, lanes: 1 }
    }

    pub(super) fn element(self) -> Option<ElementType> {
        ElementType::ALL.into_iter().find(|&element| Self::of(element) == self)
    }

    /// The type, for a person.
    pub(super) fn describe(self) -> String {
        let name = match self.code {
            0 => "int",
            1 => "uint",
            2 => "float",
            3 => "opaque handle",
            4 => "bfloat",
            5 => "complex",
            6 => "bool",
            code => return format!("DLPack's type code {code} of {} bits, {} lanes", self.bits, self.lanes),
        };
        let lanes = if self.lanes == 1 { String::new() } else { format!(" x {} lanes", self.lanes) };
        format!("DLPack's {name}{}{lanes}", self.bits)
    }
}

/// A view of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The memory; may be null if there are no elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of axes.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides, in elements; null for row-major order without gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor and how to release it, before version 1.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// For its maker's use.
    pub manager_ctx: *mut c_void,
    /// Must be called once, with this structure, which it also frees; null if there is nothing to free.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor and how to release it, from version 1 on.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version of the structure.
    pub version: DLPackVersion,
    /// For its maker's use.
    pub manager_ctx: *mut c_void,
    /// Must be called once, with this structure, which it also frees; null if there is nothing to free.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bits: [`READ_ONLY`](Self::READ_ONLY), and others that this library doesn't use.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

impl DLManagedTensorVersioned {
    /// The memory must not be written.
    pub const READ_ONLY: u64 = 1;
}
