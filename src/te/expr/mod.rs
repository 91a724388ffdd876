//! The data of tensor expressions: variables, axes, expressions, tensors, memory. All later steps build, check,
//! schedule and lower this data.
//!
//! These files import each other in a circle, because of what they hold: an expression reads tensors, a tensor's
//! operation has expressions and axes, and an axis has a range of expressions.

pub(crate) mod axis;
mod binary;
pub(crate) mod buffer;
pub(super) mod define;
pub(crate) mod dimension;
pub(crate) mod expression;
pub(crate) mod graph;
pub(crate) mod node;
pub(crate) mod number;
pub(crate) mod ranges;
pub(crate) mod reduce;
pub(crate) mod tensor;
pub(crate) mod thread;
mod unsigned;
pub(crate) mod var;
