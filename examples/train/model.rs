//! The network, and one step of its training:
//!
//! ```text
//! x ──► ·W1 ──► + b1, GELU, dropout ──h──► ·W2 ──► + b2 + x, layer norm ──y──► ·W3 ──► + b3, cross-entropy ──► loss
//!                     expand                             contract                         classify
//! ```
//!
//! Each arrow from a product to its epilogue is one run of a plan. The way back has one for each as well, and the gradients of
//! the weights are products whose epilogue is the optimiser.

use std::mem::swap;

use epilogue::prelude::*;

use crate::Result;
use crate::data::{CLASSES, FEATURES, HIDDEN, ROWS, batch};
use crate::kernels::{Classify, Contract, ContractBackward, Descend, DescendVectors, Expand, ExpandBackward};
use crate::parameters::{VECTORS, Vectors, Weights};

const DROPOUT: f64 = 0.125;
const EPSILON: f64 = 1e-5;
const RATE: f64 = 0.25;
const DECAY: f64 = 0.875;

/// The plans, each made once.
struct Plans {
    expand: Gemm<Expand>,
    contract: Gemm<Contract>,
    classify: Gemm<Classify>,
    contract_backward: Gemm<ContractBackward>,
    expand_backward: Gemm<ExpandBackward>,
    /// One for each layer: their shapes differ.
    descend: [Gemm<Descend>; 3],
    descend_vectors: DescendVectors,
}

/// Intermediate values of a step; every step writes the same memory.
struct Values {
    z: DeviceTensor,
    h: DeviceTensor,
    s: DeviceTensor,
    y: DeviceTensor,
    loss: DeviceTensor,
    d_logits: DeviceTensor,
    d_s: DeviceTensor,
    d_z: DeviceTensor,
}

pub(crate) struct Model {
    device: Device,
    seed: u32,
    /// Steps done.
    step: u32,
    expand: Weights,
    contract: Weights,
    classify: Weights,
    vectors: Vectors,
    vectors_velocity: DeviceTensor,
    /// Where the next step's vectors and their velocities are written.
    next_vectors: Vectors,
    next_velocity: DeviceTensor,
    gradients: Vectors,
    values: Values,
    plans: Plans,
}

impl Model {
    pub(crate) fn new(device: &Device, seed: u32) -> Result<Self> {
        let x = device.zeros::<f32>([ROWS, FEATURES])?;
        let wide = || device.zeros::<f32>([ROWS, HIDDEN]);
        let narrow = || device.zeros::<f32>([ROWS, FEATURES]);
        let values = Values {
            z: wide()?,
            h: wide()?,
            s: narrow()?,
            y: narrow()?,
            loss: device.zeros::<f32>([ROWS])?,
            d_logits: device.zeros::<f32>([ROWS, CLASSES])?,
            d_s: narrow()?,
            d_z: wide()?,
        };
        let expand = Weights::new(device, seed, 1, [FEATURES, HIDDEN])?;
        let contract = Weights::new(device, seed, 2, [HIDDEN, FEATURES])?;
        let classify = Weights::new(device, seed, 3, [FEATURES, CLASSES])?;
        let Values { h, y, d_logits, d_s, d_z, .. } = &values;
        let plans = Plans {
            expand: Gemm::plan(device, &x, &expand.values)?,
            contract: Gemm::plan(device, h, &contract.values)?,
            classify: Gemm::plan(device, y, &classify.values)?,
            contract_backward: Gemm::plan(device, d_logits, &classify.values.transpose()?)?,
            expand_backward: Gemm::plan(device, d_s, &contract.values.transpose()?)?,
            descend: [
                Gemm::plan(device, &x.transpose()?, d_z)?,
                Gemm::plan(device, &h.transpose()?, d_s)?,
                Gemm::plan(device, &y.transpose()?, d_logits)?,
            ],
            descend_vectors: DescendVectors::new(device, DECAY, RATE)?,
        };
        Ok(Self {
            device: device.clone(),
            seed,
            step: 0,
            expand,
            contract,
            classify,
            vectors: Vectors::new(device)?,
            vectors_velocity: device.zeros::<f32>([VECTORS])?,
            next_vectors: Vectors::new(device)?,
            next_velocity: device.zeros::<f32>([VECTORS])?,
            gradients: Vectors::new(device)?,
            values,
            plans,
        })
    }

