//! The numbers that the reference computes with.

use super::bounds::Bounds;

/// A value: the exact one, and those that a device may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<W> {
    pub(super) exact: W,
    pub(super) bounds: Bounds,
}
