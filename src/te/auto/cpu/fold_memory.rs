//! Combines many values at once: rows of memory into lanes.
//!
//! Every lane combines its values one after another, in the order of the rows. So the bits don't depend on how many
//! rows or lanes vector code takes at a time.

use half::{bf16, f16};

use super::fold_by_comparison::{Compared, Contiguous};
use super::registers::RegisterLane;
use crate::ElementType;
use crate::expr::Op;
use crate::lane::Operation;
use crate::simd::convert::{GROUP, Widen};
use crate::simd::{Float, Vectorised, dispatch};

/// The number of rows combined in one pass over the lanes. The CPU prefetches that many streams, and lanes are loaded
/// and stored that many times less often.
const ROWS: usize = 8;
/// The number of lanes held in registers while rows are combined into them.
const HELD: usize = 64;
/// Bytes of lanes that stay in the first-level cache while rows stream through it.
const NEAR: usize = 8 << 10;

/// A combination of two values that vector code can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) enum Combine {
    Add,
    Mul,
    Min,
    Max,
}

impl Combine {
    pub(in crate::te::auto) const fn of(operation: Operation) -> Option<Self> {
        Some(match operation {
            Operation::Apply(Op::Add) => Self::Add,
            Operation::Apply(Op::Mul) => Self::Mul,
            Operation::Apply(Op::Min) => Self::Min,
            Operation::Apply(Op::Max) => Self::Max,
            _ => return None,
        })
    }
}

impl Combine {
    /// Whether it gives the largest; `None` if it gives neither the largest nor the least.
    const fn largest(self) -> Option<bool> {
        match self {
            Self::Max => Some(true),
            Self::Min => Some(false),
            Self::Add | Self::Mul => None,
        }
    }
}

/// A type whose values are combined here exactly as the steps of a strip combine them.
pub(in crate::te::auto) trait Combined: RegisterLane {
    /// The summand that changes no sum: -0 for floats.
    const NOTHING: Self;

    fn add(self, y: Self) -> Self;
    fn mul(self, y: Self) -> Self;
    fn least(self, y: Self) -> Self;
    fn greatest(self, y: Self) -> Self;
}

macro_rules! combined {
    ($($ty:ty: $nothing:expr, $add:expr, $mul:expr, $min:expr, $max:expr;)*) => {$(
        impl Combined for $ty {
            const NOTHING: Self = $nothing;

            #[inline(always)]
            fn add(self, y: Self) -> Self { ($add)(self, y) }
            #[inline(always)]
            fn mul(self, y: Self) -> Self { ($mul)(self, y) }
            #[inline(always)]
            fn least(self, y: Self) -> Self { ($min)(self, y) }
            #[inline(always)]
            fn greatest(self, y: Self) -> Self { ($max)(self, y) }
        }
    )*};
}

combined! {
    f32: -0.0, |x, y| x + y, |x, y| x * y, <f32 as Float>::minimum, <f32 as Float>::maximum;
    f64: -0.0, |x, y| x + y, |x, y| x * y, <f64 as Float>::minimum, <f64 as Float>::maximum;
    i32: 0, i32::wrapping_add, i32::wrapping_mul, Ord::min, Ord::max;
    i64: 0, i64::wrapping_add, i64::wrapping_mul, Ord::min, Ord::max;
}

/// Runs `$call` with the function of a combination as `$f`.
macro_rules! by_combine {
    ($op:expr, $T:ty, $f:ident => $call:expr) => {
        match $op {
            Combine::Add => {
                let $f = <$T as Combined>::add;
                $call
            }
            Combine::Mul => {
                let $f = <$T as Combined>::mul;
                $call
            }
            Combine::Min => {
                let $f = <$T as Combined>::least;
                $call
            }
            Combine::Max => {
                let $f = <$T as Combined>::greatest;
                $call
            }
        }
    };
}

pub(super) use by_combine;

