//! The words that kernels get for block scales.

use epilogue_runtime::DeviceTensor;

use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameters::{OPERAND_SCALES_BYTES, ParameterBytes};

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

    /// `Scales`. `of_b` is whose memory each B's are.
    pub(crate) fn put(self, bytes: &mut ParameterBytes, offset: usize, of_b: impl Fn(usize) -> Memory) {
        for (i, tensor) in self.tensors().enumerate() {
            let at = offset + OPERAND_SCALES_BYTES * i;
            let of = i.checked_sub(1).map_or(Memory::ScalesOfA, &of_b);
            let name = || match of {
                Memory::ScalesOfB(0) => "b_scales".to_owned(),
                Memory::ScalesOfB(i) => format!("b{i}_scales"),
                _ => "a_scales".to_owned(),
            };
            bytes.put_address(at, (of, tensor.device_address()), 0, || name() + ".pointer");
            let [batch, rows, columns] = strides(tensor);
            // Of B, blocks of K are the rows.
            let (outer, k) = if i == 0 { (rows, columns) } else { (columns, rows) };
            bytes.put_named_words(at + 8, &[outer as u64, k as u64, batch as u64], |i| {
                format!("{}.{}", name(), ["outer_stride", "k_stride", "batch_stride"][i])
            });
        }
    }
}

/// Strides of batches (0 where all share one), rows and columns.
fn strides(tensor: &DeviceTensor) -> [isize; 3] {
    match (tensor.shape(), tensor.strides()) {
        ([batch, ..], [over_batch, rows, columns]) => [if *batch > 1 { *over_batch } else { 0 }, *rows, *columns],
        (_, [rows, columns]) => [0, *rows, *columns],
        _ => [0; 3],
    }
}
