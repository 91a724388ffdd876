//! The traits that `#[epilogue]` and `closure!` implement: a type that is an epilogue, and its arguments in a run.

use std::marker::PhantomData;

use epilogue_runtime::DeviceTensor;

use crate::evt::Tree;

/// An epilogue. The macros' expansion implements it.
///
/// The struct that `#[epilogue]` makes has two roles. As a type it is the epilogue, and needs no lifetime; as a value
/// it holds the arguments, and borrows tensors for one run:
///
/// ```
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
///     let d = gelu(accum + bias);
///     d
/// }
///
/// struct Layer {
///     weights: DeviceTensor,
///     bias: DeviceTensor,
///     gemm: Gemm<BiasGelu>,
/// }
///
/// impl Layer {
///     fn run(&self, x: &DeviceTensor, y: &mut DeviceTensor) -> Result<(), epilogue::Error> {
///         self.gemm.run(x, &self.weights, BiasGelu { bias: &self.bias, d: y })
///     }
/// }
/// ```
pub trait Epilogue {
    /// The arguments of one run, which they borrow tensors for.
    type Arguments<'a>: Arguments<'a>;

    /// The visitor tree, as written.
    fn tree() -> Tree;
}

/// The arguments of one run.
pub trait Arguments<'a> {
    /// The arguments in the order of [`Tree::parameters`], followed by one for each output that is not a parameter's,
    /// in the order of [`Tree::outputs`].
    fn arguments(self) -> Vec<Argument<'a>>;
}

/// One argument.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A host scalar; rounded to the arithmetic type.
    Scalar(f64),
    /// The seed and the offset of random numbers, given by the host. (In device memory they are an
    /// [`Input`](Self::Input) of two `i64`.)
    Seed(u64, u64),
    /// A tensor, vector or device scalar that is read.
    Input(&'a DeviceTensor),
    /// An output, or a `TensorMut` parameter.
    Output(&'a mut DeviceTensor),
}

impl<'a> Argument<'a> {
    /// The argument of a parameter of the class `Seed`.
    #[must_use]
    pub fn seed(seed: Seed<'a>) -> Self {
        match seed.0 {
            Given::ByHost(seed, offset) => Self::Seed(seed, offset),
            Given::InMemory(tensor) => Self::Input(tensor),
        }
    }
}

impl<'a> From<Seed<'a>> for Argument<'a> {
    fn from(seed: Seed<'a>) -> Self {
        Self::seed(seed)
    }
}

/// The source of a run's random numbers: a seed and an offset.
///
/// In an epilogue's signature it is a parameter's class, and `random(seed)` the number of an element in the body. Equal
/// seeds, offsets and streams give an element the same number wherever it is computed: on every device, with every kernel,
/// in the forward and the backward pass. Other ones give numbers that have nothing to do with each other; so a program
/// has one seed, and raises the offset at every step by the number of streams that its epilogues use.
///
/// ```
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn noise(accum: Accum, seed: Seed) -> Tensor<f32> {
///     let d = accum + random(seed);
///     d
/// }
///
/// let device = Device::cpu();
/// let (a, b) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3, 4])?);
/// let mut first = device.zeros::<f32>([2, 4])?;
/// let gemm = Gemm::plan::<Noise>(&device, &a, &b)?;
/// gemm.run(&a, &b, Noise { seed: Seed::new(7), d: &mut first })?;
/// let mut second = device.zeros::<f32>([2, 4])?;
/// gemm.run(&a, &b, Noise { seed: Seed::new(7), d: &mut second })?;
/// assert_eq!(first.to_vec::<f32>()?, second.to_vec::<f32>()?);
/// gemm.run(&a, &b, Noise { seed: Seed::with_offset(7, 1), d: &mut second })?;
/// assert_ne!(first.to_vec::<f32>()?, second.to_vec::<f32>()?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// In device memory the seed is a tensor of two `i64`, the seed and the offset, which a run reads when it begins: so a
/// recorded graph draws other numbers at each launch, once a kernel has raised the offset.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a>(Given<'a>);

#[derive(Clone, Copy, Debug)]
enum Given<'a> {
    ByHost(u64, u64),
    InMemory(&'a DeviceTensor),
}

impl<'a> Seed<'a> {
    /// A seed from the host, with the offset 0.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Given::ByHost(seed, 0))
    }

    /// A seed from the host with an offset.
    #[must_use]
    pub const fn with_offset(seed: u64, offset: u64) -> Self {
        Self(Given::ByHost(seed, offset))
    }

    /// A seed in memory: `i64` of shape `[2]`, the bits of the seed and of the offset.
    #[must_use]
    pub const fn in_memory(tensor: &'a DeviceTensor) -> Self {
        Self(Given::InMemory(tensor))
    }
}

impl From<u64> for Seed<'_> {
    fn from(seed: u64) -> Self {
        Self::new(seed)
    }
}

impl<'a> From<&'a DeviceTensor> for Seed<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Self::in_memory(tensor)
    }
}

impl<'a> From<&'a DeviceTensor> for Argument<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Self::Input(tensor)
    }
}

impl<'a> From<&'a mut DeviceTensor> for Argument<'a> {
    fn from(tensor: &'a mut DeviceTensor) -> Self {
        Self::Output(tensor)
    }
}

/// The types of the fields of an epilogue's struct, by their kind.
pub trait Fields {
    /// A tensor, vector or device scalar that is read.
    type Input;

    /// The seed and offset of random numbers.
    type Seed;

    /// An output, or a `TensorMut` parameter.
    type Output;
}

/// The fields of an epilogue that is used only as a type, as in `Gemm<BiasGelu>`: no value of it exists. The arguments
/// of a run, as a function's parameter or result, are a [`BiasGelu<Borrowed<'a>>`](Borrowed).
#[derive(Debug)]
pub enum Unborrowed {}

impl Fields for Unborrowed {
    type Input = Self;
    type Seed = Self;
    type Output = Self;
}

/// The fields of the arguments of one run, which borrow tensors for it.
///
/// ```
/// use epilogue::Borrowed;
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
///     let d = gelu(accum + bias);
///     d
/// }
///
/// fn arguments<'a>(bias: &'a DeviceTensor, d: &'a mut DeviceTensor) -> BiasGelu<Borrowed<'a>> {
///     BiasGelu { bias, d }
/// }
/// ```
#[derive(Debug)]
pub struct Borrowed<'a>(PhantomData<&'a DeviceTensor>, Unborrowed);

impl<'a> Fields for Borrowed<'a> {
    type Input = &'a DeviceTensor;
    type Seed = Seed<'a>;
    type Output = &'a mut DeviceTensor;
}