/// Rows of elements in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) struct FoldedRows {
    pub(in crate::te::auto) address: u64,
    pub(in crate::te::auto) element: ElementType,
    /// Distance between the elements of a row for neighbouring lanes, in elements.
    pub(in crate::te::auto) apart: isize,
    pub(in crate::te::auto) count: usize,
    /// Distance between rows, in elements.
    pub(in crate::te::auto) stride: isize,
}

/// Outputs whose elements are contiguous in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) struct Outputs {
    pub(in crate::te::auto) address: u64,
    pub(in crate::te::auto) element: ElementType,
    /// Number of elements of an output.
    pub(in crate::te::auto) count: usize,
    /// Distance between the first elements of neighbouring outputs, in elements.
    pub(in crate::te::auto) apart: isize,
    pub(in crate::te::auto) lanes: RegisterLanes,
}

impl Outputs {
    /// The outputs from one of them on.
    fn from(self, first: usize) -> Self {
        let bytes = first as i64 * self.apart as i64 * self.element.size() as i64;
        Self { address: self.address.wrapping_add_signed(bytes), ..self }
    }
}

/// The number of lanes of an output: as many as registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) enum RegisterLanes {
    Eight,
    Sixteen,
    ThirtyTwo,
    SixtyFour,
}

impl RegisterLanes {
    pub(in crate::te::auto) const fn of(lanes: i64) -> Option<Self> {
        Some(match lanes {
            8 => Self::Eight,
            16 => Self::Sixteen,
            32 => Self::ThirtyTwo,
            64 => Self::SixtyFour,
            _ => return None,
        })
    }
}

/// A type of lanes into which elements in memory can be combined.
pub(in crate::te::auto) trait FromMemory: Combined {
    /// Combines every lane with its elements of all rows.
    ///
    /// # Safety
    /// The rows' elements for all lanes must be readable and aligned, and nobody else may write them during the call.
    unsafe fn fold(op: Combine, lanes: &mut [Self], rows: &FoldedRows);

    /// Combines each output's elements to its total. Element `i` is combined into lane `i` modulo the number of lanes,
    /// which start from the identity; then neighbouring lanes are combined.
    ///
    /// # Safety
    /// The elements of all outputs that have totals must be readable and aligned, and nobody else may write them during
    /// the call.
    unsafe fn fold_outputs(op: Combine, totals: &mut [Self], identity: Self, outputs: &Outputs);
}

macro_rules! from_memory {
    ($($T:ty: $($element:ident $S:ty),*;)*) => {$(
        impl FromMemory for $T {
            unsafe fn fold(op: Combine, lanes: &mut [Self], rows: &FoldedRows) {
                match rows.element {
                    $(ElementType::$element => {
                        let from = rows.address as *const $S;
                        by_combine!(op, $T, f => dispatch(FoldRows { lanes, from, rows, f }));
                    })*
                    other => debug_assert!(false, "{other} is not held as {}", stringify!($T)),
                }
            }

            unsafe fn fold_outputs(op: Combine, totals: &mut [Self], identity: Self, outputs: &Outputs) {
                match outputs.element {
                    $(ElementType::$element => {
                        let fold = |totals: &mut [$T], outputs: &Outputs| {
                            let from = outputs.address as *const $S;
                            by_combine!(op, $T, f => dispatch(FoldOutputs { totals, from, outputs, identity, f }));
                        };
                        let Outputs { address, count, apart, .. } = *outputs;
                        let all = Contiguous { address, count, apart };
                        // SAFETY: the caller's promise.
                        let compared = op.largest().and_then(|largest| unsafe {
                            <$S as Compared<$T>>::extremes(largest, totals, identity, all)
                        });
                        match compared {
                            None => fold(totals, outputs),
                            Some(others) => others.into_iter().for_each(|i| fold(&mut totals[i..=i], &outputs.from(i))),
                        }
                    })*
                    other => debug_assert!(false, "{other} is not held as {}", stringify!($T)),
                }
            }
        }
    )*};
}

from_memory! {
    f32: F32 f32, F16 f16, BF16 bf16;
    f64: F64 f64;
    i32: I32 i32, I8 i8, U8 u8;
    i64: I64 i64;
}

