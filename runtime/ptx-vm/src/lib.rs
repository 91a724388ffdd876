//! Executes PTX on the CPU exactly as the compiler made it, and reports data races, missing barriers and asynchronous
//! hazards.
//!
//! This crate knows PTX. It must never know what a kernel computes.
//!
//! [`Module::parse`] reads PTX text. A [`Machine`] holds device memory and runs kernels. Inside, `syntax` turns the
//! text into a syntax tree. `decode` turns the tree into a program (`program`) with instructions that are bound to
//! handlers and registers. `exec` executes the program one warp instruction at a time, all 32 lanes together, and
//! reports what happens to a detector (`race`).

mod arch;
mod decode;
mod error;
mod exec;
mod explore;
mod launch;
mod machine;
mod memory;
mod message;
mod module;
pub mod mutate;
pub mod numerics;
mod options;
mod parse;
mod program;
pub mod race;
mod statistics;
mod syntax;

pub use arch::{Arch, Feature, UnknownArch};
pub use error::{LaunchError, LaunchFailure, MemoryError, MemorySpace, ParseError, Site, Waiter};
pub use explore::{Exploration, Schedule, explore};
pub use launch::{Argument, Launch, Report};
pub use machine::Machine;
pub use memory::global::Address;
pub use module::Module;
pub use options::{Arithmetic, Completion, Detector, Generation, Options};
pub use program::{Kernel, Parameter};
pub use statistics::Statistics;
