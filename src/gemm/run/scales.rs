//! The words that kernels get for block scales.

use epilogue_runtime::DeviceTensor;

use crate::gemm::kernel::device_struct::{DeviceValue, Filler, OPERAND};
use crate::gemm::kernel::launch::Memory;

/// The scales of A, and of each B that the kernel multiplies by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales<'a> {
    pub(crate) a: &'a DeviceTensor,
    pub(crate) b: &'a [&'a DeviceTensor],
}

impl<'a> Scales<'a> {
    pub(crate) fn tensors(self) -> impl Iterator<Item = &'a DeviceTensor> {
        std::iter::once(self.a).chain(self.b.iter().copied())
    }

    /// `of_b` is whose memory each B's are.
    pub(crate) fn put(self, to: &mut Filler<'_>, of_b: impl Fn(usize) -> Memory) {
        for (i, tensor) in self.tensors().enumerate() {
            let of = i.checked_sub(1).map_or(Memory::ScalesOfA, &of_b);
            let name = || match of {
                Memory::ScalesOfB(0) => "b_scales".to_owned(),
                Memory::ScalesOfB(i) => format!("b{i}_scales"),
                _ => "a_scales".to_owned(),
            };
            let [batch, rows, columns] = strides(tensor);
            // For B, blocks of K are the rows.
            let (outer, k) = if i == 0 { (rows, columns) } else { (columns, rows) };
            let address = DeviceValue::address(of, tensor.device_address());
            to.put(&OPERAND, &name, [address, outer.into(), k.into(), batch.into()]);
        }
    }
}

/// Strides of batches (0 if all share one), rows and columns.
fn strides(tensor: &DeviceTensor) -> [isize; 3] {
    match (tensor.shape(), tensor.strides()) {
        ([batch, ..], [over_batch, rows, columns]) => [if *batch > 1 { *over_batch } else { 0 }, *rows, *columns],
        (_, [rows, columns]) => [0, *rows, *columns],
        _ => [0; 3],
    }
}
