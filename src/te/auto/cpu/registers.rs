//! The registers of strip programs.

use crate::lane::strip::Scalar;

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
pub(in crate::te::auto) trait Lane: Scalar {
    fn all(registers: &Registers) -> &Vec<Vec<Self>>;
    fn all_mut(registers: &mut Registers) -> &mut Vec<Vec<Self>>;
}

macro_rules! lanes {
    ($($ty:ty: $field:ident),*) => {$(
        impl Lane for $ty {
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
