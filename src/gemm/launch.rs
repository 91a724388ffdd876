//! From a run's arguments to a launch: the grid, the kernel's parameter, the workspace.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, Kernel, KernelArgument, Launch, Stream};

use super::emit;
use super::emit::{Emitted, ReductionGroup};
use super::kernel::{KernelKey, SplitK, sm90};
use super::kernel::parameters::{FieldType, PARAMETER_LIMIT, ParameterBytes};
use super::kernel::sm80::COMMON_BYTES;
use super::kernel::sm90::{SharedMap, Sm90Key, Traffic};
use super::kernel::sm90::shared::sum_bytes;
use super::problem::{Error, OperandView, Problem};
use super::tensor_maps::{Tensors, is_batched};
use crate::evt::{Axis, ValidTree};
use crate::{Argument, ElementType};

/// The most blocks along a grid's x (CUDA C++ Programming Guide, "Technical Specifications").
const MAX_BLOCKS: u128 = i32::MAX as u128;

/// A compiled kernel with what its launch needs.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) key: KernelKey,
    pub(super) split_k: SplitK,
    pub(super) emitted: Emitted,
    pub(super) kernel: Kernel,
    /// The shape of a launch, but for its grid.
    pub(super) shape: Launch,
    /// The most blocks of a kernel whose blocks take one tile after another: as many as run at once.
    pub(super) persistent_blocks: Option<u32>,
}

impl Variant {
    /// Emits and compiles a kernel. A persistent one fills the device, or so many of its multiprocessors.
    pub(super) fn compile(
        device: &Device,
        tree: &ValidTree,
        key: &KernelKey,
        split_k: SplitK,
        multiprocessors: Option<usize>,
    ) -> Result<Self, Error> {
        let emitted = emit::emit(tree, key)?;
        let kernel = device.compile(&emitted.source)?;
        let (shape, persistent_blocks) = match key {
            KernelKey::Sm80(key) => {
                let block = [key.tile.threads() as u32, 1, 1];
                let shared_bytes = key.tile.shared_bytes(key.instruction) as u32;
                (Launch { block, shared_bytes, ..Launch::default() }, None)
            }
            KernelKey::Sm90(key) => {
                let cluster = key.cluster.blocks() as u32;
                let shape = Launch {
                    grid: [cluster, 1, 1],
                    block: [key.threads() as u32, 1, 1],
                    cluster: [cluster, 1, 1],
                    shared_bytes: SharedMap::of(key, &Traffic::of(tree, key.direct)).bytes() as u32,
                    programmatic_dependent_launch: key.dependent_launch,
                };
                let clusters = kernel.active_clusters(&shape)?;
                let allowed =
                    multiprocessors.map_or(u32::MAX, |n| (u32::try_from(n).unwrap_or(u32::MAX) / cluster).max(1));
                (shape, Some(clusters.min(allowed).max(1) * cluster))
            }
        };
        Ok(Self { key: *key, split_k, emitted, kernel, shape, persistent_blocks })
    }

    /// Bytes of one place for a tile's sums in the workspace.
    fn sum_bytes(&self) -> usize {
        match &self.key {
            KernelKey::Sm80(key) => key.tile.accumulator_bytes(key.instruction.accumulator()),
            KernelKey::Sm90(key) => sum_bytes(key),
        }
    }
}

/// Memory that a launch needs beside its arguments.
#[derive(Debug)]
pub(super) struct Workspace {
    /// 32-bit counters, 0 between launches.
    counters: DeviceTensor,
    /// Sums and partials; their bytes mean nothing between launches.
    scratch: DeviceTensor,
}

/// Extents as the kernel counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) tiles_m: usize,
    pub(super) tiles_n: usize,
    splits: usize,
    k_per_split: usize,
    /// Stream-K: units that are cut along K.
    streamed: usize,
    /// Blocks in all.
    blocks: u32,
}

