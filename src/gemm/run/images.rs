//! Runs of convolutions: their arguments as those of a product of matrices.

use epilogue_runtime::DeviceTensor;

use super::later::{OwnArgument, borrowed};
use crate::Argument;
use crate::evt::{BroadcastClass, OutputKind, ValidTree};
use crate::gemm::problem::{Error, Left, PatchError, Problem, Right};

/// Does something with the arguments of a convolution as matrices and vectors, and with an A that is a matrix where its
/// patches are one. Other arguments stay as they are.
///
/// # Errors
/// [`PatchError`]; what `work` fails with, whose shapes of matrices are also given as those of images.
pub(crate) fn with_matrices<R>(
    a: Left<'_>,
    b: &Right<'_>,
    tree: &ValidTree,
    arguments: &[Argument<'_>],
    work: impl FnOnce(Left<'_>, &Right<'_>, &[Argument<'_>]) -> Result<R, Error>,
) -> Result<R, Error> {
    let Some(patches) = a.patches()? else { return work(a, b, arguments) };
    let Problem { m, n, .. } = Problem::of(a, b.clone())?;
    let images = patches.output_shape();
    let own = arguments.iter().enumerate().map(|(i, argument)| as_matrix(tree, i, argument, &images));
    let mut own = own.collect::<Result<Vec<_>, Error>>()?;
    let plain = a.as_plain_matrix()?;
    let a = plain.as_ref().map_or(a, Left::from);
    work(a, &b.as_matrices(), &borrowed(&mut own)).map_err(|error| match error {
        Error::ArgumentShape { name, given, needed } => {
            let of_images = |rest: &str| format!("{needed}, or [{}{rest}]", list(&images));
            let needed = if needed == format!("[{m}, {n}]") {
                of_images(&format!(", {n}"))
            } else if needed == format!("[{m}]") {
                of_images("")
            } else {
                needed
            };
            Error::ArgumentShape { name, given, needed }
        }
        other => other,
    })
}

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// An argument that is images as the matrix or vector of their rows.
fn as_matrix(tree: &ValidTree, i: usize, argument: &Argument<'_>, images: &[usize]) -> Result<OwnArgument, Error> {
    let axes = images.len();
    let class = class_of(tree, i);
    let view = |tensor: &DeviceTensor| {
        let rows: Vec<usize> = (0..axes).collect();
        let of_images = tensor.axes().is_none() && tensor.shape().get(..axes) == Some(images);
        let view = match class {
            Some(BroadcastClass::Tensor) if of_images && tensor.rank() == axes + 1 => tensor.as_matrix(&rows, &[axes]),
            Some(BroadcastClass::ColumnVector) if of_images && tensor.rank() == axes => tensor.as_column_vector(&rows),
            _ => return Ok(tensor.clone()),
        };
        view.map_err(|error| {
            let name = tree.argument_names().nth(i).unwrap_or_default();
            Error::from(PatchError::Argument { name, reason: error.to_string() })
        })
    };
    Ok(match argument {
        Argument::Scalar(value) => OwnArgument::Scalar(*value),
        Argument::Seed(seed, offset) => OwnArgument::Seed(*seed, *offset),
        Argument::Input(tensor) => OwnArgument::Input(view(tensor)?),
        Argument::Output(tensor) => OwnArgument::Output(view(tensor)?),
    })
}

/// The class of an argument; `None` for partial reductions, whose shapes are their own.
fn class_of(tree: &ValidTree, argument: usize) -> Option<BroadcastClass> {
    if let Some(parameter) = tree.parameters().get(argument) {
        return Some(parameter.class.broadcast_class());
    }
    let mut outputs = tree.outputs().iter().enumerate();
    let (_, output) = outputs.find(|(i, _)| tree.output_argument(*i) == argument)?;
    match output.kind {
        OutputKind::Reduce(_) if output.is_partial() => None,
        _ => Some(output.class),
    }
}
