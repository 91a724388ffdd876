//! Simple scans of one state, done directly on memory and without strips: the update is one operation, or a
//! multiply-add.
//!
//! The result of a column doesn't depend on how columns are divided among threads.

use super::elements::{Affine, Elements};
use super::fold::{Combine, Combined};
use super::memory::Written;
use super::program::{Class, Register, Step};
use crate::simd::{Vectorised, dispatch};
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::te::lang::expr::Binary;
use crate::{ElementType, parallel};

/// The number of columns that are computed at once, step by step, so that their steps overlap.
const BESIDE: usize = 4;
/// The number of steps in a run: where time is cut, runs are summed before their steps are computed.
const RUN: usize = 128;
/// The number of steps whose runs are computed at once.
const BLOCK: usize = RUN * BESIDE;
/// The number of lanes that share a run.
const LANES: usize = 16;
/// The number of blocks in a task.
const TASK: usize = 32;

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
        (steps, new): (&[Step], &[Register]),
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
        let (form, a, x) = match *steps {
            [Step::Binary(op, to, a, b)] if to == new => {
                let x = other(a, b, state)?;
                (Form::Combine(Combine::of(op)?), x, x)
            }
            [Step::Binary(Binary::Mul, product, a, b), Step::Binary(Binary::Add, to, c, d)] if to == new => {
                (Form::Linear, other(a, b, state)?, other(c, d, product)?)
            }
            _ => return None,
        };
        let (a, x, y) = (elements.affine(a)?, elements.affine(x)?, written[output]);
        let same = [a.element, x.element].iter().all(|element| *element == y.element && is_held(state, *element));
        same.then_some(Self { form, x, a, y, output })
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

    /// Whether time can be cut: only for sums of contiguous elements.
    pub(super) fn is_cut(&self, outer: &[LoopLevel], inner: &[LoopLevel]) -> bool {
        self.form == Form::Combine(Combine::Add) && self.strides(outer, inner).steps == [1; 3]
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
        if self.is_across(outer, inner) && state.len() >= LANES / 2 {
            by_form!(self.form, T, f => dispatch(Across { state, x, a, y, steps, strides: strides.steps, f }));
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

    /// Computes one long column of sums in parallel. Runs are summed, and then each run is computed from the sum before
    /// it. With several threads, all runs are summed before any is computed; a single thread computes each run right
    /// after summing it.
    ///
    /// # Safety
    /// The conditions of [`Plain::walk`], but other threads of the pool may take part; [`Plain::is_cut`] must hold.
    pub(super) unsafe fn cut<T: Combined>(
        &self,
        state: T,
        outer: &[LoopLevel],
        index: &[i64],
        steps: usize,
        shared: bool,
    ) {
        let (x, _, y) = self.first::<T>(outer, index);
        // SAFETY: the caller's promise.
        let (x, y) = unsafe { (std::slice::from_raw_parts(x, steps), std::slice::from_raw_parts_mut(y, steps)) };
        let mut state = state;
        if !shared {
            let (blocks, rest) = x.as_chunks::<BLOCK>();
            let (to, last) = y.as_chunks_mut::<BLOCK>();
            for (x, y) in blocks.iter().zip(to) {
                let totals = dispatch(Totals { x });
                let starts = totals.map(|total| {
                    let start = state;
                    state = state.add(total);
                    start
                });
                walk_block(x, y, starts);
            }
            return walk_rest(rest, last, state);
        }
        let mut starts = vec![[T::default(); BESIDE]; steps / BLOCK];
        parallel::for_each(starts.chunks_mut(TASK).zip(x.chunks(TASK * BLOCK)), |(totals, x)| {
            for (totals, x) in totals.iter_mut().zip(x.as_chunks::<BLOCK>().0) {
                *totals = dispatch(Totals { x });
            }
        });
        for start in starts.as_flattened_mut() {
            let total = std::mem::replace(start, state);
            state = state.add(total);
        }
        let tasks = y.chunks_mut(TASK * BLOCK).zip(x.chunks(TASK * BLOCK)).enumerate();
        parallel::for_each(tasks, |(number, (y, x))| {
            let (blocks, rest) = x.as_chunks::<BLOCK>();
            let (to, last) = y.as_chunks_mut::<BLOCK>();
            for ((x, y), starts) in blocks.iter().zip(to).zip(&starts[number * TASK..]) {
                walk_block(x, y, *starts);
            }
            // Only the last task has less than a block.
            walk_rest(rest, last, state);
        });
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
    f: F,
}

impl<T: Copy, F: Fn(T, T, T) -> T> Vectorised for Across<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { state, x, a, y, steps, strides, f } = self;
        let width = state.len();
        for step in 0..steps as isize {
            let [dx, da, dy] = strides.map(|stride| stride * step);
            // SAFETY: the caller of `walk` promised that these elements belong to this thread; no two steps of an
            // output share an element.
            let (x, a, last, y) = unsafe {
                let last = if step == 0 { state.as_ptr() } else { y.wrapping_offset(dy - strides[2]).cast_const() };
                (
                    std::slice::from_raw_parts(x.wrapping_offset(dx), width),
                    std::slice::from_raw_parts(a.wrapping_offset(da), width),
                    std::slice::from_raw_parts(last, width),
                    std::slice::from_raw_parts_mut(y.wrapping_offset(dy), width),
                )
            };
            for (((y, last), a), x) in y.iter_mut().zip(last).zip(a).zip(x) {
                *y = f(*last, *a, *x);
            }
        }
    }
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

/// The sums of the runs of a block: first of the elements in each lane, then of pairs of lanes.
struct Totals<'a, T> {
    x: &'a [T; BLOCK],
}

