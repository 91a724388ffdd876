//! Derivatives: from an epilogue's tree, the tree of its backward pass. The result is an epilogue like any other, of
//! another product; nothing behind this module knows of derivatives.
//!
//! [`Backward`] says what is wanted. The accumulator of the backward tree is the gradient of one output: the product
//! `dY · Wᵀ`, where the gradients of later layers come from. Its results are the gradients of the forward accumulators,
//! which the next products take, and of parameters.
//!
//! It is reverse accumulation over the tree. Forward values that a derivative needs are computed again from parameters,
//! positions and seeds, and from outputs that are [saved](Backward::saved). (A random number is the same again, so
//! dropout stores no mask.) If these are not enough, forward accumulators become parameters.
//!
//! Gradients are summed as late as possible: where a value begins, or where a reduction must be handed on. So there are
//! few reductions. The gradient of a `RowVector`, for example, is a sum down the columns.
//!
//! If a derivative doesn't exist, it is PyTorch's: half for each of two equal operands of `max` and `min`, and an equal
//! share for each of the largest values of a reduction. It is 0 for `relu` and `abs` at 0, and 1 for `clamp` on both
//! bounds. A cast passes gradients through unchanged. Comparisons, integers and random numbers have no derivative. An
//! infinite derivative times 0 is NaN, as in PyTorch: for `sqrt(relu(x))` below 0, or for a branch of an `if` that is
//! not taken and has no finite value there. Bound the arguments of these functions.

mod error;
mod function;
mod place;
mod prune;
mod reduction;
mod reverse;
mod rules;
#[cfg(test)]
mod tests;
mod wanted;

pub use error::DeriveError;

use super::{Site, Tree, TreeBuilder};
use reverse::Reverse;
use wanted::WantedGradients;

/// A request to differentiate an epilogue: its gradients, saved outputs and parameters; [`tree`](Self::tree) does it.
///
/// ```
/// use epilogue::evt::derive::Backward;
/// use epilogue::prelude::*;
///
/// #[elementwise]
/// fn dropout(x: f32, u: f32, p: f32) -> f32 {
///     if u < p { 0.0 } else { x / (1.0 - p) }
/// }
///
/// #[epilogue]
/// fn forward(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> (Tensor, Tensor) {
///     let z = accum + bias;
///     let y = dropout(gelu(z), random(seed), p);
///     (y, z)
/// }
///
/// // dY·Wᵀ is the gradient of `y`; `z` is read, and the mask is drawn again.
/// let backward = Backward::of(&Forward::tree(), "y").saved("z").gradient("bias").tree()?;
/// let names = |parameters: &[epilogue::evt::Parameter]| parameters.iter().map(|p| p.name).collect::<Vec<_>>();
/// assert_eq!(names(backward.parameters()), ["z", "seed", "p"]);
/// let outputs: Vec<&str> = backward.outputs().iter().map(|output| output.name).collect();
/// assert_eq!(outputs, ["d_accum", "d_bias"]);
///
/// let device = Device::cpu();
/// let (a, b) = (device.full::<f32>([2, 4], 0.5)?, device.full::<f32>([4, 3], 0.5)?);
/// let gemm = epilogue::gemm::Builder::<()>::new(&device, backward)
///     .problem(2, 3, 4)
///     .elements(ElementType::F32, ElementType::F32)
///     .plan()?;
/// let z = device.full::<f32>([2, 3], 40.0)?; // where GELU's slope is 1
/// let (mut d, mut bias) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3])?);
/// let arguments = [
///     ("z", epilogue::Argument::Input(&z)),
///     ("seed", epilogue::Argument::Seed(1, 0)),
///     ("p", epilogue::Argument::Scalar(0.0)),
///     ("d_accum", epilogue::Argument::Output(&mut d)),
///     ("d_bias", epilogue::Argument::Output(&mut bias)),
/// ];
/// gemm.run_bound(&device.default_stream(), &a, &b, arguments)?;
/// assert_eq!((d.to_vec::<f32>()?, bias.to_vec::<f32>()?), (vec![1.0; 6], vec![2.0; 3]));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Backward<'t> {
    forward: &'t Tree,
    wanted: WantedGradients,
}

