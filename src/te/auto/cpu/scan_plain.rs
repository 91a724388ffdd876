//! Simple scans of one state, done directly on memory and without strips: the update is one operation, or a
//! multiply-add.
//!
//! The result of a column doesn't depend on how columns are divided among threads.

use super::elements::{Affine, Elements};
use super::fold_memory::{Combine, Combined};
use super::memory::Written;
use crate::exhaustion::repeated;
use crate::expr::Op;
use crate::lane::Operation;
use crate::lane::{Class, LaneStep, Register};
use crate::simd::stream::{self, Fence};
use crate::simd::{Vectorised, dispatch};
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::{ElementType, parallel};

/// The number of columns that are computed at once, step by step: their steps overlap.
const BESIDE: usize = 4;
/// The number of neighbouring elements whose running sums are computed at once, in the lanes of vectors. It is the same on
/// every machine, and so are the sums' bits.
pub(super) const GROUP: usize = 16;
/// The number of steps that are summed from nothing on: where threads share a column, each sums blocks of its own.
const BLOCK: usize = 1024;
/// The number of blocks in a task.
const TASK: usize = 16;
/// The number of neighbouring columns whose step is computed at once.
const TOGETHER: usize = 32;
/// The fewest neighbouring columns that are worth vector code.
const FEW: usize = 8;
/// The number of neighbouring columns whose states stay in registers. Threads that walk down narrow columns share memory
/// better than threads that take half of every row: a sum of 4096 x 1024 takes two threads 0.68 ms in place of 0.97 (Zen 5).
pub(super) const HELD: usize = 128;
/// How many steps ahead their elements are fetched: where each row of memory is a page of its own, the CPU's own fetching begins
/// anew for each. (Zen 4, a linear recurrence down 4096 x 1024: 1.0 to 1.9 ms on two threads, in place of 2.6 to 3.5.)
const AHEAD: isize = 12;

/// The form of the update: the state combined with an element, or a multiple of the state added to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Combine(Combine),
    Linear,
}

/// A simple scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    form: Form,
    x: Affine,
    /// The factor of the state; the same as `x` if there is none.
    a: Affine,
    y: Written,
    /// The output's number.
    output: usize,
    /// Whether sums of contiguous elements are made in groups, not one after another.
    in_groups: bool,
}

/// Distances between columns, and between steps, of `x`, `a` and the output, in elements.
struct Strides {
    columns: [isize; 3],
    steps: [isize; 3],
}

/// Runs `$call` with `$f`, the function that gives the next state from the state and the elements of `a` and `x`.
macro_rules! by_form {
    ($form:expr, $T:ty, $f:ident => $call:expr) => {
        match $form {
            Form::Combine(Combine::Add) => {
                let $f = |s: $T, _: $T, x: $T| s.add(x);
                $call
            }
            Form::Combine(Combine::Mul) => {
                let $f = |s: $T, _: $T, x: $T| s.mul(x);
                $call
            }
            Form::Combine(Combine::Min) => {
                let $f = |s: $T, _: $T, x: $T| s.least(x);
                $call
            }
            Form::Combine(Combine::Max) => {
                let $f = |s: $T, _: $T, x: $T| s.greatest(x);
                $call
            }
            Form::Linear => {
                let $f = |s: $T, a: $T, x: $T| a.mul(s).add(x);
                $call
            }
        }
    };
}

impl Plain {
    /// The scan, if it is a simple one; `outputs` are what a step stores.
    pub(super) fn of(
        state: &[Register],
        (steps, new): (&[LaneStep], &[Register]),
        outputs: &[(usize, Register)],
        elements: &Elements,
        written: &[Written],
    ) -> Option<Self> {
        let (&[state], &[new], &[(output, stored)]) = (state, new, outputs) else { return None };
        if stored != state {
            return None;
        }
        let other = |a: Register, b: Register, known: Register| match (a == known, b == known) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        };
        let of_two = |step: &LaneStep| match *step.operands() {
            [a, b] => Some((step.operation, step.to, a, b)),
            _ => None,
        };
        let (form, a, x) = match *steps.iter().map(of_two).collect::<Option<Vec<_>>>()? {
            [(operation, to, a, b)] if to == new => {
                let x = other(a, b, state)?;
                (Form::Combine(Combine::of(operation)?), x, x)
            }
            [(Operation::Apply(Op::Mul), product, a, b), (Operation::Apply(Op::Add), to, c, d)] if to == new => {
                (Form::Linear, other(a, b, state)?, other(c, d, product)?)
            }
            _ => return None,
        };
        let (a, x, y) = (elements.affine(a)?, elements.affine(x)?, written[output]);
        let same = [a.element, x.element].iter().all(|element| *element == y.element && is_held(state, *element));
        same.then_some(Self { form, x, a, y, output, in_groups: false })
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(super) fn moved(&mut self, by: &[i64]) {
        self.x.moved(by);
        self.a.moved(by);
        self.y.moved(by);
    }

