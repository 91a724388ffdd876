//! Tensors of safetensors files, without copying the file's bytes.
//!
//! The caller reads the file into memory or maps it (for example with memmap2).

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::owned::share;
use super::scope::{Scope, of_bytes};
use crate::device::Device;
use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::layout::element::ElementType;
use crate::tensor::DeviceTensor;

impl<'env> Scope<'env> {
    /// A read-only tensor in the bytes of a safetensors file (feature `safetensors`).
    ///
    /// ```
    /// use epilogue_runtime::Device;
    /// use safetensors::SafeTensors;
    /// # use safetensors::tensor::{Dtype, TensorView};
    /// # let weight = TensorView::new(Dtype::F32, vec![2], &[0u8, 0, 128, 63, 0, 0, 0, 64])?;
    /// # let bytes = safetensors::serialize([("weight", weight)], None)?;
    /// # let mut words = vec![0u64; bytes.len() / 8 + 1];
    /// # bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
    /// # let bytes = &bytemuck::cast_slice(&words)[..bytes.len()];
    ///
    /// let file = SafeTensors::deserialize(bytes)?; // `bytes` is the file, read or mapped
    /// let weight = file.tensor("weight")?;
    /// let sum = Device::cpu().scope(|scope| {
    ///     let weight = scope.borrow_safetensor(&weight)?; // in place
    ///     weight.to_vec::<f32>().map(|all| all.iter().sum::<f32>())
    /// })?;
    /// assert_eq!(sum, 3.0);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ExchangeError::ElementType`]; [`LayoutError::Misaligned`](crate::LayoutError::Misaligned) if the address of
    /// the first byte is not a multiple of an element's size; [`Error::Unsupported`](crate::Error::Unsupported) on a
    /// device other than the CPU.
    pub fn borrow_safetensor(&self, tensor: &TensorView<'env>) -> Result<DeviceTensor> {
        self.borrow_bytes(element(tensor.dtype())?, tensor.data(), tensor.shape())
    }
}

impl Device {
    /// All tensors of a safetensors file, by name, read-only, in the file's bytes; each keeps a share of the file
    /// (feature `safetensors`). `file` is, for example, a `Vec<u8>` or a mapped file.
    ///
    /// # Errors
    /// [`ExchangeError::Safetensors`] if it is no safetensors file; [`ExchangeError::ElementType`], with the tensor's
    /// name; [`LayoutError::Misaligned`](crate::LayoutError::Misaligned);
    /// [`Error::Unsupported`](crate::Error::Unsupported) on a device other than the CPU.
    pub fn share_safetensors<O>(&self, file: &Arc<O>) -> Result<BTreeMap<String, DeviceTensor>>
    where
        O: AsRef<[u8]> + ?Sized + Send + Sync + 'static,
    {
        let parsed = SafeTensors::deserialize((**file).as_ref());
        let parsed = parsed.map_err(|error| ExchangeError::Safetensors { reason: error.to_string() })?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.iter() {
            let element = element(view.dtype()).map_err(|error| match error {
                ExchangeError::ElementType { given } => {
                    ExchangeError::ElementType { given: format!("{given} (of tensor `{name}`)") }
                }
                other => other,
            })?;
            let data = view.data();
            let layout = of_bytes(data.len(), element, view.shape())?;
            // SAFETY: the bytes were found through a reference to the `Arc`'s content. That stays shared and where it
            // is for as long as the `Arc` is kept; every pattern of bits is an element.
            let tensor =
                unsafe { share(self, Arc::clone(file), NonNull::from(data).cast(), data.len(), element, layout) }?;
            tensors.insert(name.to_owned(), tensor);
        }
        Ok(tensors)
    }
}

