//! Primitives with random arguments.

use epilogue::te::TeError;
use fastrand::Rng;

use crate::schedule::replay::{Mark, Name, Primitive, World};

const THREADS: [&str; 7] =
    ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "blockIdx.z"];
const SCOPES: [&str; 4] = ["global", "shared", "local", "warp"];

/// A schedule to which random primitives are applied.
pub(crate) struct Draw<'d, 'c> {
    pub(crate) world: &'d mut World<'c>,
    /// The stages, including those that primitives create.
    pub(crate) stages: Vec<Name>,
    pub(crate) random: &'d mut Rng,
}

impl Draw<'_, '_> {
    /// Applies one primitive, or several that belong together. A refused one leaves the schedule as it was.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn apply(&mut self) -> Result<(), TeError> {
        match self.random.u32(..20) {
            0..=8 => self.on_a_loop(),
            9 => self.on_memory(),
            10..=12 => self.on_a_stage(),
            13..=15 => self.place(),
            16 => self.group(),
            _ => self.on_threads(),
        }
    }

    fn any(&mut self) -> Name {
        self.stages[self.random.usize(..self.stages.len())]
    }

    fn input(&mut self) -> Name {
        let inputs = self.world.inputs();
        inputs[self.random.usize(..inputs.len())]
    }

    fn factor(&mut self) -> i32 {
        [1, 2, 3, 4, 8, 32, 50][self.random.usize(..7)]
    }

    fn one_of<const N: usize>(&mut self, names: [&'static str; N]) -> &'static str {
        names[self.random.usize(..N)]
    }

    /// A loop of a stage.
    fn any_loop(&mut self, stage: Name) -> Option<Name> {
        let loops = self.world.loops(stage);
        (!loops.is_empty()).then(|| loops[self.random.usize(..loops.len())])
    }

    fn split(&mut self, stage: Name, axis: Name, factor: i32, parts: bool) -> Result<[Name; 2], TeError> {
        let made = self.world.apply(Primitive::Split { stage, axis, factor, parts, predicated: true })?;
        Ok([made[0], made[1]])
    }

    fn bind(&mut self, stage: Name, axis: Name, thread: &'static str) -> Result<(), TeError> {
        self.world.apply(Primitive::Bind { stage, axis, thread, kept: false }).map(drop)
    }

    fn on_a_loop(&mut self) -> Result<(), TeError> {
        let (stage, factor) = (self.any(), self.factor());
        let Some(axis) = self.any_loop(stage) else { return Ok(()) };
        let (choice, switch) = (self.random.u32(..13), self.random.bool());
        let (thread, steps) = (self.one_of(THREADS), self.random.i32(0..20));
        let mut loops = self.world.loops(stage);
        let at = loops.iter().position(|known| *known == axis).unwrap_or_default();
        let next = loops[(at + 1) % loops.len()];
        let primitive = match choice {
            0..=2 => Primitive::Split { stage, axis, factor, parts: choice == 2, predicated: true },
            3 => Primitive::Fuse { stage, axes: vec![axis, next] },
            4 => {
                self.random.shuffle(&mut loops);
                Primitive::Reorder { stage, axes: loops }
            }
            5 | 6 => Primitive::Bind { stage, axis, thread, kept: false },
            7 => Primitive::Mark { stage, axis, kind: Mark::Vectorized },
            8 => Primitive::Mark { stage, axis, kind: if switch { Mark::Parallel } else { Mark::Unrolled } },
            9 => Primitive::Split { stage, axis, factor, parts: !switch, predicated: false },
            10 if switch => Primitive::Fuse { stage, axes: Vec::new() },
            10 => Primitive::Tile { stage, axes: [axis, next], factors: [factor, 4] },
            11 => {
                self.world.apply(Primitive::Pragma { stage, axis, key: "auto_unroll_max_step", value: steps })?;
                Primitive::Pragma { stage, axis, key: "unroll_explicit", value: switch.into() }
            }
            _ => {
                let tensor = if switch { self.any() } else { self.input() };
                Primitive::Prefetch { stage, tensor, axis, offset: steps / 10 }
            }
        };
        self.world.apply(primitive).map(drop)
    }

    fn on_memory(&mut self) -> Result<(), TeError> {
        let (stage, scope, factor) = (self.any(), self.one_of(SCOPES), self.factor().into());
        let (choice, offset) = (self.random.u32(..6), self.random.i64(..4));
        let primitive = match choice {
            0 => {
                let dimensions = self.world.tensor(stage)?.rank().max(1);
                Primitive::Align { stage, dimension: self.random.usize(..dimensions), factor, offset }
            }
            1 => Primitive::DoubleBuffer { stage },
            2 => Primitive::RollingBuffer { stage },
            // Not for outputs, which belong to the caller.
            3 if self.world.is_output(stage) => return Ok(()),
            3 => {
                let (turned, factor, apart) = (self.random.bool(), self.random.i32(1..5), self.random.bool());
                Primitive::Layout { stage, turned, factor, apart }
            }
            _ => Primitive::Scope { stage, scope },
        };
        self.world.apply(primitive).map(drop)
    }

    fn on_a_stage(&mut self) -> Result<(), TeError> {
        let (stage, other, scope) = (self.any(), self.any(), self.one_of(SCOPES));
        let primitive = match self.random.u32(..6) {
            0 => Primitive::Inline { stage },
            1 | 2 => {
                let Some(axis) = self.any_loop(stage) else { return Ok(()) };
                Primitive::Rfactor { stage, axis, place: self.random.isize(-1..2) }
            }
            3 => {
                let operation = |name| self.world.tensor(name).map(|tensor| tensor.operation().clone());
                let own = operation(stage)?;
                let same = |name: &Name| operation(*name).is_ok_and(|other| std::sync::Arc::ptr_eq(&other, &own));
                Primitive::CacheWrite { stages: self.stages.iter().copied().filter(same).collect(), scope }
            }
            _ => {
                let input = self.input();
                let tensor = if self.random.bool() { input } else { stage };
                Primitive::CacheRead { tensor, scope, readers: vec![other] }
            }
        };
        self.world.apply(primitive)?;
        self.stages.extend(self.world.made().into_iter().next());
        Ok(())
    }

    fn place(&mut self) -> Result<(), TeError> {
        let mut pair: [usize; 2] = std::array::from_fn(|_| self.random.usize(..self.stages.len()));
        // In most cases inside a loop of a consumer.
        if self.random.u32(..5) > 0 {
            pair.sort_unstable();
        }
        let [stage, parent] = pair.map(|place| self.stages[place]);
        if self.random.u32(..8) == 0 {
            return self.world.apply(Primitive::Root { stage }).map(drop);
        }
        let Some(axis) = self.any_loop(parent) else { return Ok(()) };
        self.world.apply(Primitive::At { stage, parent, axis }).map(drop)
    }

    fn group(&mut self) -> Result<(), TeError> {
        let (output, other) = (self.any(), self.any());
        let (input, include) = (self.input(), self.random.bool());
        let at = self.any_loop(other).map(|axis| [other, axis]);
        let group = |at| Primitive::Group { outputs: vec![output], inputs: vec![input], include, at };
        // If the group can't be placed, it is created without a place.
        self.world.apply(group(at)).or_else(|_| self.world.apply(group(None))).map(drop)
    }

    /// Binds a stage's data loops to blocks of threads, and other stages inside to the same number of threads.
    fn on_threads(&mut self) -> Result<(), TeError> {
        let stage = self.any();
        if self.world.tensor(stage)?.operation().as_scan().is_some() {
            let threads = ["blockIdx.x", "threadIdx.x"][self.random.usize(..2)..].to_vec();
            return self.world.apply(Primitive::EnvThreads { stage, threads }).map(drop);
        }
        let sizes: [i32; 3] = std::array::from_fn(|_| self.random.i32(1..7));
        let depth = self.random.usize(1..4);
        let mut order = (Vec::new(), Vec::new());
        for ((axis, size), place) in self.world.loops(stage).into_iter().take(depth).zip(sizes).zip(0..) {
            let Ok([block, thread]) = self.split(stage, axis, size, false) else { continue };
            order.0.push((block, ["blockIdx.x", "blockIdx.y", "blockIdx.z"][place]));
            order.1.push((thread, ["threadIdx.x", "threadIdx.y", "threadIdx.z"][place]));
        }
        let bound: Vec<_> = order.0.into_iter().chain(order.1).collect();
        self.world.apply(Primitive::Reorder { stage, axes: bound.iter().map(|(axis, _)| *axis).collect() })?;
        for (axis, name) in bound {
            self.bind(stage, axis, name)?;
        }
        self.inside(stage, &sizes)
    }

    /// Places other stages inside a stage's loops, on threads with these extents.
    fn inside(&mut self, parent: Name, sizes: &[i32; 3]) -> Result<(), TeError> {
        for stage in self.stages.clone() {
            if self.random.u32(..3) == 0 || stage == parent {
                continue;
            }
            let Some(axis) = self.any_loop(parent) else { continue };
            if self.world.apply(Primitive::At { stage, parent, axis }).is_err() || self.random.bool() {
                continue;
            }
            let Some(axis) = self.any_loop(stage) else { continue };
            let place = self.random.usize(..3);
            let parts = self.random.bool();
            if let Ok(made) = self.split(stage, axis, sizes[place], parts) {
                // If this is refused, the loop stays on one thread.
                let _ =
                    self.bind(stage, made[usize::from(!parts)], ["threadIdx.x", "threadIdx.y", "threadIdx.z"][place]);
            }
            if self.random.bool() {
                let scope = self.one_of(SCOPES);
                self.world.apply(Primitive::Scope { stage, scope })?;
            }
        }
        Ok(())
    }
}
