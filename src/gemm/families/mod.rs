//! The families of GEMM kernels, a folder each, and the door to them.
//!
//! A kernel is a [`KernelKey`]; everything else asks it by [`of_family`](KernelKey::of_family). A product is offered to each of
//! [`FAMILIES`].

pub(crate) mod family;
pub(crate) mod list;
pub(crate) mod sm80;
pub(crate) mod sm90;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

use epilogue_runtime::{Arch, Device};

use self::family::{Family, FamilyKey};
pub use self::list::KernelKey;
/// Writes the kernels of later phases, which every GPU runs.
pub(crate) use self::sm80::emit::later::emit as emit_later;
use crate::ElementType;
use crate::evt::reference::Multiplication;
use crate::gemm::kernel::{Switches, Within};
use crate::gemm::problem::OperandLayout;

/// All families, the oldest first: of two kernels with the same predicted time, the model takes the earlier one's.
pub(crate) const FAMILIES: Families = Families(&[&sm80::Sm80, sm90::SM_90, sm90::SM_100]);

/// The families that kernels are chosen from.
#[derive(Clone, Copy)]
pub(crate) struct Families(&'static [&'static dyn Family]);

impl Families {
    /// The families for a device: all, unless it was [given](Self::give) others.
    pub(crate) fn of(device: &Device) -> Self {
        device.kept::<OnceLock<Self>>().get().copied().unwrap_or(FAMILIES)
    }

    /// Each of them, the oldest first.
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = &'static dyn Family> {
        self.0.iter().copied()
    }

    /// Gives them to a device for which nothing was planned yet, in place of all.
    #[cfg(test)]
    pub(crate) fn give(self, device: &Device) {
        assert!(device.kept::<OnceLock<Self>>().set(self).is_ok(), "a device has its families once");
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Family::arch)).finish()
    }
}

impl KernelKey {
    /// The kernel, as its family answers for it.
    pub(crate) const fn of_family(&self) -> &dyn FamilyKey {
        match self {
            Self::Sm80(key) => key,
            Self::Sm90(key) => key,
            #[cfg(test)]
            Self::Toy(key) => key,
        }
    }

    /// The element types of A and B.
    #[must_use]
    pub fn elements(&self) -> (ElementType, ElementType) {
        self.of_family().elements()
    }

    /// Stages of the kernel's pipeline.
    #[must_use]
    pub fn stages(&self) -> usize {
        self.of_family().stages()
    }

    /// Rows and columns of the product in a tile.
    #[must_use]
    pub fn tile(&self) -> (usize, usize) {
        self.of_family().tile()
    }

    /// The depth of a k-tile, which is what one pipeline stage holds.
    #[must_use]
    pub fn tile_k(&self) -> usize {
        self.of_family().tile_k()
    }

    /// The oldest architecture that the kernel's family runs on: `sm_80`, `sm_90a`.
    #[must_use]
    pub fn family(&self) -> Arch {
        self.of_family().family().arch()
    }

    /// How the kernel multiplies, which the reference has to know.
    #[must_use]
    pub fn multiplication(&self) -> Multiplication {
        self.of_family().multiplication()
    }

    /// The layouts of A and B in memory.
    #[must_use]
    pub fn layouts(&self) -> (OperandLayout, OperandLayout) {
        self.of_family().layouts()
    }

    /// This kernel with these switches, as far as its family has them.
    pub(crate) fn with(&self, switches: Switches) -> Self {
        self.of_family().with(switches)
    }

    /// Whether all phases of the epilogue are computed in the tile, or in the tiles of a cluster, so that there is one
    /// launch.
    #[must_use]
    pub fn in_tile(&self) -> bool {
        self.within().is_some()
    }

    /// Where whole lines lie, if all phases are computed from them.
    #[must_use]
    pub fn within(&self) -> Option<Within> {
        self.of_family().within()
    }

    /// Rows and columns of the product in which whole lines lie.
    pub(crate) fn line_tile(&self) -> (usize, usize) {
        self.of_family().line_tile()
    }

    /// Whether approximate instructions are allowed for outputs of any type.
    #[must_use]
    pub fn fast_math(&self) -> bool {
        self.of_family().fast_math()
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of_family().fmt(f)
    }
}
