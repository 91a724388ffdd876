//! Memory for intermediate tensors, between kernels that run one after another.

use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, Stream};

use crate::pool::Pool;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::error::{RunError, TeError};
use crate::te::expr::tensor::Tensor;

/// Memory for intermediate tensors between kernels.
pub(crate) struct Intermediates {
    tensors: Vec<Tensor>,
    memory: Pool<Vec<DeviceTensor>>,
}

impl Intermediates {
    pub(crate) fn new(tensors: Vec<Tensor>) -> Self {
        Self { tensors, memory: Pool::default() }
    }

    /// Memory for a run: that of the last run if it is large enough.
    pub(crate) fn take(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Arc<Vec<DeviceTensor>>, TeError> {
        let shapes: Vec<Vec<usize>> =
            self.tensors.iter().map(|tensor| extents(tensor, bound)).collect::<Result<_, _>>()?;
        let fits = |kept: &Vec<DeviceTensor>| kept.iter().zip(&shapes).all(|(tensor, shape)| tensor.shape() == shape);
        match self.memory.take(stream, fits) {
            Some(memory) => Ok(memory),
            None => Ok(Arc::new(self.made(stream, bound)?)),
        }
    }

    /// New memory, for a run that keeps it.
    pub(super) fn made(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate = |tensor: &Tensor| Ok(stream.zeros_of(tensor.dtype().in_memory(), extents(tensor, bound)?)?);
        self.tensors.iter().map(allocate).collect()
    }

    pub(crate) fn put(&self, stream: &Stream, memory: Arc<Vec<DeviceTensor>>) {
        self.memory.put(stream, memory);
    }
}

fn extents(tensor: &Tensor, bound: &BoundTensors<'_>) -> Result<Vec<usize>, TeError> {
    let extent = |x| usize::try_from(bound.sizes.value(x)?).map_err(|_| RunError::IntegerRange.into());
    tensor.shape().iter().map(extent).collect()
}

/// The arguments and sizes of one of several kernels. Its tensors belong to the whole run, or lie between kernels.
pub(crate) fn part<'a>(
    bound: &BoundTensors<'a>,
    origins: &[TensorOrigin],
    memory: &'a [DeviceTensor],
) -> BoundTensors<'a> {
    let tensor = |origin: &TensorOrigin| match origin {
        TensorOrigin::Argument(place) => bound.tensors[*place],
        TensorOrigin::Intermediate(place) => &memory[*place],
    };
    BoundTensors { tensors: origins.iter().map(tensor).collect(), sizes: bound.sizes.clone() }
}
