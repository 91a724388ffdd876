//! The kernels for sm_90a: what can be asked of one, what one is, and what the model says of it.

mod candidates;
mod cost;
mod maps;

pub use candidates::{Workload, candidates, has_room, rank};
pub(crate) use maps::{Tensors, direct, is_batched, variant};

pub(crate) use super::kernel::sm90::reach::loads;
pub(crate) use super::kernel::sm90::shared::sum_bytes;
pub use super::kernel::sm90::{
    Cluster, Hint, Hints, MapOf, Part, Raster, Request, Schedule, SharedMap, Sm90Key, Staging, Stream, Tile, Traffic,
    Turn, Units, Wgmma, direct_when_packed,
};
