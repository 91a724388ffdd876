//! The words of AArch64.

use std::ops::Range;

use super::method::{Cpu, Method, WordType};
use super::product::{Product, WordPanels};
use super::tile::Tile;

impl Product<'_> {
    /// There are no other methods.
    pub(super) unsafe fn by_other_words(
        &self,
        _: Method,
        _: &Tile,
        _: &Range<usize>,
        _: &mut WordPanels,
        _: &mut [f32],
    ) -> bool {
        false
    }

    /// Integers are multiplied as f32s.
    pub(super) unsafe fn integers_by_words(
        &self,
        _: &Tile,
        _: Range<usize>,
        _: &mut WordPanels,
        _: &mut [f64],
    ) -> bool {
        false
    }
}

impl Cpu {
    /// Every AArch64 CPU has NEON.
    pub(super) fn this() -> Self {
        Self { f32s: Some(WordType::F32ByNeon), ..Self::default() }
    }
}
