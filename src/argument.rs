//! What `#[epilogue]` and `epilogue!` implement: a type that is an epilogue, and its arguments at a run.

use epilogue_runtime::DeviceTensor;

use crate::evt::Tree;

/// An epilogue. The macros' expansion implements it.
pub trait Epilogue {
    /// The same epilogue with all arguments given, borrowed for one run.
    type Arguments<'a>: Arguments<'a>;

    /// The visitor tree, as written.
    fn tree() -> Tree;
}

/// The arguments of one run.
pub trait Arguments<'a> {
    /// The arguments in the order of [`Tree::parameters`], then one for each output that is no parameter's, in the
    /// order of [`Tree::outputs`].
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

/// In the type of `epilogue!`'s value, stands for an argument that was not given yet: call the setter of its name.
#[derive(Clone, Copy, Debug)]
pub struct Unset;