impl Grid {
    /// # Errors
    /// [`Error::TooManyBlocks`].
    pub(super) fn of(problem: &Problem, variant: &Variant) -> Result<Self, Error> {
        // At least one tile: it writes the reductions' identities where the matrix is empty.
        let (tile_m, tile_n) = variant.key.tile();
        let tiles_m = problem.m.div_ceil(tile_m).max(1);
        let tiles_n = problem.n.div_ceil(tile_n).max(1);
        let splits = variant.split_k.splits();
        let (blocks, tile_k) = match &variant.key {
            KernelKey::Sm80(key) => {
                (tiles_m as u128 * tiles_n as u128 * problem.batch as u128 * splits as u128, key.tile.k)
            }
            KernelKey::Sm90(key) => {
                let units = sm90::Units::of(key, problem, splits).count();
                (units * key.cluster.blocks() as u128, key.instruction.tile_k())
            }
        };
        // Of stream-K's places one bit says what they are.
        let limit = if variant.split_k == SplitK::Stream { MAX_BLOCKS / 2 } else { MAX_BLOCKS };
        if blocks > limit {
            return Err(Error::TooManyBlocks { blocks, limit });
        }
        let k_per_split = problem.k.div_ceil(tile_k).div_ceil(splits).max(1) * tile_k;
        // A persistent kernel's blocks take one unit after another.
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let at_once = variant.persistent_blocks.unwrap_or(u32::MAX);
        let whole = Self { tiles_m, tiles_n, splits, k_per_split, streamed: 0, blocks: blocks.min(at_once) };
        let (KernelKey::Sm90(key), SplitK::Stream) = (&variant.key, variant.split_k) else { return Ok(whole) };
        let cluster = key.cluster.blocks() as u32;
        let (units, at_once) = ((blocks / cluster) as usize, (at_once / cluster) as usize);
        let stream = sm90::Stream::of(units, at_once, problem.k.div_ceil(tile_k));
        Ok(Self { streamed: stream.streamed, blocks: stream.clusters as u32 * cluster, ..whole })
    }

    fn tiles(&self, problem: &Problem) -> usize {
        self.tiles_m * self.tiles_n * problem.batch
    }
}

/// Where everything is in the workspace: byte offsets from the start of the scratch memory or of the counters.
struct Places {
    split_k_sums: usize,
    partials: Vec<usize>,
    scratch_bytes: usize,
    counters: Vec<usize>,
    counter_count: usize,
}

impl Places {
    fn of(tree: &ValidTree, variant: &Variant, problem: &Problem, grid: &Grid) -> Self {
        let tiles = grid.tiles(problem);
        let sums = match variant.split_k {
            SplitK::None => 0,
            SplitK::Serial(_) => tiles,
            SplitK::Parallel(n) => tiles * n,
            // A block stores at most one part of a tile.
            SplitK::Stream => grid.blocks as usize,
        };
        let mut places = Self {
            split_k_sums: 0,
            partials: Vec::new(),
            scratch_bytes: sums * variant.sum_bytes(),
            counters: Vec::new(),
            counter_count: match variant.split_k {
                SplitK::None => 0,
                SplitK::Serial(_) | SplitK::Parallel(_) => tiles,
                SplitK::Stream => sums,
            },
        };
        let real = tree.real().element().size();
        for (output, _) in &variant.emitted.arguments.partials {
            let axis = tree.outputs()[*output].reduction().map_or(Axis::All, |r| r.axis);
            let values = problem.batch
                * match axis {
                    Axis::Row => grid.tiles_n * problem.m,
                    Axis::Column => grid.tiles_m * problem.n,
                    Axis::All => grid.tiles_m * grid.tiles_n,
                };
            let offset = places.scratch_bytes.next_multiple_of(256);
            places.partials.push(offset);
            places.scratch_bytes = offset + values * real;
        }
        for (group, _) in &variant.emitted.arguments.counters {
            places.counters.push(places.counter_count * 4);
            let ReductionGroup { axis, batch } = *group;
            let along = match axis {
                Axis::Row => grid.tiles_m,
                Axis::Column => grid.tiles_n,
                Axis::All => 1,
            };
            places.counter_count += if batch { along } else { along * problem.batch };
        }
        places
    }
}

impl Workspace {
    fn new(device: &Device, places: &Places) -> Result<Self, Error> {
        Ok(Self {
            counters: device.zeros_of(ElementType::I32, [places.counter_count])?,
            scratch: device.zeros_of(ElementType::U8, [places.scratch_bytes])?,
        })
    }

    /// Addresses of split-K's sums and counters.
    fn sums(&self, places: &Places) -> [u64; 2] {
        [self.scratch.device_address() + places.split_k_sums as u64, self.counters.device_address()]
    }

    fn suffices(&self, places: &Places) -> bool {
        self.counters.len() >= places.counter_count && self.scratch.len() >= places.scratch_bytes
    }
}

/// One run of a kernel, checked.
pub(super) struct Run<'a> {
    pub(super) device: &'a Device,
    pub(super) tree: &'a ValidTree,
    pub(super) variant: &'a Arc<Variant>,
    pub(super) problem: Problem,
    pub(super) a: &'a DeviceTensor,
    pub(super) b: &'a DeviceTensor,
    pub(super) arguments: &'a [Argument<'a>],
}

