//! The launches of later phases, over values that the launches before have left in memory.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KeptKernel, Kernel, KernelArgument, Launch, Stream};

use super::fill::Fill;
use super::launch::accessed;
use super::workspace::{Grid, Places, Workspace};
use crate::Argument;
use crate::evt::{BroadcastClass, PartBinding, Pass, PhasePart, Phases, Slot, ValidTree};
use crate::gemm::emit;
use crate::gemm::emit::text::Emitted;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::kernel::filler::Filler;
use crate::gemm::kernel::formula::{Evaluation, Scope};
use crate::gemm::kernel::later::{LATER_COMMON_BYTES, LaterKey};
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::kernel::parameters::PARAMETER_LIMIT;
use crate::gemm::kernel::structs::LATER;
use crate::gemm::kernel::tiles::Tiled;
use crate::gemm::problem::digits::tensor_of;
use crate::gemm::problem::placing::Scattered;
use crate::gemm::problem::{Error, MAX_EXTENT, Problem};
use crate::pool::Pool;
use crate::variants::Variants;

/// The kernel of a launch.
#[derive(Clone, Debug)]
pub(crate) struct LaterKernel {
    key: LaterKey,
    pub(crate) emitted: Arc<Emitted>,
    pub(crate) kernel: Kernel,
}

impl LaterKernel {
    /// The kernels of all launches after the product's.
    pub(crate) fn compile_all(
        device: &Device,
        phases: &Phases,
        problem: &Problem,
        fast_math: bool,
    ) -> Result<Vec<Self>, Error> {
        let compile = |(i, pass): (usize, &Pass<'_>)| {
            let views = ArgumentViews::planned(pass.part, problem)?;
            Self::compile(device, pass, (key_of(pass, fast_math), views), i)
        };
        phases.passes().iter().enumerate().skip(1).map(compile).collect()
    }

