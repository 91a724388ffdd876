//! The arguments of a run on some of the rows.

use std::ops::Range;

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::trees::{self, SharedPart};
use crate::evt::{BroadcastClass, ParameterClass, ValidTree};
use crate::{Argument, gemm};

/// A product with this many rows is cut into chunks by default, so that sums travel while a rank multiplies.
const ROWS_IN_CHUNKS: usize = 1024;
/// The default number of chunks.
const CHUNKS: usize = 4;

/// The extents of a matrix.
pub(super) fn matrix(operand: &'static str, tensor: &DeviceTensor) -> Result<(usize, usize), Error> {
    match *tensor.shape() {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Error::Matrix { operand, shape: tensor.shape().to_vec() }),
    }
}

/// The number of chunks, as asked for or by default.
pub(super) fn number_of_chunks(tree: &ValidTree, asked: Option<usize>, extent: usize) -> Result<usize, Error> {
    match (asked, trees::needs_all(tree, SharedPart::Rows)) {
        (Some(chunks), Some(what)) if chunks > 1 => Err(Error::Chunks { epilogue: tree.name(), chunks, what }),
        (Some(chunks), _) => Ok(chunks),
        (None, None) if extent >= ROWS_IN_CHUNKS => Ok(CHUNKS),
        (None, _) => Ok(1),
    }
}

/// The rows that one launch has.
#[derive(Clone, Debug)]
pub(super) struct LaunchRows {
    /// The parts that all rows are divided into, one for each rank; 1 if they aren't.
    pub(super) parts: usize,
    /// The rows of each part.
    pub(super) extent: usize,
    /// The rows of each part that the launch has.
    pub(super) range: Range<usize>,
}

impl LaunchRows {
    fn is_all(&self) -> bool {
        self.range == (0..self.extent)
    }

    /// These rows of a tensor whose first axis is the rows: a view with the parts as its first axis, if there are several.
    pub(super) fn of(&self, tensor: &DeviceTensor) -> Result<DeviceTensor, Error> {
        if self.parts == 1 {
            return Ok(tensor.slice(0, self.range.clone())?);
        }
        if self.is_all() {
            return Ok(tensor.clone());
        }
        let shape = [&[self.parts, self.extent], &tensor.shape()[1..]].concat();
        Ok(tensor.reshape(shape)?.slice(1, self.range.clone())?)
    }

    /// The shape of these rows of something with this many columns.
    pub(super) fn shape(&self, columns: usize) -> Vec<usize> {
        match self.parts {
            1 => vec![self.range.len(), columns],
            _ if self.is_all() => vec![self.parts * self.extent, columns],
            parts => vec![parts, self.range.len(), columns],
        }
    }
}

/// Divides `0..extent` into this many parts, at least one; the last one may be smaller.
pub(super) fn chunks(extent: usize, chunks: usize) -> Vec<Range<usize>> {
    let length = extent.div_ceil(chunks.max(1)).max(1);
    let ranges = (0..extent.max(1).div_ceil(length)).map(|i| i * length..((i + 1) * length).min(extent));
    ranges.collect()
}

/// An argument, by value.
pub(super) enum Owned {
    Scalar(f64),
    Seed(u64, u64),
    Input(DeviceTensor),
    Output(DeviceTensor),
}

impl Owned {
    pub(super) fn borrowed(all: &mut [Self]) -> Vec<Argument<'_>> {
        let one = |owned| match owned {
            &mut Self::Scalar(value) => Argument::Scalar(value),
            &mut Self::Seed(seed, offset) => Argument::Seed(seed, offset),
            Self::Input(tensor) => Argument::Input(&*tensor),
            Self::Output(tensor) => Argument::Output(tensor),
        };
        all.iter_mut().map(one).collect()
    }

    fn map(
        argument: &Argument<'_>,
        part: impl FnOnce(&DeviceTensor) -> Result<DeviceTensor, Error>,
    ) -> Result<Self, Error> {
        Ok(match argument {
            Argument::Scalar(value) => Self::Scalar(*value),
            Argument::Seed(seed, offset) => Self::Seed(*seed, *offset),
            Argument::Input(tensor) => Self::Input(part(tensor)?),
            Argument::Output(tensor) => Self::Output(part(tensor)?),
        })
    }
}

