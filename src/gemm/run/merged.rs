//! Copies operands whose batch is counted by two digits, before the product: kernels find a batch by one stride.
//!
//! The copy is as [`OperandView`] says of the operand; copies of several B lie alike. It is made by the runtime's kernel for copies, on the run's stream.

use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, Stream, trace};
use smallvec::SmallVec;

use super::repack::CopiedOperand;
use crate::evt::MAX_ACCUMULATORS;
use crate::gemm::problem::digits::{has_batch_digits, shape_of};
use crate::gemm::problem::{Error, Major, OperandView};
use crate::pool::Pool;

/// The memory of copies: each stream has its own, which the next run on this stream reuses.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    of_a: Pool<DeviceTensor>,
    of_b: [Pool<DeviceTensor>; MAX_ACCUMULATORS],
    scales_of_a: Pool<DeviceTensor>,
    scales_of_b: [Pool<DeviceTensor>; MAX_ACCUMULATORS],
}

/// The copied tensor: an operand, or the scales of its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Copied {
    Elements(CopiedOperand),
    Scales(CopiedOperand),
}

/// Copies of a run, whose memory is to be [kept](Merger::keep).
pub(crate) type Copies = SmallVec<[(Copied, Arc<DeviceTensor>); 2]>;

impl Merger {
    const fn pool(&self, copied: Copied) -> &Pool<DeviceTensor> {
        match copied {
            Copied::Elements(CopiedOperand::A) => &self.of_a,
            Copied::Elements(CopiedOperand::B(place)) => &self.of_b[place],
            Copied::Scales(CopiedOperand::A) => &self.scales_of_a,
            Copied::Scales(CopiedOperand::B(place)) => &self.scales_of_b[place],
        }
    }

    /// The tensor, or its copy if its batch is counted by two digits. A copy of a B is contiguous along `of_b`.
    pub(crate) fn merged(
        &self,
        stream: &Stream,
        copied: Copied,
        tensor: &DeviceTensor,
        of_b: Option<Major>,
        copies: &mut Copies,
    ) -> Result<DeviceTensor, Error> {
        if !has_batch_digits(tensor) {
            return Ok(tensor.clone());
        }
        trace::event!(DEBUG, "batches of two strides are copied first", copied = trace::debug(copied));
        let (Copied::Elements(operand) | Copied::Scales(operand)) = copied;
        let view = match copied {
            Copied::Elements(CopiedOperand::B(_)) => OperandView::of_b_or_copy(tensor, of_b),
            Copied::Elements(CopiedOperand::A) | Copied::Scales(_) => operand.view(tensor),
        };
        let along_k = view.k == 1;
        let (rows, columns) =
            if along_k { (view.outer_extent, view.k_extent) } else { (view.k_extent, view.outer_extent) };
        let pitch = if along_k { view.outer } else { view.k }.unsigned_abs();
        let elements = view.batch_extent * rows * pitch;
        let memory = match self.pool(copied).take(stream, |memory| memory.len() >= elements) {
            Some(memory) => memory,
            None => Arc::new(stream.zeros_of(view.element, [elements])?),
        };
        let [upper, lower] = [tensor.shape()[0], tensor.shape()[1]];
        let copy = memory.slice(0, 0..elements)?.reshape([upper, lower, rows, pitch])?.slice(3, 0..columns)?;
        // A's rows are along M, those of B along K.
        let mut copy = if along_k == matches!(operand, CopiedOperand::A) { copy } else { copy.transpose()? };
        copy.copy_from_tensor_on(tensor, stream)?;
        copies.push((copied, memory));
        Ok(copy.reshape(shape_of(tensor))?)
    }

    /// Keeps the copies' memory for the next run on a stream. All launches that read it must have been submitted to the stream.
    pub(crate) fn keep(&self, stream: &Stream, copies: Copies) {
        copies.into_iter().for_each(|(copied, memory)| self.pool(copied).put(stream, memory));
    }
}
