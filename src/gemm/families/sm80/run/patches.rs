//! The words that kernels of this family get for patches.

use crate::gemm::kernel::digits::reciprocal;
use crate::gemm::kernel::parameters::ParameterBytes;
use crate::gemm::problem::patches::Patches;

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