/// The class of each argument of a run, and whether it has eight columns in a byte: of every parameter, then of the outputs
/// that are no parameter's.
pub(super) fn classes(tree: &ValidTree) -> Vec<(&'static str, BroadcastClass, bool)> {
    let parameters = tree
        .parameters()
        .iter()
        .map(|parameter| (parameter.name, parameter.class.broadcast_class(), parameter.class == ParameterClass::Bits));
    let outputs = tree.outputs().iter().filter(|output| output.parameter.is_none());
    parameters.chain(outputs.map(|output| (output.name, output.class, output.packed))).collect()
}

/// The arguments of a run on some rows of a product with `columns` columns, from those of a run on all.
///
/// # Errors
/// [`gemm::Error::ArgumentShape`], [`gemm::Error::ArgumentCount`].
pub(super) fn arguments(
    tree: &ValidTree,
    given: &[Argument<'_>],
    rows: &LaunchRows,
    columns: usize,
) -> Result<Vec<Owned>, Error> {
    let classes = classes(tree);
    if classes.len() != given.len() {
        let names = tree.argument_names().collect();
        return Err(gemm::Error::ArgumentCount { epilogue: tree.name(), given: given.len(), names }.into());
    }
    let all = rows.parts * rows.extent;
    let one = |((name, class, packed), argument): (&(&'static str, BroadcastClass, bool), &Argument<'_>)| {
        let columns = if *packed { columns.div_ceil(8) } else { columns };
        Owned::map(argument, |tensor| {
            let needed: &[usize] = match class {
                BroadcastClass::Tensor => &[all, columns],
                BroadcastClass::ColumnVector => &[all],
                // One argument serves all rows; the product checks it.
                BroadcastClass::RowVector | BroadcastClass::Scalar => return Ok(tensor.clone()),
            };
            if tensor.shape() == needed {
                return rows.of(tensor);
            }
            let (given, needed) = (tensor.shape().to_vec(), format!("{needed:?}"));
            Err(gemm::Error::ArgumentShape { name, given, needed }.into())
        })
    };
    classes.iter().zip(given).map(one).collect()
}

/// The arguments as they are.
pub(super) fn whole(given: &[Argument<'_>]) -> Result<Vec<Owned>, Error> {
    given.iter().map(|argument| Owned::map(argument, |tensor| Ok(tensor.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use epilogue_runtime::Device;

    #[test]
    fn chunks_cover_everything_once() {
        assert_eq!(chunks(10, 4), [0..3, 3..6, 6..9, 9..10]);
        assert_eq!(chunks(3, 8), [0..1, 1..2, 2..3]);
        let whole = |extent, parts| (chunks(extent, parts).len(), chunks(extent, parts)[0].clone());
        assert_eq!((whole(0, 3), whole(7, 1)), ((1, 0..0), (1, 0..7)));
    }

    #[test]
    fn rows_of_every_part() {
        let device = Device::cpu();
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let matrix = device.tensor(&values, [6, 2]).expect("a tensor");
        let middle = LaunchRows { parts: 2, extent: 3, range: 1..2 };
        let part = middle.of(&matrix).expect("a view");
        assert_eq!((part.shape(), middle.shape(2)), (&[2, 1, 2][..], vec![2, 1, 2]));
        assert_eq!(part.to_vec::<f32>().expect("values"), [2.0, 3.0, 8.0, 9.0]);
        let all = LaunchRows { parts: 2, extent: 3, range: 0..3 };
        assert_eq!((all.of(&matrix).expect("a view").shape(), all.shape(2)), (&[6, 2][..], vec![6, 2]));
    }
}
