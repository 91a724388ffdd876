//! Runs a reduction or a map in one launch: compiles the kernel for the run's shapes, and launches it.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KernelArgument, Launch, Stream, trace};

use crate::ElementType;
use crate::pool::Pool;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::Space;
use crate::te::auto::gpu::choose::reduce::{Plan, choose};
use crate::te::auto::gpu::emit::field::{Field, ReduceField};
use crate::te::auto::gpu::emit::reduce::emit;
use crate::te::auto::gpu::key::{ReduceKey, ThreadMapping, value_bytes};
use crate::te::auto::gpu::values::ParameterValues;
use crate::te::auto::gpu::variants::{Variant, Variants};
use crate::te::auto::kernel::Ran;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::run::analysis::Analysis;
use crate::te::error::TeError;

/// One kernel on a GPU.
pub(super) struct OneLaunch {
    device: Device,
    reduction: Reduction,
    order: Order,
    variants: Variants<ReduceKey>,
    workspaces: Pool<Workspace>,
}

/// A run that has been analysed, and its launch.
pub(super) struct Planned {
    space: Space,
    plan: Plan,
}

/// Memory that a launch needs besides its arguments. It grows when a run needs more, and is kept for the next run.
#[derive(Debug)]
struct Workspace {
    /// 32-bit counters, which are 0 between launches.
    counters: DeviceTensor,
    /// Scratch memory, without meaning between launches.
    scratch: DeviceTensor,
}

impl Workspace {
    fn new(stream: &Stream, counters: usize, scratch: usize) -> Result<Self, TeError> {
        Ok(Self {
            counters: stream.zeros_of(ElementType::I32, [counters.max(1)])?,
            scratch: stream.zeros_of(ElementType::U8, [scratch.max(1)])?,
        })
    }

    fn suffices(&self, counters: usize, scratch: usize) -> bool {
        self.counters.len() >= counters && self.scratch.len() >= scratch
    }
}

impl Planned {
    /// Whether the launch would leave most of the device idle for long.
    pub(super) fn is_starved(&self, device: &Device) -> bool {
        self.plan.is_starved(device.properties().multiprocessors)
    }
}

impl OneLaunch {
    pub(super) fn new(device: &Device, reduction: Reduction, order: Order) -> Self {
        Self { device: device.clone(), reduction, order, variants: Variants::default(), workspaces: Pool::default() }
    }

    /// Plans a run; `None` if there is nothing to do.
    pub(super) fn plan(&self, bound: &BoundTensors<'_>) -> Result<Option<Planned>, TeError> {
        let Some(Analysis { space, used }) = Analysis::of(&self.reduction, bound)? else { return Ok(None) };
        let plan = choose(&self.reduction, &space, &used, self.order, self.device.properties().multiprocessors)?;
        Ok(Some(Planned { space, plan }))
    }

    pub(super) fn run(&self, stream: &Stream, bound: &BoundTensors<'_>, planned: &Planned) -> Result<Ran, TeError> {
        let Planned { space, plan } = planned;
        let variant = self.variants.of(&self.device, &plan.key, || {
            let emitted = emit(&self.reduction, &plan.key)?;
            let kernel = emitted.source.entry.as_str();
            trace::event!(DEBUG, "choice", kernel = kernel, choice = trace::text(describe(plan)));
            Ok(emitted)
        })?;
        self.launch(stream, bound, space, plan, &variant)?;
        Ok(Ran { choice: describe(plan).into(), source: Arc::clone(&variant.code) })
    }

    fn launch(
        &self,
        stream: &Stream,
        bound: &BoundTensors<'_>,
        space: &Space,
        plan: &Plan,
        variant: &Variant,
    ) -> Result<(), TeError> {
        let scratch = plan.partials().unsigned_abs() as usize
            * self.reduction.passes.first().map_or(0, |pass| value_bytes(&pass.types()));
        let counters = plan.counters().unsigned_abs() as usize;
        let workspace = match self.workspaces.take(stream, |w| w.suffices(counters, scratch)) {
            Some(workspace) => workspace,
            None => Arc::new(Workspace::new(stream, counters, scratch)?),
        };
        let own = |field: ReduceField| match field {
            ReduceField::Outputs => plan.outputs as u64,
            ReduceField::FullOutputs => plan.full_outputs as u64,
            ReduceField::Chunks => plan.chunks as u64,
            ReduceField::FullChunks => plan.full_chunks as u64,
            ReduceField::Splits => plan.splits as u64,
            ReduceField::Partials => workspace.scratch.device_address(),
            ReduceField::Counters => workspace.counters.device_address(),
        };
        let vector = plan.key.loops.vector as i64;
        let values =
            ParameterValues { bound, space, outer: &plan.outer, inner: &plan.inner, points: plan.points, vector };
        let mut bytes = Vec::with_capacity(variant.fields.len() * 8);
        for field in &variant.fields {
            let value = match field {
                Field::Reduce(field) => own(*field),
                other => values.of(
                    other,
                    plan.key.loops.vector_side,
                    &self.reduction.reads.list,
                    &self.reduction.parameters,
                )?,
            };
            bytes.extend(value.to_ne_bytes());
        }
        let mut arguments = vec![KernelArgument::Value(&bytes)];
        let inputs = bound.tensors.len() - self.reduction.outputs.len();
        arguments.extend(bound.arguments(inputs));
        arguments.extend([KernelArgument::Writes(&workspace.scratch), KernelArgument::Writes(&workspace.counters)]);
        let launch = Launch {
            grid: [plan.blocks as u32, plan.splits as u32, 1],
            block: [plan.key.threads, 1, 1],
            ..Launch::default()
        };
        // A launch that fails may leave counters behind, so its workspace is dropped.
        variant.kernel.launch(&launch, &arguments, stream)?;
        self.workspaces.put(stream, workspace);
        Ok(())
    }
}

fn describe(plan: &Plan) -> String {
    let key = &plan.key;
    let how = match key.mapping {
        ThreadMapping::Rows { group } => {
            format!("rows: {group} threads per output, {} elements at once", key.loops.vector)
        }
        ThreadMapping::Columns { across } => {
            format!("columns: {across} x {} threads, {} outputs at once", key.threads / across, key.loops.vector)
        }
        ThreadMapping::Points => format!("points: {} per thread at once", key.loops.vector),
    };
    let held = if key.chunks_in_registers > 0 { ", elements in registers from pass to pass" } else { "" };
    let parts = if plan.splits > 1 { format!(", {} blocks per output", plan.splits) } else { String::new() };
    let order = if key.exact {
        ", in exact order"
    } else if key.ordered {
        ", in order"
    } else {
        ""
    };
    format!("{how}{held}{parts}{order}; {} blocks of {} threads", plan.blocks * plan.splits, key.threads)
}
