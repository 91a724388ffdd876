//! Every schedule primitive alone and combined with others: the interpreter, native code and an emulated GPU agree, and
//! mistakes are typed errors.

mod cache_write;
mod groups;
mod hostile;
mod json;
mod loops;
mod mutated;
mod origins;
mod pragmas;
mod programs;
mod random;
mod ranges;
mod replay;
mod scans;
mod soak;
mod trial;
mod virtual_threads;
