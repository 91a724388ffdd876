//! The numbers of quantised weights in either of the orders in which they lie: as checkpoints have them, or in panels.
//!
//! A panel has [`PANEL`] columns of B. Codes lie by words of 32 bits: a word has the codes of one column that follow each
//! other along K, and the words of a panel's columns follow each other. So a vector of words is loaded at once, and holds
//! a number for each column. A word of 4-bit codes is made for products of bytes: its low halves are the first four codes,
//! its high halves the next four.
//!
//! ```text
//! word of 4-bit codes    byte 0     byte 1     byte 2     byte 3
//!   low halves           k          k + 1      k + 2      k + 3
//!   high halves          k + 4      k + 5      k + 6      k + 7
//! ```
//!
//! Signed codes are stored as unsigned ones, by the sign bit: then their zero point is 8 or 128. A panel's scales lie group
//! by group, one for each column, and so do its zero points. Columns and codes that fill up a panel and a word are 0.

use super::quantization::{CodeType, Quantization, ZeroPoints};

/// Columns of a panel.
pub(crate) const PANEL: usize = 16;

/// Bytes of a word of each of a panel's columns: a cache line.
pub(crate) const WORDS: usize = 4 * PANEL;

/// The extents of a B of quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightExtents {
    /// L, if there is a batch axis.
    pub(crate) batch: Option<usize>,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl WeightExtents {
    /// The number of panels of a matrix.
    pub(crate) const fn panels(&self) -> usize {
        self.n.div_ceil(PANEL)
    }
}

/// The order of codes, scales and zero points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightOrder {
    /// A row for each column of B.
    Rows,
    /// Panels.
    Panels,
}

/// Codes of a word.
pub(crate) const fn codes_of_word(codes: CodeType) -> usize {
    32 / codes.bits()
}

/// Words along K.
pub(crate) const fn words_of(codes: CodeType, k: usize) -> usize {
    k.div_ceil(codes_of_word(codes))
}

/// The byte of a word that has the code with this number, and the bit in it where the code begins.
pub(crate) const fn place_in_word(codes: CodeType, number: usize) -> (usize, usize) {
    (number % 4, 4 * (number / 4) * (codes.bits() == 4) as usize)
}

/// Weights on the host.
pub(crate) struct WeightValues {
    pub(crate) order: WeightOrder,
    pub(crate) quantization: Quantization,
    pub(crate) extents: WeightExtents,
    pub(crate) codes: Vec<u8>,
    pub(crate) scales: Vec<f64>,
    pub(crate) zero_points: Vec<u8>,
}

impl WeightValues {
    /// The weight, exactly: an f32 has 24 bits, a code less its zero point 9.
    pub(crate) fn weight(&self, matrix: usize, k: usize, column: usize) -> f64 {
        let group = k / self.quantization.group_of(self.extents.k);
        self.scale(matrix, group, column) * f64::from(self.step(matrix, k, column))
    }

    /// The scale of a group of a column.
    pub(crate) fn scale(&self, matrix: usize, group: usize, column: usize) -> f64 {
        self.scales[self.of_group(matrix, group, column)]
    }

    /// The code less its zero point.
    pub(crate) fn step(&self, matrix: usize, k: usize, column: usize) -> i32 {
        let (byte, bit) = self.place(matrix, k, column);
        let Quantization { codes, zero_points, .. } = self.quantization;
        let code = self.codes[byte] >> bit & codes.most();
        let code = match self.order {
            WeightOrder::Rows => code ^ codes.sign(),
            WeightOrder::Panels => code,
        };
        let zero = match zero_points {
            ZeroPoints::None => codes.sign(),
            ZeroPoints::One(zero) => zero,
            ZeroPoints::Each => {
                self.zero_points[self.of_group(matrix, k / self.quantization.group_of(self.extents.k), column)]
            }
        };
        i32::from(code) - i32::from(zero)
    }

    /// The byte and the first bit of a code.
    fn place(&self, matrix: usize, k: usize, column: usize) -> (usize, usize) {
        let (codes, extents) = (self.quantization.codes, self.extents);
        match self.order {
            WeightOrder::Rows => {
                let in_byte = 8 / codes.bits();
                let row = (matrix * extents.n + column) * codes.elements(extents.k);
                (row + k / in_byte, k % in_byte * codes.bits())
            }
            WeightOrder::Panels => {
                let of_word = codes_of_word(codes);
                let (byte, bit) = place_in_word(codes, k % of_word);
                let panel = matrix * extents.panels() + column / PANEL;
                let words = panel * words_of(codes, extents.k) + k / of_word;
                (words * WORDS + column % PANEL * 4 + byte, bit)
            }
        }
    }

    fn of_group(&self, matrix: usize, group: usize, column: usize) -> usize {
        let groups = self.quantization.groups_of(self.extents.k);
        match self.order {
            WeightOrder::Rows => (matrix * self.extents.n + column) * groups + group,
            WeightOrder::Panels => {
                let panel = matrix * self.extents.panels() + column / PANEL;
                (panel * groups + group) * PANEL + column % PANEL
            }
        }
    }
}
