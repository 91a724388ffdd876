//! The visitor tree: what an epilogue computes, as a typed directed acyclic graph.
//!
//! This module knows meaning. It must never know threads, tiles or CUDA.

mod builder;
mod tree;

pub use builder::TreeBuilder;
pub use tree::{
    Axis, Form, Node, NodeData, NodeId, Output, OutputId, Parameter, ParameterClass, ParameterId, ReduceOp, Reduction,
    ShapeClass, Site, Tree,
};
