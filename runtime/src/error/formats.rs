//! The errors of block formats, and of the files that hold them.

/// Values that a block format doesn't hold, or bytes that are not its blocks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A number of values that is no number of whole blocks.
    #[error(
        "{format} has blocks of {block} values, and {given} were given: pad each row to a multiple of {block}, or take \
         another format"
    )]
    Ragged {
        /// The format.
        format: &'static str,
        /// The values of a block.
        block: usize,
        /// The given number.
        given: usize,
    },
    /// Bytes that are no whole blocks, or not as many as the other part's.
    #[error("{given} bytes of {part} were given, and {blocks} blocks of {format} have {needed}")]
    Bytes {
        /// The format.
        format: &'static str,
        /// `codes` or `scales`.
        part: &'static str,
        /// The number of blocks.
        blocks: usize,
        /// The bytes that they have.
        needed: usize,
        /// The given number.
        given: usize,
    },
    /// A value that is NaN or infinite, in a format that has neither.
    #[error("value {index} is {given}, and {format} holds finite numbers only: mend the values")]
    NotFinite {
        /// The format.
        format: &'static str,
        /// The value's index.
        index: usize,
        /// The value, as text.
        given: String,
    },
    /// A block whose scale is too large for its type.
    #[error(
        "block {block} has the value {largest}, which needs a scale of {scale}, and {format} holds its scale as {held}: \
         divide the tensor by a power of two first"
    )]
    Scale {
        /// The format.
        format: &'static str,
        /// The block's number.
        block: usize,
        /// The value that decides the scale.
        largest: String,
        /// The needed scale.
        scale: String,
        /// The type of the scale, with its largest value.
        held: &'static str,
    },
    /// A scale of a whole tensor that no value can be divided by.
    #[error("the scale of the tensor is {given}: it must be finite and at least 2^-120")]
    TensorScale {
        /// The given scale.
        given: String,
    },
    /// Scales that the 128 × 4 layout of a matrix doesn't have.
    #[error(
        "{given} scales were given, and {rows} rows with {per_row} scales each have {needed} in this order (the order of \
         blocks has rows in multiples of 128 and scales in multiples of 4)"
    )]
    ScaleLayout {
        /// The matrix' rows.
        rows: usize,
        /// The scales of a row.
        per_row: usize,
        /// The needed number of bytes.
        needed: usize,
        /// The given number.
        given: usize,
    },
    /// A block of no values.
    #[error("a block of {given} values is no block: give 1 or more")]
    Block {
        /// The given number.
        given: usize,
    },
    /// A scale that is NaN or infinite.
    #[error("scale {index} is {given}, and scales must be finite numbers")]
    ScaleNotFinite {
        /// The scale's index.
        index: usize,
        /// The scale, as text.
        given: String,
    },
    /// A number of bits that integer weights don't have.
    #[error("weights of {given} bits were given, and integer weights have 4 or 8")]
    Bits {
        /// The given number.
        given: u32,
    },
    /// An order of columns that leaves some out.
    #[error("the order of {columns} columns does not name each of them once")]
    Permutation {
        /// The number of columns.
        columns: usize,
    },
    /// A shape that the codes, scales or zero points of a matrix don't have.
    #[error(
        "{given} {part} were given, and a matrix of {rows} rows and {columns} columns in groups of {group} has {needed}"
    )]
    Count {
        /// `codes`, `scales`, …
        part: &'static str,
        /// The given number.
        given: usize,
        /// The needed number.
        needed: usize,
        /// The matrix' rows.
        rows: usize,
        /// The matrix' columns.
        columns: usize,
        /// The columns of a group.
        group: usize,
    },
}

crate::message::debug!(FormatError);

