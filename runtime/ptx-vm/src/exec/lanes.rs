//! Loops over all 32 lanes: an instruction is a function of one lane's values.

use crate::exec::context::{Context, Flow};
use crate::exec::lane::Lane;
use crate::program::Instruction;

/// A function of one operand.
pub(crate) trait Unary {
    type A: Lane;
    type D: Lane;
    fn apply(a: Self::A) -> Self::D;
}

/// A function of two operands.
pub(crate) trait Binary {
    type A: Lane;
    type B: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B) -> Self::D;
}

/// A function of three operands.
pub(crate) trait Ternary {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

/// A comparison.
pub(crate) trait Relation {
    type A: Lane;
    fn holds(a: Self::A, b: Self::A) -> bool;
}

/// The effect of an instruction. [`crate::exec::dispatch::handler`] makes it a handler for the host's SIMD level.
pub(crate) trait Operation {
    fn run(context: &mut Context<'_>, instruction: &Instruction, mask: u32) -> Flow;
}

/// `d = f(a)` in every lane.
pub(crate) struct Map1<F>(F);
/// `d = f(a, b)` in every lane.
pub(crate) struct Map2<F>(F);
/// `d = f(a, b, c)` in every lane.
pub(crate) struct Map3<F>(F);

impl<F: Unary> Operation for Map1<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let a = context.lanes::<F::A>(i.a);
        let mut d = [<F::D as Lane>::Cell::default(); 32];
        for lane in 0..32 {
            d[lane] = F::apply(F::A::from_cell(a[lane])).to_cell();
        }
        context.put::<F::D>(i.d, &d, mask);
        Flow::Next
    }
}

impl<F: Binary> Operation for Map2<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (a, b) = (context.lanes::<F::A>(i.a), context.lanes::<F::B>(i.b));
        let mut d = [<F::D as Lane>::Cell::default(); 32];
        for lane in 0..32 {
            d[lane] = F::apply(F::A::from_cell(a[lane]), F::B::from_cell(b[lane])).to_cell();
        }
        context.put::<F::D>(i.d, &d, mask);
        Flow::Next
    }
}

impl<F: Ternary> Operation for Map3<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (a, b, c) = (context.lanes::<F::A>(i.a), context.lanes::<F::B>(i.b), context.lanes::<F::C>(i.c));
        let mut d = [<F::D as Lane>::Cell::default(); 32];
        for lane in 0..32 {
            let (x, y) = (F::A::from_cell(a[lane]), F::B::from_cell(b[lane]));
            d[lane] = F::apply(x, y, F::C::from_cell(c[lane])).to_cell();
        }
        context.put::<F::D>(i.d, &d, mask);
        Flow::Next
    }
}

/// Like [`Map2`], for a slow function that is computed only for active lanes.
pub(crate) struct Sparse2<F>(F);

impl<F: Binary> Operation for Sparse2<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in crate::exec::context::lanes_of(mask) {
            let d = F::apply(context.get(i.a, lane), context.get(i.b, lane));
            context.lanes_mut::<F::D>(i.d)[lane] = d.to_cell();
        }
        Flow::Next
    }
}

/// One bit for each byte: set if the byte is 1. The bytes must be 0 or 1.
#[inline(always)]
pub(crate) fn pack(bytes: &[u8; 32]) -> u32 {
    let mut bits = 0;
    for (n, chunk) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7]]);
        // The product collects the low bits of all bytes in the top byte.
        let gathered = word.wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= (gathered as u32) << (8 * n);
    }
    bits
}

/// Defines functions as types: `unary! { Name(a: u32) -> u32 { !a } }`.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($a:ident: $ta:ty) -> $td:ty $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl $crate::exec::lanes::Unary for $name {
            type A = $ta;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta) -> $td $body
        }
    )*};
    ($($(#[$doc:meta])* $name:ident($a:ident: $ta:ty, $b:ident: $tb:ty) -> $td:ty $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl $crate::exec::lanes::Binary for $name {
            type A = $ta;
            type B = $tb;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb) -> $td $body
        }
    )*};
    ($($(#[$doc:meta])* $name:ident($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) -> $td:ty $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl $crate::exec::lanes::Ternary for $name {
            type A = $ta;
            type B = $tb;
            type C = $tc;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb, $c: $tc) -> $td $body
        }
    )*};
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::pack;

    #[test]
    fn packing_keeps_every_lane_in_its_place() {
        for lane in 0..32 {
            let mut bytes = [0; 32];
            bytes[lane] = 1;
            assert_eq!(pack(&bytes), 1 << lane);
        }
        assert_eq!(pack(&[1; 32]), u32::MAX);
    }
}