pub(super) fn element(dtype: Dtype) -> Result<ElementType, ExchangeError> {
    Ok(match dtype {
        Dtype::F64 => ElementType::F64,
        Dtype::F32 => ElementType::F32,
        Dtype::BF16 => ElementType::BF16,
        Dtype::F16 => ElementType::F16,
        Dtype::F8_E4M3 => ElementType::F8E4M3,
        Dtype::F8_E5M2 => ElementType::F8E5M2,
        Dtype::I64 => ElementType::I64,
        Dtype::I32 => ElementType::I32,
        Dtype::I16 => ElementType::I16,
        Dtype::I8 => ElementType::I8,
        Dtype::U64 => ElementType::U64,
        Dtype::U32 => ElementType::U32,
        Dtype::U16 => ElementType::U16,
        Dtype::U8 => ElementType::U8,
        Dtype::BOOL => ElementType::Bool,
        other => return Err(ExchangeError::ElementType { given: format!("safetensors' {other:?}") }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, LayoutError};

    /// A file's bytes, at an address that has the given remainder modulo 8.
    struct File(Vec<u64>, usize, usize);

    impl AsRef<[u8]> for File {
        fn as_ref(&self) -> &[u8] {
            &bytemuck::cast_slice(&self.0)[self.1..self.1 + self.2]
        }
    }

    fn file(tensors: &[(&str, Dtype, &[usize], &[u8])], remainder: usize) -> File {
        let views = tensors
            .iter()
            .map(|&(name, dtype, shape, bytes)| (name, TensorView::new(dtype, shape.to_vec(), bytes).unwrap()));
        let bytes = safetensors::serialize(views, None).unwrap();
        let mut words = vec![0u64; bytes.len() / 8 + 2];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[remainder..remainder + bytes.len()].copy_from_slice(&bytes);
        File(words, remainder, bytes.len())
    }

    #[test]
    fn tensors_lie_in_the_file() {
        let values = [1.5f32, -2.0, 3.0, 0.0, 5.0, 6.0];
        let bytes: &[u8] = bytemuck::cast_slice(&values);
        let of = |dtype| (dtype, &[6usize][..], &bytes[..6 * Dtype::bitsize(&dtype) / 8]);
        let all =
            [Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::I32, Dtype::I8, Dtype::U8];
        let names: Vec<String> = all.iter().map(|dtype| format!("{dtype:?}")).collect();
        let mut tensors: Vec<(&str, Dtype, &[usize], &[u8])> = Vec::new();
        for (name, dtype) in names.iter().zip(all) {
            let (dtype, shape, bytes) = of(dtype);
            tensors.push((name, dtype, shape, bytes));
        }
        tensors.push(("matrix", Dtype::F32, &[2, 3], bytes));
        tensors.push(("wide", Dtype::F64, &[1, 3], bytes));
        tensors.push(("long", Dtype::I64, &[3], bytes));
        tensors.push(("mask", Dtype::BOOL, &[4], &[0, 1, 2, 255]));
        tensors.push(("empty", Dtype::F32, &[0, 3], &[]));
        let file = Arc::new(file(&tensors, 0));
        let range = (*file).as_ref().as_ptr_range();
        let shared = Device::cpu().share_safetensors(&file).unwrap();
        assert_eq!(shared.len(), tensors.len());
        assert_eq!(shared["matrix"].to_vec::<f32>().unwrap(), values);
        assert_eq!(shared["matrix"].shape(), [2, 3]);
        assert_eq!(shared["mask"].to_vec::<bool>().unwrap(), [false, true, true, true]);
        for tensor in shared.values() {
            let place = tensor.byte_range();
            assert!(place.start >= range.start as u64 && place.end <= range.end as u64);
        }
        let parsed = SafeTensors::deserialize((*file).as_ref()).unwrap();
        Device::cpu().scope(|scope| {
            for (name, view) in parsed.iter() {
                let tensor = scope.borrow_safetensor(&view).unwrap();
                assert_eq!(tensor.to_bytes().unwrap(), view.data(), "{name}");
                assert_eq!(tensor.byte_range(), shared[name].byte_range());
            }
        });
        assert_eq!(Arc::strong_count(&file), 1 + tensors.len());
        drop(shared);
        assert_eq!(Arc::strong_count(&file), 1);
    }

    #[test]
    fn what_cannot_be_taken_is_refused() {
        let cpu = Device::cpu();
        let refused = cpu.share_safetensors(&Arc::new(file(&[("counts", Dtype::F8_E8M0, &[1], &[0])], 0))).unwrap_err();
        let expected =
            "safetensors' F8_E8M0 (of tensor `counts`) is not an element type of this library, which has f64, f32";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        let odd = Arc::new(file(&[("x", Dtype::F32, &[1], &[0; 4])], 2));
        let refused = cpu.share_safetensors(&odd).unwrap_err();
        assert!(matches!(refused, Error::Layout(LayoutError::Misaligned { alignment: 4, .. })), "{refused}");
        let mut cut = file(&[("x", Dtype::F32, &[1], &[0; 4])], 0);
        cut.2 -= 1;
        let refused = cpu.share_safetensors(&Arc::new(cut)).unwrap_err();
        assert!(matches!(refused, Error::Exchange(ExchangeError::Safetensors { .. })), "{refused}");
        assert!(cpu.share_safetensors(&Arc::new(b"no file".to_vec())).is_err());
        let emulated = Device::emulated(crate::Arch::SM_80).unwrap();
        let good = Arc::new(file(&[("x", Dtype::F32, &[1], &[0; 4])], 0));
        assert!(matches!(emulated.share_safetensors(&good), Err(Error::Unsupported { .. })));
        assert_eq!(Arc::strong_count(&good), 1);
    }
}
