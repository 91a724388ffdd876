//! Fragment layouts: the lane and register of each matrix element (PTX ISA 9.7.14.5 for `mma.sync`, `ldmatrix`,
//! `stmatrix`, `movmatrix`; 9.7.15.5 for `wgmma`).
//!
//! All dense `mma.sync` shapes follow one rule. Let `group = lane / 4`, `thread = lane % 4`, and `w` elements in a
//! register (4 for bytes, 2 for halves, 1 for `.tf32` and `.f64`). Part `p` of register `r` then is
//! - A: row `group + 8·(r mod 2)`, column `w·thread + p + 4w·(r div 2)` (for the 8-row shapes: row `group`, column
//!   `w·thread + p + 4w·r`),
//! - B: row `w·thread + p + 4w·r`, column `group`,
//! - C and D: row `group + 8·(r div 2)`, column `2·thread + r mod 2`; with `.f16` accumulators two columns of a row
//!   share a register.

/// The number of lanes of a warp.
pub const LANES: usize = 32;

/// One register of every lane.
pub type Lanes = [u32; LANES];

/// A matrix element's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
}

/// The element of A in part `part` of register `register`. The shape has `rows` (8 or 16) rows and `width` elements in
/// a register.
#[inline(always)]
pub const fn a_element(rows: usize, width: usize, lane: usize, register: usize, part: usize) -> Element {
    let (low_row, block) = if rows == 16 { (8 * (register % 2), register / 2) } else { (0, register) };
    Element { row: lane / 4 + low_row, column: width * (lane % 4) + part + 4 * width * block }
}

/// The element of B in part `part` of register `register`, for `width` elements in a register.
#[inline(always)]
pub const fn b_element(width: usize, lane: usize, register: usize, part: usize) -> Element {
    Element { row: width * (lane % 4) + part + 4 * width * register, column: lane / 4 }
}

/// The element of C or D in register `register`, for accumulators of 32 bits or more.
#[inline(always)]
pub const fn c_element(lane: usize, register: usize) -> Element {
    Element { row: lane / 4 + 8 * (register / 2), column: 2 * (lane % 4) + register % 2 }
}

/// The element of C or D in half `part` of register `register`, for `.f16` accumulators.
#[inline(always)]
pub const fn c_half_element(lane: usize, register: usize, part: usize) -> Element {
    c_element(lane, 2 * register + part)
}

/// The accumulator element of `wgmma` in register `register` of a lane of warp `warp` (0 to 3) of the warpgroup, for
/// 32-bit accumulators. Every 8 columns are an m16n8 fragment.
#[inline(always)]
pub const fn wgmma_element(warp: usize, lane: usize, register: usize) -> Element {
    let fragment = c_element(lane, register % 4);
    Element { row: 16 * warp + fragment.row, column: 8 * (register / 4) + fragment.column }
}

/// The element of an 8×8 tile of `ldmatrix`, `stmatrix` or `movmatrix` that a lane holds in half `part`. The elements
/// have 16 bits: row `lane / 4`, columns `2·(lane mod 4)` and the next one, low half first. With `.trans`, row and
/// column are exchanged.
#[inline(always)]
pub const fn tile_element(lane: usize, part: usize, transposed: bool) -> Element {
    let (row, column) = (lane / 4, 2 * (lane % 4) + part);
    if transposed { Element { row: column, column: row } } else { Element { row, column } }
}

/// The lane whose address operand gives row `row` of tile `tile` in `ldmatrix` and `stmatrix`.
#[inline(always)]
pub const fn tile_address_lane(tile: usize, row: usize) -> usize {
    8 * tile + row
}

/// The rows of an 8×8 tile of 16-bit elements, 16 bytes each, as four words.
pub type TileRows = [[u32; 4]; 8];

/// One destination register of `ldmatrix`.
#[inline(always)]
pub fn load_tile(rows: &TileRows, transposed: bool) -> Lanes {
    let mut register = [0; LANES];
    if transposed {
        for (lane, value) in register.iter_mut().enumerate() {
            let (row, column) = (2 * (lane % 4), lane / 4);
            let half = |row: usize| rows[row][column / 2] >> (16 * (column % 2)) & 0xffff;
            *value = half(row) | half(row + 1) << 16;
        }
    } else {
        for (lane, value) in register.iter_mut().enumerate() {
            *value = rows[lane / 4][lane % 4];
        }
    }
    register
}

