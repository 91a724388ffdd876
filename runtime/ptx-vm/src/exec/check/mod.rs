//! Checks while a kernel runs: faults, undefined values, and reports to the race detector.

pub(in crate::exec) mod fault;
pub(in crate::exec) mod observe;
pub(in crate::exec) mod undefined;
pub(in crate::exec) mod variables;
