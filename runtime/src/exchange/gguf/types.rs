//! ggml's types of tensors.

use crate::formats::{BlockFormat, GgmlMxfp4, Q4_0, Q4_1, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0};
use crate::layout::element::ElementType;

/// How values are read.
#[derive(Clone, Copy)]
pub(super) enum Decoding {
    Element(ElementType),
    Blocks(&'static dyn BlockFormat),
    /// Its size is known, which is enough to find other tensors.
    None,
}

/// A type: GGUF's number, ggml's name, the values and the bytes of a block.
pub(super) struct Type {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) block: u64,
    pub(super) bytes: u64,
    pub(super) decoding: Decoding,
}

const fn element(number: u32, name: &'static str, element: ElementType) -> Type {
    Type { number, name, block: 1, bytes: element.size() as u64, decoding: Decoding::Element(element) }
}

const fn blocks(number: u32, name: &'static str, block: u64, bytes: u64, format: &'static dyn BlockFormat) -> Type {
    Type { number, name, block, bytes, decoding: Decoding::Blocks(format) }
}

const fn other(number: u32, name: &'static str, block: u64, bytes: u64) -> Type {
    Type { number, name, block, bytes, decoding: Decoding::None }
}

/// `enum ggml_type` of `ggml.h`, with the sizes of `ggml-common.h`.
static TYPES: [Type; 34] = [
    element(0, "F32", ElementType::F32),
    element(1, "F16", ElementType::F16),
    blocks(2, "Q4_0", 32, 18, &Q4_0),
    blocks(3, "Q4_1", 32, 20, &Q4_1),
    blocks(6, "Q5_0", 32, 22, &Q5_0),
    other(7, "Q5_1", 32, 24),
    blocks(8, "Q8_0", 32, 34, &Q8_0),
    other(9, "Q8_1", 32, 40),
    other(10, "Q2_K", 256, 84),
    other(11, "Q3_K", 256, 110),
    blocks(12, "Q4_K", 256, 144, &Q4_K),
    blocks(13, "Q5_K", 256, 176, &Q5_K),
    blocks(14, "Q6_K", 256, 210, &Q6_K),
    other(15, "Q8_K", 256, 292),
    other(16, "IQ2_XXS", 256, 66),
    other(17, "IQ2_XS", 256, 74),
    other(18, "IQ3_XXS", 256, 98),
    other(19, "IQ1_S", 256, 50),
    other(20, "IQ4_NL", 32, 18),
    other(21, "IQ3_S", 256, 110),
    other(22, "IQ2_S", 256, 82),
    other(23, "IQ4_XS", 256, 136),
    element(24, "I8", ElementType::I8),
    element(25, "I16", ElementType::I16),
    element(26, "I32", ElementType::I32),
    element(27, "I64", ElementType::I64),
    element(28, "F64", ElementType::F64),
    other(29, "IQ1_M", 256, 56),
    element(30, "BF16", ElementType::BF16),
    other(34, "TQ1_0", 256, 54),
    other(35, "TQ2_0", 256, 66),
    blocks(39, "MXFP4", 32, 17, &GgmlMxfp4),
    other(40, "NVFP4", 64, 36),
    other(41, "Q1_0", 128, 18),
];

/// The type with GGUF's number.
pub(super) fn of_number(number: u32) -> Option<&'static Type> {
    TYPES.iter().find(|kind| kind.number == number)
}

/// The names of the types that are decoded.
pub(super) fn decoded() -> String {
    let known = TYPES.iter().filter(|kind| !matches!(kind.decoding, Decoding::None));
    known.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}
