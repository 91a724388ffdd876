//! The types of lanes, and strips of them with their class.

use super::{Class, Constant};

/// The lanes of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lanes<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// The lanes of a result.
#[derive(Debug)]
pub(crate) enum LanesMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
}

/// The type of a class's lanes.
pub(crate) trait Scalar: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    const CLASS: Class;
    /// The constant, rounded or truncated to this type.
    fn constant(constant: Constant) -> Self;
    fn lanes(all: &[Self]) -> Lanes<'_>;
    fn lanes_mut(all: &mut [Self]) -> LanesMut<'_>;
    /// Lanes of this type; none of another type.
    fn slice(lanes: Lanes<'_>) -> &[Self];
}

macro_rules! scalars {
    ($($ty:ty: $class:ident),*) => {$(
        impl Scalar for $ty {
            const CLASS: Class = Class::$class;
            #[allow(clippy::unnecessary_cast, reason = "one of the types is the constant's own")]
            fn constant(constant: Constant) -> Self {
                match constant {
                    Constant::Number(bits) => f64::from_bits(bits) as $ty,
                    Constant::Integer(value) => value as $ty,
                }
            }
            fn lanes(all: &[Self]) -> Lanes<'_> {
                Lanes::$class(all)
            }
            fn lanes_mut(all: &mut [Self]) -> LanesMut<'_> {
                LanesMut::$class(all)
            }
            fn slice(lanes: Lanes<'_>) -> &[Self] {
                debug_assert!(matches!(lanes, Lanes::$class(_)), "{lanes:?} as {:?}", Class::$class);
                if let Lanes::$class(all) = lanes { all } else { &[] }
            }
        }
    )*};
}

scalars!(f32: F32, f64: F64, i32: I32, i64: I64);