struct FoldRows<'a, S, T, F> {
    lanes: &'a mut [T],
    from: *const S,
    rows: &'a FoldedRows,
    f: F,
}

/// Combines lanes with a row of as many elements, a multiple of [`GROUP`].
///
/// # Safety
/// The conditions of [`Widen::widen_group`].
#[inline(always)]
unsafe fn combine<const FMA: bool, const WIDTH: usize, S: Widen<T>, T: Copy>(
    held: &mut [T; WIDTH],
    row: &[S; WIDTH],
    f: &impl Fn(T, T) -> T,
) {
    // SAFETY: the caller's promise.
    let x = unsafe { S::widen_row::<FMA, WIDTH>(row) };
    // By reference, because the compiler doesn't always see through an array's own iterator, and the loop would be
    // scalar then.
    for (held, x) in held.iter_mut().zip(&x) {
        *held = f(*held, *x);
    }
}

impl<S: Widen<T>, T: Copy, F: Fn(T, T) -> T> FoldRows<'_, S, T, F> {
    /// Rows in which neighbouring lanes are neighbours.
    ///
    /// # Safety
    /// The conditions of [`combine`].
    #[inline(always)]
    unsafe fn packed<const FMA: bool>(mut self) {
        // Contiguous rows are one stream already; reading several places of a page at once would hide it from the
        // prefetcher. Long rows, read one at a time, would displace their lanes from the first-level cache.
        let follow = self.rows.stride == self.lanes.len() as isize && size_of_val(self.lanes) <= NEAR;
        let together = if follow { 1 } else { ROWS };
        for first in (0..self.rows.count).step_by(together) {
            // SAFETY: the caller's promise.
            unsafe { self.pass::<FMA>(first, together.min(self.rows.count - first)) };
        }
    }

    /// One pass over the lanes, with some rows.
    ///
    /// # Safety
    /// The conditions of [`combine`].
    #[inline(always)]
    unsafe fn pass<const FMA: bool>(&mut self, first: usize, count: usize) {
        let Self { from, rows, f, .. } = self;
        let start = from.wrapping_offset(first as isize * rows.stride);
        let (blocks, rest) = self.lanes.as_chunks_mut::<HELD>();
        let done = blocks.len() * HELD;
        for (number, lanes) in blocks.iter_mut().enumerate() {
            let start = start.wrapping_add(number * HELD);
            let mut held = *lanes;
            for row in 0..count {
                // SAFETY: the caller of `fold` promised that the rows can be read for all lanes; the caller's promise.
                unsafe {
                    let row = &*start.wrapping_offset(row as isize * rows.stride).cast::<[S; HELD]>();
                    combine::<FMA, HELD, S, T>(&mut held, row, f);
                }
            }
            *lanes = held;
        }
        let (groups, rest) = rest.as_chunks_mut::<GROUP>();
        for row in 0..count {
            let start = start.wrapping_add(done).wrapping_offset(row as isize * rows.stride);
            for (number, lanes) in groups.iter_mut().enumerate() {
                // SAFETY: as above.
                unsafe {
                    let row = &*start.wrapping_add(number * GROUP).cast::<[S; GROUP]>();
                    combine::<FMA, GROUP, S, T>(lanes, row, f);
                }
            }
            let start = start.wrapping_add(groups.len() * GROUP);
            for (i, lane) in rest.iter_mut().enumerate() {
                // SAFETY: as above.
                *lane = f(*lane, unsafe { start.wrapping_add(i).read() }.widen());
            }
        }
    }

    /// Contiguous rows of `WIDTH` lanes: the lanes stay in registers.
    ///
    /// # Safety
    /// The conditions of [`combine`].
    #[inline(always)]
    unsafe fn stream<const FMA: bool, const WIDTH: usize>(self) {
        let Self { lanes, from, rows, f } = self;
        let Some((lanes, _)) = lanes.split_first_chunk_mut::<WIDTH>() else { return };
        // SAFETY: the caller of `fold` promised that all rows can be read; together they are these elements.
        let elements = unsafe { std::slice::from_raw_parts(from, rows.count * WIDTH) };
        let mut held = *lanes;
        for row in elements.as_chunks::<WIDTH>().0 {
            // SAFETY: the caller's promise.
            unsafe { combine::<FMA, WIDTH, S, T>(&mut held, row, &f) };
        }
        *lanes = held;
    }

    /// The elements of a lane, of all rows, are contiguous, and are followed by those of the next lane.
    #[inline(always)]
    fn dense<const COUNT: usize>(self) {
        let Self { lanes, from, f, .. } = self;
        // SAFETY: the caller of `fold` promised that all rows can be read; together they are these elements.
        let elements = unsafe { std::slice::from_raw_parts(from, lanes.len() * COUNT) };
        for (lane, own) in lanes.iter_mut().zip(elements.as_chunks::<COUNT>().0) {
            for x in own {
                *lane = f(*lane, x.widen());
            }
        }
    }

    /// The elements of each lane are contiguous.
    #[inline(always)]
    fn lane_by_lane(self) {
        let Self { lanes, from, rows, f } = self;
        for (number, lane) in lanes.iter_mut().enumerate() {
            let start = from.wrapping_offset(number as isize * rows.apart);
            // SAFETY: the caller of `fold` promised that the rows can be read for all lanes.
            for x in unsafe { std::slice::from_raw_parts(start, rows.count) } {
                *lane = f(*lane, x.widen());
            }
        }
    }

    /// Lanes at any distance.
    #[inline(always)]
    fn strided(self) {
        let Self { lanes, from, rows, f } = self;
        for number in 0..rows.count {
            let start = from.wrapping_offset(number as isize * rows.stride);
            for (i, lane) in lanes.iter_mut().enumerate() {
                // SAFETY: the caller of `fold` promised that the rows can be read for all lanes.
                *lane = f(*lane, unsafe { start.wrapping_offset(i as isize * rows.apart).read() }.widen());
            }
        }
    }
}

