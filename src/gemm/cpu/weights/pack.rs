//! Packs quantised weights into panels.

use crate::ElementType;
use crate::exhaustion::try_repeated;
use crate::gemm::problem::quantization::{CodeType, Quantization};
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::weight_values::{
    PANEL, WORDS, WeightExtents, WeightOrder, WeightValues, codes_of_word, words_of,
};
use crate::gemm::problem::{Error, Quantized};

/// The panels of quantised weights.
///
/// # Errors
/// The tensors' types and shapes; they can't be read; there is not enough memory.
pub(crate) fn pack_weights(weights: &Quantized<'_>) -> Result<WeightPanels, Error> {
    let values = weights.values()?;
    debug_assert_eq!(values.order, WeightOrder::Rows);
    let WeightValues { quantization, extents, codes, scales, zero_points, .. } = values;
    let device = weights.tensor().device();
    let panels = extents.batch.unwrap_or(1) * extents.panels();
    let (groups, words) = (quantization.groups_of(extents.k), words_of(quantization.codes, extents.k));
    let codes = packed_codes(quantization, extents, &codes)?;
    let of_groups = [panels, groups, PANEL];
    let are_finite = scales.iter().all(|scale| scale.is_finite());
    let size = quantization.scales.size();
    let scales = crate::evt::reference::encode(quantization.scales, &by_panels(&scales, extents, groups, 0.0)?);
    debug_assert_eq!(scales.len(), panels * groups * PANEL * size);
    let zero_points = if zero_points.is_empty() {
        None
    } else {
        Some(device.tensor_from_bytes(ElementType::U8, &by_panels(&zero_points, extents, groups, 0)?, of_groups)?)
    };
    Ok(WeightPanels {
        quantization,
        extents,
        codes: device.tensor_from_bytes(ElementType::U8, &codes, [panels, words, WORDS])?,
        scales: device.tensor_from_bytes(quantization.scales, &scales, of_groups)?,
        zero_points,
        are_finite,
    })
}

/// Numbers of a row for each column, as rows of 16 columns for each group.
fn by_panels<T: Copy>(rows: &[T], extents: WeightExtents, groups: usize, fill: T) -> Result<Vec<T>, Error> {
    let WeightExtents { batch, n, .. } = extents;
    let (matrices, panels) = (batch.unwrap_or(1), extents.panels());
    let mut all = try_repeated(fill, matrices * panels * groups * PANEL)?;
    for (row, numbers) in rows.chunks_exact(groups.max(1)).enumerate() {
        let (matrix, column) = (row / n, row % n);
        let first = (matrix * panels + column / PANEL) * groups * PANEL + column % PANEL;
        for (group, number) in numbers.iter().enumerate() {
            all[first + group * PANEL] = *number;
        }
    }
    Ok(all)
}

fn packed_codes(quantization: Quantization, extents: WeightExtents, rows: &[u8]) -> Result<Vec<u8>, Error> {
    let (codes, WeightExtents { batch, k, n }) = (quantization.codes, extents);
    let (matrices, panels, words) = (batch.unwrap_or(1), extents.panels(), words_of(codes, k));
    let mut all = try_repeated(0, matrices * panels * words * WORDS)?;
    let bytes = codes.elements(k);
    if bytes == 0 {
        return Ok(all);
    }
    // The codes of the last word that there are.
    let last = low_codes(codes, k - (words - 1) * codes_of_word(codes));
    for (row, of_row) in rows.chunks_exact(bytes).enumerate() {
        let (matrix, column) = (row / n, row % n);
        let panel = &mut all[(matrix * panels + column / PANEL) * words * WORDS..][..words * WORDS];
        let places = panel.chunks_exact_mut(WORDS).map(|words| &mut words[column % PANEL * 4..][..4]);
        for (number, (place, given)) in places.zip(of_row.chunks(4)).enumerate() {
            let mut word = [0; 4];
            word[..given.len()].copy_from_slice(given);
            let there_are = if number + 1 == words { last } else { u32::MAX };
            place.copy_from_slice(&in_order(codes, u32::from_le_bytes(word), there_are).to_le_bytes());
        }
    }
    Ok(all)
}

/// The bits of a word's first codes, as they follow each other in a row.
const fn low_codes(codes: CodeType, count: usize) -> u32 {
    (u32::MAX as u64 >> (32 - count * codes.bits())) as u32
}

/// A word of unsigned codes in the order of products, of the codes that there are; others become 0.
const fn in_order(codes: CodeType, word: u32, there_are: u32) -> u32 {
    /// Four codes of 4 bits as bytes.
    const fn spread(codes: u32) -> u32 {
        let halves = (codes | codes << 8) & 0x00ff_00ff;
        (halves | halves << 4) & 0x0f0f_0f0f
    }
    let signs = codes.sign() as u32 * if codes.bits() == 4 { 0x1111_1111 } else { 0x0101_0101 };
    let word = (word ^ signs) & there_are;
    if codes.bits() == 4 { spread(word & 0xffff) | spread(word >> 16) << 4 } else { word }
}
