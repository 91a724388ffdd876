//! The traits that `#[epilogue]` and `epilogue!` implement: a type that is an epilogue, and its arguments in a run.

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
    /// A tensor, vector or device scalar that is read.
    Input(&'a DeviceTensor),
    /// An output, or a `TensorMut` parameter.
    Output(&'a mut DeviceTensor),
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

    /// An output, or a `TensorMut` parameter.
    type Output;
}

/// The fields of an epilogue that is used only as a type, as in `Gemm<BiasGelu>`: no value of it exists. The arguments
/// of a run, as a function's parameter or result, are a [`BiasGelu<Borrowed<'a>>`](Borrowed).
#[derive(Debug)]
pub enum Unborrowed {}

impl Fields for Unborrowed {
    type Input = Self;
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
    type Output = &'a mut DeviceTensor;
}

/// Stands for an argument that was not given yet, in the type of `epilogue!`'s value: call the setter with its name.
#[derive(Clone, Copy, Debug)]
pub struct Unset;
