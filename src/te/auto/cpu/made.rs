//! Keeps what was compiled for the shapes of a run, for the next run of the same shapes.

use std::sync::Mutex;

use epilogue_runtime::{DeviceTensor, HostAccess};

use super::job::Task;
use super::map::Map;
pub(in crate::te::auto) use super::passes::Chain;
pub(in crate::te::auto) use super::scan::Scan;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{Bound, Sizes};
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::error::TeError;
use crate::te::lang::var::Var;

/// A map, reductions or a scan, compiled for the shapes of a run.
pub(in crate::te::auto) struct Made {
    work: Work,
    /// Memory that belongs to this work alone, for intermediate tensors between reductions.
    _intermediates: Vec<DeviceTensor>,
}

enum Work {
    Map(Box<Map>),
    Scan(Box<Scan>),
    /// Reductions, and where the tensors of each come from.
    Chain(Chain, Vec<Vec<TensorOrigin>>),
}

impl Made {
    pub(in crate::te::auto) fn map(task: &Task<'_>, order: Order) -> Result<Self, TeError> {
        Ok(Self { work: Work::Map(Box::new(Map::new(task, order)?)), _intermediates: Vec::new() })
    }

    pub(in crate::te::auto) fn scan(scan: Scan) -> Self {
        Self { work: Work::Scan(Box::new(scan)), _intermediates: Vec::new() }
    }

    /// One reduction, whose tensors are the arguments.
    pub(in crate::te::auto) fn reduction(task: &Task<'_>, order: Order) -> Result<Self, TeError> {
        let origins = (0..task.bound.tensors.len()).map(TensorOrigin::Argument).collect();
        let chain = Chain::new(std::slice::from_ref(task), order)?;
        Ok(Self { work: Work::Chain(chain, vec![origins]), _intermediates: Vec::new() })
    }

    /// Several reductions, where the tensors of each come from, and the memory between them.
    pub(in crate::te::auto) fn chain(
        chain: Chain,
        origins: Vec<Vec<TensorOrigin>>,
        intermediates: Vec<DeviceTensor>,
    ) -> Self {
        Self { work: Work::Chain(chain, origins), _intermediates: intermediates }
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

    /// Runs on the tensors for which it was made, or to which it has been moved. The last `outputs` of them are
    /// written.
    pub(in crate::te::auto) fn run(&mut self, bound: &Bound<'_>, outputs: usize) -> Result<(), TeError> {
        let (reads, writes) = bound.tensors.split_at(bound.tensors.len() - outputs);
        let access = HostAccess::lock(reads, writes)?;
        // SAFETY: the locks keep everyone else out, outputs overlap nothing, and intermediate memory belongs to this
        // work alone.
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

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    fn moved(&mut self, by: &[i64]) {
        match &mut self.work {
            Work::Map(map) => map.moved(by),
            Work::Scan(scan) => scan.moved(by),
            Work::Chain(chain, origins) => chain.moved(|number| {
                let by = |origin: &TensorOrigin| match origin {
                    TensorOrigin::Argument(place) => by[*place],
                    TensorOrigin::Intermediate(_) => 0,
                };
                origins[number].iter().map(by).collect()
            }),
        }
    }
}

/// The code of the last run. A run takes it out; another run at the same time makes its own.
#[derive(Default)]
pub(in crate::te::auto) struct CodeCache(Mutex<Option<(Key, Made, String)>>);

/// Everything that the code depends on, and the addresses of its tensors.
struct Key {
    sizes: Sizes,
    tensors: Vec<Layout>,
    /// The addresses of its reads, if the code serves several steps.
    reads: Vec<Option<u64>>,
}

/// A size that a kernel uses only to address what it reads, such as a step's number.
pub(in crate::te::auto) struct Step {
    pub(in crate::te::auto) number: Var,
    /// For every read, its argument and its address at this step; `None` if the address is found element by element.
    pub(in crate::te::auto) reads: Vec<(usize, Option<u64>)>,
}

struct Layout {
    address: u64,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

/// Code may depend on whether an address is a multiple of this many bytes.
const ALIGNED: u64 = 16;

impl CodeCache {
    /// Takes out what is kept if it fits the shapes of this run, and moves it to this run's tensors; also gives its
    /// choices in words. `step` is a size that may differ nevertheless.
    pub(in crate::te::auto) fn take(&self, bound: &Bound<'_>, step: Option<&Step>) -> Option<(Made, String)> {
        let (key, mut made, choice) = lock(&self.0).take()?;
        let moved = key.moved(bound, step)?;
        if moved.iter().any(|by| *by != 0) {
            made.moved(&moved);
        }
        Some((made, choice))
    }

    /// Keeps the code that ran on these tensors, at this step.
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
    /// The distances in bytes by which the accessed part of each tensor has moved, in a run of the same shapes.
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

    /// Checks that all reads of a tensor moved by the same distance, and puts this distance into `moved` in place of
    /// the tensor's.
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