    fn strides(&self, outer: &[LoopLevel], inner: &[LoopLevel]) -> Strides {
        let of = |levels: &[LoopLevel]| -> [isize; 3] {
            let Some(level) = levels.last() else { return [0; 3] };
            [
                level.reads[self.x.place] as isize,
                level.reads[self.a.place] as isize,
                level.outputs[self.output] as isize,
            ]
        };
        Strides { columns: of(outer), steps: of(inner) }
    }

    /// Whether neighbouring columns are neighbours in memory, so that vector code does a step of many columns.
    pub(super) fn is_across(&self, outer: &[LoopLevel], inner: &[LoopLevel]) -> bool {
        let strides = self.strides(outer, inner);
        strides.columns == [1; 3] && strides.steps != [1; 3]
    }

    /// This scan with sums in groups, if it sums contiguous elements.
    pub(super) fn grouped(self, outer: &[LoopLevel], inner: &[LoopLevel]) -> Self {
        let in_groups = self.form == Form::Combine(Combine::Add) && self.strides(outer, inner).steps == [1; 3];
        Self { in_groups, ..self }
    }

    /// Whether sums are made in groups.
    pub(super) const fn is_grouped(&self) -> bool {
        self.in_groups
    }

    /// The addresses of the first step of a column.
    fn first<T>(&self, outer: &[LoopLevel], index: &[i64]) -> (*const T, *const T, *mut T) {
        let offset = |step: &dyn Fn(&LoopLevel) -> i64| -> isize {
            outer.iter().zip(index).map(|(level, i)| step(level) * i).sum::<i64>() as isize
        };
        let at = |read: &Affine| (read.address as *const T).wrapping_offset(offset(&|level| level.reads[read.place]));
        let y = (self.y.address as *mut T).wrapping_offset(offset(&|level| level.outputs[self.output]));
        (at(&self.x), at(&self.a), y)
    }

    /// Computes neighbouring columns, along the last of the loops over them, starting from their states before the
    /// first step.
    ///
    /// # Safety
    /// Only this thread may access the elements of the columns; they must be of type `T`.
    pub(super) unsafe fn walk<T: Combined>(
        &self,
        state: &[T],
        (outer, inner): (&[LoopLevel], &[LoopLevel]),
        index: &[i64],
        steps: usize,
    ) {
        let (x, a, y) = self.first::<T>(outer, index);
        let strides = self.strides(outer, inner);
        if self.in_groups {
            for (column, state) in state.iter().enumerate() {
                let [cx, _, cy] = strides.columns.map(|stride| stride * column as isize);
                // SAFETY: the caller's promise; a step's elements follow those of the step before.
                let (x, y) = unsafe {
                    let x = std::slice::from_raw_parts(x.wrapping_offset(cx), steps);
                    (x, std::slice::from_raw_parts_mut(y.wrapping_offset(cy), steps))
                };
                walk_blocks(x, y, *state);
            }
            return;
        }
        if self.is_across(outer, inner) && state.len() >= FEW {
            let (strides, far) = (strides.steps, self.y.far);
            by_form!(self.form, T, f => dispatch(Across { state, x, a, y, steps, strides, far, f }));
            return;
        }
        let mut columns = state.chunks_exact(BESIDE);
        let at = |column: usize| {
            let [cx, ca, cy] = strides.columns.map(|stride| stride * column as isize);
            (x.wrapping_offset(cx), a.wrapping_offset(ca), y.wrapping_offset(cy))
        };
        let mut first = 0;
        for group in &mut columns {
            let state: [T; BESIDE] = std::array::from_fn(|i| group[i]);
            let from = std::array::from_fn(|i| at(first + i));
            // SAFETY: the caller's promise.
            by_form!(self.form, T, f => unsafe {
                if strides.steps == [1; 3] {
                    beside(state, from, steps, [1; 3], f);
                } else {
                    beside(state, from, steps, strides.steps, f);
                }
            });
            first += BESIDE;
        }
        for state in columns.remainder() {
            // SAFETY: the caller's promise.
            by_form!(self.form, T, f => unsafe { beside([*state], [at(first)], steps, strides.steps, f) });
            first += 1;
        }
    }

