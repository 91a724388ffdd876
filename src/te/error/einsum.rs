//! Errors of the equations of `einsum`.

/// A mistake in an equation of [`einsum`](crate::te::ops::einsum()), or an operand that doesn't fit it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinsumError {
    /// A character that has no meaning.
    #[error(
        "the character {character:?} has no meaning here; axes are letters of ASCII, operands are separated by `,`, one \
         `->` stands before the output, and `...` for any number of axes"
    )]
    Character {
        /// The character.
        character: char,
    },
    /// The wrong number of operands.
    #[error("the equation has {needed} operands, {given} were given; give one tensor for each, in order")]
    Operands {
        /// How many the equation has.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// An operand with too few or too many dimensions.
    #[error(
        "{tensor} has {given} dimensions, and the equation has {needed} letters for it; give each dimension a letter"
    )]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// The letters of the operand.
        needed: usize,
        /// The tensor's dimensions.
        given: usize,
    },
    /// An axis of the output that no operand has.
    #[error("the output has the axis {axis}, which no operand has; only axes of operands can be in it")]
    UnknownAxis {
        /// The axis.
        axis: char,
    },
    /// An axis that is twice in the output.
    #[error("the output has the axis {axis} twice; it can have each axis once")]
    RepeatedAxis {
        /// The axis.
        axis: char,
    },
    /// An axis with extents that are not provably equal.
    #[error(
        "the axis {axis} is {first} and {other}; all extents of an axis must be equal numbers or made of the same size \
         variables"
    )]
    Extents {
        /// The axis.
        axis: String,
        /// Its extent, and the tensor that it is from.
        first: String,
        /// Another extent, and the tensor that it is from.
        other: String,
    },
    /// An ellipsis that is twice in an operand or in the output.
    #[error("`...` stands twice in `{term}`; an operand, or the output, can have it once")]
    RepeatedEllipsis {
        /// The operand or the output.
        term: String,
    },
    /// An ellipsis that the output lacks.
    #[error(
        "{tensor} has dimensions for `...`, which the output lacks; add it to the output, or give the dimensions letters \
         to sum them"
    )]
    DroppedEllipsis {
        /// A tensor with these dimensions.
        tensor: String,
    },
}

epilogue_runtime::message::debug!(EinsumError);