    /// Trains on the next batch; gives its loss before that.
    pub(crate) fn step(&mut self) -> Result<f64> {
        let (x, labels) = batch(self.seed, self.step);
        let x = self.device.tensor(&x, [ROWS, FEATURES])?;
        let labels = self.device.tensor(&labels, [ROWS])?;
        let seed = Seed::with_offset(self.seed.into(), self.step.into());
        self.forward(&x, &labels, seed)?;
        self.backward(&x, seed)?;
        self.descend(&x)?;
        self.step += 1;
        let losses = self.values.loss.to_vec::<f32>()?;
        Ok(losses.into_iter().map(f64::from).sum::<f64>() / ROWS as f64)
    }

    fn forward(&mut self, x: &DeviceTensor, labels: &DeviceTensor, seed: Seed<'_>) -> Result<()> {
        let Self { vectors, gradients, values, plans, .. } = self;
        let expand = Expand { bias: &vectors.expand_bias, p: DROPOUT, seed, h: &mut values.h, z: &mut values.z };
        plans.expand.run(x, &self.expand.values, expand)?;
        let contract = Contract {
            bias: &vectors.contract_bias,
            residual: x,
            weight: &vectors.weight,
            shift: &vectors.shift,
            epsilon: EPSILON,
            y: &mut values.y,
            s: &mut values.s,
        };
        plans.contract.run(&values.h, &self.contract.values, contract)?;
        let classify = Classify {
            bias: &vectors.classify_bias,
            labels,
            loss: &mut values.loss,
            d_logits: &mut values.d_logits,
            d_bias: &mut gradients.classify_bias,
        };
        plans.classify.run(&values.y, &self.classify.values, classify)?;
        Ok(())
    }

    /// All gradients but those of the weights.
    fn backward(&mut self, x: &DeviceTensor, seed: Seed<'_>) -> Result<()> {
        let Self { vectors, gradients, values, plans, .. } = self;
        let contract = ContractBackward {
            bias: &vectors.contract_bias,
            residual: x,
            weight: &vectors.weight,
            shift: &vectors.shift,
            epsilon: EPSILON,
            s: &values.s,
            d_accum: &mut values.d_s,
            d_bias: &mut gradients.contract_bias,
            d_weight: &mut gradients.weight,
            d_shift: &mut gradients.shift,
        };
        plans.contract_backward.run(&values.d_logits, &self.classify.values.transpose()?, contract)?;
        let expand = ExpandBackward {
            bias: &vectors.expand_bias,
            p: DROPOUT,
            seed,
            z: &values.z,
            d_accum: &mut values.d_z,
            d_bias: &mut gradients.expand_bias,
        };
        plans.expand_backward.run(&values.d_s, &self.contract.values.transpose()?, expand)?;
        Ok(())
    }

    /// The optimiser's step, after everything that reads the weights.
    fn descend(&mut self, x: &DeviceTensor) -> Result<()> {
        let Values { h, y, d_logits, d_s, d_z, .. } = &self.values;
        let layers = [(&mut self.expand, x, d_z), (&mut self.contract, h, d_s), (&mut self.classify, y, d_logits)];
        for (plan, (layer, input, gradient)) in self.plans.descend.iter().zip(layers) {
            let Weights { values, velocity } = layer;
            let arguments = Descend { velocity, weights: values, decay: DECAY, rate: RATE };
            plan.run(&input.transpose()?, gradient, arguments)?;
        }
        let (from, to) =
            ([&self.vectors_velocity, &self.vectors.all], [&mut self.next_velocity, &mut self.next_vectors.all]);
        self.plans.descend_vectors.run(&self.gradients.all, from, to)?;
        swap(&mut self.vectors_velocity, &mut self.next_velocity);
        swap(&mut self.vectors, &mut self.next_vectors);
        Ok(())
    }

    /// Everything that is learned.
    pub(crate) fn parameters(&self) -> Result<Vec<f32>> {
        let all = [&self.expand.values, &self.contract.values, &self.classify.values, &self.vectors.all];
        Ok(all.into_iter().map(DeviceTensor::to_vec::<f32>).collect::<Result<Vec<_>, _>>()?.concat())
    }
}
