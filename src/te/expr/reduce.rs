//! Reductions as data: how values combine, and over which axes.

use std::fmt;

use super::expression::Expr;
use super::ranges::Axes;
use super::var::Var;

/// How the values of a reduction combine: one value or several at once.
#[derive(Clone, PartialEq)]
pub struct Combiner {
    pub(crate) left: Vec<Var>,
    pub(crate) right: Vec<Var>,
    pub(crate) result: Vec<Expr>,
    pub(crate) identity: Vec<Expr>,
    pub(crate) commutative: bool,
}

impl Combiner {
    /// The combination of two tuples of values.
    pub(crate) fn combine(&self, left: &[Expr], right: &[Expr]) -> Vec<Expr> {
        let replace = |var: Var| {
            let place = |vars: &[Var]| vars.iter().position(|v| *v == var);
            place(&self.left).map(|i| left[i].clone()).or_else(|| place(&self.right).map(|i| right[i].clone()))
        };
        self.result.iter().map(|x| x.substitute(&replace)).collect()
    }

    /// The identities: the result of a reduction over nothing.
    #[must_use]
    pub fn identity(&self) -> &[Expr] {
        &self.identity
    }

    /// Whether operands may be exchanged. If not, their order is kept.
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }
}

impl fmt::Debug for Combiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Combiner({:?}, {:?} -> {:?})", self.left, self.right, self.result)
    }
}

/// A reduction of one or several values at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    pub(crate) combiner: Combiner,
    pub(crate) source: Vec<Expr>,
    pub(crate) init: Vec<Expr>,
    pub(crate) axes: Axes,
    pub(crate) condition: Expr,
}
