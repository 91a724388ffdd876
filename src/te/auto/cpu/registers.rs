//! The registers of strip programs.

use super::program::Constant;

/// The most lanes of a strip.
pub(in crate::te::auto) const LANES: usize = 512;

/// A thread's registers.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Registers {
    pub(super) f32s: Vec<Vec<f32>>,
    pub(super) f64s: Vec<Vec<f64>>,
    pub(super) i32s: Vec<Vec<i32>>,
    pub(super) i64s: Vec<Vec<i64>>,
    /// Values of points that outputs use again: see [`ReuseRegisters`](super::reused::ReuseRegisters).
    pub(super) kept: Vec<f32>,
}

/// A type that registers hold.
pub(in crate::te::auto) trait Lane: Copy + Default + PartialEq + PartialOrd + Send + Sync {
    fn all(registers: &Registers) -> &Vec<Vec<Self>>;
    fn all_mut(registers: &mut Registers) -> &mut Vec<Vec<Self>>;
    /// The constant, rounded or truncated to this type.
    fn of(constant: Constant) -> Self;
}

macro_rules! lanes {
    ($($ty:ty: $field:ident),*) => {$(
        impl Lane for $ty {
            #[allow(clippy::unnecessary_cast, reason = "one of the types is the constant's own")]
            fn of(constant: Constant) -> Self {
                match constant {
                    Constant::Number(bits) => f64::from_bits(bits) as $ty,
                    Constant::Integer(value) => value as $ty,
                }
            }
            fn all(registers: &Registers) -> &Vec<Vec<Self>> {
                &registers.$field
            }
            fn all_mut(registers: &mut Registers) -> &mut Vec<Vec<Self>> {
                &mut registers.$field
            }
        }
    )*};
}

lanes!(f32: f32s, f64: f64s, i32: i32s, i64: i64s);
