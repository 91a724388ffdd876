//! The state of a running launch: what all workers share, what one worker keeps, clusters of blocks, warps, and
//! asynchronous operations in flight. It is data only. The code that changes it is with the instructions and the
//! schedule.

pub(in crate::exec) mod barrier;
pub(in crate::exec) mod block;
pub(in crate::exec) mod bulk;
pub(in crate::exec) mod copies;
pub(in crate::exec) mod fault;
pub(in crate::exec) mod in_flight;
pub(in crate::exec) mod launch;
pub(in crate::exec) mod local_written;
pub(in crate::exec) mod poll;
pub(in crate::exec) mod products;
pub(in crate::exec) mod tensor_memory;
pub(in crate::exec) mod undefined;
pub(in crate::exec) mod warp;
pub(in crate::exec) mod weak;
pub(in crate::exec) mod wgmma_fence;
pub(in crate::exec) mod worker;
