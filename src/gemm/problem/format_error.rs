//! Why operands in a format can't be multiplied.

use super::arithmetic::Arithmetic;
use super::format::Format;
use super::quantization::{CodeType, Quantization};
use crate::ElementType;

/// Why quantised weights can't be multiplied. Nothing has been written when a run returns one.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Scales of another element type.
    #[error("the scales of quantised weights hold {given}; needed is f16, bf16 or f32")]
    ScalesElement {
        /// Their element type.
        given: ElementType,
    },
    /// A group of another length.
    #[error(
        "{given} codes share a scale; needed is a multiple of 16, as 32, 64 or 128, or all of K: leave `.group(…)` out"
    )]
    Group {
        /// Its length.
        given: usize,
    },
    /// Signed codes with zero points.
    #[error("{codes} has no zero points: leave them out, or give the codes as u{}", codes)]
    SignedZeroPoints {
        /// The type of codes.
        codes: CodeType,
    },
    /// Unsigned codes without a zero point.
    #[error(
        "{codes} needs zero points: give `.zero_points(&tensor)`, or one for all codes, as `.zero_point({})` for symmetric weights",
        1u16 << (codes.bits() - 1)
    )]
    NoZeroPoints {
        /// The type of codes.
        codes: CodeType,
    },
    /// A zero point that is no code.
    #[error("the zero point is {given}; a code of {codes} is 0 to {most}")]
    ZeroPoint {
        /// The type of codes.
        codes: CodeType,
        /// The zero point.
        given: u8,
        /// The largest.
        most: u8,
    },
    /// Codes in a tensor of another element type.
    #[error("the codes hold {given}; {codes} needs a tensor of {}", codes.element())]
    CodesElement {
        /// The type of codes.
        codes: CodeType,
        /// The tensor's element type.
        given: ElementType,
    },
    /// Codes in a tensor of another shape.
    #[error(
        "the codes have shape {given:?}; {codes} needs [N, {}] or [L, N, {}]{}",
        if codes.bits() == 4 { "ceil(K / 2)" } else { "K" },
        if codes.bits() == 4 { "ceil(K / 2)" } else { "K" },
        depth.map_or_else(String::new, |k| format!(", and `.depth({k})` was given"))
    )]
    CodesShape {
        /// The type of codes.
        codes: CodeType,
        /// The tensor's shape.
        given: Vec<usize>,
        /// K, if it was given.
        depth: Option<usize>,
    },
    /// Scales or zero points of another shape.
    #[error(
        "the {what} of {format} have shape {given:?}; needed is {needed:?}: one for each column of B and group of K"
    )]
    Shape {
        /// `scales` or `zero points`.
        what: &'static str,
        /// The format.
        format: Quantization,
        /// Their shape.
        given: Vec<usize>,
        /// The shape that they must have.
        needed: Vec<usize>,
    },
    /// Zero points of another element type.
    #[error("the zero points hold {given}; needed is u8, a code for each group")]
    ZeroPointsElement {
        /// Their element type.
        given: ElementType,
    },
    /// An A of another element type.
    #[error(
        "quantised weights are multiplied by an A of f32, bf16 or f16, and A holds {given}: convert it to one of these"
    )]
    Left {
        /// A's element type.
        given: ElementType,
    },
    /// A plan by element types that differ.
    #[error(
        "the element types are {a} and {b}, and quantised weights are multiplied as elements of A's type: give `.elements({a}, {a})`"
    )]
    Elements {
        /// A's element type.
        a: ElementType,
        /// B's.
        b: ElementType,
    },
    /// An arithmetic that doesn't apply to quantised weights.
    #[error("{given} doesn't apply to quantised weights: take `Arithmetic::Exact` or `Arithmetic::Int8Activations`")]
    Arithmetic {
        /// The arithmetic.
        given: Arithmetic,
    },
    /// 8-bit activations without quantised weights.
    #[error(
        "8-bit activations are for quantised weights, and B is a tensor of {given}: give `quantized(…)`, or leave `.arithmetic(…)` out"
    )]
    NotQuantized {
        /// B's element type.
        given: ElementType,
    },
    /// Several B that differ.
    #[error("B {place} is {given}, and the first one is {needed}: give all B in one format and of one shape")]
    Alike {
        /// Which, from 1 on.
        place: usize,
        /// Its extents and format.
        given: String,
        /// The extents and format of the first one.
        needed: String,
    },
    /// A product that has no quantised weights.
    #[error("there are no quantised weights in a product with {what}: dequantise them, by `Quantized::dequantized`")]
    With {
        /// The property that excludes them.
        what: &'static str,
    },
    /// A device that doesn't multiply them.
    #[error(
        "{device} doesn't multiply weights of {format}: dequantise them, by `Quantized::dequantized`, or use the CPU device"
    )]
    Device {
        /// The device.
        device: String,
        /// The format.
        format: Quantization,
    },
    /// A run of a plan for another format.
    #[error("B is {given}, and this GEMM was planned for {planned}: plan it for the weights that it multiplies")]
    Other {
        /// The format of the plan.
        planned: Format,
        /// The format of the run.
        given: Format,
    },
}

epilogue_runtime::message::debug!(FormatError);
