//! The words that kernels of this family get for patches.

use crate::gemm::families::sm90::kernel::grid::Divisor;
use crate::gemm::kernel::parameters::ParameterBytes;
use crate::gemm::problem::patches::Patches;

/// `sm90::Patches`. `of_a_box` are the channels of a box; `of_b` are the columns and the elements of the window from one group's
/// B to the next.
pub(crate) fn put_pixels(
    bytes: &mut ParameterBytes,
    offset: usize,
    patches: &Patches,
    of_a_box: usize,
    of_b: [usize; 2],
) {
    let Patches { outputs, channels, window, .. } = patches;
    let blocks = channels.div_ceil(of_a_box);
    let taps = window.size.iter().product();
    let int = |number: usize| i32::try_from(number.cast_signed()).unwrap_or(i32::MAX);
    bytes.put_named_ints(offset, &[int(blocks), int(taps)], |i| format!("patches.{}", ["blocks", "taps"][i]));
    // None of them divides by 0 where there is nothing.
    let outputs = outputs.map(|extent| extent.max(1));
    let before = window.before.map(isize::cast_unsigned);
    let lists = [
        ("size", &window.size),
        ("outputs", &outputs),
        ("stride", &window.stride),
        ("before", &before),
        ("dilation", &window.dilation),
    ];
    for (i, (of, numbers)) in lists.into_iter().enumerate() {
        bytes.put_named_ints(offset + 8 + 12 * i, &numbers.map(int), |axis| format!("patches.{of}.{axis}"));
    }
    // The last axis is the fastest.
    let [first, middle, last] = outputs;
    let divisors = [blocks, window.size[2], window.size[1], last, middle, first];
    for (i, divisor) in divisors.into_iter().enumerate() {
        let name = |word: usize| format!("patches.divisor.{i}.{}", ["multiplier", "shift"][word]);
        bytes.put_named_ints(offset + 68 + 8 * i, &Divisor::of(divisor).words(), name);
    }
    let groups = [*channels, of_b[0], of_b[1]].map(int);
    let name = |i: usize| format!("patches.group_{}", ["channels", "columns", "taps"][i]);
    bytes.put_named_ints(offset + 116, &groups, name);
}