impl Run<'_> {
    /// Launches. `workspace` is kept for the next run and grown where this one needs more; a failed launch drops it,
    /// since its counters may not be 0.
    pub(super) fn launch(&self, workspace: &mut Option<Workspace>, stream: &Stream) -> Result<(), Error> {
        let grid = Grid::of(&self.problem, self.variant)?;
        if self.problem.batch == 0 {
            return Ok(());
        }
        let places = Places::of(self.tree, self.variant, &self.problem, &grid);
        let ready = match workspace.take().filter(|w| w.suffices(&places)) {
            Some(ready) => ready,
            None => Workspace::new(self.device, &places)?,
        };
        let bytes = self.parameter(&grid, &places, &ready)?;
        let mut arguments = vec![KernelArgument::Value(&bytes), KernelArgument::Reads(self.a)];
        arguments.push(KernelArgument::Reads(self.b));
        for tensor in [&ready.counters, &ready.scratch] {
            if !tensor.is_empty() {
                arguments.push(KernelArgument::Writes(tensor));
            }
        }
        arguments.extend(self.arguments.iter().filter_map(|argument| match argument {
            Argument::Scalar(_) => None,
            Argument::Input(tensor) => Some(KernelArgument::Reads(tensor)),
            Argument::Output(tensor) => Some(KernelArgument::Writes(tensor)),
        }));
        let shape = Launch { grid: [grid.blocks, 1, 1], ..self.variant.shape };
        self.variant.kernel.launch(&shape, &arguments, stream)?;
        *workspace = Some(ready);
        Ok(())
    }

    /// The kernel's parameter: what every kernel of its family takes, then the emitted `Arguments`.
    fn parameter(&self, grid: &Grid, places: &Places, workspace: &Workspace) -> Result<Vec<u8>, Error> {
        let (mut bytes, at) = match &self.variant.key {
            KernelKey::Sm80(_) => self.sm80_common(grid, places, workspace)?,
            KernelKey::Sm90(key) => self.sm90_common(key, grid, places, workspace)?,
        };
        self.put_arguments(&mut bytes, at, places, workspace);
        Ok(bytes.into_bytes())
    }

    /// Room for `common` bytes and the arguments, in a structure of the given alignment.
    fn room(&self, common: usize, alignment: usize) -> Result<ParameterBytes, Error> {
        let size = (common + self.variant.emitted.arguments.layout.size()).next_multiple_of(alignment);
        if size > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes: size, limit: PARAMETER_LIMIT });
        }
        Ok(ParameterBytes::new(size))
    }

    /// `sm80::Common`; `sm80/gemm.cuh` says what is where.
    fn sm80_common(
        &self,
        grid: &Grid,
        places: &Places,
        workspace: &Workspace,
    ) -> Result<(ParameterBytes, usize), Error> {
        let mut bytes = self.room(COMMON_BYTES, 8)?;
        for (i, view) in [OperandView::of_a(self.a), OperandView::of_b(self.b)].iter().enumerate() {
            bytes.put_words(32 * i, &[view.address, view.outer as u64, view.k as u64, view.batch as u64]);
        }
        bytes.put_ints(64, &self.extents(grid));
        bytes.put_words(96, &workspace.sums(places));
        Ok((bytes, COMMON_BYTES))
    }

    /// The tensor maps and `sm90::Common`; `sm90/gemm.cuh` says what is where.
    fn sm90_common(
        &self,
        key: &Sm90Key,
        grid: &Grid,
        places: &Places,
        workspace: &Workspace,
    ) -> Result<(ParameterBytes, usize), Error> {
        let traffic = Traffic::of(self.tree, key.direct);
        let Self { problem, a, b, arguments, .. } = *self;
        let maps = Tensors { problem, a, b, arguments }.maps(key, &traffic)?;
        let at = maps.len() + sm90::COMMON_BYTES;
        let mut bytes = self.room(at, sm90::PARAMETER_ALIGNMENT)?;
        bytes.put_bytes(0, &maps);
        bytes.put_ints(maps.len(), &self.extents(grid));
        let (first, second) = if key.swapped { (b, a) } else { (a, b) };
        let batched = [first, second].map(|operand| i32::from(is_batched(operand, 2)));
        bytes.put_ints(maps.len() + 32, &batched);
        bytes.put_ints(maps.len() + 40, &[i32::try_from(grid.streamed).unwrap_or(i32::MAX)]);
        bytes.put_words(maps.len() + 48, &workspace.sums(places));
        Ok((bytes, at))
    }

    /// `Problem`: below 2^31 by `Problem::check_extents`, tiles by `Grid::of`.
    fn extents(&self, grid: &Grid) -> [i32; 8] {
        let Problem { m, n, k, batch, .. } = self.problem;
        // A tree without the accumulator, or an empty product, multiplies nothing.
        let k = if self.tree.accum().is_some() && m > 0 && n > 0 { k } else { 0 };
        let extents = [m, n, k, batch, grid.tiles_m, grid.tiles_n, grid.splits, grid.k_per_split];
        extents.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX))
    }

    fn put_arguments(&self, bytes: &mut ParameterBytes, at: usize, places: &Places, workspace: &Workspace) {
        let arguments = &self.variant.emitted.arguments;
        let (scratch, counters) = (workspace.scratch.device_address(), workspace.counters.device_address());
        for (field, argument) in arguments.fields.iter().zip(self.arguments) {
            for name in [&field.input, &field.output].into_iter().flatten() {
                self.put(bytes, at, name, argument);
            }
        }
        let named =
            arguments.partials.iter().map(|(_, name)| name).zip(places.partials.iter().map(|p| scratch + *p as u64));
        let counted =
            arguments.counters.iter().map(|(_, name)| name).zip(places.counters.iter().map(|c| counters + *c as u64));
        for (name, address) in named.chain(counted) {
            if let Some(field) = arguments.layout.field(name) {
                bytes.put_words(at + field.offset, &[address]);
            }
        }
    }

    fn put(&self, bytes: &mut ParameterBytes, at: usize, name: &str, argument: &Argument<'_>) {
        let Some(field) = self.variant.emitted.arguments.layout.field(name) else { return };
        let offset = at + field.offset;
        let tensor = match argument {
            Argument::Scalar(value) => {
                match field.ty {
                    FieldType::Host(ElementType::F64) => bytes.put_bytes(offset, &value.to_le_bytes()),
                    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest: the arithmetic type")]
                    _ => bytes.put_bytes(offset, &(*value as f32).to_le_bytes()),
                }
                return;
            }
            Argument::Input(tensor) => *tensor,
            Argument::Output(tensor) => &**tensor,
        };
        let address = tensor.device_address();
        match field.ty {
            FieldType::Tensor(_) => {
                let [batch, row, column] = strides(tensor, 2);
                let vectorised = self.is_vectorised(tensor);
                bytes.put_words(offset, &[address, batch, row, column, u64::from(vectorised)]);
            }
            FieldType::Vector(_) => {
                let [batch, _, stride] = strides(tensor, 1);
                bytes.put_words(offset, &[address, batch, stride]);
            }
            FieldType::Scalar(_) => {
                let [batch, ..] = strides(tensor, 0);
                bytes.put_words(offset, &[address, batch]);
            }
            FieldType::Host(_) | FieldType::Partials(_) | FieldType::Counters => {}
        }
    }

    /// Whether rows of a tensor may be accessed in whole vectors: columns are contiguous, and every row begins at a
    /// multiple of the access width.
    fn is_vectorised(&self, tensor: &DeviceTensor) -> bool {
        let size = tensor.element_type().size();
        let width = match &self.variant.key {
            KernelKey::Sm80(key) => (key.vector * size).min(16),
            // Fragments have two neighbouring columns.
            KernelKey::Sm90(_) => 2 * size,
        };
        let [batch, row, column] = strides(tensor, 2);
        let extents = &tensor.shape()[tensor.rank() - 2..];
        let aligned = |stride: u64, extent: usize| extent <= 1 || (stride as usize * size).is_multiple_of(width);
        column == 1
            && tensor.device_address().is_multiple_of(width as u64)
            && aligned(row, extents[0])
            && aligned(batch, self.problem.batch)
    }
}

/// Strides of the batch, rows and columns of an argument of `rank` axes, the batch axis aside. Without a batch axis, or
/// with one of one element, all batches share it.
fn strides(tensor: &DeviceTensor, rank: usize) -> [u64; 3] {
    let given = tensor.strides();
    let front = given.len().saturating_sub(rank);
    let mut strides = [0; 3];
    if front > 0 && tensor.shape()[0] > 1 {
        strides[0] = given[0] as u64;
    }
    for (to, from) in strides[3 - rank..].iter_mut().zip(&given[front..]) {
        *to = *from as u64;
    }
    strides
}