impl<T: Combined> Vectorised for Totals<'_, T> {
    type Output = [T; BESIDE];

    #[inline(always)]
    fn run<const FMA: bool>(self) -> [T; BESIDE] {
        let mut totals = [T::default(); BESIDE];
        for (total, run) in totals.iter_mut().zip(self.x.as_chunks::<RUN>().0) {
            let (rows, _) = run.as_chunks::<LANES>();
            let mut held = rows[0];
            for row in &rows[1..] {
                for (held, x) in held.iter_mut().zip(row) {
                    *held = held.add(*x);
                }
            }
            *total = sum::<T, 1>(sum::<T, 2>(sum::<T, 4>(sum::<T, 8>(held))))[0];
        }
        totals
    }
}

/// Adds the second half to the first.
#[inline(always)]
fn sum<T: Combined, const HALF: usize>(x: impl AsRef<[T]>) -> [T; HALF] {
    let (left, right) = x.as_ref().split_at(HALF);
    std::array::from_fn(|i| left[i].add(right[i]))
}

/// Computes the runs of a block side by side, each from the sum before it.
fn walk_block<T: Combined>(x: &[T; BLOCK], y: &mut [T; BLOCK], mut state: [T; BESIDE]) {
    for step in 0..RUN {
        for (run, state) in state.iter_mut().enumerate() {
            *state = state.add(x[run * RUN + step]);
            y[run * RUN + step] = *state;
        }
    }
}

fn walk_rest<T: Combined>(x: &[T], y: &mut [T], mut state: T) {
    for (x, y) in x.iter().zip(y) {
        state = state.add(*x);
        *y = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_summed_up_lane_by_lane() {
        let x: [i64; BLOCK] = std::array::from_fn(|i| (i * i % 37) as i64);
        let want: Vec<i64> = x.chunks(RUN).map(|run| run.iter().sum()).collect();
        assert_eq!(dispatch(Totals { x: &x })[..], want);
    }

    #[test]
    fn the_runs_of_a_block_are_walked_from_their_starts_on() {
        let x: [i64; BLOCK] = std::array::from_fn(|i| (i * i % 37) as i64 - 17);
        let mut y = [0; BLOCK];
        walk_block(&x, &mut y, [1, 20, 300, 4000]);
        for (run, (x, y)) in x.chunks(RUN).zip(y.chunks(RUN)).enumerate() {
            let mut want = vec![0; RUN];
            walk_rest(x, &mut want, [1, 20, 300, 4000][run]);
            assert_eq!(y, want);
        }
    }
}
