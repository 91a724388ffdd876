//! A convolution with its batch normalisation, and what follows that, in one launch.

use epilogue::gemm::{self, Left, Packed, Right, Window, filter, patches};
use epilogue::prelude::*;

use crate::Result;
use crate::kernels::{Activated, ActivatedInTraining, Joined, JoinedInTraining, Projected, ProjectedInTraining};
use crate::network::Mode;

/// The number that is added to variances.
pub(crate) const EPSILON: f64 = 1e-5;

/// The operation after the batch normalisation.
#[derive(Clone, Copy)]
pub(crate) enum After {
    Nothing,
    Activation,
    /// The sum with a value, and the activation.
    Sum {
        shortcut: usize,
    },
}

impl After {
    pub(crate) const fn shortcut(self) -> Option<usize> {
        match self {
            Self::Sum { shortcut } => Some(shortcut),
            Self::Nothing | Self::Activation => None,
        }
    }
}

/// A plan for each epilogue.
enum Plan {
    Activated(Gemm<Activated>),
    Projected(Gemm<Projected>),
    Joined(Gemm<Joined>),
    ActivatedInTraining(Gemm<ActivatedInTraining>),
    ProjectedInTraining(Gemm<ProjectedInTraining>),
    JoinedInTraining(Gemm<JoinedInTraining>),
}

/// Filters as runs take them: packed once if the device packs, which is the CPU.
enum Filters {
    Packed(Packed),
    Plain(gemm::Filter),
}

impl<'a> From<&'a Filters> for Right<'a> {
    fn from(filters: &'a Filters) -> Self {
        match filters {
            Filters::Packed(packed) => packed.into(),
            Filters::Plain(filter) => filter.into(),
        }
    }
}

/// A plan with this epilogue, and the filters as its runs take them.
fn planned<E: Epilogue>(
    device: &Device,
    a: Left<'_>,
    filter: gemm::Filter,
    plan: fn(Gemm<E>) -> Plan,
) -> Result<(Filters, Plan)> {
    let gemm = Gemm::plan(device, a, &filter)?;
    let filters = match gemm.pack(filter.matrix()) {
        Ok(packed) => Filters::Packed(packed),
        Err(gemm::Error::NoPacking { .. }) => Filters::Plain(filter),
        Err(error) => return Err(error.into()),
    };
    Ok((filters, plan(gemm)))
}

pub(crate) struct Convolution {
    pub(crate) window: Shape,
    pub(crate) after: After,
    pub(crate) mode: Mode,
    /// `[K, R, S, C]`.
    pub(crate) weights: DeviceTensor,
    /// The factor and the summand of each channel, in inference the variance and mean included.
    pub(crate) scale: DeviceTensor,
    pub(crate) shift: DeviceTensor,
    /// The batch's, after a run in training.
    pub(crate) mean: DeviceTensor,
    pub(crate) variance: DeviceTensor,
    /// The shape of the result, `[N, P, Q, K]`.
    pub(crate) output: Vec<usize>,
    filters: Filters,
    plan: Plan,
}

/// A square window, whose padding keeps the extents but for the stride.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) stride: usize,
}

impl Shape {
    pub(crate) const fn padding(self) -> usize {
        self.size / 2
    }

    fn over(self, x: &DeviceTensor) -> Left<'_> {
        let Self { size, stride } = self;
        let padding = self.padding();
        patches(x, Window::of([size, size]).stride([stride, stride]).padding([padding, padding]))
    }
}

impl Convolution {
    /// One over values like `x`, with filters `[number, size, stride]` of random numbers.
    pub(crate) fn new(
        device: &Device,
        x: &DeviceTensor,
        [number, size, stride]: [usize; 3],
        (after, mode): (After, Mode),
        random: &mut fastrand::Rng,
    ) -> Result<Self> {
        let [images, height, width, channels] = x.shape().try_into()?;
        let window = Shape { size, stride };
        let of = |extent: usize| (extent - 1) / stride + 1;
        let output = vec![images, of(height), of(width), number];
        let inputs = size * size * channels;
        // So that values keep their size from layer to layer (He et al., 2015): uniform numbers with a variance of 2 / inputs.
        let bound = (6.0 / inputs as f32).sqrt();
        let mut uniform = |count: usize, from: f32, to: f32| -> Vec<f32> {
            (0..count).map(|_| from + (to - from) * random.f32()).collect()
        };
        let weights = device.tensor(&uniform(number * inputs, -bound, bound), [number, size, size, channels])?;
        // The summand of a shortcut is small, or values would grow from block to block.
        let largest = if after.shortcut().is_some() { 0.5 } else { 1.2 };
        let scale = device.tensor(&uniform(number, 0.5 * largest, largest), [number])?;
        let shift = device.tensor(&uniform(number, -0.2, 0.2), [number])?;

        let (a, filter) = (window.over(x), filter(&weights)?);
        let (filters, plan) = match (mode, after) {
            (Mode::Inference, After::Activation) => planned(device, a, filter, Plan::Activated)?,
            (Mode::Inference, After::Nothing) => planned(device, a, filter, Plan::Projected)?,
            (Mode::Inference, After::Sum { .. }) => planned(device, a, filter, Plan::Joined)?,
            (Mode::Training, After::Activation) => planned(device, a, filter, Plan::ActivatedInTraining)?,
            (Mode::Training, After::Nothing) => planned(device, a, filter, Plan::ProjectedInTraining)?,
            (Mode::Training, After::Sum { .. }) => planned(device, a, filter, Plan::JoinedInTraining)?,
        };
        let (mean, variance) = (device.zeros::<f32>([number])?, device.zeros::<f32>([number])?);
        Ok(Self { window, after, mode, weights, scale, shift, mean, variance, output, filters, plan })
    }

    /// How many products of two numbers it adds up.
    pub(crate) fn products(&self) -> usize {
        self.output[..3].iter().product::<usize>() * self.weights.shape().iter().product::<usize>()
    }

    pub(crate) fn run(
        &mut self,
        x: &DeviceTensor,
        shortcut: Option<&DeviceTensor>,
        y: &mut DeviceTensor,
    ) -> Result<()> {
        let Self { window, scale, shift, mean, variance, filters, plan, .. } = self;
        let (a, b, epsilon) = (window.over(x), Right::from(&*filters), EPSILON);
        let (weight, bias) = (&*scale, &*shift);
        let shortcut = || shortcut.ok_or("the end of a block needs its shortcut");
        match plan {
            Plan::Activated(gemm) => gemm.run(a, b, Activated { scale, shift, y })?,
            Plan::Projected(gemm) => gemm.run(a, b, Projected { scale, shift, y })?,
            Plan::Joined(gemm) => gemm.run(a, b, Joined { scale, shift, shortcut: shortcut()?, y })?,
            Plan::ActivatedInTraining(gemm) => {
                gemm.run(a, b, ActivatedInTraining { weight, bias, epsilon, y, mean, variance })?;
            }
            Plan::ProjectedInTraining(gemm) => {
                gemm.run(a, b, ProjectedInTraining { weight, bias, epsilon, y, mean, variance })?;
            }
            Plan::JoinedInTraining(gemm) => {
                let shortcut = shortcut()?;
                gemm.run(a, b, JoinedInTraining { weight, bias, epsilon, shortcut, y, mean, variance })?;
            }
        }
        Ok(())
    }
}
