//! The element type of memory, as a tree declares it before its product's types are known.

use crate::ElementType;
use crate::expr::Real;

/// The element type of a parameter's or an output's memory, as declared.
///
/// ```
/// use epilogue::ElementType;
/// use epilogue::evt::DeclaredElement;
///
/// assert_eq!(DeclaredElement::from(None), DeclaredElement::Unwritten);
/// assert_eq!(DeclaredElement::from(Some(ElementType::BF16)), DeclaredElement::Written(ElementType::BF16));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeclaredElement {
    /// None is written. Tensors and vectors have A's type. Results of reductions, and vectors and single values that are
    /// computed from them, have the arithmetic type.
    #[default]
    Unwritten,
    /// The arithmetic type: f64 if A is f64, otherwise f32. Gradients of what has that type without writing it are
    /// declared so.
    Arithmetic,
    /// The type that the user wrote.
    Written(ElementType),
}

impl DeclaredElement {
    /// The type, if the declaration alone says it.
    pub(super) const fn resolved(self, real: Real) -> Option<ElementType> {
        match self {
            Self::Unwritten => None,
            Self::Arithmetic => Some(real.element()),
            Self::Written(element) => Some(element),
        }
    }

    /// Another declaration in place of none.
    #[must_use]
    pub(super) const fn or(self, other: Self) -> Self {
        match self {
            Self::Unwritten => other,
            declared => declared,
        }
    }
}

impl From<Option<ElementType>> for DeclaredElement {
    fn from(written: Option<ElementType>) -> Self {
        written.map_or(Self::Unwritten, Self::Written)
    }
}
