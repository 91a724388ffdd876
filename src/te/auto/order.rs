//! In what order values are combined.

/// In what order a kernel may combine values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any tree that depends on nothing but shapes, strides and the device: the same bits at every run there.
    #[default]
    Device,
    /// A tree that depends on the shape only (of a scan: step by step): the same bits on every device, where devices
    /// compute the same of a point (sums, products, quotients, roots, minima and maxima; not `exp` and its kind).
    Shape,
    /// One after the other, from the initial value on, as the default schedule does it.
    Exact,
}
