//! How random cases pick their rows.

use epilogue::evt::random::Choices;
use epilogue::{Device, DeviceTensor, Error};

/// The index of a random case.
#[derive(Debug)]
pub(crate) struct Picking {
    pub(crate) index: DeviceTensor,
    /// The rows of A.
    pub(crate) limit: usize,
    /// The row of A for each row of the product.
    rows: Vec<usize>,
}

impl Picking {
    /// Picks rows at random: in their order, reversed, one of them, any of them; numbers of no row for rows that no group has.
    pub(crate) fn random(
        device: &Device,
        m: usize,
        is_computed: impl Fn(usize) -> bool,
        choices: &mut Choices<'_>,
    ) -> Result<Self, Error> {
        let limit = choices.pick(&[m.max(1), 1, 2, 7, 40, 200]);
        let (kind, factor, first) = (choices.below(4), 1 + choices.below(97), choices.below(limit));
        let row = |i: usize| match kind {
            0 => i % limit,
            1 => (m - 1 - i) % limit,
            2 => first,
            _ => (i * i + i * factor + first) % limit,
        };
        let rows: Vec<usize> = (0..m).map(row).collect();
        let number =
            |i: usize| if is_computed(i) { i32::try_from(rows[i]).unwrap_or(0) } else { [-1, i32::MAX][i % 2] };
        let numbers: Vec<i32> = (0..m).map(number).collect();
        let index = tensor_of(device, &numbers, choices)?;
        Ok(Self { index, limit, rows })
    }

    /// The picked rows of a matrix of this many columns.
    pub(crate) fn of(&self, values: &[f64], columns: usize) -> Vec<f64> {
        self.rows.iter().flat_map(|row| values[row * columns..][..columns].iter().copied()).collect()
    }
}

/// The numbers as an index. Its elements may be every second one of a tensor.
pub(crate) fn tensor_of(device: &Device, numbers: &[i32], choices: &mut Choices<'_>) -> Result<DeviceTensor, Error> {
    let rows = numbers.len();
    if !choices.once_in(3) {
        return Ok(device.tensor(numbers, [rows])?);
    }
    let apart: Vec<i32> = numbers.iter().flat_map(|row| [*row, -7]).collect();
    Ok(device.tensor(&apart, [rows, 2])?.slice(1, 0..1)?.reshape([rows])?)
}