impl<S: Widen<T>, T: Copy, F: Fn(T, T) -> T> Vectorised for FoldRows<'_, S, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (width, rows) = (self.lanes.len(), self.rows);
        let follow = rows.apart == 1 && rows.stride == width as isize;
        let dense = rows.stride == 1 && rows.apart == rows.count as isize;
        // SAFETY: `FMA` is what this function was given.
        unsafe {
            match rows.count {
                _ if follow && width == 64 => self.stream::<FMA, 64>(),
                _ if follow && width == 32 => self.stream::<FMA, 32>(),
                _ if follow && width == 16 => self.stream::<FMA, 16>(),
                _ if follow && width == 8 => self.stream::<FMA, 8>(),
                _ if rows.apart == 1 => self.packed::<FMA>(),
                2 if dense => self.dense::<2>(),
                3 if dense => self.dense::<3>(),
                4 if dense => self.dense::<4>(),
                _ if rows.stride == 1 => self.lane_by_lane(),
                _ => self.strided(),
            }
        }
    }
}

struct FoldOutputs<'a, S, T, F> {
    totals: &'a mut [T],
    from: *const S,
    outputs: &'a Outputs,
    identity: T,
    f: F,
}

/// Number of lanes, of several outputs, that are combined together to one for each output: a power of two, not less
/// than the lanes of one output.
pub(super) const BLOCK: usize = 512;

