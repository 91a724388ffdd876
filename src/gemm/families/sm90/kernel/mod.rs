//! The kernels for sm_90a, as the host sees them: tiles, what a kernel is generated from, the map of shared memory, and
//! how tiles are assigned to blocks.
//!
//! A tile is described in one of two ways. In *product terms*, rows are M and columns N, as the user has them. In *MMA
//! terms*, rows are wgmma's M (64 per instruction), columns its N (8 to 256). They differ if a kernel is *swapped*.
//! When M is small, B's transpose becomes wgmma's first operand. The columns of the product then fill the 64 rows that an
//! instruction always has.

pub(crate) mod grid;
pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod reach;
pub(crate) mod request;
pub(crate) mod shared;
pub(crate) mod supported;
pub(crate) mod tile;

use crate::gemm::kernel::device_struct::{DeviceStruct, PROBLEM, ROW_INDEX, SUMS, inner, narrow, wide};

/// Arguments that every kernel takes behind its tensor maps.
pub(crate) const COMMON: DeviceStruct = DeviceStruct(&[
    inner("problem", &PROBLEM),
    narrow("a_is_batched"),
    narrow("b_are_batched"),
    inner("", &DEAL),
    inner("workspace", &SUMS),
]);

/// How units of work are dealt, as [`Units::deal`] says it.
const DEAL: DeviceStruct = DeviceStruct(&[narrow("deal").times(18)]);

const DIVISOR: DeviceStruct = DeviceStruct(&[narrow("multiplier"), narrow("shift")]);

/// Images and a window.
pub(crate) const PATCHES: DeviceStruct = DeviceStruct(&[
    narrow("blocks"),
    narrow("taps"),
    narrow("size").times(3),
    narrow("outputs").times(3),
    narrow("stride").times(3),
    narrow("before").times(3),
    narrow("dilation").times(3),
    inner("of_blocks", &DIVISOR),
    inner("of_size", &DIVISOR).times(2),
    inner("of_outputs", &DIVISOR).times(3),
    narrow("group_channels"),
    narrow("group_columns"),
    narrow("group_taps"),
]);

/// The matrix that an index picks rows from, and the index.
pub(crate) const PICKED_ROWS: DeviceStruct = DeviceStruct(&[wide("matrix"), wide("row_bytes"), inner("", &ROW_INDEX)]);

/// Alignment of the kernel's parameter, which is that of tensor maps (PTX ISA 9.7.9.27: 64 bytes).
pub(crate) const PARAMETER_ALIGNMENT: usize = 64;

pub use crate::gemm::kernel::stream::{Part, Stream};
pub use grid::{Turn, Units};
pub use instruction::Wgmma;
pub use key::{Cluster, Hint, Hints, Raster, Sm90Key, Staging};
pub use reach::direct_when_packed;
pub(crate) use request::NOT_DIVIDED;
pub use request::Request;
pub use shared::{MapOf, SharedMap, Traffic};
pub use tile::{Schedule, Tile};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::kernel::device_struct::tests::check;

    #[test]
    fn structs_are_as_headers_declare_them() {
        check(include_str!("../../../../device/sm90/scheduler.cuh"), "Divisor", &DIVISOR);
        check(include_str!("../../../../device/sm90/patches.cuh"), "Patches", &PATCHES);
        check(include_str!("../../../../device/sm90/picked.cuh"), "PickedRows", &PICKED_ROWS);
    }
}
