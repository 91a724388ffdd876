//! Packs a B once, for many runs.

use std::sync::Arc;

use epilogue_runtime::DeviceTensor;

use crate::gemm::cpu;
use crate::gemm::devices::operation::Operation;
use crate::gemm::problem::digits::{has_digits, shape_of};
use crate::gemm::problem::format::Format;
use crate::gemm::problem::{Arithmetic, Contents, Error, FormatError, Packed, PackedTensor, Unpacked};
use crate::gemm::run::check;

/// Packs a B for an operation.
pub(super) fn pack(operation: &Operation, b: Unpacked<'_>) -> Result<Packed, Error> {
    let given = match b {
        Unpacked::Tensor(_) => Format::Plain,
        Unpacked::Weights(weights) => Format::Quantized(weights.quantization()),
    };
    let purpose = operation.purpose();
    if given != purpose.format && (given.is_quantized() || purpose.format.is_quantized()) {
        return Err(FormatError::Other { planned: purpose.format, given }.into());
    }
    let contents = match b {
        Unpacked::Tensor(tensor) => pack_tensor(operation, tensor)?,
        Unpacked::Weights(weights) => {
            let tensors = std::iter::once(("B", weights.tensor())).chain(weights.others());
            tensors.into_iter().try_for_each(|(name, tensor)| check::on_device(&operation.device, name, tensor))?;
            Contents::Weights(Box::new(cpu::pack_weights(&weights)?))
        }
    };
    Ok(Packed { contents, purpose })
}

fn pack_tensor(operation: &Operation, b: &DeviceTensor) -> Result<Contents, Error> {
    let types = operation.tree().types();
    check::operand(&operation.device, "B", b, types.b)?;
    if has_digits(b) || !(2..=3).contains(&shape_of(b).len()) {
        return Err(Error::OperandRank { operand: "B", shape: b.shape().to_vec() });
    }
    let tensor = copy(b)?;
    let (rounded, panels) = match operation.settings.arithmetic {
        Arithmetic::FastBf16 => {
            let rounded = cpu::rounded(&tensor)?;
            let panels = cpu::panels(&rounded, rounded.element_type())?;
            (Some(rounded), panels)
        }
        Arithmetic::Exact | Arithmetic::Tf32 | Arithmetic::FastFp8 | Arithmetic::Int8Activations => {
            (None, cpu::panels(&tensor, types.a)?)
        }
    };
    Ok(Contents::Tensor(Box::new(PackedTensor { tensor, rounded, panels: panels.map(Arc::new) })))
}

/// A copy that is multiplied by the same kernels: the copy keeps the axes whose stride is 1.
fn copy(b: &DeviceTensor) -> Result<DeviceTensor, Error> {
    let (shape, strides) = (b.shape(), b.strides());
    let front = b.rank() - 2;
    if front == 1 && strides[0] == 0 && shape[0] > 1 {
        // One matrix for all batches stays one.
        return Ok(copy(&b.slice(0, 0..1)?)?.broadcast_to(shape)?);
    }
    // (One for some of the batches is copied for each.)
    let ([k, n], [along_k, along_n]) = ([shape[front], shape[front + 1]], [strides[front], strides[front + 1]]);
    let by_columns = along_k == 1 && (along_n != 1 || k == 1);
    let (outer, inner, stride) = if by_columns { (n, k, along_n) } else { (k, n, along_k) };
    // With room beside a single element, so that the stride isn't 1 where it was not.
    let room = if inner == 1 && stride != 1 { 2 } else { inner };
    let mut own = shape[..front].to_vec();
    own.extend([outer, room]);
    let own = b.device().zeros_of(b.element_type(), &own)?.slice(front + 1, 0..inner)?;
    let mut own = if by_columns { own.transpose()? } else { own };
    let ones = |tensor: &DeviceTensor| tensor.strides()[front..].iter().map(|x| *x == 1).collect::<Vec<_>>();
    if !b.is_empty() && ones(&own) != ones(b) {
        return Err(Error::PackedStrides { shape: shape.to_vec(), strides: strides.to_vec() });
    }
    own.copy_from_bytes(&b.to_bytes()?)?;
    if front > 1 { Ok(own.reshape(shape_of(b))?) } else { Ok(own) }
}