impl<S: Widen<T>, T: Copy, F: Fn(T, T) -> T> FoldOutputs<'_, S, T, F> {
    /// # Safety
    /// The conditions of [`combine`].
    #[inline(always)]
    unsafe fn by_blocks<const FMA: bool, const LANES: usize>(self) {
        let Self { totals, from, outputs: &Outputs { count, apart, .. }, identity, f } = self;
        let mut lanes = [identity; BLOCK];
        let mut half = [identity; BLOCK / 2];
        for (number, totals) in totals.chunks_mut(BLOCK / LANES).enumerate() {
            let first = from.wrapping_offset((number * (BLOCK / LANES)) as isize * apart);
            for (row, lanes) in lanes.as_chunks_mut::<LANES>().0.iter_mut().take(totals.len()).enumerate() {
                let start = first.wrapping_offset(row as isize * apart);
                // SAFETY: the caller of `fold_outputs` promised that the elements of every output can be read.
                let elements = unsafe { std::slice::from_raw_parts(start, count) };
                let (rows, rest) = elements.as_chunks::<LANES>();
                let mut held = [identity; LANES];
                for row in rows {
                    // SAFETY: the caller's promise.
                    unsafe { combine::<FMA, LANES, S, T>(&mut held, row, &f) };
                }
                *lanes = held;
                for (lane, x) in lanes.iter_mut().zip(rest) {
                    *lane = f(*lane, x.widen());
                }
            }
            // One level of the trees of all outputs at once: neighbours stay neighbours, whichever output they belong
            // to.
            let (mut left, mut width) = (totals.len() * LANES, LANES);
            while width > 1 {
                (left, width) = (left / 2, width / 2);
                for (half, [a, b]) in half[..left].iter_mut().zip(lanes.as_chunks::<2>().0) {
                    *half = f(*a, *b);
                }
                lanes[..left].copy_from_slice(&half[..left]);
            }
            totals.copy_from_slice(&lanes[..totals.len()]);
        }
    }
}