    /// The kernel of the `phase`th launch; `views` has the arguments that are no plain matrices.
    fn compile(
        device: &Device,
        pass: &Pass<'_>,
        (key, views): (LaterKey, ArgumentViews),
        phase: usize,
    ) -> Result<Self, Error> {
        let emitted = emit::emit_later(pass, (key, views), phase);
        let bytes = LATER_COMMON_BYTES + emitted.argument_bytes();
        if bytes > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes, limit: PARAMETER_LIMIT });
        }
        Ok(Self { key, kernel: device.compile(&emitted.source)?, emitted: Arc::new(emitted) })
    }

    /// The kernel of the `phase`th launch for a run's arguments: the planned one, or another if arguments are no plain
    /// matrices.
    pub(crate) fn of_run(
        device: &Device,
        pass: &Pass<'_>,
        (phase, fast_math, planned): (usize, bool, Option<&Self>),
        (problem, given): (&Problem, &[Argument<'_>]),
        made: &Variants<(usize, ArgumentViews), Self>,
    ) -> Result<Self, Error> {
        let tensor = |binding: &PartBinding| match binding {
            PartBinding::Argument(argument) => tensor_of(&given[*argument]),
            PartBinding::Slot(_) => None,
        };
        let views = ArgumentViews::of(pass.part, pass.part.bindings.iter().map(tensor), problem)?;
        let of_tail = pass.tail.iter().flat_map(|tail| tail.bindings.iter().map(tensor));
        let views = views.with_tail(of_tail)?;
        if let Some(planned) = planned.filter(|_| !views.has_digits()) {
            return Ok(planned.clone());
        }
        let compile = || Self::compile(device, pass, (key_of(pass, fast_math), views), phase);
        Ok(Self::clone(&*made.get_or_make(&(phase, views), compile)?))
    }

    /// This launch without a handle of the device.
    pub(crate) fn kept(&self) -> Option<KeptLater> {
        let Self { key, emitted, kernel } = self;
        Some(KeptLater { key: *key, emitted: Arc::clone(emitted), kernel: kernel.kept()? })
    }

    /// The arguments of a launch. A run prepares all of its launches before the first one writes anything.
    pub(crate) fn prepare(
        &self,
        tree: &ValidTree,
        problem: &Problem,
        workspaces: &Pool<Workspace>,
        stream: &Stream,
    ) -> Result<Prepared, Error> {
        let grid = Grid::of_tiles(problem, tiled(tree, problem).tiles())?;
        let places = Places::of(tree, &self.emitted.arguments, problem, &grid, (0, 0));
        let workspace = match workspaces.take(stream, |workspace| workspace.suffices(&places)) {
            Some(workspace) => workspace,
            None => Arc::new(Workspace::new(stream, &places)?),
        };
        Ok(Prepared { grid, places, workspace })
    }

    /// Runs a part, and the tail of its launch.
    pub(crate) fn launch(
        &self,
        tree: &ValidTree,
        problem: &Problem,
        arguments: (&[Argument<'_>], &[Argument<'_>]),
        scattered: Option<Scattered<'_>>,
        Prepared { grid, places, workspace }: &Prepared,
        stream: &Stream,
    ) -> Result<(), Error> {
        if problem.batch == 0 {
            return Ok(());
        }
        let mut bytes = ParameterBytes::new(LATER_COMMON_BYTES + self.emitted.argument_bytes());
        let numbers = tiled(tree, problem);
        let mut to = Filler { bytes: &mut bytes, at: 0, values: &Evaluation::new(&numbers), accumulators: 1 };
        to.put(&LATER, &String::new, Scope::PRODUCT);
        let fill = Fill { tree, arguments, scattered, batch: problem.batch, neighbours: self.key.vector() };
        fill.put_all(&mut bytes, LATER_COMMON_BYTES, &self.emitted, places, workspace.addresses());
        let bytes = bytes.into_bytes();
        let mut list = vec![KernelArgument::Value(&bytes)];
        for tensor in [&workspace.counters, &workspace.scratch] {
            if !tensor.is_empty() {
                list.push(KernelArgument::Writes(tensor));
            }
        }
        list.extend(scattered.iter().map(|scattered| KernelArgument::Reads(scattered.index)));
        list.extend(arguments.0.iter().chain(arguments.1).filter_map(accessed));
        let block = [LaterKey::THREADS as u32, 1, 1];
        Ok(self.kernel.launch(&Launch { grid: [grid.blocks, 1, 1], block, ..Launch::default() }, &list, stream)?)
    }
}

const fn key_of(pass: &Pass<'_>, fast_math: bool) -> LaterKey {
    LaterKey { real: pass.part.tree.real(), fast_math }
}

/// A launch's grid, and the memory that it needs beside its arguments.
pub(crate) struct Prepared {
    grid: Grid,
    places: Places,
    workspace: Arc<Workspace>,
}

impl Prepared {
    /// Keeps the memory for the next run on the stream, to which the launch has been given.
    pub(crate) fn keep(self, workspaces: &Pool<Workspace>, stream: &Stream) {
        workspaces.put(stream, self.workspace);
    }
}

/// The product in tiles; nothing of it is multiplied. Vectors are stored by the tiles of the first column, or row, of
/// them; if there is nothing else, the tile has all columns, or rows.
fn tiled<'p>(tree: &ValidTree, problem: &'p Problem) -> Tiled<'p> {
    let (tile_m, tile_n) = LaterKey::TILE;
    let stores = |class: BroadcastClass| tree.stores().any(|(_, output)| output.class == class);
    let all = stores(BroadcastClass::Tensor) || tree.reductions().next().is_some();
    let rows = if all || stores(BroadcastClass::ColumnVector) { tile_m } else { MAX_EXTENT };
    let columns = if all || stores(BroadcastClass::RowVector) { tile_n } else { MAX_EXTENT };
    Tiled::of(problem, (rows, columns), (1, 1))
}

/// A [`LaterKernel`] that a device keeps: it holds no handle of the device.
#[derive(Debug)]
pub(crate) struct KeptLater {
    key: LaterKey,
    emitted: Arc<Emitted>,
    kernel: KeptKernel,
}

impl KeptLater {
    /// The kernel; `None` if the device is gone.
    pub(crate) fn attached(&self) -> Option<LaterKernel> {
        let Self { key, emitted, kernel } = self;
        Some(LaterKernel { key: *key, emitted: Arc::clone(emitted), kernel: kernel.attached()? })
    }
}

/// The memory of a run's slots.
pub(crate) struct SlotTensors {
    memory: Arc<Vec<DeviceTensor>>,
    /// In it, with the slots' extents.
    tensors: Vec<DeviceTensor>,
}

