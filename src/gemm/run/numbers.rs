//! Quantities that a run of a product gives to a parameter's formulas.

use epilogue_runtime::DeviceTensor;
use smallvec::SmallVec;

use super::kernel_run::{Filling, KernelRun};
use crate::gemm::kernel::formula::{Axis, Given, OwnQuantities, Quantity};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::tiles::Tiled;
use crate::gemm::problem::OperandView;
use crate::gemm::problem::bounds::{Bounds, BoundsForm};
use crate::gemm::problem::patches::Patches;

/// A launch of a product's kernel.
pub(crate) struct LaunchNumbers<'l> {
    run: &'l KernelRun<'l>,
    filling: &'l Filling<'l>,
    tiled: Tiled<'l>,
    /// A and each B.
    operands: SmallVec<[OperandView; 5]>,
    patches: Option<Patches>,
    /// Quantities of the kernel's family.
    own: OwnQuantities,
}

impl<'l> LaunchNumbers<'l> {
    pub(crate) fn of(run: &'l KernelRun<'l>, filling: &'l Filling<'l>, own: OwnQuantities) -> Self {
        let (operands, patches) = (run.operands().collect(), run.reading.patches());
        Self { run, filling, tiled: run.variant.tiled(&run.problem), operands, patches, own }
    }

    /// An operand by its memory in a struct.
    fn operand(&self, of: Memory) -> Option<&OperandView> {
        match of {
            Memory::A => self.operands.first(),
            Memory::B(i) => self.operands.get(1 + i),
            _ => None,
        }
    }

    /// A tensor that is no operand, likewise.
    fn tensor(&self, of: Memory) -> Option<&'l DeviceTensor> {
        match of {
            Memory::ScalesOfA => self.run.scales.map(|scales| scales.a),
            Memory::ScalesOfB(i) => self.run.scales.and_then(|scales| scales.b.get(i).copied()),
            Memory::Bounds => self.run.reading.bounds().map(|bounds| bounds.tensor),
            Memory::Index => self.run.reading.picked().map(|picked| picked.index),
            _ => None,
        }
    }

    fn stride(&self, axis: Axis, of: Memory) -> isize {
        if let Some(view) = self.operand(of) {
            return match axis {
                Axis::Outer => view.outer,
                Axis::K => view.k,
                Axis::Batch => view.batch,
                _ => 0,
            };
        }
        let Some(tensor) = self.tensor(of) else { return 0 };
        let [batch, rows, columns] = match of {
            Memory::ScalesOfA | Memory::ScalesOfB(_) => scale_strides(tensor),
            _ => return entry_stride(tensor),
        };
        // For B, blocks of K are the rows.
        match (axis, of) {
            (Axis::Batch, _) => batch,
            (Axis::Outer, Memory::ScalesOfA) | (Axis::K, Memory::ScalesOfB(_)) => rows,
            (Axis::K | Axis::Outer, _) => columns,
            _ => 0,
        }
    }

    /// A number of the patches.
    fn of_patches(&self, quantity: Quantity) -> Option<i64> {
        let Patches { inputs, outputs, channels, window, steps, .. } = self.patches.as_ref()?;
        let number = match quantity {
            Quantity::Step(axis) => return Some(steps[axis] as i64),
            Quantity::Before(axis) => return Some(window.before[axis] as i64),
            Quantity::Input(axis) => inputs[axis],
            Quantity::Output(axis) => outputs[axis],
            Quantity::Window(axis) => window.size[axis],
            Quantity::Move(axis) => window.stride[axis],
            Quantity::Dilation(axis) => window.dilation[axis],
            Quantity::InputDilation(axis) => window.input_dilation[axis],
            Quantity::Channels => *channels,
            _ => return None,
        };
        Some(number as i64)
    }
}

impl Given for LaunchNumbers<'_> {
    fn quantity(&self, quantity: Quantity, of: Memory) -> i64 {
        let grid = self.filling.grid;
        match quantity {
            Quantity::Multiplies => self.run.tree.multiplies().into(),
            Quantity::Streamed => grid.streamed as i64,
            Quantity::Blocks => grid.blocks.into(),
            Quantity::Stride(axis) => self.stride(axis, of) as i64,
            Quantity::ElementBytes => self.operand(of).map_or(0, |view| view.element.size() as i64),
            // An index picks rows of A.
            Quantity::Limit => self.operand(Memory::A).map_or(0, |view| view.outer_extent as i64),
            Quantity::Site => self.run.variant.key.of_family().reading().index_site() as i64,
            Quantity::Form => self.run.reading.bounds().map_or(0, form),
            _ => {
                let own = self.own.iter().find(|(own, _)| *own == quantity).map(|(_, number)| *number);
                own.or_else(|| self.of_patches(quantity)).unwrap_or_else(|| self.tiled.quantity(quantity, of))
            }
        }
    }

    fn address(&self, of: Memory) -> Option<(Memory, u64, u64)> {
        let workspace = self.filling.workspace;
        let base = match of {
            Memory::A | Memory::B(_) => self.operand(of)?.address,
            Memory::Scratch => workspace.scratch,
            Memory::Counters => workspace.counters,
            _ => self.tensor(of)?.device_address(),
        };
        let memory = match of {
            Memory::B(i) => Memory::B(self.run.accumulator(i)),
            Memory::ScalesOfB(i) => Memory::ScalesOfB(self.run.accumulator(i)),
            _ => of,
        };
        // Sums of split-K are the first in the scratch memory, and its counters the first counters.
        Some((memory, base, 0))
    }
}

/// The form of bounds, as `groups.cuh` numbers them.
pub(crate) const fn form(bounds: Bounds<'_>) -> i64 {
    match bounds.form {
        BoundsForm::Offsets => 0,
        BoundsForm::Ends => 1,
        BoundsForm::Counts => 2,
    }
}

/// The stride of a list.
pub(crate) fn entry_stride(list: &DeviceTensor) -> isize {
    list.strides().first().copied().unwrap_or(0)
}

/// Strides of scales: of batches (0 if all share one), rows and columns.
fn scale_strides(tensor: &DeviceTensor) -> [isize; 3] {
    match (tensor.shape(), tensor.strides()) {
        ([batch, ..], [over_batch, rows, columns]) => [if *batch > 1 { *over_batch } else { 0 }, *rows, *columns],
        (_, [rows, columns]) => [0, *rows, *columns],
        _ => [0; 3],
    }
}