impl<S: Widen<T>, T: Copy, F: Fn(T, T) -> T> Vectorised for FoldOutputs<'_, S, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // SAFETY: `FMA` is what this function was given.
        unsafe {
            match self.outputs.lanes {
                RegisterLanes::Eight => self.by_blocks::<FMA, 8>(),
                RegisterLanes::Sixteen => self.by_blocks::<FMA, 16>(),
                RegisterLanes::ThirtyTwo => self.by_blocks::<FMA, 32>(),
                RegisterLanes::SixtyFour => self.by_blocks::<FMA, 64>(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold_lanes::fold_lanes;
    use super::*;

    #[test]
    fn rows_fold_in_order_whatever_their_number_and_distance() {
        let values: Vec<f32> = (0..4000u16).map(|i| f32::from(i % 37) * 0.37 - 5.0).collect();
        for (lanes, count, apart, stride) in [
            (1, 1, 1, 1),
            (7, 9, 1, 7),
            (64, 11, 1, 70),
            (5, 4, 3, 16),
            (33, 3, 2, 67),
            (9, 5, 40, 1),
            (3, 0, 1, 1),
            (50, 3, 3, 1),
            (41, 2, 2, 1),
            (6, 4, 4, 1),
            (8, 30, 1, 8),
            (64, 30, 1, 64),
            (150, 13, 1, 161),
            (150, 13, 1, 150),
            (12, 7, 9, 1),
        ] {
            for op in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
                let mut got: Vec<f32> = (0..lanes).map(|i| i as f32 * 0.5 - 1.0).collect();
                let mut want = got.clone();
                for (lane, want) in want.iter_mut().enumerate() {
                    for row in 0..count {
                        let x = values[row * stride + lane * apart];
                        *want = by_combine!(op, f32, f => f(*want, x));
                    }
                }
                let (address, element) = (values.as_ptr() as u64, ElementType::F32);
                let rows = FoldedRows { address, element, apart: apart as isize, count, stride: stride as isize };
                // SAFETY: the largest index is below the number of values.
                unsafe { f32::fold(op, &mut got, &rows) };
                assert_eq!(got, want, "{op:?} of {count} rows");
            }
        }
    }

    #[test]
    fn elements_of_every_type_are_widened() {
        fn check<S: Widen<T> + bytemuck::Pod, T: FromMemory + std::fmt::Debug>(values: &[S], element: ElementType) {
            for lanes in [5, 8, 100, 400] {
                for (count, apart, stride) in
                    [(9, 1, lanes as isize + 3), (9, 1, lanes as isize), (3, 3, 1), (9, 11, 1)]
                {
                    let mut got = vec![T::default(); lanes];
                    let mut want = got.clone();
                    for (lane, want) in want.iter_mut().enumerate() {
                        for row in 0..count {
                            *want = want.add(values[row * stride as usize + lane * apart as usize].widen());
                        }
                    }
                    let rows = FoldedRows { address: values.as_ptr() as u64, element, apart, count, stride };
                    // SAFETY: the largest index is below the number of values.
                    unsafe { T::fold(Combine::Add, &mut got, &rows) };
                    assert_eq!(got, want, "{element}: {lanes} lanes, {count} rows, {apart} apart, stride {stride}");
                }
            }
        }
        let of = |i: u16| f32::from(i % 211) * 0.37 - 20.0;
        check::<f16, f32>(&(0..5000).map(|i| f16::from_f32(of(i))).collect::<Vec<_>>(), ElementType::F16);
        check::<bf16, f32>(&(0..5000).map(|i| bf16::from_f32(of(i))).collect::<Vec<_>>(), ElementType::BF16);
        check::<f64, f64>(&(0..5000).map(|i| f64::from(of(i))).collect::<Vec<_>>(), ElementType::F64);
        check::<i8, i32>(&(0..5000u16).map(|i| i as i8).collect::<Vec<_>>(), ElementType::I8);
        check::<u8, i32>(&(0..5000u16).map(|i| i as u8).collect::<Vec<_>>(), ElementType::U8);
        check::<i32, i32>(&(0..5000i32).map(|i| i.wrapping_mul(0x3579_bdf1)).collect::<Vec<_>>(), ElementType::I32);
        check::<i64, i64>(&(0..5000i64).map(|i| i << 40).collect::<Vec<_>>(), ElementType::I64);
    }

    #[test]
    fn outputs_fold_as_lanes_and_a_tree() {
        let values: Vec<f32> = (0..17_000u16).map(|i| f32::from(i % 37) * 0.37 - 5.0).collect();
        for (lanes, in_registers) in [
            (8, RegisterLanes::Eight),
            (16, RegisterLanes::Sixteen),
            (32, RegisterLanes::ThirtyTwo),
            (64, RegisterLanes::SixtyFour),
        ] {
            for (count, apart) in
                [(0, 1), (3, 3), (16, 16), (21, 21), (64, 70), (77, 90), (200, 200), (333, 7), (130, 0)]
            {
                for op in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
                    let of = |output: usize| {
                        let mut all = vec![0.25f32; lanes];
                        for i in 0..count {
                            let x = values[output * apart + i];
                            all[i % lanes] = by_combine!(op, f32, f => f(all[i % lanes], x));
                        }
                        fold_lanes(op, &mut all, lanes);
                        all[0]
                    };
                    let want: Vec<f32> = (0..80).map(of).collect();
                    let mut got = [0.0; 80];
                    let (address, element, apart) = (values.as_ptr() as u64, ElementType::F32, apart as isize);
                    let outputs = Outputs { address, element, count, apart, lanes: in_registers };
                    // SAFETY: the largest index is below the number of values.
                    unsafe { f32::fold_outputs(op, &mut got, 0.25, &outputs) };
                    assert_eq!(got[..], want, "{op:?} of {count} elements in {lanes} lanes");
                }
            }
        }
    }

    #[test]
    fn extremes_of_outputs_pass_nan_on_and_order_zeros() {
        let rows =
            [[-0.0, 0.0, -0.0, -1.0], [-0.0; 4], [1.0, f32::NAN, 2.0, 3.0], [-5.0, -2.0, f32::NEG_INFINITY, -4.0]];
        let (address, element) = (rows.as_ptr() as u64, ElementType::F32);
        let outputs = Outputs { address, element, count: 4, apart: 4, lanes: RegisterLanes::Eight };
        let mut got = [7f32; 4];
        // SAFETY: the four outputs have four elements each.
        unsafe { f32::fold_outputs(Combine::Max, &mut got, f32::NEG_INFINITY, &outputs) };
        assert!(got[2].is_nan());
        assert_eq!([got[0], got[1], got[3]].map(f32::to_bits), [0.0f32, -0.0, -2.0].map(f32::to_bits));
    }
}
