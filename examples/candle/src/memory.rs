//! candle's memory as this library's tensors, and results as candle's memory.

use candle_core::{CpuStorage, DType, Device, Error, Layout, Result, Tensor, bail};
use epilogue::runtime::Scope;
use epilogue::{DeviceTensor, ElementType};
use half::{bf16, f16};

/// An error of this library's as one of candle's.
pub(crate) fn wrapped(error: impl std::fmt::Display + Send + Sync + 'static) -> Error {
    Error::wrap(error)
}

/// Does something for the type that both libraries have; refuses the others by name.
macro_rules! of_storage {
    ($storage:expr, $values:ident => $work:expr) => {
        match $storage {
            CpuStorage::U8($values) => $work,
            CpuStorage::I32($values) => $work,
            CpuStorage::I64($values) => $work,
            CpuStorage::BF16($values) => $work,
            CpuStorage::F16($values) => $work,
            CpuStorage::F32($values) => $work,
            CpuStorage::F64($values) => $work,
            other => return Err(refused(other.dtype())),
        }
    };
}

fn refused(dtype: DType) -> Error {
    Error::Msg(format!("an epilogue takes no tensors of {dtype:?}; u8, i32, i64, bf16, f16, f32 and f64 can be given"))
}

trait Typed {
    fn dtype(&self) -> DType;
}

impl Typed for CpuStorage {
    fn dtype(&self) -> DType {
        candle_core::backend::BackendStorage::dtype(self)
    }
}

/// A view of candle's memory, for reading.
pub(crate) fn lend<'env>(scope: &Scope<'env>, storage: &'env CpuStorage, layout: &Layout) -> Result<DeviceTensor> {
    let strides: Vec<isize> = layout.stride().iter().map(|stride| *stride as isize).collect();
    let from = layout.start_offset();
    of_storage!(storage, values => {
        let Some(values) = values.get(from..) else { bail!("the view begins behind its memory") };
        scope.borrow_strided(values, layout.dims(), strides).map_err(wrapped)
    })
}

/// Memory for a result.
pub(crate) fn zeros(element: ElementType, count: usize) -> Result<CpuStorage> {
    Ok(match element {
        ElementType::U8 => CpuStorage::U8(vec![0; count]),
        ElementType::I32 => CpuStorage::I32(vec![0; count]),
        ElementType::I64 => CpuStorage::I64(vec![0; count]),
        ElementType::BF16 => CpuStorage::BF16(vec![bf16::ZERO; count]),
        ElementType::F16 => CpuStorage::F16(vec![f16::ZERO; count]),
        ElementType::F32 => CpuStorage::F32(vec![0.0; count]),
        ElementType::F64 => CpuStorage::F64(vec![0.0; count]),
        other => bail!("candle has no tensors of {other}, which the epilogue returns"),
    })
}

/// A result's memory, for writing.
pub(crate) fn lend_mut<'env>(
    scope: &Scope<'env>,
    storage: &'env mut CpuStorage,
    shape: &[usize],
) -> Result<DeviceTensor> {
    of_storage!(storage, values => scope.borrow_mut(values, shape).map_err(wrapped))
}

/// A result as a tensor.
pub(crate) fn tensor(storage: CpuStorage, shape: Vec<usize>) -> Result<Tensor> {
    of_storage!(storage, values => Tensor::from_vec(values, shape, &Device::Cpu))
}
