//! Tensor expressions: reductions and scans written once, scheduled by hand or not at all, lowered to loops.
//!
//! This module knows threads and loops. It must never know Rust syntax or a GEMM.

mod arith;
pub mod auto;
mod build;
mod dtype;
mod error;
mod ir;
mod lang;
mod lower;
pub mod ops;
mod schedule;
mod target;
mod text;

pub use build::compute::{compute, compute_all, compute_named, compute_over, placeholder, placeholder_of};
pub use build::reducer::{
    Reducer, all, all_reducer, any, any_reducer, comm_reducer, max, max_reducer, min, min_reducer, prod, sum,
    sum_reducer, tuple_reducer,
};
pub use build::scan::{scan, scan_all};
pub use dtype::DType;
pub use error::{DeviceError, TeError};
pub use ir::device_call::{CallArgument, DeviceCall, DeviceFunction};
pub use ir::pragma::{Pragma, PragmaValue};
pub use ir::print::script::ScriptStyle;
pub use ir::program::{Program, Requirement};
pub use ir::stmt::{AllReduce, LoopKind, Note, Stmt};
pub use lang::axis::{Axis, AxisKind, Domain, IntoDomain, reduce_axis, thread_axis};
pub use lang::buffer::{Buffer, Scope};
pub use lang::expr::{Binary, Expr, Kind};
pub use lang::reduce::{Combiner, Reduce};
pub use lang::tensor::{Compute, Indices, Operation, OperationKind, Scan, Tensor};
pub use lang::thread::Thread;
pub use lang::var::{Var, var};
pub use lower::{UnrollConfig, lower};
pub use schedule::intrinsic::{BufferDecl, IntrinBody, TensorIntrin, decl_buffer, decl_tensor_intrin};
pub use schedule::{
    AXIS_SEPARATOR, Attach, Group, LayoutIndex, Relation, Schedule, SplitBy, Stage, create_schedule, scan_fix_points,
};
pub use target::interpret::{Array, Scalar};
pub use target::kernel::Kernel;
#[cfg(feature = "native")]
pub use target::native;
