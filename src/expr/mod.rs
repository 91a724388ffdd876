//! Scalar expressions: operations, elementwise functions, their CUDA C++ text and their evaluation on the host.
//!
//! Epilogues ([`evt`](crate::evt)) and tensor expressions ([`te`](crate::te)) share this module.

pub mod cuda;
pub(crate) mod fold;
mod function;
pub mod identifier;
mod number;
mod op;
mod real;

pub use function::{Body, ExprId, ExprNode, Expression, Function, FunctionBuilder, MOST_OPERATIONS};
pub use number::{Condition, Number, Operand};
pub use op::{Logic, Op};
pub use real::{EpilogueElement, Real};
