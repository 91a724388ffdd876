//! The kernels for sm_90a: which of them can be emitted.

use super::super::sm90::{Sm90Key, Wgmma};
use crate::evt::ValidTree;

/// Whether any kernel of the instruction can be emitted.
pub(crate) fn multiplies(_instruction: Wgmma) -> bool {
    false
}

/// Whether the kernel can be emitted for the tree; if not, why.
pub(crate) fn supports(_tree: &ValidTree, _key: &Sm90Key) -> Result<(), &'static str> {
    Err("the headers for sm_90a are not part of this version")
}
