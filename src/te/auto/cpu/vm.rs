//! Runs strip programs on registers.

use epilogue_runtime::DataError;

use super::fold::Combine;
use super::fold_lanes::fold_block;
use super::program::{Class, Program, Register, Step};
use super::registers::{LANES, Lane, Registers};
use crate::ElementType;
use crate::expr::Op;
use crate::simd::convert::{bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32};
use crate::simd::{Float, Vectorised, binary, dispatch, unary};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::expression::Binary;
use crate::te::expr::number::{round, round_integer};

/// Runs `$body` with the type of a class as `$ty`.
macro_rules! by_class {
    ($class:expr, $ty:ident => $body:expr) => {
        match $class {
            Class::F32 => {
                type $ty = f32;
                $body
            }
            Class::F64 => {
                type $ty = f64;
                $body
            }
            Class::I32 => {
                type $ty = i32;
                $body
            }
            Class::I64 => {
                type $ty = i64;
                $body
            }
        }
    };
}
pub(in crate::te::auto) use by_class;

impl Registers {
    pub(in crate::te::auto) fn new(program: &Program) -> Self {
        Self::with_lanes(program, LANES)
    }

    /// Registers of this many lanes, with the program's constants filled in.
    pub(in crate::te::auto) fn with_lanes(program: &Program, lanes: usize) -> Self {
        let mut registers = Self::of(program.counts, lanes);
        for (register, constant) in &program.constants {
            by_class!(register.class, T => registers.get_mut::<T>(*register).fill(T::of(*constant)));
        }
        registers
    }

    /// Registers of every class, filled with zeros.
    pub(in crate::te::auto) fn of([f32s, f64s, i32s, i64s]: [usize; 4], lanes: usize) -> Self {
        Self {
            f32s: vec![vec![0.0; lanes]; f32s],
            f64s: vec![vec![0.0; lanes]; f64s],
            i32s: vec![vec![0; lanes]; i32s],
            i64s: vec![vec![0; lanes]; i64s],
            kept: Vec::new(),
        }
    }

    pub(in crate::te::auto) fn get<T: Lane>(&self, register: Register) -> &[T] {
        &T::all(self)[register.number]
    }

    pub(in crate::te::auto) fn get_mut<T: Lane>(&mut self, register: Register) -> &mut [T] {
        &mut T::all_mut(self)[register.number]
    }

    /// Writes `to` from the other registers. It must not be one of the operands.
    fn write<T: Lane>(&mut self, to: Register, f: impl FnOnce(&Self, &mut [T])) {
        let mut lanes = std::mem::take(&mut T::all_mut(self)[to.number]);
        f(self, &mut lanes);
        T::all_mut(self)[to.number] = lanes;
    }

    /// Copies lanes within the registers of a class: `count` from lane `from` of one to lane `at` of another.
    pub(in crate::te::auto) fn copy_lanes(
        &mut self,
        to: Register,
        at: usize,
        source: Register,
        from: usize,
        count: usize,
    ) {
        by_class!(to.class, T => {
            if to == source {
                T::all_mut(self)[to.number].copy_within(from..from + count, at);
            } else {
                self.write::<T>(to, |all, lanes| lanes[at..at + count].copy_from_slice(&all.get::<T>(source)[from..from + count]));
            }
        });
    }

    /// Copies lanes of another thread's registers.
    pub(in crate::te::auto) fn take_lanes(&mut self, to: Register, other: &Self, from: Register, count: usize) {
        by_class!(to.class, T => {
            T::all_mut(self)[to.number][..count].copy_from_slice(&other.get::<T>(from)[..count]);
        });
    }

    /// Copies the first lane of another thread's register to a lane here.
    pub(in crate::te::auto) fn take_lane(&mut self, register: Register, lane: usize, other: &Self) {
        by_class!(register.class, T => T::all_mut(self)[register.number][lane] = other.get::<T>(register)[0]);
    }

    /// Copies a lane of another thread's register to the first lane here.
    pub(in crate::te::auto) fn take_from_lane(&mut self, register: Register, other: &Self, lane: usize) {
        by_class!(register.class, T => T::all_mut(self)[register.number][0] = other.get::<T>(register)[lane]);
    }

    /// Copies another thread's lanes: `count` from lane `from` of its register to lane `at` of one here.
    pub(in crate::te::auto) fn take_run(
        &mut self,
        to: Register,
        at: usize,
        other: &Self,
        source: Register,
        from: usize,
        count: usize,
    ) {
        by_class!(to.class, T => {
            let lanes = &other.get::<T>(source)[from..from + count];
            self.get_mut::<T>(to)[at..at + count].copy_from_slice(lanes);
        });
    }