/// The rows that one source register of `stmatrix` writes.
#[inline(always)]
pub fn store_tile(register: &Lanes, transposed: bool) -> TileRows {
    let source = if transposed { transpose_tile(register) } else { *register };
    let mut rows = [[0; 4]; 8];
    for lane in 0..LANES {
        rows[lane / 4][lane % 4] = source[lane];
    }
    rows
}

/// `movmatrix.sync.aligned.m8n8.trans.b16`.
#[inline(always)]
pub fn transpose_tile(register: &Lanes) -> Lanes {
    let mut rows = [[0; 4]; 8];
    for lane in 0..LANES {
        rows[lane / 4][lane % 4] = register[lane];
    }
    load_tile(&rows, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn covers(rows: usize, columns: usize, elements: impl Iterator<Item = Element>) {
        let all: Vec<_> = elements.collect();
        assert_eq!(all.len(), rows * columns, "each element once");
        let distinct: HashSet<_> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|e| e.row < rows && e.column < columns));
    }

    #[test]
    fn every_shape_is_covered_once() {
        for (rows, width, k) in [
            (16, 2, 8),
            (16, 2, 16),
            (16, 1, 4),
            (16, 1, 8),
            (16, 1, 16),
            (16, 4, 16),
            (16, 4, 32),
            (8, 1, 4),
            (8, 4, 16),
        ] {
            let a_registers = rows * k / 32 / width;
            let b_registers = 8 * k / 32 / width;
            let parts = |registers: usize| {
                (0..32).flat_map(move |l| (0..registers).flat_map(move |r| (0..width).map(move |p| (l, r, p))))
            };
            covers(rows, k, parts(a_registers).map(|(l, r, p)| a_element(rows, width, l, r, p)));
            covers(k, 8, parts(b_registers).map(|(l, r, p)| b_element(width, l, r, p)));
        }
        covers(16, 8, (0..128).map(|i| c_element(i % 32, i / 32)));
        covers(16, 8, (0..128).map(|i| c_half_element(i % 32, i / 64, i / 32 % 2)));
        covers(64, 40, (0..64 * 40).map(|i| wgmma_element(i % 4, i / 4 % 32, i / 128)));
    }

    /// Places by the document's formulas, for the shapes that the generator uses.
    #[test]
    fn places_from_the_document() {
        // m16n8k16 .f16, lane 13 (group 3, thread 1): a2 is row groupID + 8, column 2; a5 is row groupID, column 11.
        assert_eq!(a_element(16, 2, 13, 1, 0), Element { row: 11, column: 2 });
        assert_eq!(a_element(16, 2, 13, 2, 1), Element { row: 3, column: 11 });
        assert_eq!(b_element(2, 13, 1, 1), Element { row: 11, column: 3 });
        // m16n8k32 .s8: a13 (register 3, byte 1) is row groupID + 8, column 4·thread + 1 + 16.
        assert_eq!(a_element(16, 4, 13, 3, 1), Element { row: 11, column: 21 });
        assert_eq!(b_element(4, 13, 1, 2), Element { row: 22, column: 3 });
        // m16n8k8 .tf32: a2 is row groupID, column thread + 4.
        assert_eq!(a_element(16, 1, 13, 2, 0), Element { row: 3, column: 5 });
        // m16n8k16 .f64: a5 (i odd) is row groupID + 8, column 2i − 2 + thread.
        assert_eq!(a_element(16, 1, 13, 5, 0), Element { row: 11, column: 9 });
        assert_eq!(c_element(13, 3), Element { row: 11, column: 3 });
        // wgmma m64n16, warp 2, d6: row 32 + groupID + 8, column 8 + 2·thread.
        assert_eq!(wgmma_element(2, 13, 6), Element { row: 43, column: 10 });
    }

    #[test]
    fn tiles_follow_their_elements() {
        // Element (r, c) holds 8r + c.
        let mut rows = [[0u32; 4]; 8];
        for (r, row) in rows.iter_mut().enumerate() {
            for (pair, word) in row.iter_mut().enumerate() {
                let low = (8 * r + 2 * pair) as u32;
                *word = low | (low + 1) << 16;
            }
        }
        for transposed in [false, true] {
            let register = load_tile(&rows, transposed);
            for (lane, value) in register.iter().enumerate() {
                for part in 0..2 {
                    let at = tile_element(lane, part, transposed);
                    assert_eq!(value >> (16 * part) & 0xffff, (8 * at.row + at.column) as u32);
                }
            }
            assert_eq!(store_tile(&register, transposed), rows);
        }
        assert_eq!(transpose_tile(&load_tile(&rows, false)), load_tile(&rows, true));
    }
}
