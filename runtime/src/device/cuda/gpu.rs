//! One GPU: its context, and the two streams that the library itself works on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::Context;
use super::stream::CudaStream;
use crate::error::Result;

/// A GPU, for the rest of the process.
pub(crate) struct Gpu {
    pub(crate) context: Context,
    default: OnceLock<Arc<CudaStream>>,
    /// The stream on which buffers are freed that several streams have used.
    reclaim: OnceLock<Arc<CudaStream>>,
}

impl Gpu {
    /// A GPU by its number. Its context is made at the first call.
    pub(crate) fn get(ordinal: usize) -> Result<&'static Self> {
        static GPUS: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.get(&ordinal) {
            return Ok(gpu);
        }
        let context = Context::open(ordinal)?;
        let gpu: &'static Self =
            Box::leak(Box::new(Self { context, default: OnceLock::new(), reclaim: OnceLock::new() }));
        gpus.insert(ordinal, gpu);
        Ok(gpu)
    }

    /// The GPU on which a stream works.
    pub(super) fn of(stream: &CudaStream) -> Result<&'static Self> {
        Self::get(stream.context().ordinal())
    }

    /// The stream that uploads, fills and readbacks use.
    pub(crate) fn default_stream(&'static self) -> Result<&'static Arc<CudaStream>> {
        self.stream(&self.default)
    }

    pub(super) fn reclaim_stream(&'static self) -> Result<&'static Arc<CudaStream>> {
        self.stream(&self.reclaim)
    }

    fn stream(&'static self, place: &'static OnceLock<Arc<CudaStream>>) -> Result<&'static Arc<CudaStream>> {
        if let Some(stream) = place.get() {
            return Ok(stream);
        }
        let stream = CudaStream::new(&self.context)?;
        Ok(place.get_or_init(|| Arc::new(stream)))
    }
}