    /// Computes one long column of sums, which threads share: all blocks are summed before any is computed. The bits are
    /// those of [`Plain::walk`].
    ///
    /// # Safety
    /// The conditions of [`Plain::walk`], but other threads of the pool take part; [`Plain::is_grouped`] must hold.
    pub(super) unsafe fn share<T: Combined>(&self, state: T, outer: &[LoopLevel], index: &[i64], steps: usize) {
        let (x, _, y) = self.first::<T>(outer, index);
        // SAFETY: the caller's promise.
        let (x, y) = unsafe { (std::slice::from_raw_parts(x, steps), std::slice::from_raw_parts_mut(y, steps)) };
        let mut starts = repeated(T::NOTHING, steps / BLOCK + 1);
        parallel::for_each(starts.chunks_mut(TASK).zip(x.chunks(TASK * BLOCK)), |(totals, x)| {
            for (total, x) in totals.iter_mut().zip(x.as_chunks::<BLOCK>().0) {
                *total = dispatch(Total { x });
            }
        });
        let mut state = state;
        for start in &mut starts {
            let total = std::mem::replace(start, state);
            state = state.add(total);
        }
        let tasks = y.chunks_mut(TASK * BLOCK).zip(x.chunks(TASK * BLOCK)).zip(starts.chunks(TASK));
        parallel::for_each(tasks, |((y, x), starts)| {
            for ((x, y), start) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)).zip(starts) {
                dispatch(Block { x, y, start: *start });
            }
        });
    }
}

/// Computes a column of sums, block by block.
fn walk_blocks<T: Combined>(x: &[T], y: &mut [T], mut state: T) {
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        state = state.add(dispatch(Block { x, y, start: state }));
    }
}

/// Whether a register holds elements of this type unchanged.
const fn is_held(register: Register, element: ElementType) -> bool {
    matches!(
        (register.class, element),
        (Class::F32, ElementType::F32)
            | (Class::F64, ElementType::F64)
            | (Class::I32, ElementType::I32)
            | (Class::I64, ElementType::I64)
    )
}

/// Neighbouring columns whose elements of a step are neighbours in memory.
struct Across<'a, T, F> {
    state: &'a [T],
    x: *const T,
    a: *const T,
    y: *mut T,
    steps: usize,
    /// Distances between steps, of `x`, `a` and `y`, in elements.
    strides: [isize; 3],
    /// Whether the output is written past the caches, by what needn't read it again.
    far: bool,
    f: F,
}

impl<T: Copy, F: Fn(T, T, T) -> T> Vectorised for Across<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { state, x, a, y, steps, strides, far, f } = self;
        if let Ok(state) = <[T; HELD]>::try_from(state) {
            let _fence = Fence;
            // SAFETY: the caller of `walk` promised that these elements belong to this thread.
            return unsafe { held(state, (x, a, y), steps, strides, far, f) };
        }
        let width = state.len();
        for step in 0..steps as isize {
            let [dx, da, dy] = strides.map(|stride| stride * step);
            let (x, a, y) = (x.wrapping_offset(dx), a.wrapping_offset(da), y.wrapping_offset(dy));
            let last = if step == 0 { state.as_ptr() } else { y.wrapping_offset(-strides[2]).cast_const() };
            let whole = width - width % TOGETHER;
            // SAFETY: the caller of `walk` promised that these elements belong to this thread; no two steps of an output
            // share an element.
            unsafe {
                for first in (0..whole).step_by(TOGETHER) {
                    beside_each_other::<T, TOGETHER>((last, x, a, y), first, &f);
                }
                (whole..width).for_each(|first| beside_each_other::<T, 1>((last, x, a, y), first, &f));
            }
        }
    }
}

