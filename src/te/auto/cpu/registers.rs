//! The registers of strip programs, and how steps run on them.

use smallvec::SmallVec;

use super::program::Program;
use crate::lane::scalar::{Lanes, Scalar};
use crate::lane::strip::compute;
use crate::lane::{Class, LaneStep, Register};
use crate::simd::{Vectorised, dispatch};
use crate::te::error::TeError;

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
pub(in crate::te::auto) trait RegisterLane: Scalar {
    fn all(registers: &Registers) -> &Vec<Vec<Self>>;
    fn all_mut(registers: &mut Registers) -> &mut Vec<Vec<Self>>;
}

macro_rules! lanes {
    ($($ty:ty: $field:ident),*) => {$(
        impl RegisterLane for $ty {
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
            by_class!(register.class, T => registers.get_mut::<T>(*register).fill(T::constant(*constant)));
        }
        registers
    }

    /// The lanes of a register as words of memory: u32 (two for a lane of 64 bits), or u64 of lanes of 64 bits.
    pub(in crate::te::auto) fn words<W: bytemuck::Pod>(&self, register: Register) -> &[W] {
        by_class!(register.class, T => bytemuck::cast_slice(self.get::<T>(register)))
    }

    /// These words, to write to.
    pub(in crate::te::auto) fn words_mut<W: bytemuck::Pod>(&mut self, register: Register) -> &mut [W] {
        by_class!(register.class, T => bytemuck::cast_slice_mut(self.get_mut::<T>(register)))
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

    pub(in crate::te::auto) fn get<T: RegisterLane>(&self, register: Register) -> &[T] {
        &T::all(self)[register.number]
    }

    pub(in crate::te::auto) fn get_mut<T: RegisterLane>(&mut self, register: Register) -> &mut [T] {
        &mut T::all_mut(self)[register.number]
    }

    /// Writes `to` from the other registers. It must not be one of the operands.
    pub(super) fn write<T: RegisterLane>(&mut self, to: Register, f: impl FnOnce(&Self, &mut [T])) {
        let mut lanes = std::mem::take(&mut T::all_mut(self)[to.number]);
        f(self, &mut lanes);
        T::all_mut(self)[to.number] = lanes;
    }

    /// Copies lanes within the registers of a class: `count` from a lane of `source` to a lane of another.
    pub(in crate::te::auto) fn copy_lanes(
        &mut self,
        (to, at): (Register, usize),
        (source, from): (Register, usize),
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

    /// Copies another thread's lanes: `count` from a lane of its register to a lane of one here.
    pub(in crate::te::auto) fn take_lanes(
        &mut self,
        (to, at): (Register, usize),
        other: &Self,
        (source, from): (Register, usize),
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
            let to = Register { class: register.class, number: *number };
            kept.take_lanes((to, 0), self, (*register, 0), lanes);
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

    /// Takes `2 * count` lanes of `left`: the even ones stay there, and `right` gets the odd ones.
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
    pub(in crate::te::auto) fn run(&mut self, steps: &[LaneStep], count: usize) -> Result<(), TeError> {
        for step in steps {
            self.step(step, count)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &LaneStep, count: usize) -> Result<(), TeError> {
        by_class!(step.to.class, T => {
            let mut lanes = std::mem::take(&mut T::all_mut(self)[step.to.number]);
            let done = {
                let operands: SmallVec<[Lanes<'_>; 3]> =
                    step.operands().iter().map(|of| self.lanes(*of, count)).collect();
                compute(step.operation, T::lanes_mut(&mut lanes[..count]), &operands)
            };
            T::all_mut(self)[step.to.number] = lanes;
            Ok(done?)
        })
    }

    /// The first lanes of a register.
    fn lanes(&self, register: Register, count: usize) -> Lanes<'_> {
        by_class!(register.class, T => T::lanes(&self.get::<T>(register)[..count]))
    }

    /// Lets the result of steps take the place of a variable's register. All its lanes must have been written.
    pub(in crate::te::auto) fn replace(&mut self, variable: Register, result: Register) {
        by_class!(variable.class, T => T::all_mut(self).swap(variable.number, result.number));
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
