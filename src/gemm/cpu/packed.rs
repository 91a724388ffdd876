//! All panels of a B, prepacked before any run. [`words`](super::words) otherwise packs them in every run.

use std::ops::Range;

use epilogue_runtime::{DeviceTensor, HostAccess};

#[cfg(target_arch = "aarch64")]
use super::kernel::words::F32ByNeon;
#[cfg(target_arch = "x86_64")]
use super::kernel::words::{Bf16, F32, F32ByAvx2, SignedByUnsigned, UnsignedBySigned};
use super::kernel::words::{Contents, Magnitude, PANEL, PackedFrom, Words, pack, panel_words};
use super::method::{Cpu, WordType};
use super::tile::Tile;
use super::view;
use super::words::{DEEP, with_words};
use crate::ElementType;
use crate::gemm::problem::{Error, WholePanels};
use crate::simd::lines::Lines;

/// The panels of a B, `[K, N]` or `[L, K, N]`, for an A of this element type; `None` if this CPU multiplies these types
/// without panels.
///
/// # Errors
/// There is not enough memory, or the tensor is not on the CPU.
pub(crate) fn panels(b: &DeviceTensor, a: ElementType) -> Result<Option<WholePanels>, Error> {
    if b.is_empty() {
        return Ok(None);
    }
    let access = HostAccess::lock(&[b], &[])?;
    let Some(words) = Cpu::this().words(a, b.element_type()) else { return Ok(None) };
    let flipped = a == b.element_type();
    // SAFETY: the tensor is locked, and the CPU multiplies words of this type.
    let panels =
        unsafe { with_words!(words, W, are_integers => all::<W>(b, are_integers && flipped), else return Ok(None)) };
    drop(access);
    panels.map(Some)
}

/// # Safety
/// The tensor must be locked, and the CPU must multiply words of this type.
unsafe fn all<W: Words>(b: &DeviceTensor, flipped: bool) -> Result<WholePanels, Error> {
    let view = view(b, 2);
    let front = b.rank() - 2;
    let [k, n] = [b.shape()[front], b.shape()[front + 1]];
    let matrices = if view.strides[0] == 0 { 1 } else { b.shape()[0] };
    let size = view.element.size() as isize;
    let of_part = |first: usize| DEEP.min(k - first);
    let words_of_all = (0..k).step_by(DEEP).map(|first| panel_words(n, of_part(first).div_ceil(W::ELEMENTS))).sum();
    let count = matrices.saturating_mul(words_of_all);
    let mut words = Lines::<i32>::try_zeroed(count)?;
    let mut contents = Vec::new();
    let mut to = &mut words[..];
    for matrix in 0..matrices {
        for first in (0..k).step_by(DEEP) {
            let depth = of_part(first);
            for column in (0..n).step_by(PANEL) {
                let wide = PANEL.min(n - column);
                let (panel, rest) = to.split_at_mut(panel_words(wide, depth.div_ceil(W::ELEMENTS)));
                let [_, along, across] = view.strides;
                let from =
                    PackedFrom { pointer: view.at(matrix, first, column), along: along * size, across: across * size };
                // SAFETY: the caller's promise; the tensor has these elements.
                let Contents { least, are_finite } = unsafe { pack::<W>(from, depth, wide, flipped, panel) };
                contents.push((least.bits(), are_finite));
                to = rest;
            }
        }
    }
    Ok(WholePanels { words, contents, elements: W::ELEMENTS, flipped, matrices, extents: [k, n] })
}

impl WholePanels {
    /// The panels of a tile's columns for a part of K, and what is known of them; `None` if they are not as the tile would pack
    /// them.
    pub(super) fn of<W: Words>(&self, tile: &Tile, depth: &Range<usize>, flipped: bool) -> Option<(&[i32], Contents)> {
        let Self { words, contents, elements, matrices, extents: [k, n], .. } = self;
        let columns = &tile.columns;
        let is_whole_part = depth.start.is_multiple_of(DEEP) && depth.len() == DEEP.min(k - depth.start.min(*k));
        let are_whole_panels =
            columns.start.is_multiple_of(PANEL) && (columns.end == *n || columns.end.is_multiple_of(PANEL));
        let are_same = *elements == W::ELEMENTS && self.flipped == flipped && !columns.is_empty();
        if !(is_whole_part && are_whole_panels && are_same) {
            return None;
        }
        let matrix = if *matrices == 1 { 0 } else { tile.batch };
        let deep = depth.len().div_ceil(W::ELEMENTS);
        // All parts but the last are as deep as the first.
        let of_part = panel_words(*n, DEEP / W::ELEMENTS);
        let parts = k.div_ceil(DEEP);
        let of_matrix = (parts - 1) * of_part + panel_words(*n, (k - (parts - 1) * DEEP).div_ceil(W::ELEMENTS));
        let part = depth.start / DEEP;
        let first = matrix * of_matrix + part * of_part + columns.start * deep;
        let across = n.div_ceil(PANEL);
        let row = (matrix * parts + part) * across;
        let contents = contents.get(row + columns.start / PANEL..row + columns.end.div_ceil(PANEL))?;
        let of_panel = |&(least, are_finite)| Contents { least: Magnitude::of_bits(least), are_finite };
        let panels = words.get(first..first + panel_words(columns.len(), deep))?;
        Some((panels, contents.iter().map(of_panel).reduce(Contents::and)?))
    }
}