/// A step of neighbouring columns. All elements are read before any is written: the compiler then uses vectors without
/// knowing which of them overlap.
///
/// # Safety
/// The conditions of [`Plain::walk`].
#[inline(always)]
unsafe fn beside_each_other<T: Copy, const COUNT: usize>(
    (last, x, a, y): (*const T, *const T, *const T, *mut T),
    first: usize,
    f: &impl Fn(T, T, T) -> T,
) {
    let read = |from: *const T| -> [T; COUNT] {
        // SAFETY: the caller's promise.
        unsafe { from.wrapping_add(first).cast::<[T; COUNT]>().read() }
    };
    let (mut state, x, a) = (read(last), read(x), read(a));
    for ((state, a), x) in state.iter_mut().zip(&a).zip(&x) {
        *state = f(*state, *a, *x);
    }
    // SAFETY: the caller's promise.
    unsafe { y.wrapping_add(first).cast::<[T; COUNT]>().write(state) };
}

/// Computes some columns, step by step.
///
/// # Safety
/// The conditions of [`Plain::walk`].
#[inline(always)]
unsafe fn beside<T: Copy, const COUNT: usize>(
    mut state: [T; COUNT],
    from: [(*const T, *const T, *mut T); COUNT],
    steps: usize,
    strides: [isize; 3],
    f: impl Fn(T, T, T) -> T,
) {
    for step in 0..steps as isize {
        let [dx, da, dy] = strides.map(|stride| stride * step);
        for (state, (x, a, y)) in state.iter_mut().zip(&from) {
            // SAFETY: the caller's promise.
            unsafe {
                *state = f(*state, a.wrapping_offset(da).read(), x.wrapping_offset(dx).read());
                y.wrapping_offset(dy).write(*state);
            }
        }
    }
}

/// Computes some columns, step by step, with the states in registers.
///
/// # Safety
/// The conditions of [`Plain::walk`].
#[inline(always)]
unsafe fn held<T: Copy>(
    mut state: [T; HELD],
    (x, a, y): (*const T, *const T, *mut T),
    steps: usize,
    strides: [isize; 3],
    far: bool,
    f: impl Fn(T, T, T) -> T,
) {
    for step in 0..steps as isize {
        let [dx, da, dy] = strides.map(|stride| stride * step);
        // SAFETY: the caller's promise; columns are neighbours.
        unsafe {
            for (from, stride) in [(x, strides[0]), (a, strides[1])] {
                stream::fetch::<T, HELD>(from.wrapping_offset(stride * (step + AHEAD)));
            }
            let (x, a) = (&*x.wrapping_offset(dx).cast::<[T; HELD]>(), &*a.wrapping_offset(da).cast::<[T; HELD]>());
            for ((state, a), x) in state.iter_mut().zip(a).zip(x) {
                *state = f(*state, *a, *x);
            }
            let y = y.wrapping_offset(dy);
            if far { stream::store(y, &state) } else { y.cast::<[T; HELD]>().write(state) }
        }
    }
}

/// The running sums of some neighbours, in as many rounds as they can be halved: each lane adds what is 1, 2, 4, … lanes
/// before.
#[inline(always)]
fn running<T: Combined>(x: &[T; GROUP]) -> [T; GROUP] {
    let mut sums = *x;
    let mut apart = 1;
    while apart < GROUP {
        let last = sums;
        for (i, sum) in sums.iter_mut().enumerate() {
            if i >= apart {
                *sum = last[i - apart].add(last[i]);
            }
        }
        apart *= 2;
    }
    sums
}

/// The sum of a block.
struct Total<'a, T> {
    x: &'a [T; BLOCK],
}

impl<T: Combined> Vectorised for Total<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> T {
        self.x.as_chunks::<GROUP>().0.iter().fold(T::NOTHING, |total, group| total.add(running(group)[GROUP - 1]))
    }
}

/// Computes the steps of a block, or of the rest of a column, and gives their sum.
struct Block<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
    start: T,
}

