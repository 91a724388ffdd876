//! Machine code against scalar code, and against another assembler.

mod functions;
mod random;
mod rows;
mod safety;
mod tiles;
mod wide;

use super::x86_64::Width;
use super::{ARGUMENTS, Body, Kernel};
use crate::tuning::Vectors;

/// The code of a body; `None` if this CPU has no vectors for it, and nothing can be tested.
fn compiled(body: &Body) -> Option<Kernel> {
    let kernel = Kernel::compile(body, Vectors::Longest);
    let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    assert_eq!(kernel.is_some(), has && body.arguments.len() <= ARGUMENTS, "all that is tested can be compiled");
    kernel
}

/// The code of a body in vectors of every width that this CPU has.
fn of_widths(body: &Body) -> Vec<Kernel> {
    let kernels =
        [Width::Bits256, Width::Bits512].into_iter().filter_map(|width| Kernel::at_level(body, width)).collect();
    let _ = compiled(body);
    kernels
}

/// Whether two results are the same: which NaN it is doesn't count.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Numbers of all magnitudes, and the special ones.
fn numbers(random: &mut fastrand::Rng, count: usize) -> Vec<f32> {
    const SPECIAL: [f32; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-45,
        f32::MAX,
        0.499_999_97,
        2.5,
        2_147_483_648.0,
        -2_147_483_648.0,
        65_520.0,
    ];
    let number = |random: &mut fastrand::Rng| match random.u8(..4) {
        0 => SPECIAL[random.usize(..SPECIAL.len())],
        1 => f32::from_bits(random.u32(..)),
        2 => (random.f32() - 0.5) * 300.0,
        _ => (random.f32() - 0.5) * 4.0,
    };
    (0..count).map(|_| number(random)).collect()
}
