//! Where the rows of random cases go.

use epilogue::evt::random::Choices;
use epilogue::evt::{BroadcastClass, ValidOutput, ValidTree};
use epilogue::{Device, DeviceTensor, Error};

use crate::picking::tensor_of;

/// The index of a random case.
#[derive(Debug)]
pub(crate) struct Scattering {
    pub(crate) index: DeviceTensor,
    /// The rows of outputs.
    pub(crate) limit: usize,
    /// The place of each row of the product; `None` for rows that no group has.
    rows: Vec<Option<usize>>,
}

impl Scattering {
    /// Whether an index may place the rows of an epilogue's results.
    pub(crate) fn takes(tree: &ValidTree) -> bool {
        let mut outputs =
            tree.stores().map(|(_, output)| output).filter(|output| output.class == BroadcastClass::Tensor);
        let plain = |output: &ValidOutput| !output.packed && output.parameter.is_none();
        outputs.next().is_some_and(|first| plain(first) && outputs.all(plain))
    }

    /// Whether it is the rows of an output that are placed.
    pub(crate) fn places(output: &ValidOutput) -> bool {
        output.class == BroadcastClass::Tensor && output.reduction().is_none()
    }

    /// Places rows at random, no two of them at one place; numbers of no row for rows that no group has.
    pub(crate) fn random(
        device: &Device,
        m: usize,
        is_computed: impl Fn(usize) -> bool,
        choices: &mut Choices<'_>,
    ) -> Result<Self, Error> {
        let limit = m + choices.pick(&[0, 1, 5, 40]);
        // Every `step`th row around and around: all of them if no divisor is common.
        let common = |mut x: usize, mut y: usize| {
            while y > 0 {
                (x, y) = (y, x % y);
            }
            x
        };
        let (wanted, first) = (1 + choices.below(limit.max(1)), choices.below(limit.max(1)));
        let step = (wanted..).find(|step| common(*step, limit.max(1)) == 1).unwrap_or(1);
        let row = |i: usize| is_computed(i).then(|| (first + i * step) % limit);
        let rows: Vec<Option<usize>> = (0..m).map(row).collect();
        let number = |(i, row): (usize, &Option<usize>)| row.map_or([-1, i32::MAX][i % 2], |row| row as i32);
        let numbers: Vec<i32> = rows.iter().enumerate().map(number).collect();
        let index = tensor_of(device, &numbers, choices)?;
        Ok(Self { index, limit, rows })
    }

    /// The rows of an output in the product's order; 0 for those that no group has.
    pub(crate) fn in_order(&self, values: &[f64], columns: usize) -> Vec<f64> {
        let row = |row: &Option<usize>| match row {
            Some(row) => values[row * columns..][..columns].to_vec(),
            None => vec![0.0; columns],
        };
        self.rows.iter().flat_map(row).collect()
    }

    /// The elements of an output that no row goes to.
    pub(crate) fn untouched(&self, columns: usize) -> Vec<usize> {
        let free = (0..self.limit).filter(|row| !self.rows.contains(&Some(*row)));
        free.flat_map(|row| row * columns..(row + 1) * columns).collect()
    }
}
