//! What has been compiled for the shapes of a run, kept for the next run of the same.

use std::sync::Mutex;

use epilogue_runtime::{DeviceTensor, HostAccess};

use super::job::Task;
use super::map::Map;
pub(in crate::te::auto) use super::passes::Chain;
pub(in crate::te::auto) use super::scan::Scan;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{Bound, Sizes};
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::Place;
use crate::te::error::TeError;
use crate::te::lang::var::Var;

/// A map, reductions or a scan, compiled for the shapes of a run.
pub(in crate::te::auto) struct Made {
    work: Work,
    /// Memory that the work has to itself, for what passes from one reduction to the next.
    _between: Vec<DeviceTensor>,
}

enum Work {
    Map(Box<Map>),
    Scan(Box<Scan>),
    /// Reductions, and what the tensors of each are.
    Chain(Chain, Vec<Vec<Place>>),
}

impl Made {
    pub(in crate::te::auto) fn map(task: &Task<'_>, order: Order) -> Result<Self, TeError> {
        Ok(Self { work: Work::Map(Box::new(Map::new(task, order)?)), _between: Vec::new() })
    }

    pub(in crate::te::auto) fn scan(scan: Scan) -> Self {
        Self { work: Work::Scan(Box::new(scan)), _between: Vec::new() }
    }

    /// One reduction, whose tensors are the arguments.
    pub(in crate::te::auto) fn reduction(task: &Task<'_>, order: Order) -> Result<Self, TeError> {
        let places = (0..task.bound.tensors.len()).map(Place::Argument).collect();
        let chain = Chain::new(std::slice::from_ref(task), order)?;
        Ok(Self { work: Work::Chain(chain, vec![places]), _between: Vec::new() })
    }

    /// Reductions one after the other, what the tensors of each are, and the memory between them.
    pub(in crate::te::auto) fn chain(chain: Chain, places: Vec<Vec<Place>>, between: Vec<DeviceTensor>) -> Self {
        Self { work: Work::Chain(chain, places), _between: between }
    }

    /// The choices in words.
    pub(in crate::te::auto) fn describe(&self) -> String {
        match &self.work {
            Work::Scan(scan) => scan.describe(),
            Work::Map(_) => "on the CPU: strips of points".to_owned(),
            Work::Chain(chain, _) => {
                let mut choices = chain.describe();
                match choices.len() {
                    1 => choices.swap_remove(0),
                    count => format!("{count} kernels: {}", choices.join("; then ")),
                }
            }
        }
    }

    /// Runs on the tensors that it was made for, or has been moved to; the last `outputs` of them are written.
    pub(in crate::te::auto) fn run(&mut self, bound: &Bound<'_>, outputs: usize) -> Result<(), TeError> {
        let (reads, writes) = bound.tensors.split_at(bound.tensors.len() - outputs);
        let access = HostAccess::lock(reads, writes)?;
        // SAFETY: the locks keep everyone else out, outputs overlap nothing, and memory in between is this one's alone.
        unsafe {
            match &mut self.work {
                Work::Map(map) => map.run(),
                Work::Scan(scan) => scan.run(),
                Work::Chain(chain, _) => chain.run(),
            }
        }?;
        drop(access);
        Ok(())
    }

    /// The arguments have moved, each by so many bytes.
    fn moved(&mut self, by: &[i64]) {
        match &mut self.work {
            Work::Map(map) => map.moved(by),
            Work::Scan(scan) => scan.moved(by),
            Work::Chain(chain, places) => chain.moved(|number| {
                let by = |place: &Place| match place {
                    Place::Argument(place) => by[*place],
                    Place::Between(_) => 0,
                };
                places[number].iter().map(by).collect()
            }),
        }
    }
}

/// What the last run was made of. A run takes it: another at the same time makes its own.
#[derive(Default)]
pub(in crate::te::auto) struct Kept(Mutex<Option<(Key, Made, String)>>);

/// What a run's code depends on, and where its tensors were.
struct Key {
    sizes: Sizes,
    tensors: Vec<Layout>,
    /// Where its reads began, where the code serves several steps.
    reads: Vec<Option<u64>>,
}

/// A size that a kernel uses for nothing but the places of what it reads: a step's number.
pub(in crate::te::auto) struct Step {
    pub(in crate::te::auto) number: Var,
    /// Of every read, its argument, and where it begins at this step; nowhere where that is found element by element.
    pub(in crate::te::auto) reads: Vec<(usize, Option<u64>)>,
}

struct Layout {
    address: u64,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

/// Bytes that a tensor's address is a multiple of or not, where a choice depends on it.
const ALIGNED: u64 = 16;

impl Kept {
    /// What is kept, if it is for the same shapes, for the tensors of this run; and its choices in words. `step` is what may
    /// differ all the same.
    pub(in crate::te::auto) fn take(&self, bound: &Bound<'_>, step: Option<&Step>) -> Option<(Made, String)> {
        let (key, mut made, choice) = lock(&self.0).take()?;
        let moved = key.moved(bound, step)?;
        if moved.iter().any(|by| *by != 0) {
            made.moved(&moved);
        }
        Some((made, choice))
    }

    /// Keeps what ran on these tensors, at this step.
    pub(in crate::te::auto) fn put(&self, bound: &Bound<'_>, step: Option<&Step>, made: Made, choice: String) {
        let layout = |tensor: &&DeviceTensor| Layout {
            address: tensor.device_address(),
            shape: tensor.shape().to_vec(),
            strides: tensor.strides().to_vec(),
        };
        let key = Key {
            sizes: bound.sizes.clone(),
            tensors: bound.tensors.iter().map(layout).collect(),
            reads: step.map_or(Vec::new(), |step| step.reads.iter().map(|(_, address)| *address).collect()),
        };
        let replaced = lock(&self.0).replace((key, made, choice));
        drop(replaced);
    }
}

impl Key {
    /// By how many bytes what is had of each tensor has moved, in a run of the same shapes.
    fn moved(&self, bound: &Bound<'_>, step: Option<&Step>) -> Option<Vec<i64>> {
        let same_sizes = match step {
            Some(step) => self.sizes.equal_but(&bound.sizes, step.number),
            None => self.sizes == bound.sizes,
        };
        let mut moved = Vec::with_capacity(self.tensors.len());
        for (layout, tensor) in self.tensors.iter().zip(&bound.tensors) {
            if layout.shape != tensor.shape() || layout.strides != tensor.strides() {
                return None;
            }
            moved.push(tensor.device_address().wrapping_sub(layout.address).cast_signed());
        }
        if let Some(step) = step {
            self.follow(step, &mut moved)?;
        }
        (same_sizes && moved.iter().all(|by| by.unsigned_abs().is_multiple_of(ALIGNED))).then_some(moved)
    }

    /// All that is read of a tensor moves alike; `moved` tells how far, instead of how far the tensor has.
    fn follow(&self, step: &Step, moved: &mut [i64]) -> Option<()> {
        let tensors = moved.to_vec();
        let mut known = vec![None; moved.len()];
        if step.reads.len() != self.reads.len() {
            return None;
        }
        for ((argument, new), old) in step.reads.iter().zip(&self.reads) {
            let by = match (new, old) {
                (Some(new), Some(old)) => new.wrapping_sub(*old).cast_signed(),
                (None, None) => tensors[*argument],
                _ => return None,
            };
            if known[*argument].is_some_and(|known| known != by) {
                return None;
            }
            known[*argument] = Some(by);
            moved[*argument] = by;
        }
        Some(())
    }
}
