//! What threads wait for each other with.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
