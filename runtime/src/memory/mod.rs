//! Memory: arrays of the host in large pages, and buffers of any device that are freed in stream order.

pub(crate) mod buffer;
pub(crate) mod control_groups;
pub(crate) mod host_bytes;
pub(crate) mod host_lock;
pub(crate) mod host_memory;