    /// Copies the first lanes of some registers into new registers, in the same order.
    pub(in crate::te::auto) fn kept(&self, registers: &[Register], lanes: usize) -> Self {
        let mut counts = [0; 4];
        for register in registers {
            counts[register.class as usize] += 1;
        }
        let mut kept = Self::of(counts, lanes);
        let mut numbers = [0; 4];
        for register in registers {
            let number = &mut numbers[register.class as usize];
            kept.take_lanes(Register { class: register.class, number: *number }, self, *register, lanes);
            *number += 1;
        }
        kept
    }

    /// Fills the first `count` lanes of the registers with one lane of what [`kept`](Self::kept) gave.
    pub(in crate::te::auto) fn spread(&mut self, registers: &[Register], kept: &Self, lane: usize, count: usize) {
        let mut numbers = [0; 4];
        for register in registers {
            let number = &mut numbers[register.class as usize];
            let from = Register { class: register.class, number: *number };
            by_class!(register.class, T => self.get_mut::<T>(*register)[..count].fill(kept.get::<T>(from)[lane]));
            *number += 1;
        }
    }

    /// All registers, with their first lanes only.
    pub(in crate::te::auto) fn shortened(&self, lanes: usize) -> Self {
        fn cut<T: Copy>(all: &[Vec<T>], lanes: usize) -> Vec<Vec<T>> {
            all.iter().map(|register| register[..lanes.min(register.len())].to_vec()).collect()
        }
        Self {
            f32s: cut(&self.f32s, lanes),
            f64s: cut(&self.f64s, lanes),
            i32s: cut(&self.i32s, lanes),
            i64s: cut(&self.i64s, lanes),
            kept: Vec::new(),
        }
    }

    /// Copies the lanes where a condition holds.
    pub(in crate::te::auto) fn keep_where(&mut self, to: Register, condition: Register, from: Register, count: usize) {
        by_class!(to.class, T => {
            self.write::<T>(to, |all, lanes| {
                let (condition, from) = (all.get::<i32>(condition), all.get::<T>(from));
                dispatch(Keep { to: &mut lanes[..count], condition, from });
            });
        });
    }

    /// Of `2 * count` lanes of `left`, keeps the even ones; `right` gets the odd ones.
    pub(in crate::te::auto) fn unzip(&mut self, left: Register, right: Register, count: usize) {
        by_class!(left.class, T => {
            self.write::<T>(right, |all, lanes| {
                for (lane, pair) in lanes[..count].iter_mut().zip(all.get::<T>(left).chunks_exact(2)) {
                    *lane = pair[1];
                }
            });
            let lanes = self.get_mut::<T>(left);
            for i in 0..count {
                lanes[i] = lanes[2 * i];
            }
        });
    }

