//! Launches a kernel for a run's arguments: the grid, the kernel's parameter, the workspace.

use super::fill::{Fill, put_groups, put_index};
use super::patches::{images, put_divisors, put_patches, put_pixels};
use super::scales::Scales;
use super::tensor_maps::{Tensors, is_batched};
use super::variant::Variant;
use super::workspace::{Grid, Places, Workspace, WorkspaceAddresses};
use crate::gemm::families::sm80::kernel::{OPERAND_BYTES, Sm80Key};
use crate::gemm::families::sm90::kernel as sm90;
use crate::gemm::families::sm90::kernel::shared::table_bytes;
use crate::gemm::families::sm90::kernel::{Sm90Key, Traffic, Units};
use crate::gemm::kernel::KernelKey;
use crate::gemm::kernel::launch::{LaunchDescription, Memory};
use crate::gemm::kernel::parameters::{
    PARAMETER_LIMIT, PATCHES_BYTES, PICKED_ROWS_BYTES, ParameterBytes, ROW_INDEX_BYTES, scales_bytes,
};
use crate::gemm::kernel::stream::Stream as Line;
use crate::gemm::problem::bounds::Bounds;
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::scattered::Scattered;
use crate::gemm::problem::{Error, OperandView, Problem};
use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, KernelArgument, Launch, Stream};

use crate::Argument;
use crate::evt::ValidTree;
use crate::pool::Pool;

/// One run of a kernel, with checked arguments.
pub(crate) struct Run<'a> {
    pub(crate) tree: &'a ValidTree,
    pub(crate) variant: &'a Arc<Variant>,
    pub(crate) problem: Problem,
    pub(crate) a: &'a DeviceTensor,
    /// Those of the live accumulators.
    pub(crate) b: &'a [DeviceTensor],
    pub(crate) arguments: &'a [Argument<'a>],
    /// What divides the rows into groups.
    pub(crate) bounds: Option<Bounds<'a>>,
    /// Where A's elements are, if it is patches.
    pub(crate) patches: Option<Patches>,
    /// What picks the rows of A.
    pub(crate) picked: Option<Picked<'a>>,
    /// The scales of the operands' blocks.
    pub(crate) scales: Option<Scales<'a>>,
    /// What places the rows of outputs.
    pub(crate) scattered: Option<Scattered<'a>>,
    /// Of the launch's tail.
    pub(crate) of_tail: &'a [Argument<'a>],
}

