//! Keeps compiled code for the shapes of a run, for the next run of the same shapes.

use std::sync::{Arc, Mutex};

use epilogue_runtime::{DeviceTensor, HostAccess};
use smallvec::SmallVec;

use super::map::Map;
pub(in crate::te::auto) use super::reduce_chain::Chain;
pub(in crate::te::auto) use super::scan::Scan;
use super::task::Task;
use crate::exhaustion;
use crate::simd::stream;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{BoundTensors, Sizes, TensorPlace};
use crate::te::auto::order::Order;
use crate::te::auto::split::by_pass::TensorOrigin;
use crate::te::error::TeError;
use crate::te::expr::var::Var;

/// A map, reductions or a scan, compiled for the shapes of a run.
pub(in crate::te::auto) struct MadeKernel {
    work: Work,
    /// Memory that belongs to this work alone, for intermediate tensors between reductions.
    _intermediates: Vec<DeviceTensor>,
}

enum Work {
    Map(Box<Map>),
    Scan(Box<Scan>),
    /// Reductions, and where the tensors of each come from.
    Chain(Box<Chain>, Vec<Vec<TensorOrigin>>),
}

impl MadeKernel {
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
        Ok(Self { work: Work::Chain(Box::new(chain), vec![origins]), _intermediates: Vec::new() })
    }

    /// Several reductions, where the tensors of each come from, and the memory between them.
    pub(in crate::te::auto) fn chain(
        chain: Chain,
        origins: Vec<Vec<TensorOrigin>>,
        intermediates: Vec<DeviceTensor>,
    ) -> Self {
        Self { work: Work::Chain(Box::new(chain), origins), _intermediates: intermediates }
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

    /// Whether the choices have changed since this was asked last.
    fn has_changed(&mut self) -> bool {
        match &mut self.work {
            Work::Chain(chain, _) => chain.has_changed(),
            Work::Map(_) | Work::Scan(_) => false,
        }
    }

    /// Runs on the tensors that it was made for, or moved to last. The last `outputs` tensors are written.
    pub(in crate::te::auto) fn run(&mut self, bound: &BoundTensors<'_>, outputs: usize) -> Result<(), TeError> {
        let (reads, writes) = bound.tensors.split_at(bound.tensors.len() - outputs);
        let access = HostAccess::lock(reads, writes)?;
        // SAFETY: the locks keep everyone else out, outputs overlap nothing, and intermediate memory belongs to this
        // work alone.
        exhaustion::caught(|| unsafe {
            match &mut self.work {
                Work::Map(map) => map.run(),
                Work::Scan(scan) => scan.run(),
                Work::Chain(chain, _) => chain.run(),
            }
        })?;
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
pub(in crate::te::auto) struct CodeCache(Mutex<Option<Box<Cached>>>);

/// Code, and everything that it depends on.
pub(in crate::te::auto) struct Cached {
    sizes: Sizes,
    /// Its tensors, where the code accesses them now.
    tensors: Vec<TensorPlace>,
    /// The addresses of its reads, if the code serves several steps.
    reads: Vec<Option<u64>>,
    made: MadeKernel,
    /// The choice in words.
    choice: Arc<str>,
}

/// A size that a kernel uses only to address what it reads, such as a step's number.
pub(in crate::te::auto) struct AtStep {
    pub(in crate::te::auto) number: Var,
    /// For every read, its argument and its address at this step; `None` if the address is found element by element.
    pub(in crate::te::auto) reads: Vec<(usize, Option<u64>)>,
}

impl AtStep {
    fn addresses(&self) -> Vec<Option<u64>> {
        self.reads.iter().map(|(_, address)| *address).collect()
    }
}

/// Code may depend on whether an address is a multiple of this many bytes, as those of tensors of their own are.
const ALIGNED: u64 = stream::LINE as u64;

impl CodeCache {
    /// Takes out what is kept if it fits the shapes of this run, and moves it to this run's tensors. `step` is a size that
    /// may differ nevertheless.
    pub(in crate::te::auto) fn take(&self, bound: &BoundTensors<'_>, step: Option<&AtStep>) -> Option<Box<Cached>> {
        let mut cached = lock(&self.0).take()?;
        cached.moves(bound, step)?;
        Some(cached)
    }

    /// Runs code on the tensors to which it has been moved, and keeps it for the next run. The last `outputs` of them are
    /// written. Gives the choice in words.
    pub(in crate::te::auto) fn run(
        &self,
        mut code: Box<Cached>,
        bound: &BoundTensors<'_>,
        outputs: usize,
    ) -> Result<Arc<str>, TeError> {
        code.made.run(bound, outputs)?;
        if code.made.has_changed() {
            code.choice = code.made.describe().into();
        }
        let choice = Arc::clone(&code.choice);
        let replaced = lock(&self.0).replace(code);
        drop(replaced);
        Ok(choice)
    }
}

impl Cached {
    /// Code that was made for these tensors, at this step. (It is more than a kilobyte, and handed on by every run.)
    pub(in crate::te::auto) fn new(bound: &BoundTensors<'_>, step: Option<&AtStep>, made: MadeKernel) -> Box<Self> {
        Box::new(Self {
            sizes: bound.sizes.clone(),
            tensors: bound.tensors.iter().map(|tensor| TensorPlace::of(tensor)).collect(),
            reads: step.map_or(Vec::new(), AtStep::addresses),
            choice: made.describe().into(),
            made,
        })
    }

    /// Moves the code to the tensors of a run of the same shapes, if it can be.
    fn moves(&mut self, bound: &BoundTensors<'_>, step: Option<&AtStep>) -> Option<()> {
        let same_sizes = match step {
            Some(step) => self.sizes.equal_but(&bound.sizes, step.number),
            None => self.sizes == bound.sizes,
        };
        // The distances in bytes by which the accessed part of each tensor has moved.
        let mut moved = SmallVec::<[i64; 8]>::with_capacity(self.tensors.len());
        for (layout, tensor) in self.tensors.iter().zip(&bound.tensors) {
            if !layout.has_shape_of(tensor) {
                return None;
            }
            moved.push(tensor.device_address().wrapping_sub(layout.address).cast_signed());
        }
        if let Some(step) = step {
            self.follow(step, &mut moved)?;
        }
        if !same_sizes || !moved.iter().all(|by| by.unsigned_abs().is_multiple_of(ALIGNED)) {
            return None;
        }
        if moved.iter().any(|by| *by != 0) {
            self.made.moved(&moved);
        }
        let now = self.tensors.iter_mut().zip(&bound.tensors);
        now.for_each(|(layout, tensor)| layout.address = tensor.device_address());
        if let Some(step) = step {
            self.reads = step.addresses();
        }
        Some(())
    }

    /// Checks that all reads of a tensor moved by the same distance, and puts this distance into `moved` in place of
    /// the tensor's.
    fn follow(&self, step: &AtStep, moved: &mut [i64]) -> Option<()> {
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
