//! The learned parameters: three weights, each with its velocity, and all vectors in one tensor, so that one kernel
//! updates them.

use epilogue::{Device, DeviceTensor};

use crate::Result;
use crate::data::{CLASSES, FEATURES, HIDDEN, first_weights};

/// The weights of a layer, `[inputs, outputs]`.
pub(crate) struct Weights {
    pub(crate) values: DeviceTensor,
    pub(crate) velocity: DeviceTensor,
}

impl Weights {
    /// Layer `stream`, of 1, 2 and 3; stream 0 is the data's.
    pub(crate) fn new(device: &Device, seed: u32, stream: u32, shape: [usize; 2]) -> Result<Self> {
        let [inputs, outputs] = shape;
        let values = device.tensor(&first_weights(seed, stream, inputs, outputs), shape)?;
        Ok(Self { values, velocity: device.zeros::<f32>(shape)? })
    }
}

/// Every vector that is learned, or everyone's gradient: views of `all`.
pub(crate) struct Vectors {
    pub(crate) all: DeviceTensor,
    pub(crate) expand_bias: DeviceTensor,
    pub(crate) contract_bias: DeviceTensor,
    pub(crate) weight: DeviceTensor,
    pub(crate) shift: DeviceTensor,
    pub(crate) classify_bias: DeviceTensor,
}

/// The numbers of all vectors.
pub(crate) const VECTORS: usize = HIDDEN + 3 * FEATURES + CLASSES;

impl Vectors {
    /// Biases and the normalisation's shift are 0 at first, its weight is 1.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let mut first = [0f32; VECTORS];
        first[HIDDEN + FEATURES..][..FEATURES].fill(1.0);
        let all = device.tensor(&first, [VECTORS])?;
        let mut end = 0;
        let mut next = |len: usize| {
            end += len;
            all.slice(0, end - len..end)
        };
        Ok(Self {
            expand_bias: next(HIDDEN)?,
            contract_bias: next(FEATURES)?,
            weight: next(FEATURES)?,
            shift: next(FEATURES)?,
            classify_bias: next(CLASSES)?,
            all,
        })
    }
}
