//! Runs a recurrent cell on a GPU, with all steps in one launch.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KernelArgument, Launch, Stream};

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::gpu::choose::cell::{CellPlan, Choice, Room, choose};
use crate::te::auto::gpu::emit::cell::{CellKey, CellParameter, cell_parameters, emit};
use crate::te::auto::gpu::emit::field::Field;
use crate::te::auto::gpu::emit::loops::Side;
use crate::te::auto::gpu::values::ParameterValues;
use crate::te::auto::gpu::variants::{Variant, Variants};
use crate::te::auto::order::Order;
use crate::te::auto::split::cell::{Cell, CellSource};
use crate::te::error::{RunError, TeError};

/// A cell on a GPU.
pub(in crate::te::auto) struct CellKernel {
    device: Device,
    cell: Cell,
    order: Order,
    variants: Variants<CellKey>,
}

impl CellKernel {
    pub(in crate::te::auto) fn new(device: &Device, cell: Cell, order: Order) -> Self {
        Self { device: device.clone(), cell, order, variants: Variants::default() }
    }

    /// The plan for one launch of all steps, or the reason against it. `bound` are the inputs and the states of all
    /// steps.
    pub(in crate::te::auto) fn choose(&self, bound: &BoundTensors<'_>, steps: usize) -> Result<Choice, TeError> {
        let properties = self.device.properties();
        let room = Room {
            multiprocessors: i64::from(properties.multiprocessors.max(1)),
            shared_bytes: i64::from(properties.shared_bytes_per_block),
        };
        let steps = i64::try_from(steps).map_err(|_| RunError::IntegerRange)?;
        choose(&self.cell, bound, steps, self.order, room)
    }

    /// Runs all steps after the given ones, which must be in memory. Gives the kernel's text.
    pub(in crate::te::auto) fn run(
        &self,
        stream: &Stream,
        bound: &BoundTensors<'_>,
        plan: &CellPlan,
    ) -> Result<Arc<str>, TeError> {
        let variant = self.variants.of(&self.device, &plan.key, || emit(&self.cell, &plan.key))?;
        if plan.blocks > 0 {
            let bytes = self.parameters(bound, plan, &variant)?;
            let mut arguments = vec![KernelArgument::Value(&bytes)];
            arguments.extend(bound.arguments(self.cell.inputs));
            let launch = Launch {
                grid: [plan.blocks as u32, 1, 1],
                block: [plan.key.threads, 1, 1],
                shared_bytes: plan.shared_bytes as u32,
                ..Launch::default()
            };
            variant.kernel.launch(&launch, &arguments, stream)?;
        }
        Ok(Arc::clone(&variant.code))
    }

    fn parameters(&self, bound: &BoundTensors<'_>, plan: &CellPlan, variant: &Variant) -> Result<Vec<u8>, TeError> {
        let cell = &self.cell;
        let mut bytes: Vec<u8> = Vec::new();
        let mut fields = variant.fields.iter();
        for (stage, own) in cell.stages.iter().zip(&plan.stages) {
            let values = ParameterValues {
                bound,
                space: &own.space,
                outer: &own.outer,
                inner: &own.inner,
                points: own.columns,
                vector: 1,
            };
            let reads = &stage.pattern.reads.list;
            // Extents and strides of the tensor of a read that is in shared memory.
            let shared = |read: usize| match stage.sources[read] {
                CellSource::Memory => None,
                CellSource::Buffer { buffer, .. } => Some(plan.buffers[buffer].extents.as_slice()),
            };
            for field in fields.by_ref() {
                let value = match field {
                    Field::Elements => own.elements as u64,
                    Field::Stride(read, d) if shared(*read).is_some() => {
                        let behind = shared(*read).map_or(1, |extents| extents[d + 1..].iter().product::<i64>());
                        behind as u64
                    }
                    Field::Extent(read, d) if shared(*read).is_some() => {
                        shared(*read).map_or(0, |extents| extents[*d]) as u64
                    }
                    other => values.of(other, Side::Inner, reads, &cell.parameters)?,
                };
                bytes.extend(value.to_ne_bytes());
                if *field == Field::Elements {
                    break;
                }
            }
        }
        let state = |buffer: usize| -> Option<&DeviceTensor> {
            cell.buffers[buffer].state.map(|state| bound.tensors[cell.inputs + state])
        };
        for parameter in cell_parameters(cell) {
            let value = match parameter {
                CellParameter::Steps => plan.steps as u64,
                CellParameter::Rows => plan.rows as u64,
                CellParameter::Offset(b) => plan.buffers[b].offset as u64,
                CellParameter::Columns(b) => plan.buffers[b].columns as u64,
                CellParameter::Given(b) => state(b).map_or(0, DeviceTensor::device_address),
                CellParameter::GivenStride(b, d) => state(b).map_or(0, |state| state.strides()[d] as u64),
                CellParameter::GivenExtent(b, d) => state(b).map_or(0, |state| state.shape()[d] as u64),
            };
            bytes.extend(value.to_ne_bytes());
        }
        Ok(bytes)
    }
}