    /// Runs steps on the first `count` lanes.
    pub(in crate::te::auto) fn run(&mut self, steps: &[Step], count: usize) -> Result<(), TeError> {
        for step in steps {
            self.step(step, count)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, count: usize) -> Result<(), TeError> {
        match *step {
            Step::Copy(to, from) => self.copy_lanes(to, 0, from, 0, count),
            Step::Not(to, a) => self.map::<i32, i32>(to, a, count, |x| i32::from(x == 0)),
            Step::Select(to, condition, a, b) => by_class!(to.class, T => {
                self.write::<T>(to, |all, lanes| {
                    let (condition, a, b) = (all.get::<i32>(condition), all.get::<T>(a), all.get::<T>(b));
                    dispatch(Choose { to: &mut lanes[..count], condition, a, b });
                });
            }),
            Step::Binary(op, to, a, b) => return self.binary(op, to, a, b, count),
            Step::Apply(op, to, operands) => self.apply(op, to, operands, count),
            Step::Cast(dtype, to, a) => self.cast(dtype, to, a, count),
            Step::Nearest(to, a) if to.class == Class::F32 => {
                self.map::<f32, f32>(to, a, count, f32::round_ties_even);
            }
            Step::Nearest(to, a) => self.map::<f64, f64>(to, a, count, f64::round_ties_even),
        }
        Ok(())
    }

    /// Combines one register with another, lane by lane.
    pub(in crate::te::auto) fn combine(&mut self, op: Combine, to: Register, from: Register, count: usize) {
        by_class!(to.class, T => {
            self.write::<T>(to, |all, lanes| fold_block(op, &mut lanes[..count], &all.get::<T>(from)[..count]));
        });
    }

    /// Lets the result of steps take the place of a variable's register. All its lanes must have been written.
    pub(in crate::te::auto) fn replace(&mut self, variable: Register, result: Register) {
        by_class!(variable.class, T => T::all_mut(self).swap(variable.number, result.number));
    }

    fn map<T: Lane, U: Lane>(&mut self, to: Register, a: Register, count: usize, f: impl Fn(T) -> U) {
        self.write::<U>(to, |all, lanes| dispatch(Map { to: &mut lanes[..count], x: all.get::<T>(a), f }));
    }

    fn zip<T: Lane, U: Lane>(&mut self, to: Register, a: Register, b: Register, count: usize, f: impl Fn(T, T) -> U) {
        self.write::<U>(to, |all, lanes| {
            dispatch(Zip { to: &mut lanes[..count], x: all.get::<T>(a), y: all.get::<T>(b), f });
        });
    }

    fn binary(&mut self, op: Binary, to: Register, a: Register, b: Register, count: usize) -> Result<(), TeError> {
        if op.is_truth() {
            by_class!(a.class, T => match op {
                Binary::Lt => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x < y)),
                Binary::Le => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x <= y)),
                Binary::Gt => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x > y)),
                Binary::Ge => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x >= y)),
                Binary::Eq => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x == y)),
                Binary::Ne => self.zip::<T, i32>(to, a, b, count, |x, y| i32::from(x != y)),
                Binary::And => self.zip::<i32, i32>(to, a, b, count, |x, y| x & y),
                _ => self.zip::<i32, i32>(to, a, b, count, |x, y| x | y),
            });
            return Ok(());
        }
        macro_rules! float {
            ($T:ty) => {
                match op {
                    Binary::Add => self.zip::<$T, $T>(to, a, b, count, |x, y| x + y),
                    Binary::Sub => self.zip::<$T, $T>(to, a, b, count, |x, y| x - y),
                    Binary::Mul => self.zip::<$T, $T>(to, a, b, count, |x, y| x * y),
                    Binary::Div => self.zip::<$T, $T>(to, a, b, count, |x, y| x / y),
                    Binary::Min => self.zip::<$T, $T>(to, a, b, count, <$T as Float>::minimum),
                    _ => self.zip::<$T, $T>(to, a, b, count, <$T as Float>::maximum),
                }
            };
        }
        macro_rules! integer {
            ($T:ty) => {{
                if matches!(op, Binary::FloorDiv | Binary::FloorMod | Binary::Div)
                    && self.get::<$T>(b)[..count].contains(&0)
                {
                    return Err(DataError::DivisionByZero { divisor: None }.into());
                }
                match op {
                    Binary::Add => self.zip::<$T, $T>(to, a, b, count, <$T>::wrapping_add),
                    Binary::Sub => self.zip::<$T, $T>(to, a, b, count, <$T>::wrapping_sub),
                    Binary::Mul => self.zip::<$T, $T>(to, a, b, count, <$T>::wrapping_mul),
                    Binary::Min => self.zip::<$T, $T>(to, a, b, count, std::cmp::min),
                    Binary::Max => self.zip::<$T, $T>(to, a, b, count, std::cmp::max),
                    Binary::FloorMod => self.zip::<$T, $T>(to, a, b, count, |x, y| {
                        let rest = x.wrapping_rem(y);
                        if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
                    }),
                    _ => self.zip::<$T, $T>(to, a, b, count, |x, y| {
                        let down = x.wrapping_rem(y) != 0 && (x < 0) != (y < 0);
                        x.wrapping_div(y).wrapping_sub(<$T>::from(down))
                    }),
                }
            }};
        }
        match to.class {
            Class::F32 => float!(f32),
            Class::F64 => float!(f64),
            Class::I32 => integer!(i32),
            Class::I64 => integer!(i64),
        }
        Ok(())
    }

    fn apply(&mut self, op: Op, to: Register, operands: [Register; 3], count: usize) {
        if to.class == Class::F32 {
            self.apply_float::<f32>(op, to, operands, count);
        } else {
            self.apply_float::<f64>(op, to, operands, count);
        }
    }

    /// Operations that IEEE 754 rounds correctly are rounded correctly; other functions are within the bounds of
    /// [`crate::simd`].
    fn apply_float<T: Lane + Float>(&mut self, op: Op, to: Register, [a, b, c]: [Register; 3], count: usize) {
        match op {
            Op::Add => self.zip::<T, T>(to, a, b, count, |x, y| x + y),
            Op::Sub => self.zip::<T, T>(to, a, b, count, |x, y| x - y),
            Op::Mul => self.zip::<T, T>(to, a, b, count, |x, y| x * y),
            Op::Div => self.zip::<T, T>(to, a, b, count, |x, y| x / y),
            Op::Min => self.zip::<T, T>(to, a, b, count, T::minimum),
            Op::Max => self.zip::<T, T>(to, a, b, count, T::maximum),
            // In f64, so that an f32 is rounded only once, as everywhere.
            Op::Rsqrt => self.map::<T, T>(to, a, count, |x| T::from_f64(1.0 / x.to_f64().sqrt())),
            Op::Pow => self.write::<T>(to, |all, lanes| {
                binary(Op::Pow, &mut lanes[..count], &all.get::<T>(a)[..count], &all.get::<T>(b)[..count]);
            }),
            Op::Fma => self.write::<T>(to, |all, lanes| {
                let (x, y, z) = (all.get::<T>(a), all.get::<T>(b), all.get::<T>(c));
                dispatch(Fma { to: &mut lanes[..count], x, y, z });
            }),
            _ => self.write::<T>(to, |all, lanes| unary(op, &mut lanes[..count], &all.get::<T>(a)[..count])),
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "one of the types is the class's own")]
    fn cast(&mut self, dtype: DType, to: Register, a: Register, count: usize) {
        let DType::Number(element) = dtype else {
            by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| i32::from(x != T::default())));
            return;
        };
        match (element, a.class) {
            (ElementType::F64, _) => by_class!(a.class, T => self.map::<T, f64>(to, a, count, |x| x as f64)),
            (ElementType::F32, _) => by_class!(a.class, T => self.map::<T, f32>(to, a, count, |x| x as f32)),
            (ElementType::F16, Class::F32) => self.map::<f32, f32>(to, a, count, |x| f16_to_f32(f16_from_f32(x))),
            (ElementType::BF16, Class::F32) => self.map::<f32, f32>(to, a, count, |x| bf16_to_f32(bf16_from_f32(x))),
            // `half`'s own conversions from f64 drop the low half of the significand.
            (ElementType::F8E4M3 | ElementType::F8E5M2, Class::F32) => {
                self.map::<f32, f32>(to, a, count, |x| round(element, f64::from(x)) as f32);
            }
            (ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2, Class::F64) => {
                self.map::<f64, f32>(to, a, count, |x| round(element, x) as f32);
            }
            (ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2, _) => {
                by_class!(a.class, T => self.map::<T, f32>(to, a, count, |x| round_integer(element, x as i64) as f32));
            }
            (ElementType::I64, _) => by_class!(a.class, T => self.map::<T, i64>(to, a, count, |x| x as i64)),
            (ElementType::I8, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| i32::from(x as i8))),
            (ElementType::U8, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| i32::from(x as u8))),
            (_, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| x as i32)),
        }
    }
}

