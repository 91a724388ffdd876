//! What threads wait for each other with; `tests/locks` has it from loom in its place.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