impl<'t> Backward<'t> {
    /// The derivative of a tree, where the gradient of `through`, an M×N output of numbers, is the backward pass's accumulator.
    pub fn of(forward: &'t Tree, through: &str) -> Self {
        let through = through.to_owned();
        let wanted =
            WantedGradients { through, given: Vec::new(), saved: Vec::new(), gradients: Vec::new(), all: false };
        Self { forward, wanted }
    }

    /// The gradient of another output is given, as a parameter `d_` and the output's name: of the same class and
    /// element type. (If none is written, that of a loss or of another result of reductions is the arithmetic type, whatever
    /// A's type is. A single value is a `DeviceScalar`.) Outputs that nothing is said of have the gradient 0.
    pub fn given(mut self, output: &str) -> Self {
        self.wanted.given.push(output.to_owned());
        self
    }

    /// An M×N output is read, as a parameter of its name, where it is needed, and not computed again: rounded as it was
    /// stored. Truth values that were stored as `Bits` are read as such.
    pub fn saved(mut self, output: &str) -> Self {
        self.wanted.saved.push(output.to_owned());
        self
    }

    /// The gradient of a parameter is wanted, as a result `d_` and the parameter's name, of its class. The element type
    /// is the parameter's, if one is written. Otherwise that of a vector is the arithmetic type, as sums have; that of a
    /// tensor is A's. The gradient is one for each batch; for a parameter that all batches share, see [`gradient_of_all`](Self::gradient_of_all).
    pub fn gradient(mut self, parameter: &str) -> Self {
        self.wanted.gradients.push((parameter.to_owned(), false));
        self
    }

    /// The gradient of a vector or scalar that all batches share, summed over the batch.
    pub fn gradient_of_all(mut self, parameter: &str) -> Self {
        self.wanted.gradients.push((parameter.to_owned(), true));
        self
    }

    /// The parameters of the backward pass are all that a derivative might need, whether it does or not: the forward
    /// parameters, in their order, then the saved outputs and the given gradients, as they were named. (What isn't
    /// needed is not read.) So they are known before the derivative is. A forward accumulator is none of them, and each
    /// has a gradient; if a derivative needs an accumulator or doesn't reach one, there is no backward pass.
    pub fn all_parameters(mut self) -> Self {
        self.wanted.all = true;
        self
    }

    /// The tree of the backward pass. Its first results are `d_` and the accumulator's name, for every forward
    /// accumulator that the gradients reach. The wanted gradients of parameters follow, in the order in which they were
    /// asked for.
    ///
    /// The tree has only the parameters that a derivative needs: forward parameters, saved outputs, given gradients and
    /// forward accumulators. A forward accumulator is a parameter if a derivative needs it and no saved output gives
    /// it. It then has M×N values of A's type, under its name.
    ///
    /// # Errors
    /// [`DeriveError`] says what has no derivative, or what there is not.
    pub fn tree(&self) -> Result<Tree, DeriveError> {
        Reverse::new(self.forward, &self.wanted)?.run().map_err(|(error, _)| error)
    }

    /// [`tree`](Self::tree), or a tree whose validation says why there is none. The error's place is that of the value
    /// without a derivative, or that of the derivative itself.
    pub(crate) fn tree_or_refusal(&self, place: Site) -> Tree {
        let made = Reverse::new(self.forward, &self.wanted).map_err(|error| (error, Site::default()));
        match made.and_then(Reverse::run) {
            Ok(tree) => tree,
            Err((error, site)) => {
                let mut tree = TreeBuilder::new(reverse::name(self.forward), self.forward.file).finish();
                tree.refused = Some((error.to_string(), if site.line > 0 { site } else { place }));
                tree
            }
        }
    }
}