impl Run<'_> {
    /// Launches the kernel. The workspace is kept for the next run on the stream; after a failed launch it is dropped,
    /// since its counters may not be 0.
    pub(crate) fn launch(&self, workspaces: &Pool<Workspace>, stream: &Stream) -> Result<(), Error> {
        let grid = Grid::of(&self.problem, self.variant)?;
        if self.problem.batch == 0 {
            return Ok(());
        }
        let places = Places::of_product(self.tree, self.variant, &self.problem, &grid);
        let ready = match workspaces.take(stream, |workspace| workspace.suffices(&places)) {
            Some(ready) => ready,
            None => Arc::new(Workspace::new(stream, &places)?),
        };
        let bytes = self.parameter(&grid, &places, ready.addresses(), ParameterBytes::new)?.into_bytes();
        let mut arguments = vec![KernelArgument::Value(&bytes), KernelArgument::Reads(self.a)];
        arguments.extend(self.b.iter().map(KernelArgument::Reads));
        arguments.extend(self.bounds.iter().map(|bounds| KernelArgument::Reads(bounds.tensor)));
        arguments.extend(self.picked.iter().map(|picked| KernelArgument::Reads(picked.index)));
        arguments.extend(self.scales.into_iter().flat_map(Scales::tensors).map(KernelArgument::Reads));
        arguments.extend(self.scattered.iter().map(|scattered| KernelArgument::Reads(scattered.index)));
        for tensor in [&ready.counters, &ready.scratch] {
            if !tensor.is_empty() {
                arguments.push(KernelArgument::Writes(tensor));
            }
        }
        arguments.extend(self.arguments.iter().chain(self.of_tail).filter_map(accessed));
        self.variant.kernel.launch(&self.shape(&grid), &arguments, stream)?;
        workspaces.put(stream, ready);
        Ok(())
    }

    fn shape(&self, grid: &Grid) -> Launch {
        let shape = self.variant.shape;
        let table = match &self.variant.key {
            KernelKey::Sm80(_) => 0,
            KernelKey::Sm90(key) => table_bytes(key.divided, self.problem.batch),
        };
        let shared_bytes = shape.shared_bytes.saturating_add(u32::try_from(table).unwrap_or(u32::MAX));
        Launch { grid: [grid.blocks, 1, 1], shared_bytes, ..shape }
    }

    /// The launch as data, and nothing is launched.
    pub(crate) fn describe(&self) -> Result<LaunchDescription, Error> {
        let grid = Grid::of(&self.problem, self.variant)?;
        let places = Places::of_product(self.tree, self.variant, &self.problem, &grid);
        let nowhere = WorkspaceAddresses { counters: 0, scratch: 0 };
        let (alignment, maps) = match &self.variant.key {
            KernelKey::Sm80(_) => (SM80_ALIGNMENT, Vec::new()),
            KernelKey::Sm90(key) => {
                (sm90::PARAMETER_ALIGNMENT, self.tensors().described(key, &Traffic::of(self.tree, key.direct)))
            }
        };
        let bytes = self.parameter(&grid, &places, nowhere, ParameterBytes::described)?;
        Ok(LaunchDescription {
            entry: self.variant.emitted.source.entry.clone(),
            launch: self.shape(&grid),
            parameter_bytes: bytes.len(),
            fields: bytes.into_fields(),
            parameter_alignment: alignment,
            maps,
            counter_bytes: 4 * places.counter_count,
            scratch_bytes: places.scratch_bytes,
        })
    }

    fn tensors(&self) -> Tensors<'_> {
        let Self { tree, problem, a, b, arguments, patches, .. } = *self;
        Tensors { tree, problem, a, b, arguments, patches }
    }

    /// The kernel's parameter: what every kernel of its family takes, followed by the emitted `Arguments`.
    fn parameter(
        &self,
        grid: &Grid,
        places: &Places,
        workspace: WorkspaceAddresses,
        room: impl Fn(usize) -> ParameterBytes,
    ) -> Result<ParameterBytes, Error> {
        let (mut bytes, at) = match &self.variant.key {
            KernelKey::Sm80(key) => self.sm80_common(key, grid, places, workspace, room)?,
            KernelKey::Sm90(key) => self.sm90_common(key, grid, places, workspace, room)?,
        };
        let neighbours = match &self.variant.key {
            KernelKey::Sm80(key) => key.vector,
            // A fragment has pairs of neighbouring columns.
            KernelKey::Sm90(_) => 2,
        };
        let (tree, batch, arguments) = (self.tree, self.problem.batch, (self.arguments, self.of_tail));
        Fill { tree, arguments, scattered: self.scattered, batch, neighbours }.put_all(
            &mut bytes,
            at,
            &self.variant.emitted,
            places,
            workspace,
        );
        Ok(bytes)
    }

    /// The bytes for `common` bytes and the arguments, in a structure of the given alignment.
    fn room(
        &self,
        common: usize,
        alignment: usize,
        room: impl Fn(usize) -> ParameterBytes,
    ) -> Result<ParameterBytes, Error> {
        let size = (common + self.variant.emitted.argument_bytes()).next_multiple_of(alignment);
        if size > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes: size, limit: PARAMETER_LIMIT });
        }
        Ok(room(size))
    }

    /// A and the kernel's B: whose memory, its name, and how it lies.
    fn operands(&self) -> impl Iterator<Item = (Memory, OperandView)> {
        let of_b = |(i, b)| (self.memory_of_b(i), OperandView::of_b(b));
        let of_a = self.patches.map_or_else(|| OperandView::of_a(self.a), |patches| images(self.a, &patches));
        std::iter::once((Memory::A, of_a)).chain(self.b.iter().enumerate().map(of_b))
    }

    fn memory_of_b(&self, i: usize) -> Memory {
        Memory::B(self.accumulator(i))
    }

    fn scales_of_b(&self, i: usize) -> Memory {
        Memory::ScalesOfB(self.accumulator(i))
    }

    /// The accumulator of the kernel's B of this place.
    fn accumulator(&self, i: usize) -> usize {
        self.tree.live_accumulators().nth(i).unwrap_or(0)
    }

    /// `sm80::Common`; `sm80/gemm.cuh` describes its fields.
    fn sm80_common(
        &self,
        key: &Sm80Key,
        grid: &Grid,
        places: &Places,
        workspace: WorkspaceAddresses,
        room: impl Fn(usize) -> ParameterBytes,
    ) -> Result<(ParameterBytes, usize), Error> {
        let mut bytes = self.room(key.common_bytes(), SM80_ALIGNMENT, room)?;
        for (i, (of, view)) in self.operands().enumerate() {
            let (at, name) = (OPERAND_BYTES * i, || operand_name(of));
            bytes.put_address(at, (of, view.address), 0, || name() + ".pointer");
            bytes.put_named_words(at + 8, &[view.outer as u64, view.k as u64, view.batch as u64], |i| {
                format!("{}.{}", name(), ["outer_stride", "k_stride", "batch_stride"][i])
            });
        }
        let at = OPERAND_BYTES * (1 + self.b.len());
        bytes.put_named_ints(at, &self.extents(grid), extent_name);
        let line = Line::numbers(grid.streamed, self.blocks_of_k(grid, key.tile.k), grid.blocks as usize);
        let line = line.map(|number| i32::try_from(number).unwrap_or(i32::MAX));
        bytes.put_named_ints(at + 32, &line, |i| format!("line.{}", LINE[i]));
        put_sums(&mut bytes, at + 48, places, workspace);
        if let Some(bounds) = self.bounds {
            put_groups(&mut bytes, at + 64, bounds, self.problem.batch);
        }
        if let (Some(patches), true) = (&self.patches, key.patches) {
            put_patches(&mut bytes, at + 64, patches);
            if key.divides_positions() {
                put_divisors(&mut bytes, at + 64 + PATCHES_BYTES, patches);
            }
        }
        if let Some(Picked { index }) = self.picked {
            let offset = key.common_bytes() - ROW_INDEX_BYTES;
            let rows = OperandView::of_a(self.a).outer_extent;
            put_index(&mut bytes, offset, (Memory::Index, "picked"), index, [rows, key.index_site()]);
        }
        if let Some(scales) = self.scales {
            let offset = key.common_bytes() - scales_bytes(key.accumulators);
            scales.put(&mut bytes, offset, |i| self.scales_of_b(i));
        }
        Ok((bytes, key.common_bytes()))
    }

    /// The tensor maps and `sm90::Common`; `sm90/gemm.cuh` describes its fields.
    fn sm90_common(
        &self,
        key: &Sm90Key,
        grid: &Grid,
        places: &Places,
        workspace: WorkspaceAddresses,
        room: impl Fn(usize) -> ParameterBytes,
    ) -> Result<(ParameterBytes, usize), Error> {
        let traffic = Traffic::of(self.tree, key.direct);
        let Self { problem, a, b, .. } = *self;
        let maps = self.tensors().maps(key, &traffic)?;
        let at = maps.len() + key.common_bytes();
        let mut bytes = self.room(at, sm90::PARAMETER_ALIGNMENT, room)?;
        bytes.put_maps(0, &maps);
        bytes.put_named_ints(maps.len(), &self.extents(grid), extent_name);
        let bit_of_b = |(i, b): (usize, &DeviceTensor)| i32::from(is_batched(b, 2)) << i;
        let batched = [i32::from(is_batched(a, 2)), b.iter().enumerate().map(bit_of_b).sum()];
        bytes.put_named_ints(maps.len() + 32, &batched, |i| ["a_is_batched", "b_are_batched"][i].to_owned());
        let blocks_of_k = self.blocks_of_k(grid, key.instruction.tile_k());
        let units = Units::of(key, &problem, grid.splits);
        let clusters = grid.blocks as usize / key.cluster.blocks();
        let deal = units.deal(grid.streamed, blocks_of_k, clusters);
        bytes.put_named_ints(maps.len() + 40, &deal, |i| format!("deal.{i}"));
        put_sums(&mut bytes, maps.len() + 112, places, workspace);
        if let Some(bounds) = self.bounds {
            put_groups(&mut bytes, maps.len() + sm90::COMMON_BYTES, bounds, self.problem.batch);
        }
        if let (Some(patches), 1..) = (&self.patches, key.patches) {
            let taps = patches.window.size.iter().product();
            let of_filters = || self.tensors().steps_of_b().map(|steps| steps.counts(problem.n, taps));
            // What transposed patches are multiplied by is a batch like any other.
            let steps = if key.has_transposed_patches() { Some([0; 2]) } else { of_filters() };
            let steps = steps.ok_or_else(|| {
                let reason = "the filters of its groups lie apart: give a contiguous copy";
                Error::NoKernel { kernel: self.variant.key.to_string(), reason }
            })?;
            put_pixels(&mut bytes, maps.len() + sm90::COMMON_BYTES, patches, key.box_channels(), steps);
        }
        if let (Some(Picked { index }), true) = (self.picked, key.picked) {
            let (offset, view) = (at - PICKED_ROWS_BYTES, OperandView::of_a(a));
            bytes.put_address(offset, (Memory::A, view.address), 0, || "picked.matrix".to_owned());
            let row_bytes = view.outer as u64 * view.element.size() as u64;
            bytes.put_named_words(offset + 8, &[row_bytes], |_| "picked.row_bytes".to_owned());
            let numbers = [view.outer_extent, key.index_site()];
            put_index(&mut bytes, offset + 16, (Memory::Index, "picked"), index, numbers);
        }
        if let Some(scales) = self.scales {
            scales.put(&mut bytes, at - scales_bytes(key.accumulators), |i| self.scales_of_b(i));
        }
        Ok((bytes, at))
    }

    /// `Problem`. `Problem::check_extents` keeps extents below 2^31, `Grid::of` the numbers of tiles.
    fn extents(&self, grid: &Grid) -> [i32; 8] {
        let Problem { m, n, k, batch, .. } = self.problem;
        // A tree without an accumulator, or an empty product, multiplies nothing.
        let k = if self.tree.multiplies() && m > 0 && n > 0 { k } else { 0 };
        let extents = [m, n, k, batch, grid.tiles_m, grid.tiles_n, grid.splits, grid.k_per_split];
        extents.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX))
    }

    /// The number of k-tiles in a whole tile, each `tile_k` deep; at least one.
    fn blocks_of_k(&self, grid: &Grid, tile_k: usize) -> usize {
        usize::try_from(self.extents(grid)[2]).unwrap_or(0).div_ceil(tile_k).max(1)
    }
}

