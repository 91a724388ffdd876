//! Runs of convolutions and of their gradients: their arguments as those of a product of matrices, or of one for each
//! [group of channels](crate::gemm::problem::channels).

use epilogue_runtime::DeviceTensor;

use super::later::{OwnArgument, borrowed};
use crate::Argument;
use crate::evt::{BroadcastClass, OutputKind, ParameterClass, ValidTree};
use crate::gemm::problem::channels::{cut, of_columns};
use crate::gemm::problem::digits::{has_batch_digits, has_digits, shape_of, tensor_of};
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::{Error, Left, PatchError, Problem, Right};

/// Calls `work` with a convolution's arguments as matrices and vectors. A becomes a matrix if its patches are one.
/// Other arguments stay as they are.
///
/// # Errors
/// [`PatchError`]; errors of `work`, with shapes of matrices given as those of images too.
pub(crate) fn with_matrices<R>(
    a: Left<'_>,
    b: &Right<'_>,
    tree: &ValidTree,
    arguments: &[Argument<'_>],
    work: impl FnOnce(Left<'_>, &Right<'_>, &[Argument<'_>]) -> Result<R, Error>,
) -> Result<R, Error> {
    let Some(patches) = a.patches()? else { return work(a, b, arguments) };
    let Problem { m, n, .. } = Problem::of(a, b.clone())?;
    let shapes = Shapes::of(&patches, [m, n]);
    let own = arguments.iter().enumerate().map(|(i, argument)| {
        let (name, role) = (tree.argument_names().nth(i).unwrap_or_default(), Role::of(tree, i));
        let view = |tensor: &DeviceTensor| shapes.view(name, role, tensor);
        Ok(match argument {
            Argument::Scalar(value) => OwnArgument::Scalar(*value),
            Argument::Seed(seed, offset) => OwnArgument::Seed(*seed, *offset),
            Argument::Input(tensor) => OwnArgument::Input(view(tensor)?),
            Argument::Output(tensor) => OwnArgument::Output(view(tensor)?),
        })
    });
    let mut own = own.collect::<Result<Vec<_>, Error>>()?;
    let (plain, matrices) = (a.as_plain_matrix()?, patches.matrices(b.tensors())?);
    let a = plain.as_ref().map_or(a, Left::from);
    work(a, &b.as_matrices(&matrices), &borrowed(&mut own)).map_err(|error| match error {
        Error::ArgumentShape { name, given, needed } => {
            let place = tree.argument_names().position(|argument| argument == name);
            let needed = place.map_or_else(|| needed.clone(), |i| shapes.also(Role::of(tree, i), &needed));
            let own = place.and_then(|i| tensor_of(arguments.get(i)?)).map(|tensor| shape_of(tensor).to_vec());
            Error::ArgumentShape { name, given: own.unwrap_or(given), needed }
        }
        other => other,
    })
}

/// How the outputs of a convolution may be given: as matrices and vectors, or as the images that these are.
#[derive(Clone, Debug)]
pub(crate) struct OutputImages {
    shapes: Shapes,
    roles: Vec<(&'static str, Role)>,
}

impl OutputImages {
    /// `None` if A is no patches.
    ///
    /// # Errors
    /// [`PatchError`].
    pub(crate) fn of(a: Left<'_>, b: &Right<'_>, tree: &ValidTree) -> Result<Option<Self>, Error> {
        let Some(patches) = a.patches()? else { return Ok(None) };
        let Problem { m, n, .. } = Problem::of(a, b.clone())?;
        let outputs = tree.outputs().iter().enumerate();
        let roles = outputs.map(|(i, output)| (output.name, Role::of(tree, tree.output_argument(i)))).collect();
        Ok(Some(Self { shapes: Shapes::of(&patches, [m, n]), roles }))
    }

    /// An output as the product has it.
    ///
    /// # Errors
    /// [`PatchError::Argument`].
    pub(crate) fn as_matrix(&self, name: &str, output: &DeviceTensor) -> Result<DeviceTensor, Error> {
        match self.roles.iter().find(|(of, _)| *of == name) {
            Some((name, role)) => self.shapes.view(name, *role, output),
            None => Ok(output.clone()),
        }
    }
}

/// An argument's role in the GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Values of a class.
    Of(BroadcastClass),
    /// Truth values, eight columns in a byte.
    Bits,
    /// Anything else: scalars, and partial reductions, whose shapes are their own.
    Other,
}

impl Role {
    fn of(tree: &ValidTree, argument: usize) -> Self {
        if let Some(parameter) = tree.parameters().get(argument) {
            return match parameter.class {
                ParameterClass::Bits => Self::Bits,
                class => Self::Of(class.broadcast_class()),
            };
        }
        let mut outputs = tree.outputs().iter().enumerate();
        match outputs.find(|(i, _)| tree.output_argument(*i) == argument) {
            Some((_, output)) if output.packed => Self::Bits,
            Some((_, output)) if matches!(output.kind, OutputKind::Reduce(_)) && output.is_partial() => Self::Other,
            Some((_, output)) => Self::Of(output.class),
            None => Self::Other,
        }
    }
}

/// The GEMM's rows and columns, as shapes of images or filters.
#[derive(Clone, Debug)]
struct Shapes {
    /// Rows and columns of a group's matrix.
    matrix: [usize; 2],
    groups: usize,
    /// The shape of what has a value for each row: pixels, or a filter's elements.
    rows: Vec<usize>,
    /// Whether columns are the first axis, not the last.
    columns_first: bool,
}

impl Shapes {
    fn of(patches: &Patches, matrix: [usize; 2]) -> Self {
        let columns_first = patches.are_columns();
        let rows = if columns_first { patches.patch_shape() } else { patches.output_shape() };
        Self { matrix, groups: patches.groups, rows, columns_first }
    }

    /// The shape of images or filters with `columns` columns.
    fn with_columns(&self, columns: usize) -> Vec<usize> {
        if self.columns_first { [&[columns], &self.rows[..]].concat() } else { [&self.rows[..], &[columns]].concat() }
    }

    /// The axis of the columns in that, and those of the rows.
    fn axes(&self) -> (usize, Vec<usize>) {
        let rows = self.rows.len();
        if self.columns_first { (0, (1..=rows).collect()) } else { (rows, (0..rows).collect()) }
    }

    /// An argument that is images, or filters, as the matrix or vector of the product's rows; of columns of all groups, as those
    /// of each.
    fn view(&self, name: &'static str, role: Role, tensor: &DeviceTensor) -> Result<DeviceTensor, Error> {
        let view = match role {
            Role::Of(BroadcastClass::Tensor) => self.tensor(tensor, self.matrix[1], true),
            // A byte of them is of neighbouring columns, and of one group.
            Role::Bits if self.columns_first && tensor.rank() != 2 => None,
            Role::Bits => self.tensor(tensor, self.matrix[1].div_ceil(8), self.matrix[1].is_multiple_of(8)),
            Role::Of(BroadcastClass::ColumnVector) => self.column_vector(tensor),
            Role::Of(BroadcastClass::RowVector) => self.row_vector(tensor),
            Role::Of(BroadcastClass::Scalar) | Role::Other => None,
        };
        view.unwrap_or_else(|| Ok(tensor.clone()))
            .map_err(|error| PatchError::Argument { name, reason: error.to_string() }.into())
    }

    /// The argument as a matrix with `columns` columns in each group, or in all groups together if they are `divided`.
    /// `None` if it is a matrix already.
    fn tensor(
        &self,
        tensor: &DeviceTensor,
        columns: usize,
        divided: bool,
    ) -> Option<epilogue_runtime::Result<DeviceTensor>> {
        let Self { groups, .. } = *self;
        let all = columns.checked_mul(groups).filter(|_| groups > 1 && divided);
        if tensor.rank() == 2 && !has_digits(tensor) && !has_batch_digits(tensor) {
            // (The other views of a matrix are not images.)
            let is_whole = all.is_some_and(|all| tensor.shape() == [self.matrix[0], all]);
            return if is_whole { of_columns(tensor, groups).map(Ok) } else { None };
        }
        if tensor.axes().is_some() || tensor.rank() != self.rows.len() + 1 {
            return None;
        }
        let (axis, rows) = self.axes();
        let given = tensor.shape()[axis];
        if tensor.shape() != self.with_columns(given) {
            return None;
        }
        if groups > 1 && ![Some(columns), all].contains(&Some(given)) {
            return None;
        }
        if all != Some(given) {
            return Some(tensor.as_matrix(&rows, &[axis]));
        }
        let behind = |row: &usize| if *row > axis { row + 1 } else { *row };
        let rows: Vec<usize> = rows.iter().map(behind).collect();
        cut(tensor, axis, groups).map(|cut| cut.as_batched_matrix(&[axis], &rows, &[axis + 1]))
    }

    /// A value for each row, or for each row of each group; `None` if it is a vector already.
    fn column_vector(&self, tensor: &DeviceTensor) -> Option<epilogue_runtime::Result<DeviceTensor>> {
        if tensor.axes().is_some() {
            return None;
        }
        if tensor.shape() == self.rows {
            let all: Vec<usize> = (0..self.rows.len()).collect();
            return Some(tensor.as_column_vector(&all));
        }
        if self.groups == 1 || tensor.shape() != self.with_columns(self.groups) {
            return None;
        }
        let (axis, rows) = self.axes();
        let groups_first = tensor.permute(&[&[axis], &rows[..]].concat());
        Some(groups_first.and_then(|vectors| vectors.reshape([self.groups, self.matrix[0]])))
    }

    /// The columns of all groups as those of each; `None` if they are not.
    fn row_vector(&self, tensor: &DeviceTensor) -> Option<epilogue_runtime::Result<DeviceTensor>> {
        let [_, columns] = self.matrix;
        let is_whole = self.groups > 1 && tensor.rank() == 1 && Some(tensor.len()) == columns.checked_mul(self.groups);
        is_whole.then(|| tensor.reshape([self.groups, columns]))
    }

    /// The shapes that are needed of an argument, and those of images, if it may be some.
    fn also(&self, role: Role, needed: &str) -> String {
        let [m, n] = self.matrix;
        let (class, own) = match role {
            Role::Of(class @ BroadcastClass::Tensor) => (class, vec![m, n]),
            Role::Of(class @ BroadcastClass::ColumnVector) => (class, vec![m]),
            Role::Of(class @ BroadcastClass::RowVector) if self.groups > 1 => (class, vec![n]),
            _ => return needed.to_owned(),
        };
        let (each, of_groups) = (format!("{own:?}"), format!("{:?}", [&[self.groups], &own[..]].concat()));
        let (of_one, of_all) = match class {
            BroadcastClass::Tensor => (self.with_columns(n), self.with_columns(n * self.groups)),
            BroadcastClass::ColumnVector => (self.rows.clone(), self.with_columns(self.groups)),
            _ => (Vec::new(), vec![n * self.groups]),
        };
        let mut shapes = vec![needed.to_owned()];
        if needed.starts_with(&each) && !of_one.is_empty() {
            shapes.push(format!("{of_one:?}"));
        }
        if self.groups > 1 && needed.contains(&of_groups) {
            shapes.push(format!("{of_all:?} for all groups"));
        }
        shapes.join(", or ")
    }
}
