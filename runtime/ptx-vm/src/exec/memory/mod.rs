//! Addresses, loads and stores, atomics, and asynchronous copies.

pub(in crate::exec) mod access;
pub(crate) mod atomics;
pub(crate) mod bulk;
pub(crate) mod copies;
pub(crate) mod frame;
pub(crate) mod load_store;
pub(crate) mod local;
mod weak;