impl<T: Combined> Vectorised for Block<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> T {
        let Self { x, y, start } = self;
        let (groups, rest) = x.as_chunks::<GROUP>();
        let (to, last) = y.as_chunks_mut::<GROUP>();
        let mut total = T::NOTHING;
        for (x, y) in groups.iter().zip(to) {
            let (sums, before) = (running(x), start.add(total));
            *y = sums.map(|sum| before.add(sum));
            total = total.add(sums[GROUP - 1]);
        }
        let (mut sum, before) = (T::NOTHING, start.add(total));
        for (x, y) in rest.iter().zip(last) {
            sum = sum.add(*x);
            *y = before.add(sum);
        }
        total.add(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::at_every_level;

    /// Sums one after another.
    fn one_by_one(x: &[i64], start: i64) -> Vec<i64> {
        x.iter()
            .scan(start, |sum, x| {
                Some({
                    *sum += x;
                    *sum
                })
            })
            .collect()
    }

    #[test]
    fn running_sums_of_any_length_are_those_of_a_loop() {
        for steps in [0, 1, 15, 16, 17, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 21] {
            let x: Vec<i64> = (0..steps as i64).map(|i| i * i % 37 - 17).collect();
            let mut y = vec![0; steps];
            walk_blocks(&x, &mut y, 1000);
            assert_eq!(y, one_by_one(&x, 1000), "{steps}");
        }
    }

    #[test]
    fn a_block_sums_up_to_its_total_bit_by_bit() {
        let x: [f32; BLOCK] = std::array::from_fn(|i| (i * 7919 % 1013) as f32 * 0.37 - 180.0);
        let mut y = [0.0; BLOCK];
        let total = dispatch(Block { x: &x, y: &mut y, start: 2.5 });
        assert_eq!(total.to_bits(), dispatch(Total { x: &x }).to_bits());
        // Rounded in another order, but as well.
        let want: f64 = x.iter().copied().map(f64::from).sum();
        assert!((f64::from(total) - want).abs() < 0.05, "{total} {want}");
    }

    #[test]
    fn sums_have_the_same_bits_with_and_without_vector_instructions() {
        let x: Vec<f32> = (0..2 * BLOCK + 77).map(|i| (i * 7919 % 1013) as f32 * 0.37 - 180.0).collect();
        let all = at_every_level(|| {
            let mut y = vec![0.0; x.len()];
            walk_blocks(&x, &mut y, 0.5);
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert!(all.iter().all(|bits| *bits == all[0]));
    }

    #[test]
    fn columns_beside_each_other_are_those_one_by_one() {
        for width in [8, 31, 32, 40, 97, HELD, HELD + 3] {
            let (steps, stride) = (5, width + 2);
            let of = |i: usize| (i * 7919 % 1013) as f32 * 0.003 - 1.5;
            let x: Vec<f32> = (0..steps * stride).map(of).collect();
            let a: Vec<f32> = (0..steps * stride).map(|i| of(i + 5)).collect();
            let state: Vec<f32> = (0..width).map(|i| of(i + 9)).collect();
            let f = |s: f32, a: f32, x: f32| a * s + x;
            let results = at_every_level(|| {
                let mut y = vec![0.0; steps * stride];
                let (from, factors, to) = (x.as_ptr(), a.as_ptr(), y.as_mut_ptr());
                let (strides, far) = ([stride as isize; 3], width % 2 == 0);
                dispatch(Across { state: &state, x: from, a: factors, y: to, steps, strides, far, f });
                y
            });
            for y in results {
                for (column, state) in state.iter().enumerate() {
                    let mut want = *state;
                    for at in (0..steps).map(|step| step * stride + column) {
                        want = f(want, a[at], x[at]);
                        assert_eq!(y[at].to_bits(), want.to_bits(), "column {column} of {width}");
                    }
                }
                assert!(y.iter().skip(width).step_by(stride).all(|y| *y == 0.0), "{width} columns only");
            }
        }
    }

    #[test]
    fn sums_of_negative_zeros_are_negative_zeros() {
        let mut y = [1.0f32; 40];
        walk_blocks(&[-0.0; 40], &mut y, -0.0);
        assert!(y.iter().all(|y| *y == 0.0 && y.is_sign_negative()));
    }
}
