//! A lowered program with its arguments and requirements.

use super::stmt::Stmt;
use crate::te::error::TeError;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// A condition on the sizes of a run. The program must not run unless it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// The condition; it depends on sizes only.
    pub condition: Expr,
    /// The error of a run for which it doesn't hold.
    pub broken: TeError,
}

/// A lowered program: its arguments and its statements.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The arguments: each tensor's buffer, in the order given.
    pub arguments: Vec<(Tensor, Buffer)>,
    /// The conditions that the sizes of every run must fulfil.
    pub requirements: Vec<Requirement>,
    /// The statements.
    pub body: Stmt,
}
