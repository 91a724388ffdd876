//! The part of the parameter that kernels of this family get for patches.

use crate::gemm::families::sm80::kernel::{DIVISORS, PATCHES};
use crate::gemm::kernel::PatchKind;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler};
use crate::gemm::kernel::digits::reciprocal;
use crate::gemm::problem::patches::Patches;

/// `sm80::Patches`; behind it, if positions are divided, the outputs of every axis, or its input dilation.
pub(crate) fn put_patches(to: &mut Filler<'_>, patches: &Patches, kind: PatchKind) {
    let Patches { inputs, outputs, channels, window, steps, .. } = patches;
    // The last axis is the fastest.
    let divisors = [*channels, window.size[2], window.size[1]].into_iter().flat_map(divisor);
    // None of them divides by 0 where there is nothing.
    let outputs = outputs.map(|extent| extent.max(1));
    let before = window.before.map(isize::cast_unsigned);
    let lists = [inputs, &outputs, &window.stride, &before, &window.dilation];
    let lists = lists.into_iter().flatten().map(|number| number.cast_signed().into());
    let values = steps.iter().map(|step| (*step).into()).chain(divisors).chain(lists);
    to.put(&PATCHES, &|| "patches".to_owned(), values);
    let divided = match kind {
        PatchKind::Row => return,
        PatchKind::Transposed => patches.outputs,
        PatchKind::Dilated => window.input_dilation,
    };
    to.put(&DIVISORS, &String::new, divided.into_iter().flat_map(divisor));
}

/// `sm80::Divisor`.
fn divisor(divisor: usize) -> [DeviceValue; 4] {
    let divisor = divisor.max(1) as u64;
    let (magic, shift) = reciprocal(divisor);
    [magic as u32, shift as u32, divisor as u32, 0].map(|number| number.cast_signed().into())
}
