//! The names of types, operations and kinds in the text.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ElementType;
use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::expr::axis::AxisKind;
use crate::te::expr::expression::Binary;
use crate::te::loops::ir::stmt::LoopKind;

/// A value that is written as its name.
#[derive(Clone, Copy)]
pub(super) struct Name<T>(pub(super) T);

pub(super) trait Named: Copy + fmt::Debug {
    fn all() -> impl Iterator<Item = Self>;

    /// The name: `floor_div` for `FloorDiv`.
    fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(c.to_lowercase());
        }
        name
    }
}

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.name())
    }
}

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        T::all().find(|known| known.name() == given).map(Name).ok_or_else(|| {
            let all: Vec<String> = T::all().map(Named::name).collect();
            D::Error::custom(format_args!("`{given}` is none of `{}`", all.join("`, `")))
        })
    }
}

impl Named for Binary {
    fn all() -> impl Iterator<Item = Self> {
        use Binary::{
            Add, And, BitAnd, BitOr, BitXor, Div, Eq, FloorDiv, FloorMod, Ge, Gt, Le, Lt, Max, Min, Mul, Ne, Or, Shl,
            Shr, Sub,
        };
        let numbers = [Add, Sub, Mul, Div, FloorDiv, FloorMod, Min, Max];
        let truths = [Lt, Le, Gt, Ge, Eq, Ne, And, Or];
        numbers.into_iter().chain(truths).chain([BitAnd, BitOr, BitXor, Shl, Shr])
    }
}

impl Named for Op {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }
}

impl Named for AxisKind {
    fn all() -> impl Iterator<Item = Self> {
        [Self::Data, Self::Thread, Self::Reduce, Self::Ordered].into_iter()
    }
}

impl Named for LoopKind {
    fn all() -> impl Iterator<Item = Self> {
        [Self::Serial, Self::Parallel, Self::Vectorized, Self::Unrolled].into_iter()
    }
}

impl Named for DType {
    fn all() -> impl Iterator<Item = Self> {
        ElementType::ALL.into_iter().map(Self::from)
    }

    fn name(self) -> String {
        let element = if let Self::Number(element) = self { element } else { ElementType::Bool };
        element.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents hold these names: a variant that is renamed needs a name of its own.
    #[test]
    fn names_stay() {
        fn all<T: Named>() -> String {
            T::all().map(Named::name).collect::<Vec<_>>().join(" ")
        }
        assert_eq!(
            all::<Binary>(),
            "add sub mul div floor_div floor_mod min max lt le gt ge eq ne and or bit_and bit_or bit_xor shl shr"
        );
        assert_eq!(all::<AxisKind>(), "data thread reduce ordered");
        assert_eq!(all::<LoopKind>(), "serial parallel vectorized unrolled");
        let ops = "neg abs exp exp2 log log2 log1p sqrt rsqrt recip tanh erf sin cos floor ceil round add sub mul div";
        assert_eq!(all::<Op>(), format!("{ops} min max pow lt le gt ge eq ne fma select"));
    }
}
