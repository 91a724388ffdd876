//! Tensor expressions: reductions and scans written once, scheduled by hand or not at all, lowered to loops.
//!
//! This module knows threads and loops. It must never know Rust syntax or a GEMM.

mod arguments;
mod arith;
pub mod auto;
mod axis;
mod binding;
mod builder;
mod cuda;
mod dtype;
mod error;
mod expr;
mod graph;
mod index_map;
mod interpret;
mod intrinsic;
mod ir;
mod json;
mod kernel;
mod lower;
#[cfg(feature = "native")]
pub mod native;
mod number;
mod operators;
pub mod ops;
mod primfn;
mod reduce;
mod rewrite;
mod scan;
mod schedule;
mod script;
mod tensor;
mod text;
mod var;

pub use axis::{Axis, AxisKind, Domain, IntoDomain, Thread, reduce_axis, thread_axis};
pub use dtype::DType;
pub use error::{DeviceError, TeError};
pub use expr::{Binary, Expr, Kind, Var, var};
pub use interpret::{Array, Scalar};
pub use intrinsic::{BufferDecl, DeviceFunction, IntrinBody, TensorIntrin, decl_buffer, decl_tensor_intrin};
pub use ir::{AllReduce, Buffer, CallArgument, DeviceCall, LoopKind, Note, Program, Requirement, Scope, Stmt};
pub use kernel::Kernel;
pub use lower::{UnrollConfig, lower};
pub use reduce::{
    Combiner, Reduce, Reducer, comm_reducer, max, max_reducer, min, min_reducer, prod, sum, sum_reducer, tuple_reducer,
};
pub use scan::{scan, scan_all};
pub use schedule::{
    AXIS_SEPARATOR, Attach, Group, LayoutIndex, Pragma, PragmaValue, Relation, Schedule, SplitBy, Stage,
    create_schedule, scan_fix_points,
};
pub use script::ScriptStyle;
pub use tensor::{
    Compute, Indices, Operation, OperationKind, Scan, Tensor, compute, compute_all, compute_named, compute_over,
    placeholder, placeholder_of,
};
