//! The visitor tree: what an epilogue computes, as a typed directed acyclic graph.
//!
//! `#[epilogue]` builds one; [`TreeBuilder`] builds one by hand. [`Tree::validate`] makes it a [`ValidTree`] for given
//! element types. [The reference](mod@reference) evaluates it, and drawings and kernels are made from it.

mod builder;
mod chain;
mod check;
mod compose;
mod cost;
mod count;
mod declared;
pub mod derive;
pub(crate) mod draw;
mod error;
mod integers;
mod limits;
mod needed;
mod phases;
mod print;
#[doc(hidden)]
pub mod random;
mod reducer;
pub mod reference;
mod simplify;
mod tree;
mod valid;
mod validate;

pub use builder::TreeBuilder;
pub use cost::Cost;
pub use declared::DeclaredElement;
pub use error::{Mistake, TreeError};
pub(crate) use integers::MOST;
pub(crate) use needed::{Bounds, Conditions, Possible, Rectangle};
pub(crate) use phases::{
    AtInfinity, Computation, PartBinding, Pass, PhasePart, Phases, Prices, Slot, Sweep, SweepPlace, SweepTarget,
};
pub use phases::{InTile, WholeLines};
pub use reducer::{MAX_WORDS, Reducer};
pub use tree::{
    Axis, BroadcastClass, Composed, ComposedOp, Form, MAX_ACCUMULATORS, MAX_CHAIN, Node, NodeData, NodeId, Output,
    OutputId, Parameter, ParameterClass, ParameterId, Position, ReduceOp, Reduction, Site, Tree,
};
pub use valid::{
    Operands, OutputKind, Types, ValidOutput, ValidParameter, ValidTree, Value, ValueId, ValueKind, ValueType, Width,
};
