//! A lowered program.

use super::stmt::Stmt;
use crate::te::error::TeError;
use crate::te::lang::buffer::Buffer;
use crate::te::lang::expr::Expr;
use crate::te::lang::tensor::Tensor;

/// A condition on the sizes of a run, without which the program must not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// The condition, on sizes only.
    pub condition: Expr,
    /// What a run is refused with where it doesn't hold.
    pub broken: TeError,
}

/// A lowered program: what it takes, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The arguments: each tensor's buffer, in the order given.
    pub arguments: Vec<(Tensor, Buffer)>,
    /// What the sizes of every run must fulfil.
    pub requirements: Vec<Requirement>,
    /// What it does.
    pub body: Stmt,
}
