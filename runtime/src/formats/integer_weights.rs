//! The one form in which integer weights of checkpoints are held.

use half::{bf16, f16};

use crate::error::formats::FormatError;
use crate::layout::element::ElementType;

/// The scales of [`IntegerWeights`], in the type in which they were stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// f16.
    F16(Vec<f16>),
    /// bf16.
    BF16(Vec<bf16>),
    /// f32.
    F32(Vec<f32>),
}

impl Scales {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F16(all) => all.len(),
            Self::BF16(all) => all.len(),
            Self::F32(all) => all.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub const fn element_type(&self) -> ElementType {
        match self {
            Self::F16(_) => ElementType::F16,
            Self::BF16(_) => ElementType::BF16,
            Self::F32(_) => ElementType::F32,
        }
    }

    /// The scale with this index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<f32> {
        match self {
            Self::F16(all) => all.get(index).map(|scale| scale.to_f32()),
            Self::BF16(all) => all.get(index).map(|scale| scale.to_f32()),
            Self::F32(all) => all.get(index).copied(),
        }
    }
}

/// Weights of 4 or 8 bits with a scale, and perhaps a zero point, for each group of a row: a matrix `[N, K]` of N output
/// features and K input features.
///
/// | part | shape | layout |
/// |---|---|---|
/// | codes of 4 bits | `[N, ⌈K/2⌉]` bytes | byte `j` of a row has `k = 2j` in its lower half and `k = 2j + 1` in its upper one |
/// | codes of 8 bits | `[N, K]` bytes | |
/// | scales | `[N, ⌈K/group⌉]` | |
/// | zero points | `[N, ⌈K/group⌉]` bytes, or none | none: all are `2^(bits - 1)` |
///
/// A value is `scale * (code - zero point)`, with codes and zero points as numbers without a sign. A scale of 0 makes its
/// group zeros.
///
/// If there is a **permutation**, the weights are stored in another order of input features: column `j` of codes is input
/// feature `permutation[j]`. A product takes the activations' columns in that order.
///
/// ```
/// use epilogue_runtime::formats::{IntegerWeights, Scales};
///
/// // Two rows of four codes, in groups of two.
/// let codes = vec![0x98, 0x7a, 0x08, 0xf0];
/// let scales = Scales::F32(vec![1.0, 0.5, 2.0, 0.25]);
/// let weights = IntegerWeights::new([2, 4], 4, 2, codes, scales, None)?;
/// assert_eq!(weights.decode(), [0.0, 1.0, 1.0, -0.5, 0.0, -16.0, -2.0, 1.75]);
/// # Ok::<(), epilogue_runtime::FormatError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerWeights {
    shape: [usize; 2],
    bits: u32,
    group: usize,
    codes: Vec<u8>,
    scales: Scales,
    zeros: Option<Vec<u8>>,
    permutation: Option<Vec<u32>>,
}

impl IntegerWeights {
    /// Weights `[N, K]` of these parts.
    ///
    /// # Errors
    /// [`FormatError::Bits`] unless they are 4 or 8; [`FormatError::Block`] for groups of 0; [`FormatError::Count`] for
    /// another number of codes, scales or zero points; [`FormatError::ScaleNotFinite`].
    pub fn new(
        shape: [usize; 2],
        bits: u32,
        group: usize,
        codes: Vec<u8>,
        scales: Scales,
        zeros: Option<Vec<u8>>,
    ) -> Result<Self, FormatError> {
        let [rows, columns] = shape;
        if bits != 4 && bits != 8 {
            return Err(FormatError::Bits { given: bits });
        }
        if group == 0 {
            return Err(FormatError::Block { given: group });
        }
        let check = |part, given: usize, each: usize| {
            let needed = rows.saturating_mul(each);
            if given == needed { Ok(()) } else { Err(FormatError::Count { part, given, needed, rows, columns, group }) }
        };
        check("bytes of codes", codes.len(), row_bytes(columns, bits))?;
        check("scales", scales.len(), columns.div_ceil(group))?;
        if let Some(zeros) = &zeros {
            check("zero points", zeros.len(), columns.div_ceil(group))?;
        }
        let not_finite = |index: &usize| scales.get(*index).is_some_and(|scale| !scale.is_finite());
        if let Some(index) = (0..scales.len()).find(not_finite) {
            let given = scales.get(index).map(|scale| scale.to_string()).unwrap_or_default();
            return Err(FormatError::ScaleNotFinite { index, given });
        }
        Ok(Self { shape, bits, group, codes, scales, zeros, permutation: None })
    }

    /// These weights, whose column `j` is input feature `permutation[j]`.
    ///
    /// # Errors
    /// [`FormatError::Permutation`] unless it names every column once.
    pub fn permuted(self, permutation: Vec<u32>) -> Result<Self, FormatError> {
        let columns = self.shape[1];
        let mut seen = vec![false; columns];
        for column in &permutation {
            match seen.get_mut(*column as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(FormatError::Permutation { columns }),
            }
        }
        if permutation.len() != columns {
            return Err(FormatError::Permutation { columns });
        }
        Ok(Self { permutation: Some(permutation), ..self })
    }

