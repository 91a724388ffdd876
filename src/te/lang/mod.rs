//! Values: variables, axes, expressions, tensors, memory. This is data, which the rest builds, checks, schedules and lowers.
//!
//! These files refer to each other by the nature of what they hold: an expression reads tensors, a tensor's operation has
//! expressions and axes, an axis has a range of expressions.

pub(crate) mod axis;
pub(crate) mod buffer;
pub(crate) mod expr;
pub(crate) mod graph;
pub(crate) mod number;
pub(crate) mod ranges;
pub(crate) mod reduce;
pub(crate) mod tensor;
pub(crate) mod thread;
pub(crate) mod var;
