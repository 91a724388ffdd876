//! The words that kernels get for patches.

use epilogue_runtime::DeviceTensor;

use crate::gemm::families::sm90::kernel::grid::Divisor;
use crate::gemm::kernel::digits::reciprocal;
use crate::gemm::kernel::parameters::ParameterBytes;
use crate::gemm::problem::OperandView;
use crate::gemm::problem::patches::Patches;

/// The images as kernels take them: strides of images, of channels and of their groups.
pub(crate) fn images(x: &DeviceTensor, patches: &Patches) -> OperandView {
    let [m, k] = patches.extents();
    OperandView {
        address: x.device_address(),
        element: x.element_type(),
        outer_extent: m,
        k_extent: k,
        batch_extent: patches.groups,
        outer: patches.image,
        k: patches.channel,
        batch: if patches.groups > 1 { patches.group() } else { 0 },
    }
}

/// `sm80::Patches`.
pub(crate) fn put_patches(bytes: &mut ParameterBytes, offset: usize, patches: &Patches) {
    let Patches { inputs, outputs, channels, window, steps, .. } = patches;
    bytes.put_named_words(offset, &steps.map(|step| step as u64), |i| format!("patches.step.{i}"));
    // The last axis is the fastest.
    let divisors = [("channels", *channels), ("taps.0", window.size[2]), ("taps.1", window.size[1])];
    for (i, (of, divisor)) in divisors.into_iter().enumerate() {
        put_divisor(bytes, offset + 24 + 16 * i, &format!("patches.{of}"), divisor);
    }
    // None of them divides by 0 where there is nothing.
    let outputs = outputs.map(|extent| extent.max(1));
    let before = window.before.map(isize::cast_unsigned);
    let lists = [
        ("extent", inputs),
        ("outputs", &outputs),
        ("stride", &window.stride),
        ("before", &before),
        ("dilation", &window.dilation),
    ];
    for (i, (of, numbers)) in lists.into_iter().enumerate() {
        let numbers = numbers.map(|number| i32::try_from(number.cast_signed()).unwrap_or(i32::MAX));
        bytes.put_named_ints(offset + 72 + 12 * i, &numbers, |axis| format!("patches.{of}.{axis}"));
    }
    bytes.put_named_ints(offset + 132, &[0], |_| "patches.unused".to_owned());
}

/// `sm90::Patches`, of a kernel whose boxes have so many channels; for a group's B, so many columns and elements of the window
/// further.
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

/// What follows `sm80::Patches` where positions are divided: by the outputs of every axis, or by its input dilation.
pub(crate) fn put_divisors(bytes: &mut ParameterBytes, offset: usize, patches: &Patches) {
    let numbers = if patches.are_columns() { patches.outputs } else { patches.window.input_dilation };
    for (axis, divisor) in numbers.into_iter().enumerate() {
        put_divisor(bytes, offset + 16 * axis, &format!("divisors.{axis}"), divisor);
    }
}

/// `sm80::Divisor`.
fn put_divisor(bytes: &mut ParameterBytes, offset: usize, of: &str, divisor: usize) {
    let divisor = divisor.max(1) as u64;
    let (magic, shift) = reciprocal(divisor);
    let numbers = [magic as u32, shift as u32, divisor as u32, 0].map(u32::cast_signed);
    bytes.put_named_ints(offset, &numbers, |i| format!("{of}.{}", ["magic", "shift", "divisor", "unused"][i]));
}
