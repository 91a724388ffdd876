//! Every schedule primitive alone and combined with others: the interpreter, native code and an emulated GPU agree, and
//! mistakes are typed errors.
#![cfg(feature = "native")]

mod cache_write;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../te_cuda/case.rs"]
mod case;
mod groups;
mod hostile;
mod json;
mod loops;
mod mutated;
mod pragmas;
mod programs;
mod random;
mod replay;
mod scans;
mod soak;
mod trial;
mod virtual_threads;
