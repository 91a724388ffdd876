//! Runs programs on strips.

use half::{bf16, f16};

use super::program::{Class, Program, Register, Step};
use crate::ElementType;
use crate::expr::{Op, Real, fold};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::Binary;
use crate::te::number::{round, round_integer};

/// The most lanes of a strip.
pub(super) const LANES: usize = 512;

/// A thread's registers.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    f32s: Vec<Vec<f32>>,
    f64s: Vec<Vec<f64>>,
    i32s: Vec<Vec<i32>>,
    i64s: Vec<Vec<i64>>,
}

/// A type that registers hold.
pub(super) trait Lane: Copy + Default + PartialEq + PartialOrd {
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

/// Runs `$body` with `$ty` the type that a class holds.
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
pub(super) use by_class;

impl Registers {
    pub(super) fn new(program: &Program) -> Self {
        let [f32s, f64s, i32s, i64s] = program.counts;
        Self {
            f32s: vec![vec![0.0; LANES]; f32s],
            f64s: vec![vec![0.0; LANES]; f64s],
            i32s: vec![vec![0; LANES]; i32s],
            i64s: vec![vec![0; LANES]; i64s],
        }
    }

    pub(super) fn get<T: Lane>(&self, register: Register) -> &[T] {
        &T::all(self)[register.number]
    }

    pub(super) fn get_mut<T: Lane>(&mut self, register: Register) -> &mut [T] {
        &mut T::all_mut(self)[register.number]
    }

    /// Writes `to`, which no operand is, from the others.
    fn write<T: Lane>(&mut self, to: Register, f: impl FnOnce(&Self, &mut [T])) {
        let mut lanes = std::mem::take(&mut T::all_mut(self)[to.number]);
        f(self, &mut lanes);
        T::all_mut(self)[to.number] = lanes;
    }

    /// Copies lanes within the registers of a class: `count` from lane `from` of one to lane `at` of another.
    pub(super) fn copy_lanes(&mut self, to: Register, at: usize, source: Register, from: usize, count: usize) {
        by_class!(to.class, T => {
            if to == source {
                T::all_mut(self)[to.number].copy_within(from..from + count, at);
            } else {
                self.write::<T>(to, |all, lanes| lanes[at..at + count].copy_from_slice(&all.get::<T>(source)[from..from + count]));
            }
        });
    }

    /// Copies lanes of another thread's registers.
    pub(super) fn take_lanes(&mut self, to: Register, other: &Self, from: Register, count: usize) {
        by_class!(to.class, T => {
            T::all_mut(self)[to.number][..count].copy_from_slice(&other.get::<T>(from)[..count]);
        });
    }

    /// Copies another thread's first lane of a register to a lane here.
    pub(super) fn take_lane(&mut self, register: Register, lane: usize, other: &Self) {
        by_class!(register.class, T => T::all_mut(self)[register.number][lane] = other.get::<T>(register)[0]);
    }

    /// Copies a lane of another thread's register to the first lane here.
    pub(super) fn take_from_lane(&mut self, register: Register, other: &Self, lane: usize) {
        by_class!(register.class, T => T::all_mut(self)[register.number][0] = other.get::<T>(register)[lane]);
    }

    /// Gives the first lane's value to all.
    pub(super) fn repeat_first(&mut self, register: Register) {
        by_class!(register.class, T => {
            let lanes = self.get_mut::<T>(register);
            let first = lanes[0];
            lanes.fill(first);
        });
    }

    /// Copies the lanes where a condition holds.
    pub(super) fn keep_where(&mut self, to: Register, condition: Register, from: Register, count: usize) {
        by_class!(to.class, T => {
            self.write::<T>(to, |all, lanes| {
                let (condition, from) = (all.get::<i32>(condition), all.get::<T>(from));
                for ((lane, x), holds) in lanes[..count].iter_mut().zip(from).zip(condition) {
                    *lane = if *holds != 0 { *x } else { *lane };
                }
            });
        });
    }

