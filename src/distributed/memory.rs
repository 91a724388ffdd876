//! The tensors between the ranks' work, kept from run to run.

use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, Stream};

use super::error::Error;
use crate::ElementType;
use crate::pool::Pool;

/// Tensors of one run. Each has its own allocation: work waits only for the tensors that it uses.
#[derive(Debug)]
pub(super) struct Tensors {
    shapes: Vec<(ElementType, Vec<usize>)>,
    pub(super) tensors: Vec<DeviceTensor>,
}

/// Tensors that earlier runs have left.
#[derive(Debug, Default)]
pub(super) struct KeptTensors(Pool<Tensors>);

impl KeptTensors {
    /// Tensors of these types and shapes: kept ones if there are any, else new ones.
    pub(super) fn take(&self, stream: &Stream, shapes: Vec<(ElementType, Vec<usize>)>) -> Result<Arc<Tensors>, Error> {
        if let Some(kept) = self.0.take(stream, |kept| kept.shapes == shapes) {
            return Ok(kept);
        }
        let tensors = shapes.iter().map(|(element, shape)| stream.zeros_of(*element, shape));
        let tensors = tensors.collect::<Result<_, _>>()?;
        Ok(Arc::new(Tensors { shapes, tensors }))
    }

    /// Keeps the tensors for later runs.
    pub(super) fn put(&self, stream: &Stream, tensors: Arc<Tensors>) {
        self.0.put(stream, tensors);
    }
}
