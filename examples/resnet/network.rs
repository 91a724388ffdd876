//! The network: a list of steps. Each reads the values that earlier ones made.
//!
//! ```text
//! image ─► 7×7 ─► pool ─► blocks: 3 of 64, 4 of 128, 6 of 256, 3 of 512 channels ─► mean ─► classes
//!
//! a block   x ─┬─► 1×1 ─► 3×3 ─► 1×1 ─► + ─► relu ─► y
//!              └────────► (1×1) ────────┘
//! ```
//!
//! Each arrow to a convolution is one launch, with its batch normalisation, activation and sum. In a stage's first
//! block the 3×3 convolution has the stride, and a convolution makes its shortcut fit.

use epilogue::prelude::*;

use crate::Result;
use crate::convolution::{After, Convolution};
use crate::kernels::{Classified, Pool};

/// How large the network is.
pub(crate) struct Size {
    pub(crate) images: usize,
    /// Rows and columns of an image.
    pub(crate) extent: usize,
    /// Channels of the first stage; each further one has twice as many, and a block four times its stage's.
    pub(crate) width: usize,
    /// Blocks of each stage.
    pub(crate) blocks: [usize; 4],
    pub(crate) classes: usize,
}

impl Size {
    /// ResNet-50, for this many images.
    pub(crate) const fn whole(images: usize) -> Self {
        Self { images, extent: 224, width: 64, blocks: [3, 4, 6, 3], classes: 1000 }
    }

    /// A network with few channels and one block a stage, for emulated devices and tests.
    pub(crate) const fn tiny(images: usize) -> Self {
        Self { images, extent: 40, width: 8, blocks: [1, 1, 1, 1], classes: 10 }
    }
}

/// How the batch normalisations get their means and variances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// They are known.
    Inference,
    /// They are the batch's own.
    Training,
}

pub(crate) enum Work {
    Convolution(Box<Convolution>),
    Pool(Pool),
    Classes { gemm: Gemm<Classified>, weights: DeviceTensor, bias: DeviceTensor },
}

/// A step: what it reads, by the numbers of values, and what it does. Step i makes value i + 1; value 0 is the images.
pub(crate) struct Step {
    /// The part of the network that it belongs to.
    pub(crate) part: String,
    pub(crate) input: usize,
    pub(crate) shortcut: Option<usize>,
    pub(crate) work: Work,
}

pub(crate) struct Network {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<DeviceTensor>,
}

impl Network {
    pub(crate) fn new(device: &Device, size: &Size, mode: Mode, seed: u64) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = [size.images, size.extent, size.extent, 3];
        let pixels: Vec<f32> = (0..shape.iter().product()).map(|_| random.f32() * 2.0 - 1.0).collect();
        let network = Self { steps: Vec::new(), values: vec![device.tensor(&pixels, shape)?] };
        let mut builder = Builder { network, device, mode, random, part: "stem".to_owned() };

        builder.convolve(0, [size.width, 7, 2], After::Activation)?;
        let mut x = builder.pool(Pool::largest(device)?, |[n, h, w, c]| vec![n, h.div_ceil(2), w.div_ceil(2), c])?;
        for (stage, &blocks) in size.blocks.iter().enumerate() {
            builder.part = format!("stage {}", stage + 1);
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                x = builder.block(x, size.width << stage, stride, block == 0)?;
            }
        }
        builder.part = "classes".to_owned();
        let x = builder.pool(Pool::mean(device)?, |[n, _, _, c]| vec![n, c])?;
        builder.classify(x, size.classes)?;
        Ok(builder.network)
    }

    /// Runs everything; `done` is called after each step with its number.
    pub(crate) fn run(&mut self, mut done: impl FnMut(usize) -> Result<()>) -> Result<()> {
        for (i, step) in self.steps.iter_mut().enumerate() {
            let (inputs, outputs) = self.values.split_at_mut(i + 1);
            let (x, y) = (&inputs[step.input], &mut outputs[0]);
            match &mut step.work {
                Work::Convolution(convolution) => convolution.run(x, step.shortcut.map(|from| &inputs[from]), y)?,
                Work::Pool(pool) => pool.run(x, y)?,
                Work::Classes { gemm, weights, bias } => {
                    gemm.run(x, &*weights, Classified { bias, probability: y })?;
                }
            }
            done(i)?;
        }
        Ok(())
    }
}

struct Builder<'a> {
    network: Network,
    device: &'a Device,
    mode: Mode,
    random: fastrand::Rng,
    part: String,
}

impl Builder<'_> {
    /// Adds a step with the shape of what it makes; gives the number of that value.
    fn add(&mut self, input: usize, shortcut: Option<usize>, work: Work, shape: &[usize]) -> Result<usize> {
        self.network.values.push(self.device.zeros::<f32>(shape)?);
        self.network.steps.push(Step { part: self.part.clone(), input, shortcut, work });
        Ok(self.network.values.len() - 1)
    }

    /// A convolution of this number of filters, of this size and stride.
    fn convolve(&mut self, input: usize, filters: [usize; 3], after: After) -> Result<usize> {
        let x = &self.network.values[input];
        let convolution = Convolution::new(self.device, x, filters, (after, self.mode), &mut self.random)?;
        let (shape, shortcut) = (convolution.output.clone(), after.shortcut());
        self.add(input, shortcut, Work::Convolution(Box::new(convolution)), &shape)
    }

    /// A block of the network; gives the number of its result.
    fn block(&mut self, x: usize, width: usize, stride: usize, is_first: bool) -> Result<usize> {
        let shortcut = if is_first { self.convolve(x, [4 * width, 1, stride], After::Nothing)? } else { x };
        let y = self.convolve(x, [width, 1, 1], After::Activation)?;
        let y = self.convolve(y, [width, 3, stride], After::Activation)?;
        self.convolve(y, [4 * width, 1, 1], After::Sum { shortcut })
    }

    /// A kernel over the last value.
    fn pool(&mut self, pool: Pool, shape: impl Fn([usize; 4]) -> Vec<usize>) -> Result<usize> {
        let input = self.network.values.len() - 1;
        let of: [usize; 4] = self.network.values[input].shape().try_into()?;
        self.add(input, None, Work::Pool(pool), &shape(of))
    }

    fn classify(&mut self, input: usize, classes: usize) -> Result<usize> {
        let x = &self.network.values[input];
        let [images, features] = x.shape().try_into()?;
        let bound = (features as f32).sqrt().recip();
        let weights: Vec<f32> = (0..features * classes).map(|_| (self.random.f32() * 2.0 - 1.0) * bound).collect();
        let weights = self.device.tensor(&weights, [classes, features])?.transpose()?;
        let gemm = Gemm::plan(self.device, x, &weights)?;
        let bias = self.device.zeros::<f32>([classes])?;
        self.add(input, None, Work::Classes { gemm, weights, bias }, &[images, classes])
    }
}
