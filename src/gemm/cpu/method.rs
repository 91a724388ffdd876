//! The choice of the kernel for a tile: one table of the operands' types and layouts, the number of rows, and the CPU.
//!
//! A row of the table applies if none before it does. The limits are measured; those of this CPU are in [`Cpu`].

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "others have fewer methods"))]

use crate::ElementType;

/// How a tile is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Dot products of [words](super::kernel::words) along K.
    WordDots(WordType),
    /// Words of bf16s, which are made in registers of two rows of B.
    PairedRows,
    /// The product's transpose: B's words in place, with A in panels.
    Transposed(WordType),
    /// A's words in place or in panels, with B in panels.
    Panels(WordType),
    /// Rows of B, widened in registers.
    WidenedRows,
    /// Dot products along K of a few rows with columns of B, or of a few columns with rows of A, widened in registers.
    WidenedDots(WidenedOperand),
    /// One row: B's rows in place.
    Row,
    /// Few rows: dot products along K.
    Dots,
    /// The `gemm` crate, which writes the result row by row.
    ByRows,
    /// The `gemm` crate, which writes the result column by column; it is then transposed.
    ByColumns,
}

/// The elements in 32 bits of an operand, for a CPU that multiplies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordType {
    F32,
    F32ByAvx2,
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "AArch64 has them"))]
    F32ByNeon,
    Bf16,
    /// 8-bit integers.
    SignedByUnsigned,
    UnsignedBySigned,
}

/// The operand that is widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WidenedOperand {
    A,
    B,
}

/// An operand in memory: its type, and whether it is contiguous along K, and across it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodLayout {
    pub(super) element: ElementType,
    pub(super) along_k: bool,
    pub(super) across: bool,
}

/// A tile, as far as the choice depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodCase {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Patches are contiguous in no direction.
    pub(super) a: MethodLayout,
    pub(super) b: MethodLayout,
    pub(super) has_patches: bool,
    /// The words of the operands; `None` if this CPU multiplies none of them.
    pub(super) words: Option<WordType>,
    /// Whether B's panels were packed before the run.
    pub(super) is_prepacked: bool,
    /// Whether no other tile has these columns.
    pub(super) is_alone: bool,
    /// The method without words.
    pub(super) general: Method,
}

/// The instructions of a CPU, and the limits within which a kernel is the fastest. A limit of 0 says that there are no
/// instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) f32s: Option<WordType>,
    pub(super) bf16s: bool,
    pub(super) integers: bool,
    /// The most rows for which dot products of bf16s are faster than their panels.
    pub(super) most_dots_of_bf16s: usize,
    pub(super) most_paired_rows: usize,
    /// The most widened rows: of f32s, and of halves.
    pub(super) most_widened_f32s: usize,
    pub(super) most_widened_halves: usize,
    pub(super) fewest_widened_columns: usize,
    pub(super) most_widened_dots: usize,
}

/// The most rows, or columns, for which dot products are faster than panels.
pub(super) const FEW: usize = 12;
/// With fewer rows, B is multiplied where it lies if it is contiguous along K, with A in panels: a product of 32×3072×768 f32s takes
/// 1.6 ms so, as dot products 2.2 (Zen 4).
const MANY: usize = 96;

impl Method {
    /// The fastest method.
    pub(super) fn of(case: &MethodCase, cpu: &Cpu) -> Self {
        use WordType::{Bf16, F32, F32ByAvx2, F32ByNeon, SignedByUnsigned, UnsignedBySigned};
        let &MethodCase { rows, columns, a, b, words, general, .. } = case;
        let along_k = a.along_k && b.along_k;
        let many = |few: usize| b.along_k && case.is_alone && few < rows && rows < MANY;
        let is_half = |of: MethodLayout| of.along_k && matches!(of.element, ElementType::BF16 | ElementType::F16);
        match words {
            // words                                    A, B          rows, columns
            Some(words) if case.is_prepacked || case.has_patches => Self::Panels(words),
            Some(Bf16) if many(cpu.most_dots_of_bf16s) => Self::Transposed(Bf16),
            Some(words @ (F32 | F32ByAvx2 | F32ByNeon)) if many(FEW) => Self::Transposed(words),
            Some(F32) if along_k && rows <= FEW => Self::WordDots(F32),
            Some(words @ (Bf16 | SignedByUnsigned | UnsignedBySigned)) if along_k && rows.min(columns) <= FEW => {
                Self::WordDots(words)
            }
            Some(Bf16) if a.along_k && b.across && rows <= cpu.most_paired_rows => Self::PairedRows,
            Some(words @ (Bf16 | SignedByUnsigned | UnsignedBySigned)) => Self::Panels(words),
            _ if case.has_patches => general,
            _ if b.across && cpu.widens_rows(b.element, rows, columns) => Self::WidenedRows,
            // For few rows packing takes more time than it saves.
            Some(words) if rows > FEW => Self::Panels(words),
            _ if is_half(b) && rows <= cpu.most_widened_dots => Self::WidenedDots(WidenedOperand::B),
            _ if is_half(a) && columns <= cpu.most_widened_dots => Self::WidenedDots(WidenedOperand::A),
            _ => general,
        }
    }