struct Map<'a, T, U, F> {
    to: &'a mut [U],
    x: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T) -> U> Vectorised for Map<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (to, x) in self.to.iter_mut().zip(self.x) {
            *to = (self.f)(*x);
        }
    }
}

struct Zip<'a, T, U, F> {
    to: &'a mut [U],
    x: &'a [T],
    y: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T, T) -> U> Vectorised for Zip<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((to, x), y) in self.to.iter_mut().zip(self.x).zip(self.y) {
            *to = (self.f)(*x, *y);
        }
    }
}

struct Choose<'a, T> {
    to: &'a mut [T],
    condition: &'a [i32],
    a: &'a [T],
    b: &'a [T],
}

impl<T: Copy> Vectorised for Choose<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (((to, holds), a), b) in self.to.iter_mut().zip(self.condition).zip(self.a).zip(self.b) {
            *to = if *holds != 0 { *a } else { *b };
        }
    }
}

struct Keep<'a, T> {
    to: &'a mut [T],
    condition: &'a [i32],
    from: &'a [T],
}

impl<T: Copy> Vectorised for Keep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((to, holds), from) in self.to.iter_mut().zip(self.condition).zip(self.from) {
            *to = if *holds != 0 { *from } else { *to };
        }
    }
}

struct Fma<'a, T> {
    to: &'a mut [T],
    x: &'a [T],
    y: &'a [T],
    z: &'a [T],
}

impl<T: Float> Vectorised for Fma<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (((to, x), y), z) in self.to.iter_mut().zip(self.x).zip(self.y).zip(self.z) {
            *to = x.fma(*y, *z);
        }
    }
}
