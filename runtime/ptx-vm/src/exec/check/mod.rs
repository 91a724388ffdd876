//! What is watched while a kernel runs: faults, values that nothing has written, what the detector is told.

pub(in crate::exec) mod fault;
pub(in crate::exec) mod observe;
pub(in crate::exec) mod undefined;
