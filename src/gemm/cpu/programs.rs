//! The strip programs of a plan, and the memory that threads need to run them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::element::Arithmetic;
use super::lower;
use super::machine::{self, Machine, Neighbours};
use super::product::Panels;
use super::program::Program;
use super::slots::SlotMemory;
use super::strip::Frame;
use super::tile::TileShape;
use crate::evt::{PhasePart, Phases, ValidTree};
use crate::expr::Real;
use crate::parallel;
use crate::sync::lock;
use crate::tuning::Tuning;
use crate::variants::Variants;

/// The program of the last run. The next run reuses it if its host scalars are the same, since they are constants in
/// it.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    tuning: Tuning,
    pub(super) last: Mutex<Option<Arc<Compiled>>>,
}

/// The programs of an epilogue's parts, with the host scalars that they were compiled for.
#[derive(Debug)]
pub(super) struct Compiled {
    scalars: Vec<f64>,
    pub(super) program: Typed,
    /// Intermediates that parts leave for later parts.
    pub(super) memory: SlotMemory,
}

/// The parts' programs, in the tree's arithmetic type.
#[derive(Debug)]
pub(super) enum Typed {
    F32(Vec<Prepared<f32>>),
    F64(Vec<Prepared<f64>>),
}

/// A program, with its machine code, and the memory of threads that have run it.
#[derive(Debug)]
pub(super) struct Prepared<T> {
    pub(super) program: Program<T>,
    pub(super) tuning: Tuning,
    /// By how matrices lie.
    pub(super) machines: Variants<Neighbours, Option<Arc<Machine>>>,
    /// The number of elements that runs had to compute so far.
    elements: AtomicUsize,
    idle: Mutex<Vec<Worker<T>>>,
}

/// One thread's memory for computing tiles.
#[derive(Debug)]
pub(super) struct Worker<T> {
    shape: TileShape,
    pub(super) frame: Frame<T>,
    pub(super) panels: Panels,
}

impl<T: Arithmetic> Prepared<T> {
    fn new(program: Program<T>, tuning: Tuning) -> Self {
        Self { program, tuning, machines: Variants::default(), elements: AtomicUsize::new(0), idle: Mutex::default() }
    }

    /// Machine code for a run of this many elements, once compiling it pays. `tree` is what the program was compiled of.
    pub(super) fn machine(
        &self,
        tree: &ValidTree,
        neighbours: impl FnOnce() -> Neighbours,
        elements: usize,
    ) -> Option<Arc<Machine>> {
        let before = self.elements.fetch_add(elements, Ordering::Relaxed);
        if !self.tuning.code.is_due(before.saturating_add(elements), machine::WORTH) {
            return None;
        }
        let neighbours = neighbours();
        let compile =
            || Ok::<_, Infallible>(Machine::compile(tree, &self.program, neighbours, self.tuning).map(Arc::new));
        let Ok(made) = self.machines.get_or_make(&neighbours, compile);
        made.as_ref().clone()
    }

    /// A worker for tiles of at most this shape.
    pub(super) fn worker(&self, shape: TileShape) -> Worker<T> {
        let idle = {
            let mut idle = lock(&self.idle);
            idle.iter().rposition(|worker| worker.shape == shape).map(|at| idle.remove(at))
        };
        let new = || Worker { shape, frame: Frame::new(&self.program, shape), panels: Panels::default() };
        let mut worker = idle.unwrap_or_else(new);
        worker.panels.forget();
        worker
    }

    /// Keeps a worker for later runs; at most as many as run at once, those that were used last.
    pub(super) fn keep(&self, worker: Worker<T>) {
        let mut idle = lock(&self.idle);
        if idle.len() >= parallel::threads() {
            idle.remove(0);
        }
        idle.push(worker);
    }
}

impl Programs {
    /// None yet.
    pub(crate) fn new(tuning: Tuning) -> Self {
        Self { tuning, last: Mutex::default() }
    }

    /// The program for a run. `scalars` holds the host scalars by parameter index.
    pub(super) fn get(&self, phases: &Phases, scalars: &[f64]) -> Arc<Compiled> {
        let same = |last: &&Arc<Compiled>| {
            let bits = |x: &f64| x.to_bits();
            last.scalars.iter().map(bits).eq(scalars.iter().map(bits))
        };
        if let Some(last) = lock(&self.last).as_ref().filter(same) {
            return Arc::clone(last);
        }
        let program = match phases.first().real() {
            Real::F32 => Typed::F32(prepared(phases, scalars, self.tuning)),
            Real::F64 => Typed::F64(prepared(phases, scalars, self.tuning)),
        };
        let compiled = Arc::new(Compiled { scalars: scalars.to_vec(), program, memory: SlotMemory::new(phases) });
        *lock(&self.last) = Some(Arc::clone(&compiled));
        compiled
    }
}

/// The parts' programs. Only the whole tree's parameters may be host scalars, and they come first in every part.
fn prepared<T: Arithmetic>(phases: &Phases, scalars: &[f64], tuning: Tuning) -> Vec<Prepared<T>> {
    let program = |part: &PhasePart| Program::compile(&part.tree, &lower::lower(&part.tree, scalars));
    phases.parts.iter().map(|part| Prepared::new(program(part), tuning)).collect()
}