    /// Of `2 * count` lanes of `left`, keeps those of even number; `right` gets the others.
    pub(super) fn unzip(&mut self, left: Register, right: Register, count: usize) {
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
    pub(super) fn run(&mut self, steps: &[Step], count: usize) -> Result<(), TeError> {
        for step in steps {
            self.step(step, count)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, count: usize) -> Result<(), TeError> {
        match *step {
            Step::Number(to, value) => match to.class {
                #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest even")]
                Class::F32 => self.get_mut::<f32>(to)[..count].fill(value as f32),
                Class::F64 => self.get_mut::<f64>(to)[..count].fill(value),
                Class::I32 => self.get_mut::<i32>(to)[..count].fill(value as i32),
                Class::I64 => self.get_mut::<i64>(to)[..count].fill(value as i64),
            },
            Step::Integer(to, value) => match to.class {
                Class::F32 => self.get_mut::<f32>(to)[..count].fill(value as f32),
                Class::F64 => self.get_mut::<f64>(to)[..count].fill(value as f64),
                Class::I32 => self.get_mut::<i32>(to)[..count].fill(value as i32),
                Class::I64 => self.get_mut::<i64>(to)[..count].fill(value),
            },
            Step::Copy(to, from) => self.copy_lanes(to, 0, from, 0, count),
            Step::Not(to, a) => self.map::<i32, i32>(to, a, count, |x| i32::from(x == 0)),
            Step::Select(to, condition, a, b) => by_class!(to.class, T => {
                self.write::<T>(to, |all, lanes| {
                    let (c, a, b) = (all.get::<i32>(condition), all.get::<T>(a), all.get::<T>(b));
                    for (i, lane) in lanes[..count].iter_mut().enumerate() {
                        *lane = if c[i] != 0 { a[i] } else { b[i] };
                    }
                });
            }),
            Step::Binary(op, to, a, b) => return self.binary(op, to, a, b, count),
            Step::Apply(op, to, operands) => self.apply(op, to, operands, count),
            Step::Cast(dtype, to, a) => self.cast(dtype, to, a, count),
        }
        Ok(())
    }

    fn map<T: Lane, U: Lane>(&mut self, to: Register, a: Register, count: usize, f: impl Fn(T) -> U) {
        self.write::<U>(to, |all, lanes| {
            for (lane, x) in lanes[..count].iter_mut().zip(all.get::<T>(a)) {
                *lane = f(*x);
            }
        });
    }

    fn zip<T: Lane, U: Lane>(&mut self, to: Register, a: Register, b: Register, count: usize, f: impl Fn(T, T) -> U) {
        self.write::<U>(to, |all, lanes| {
            let operands = all.get::<T>(a).iter().zip(all.get::<T>(b));
            for (lane, (x, y)) in lanes[..count].iter_mut().zip(operands) {
                *lane = f(*x, *y);
            }
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
                    Binary::Min => self.zip::<$T, $T>(to, a, b, count, |x, y| -largest!($T, -x, -y)),
                    _ => self.zip::<$T, $T>(to, a, b, count, |x, y| largest!($T, x, y)),
                }
            };
        }
        macro_rules! integer {
            ($T:ty) => {{
                if matches!(op, Binary::FloorDiv | Binary::FloorMod | Binary::Div)
                    && self.get::<$T>(b)[..count].contains(&0)
                {
                    return Err(TeError::Run { reason: "an integer is divided by zero".to_owned() });
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

    fn apply(&mut self, op: Op, to: Register, [a, b, c]: [Register; 3], count: usize) {
        match (op, to.class) {
            (Op::Neg, Class::F32) => self.map::<f32, f32>(to, a, count, |x| -x),
            (Op::Abs, Class::F32) => self.map::<f32, f32>(to, a, count, f32::abs),
            (Op::Sqrt, Class::F32) => self.map::<f32, f32>(to, a, count, f32::sqrt),
            (Op::Recip, Class::F32) => self.map::<f32, f32>(to, a, count, f32::recip),
            (Op::Exp, Class::F32) => self.map::<f32, f32>(to, a, count, libm::expf),
            (Op::Log, Class::F32) => self.map::<f32, f32>(to, a, count, libm::logf),
            (Op::Tanh, Class::F32) => self.map::<f32, f32>(to, a, count, libm::tanhf),
            (_, Class::F32) => self.write::<f32>(to, |all, lanes| {
                let (a, b, c) = (all.get::<f32>(a), all.get::<f32>(b), all.get::<f32>(c));
                for (i, lane) in lanes[..count].iter_mut().enumerate() {
                    let operands = [f64::from(a[i]), f64::from(b[i]), f64::from(c[i])];
                    #[expect(clippy::cast_possible_truncation, reason = "the result is an f32")]
                    let value = fold::apply(op, &operands[..op.arity()], Real::F32).unwrap_or(f64::NAN) as f32;
                    *lane = value;
                }
            }),
            (_, _) => self.write::<f64>(to, |all, lanes| {
                let (a, b, c) = (all.get::<f64>(a), all.get::<f64>(b), all.get::<f64>(c));
                for (i, lane) in lanes[..count].iter_mut().enumerate() {
                    let operands = [a[i], b[i], c[i]];
                    *lane = fold::apply(op, &operands[..op.arity()], Real::F64).unwrap_or(f64::NAN);
                }
            }),
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
            (ElementType::F16, Class::F32) => self.map::<f32, f32>(to, a, count, |x| f16::from_f32(x).to_f32()),
            (ElementType::BF16, Class::F32) => self.map::<f32, f32>(to, a, count, |x| bf16::from_f32(x).to_f32()),
            // `half`'s own conversions from f64 drop the low half of the significand.
            (ElementType::F16 | ElementType::BF16, Class::F64) => {
                self.map::<f64, f32>(to, a, count, |x| round(element, x) as f32);
            }
            (ElementType::F16 | ElementType::BF16, _) => {
                by_class!(a.class, T => self.map::<T, f32>(to, a, count, |x| round_integer(element, x as i64) as f32));
            }
            (ElementType::I64, _) => by_class!(a.class, T => self.map::<T, i64>(to, a, count, |x| x as i64)),
            (ElementType::I8, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| i32::from(x as i8))),
            (ElementType::U8, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| i32::from(x as u8))),
            (_, _) => by_class!(a.class, T => self.map::<T, i32>(to, a, count, |x| x as i32)),
        }
    }
}

/// IEEE 754-2019 `maximum`: NaN if either is NaN, and −0 is below +0.
macro_rules! largest {
    ($T:ty, $x:expr, $y:expr) => {{
        let (x, y): ($T, $T) = ($x, $y);
        let larger = if x > y || (x == y && !x.is_sign_negative()) { x } else { y };
        if x.is_nan() { x } else { larger }
    }};
}
use largest;
