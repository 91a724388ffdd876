//! The loops of a kernel, as far as its text depends on them.

/// The outer loops (over outputs or columns), or the inner loops (over reduced elements or time).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum Side {
    Outer,
    Inner,
}

impl Side {
    pub(in crate::te::auto) const fn name(self) -> &'static str {
        match self {
            Self::Outer => "outer",
            Self::Inner => "inner",
        }
    }
}

/// How an array is accessed along the loop that takes several points at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum VectorAccess {
    /// One element for all points.
    One,
    /// Contiguous and aligned elements.
    Packed,
    /// Elements at any distance.
    Strided,
}

/// The loops, as far as the kernel's text depends on them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct Loops {
    /// For every outer loop, its axis, if the axis' value is used.
    pub(in crate::te::auto) outer: Vec<Option<usize>>,
    /// For every inner loop, its axis, if the axis' value is used.
    pub(in crate::te::auto) inner: Vec<Option<usize>>,
    /// The side whose last loop takes several points at once.
    pub(in crate::te::auto) vector_side: Side,
    /// The number of these points.
    pub(in crate::te::auto) vector: usize,
    /// How each affine read accesses memory along this loop.
    pub(in crate::te::auto) access: Vec<Option<VectorAccess>>,
}

impl Loops {
    pub(in crate::te::auto) fn of(&self, side: Side) -> &[Option<usize>] {
        match side {
            Side::Outer => &self.outer,
            Side::Inner => &self.inner,
        }
    }

    /// The number of the loop that takes several points at once.
    pub(in crate::te::auto) fn vector_loop(&self, side: Side) -> Option<usize> {
        if side == self.vector_side { self.of(side).len().checked_sub(1) } else { None }
    }
}
