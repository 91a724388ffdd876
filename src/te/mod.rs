//! Tensor expressions: maps, reductions and scans. You write what each element is; the result runs on any device.
//!
//! They are for what surrounds matrix products: softmax, norms, cumulative sums, gathers, recurrences. There are three
//! ways to use them. [`ops`] has ready-made operations. [`auto`] makes kernels automatically. Or you schedule the loops
//! by hand with the primitives of [`Stage`] and [`Schedule`] (TVM's), and [lower](lower()) them to a [`Program`]. A
//! program can be printed and run: by an interpreter, as native code, or on a GPU.
//!
//! ```
//! use epilogue::{Device, te};
//!
//! // B[i] is the sum of row i of A, for any n and m.
//! let (n, m) = (te::var("n"), te::var("m"));
//! let a = te::placeholder([n, m], "A");
//! let k = te::reduce_axis((0, m), "k");
//! let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
//!
//! // The schedule is made from the shapes of a run …
//! let device = Device::cpu();
//! let matrix = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let mut sums = device.zeros::<f32>([2])?;
//! let kernel = te::auto::build(&[&b])?.build(&device)?;
//! kernel.run_bound(&[(&a, (&matrix).into()), (&b, (&mut sums).into())])?;
//! assert_eq!(sums.to_vec::<f32>()?, [6.0, 15.0]);
//!
//! // … or by hand: k in steps of 4.
//! let mut schedule = te::create_schedule(&[&b]);
//! schedule.stage(&b)?.split(b.reduce_axis(0)?, 4)?;
//! let program = te::lower(&schedule, &[&a, &b], "row_sums")?;
//! println!("{}", program.script()); // the loops, as TVMScript
//! let mut matrix = te::Array::new(te::DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut sums = te::Array::unwritten(te::DType::F32, &[2]);
//! program.interpret_bound(&mut [(&a, &mut matrix), (&b, &mut sums)])?;
//! assert_eq!(sums.values(), [6.0, 15.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every mistake in an expression, a schedule or a run is reported as a [`TeError`].

pub(crate) mod arith;
pub mod auto;
mod bind;
mod cuda;
mod dtype;
mod error;
pub(crate) mod expr;
mod loops;
pub mod ops;
pub(crate) mod text;

pub use dtype::DType;
pub use error::{
    DeviceError, EinsumError, ExpressionError, LoweringError, RunError, ScanError, ScheduleError, TeError,
};
pub use expr::axis::{Axis, AxisKind, Domain, IntoDomain, reduce_axis, thread_axis};
pub use expr::buffer::{Buffer, Scope};
pub use expr::define::compute::{compute, compute_all, compute_named, compute_over, placeholder, placeholder_of};
pub use expr::define::functions::{
    abs, cast, ceil, clamp, cos, erf, exp, exp2, floor, floor_div, floor_mod, fma, gelu, gelu_tanh, log, log1p, log2,
    maximum, minimum, pow, recip, relu, round, rsqrt, select, sigmoid, silu, sin, softplus, sqrt, tanh,
};
pub use expr::define::reducer::{
    Reducer, all, all_reducer, any, any_reducer, comm_reducer, max, max_reducer, min, min_reducer, prod, sum,
    sum_reducer, tuple_reducer,
};
pub use expr::define::scan::{scan, scan_all};
pub use expr::dimension::Dimension;
pub use expr::expression::{Binary, Expr, Kind};
pub use expr::reduce::{Combiner, Reduce};
pub use expr::tensor::{Compute, Indices, Operation, OperationKind, Scan, Tensor};
pub use expr::thread::Thread;
pub use expr::var::{Var, var};
pub use loops::backend::interpret::{Array, Scalar};
pub use loops::backend::kernel::Kernel;
#[cfg(feature = "native")]
pub use loops::backend::native;
pub use loops::ir::device_call::{CallArgument, DeviceCall, DeviceFunction};
pub use loops::ir::pragma::{Pragma, PragmaValue};
pub use loops::ir::program::{Program, Requirement};
pub use loops::ir::stmt::{AllReduce, LoopKind, Note, Stmt};
pub use loops::lower::{Trace, UnrollConfig, lower, lower_traced};
pub use loops::schedule::intrinsic::{BufferDecl, IntrinBody, TensorIntrin, decl_buffer, decl_tensor_intrin};
pub use loops::schedule::{
    AXIS_SEPARATOR, Attach, Group, LayoutIndex, Relation, Schedule, SplitBy, Stage, create_schedule, scan_fix_points,
};
