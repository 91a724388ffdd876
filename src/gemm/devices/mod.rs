//! The kinds of devices that compute products.
//!
//! A kind has three parts, one after another in time, each behind a trait. A [`Backend`](backend::Backend) is asked before there
//! is a plan: it says what the kind can do, and chooses. A [`Chosen`](choice::Chosen) is the choice: it compiles. An
//! [`Executable`](executable::Executable) is the result: it runs. The plan (`gemm/plan.rs`) checks a run's operands and
//! arguments, then asks its executable.
//!
//! The CPU is in [`cpu`], GPUs are in [`gpu`]. Another kind is one more folder beside them and a line in [`list`]. Nothing
//! outside the folders asks which kind a device is.

pub(crate) mod backend;
pub(crate) mod choice;
mod cpu;
pub(crate) mod executable;
mod gpu;
pub(crate) mod list;
pub(crate) mod operation;

pub use self::choice::Choice;
