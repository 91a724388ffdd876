//! The part of the parameter that kernels of this family get for patches.

use crate::gemm::families::sm90::kernel::PATCHES;
use crate::gemm::families::sm90::kernel::grid::Divisor;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler};
use crate::gemm::problem::patches::Patches;

/// `sm90::Patches`. `of_a_box` are the channels of a box; `of_b` are the columns and the elements of the window from one group's
/// B to the next.
pub(crate) fn put_patches(to: &mut Filler<'_>, patches: &Patches, of_a_box: usize, of_b: [usize; 2]) {
    let Patches { outputs, channels, window, .. } = patches;
    let (blocks, taps) = (channels.div_ceil(of_a_box), window.size.iter().product());
    // None of them divides by 0 where there is nothing.
    let outputs = outputs.map(|extent| extent.max(1));
    let before = window.before.map(isize::cast_unsigned);
    let lists = [&window.size, &outputs, &window.stride, &before, &window.dilation];
    // The last axis is the fastest.
    let [first, middle, last] = outputs;
    let divisors = [blocks, window.size[2], window.size[1], last, middle, first];
    let divisors = divisors.into_iter().flat_map(|divisor| Divisor::of(divisor).words()).map(DeviceValue::from);
    let int = |number: usize| DeviceValue::from(number.cast_signed());
    let numbers = [blocks, taps].into_iter().chain(lists.into_iter().flatten().copied()).map(int);
    let groups = [*channels, of_b[0], of_b[1]].map(int);
    to.put(&PATCHES, &|| "patches".to_owned(), numbers.chain(divisors).chain(groups));
}
