//! From a run's arguments to a launch: the grid, the kernel's parameter, the workspace.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, Kernel, KernelArgument, Launch, Stream};

use super::cost::SplitK;
use super::emit::{COMMON_BYTES, Emitted, FieldType, KernelKey, PARAMETER_LIMIT, ParameterBytes, ReductionGroup};
use super::error::Error;
use super::problem::{OperandView, Problem};
use crate::evt::{Axis, ValidTree};
use crate::{Argument, ElementType};

/// The most blocks along a grid's x (CUDA C++ Programming Guide, "Technical Specifications").
const MAX_BLOCKS: u128 = i32::MAX as u128;

/// A compiled kernel with what its launch needs.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) key: KernelKey,
    pub(super) emitted: Emitted,
    pub(super) kernel: Kernel,
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
    /// Blocks in all.
    blocks: u32,
}

impl Grid {
    /// # Errors
    /// [`Error::TooManyBlocks`].
    pub(super) fn of(problem: &Problem, key: &KernelKey, split_k: SplitK) -> Result<Self, Error> {
        // At least one tile: it writes the reductions' identities where the matrix is empty.
        let tiles_m = problem.m.div_ceil(key.tile.m).max(1);
        let tiles_n = problem.n.div_ceil(key.tile.n).max(1);
        let splits = split_k.splits();
        let blocks = tiles_m as u128 * tiles_n as u128 * problem.batch as u128 * splits as u128;
        if blocks > MAX_BLOCKS {
            return Err(Error::TooManyBlocks { blocks, limit: MAX_BLOCKS });
        }
        let k_per_split = problem.k.div_ceil(key.tile.k).div_ceil(splits).max(1) * key.tile.k;
        Ok(Self { tiles_m, tiles_n, splits, k_per_split, blocks: u32::try_from(blocks).unwrap_or(u32::MAX) })
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
    fn of(tree: &ValidTree, variant: &Variant, problem: &Problem, grid: &Grid, split_k: SplitK) -> Self {
        let tiles = grid.tiles(problem);
        let accumulator = variant.key.instruction.accumulator();
        let sums = match split_k {
            SplitK::None => 0,
            SplitK::Serial(_) => tiles,
            SplitK::Parallel(n) => tiles * n,
        };
        let mut places = Self {
            split_k_sums: 0,
            partials: Vec::new(),
            scratch_bytes: sums * variant.key.tile.accumulator_bytes(accumulator),
            counters: Vec::new(),
            counter_count: if sums == 0 { 0 } else { tiles },
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
    pub(super) split_k: SplitK,
    pub(super) a: &'a DeviceTensor,
    pub(super) b: &'a DeviceTensor,
    pub(super) arguments: &'a [Argument<'a>],
}

impl Run<'_> {
    /// Launches. `workspace` is kept for the next run and grown where this one needs more; a failed launch drops it,
    /// since its counters may not be 0.
    pub(super) fn launch(&self, workspace: &mut Option<Workspace>, stream: &Stream) -> Result<(), Error> {
        let grid = Grid::of(&self.problem, &self.variant.key, self.split_k)?;
        if self.problem.batch == 0 {
            return Ok(());
        }
        let places = Places::of(self.tree, self.variant, &self.problem, &grid, self.split_k);
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
        let shape = Launch {
            grid: [grid.blocks, 1, 1],
            block: [self.variant.key.tile.threads() as u32, 1, 1],
            shared_bytes: self.variant.key.tile.shared_bytes(self.variant.key.instruction) as u32,
            ..Launch::default()
        };
        self.variant.kernel.launch(&shape, &arguments, stream)?;
        *workspace = Some(ready);
        Ok(())
    }

    /// The kernel's parameter; `sm80::Common` in `gemm.cuh` and the emitted `Arguments` say what is where.
    fn parameter(&self, grid: &Grid, places: &Places, workspace: &Workspace) -> Result<Vec<u8>, Error> {
        let arguments = &self.variant.emitted.arguments;
        let size = COMMON_BYTES + arguments.layout.size();
        if size > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes: size, limit: PARAMETER_LIMIT });
        }
        let mut bytes = ParameterBytes::new(size);
        for (i, view) in [OperandView::of_a(self.a), OperandView::of_b(self.b)].iter().enumerate() {
            bytes.put_words(32 * i, &[view.address, view.outer as u64, view.k as u64, view.batch as u64]);
        }
        let k = if self.tree.accum().is_some() { self.problem.k } else { 0 };
        let extents = [
            self.problem.m,
            self.problem.n,
            k,
            self.problem.batch,
            grid.tiles_m,
            grid.tiles_n,
            grid.splits,
            grid.k_per_split,
        ];
        // Extents are below 2^31 by `Problem::check_extents`, tiles by `Grid::of`.
        let extents = extents.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX));
        bytes.put_ints(64, &extents);
        let scratch = workspace.scratch.device_address();
        let counters = workspace.counters.device_address();
        bytes.put_words(96, &[scratch + places.split_k_sums as u64, counters]);

        for (field, argument) in arguments.fields.iter().zip(self.arguments) {
            for name in [&field.input, &field.output].into_iter().flatten() {
                self.put(&mut bytes, name, argument);
            }
        }
        let named =
            arguments.partials.iter().map(|(_, name)| name).zip(places.partials.iter().map(|p| scratch + *p as u64));
        let counted =
            arguments.counters.iter().map(|(_, name)| name).zip(places.counters.iter().map(|c| counters + *c as u64));
        for (name, address) in named.chain(counted) {
            if let Some(field) = arguments.layout.field(name) {
                bytes.put_words(COMMON_BYTES + field.offset, &[address]);
            }
        }
        Ok(bytes.into_bytes())
    }

    fn put(&self, bytes: &mut ParameterBytes, name: &str, argument: &Argument<'_>) {
        let Some(field) = self.variant.emitted.arguments.layout.field(name) else { return };
        let offset = COMMON_BYTES + field.offset;
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
        let width = (self.variant.key.vector * size).min(16);
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