impl SlotTensors {
    /// Memory that the last run on a stream has left, or new.
    pub(crate) fn take(
        pool: &Pool<Vec<DeviceTensor>>,
        stream: &Stream,
        slots: &[Slot],
        problem: &Problem,
    ) -> Result<Self, Error> {
        let shapes: Vec<[usize; 3]> = slots.iter().map(|slot| shape(slot, problem)).collect();
        let suffices = |memory: &Vec<DeviceTensor>| {
            memory.iter().zip(&shapes).all(|(tensor, shape)| tensor.len() >= shape.iter().product())
        };
        let memory = match pool.take(stream, suffices) {
            Some(memory) => memory,
            None => {
                let new =
                    |(slot, shape): (&Slot, &[usize; 3])| Ok(stream.zeros_of(slot.element, [shape.iter().product()])?);
                Arc::new(slots.iter().zip(&shapes).map(new).collect::<Result<Vec<_>, Error>>()?)
            }
        };
        let tensor = |((memory, slot), shape): ((&DeviceTensor, &Slot), &[usize; 3])| {
            let (batch, rows, columns) = slot.extents(problem.batch, problem.m, problem.n);
            let whole = memory.slice(0, 0..shape.iter().product())?.reshape(shape)?.slice(2, 0..columns)?;
            Ok(match slot.class {
                BroadcastClass::Tensor => whole,
                BroadcastClass::RowVector | BroadcastClass::ColumnVector => whole.reshape([batch, rows * columns])?,
                BroadcastClass::Scalar => whole.reshape([batch])?,
            })
        };
        let tensors = memory.iter().zip(slots).zip(&shapes).map(tensor).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { memory, tensors })
    }

    /// Keeps the memory for the next run on the stream. All launches that use it have been given to the stream.
    pub(crate) fn keep(self, pool: &Pool<Vec<DeviceTensor>>, stream: &Stream) {
        pool.put(stream, self.memory);
    }
}

/// Batches, rows and columns in memory: rows of M×N values begin at multiples of 16 bytes, as tensor copies need.
fn shape(slot: &Slot, problem: &Problem) -> [usize; 3] {
    let (batch, rows, columns) = slot.extents(problem.batch, problem.m, problem.n);
    let pitch = match slot.class {
        BroadcastClass::Tensor => columns.next_multiple_of((16 / slot.element.size()).max(1)),
        _ => columns,
    };
    [batch, rows, pitch]
}

/// An argument of a part, owned: the tensors' handles are.
pub(crate) enum OwnArgument {
    Scalar(f64),
    Seed(u64, u64),
    Input(DeviceTensor),
    Output(DeviceTensor),
}

/// The arguments of a part.
pub(crate) fn arguments(part: &PhasePart, given: &[Argument<'_>], slots: &SlotTensors) -> Vec<OwnArgument> {
    let parameters = part.tree.parameters().len();
    let own = |(i, binding): (usize, &PartBinding)| match *binding {
        PartBinding::Argument(argument) => match &given[argument] {
            Argument::Scalar(value) => OwnArgument::Scalar(*value),
            Argument::Seed(seed, offset) => OwnArgument::Seed(*seed, *offset),
            Argument::Input(tensor) => OwnArgument::Input((*tensor).clone()),
            Argument::Output(tensor) => OwnArgument::Output((**tensor).clone()),
        },
        PartBinding::Slot(slot) if i < parameters => OwnArgument::Input(slots.tensors[slot].clone()),
        PartBinding::Slot(slot) => OwnArgument::Output(slots.tensors[slot].clone()),
    };
    part.bindings.iter().enumerate().map(own).collect()
}

/// Own arguments, as a run takes them.
pub(crate) fn borrowed(own: &mut [OwnArgument]) -> Vec<Argument<'_>> {
    let argument = |own| match own {
        &mut OwnArgument::Scalar(value) => Argument::Scalar(value),
        &mut OwnArgument::Seed(seed, offset) => Argument::Seed(seed, offset),
        OwnArgument::Input(tensor) => Argument::Input(tensor),
        OwnArgument::Output(tensor) => Argument::Output(tensor),
    };
    own.iter_mut().map(argument).collect()
}
