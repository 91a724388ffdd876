//! The order in which values are combined.

/// How far a kernel may change the order in which values are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any tree that depends only on shapes, strides and the device: all runs on this device give the same bits. A product
    /// and its addition to a sum may be rounded together.
    #[default]
    Device,
    /// A tree that depends only on the shape; a scan runs step by step. All devices give the same bits, if their
    /// elementwise operations do: sums, products, quotients, roots, minima and maxima do, `exp` and similar functions
    /// don't.
    Shape,
    /// Sequentially, starting with the initial value, as in the default schedule.
    Exact,
}
