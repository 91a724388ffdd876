//! A number as the reference carries it.

use super::bounds::Bounds;

/// A value: what it is, and what a device may make of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<W> {
    pub(super) exact: W,
    pub(super) bounds: Bounds,
}
