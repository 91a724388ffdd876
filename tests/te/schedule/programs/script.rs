//! A schedule that is being written: its stages, random choices from them, and primitives that keep them up to date.

use epilogue::te::{AxisKind, TeError};
use fastrand::Rng;

use crate::schedule::replay::{Mark, Name, Primitive, World};

/// A schedule that is being written.
pub(super) struct Script<'w, 'c> {
    pub(super) world: &'w mut World<'c>,
    pub(super) random: &'w mut Rng,
    /// The stages, including those that primitives created, consumers last.
    pub(super) stages: Vec<Name>,
    /// The number of threads per block along each index, throughout the schedule.
    pub(super) threads: [i32; 3],
}

impl<'w, 'c> Script<'w, 'c> {
    pub(super) fn new(world: &'w mut World<'c>, random: &'w mut Rng) -> Self {
        let stages = world.stages();
        let threads = std::array::from_fn(|d| [1, 2, 3, 4, 8, 16][random.usize(..if d == 0 { 6 } else { 4 })]);
        Self { world, random, stages, threads }
    }

    // Random choices.

    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(..one_in) == 0
    }

    pub(super) fn factor(&mut self) -> i32 {
        [1, 2, 3, 4, 5, 6, 7, 8, 16, 32][self.random.usize(..10)]
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.usize(..from.len())])
    }

    /// A stage; later ones are more likely.
    pub(super) fn stage(&mut self) -> Name {
        let [a, b] = [0, 1].map(|_| self.random.usize(..self.stages.len()));
        self.stages[a.max(b)]
    }

    pub(super) fn is_scan(&self, stage: Name) -> bool {
        self.world.operation(stage).is_ok_and(|operation| operation.as_scan().is_some())
    }

    /// A stage that reduces.
    pub(super) fn reduction(&mut self) -> Option<Name> {
        let stages = self.stages.clone();
        let reductions: Vec<Name> = stages.into_iter().filter(|stage| !self.reduced(*stage).is_empty()).collect();
        self.pick(&reductions)
    }

    pub(super) fn data(&mut self, stage: Name) -> Vec<Name> {
        self.world.loops_of(stage, AxisKind::Data)
    }

    pub(super) fn reduced(&mut self, stage: Name) -> Vec<Name> {
        self.world.loops_of(stage, AxisKind::Reduce)
    }

    /// The stages that read a tensor.
    pub(super) fn readers(&mut self, tensor: Name) -> Vec<Name> {
        let (world, stages) = (&mut *self.world, &self.stages);
        let reads = |reader: &Name| {
            let [Ok(tensor), Ok(reader)] = [world.tensor(tensor), world.tensor(*reader)] else { return false };
            world.schedule.clone().cache_read(&tensor, "global", &[&reader]).is_ok()
        };
        stages.iter().copied().filter(reads).collect()
    }

    // Primitives.

    pub(super) fn split(&mut self, stage: Name, axis: Name, factor: i32) -> Result<[Name; 2], TeError> {
        let predicated = !self.chance(12);
        let made = self.world.apply(Primitive::Split { stage, axis, factor, parts: false, predicated })?;
        Ok([made[0], made[1]])
    }

    pub(super) fn parts(&mut self, stage: Name, axis: Name, factor: i32) -> Result<[Name; 2], TeError> {
        let made = self.world.apply(Primitive::Split { stage, axis, factor, parts: true, predicated: true })?;
        Ok([made[0], made[1]])
    }

    pub(super) fn fuse(&mut self, stage: Name, axes: Vec<Name>) -> Result<Name, TeError> {
        Ok(self.world.apply(Primitive::Fuse { stage, axes })?[0])
    }

    pub(super) fn reordered(&mut self, stage: Name, axes: Vec<Name>) -> Result<(), TeError> {
        self.world.apply(Primitive::Reorder { stage, axes }).map(drop)
    }

    pub(super) fn bind(&mut self, stage: Name, axis: Name, thread: &'static str) -> Result<(), TeError> {
        self.world.apply(Primitive::Bind { stage, axis, thread, kept: true }).map(drop)
    }

    pub(super) fn mark(&mut self, stage: Name, axis: Name, kind: Mark) -> Result<(), TeError> {
        self.world.apply(Primitive::Mark { stage, axis, kind }).map(drop)
    }

    pub(super) fn at(&mut self, stage: Name, parent: Name, axis: Name) -> Result<(), TeError> {
        self.world.apply(Primitive::At { stage, parent, axis }).map(drop)
    }

    /// Computes a stage at any loop of another one.
    pub(super) fn anywhere(&mut self, stage: Name, parent: Name) -> Result<(), TeError> {
        let loops = self.world.loops(parent);
        let Some(axis) = self.pick(&loops) else { return Ok(()) };
        self.at(stage, parent, axis)
    }

    /// A stage that a primitive created comes before the stage that it was created from or for.
    pub(super) fn insert(&mut self, before: Name) -> Vec<Name> {
        let made = self.world.made();
        let place = self.stages.iter().position(|stage| *stage == before).unwrap_or(self.stages.len());
        self.stages.splice(place..place, made.iter().copied());
        made
    }
}
