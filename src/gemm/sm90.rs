//! The kernels for sm_90a: what can be asked of one, what one is, and what the model says of it.

pub use super::kernel::Within;
pub use super::kernel::sm90::{
    Cluster, Hint, Hints, MapOf, Part, Raster, Request, Schedule, SharedMap, Sm90Key, Staging, Stream, Tile, Traffic,
    Turn, Units, Wgmma, direct_when_packed,
};
pub use super::model::sm90::{Workload, candidates, estimate, has_room, rank};
