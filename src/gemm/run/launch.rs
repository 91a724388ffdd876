//! Launches a kernel for a run's arguments: the grid, the kernel's parameter, the workspace.

use std::sync::Arc;

use epilogue_runtime::{KernelArgument, Launch, Stream};

use super::fill::Fill;
use super::kernel_run::{Filling, KernelRun};
use super::numbers::LaunchNumbers;
use super::scales::Scales;
use super::workspace::{Grid, Places, Workspace, WorkspaceAddresses};
use crate::Argument;
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::kernel::filler::Filler;
use crate::gemm::kernel::formula::{Evaluation, Scope};
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::kernel::parameters::PARAMETER_LIMIT;
use crate::gemm::problem::Error;
use crate::pool::Pool;

impl KernelRun<'_> {
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
        let room = &ParameterBytes::new;
        let filling = Filling { grid: &grid, places: &places, workspace: ready.addresses(), room };
        let bytes = self.parameter(&filling)?.into_bytes();
        let mut arguments = vec![KernelArgument::Value(&bytes), KernelArgument::Reads(self.a)];
        arguments.extend(self.b.iter().map(KernelArgument::Reads));
        arguments.extend(self.reading.tensors().map(KernelArgument::Reads));
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
        let table = self.variant.key.of_family().table_bytes(self.problem.batch);
        let shared_bytes = shape.shared_bytes.saturating_add(u32::try_from(table).unwrap_or(u32::MAX));
        Launch { grid: [grid.blocks, 1, 1], shared_bytes, ..shape }
    }

    /// The launch as data, and nothing is launched.
    pub(crate) fn describe(&self) -> Result<LaunchDescription, Error> {
        let grid = Grid::of(&self.problem, self.variant)?;
        let places = Places::of_product(self.tree, self.variant, &self.problem, &grid);
        let nowhere = WorkspaceAddresses { counters: 0, scratch: 0 };
        let (key, room) = (self.variant.key.of_family(), &ParameterBytes::described);
        let filling = Filling { grid: &grid, places: &places, workspace: nowhere, room };
        let bytes = self.parameter(&filling)?;
        Ok(LaunchDescription {
            entry: self.variant.emitted.source.entry.clone(),
            launch: self.shape(&grid),
            parameter_bytes: bytes.len(),
            fields: bytes.into_fields(),
            parameter_alignment: key.parameter_alignment(),
            maps: key.maps(self),
            counter_bytes: 4 * places.counter_count,
            scratch_bytes: places.scratch_bytes,
        })
    }

    /// The kernel's parameter: tensor maps, the parts that its key names, and the emitted `Arguments`.
    ///
    /// # Errors
    /// [`Error::TooManyArguments`]; those of tensor maps.
    fn parameter(&self, filling: &Filling<'_>) -> Result<ParameterBytes, Error> {
        let (key, accumulators) = (self.variant.key.of_family(), self.b.len());
        let (maps, parts) = (key.map_bytes(self)?, key.parts());
        let at = maps.len() + Part::bytes(&parts, accumulators);
        let size = (at + self.variant.emitted.argument_bytes()).next_multiple_of(key.parameter_alignment());
        if size > PARAMETER_LIMIT {
            return Err(Error::TooManyArguments { bytes: size, limit: PARAMETER_LIMIT });
        }
        let mut bytes = (filling.room)(size);
        bytes.put_maps(0, &maps);
        let numbers = LaunchNumbers::of(self, filling, key.own_quantities(self)?);
        let values = &Evaluation::new(&numbers);
        let mut to = Filler { bytes: &mut bytes, at: maps.len(), values, accumulators };
        for part in &parts {
            to.put(part.fields, &String::new, Scope::PRODUCT);
        }
        let (tree, batch, arguments) = (self.tree, self.problem.batch, (self.arguments, self.of_tail));
        Fill { tree, arguments, scattered: self.scattered, batch, neighbours: key.neighbours() }.put_all(
            &mut bytes,
            at,
            &self.variant.emitted,
            filling.places,
            filling.workspace,
        );
        Ok(bytes)
    }
}

/// A kernel's access to the memory of an argument.
pub(crate) fn accessed<'a>(argument: &'a Argument<'_>) -> Option<KernelArgument<'a>> {
    match argument {
        Argument::Scalar(_) | Argument::Seed(..) => None,
        Argument::Input(tensor) => Some(KernelArgument::Reads(tensor)),
        Argument::Output(tensor) => Some(KernelArgument::Writes(tensor)),
    }
}