/// A file that is no GGUF file, or one that this library doesn't read. Nothing outside of the given bytes was read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file can't be read.
    #[error("the file `{path}` can't be read: {reason}")]
    File {
        /// The path.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// Another kind of file.
    #[error("a GGUF file begins with `GGUF`, and this one with the bytes {given:02x?}")]
    Magic {
        /// The first bytes, at most four.
        given: Vec<u8>,
    },
    /// Another version, or another byte order.
    #[error(
        "the GGUF file is of version {given}{}, and versions 2 and 3 in little-endian order are read: convert it with \
         llama.cpp's tools",
        if *.given != 0 && *.given & 0xffff == 0 { " (in big-endian order)" } else { "" }
    )]
    Version {
        /// The version, as a little-endian number.
        given: u32,
    },
    /// The file ends too early.
    #[error("the GGUF file ends at byte {length}, and {what} at byte {at} needs {needed} bytes: get the whole file")]
    Truncated {
        /// The part that was being read.
        what: String,
        /// Where it begins.
        at: usize,
        /// Its length in bytes.
        needed: u64,
        /// The length of the file.
        length: usize,
    },
    /// Something that contradicts GGUF's specification.
    #[error("the GGUF file can't be right: {reason}")]
    Invalid {
        /// The given and the allowed value.
        reason: String,
    },
    /// A tensor whose type this library doesn't know or doesn't decode.
    #[error("tensor `{tensor}` is of type {given}, and this library decodes {}: convert it with llama.cpp's tools", .known)]
    Type {
        /// The tensor.
        tensor: String,
        /// The type: its name, or its number.
        given: String,
        /// The types that are decoded.
        known: String,
    },
    /// A name that the file doesn't have.
    #[error("the GGUF file has no {what} `{name}`")]
    Missing {
        /// `tensor` or `metadata`.
        what: &'static str,
        /// The name.
        name: String,
    },
}

crate::message::debug!(GgufError);

/// Quantised weights of a checkpoint that can't be read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A tensor that isn't there.
    #[error("the checkpoint has no tensor `{name}`, which {layout} weights have{advice}")]
    Missing {
        /// The tensor.
        name: String,
        /// The layout.
        layout: &'static str,
        /// Where else to look.
        advice: &'static str,
    },
    /// A tensor of another element type.
    #[error(
        "tensor `{name}` holds {given}, and {layout} weights have {needed} there: check which layout the checkpoint has"
    )]
    ElementType {
        /// The tensor.
        name: String,
        /// The layout.
        layout: &'static str,
        /// The tensor's type.
        given: String,
        /// The types that are read.
        needed: &'static str,
    },
    /// A tensor of another shape.
    #[error(
        "tensor `{name}` has shape {given:?}, and {layout} weights have {needed} there: check layout, bits and group"
    )]
    Shape {
        /// The tensor.
        name: String,
        /// The layout.
        layout: &'static str,
        /// Its shape.
        given: Vec<usize>,
        /// The needed shape.
        needed: String,
    },
    /// A number of bits that the layout doesn't have, or that this library doesn't read.
    #[error("{layout} weights of {given} bits are not read: {allowed}")]
    Bits {
        /// The layout.
        layout: &'static str,
        /// The given number.
        given: u32,
        /// The numbers that are read.
        allowed: &'static str,
    },
    /// A group that doesn't divide K.
    #[error("groups of {group} rows don't divide the K of {k} of `{name}`: check the group size of the checkpoint")]
    Group {
        /// The layer.
        name: String,
        /// The rows of a group.
        group: usize,
        /// The number of input features.
        k: usize,
    },
    /// Input features whose groups are in another order.
    #[error(
        "`{name}` has an act-order whose groups are not sorted: input feature {at} is in group {given}, and {needed} is \
         needed there; read it with `ActOrder::Permute`, and give the product the input features in that order"
    )]
    ActOrder {
        /// The tensor.
        name: String,
        /// The input feature.
        at: usize,
        /// Its group.
        given: i64,
        /// The group of its place.
        needed: usize,
    },
    /// Groups that have other numbers of input features than the group size says.
    #[error(
        "`{name}` puts {given} input features into group {index}, and groups of {group} were told: check the group size"
    )]
    Uneven {
        /// The tensor.
        name: String,
        /// The number of the group.
        index: i64,
        /// How many input features it has.
        given: usize,
        /// The group size.
        group: usize,
    },
    /// A zero point that has no one meaning.
    #[error("zero point {index} of `{name}` is stored as {given}: {reason}")]
    ZeroPoint {
        /// The tensor.
        name: String,
        /// Its index in the tensor.
        index: usize,
        /// The stored value.
        given: String,
        /// Why that is refused, and what to do.
        reason: &'static str,
    },
    /// A code outside of its range.
    #[error("code {index} of `{name}` is {given}, and codes of {bits} bits go from {least} to {most}")]
    Code {
        /// The tensor.
        name: String,
        /// Its index in the tensor.
        index: usize,
        /// The code.
        given: i64,
        /// The bits of a code.
        bits: u32,
        /// The least code.
        least: i64,
        /// The greatest code.
        most: i64,
    },
    /// Codes, scales and zero points that are no weights.
    #[error("the weights of `{name}`: {source}")]
    Format {
        /// The layer.
        name: String,
        /// The part that is wrong.
        source: FormatError,
    },
}

crate::message::debug!(CheckpointError);