/// What a kernel does with the memory of an argument.
pub(crate) fn accessed<'a>(argument: &'a Argument<'_>) -> Option<KernelArgument<'a>> {
    match argument {
        Argument::Scalar(_) | Argument::Seed(..) => None,
        Argument::Input(tensor) => Some(KernelArgument::Reads(tensor)),
        Argument::Output(tensor) => Some(KernelArgument::Writes(tensor)),
    }
}

/// Alignment of the parameter of a kernel for sm_80 and up.
const SM80_ALIGNMENT: usize = 8;

/// The numbers of `sm80::Line`.
const LINE: [&str; 4] = ["streamed", "blocks_of_k", "share", "longer"];

/// The numbers of `Problem`.
fn extent_name(i: usize) -> String {
    let name = ["m", "n", "k", "batch", "tiles_m", "tiles_n", "splits", "k_per_split"][i];
    format!("problem.{name}")
}

fn operand_name(of: Memory) -> String {
    match of {
        // Most epilogues have one accumulator.
        Memory::B(0) => "b".to_owned(),
        Memory::B(i) => format!("b{i}"),
        _ => "a".to_owned(),
    }
}

/// Where the sums of split-K and their counters are.
fn put_sums(bytes: &mut ParameterBytes, offset: usize, places: &Places, workspace: WorkspaceAddresses) {
    let WorkspaceAddresses { counters, scratch } = workspace;
    let name = |what: &str| format!("workspace.split_k_{what}");
    bytes.put_address(offset, (Memory::Scratch, scratch), places.split_k_sums as u64, || name("sums"));
    bytes.put_address(offset + 8, (Memory::Counters, counters), 0, || name("counters"));
}