    /// The fastest method without words, of operands that are multiplied in place or copied: whether A is contiguous along
    /// K, and B along K and across it. The `gemm` crate exchanges the operands to write row by row, and packs a B that is
    /// contiguous along K element by element.
    pub(super) const fn general(rows: usize, in_place: bool, a_along_k: bool, b_along_k: bool, b_across: bool) -> Self {
        match rows {
            0..=FEW if a_along_k && b_along_k => Self::Dots,
            1 if b_across => Self::Row,
            _ if b_along_k && !b_across => Self::ByColumns,
            13..=48 if in_place => Self::ByColumns,
            _ => Self::ByRows,
        }
    }
}

impl Cpu {
    /// The words of operands of these types.
    pub(super) const fn words(&self, a: ElementType, b: ElementType) -> Option<WordType> {
        use ElementType::{BF16, F32, I8, U8};
        match (a, b) {
            (F32, F32) => self.f32s,
            (BF16, BF16) if self.bf16s => Some(WordType::Bf16),
            (I8, I8 | U8) if self.integers => Some(WordType::SignedByUnsigned),
            (U8, I8 | U8) if self.integers => Some(WordType::UnsignedBySigned),
            _ => None,
        }
    }

    const fn widens_rows(&self, b: ElementType, rows: usize, columns: usize) -> bool {
        let (least, most) = match b {
            // One row reads f32s in longer pieces.
            ElementType::F32 => (2, self.most_widened_f32s),
            ElementType::BF16 | ElementType::F16 => (1, self.most_widened_halves),
            _ => return false,
        };
        least <= rows && rows <= most && columns >= self.fewest_widened_columns
    }
}

#[cfg(test)]
mod tests {
    use ElementType::{BF16, F16, F32, I8};

    use super::*;

    const AVX2: Cpu = Cpu {
        f32s: Some(WordType::F32ByAvx2),
        bf16s: false,
        integers: false,
        most_dots_of_bf16s: FEW,
        most_paired_rows: 0,
        most_widened_f32s: 0,
        most_widened_halves: 12,
        fewest_widened_columns: 8,
        most_widened_dots: 4,
    };
    const AVX512: Cpu = Cpu {
        f32s: Some(WordType::F32),
        bf16s: true,
        integers: true,
        most_paired_rows: 12,
        most_widened_f32s: 48,
        most_widened_halves: 48,
        fewest_widened_columns: 16,
        most_widened_dots: 18,
        ..AVX2
    };
    const AMX: Cpu = Cpu { most_dots_of_bf16s: 5, most_paired_rows: 6, ..AVX512 };
    const BASELINE: Cpu = Cpu { f32s: None, most_widened_halves: 0, most_widened_dots: 0, ..AVX2 };

    /// The methods of the CPUs above, of operands that are contiguous along K or across it.
    fn methods(element: ElementType, [a_along_k, b_along_k]: [bool; 2], rows: usize) -> [Method; 4] {
        [BASELINE, AVX2, AVX512, AMX].map(|cpu| {
            let layout = |along_k: bool| MethodLayout { element, along_k, across: !along_k };
            let case = MethodCase {
                rows,
                columns: 512,
                a: layout(a_along_k),
                b: layout(b_along_k),
                has_patches: false,
                words: cpu.words(element, element),
                is_prepacked: false,
                is_alone: true,
                general: Method::general(rows, element == F32, a_along_k, b_along_k, !b_along_k),
            };
            Method::of(&case, &cpu)
        })
    }

    #[test]
    fn every_cpu_has_its_methods() {
        use Method::{
            ByColumns, ByRows, Dots, PairedRows, Panels, Row, Transposed, WidenedDots, WidenedRows, WordDots,
        };
        use WordType::{Bf16, F32 as Word, F32ByAvx2};
        let along_k = [true, true];
        assert_eq!(methods(F32, along_k, 4), [Dots, Dots, WordDots(Word), WordDots(Word)]);
        assert_eq!(methods(F32, along_k, 40), [ByColumns, Transposed(F32ByAvx2), Transposed(Word), Transposed(Word)]);
        assert_eq!(methods(F32, along_k, 100), [ByColumns, Panels(F32ByAvx2), Panels(Word), Panels(Word)]);
        let rows = [true, false];
        assert_eq!(methods(F32, rows, 1), [Row; 4]);
        assert_eq!(methods(F32, rows, 4), [ByRows, ByRows, WidenedRows, WidenedRows]);
        assert_eq!(methods(F32, rows, 40), [ByColumns, Panels(F32ByAvx2), WidenedRows, WidenedRows]);
        assert_eq!(methods(F32, rows, 100), [ByRows, Panels(F32ByAvx2), Panels(Word), Panels(Word)]);
        let widened = WidenedDots(WidenedOperand::B);
        assert_eq!(methods(BF16, along_k, 4), [Dots, widened, WordDots(Bf16), WordDots(Bf16)]);
        assert_eq!(methods(BF16, along_k, 8), [Dots, Dots, WordDots(Bf16), Transposed(Bf16)]);
        assert_eq!(methods(BF16, rows, 8), [ByRows, WidenedRows, PairedRows, Panels(Bf16)]);
        assert_eq!(methods(F16, along_k, 4), [Dots, widened, widened, widened]);
        assert_eq!(methods(F16, rows, 1), [Row, WidenedRows, WidenedRows, WidenedRows]);
        assert_eq!(methods(I8, along_k, 4)[2..], [WordDots(WordType::SignedByUnsigned); 2]);
        assert_eq!(methods(I8, rows, 4)[2..], [Panels(WordType::SignedByUnsigned); 2]);
    }
}
