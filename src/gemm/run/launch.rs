//! From a run's arguments to a launch: the grid, the kernel's parameter, the workspace.

use super::fill::Fill;
use super::tensor_maps::{Tensors, is_batched};
use super::variant::Variant;
use super::workspace::{Grid, Places, Workspace};
use crate::gemm::kernel::parameters::{PARAMETER_LIMIT, ParameterBytes};
use crate::gemm::kernel::sm80::{OPERAND_BYTES, Sm80Key, common_bytes};
use crate::gemm::kernel::sm90::{Sm90Key, Traffic, Units};
use crate::gemm::kernel::stream::Stream as Line;
use crate::gemm::kernel::{KernelKey, sm90};
use crate::gemm::problem::{Error, OperandView, Problem};
use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, KernelArgument, Launch, Stream};

use crate::Argument;
use crate::evt::ValidTree;
use crate::pool::Pool;

/// One run of a kernel, checked.
pub(crate) struct Run<'a> {
    pub(crate) tree: &'a ValidTree,
    pub(crate) variant: &'a Arc<Variant>,
    pub(crate) problem: Problem,
    pub(crate) a: &'a DeviceTensor,
    /// Of the live accumulators.
    pub(crate) b: &'a [DeviceTensor],
    pub(crate) arguments: &'a [Argument<'a>],
    /// Of the launch's tail.
    pub(crate) of_tail: &'a [Argument<'a>],
}

impl Run<'_> {
    /// Launches. The workspace is kept for the next run on the stream; a failed launch drops it, since its counters may not
    /// be 0.
    pub(crate) fn launch(&self, workspaces: &Pool<Workspace>, stream: &Stream) -> Result<(), Error> {
        let grid = Grid::of(&self.problem, self.variant)?;
        if self.problem.batch == 0 {
            return Ok(());
        }
        let places = Places::of_product(self.tree, self.variant, &self.problem, &grid);
        let ready = match workspaces.take(stream, |workspace| workspace.suffices(&places)) {
            Some(ready) => ready,
            None => Workspace::new(stream, &places)?,
        };
        let bytes = self.parameter(&grid, &places, &ready)?;
        let mut arguments = vec![KernelArgument::Value(&bytes), KernelArgument::Reads(self.a)];
        arguments.extend(self.b.iter().map(KernelArgument::Reads));
        for tensor in [&ready.counters, &ready.scratch] {
            if !tensor.is_empty() {
                arguments.push(KernelArgument::Writes(tensor));
            }
        }
        arguments.extend(self.arguments.iter().chain(self.of_tail).filter_map(accessed));
        let shape = Launch { grid: [grid.blocks, 1, 1], ..self.variant.shape };
        self.variant.kernel.launch(&shape, &arguments, stream)?;
        workspaces.put(stream, ready);
        Ok(())
    }

    /// The kernel's parameter: what every kernel of its family takes, then the emitted `Arguments`.
    fn parameter(&self, grid: &Grid, places: &Places, workspace: &Workspace) -> Result<Vec<u8>, Error> {
        let (mut bytes, at) = match &self.variant.key {
            KernelKey::Sm80(key) => self.sm80_common(key, grid, places, workspace)?,
            KernelKey::Sm90(key) => self.sm90_common(key, grid, places, workspace)?,
        };
        let neighbours = match &self.variant.key {
            KernelKey::Sm80(key) => key.vector,
            // Fragments have two neighbouring columns.
            KernelKey::Sm90(_) => 2,
        };
        let fill = Fill { arguments: (self.arguments, self.of_tail), batch: self.problem.batch, neighbours };
        fill.put_all(&mut bytes, at, &self.variant.emitted, places, workspace);
        Ok(bytes.into_bytes())
    }

    /// Room for `common` bytes and the arguments, in a structure of the given alignment.
    fn room(&self, common: usize, alignment: usize) -> Result<ParameterBytes, Error> {
        let size = (common + self.variant.emitted.argument_bytes()).next_multiple_of(alignment);
        if size > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes: size, limit: PARAMETER_LIMIT });
        }
        Ok(ParameterBytes::new(size))
    }

    /// `sm80::Common`; `sm80/gemm.cuh` says what is where.
    fn sm80_common(
        &self,
        key: &Sm80Key,
        grid: &Grid,
        places: &Places,
        workspace: &Workspace,
    ) -> Result<(ParameterBytes, usize), Error> {
        let mut bytes = self.room(common_bytes(self.b.len()), 8)?;
        let operands = std::iter::once(OperandView::of_a(self.a)).chain(self.b.iter().map(OperandView::of_b));
        for (i, view) in operands.enumerate() {
            bytes.put_words(OPERAND_BYTES * i, &[view.address, view.outer as u64, view.k as u64, view.batch as u64]);
        }
        let at = OPERAND_BYTES * (1 + self.b.len());
        bytes.put_ints(at, &self.extents(grid));
        let line = Line::numbers(grid.streamed, self.blocks_of_k(grid, key.tile.k), grid.blocks as usize);
        bytes.put_ints(at + 32, &line.map(|number| i32::try_from(number).unwrap_or(i32::MAX)));
        bytes.put_words(at + 48, &workspace.sums(places));
        Ok((bytes, common_bytes(self.b.len())))
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
        let bit_of_b = |(i, b): (usize, &DeviceTensor)| i32::from(is_batched(b, 2)) << i;
        let batched = [i32::from(is_batched(a, 2)), b.iter().enumerate().map(bit_of_b).sum()];
        bytes.put_ints(maps.len() + 32, &batched);
        let blocks_of_k = self.blocks_of_k(grid, key.instruction.tile_k());
        let units = Units::of(key, &problem, grid.splits);
        let clusters = grid.blocks as usize / key.cluster.blocks();
        bytes.put_ints(maps.len() + 40, &units.deal(grid.streamed, blocks_of_k, clusters));
        bytes.put_words(maps.len() + 112, &workspace.sums(places));
        Ok((bytes, at))
    }

    /// `Problem`: below 2^31 by `Problem::check_extents`, tiles by `Grid::of`.
    fn extents(&self, grid: &Grid) -> [i32; 8] {
        let Problem { m, n, k, batch, .. } = self.problem;
        // A tree without an accumulator, or an empty product, multiplies nothing.
        let k = if self.tree.multiplies() && m > 0 && n > 0 { k } else { 0 };
        let extents = [m, n, k, batch, grid.tiles_m, grid.tiles_n, grid.splits, grid.k_per_split];
        extents.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX))
    }

    /// Blocks of K of a whole tile, of so many of K each; at least one.
    fn blocks_of_k(&self, grid: &Grid, tile_k: usize) -> usize {
        usize::try_from(self.extents(grid)[2]).unwrap_or(0).div_ceil(tile_k).max(1)
    }
}

/// What a kernel does with the memory of an argument.
pub(crate) fn accessed<'a>(argument: &'a Argument<'_>) -> Option<KernelArgument<'a>> {
    match argument {
        Argument::Scalar(_) => None,
        Argument::Input(tensor) => Some(KernelArgument::Reads(tensor)),
        Argument::Output(tensor) => Some(KernelArgument::Writes(tensor)),
    }
}
