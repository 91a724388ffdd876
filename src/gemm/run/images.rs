//! Runs of convolutions and of their gradients: their arguments as those of a product of matrices.

use epilogue_runtime::DeviceTensor;

use super::later::{OwnArgument, borrowed};
use crate::Argument;
use crate::evt::{BroadcastClass, OutputKind, ValidTree};
use crate::gemm::problem::patches::Patches;
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
    let rows = Rows::of(&patches, n);
    let own = arguments.iter().enumerate().map(|(i, argument)| as_matrix(tree, i, argument, &rows));
    let mut own = own.collect::<Result<Vec<_>, Error>>()?;
    let (plain, matrices) = (a.as_plain_matrix()?, patches.matrices(b.tensors())?);
    let a = plain.as_ref().map_or(a, Left::from);
    work(a, &b.as_matrices(&matrices), &borrowed(&mut own)).map_err(|error| match error {
        Error::ArgumentShape { name, given, needed } => {
            let of_images = |shape: &[usize]| format!("{needed}, or [{}]", list(shape));
            let needed = if needed == format!("[{m}, {n}]") {
                of_images(&rows.tensor)
            } else if needed == format!("[{m}]") {
                of_images(&rows.vector)
            } else {
                needed
            };
            Error::ArgumentShape { name, given, needed }
        }
        other => other,
    })
}

/// What the rows of the product are.
struct Rows {
    /// The shape of what has a value for each of them.
    vector: Vec<usize>,
    /// The shape of what has a value for each element.
    tensor: Vec<usize>,
    /// Which of its axes are rows, and which one the columns.
    axes: (Vec<usize>, usize),
}

impl Rows {
    /// Of pixels with n channels, or of n filters' elements.
    fn of(patches: &Patches, n: usize) -> Self {
        if patches.are_columns() {
            let vector = patches.patch_shape();
            let (tensor, axes) = ([&[n], &vector[..]].concat(), ((1..=vector.len()).collect(), 0));
            return Self { vector, tensor, axes };
        }
        let vector = patches.output_shape();
        let (tensor, axes) = ([&vector[..], &[n]].concat(), ((0..vector.len()).collect(), vector.len()));
        Self { vector, tensor, axes }
    }
}

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// An argument that is images, or filters, as the matrix or vector of the product's rows.
fn as_matrix(tree: &ValidTree, i: usize, argument: &Argument<'_>, rows: &Rows) -> Result<OwnArgument, Error> {
    let Rows { vector, axes: (of_rows, of_columns), .. } = rows;
    let class = class_of(tree, i);
    let view = |tensor: &DeviceTensor| {
        let has_rows = tensor.axes().is_none() && tensor.rank() == vector.len() + 1;
        let of_tensor = has_rows && of_rows.iter().map(|axis| tensor.shape()[*axis]).eq(vector.iter().copied());
        let of_vector = tensor.axes().is_none() && tensor.shape() == vector;
        let all: Vec<usize> = (0..vector.len()).collect();
        let view = match class {
            Some(BroadcastClass::Tensor) if of_tensor => tensor.as_matrix(of_rows, &[*of_columns]),
            Some(BroadcastClass::ColumnVector) if of_vector => tensor.as_column_vector(&all),
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
