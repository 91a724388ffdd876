//! Scatters rows of outputs on the host, for the CPU device.

use std::collections::HashMap;
use std::ops::Range;

use epilogue_runtime::DeviceTensor;

use super::later::{OwnArgument, borrowed};
use crate::Argument;
use crate::evt::{BroadcastClass, ValidTree};
use crate::exhaustion::try_repeated;
use crate::gemm::problem::{Error, Left, ScatterError};

/// Where the rows of a product are in the outputs.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The place of each row of the GEMM; `None` for rows that no group has.
    rows: Vec<Option<usize>>,
    /// The arguments that have them.
    outputs: Vec<usize>,
    /// Their names.
    pub(crate) names: Vec<&'static str>,
}

impl Placed {
    /// Reads the index; `None` if rows are in their order.
    ///
    /// # Errors
    /// [`ScatterError::Row`] for an index that is no row of an output, [`ScatterError::Twice`] for an index that occurs
    /// twice.
    pub(crate) fn read(
        a: Left<'_>,
        tree: &ValidTree,
        groups: Option<&[Range<usize>]>,
        arguments: &[Argument<'_>],
    ) -> Result<Option<Self>, Error> {
        let Some(scattered) = a.scattered() else { return Ok(None) };
        let outputs = tree.stores().filter(|(_, output)| output.class == BroadcastClass::Tensor);
        let (outputs, names): (Vec<_>, Vec<_>) =
            outputs.map(|(i, output)| (tree.output_argument(i), output.name)).unzip();
        let given = scattered.index.to_vec::<i32>()?;
        let all = 0..given.len();
        let computed = groups.unwrap_or(std::slice::from_ref(&all)).iter().cloned().flatten();
        let (mut rows, mut taken) = (try_repeated(None, given.len())?, HashMap::new());
        for place in computed {
            let number = given[place];
            for (argument, name) in outputs.iter().zip(&names) {
                let Argument::Output(tensor) = &arguments[*argument] else { continue };
                let limit = tensor.shape()[0];
                if usize::try_from(number).ok().is_none_or(|row| row >= limit) {
                    return Err(ScatterError::Row { place, given: number, name, rows: limit }.into());
                }
            }
            if let Some(first) = taken.insert(number, place) {
                return Err(ScatterError::Twice { first, second: place, given: number }.into());
            }
            rows[place] = usize::try_from(number).ok();
        }
        Ok(Some(Self { rows, outputs, names }))
    }

    /// Has outputs written with rows in their order, then has `place` copy each row where it belongs.
    ///
    /// # Errors
    /// The errors of `execute` and `place`; too little memory.
    pub(crate) fn write(
        &self,
        arguments: &[Argument<'_>],
        execute: impl FnOnce(&[Argument<'_>]) -> Result<(), Error>,
        place: impl Fn(&DeviceTensor, &[Option<usize>], &DeviceTensor) -> epilogue_runtime::Result<()>,
    ) -> Result<(), Error> {
        let in_order = |(i, argument): (usize, &Argument<'_>)| {
            Ok(match argument {
                Argument::Scalar(value) => OwnArgument::Scalar(*value),
                Argument::Seed(seed, offset) => OwnArgument::Seed(*seed, *offset),
                Argument::Input(tensor) => OwnArgument::Input((*tensor).clone()),
                Argument::Output(tensor) if self.outputs.contains(&i) => {
                    let shape = [self.rows.len(), tensor.shape()[1]];
                    OwnArgument::Output(tensor.device().zeros_of(tensor.element_type(), shape)?)
                }
                Argument::Output(tensor) => OwnArgument::Output((**tensor).clone()),
            })
        };
        let mut own = arguments.iter().enumerate().map(in_order).collect::<Result<Vec<_>, Error>>()?;
        execute(&borrowed(&mut own))?;
        for i in &self.outputs {
            if let (OwnArgument::Output(computed), Argument::Output(output)) = (&own[*i], &arguments[*i]) {
                place(computed, &self.rows, output)?;
            }
        }
        Ok(())
    }

    /// The rows of an output in the GEMM's order, from all of its values. Rows that no group has are 0, and missing
    /// rows are left out.
    pub(crate) fn in_order(&self, values: &[f64], columns: usize) -> Vec<f64> {
        let row = |row: &Option<usize>| match row {
            Some(row) => values.get(row * columns..(row + 1) * columns).unwrap_or_default().to_vec(),
            None => vec![0.0; columns],
        };
        self.rows.iter().flat_map(row).collect()
    }
}
