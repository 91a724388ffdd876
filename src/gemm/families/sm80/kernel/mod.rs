//! The kernels for sm_80 and later, as the host sees them: instructions, tiles, and what a kernel is generated from.

pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod tile;

use crate::gemm::kernel::device_struct::{DeviceStruct, OPERAND, PROBLEM, SUMS, inner, narrow, wide};

pub use instruction::Instruction;
pub use key::Sm80Key;
pub use tile::Tile;

/// Alignment of the kernel's parameter.
pub(crate) const PARAMETER_ALIGNMENT: usize = 8;

/// How stream-K cuts tiles.
pub(crate) const LINE: DeviceStruct =
    DeviceStruct(&[narrow("streamed"), narrow("blocks_of_k"), narrow("share"), narrow("longer")]);

/// A number that positions are divided by.
const DIVISOR: DeviceStruct = DeviceStruct(&[narrow("magic"), narrow("shift"), narrow("divisor"), narrow("unused")]);

/// Images and a window.
pub(crate) const PATCHES: DeviceStruct = DeviceStruct(&[
    wide("step").times(3),
    inner("channels", &DIVISOR),
    inner("taps", &DIVISOR).times(2),
    narrow("extent").times(3),
    narrow("outputs").times(3),
    narrow("stride").times(3),
    narrow("before").times(3),
    narrow("dilation").times(3),
    narrow("unused"),
]);

/// The divisors of three axes, behind patches whose positions are divided.
pub(crate) const DIVISORS: DeviceStruct = DeviceStruct(&[inner("divisors", &DIVISOR).times(3)]);

/// Bytes of what every kernel takes: A, one B for each accumulator, extents, how tiles are cut, where sums are.
pub(crate) const fn common_bytes(accumulators: usize) -> usize {
    OPERAND.bytes() * (1 + accumulators) + PROBLEM.bytes() + LINE.bytes() + SUMS.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::kernel::device_struct::tests::check;

    #[test]
    fn structs_are_as_headers_declare_them() {
        check(include_str!("../../../../device/sm80/patches.cuh"), "Divisor", &DIVISOR);
        check(include_str!("../../../../device/sm80/patches.cuh"), "Patches", &PATCHES);
        check(include_str!("../../../../device/sm80/gradient_patches.cuh"), "GradientPatchCommon", &DIVISORS);
        check(include_str!("../../../../device/sm80/transposed_patches.cuh"), "TransposedPatchCommon", &DIVISORS);
    }
}
