//! The kernels for sm_90a and sm_100a: requests, keys, and the model's view of them.

pub use super::families::sm90::kernel::supported::supports;
pub use super::families::sm90::kernel::{
    Cluster, Hint, Hints, MapOf, Part, Raster, Request, Schedule, SharedMap, Sm90Key, Staging, Stream, TensorCores,
    Tile, Traffic, Turn, Units, Wgmma, direct_when_packed,
};
pub use super::families::sm90::model::{Workload, candidates, estimate, has_room, rank};
pub use super::kernel::Within;