    /// The number of output features (N) and of input features (K).
    #[must_use]
    pub const fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The bits of a code: 4 or 8.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// How many neighbours along K share a scale.
    #[must_use]
    pub const fn group(&self) -> usize {
        self.group
    }

    /// The codes, row by row.
    #[must_use]
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// The scales, row by row.
    #[must_use]
    pub const fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The zero points, row by row, unless all are `2^(bits - 1)`.
    #[must_use]
    pub fn zeros(&self) -> Option<&[u8]> {
        self.zeros.as_deref()
    }

    /// The input feature of each column, unless column `k` is input feature `k`.
    #[must_use]
    pub fn permutation(&self) -> Option<&[u32]> {
        self.permutation.as_deref()
    }

    /// The code of an output feature and a column; `None` outside.
    #[must_use]
    pub fn code(&self, row: usize, column: usize) -> Option<u8> {
        if row >= self.shape[0] || column >= self.shape[1] {
            return None;
        }
        let row = row * row_bytes(self.shape[1], self.bits);
        Some(if self.bits == 4 {
            self.codes[row + column / 2] >> (column % 2 * 4) & 15
        } else {
            self.codes[row + column]
        })
    }

    /// The values `[N, K]`, row by row, in the order of input features. Each is rounded to f32 at most once.
    #[must_use]
    pub fn decode(&self) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let (groups, middle) = (columns.div_ceil(self.group), 1u8 << (self.bits - 1));
        let mut values = vec![0.0; rows * columns];
        for (row, values) in values.chunks_exact_mut(columns.max(1)).enumerate() {
            for column in 0..columns {
                let at = row * groups + column / self.group;
                let zero = self.zeros.as_ref().map_or(middle, |zeros| zeros[at]);
                let code = self.code(row, column).unwrap_or_default();
                let value = f64::from(self.scales.get(at).unwrap_or_default()) * (f64::from(code) - f64::from(zero));
                let feature = self.permutation.as_ref().map_or(column, |order| order[column] as usize);
                #[expect(clippy::cast_possible_truncation, reason = "rounded to f32")]
                let value = value as f32;
                values[feature] = value;
            }
        }
        values
    }
}

/// The bytes of a row's codes.
pub(crate) const fn row_bytes(columns: usize, bits: u32) -> usize {
    if bits == 4 { columns.div_ceil(2) } else { columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(zeros: Option<Vec<u8>>) -> IntegerWeights {
        let scales = Scales::F16([1.0, 2.0, 0.0, -1.0].map(f16::from_f32).to_vec());
        IntegerWeights::new([2, 3], 4, 2, vec![0x21, 0x03, 0x65, 0x07], scales, zeros).unwrap()
    }

    #[test]
    fn a_value_is_the_scale_times_the_code_less_the_zero_point() {
        assert_eq!(weights(None).decode(), [-7.0, -6.0, -10.0, 0.0, 0.0, 1.0]);
        assert_eq!(weights(Some(vec![1, 2, 3, 17])).decode(), [0.0, 1.0, 2.0, 0.0, 0.0, 10.0]);
        let bytes = IntegerWeights::new([1, 2], 8, 2, vec![0, 255], Scales::F32(vec![1.0]), None).unwrap();
        assert_eq!(bytes.decode(), [-128.0, 127.0]);
    }

    #[test]
    fn a_permutation_names_the_input_feature_of_each_column() {
        let permuted = weights(None).permuted(vec![2, 0, 1]).unwrap();
        assert_eq!(permuted.decode(), [-6.0, -10.0, -7.0, 0.0, 1.0, 0.0]);
        for wrong in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![0, 1, 2, 2]] {
            assert!(matches!(weights(None).permuted(wrong), Err(FormatError::Permutation { columns: 3 })));
        }
    }

    #[test]
    fn parts_of_other_sizes_are_refused() {
        let make = |shape, bits, group, codes: usize, scales: Vec<f32>, zeros: Option<usize>| {
            let zeros = zeros.map(|count| vec![8; count]);
            IntegerWeights::new(shape, bits, group, vec![0; codes], Scales::F32(scales), zeros).unwrap_err()
        };
        let two = || vec![1.0; 2];
        assert_eq!(make([1, 4], 3, 2, 2, two(), None), FormatError::Bits { given: 3 });
        assert_eq!(make([1, 4], 4, 0, 2, two(), None), FormatError::Block { given: 0 });
        assert!(matches!(make([1, 4], 4, 2, 3, two(), None), FormatError::Count { needed: 2, given: 3, .. }));
        assert!(matches!(make([1, 4], 4, 2, 2, vec![1.0], None), FormatError::Count { part: "scales", .. }));
        assert!(matches!(make([1, 4], 4, 2, 2, two(), Some(1)), FormatError::Count { part: "zero points", .. }));
        assert!(matches!(make([usize::MAX, 4], 4, 2, 2, two(), None), FormatError::Count { .. }));
        for scale in [f32::NAN, f32::INFINITY] {
            let refused = make([1, 4], 4, 2, 2, vec![1.0, scale], None);
            assert!(matches!(refused, FormatError::ScaleNotFinite { index: 1, .. }), "{refused}");
        }
    }
}
