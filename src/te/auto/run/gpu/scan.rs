//! Runs a scan on a GPU: compiles it for the run's shapes, and launches it.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KernelArgument, Launch, Stream, trace};

use crate::ElementType;
use crate::pool::Pool;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::Space;
use crate::te::auto::gpu::choose::scan::{ScanPlan, choose};
use crate::te::auto::gpu::emit::field::{Field, ScanField};
use crate::te::auto::gpu::emit::linear_map::map_bytes;
use crate::te::auto::gpu::emit::loops::Side;
use crate::te::auto::gpu::emit::scan::{ScanKey, ScanMapping, emit};
use crate::te::auto::gpu::values::ParameterValues;
use crate::te::auto::gpu::variants::{Variant, Variants};
use crate::te::auto::kernel::Ran;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::auto::run::analysis::Analysis;
use crate::te::auto::run::backend::StepsOfScan;
use crate::te::error::TeError;

/// The computed steps of a scan, on a GPU.
pub(super) struct ScanLaunch {
    device: Device,
    order: Order,
    variants: Variants<ScanKey>,
    workspaces: Pool<Workspace>,
}

/// Memory through which blocks communicate. It is allocated together, since flags hold the number of the launch, which
/// `claims` counts.
struct Workspace {
    /// Counters: finished blocks, finished launches, and then the claimed tiles of every group of columns.
    claims: DeviceTensor,
    flags: DeviceTensor,
    maps: DeviceTensor,
}

impl Workspace {
    fn new(stream: &Stream, groups: usize, flags: usize, map_bytes: usize) -> Result<Self, TeError> {
        Ok(Self {
            claims: stream.zeros_of(ElementType::I32, [groups + 2])?,
            flags: stream.zeros_of(ElementType::I32, [flags.max(1)])?,
            maps: stream.zeros_of(ElementType::U8, [map_bytes.max(1)])?,
        })
    }

    fn suffices(&self, groups: usize, flags: usize, map_bytes: usize) -> bool {
        self.claims.len() >= groups + 2 && self.flags.len() >= flags && self.maps.len() >= map_bytes
    }
}

impl ScanLaunch {
    pub(super) fn new(device: &Device, order: Order) -> Self {
        Self { device: device.clone(), order, variants: Variants::default(), workspaces: Pool::default() }
    }

    fn launch(
        &self,
        pattern: &Recurrence,
        stream: &Stream,
        bound: &BoundTensors<'_>,
        space: &Space,
        plan: &ScanPlan,
        variant: &Variant,
    ) -> Result<(), TeError> {
        let maps = plan.shared_maps().unsigned_abs() as usize;
        let groups = if plan.key.mapping == ScanMapping::Shared { plan.groups.unsigned_abs() as usize } else { 0 };
        let map_bytes = pattern.map.as_ref().map_or(0, map_bytes) * maps * plan.key.across as usize;
        let workspace = match self.workspaces.take(stream, |w| w.suffices(groups, maps, map_bytes)) {
            Some(workspace) => workspace,
            None => Arc::new(Workspace::new(stream, groups, maps, map_bytes)?),
        };
        let own = |field: ScanField| match field {
            ScanField::Columns => plan.columns as u64,
            ScanField::Reduced => plan.reduced as u64,
            ScanField::Steps => plan.steps as u64,
            ScanField::Tiles => plan.tiles as u64,
            ScanField::Maps => workspace.maps.device_address(),
            ScanField::Flags => workspace.flags.device_address(),
            // Behind the two counters.
            ScanField::Claims => workspace.claims.device_address() + 8,
            ScanField::Control => workspace.claims.device_address(),
        };
        let vector = plan.key.loops.vector as i64;
        let values =
            ParameterValues { bound, space, outer: &plan.outer, inner: &plan.inner, points: plan.steps, vector };
        let mut bytes = Vec::with_capacity(variant.fields.len() * 8);
        for field in &variant.fields {
            let value = match field {
                Field::Scan(field) => own(*field),
                other => values.of(other, Side::Inner, &pattern.reads.list, &pattern.parameters)?,
            };
            bytes.extend(value.to_ne_bytes());
        }
        let inputs = bound.tensors.len() - pattern.outputs.len();
        let mut arguments = vec![KernelArgument::Value(&bytes)];
        arguments.extend(bound.arguments(inputs));
        arguments.extend([&workspace.claims, &workspace.flags, &workspace.maps].map(KernelArgument::Writes));
        let grid = [plan.blocks as u32, 1, 1];
        let launch = Launch { grid, block: [plan.key.threads, 1, 1], ..Launch::default() };
        // A launch that fails may leave claims behind, so its workspace is dropped.
        variant.kernel.launch(&launch, &arguments, stream)?;
        self.workspaces.put(stream, workspace);
        Ok(())
    }
}

impl StepsOfScan for ScanLaunch {
    fn again(&self, _: &Recurrence, _: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        // The compiled kernel is found by its key, which follows from the analysis.
        Ok(None)
    }

    fn run(
        &self,
        pattern: &Recurrence,
        stream: &Stream,
        bound: &BoundTensors<'_>,
        analysis: &Analysis,
    ) -> Result<Ran, TeError> {
        let Analysis { space, used } = analysis;
        let plan = choose(pattern, space, used, self.order, self.device.properties().multiprocessors)?;
        let variant = self.variants.of(&self.device, &plan.key, || {
            let emitted = emit(pattern, &plan.key)?;
            let kernel = emitted.source.entry.as_str();
            trace::event!(DEBUG, "choice", kernel = kernel, choice = trace::text(describe(&plan)));
            Ok(emitted)
        })?;
        self.launch(pattern, stream, bound, space, &plan, &variant)?;
        Ok(Ran { choice: describe(&plan).into(), source: Arc::clone(&variant.code) })
    }
}

fn describe(plan: &ScanPlan) -> String {
    let key = &plan.key;
    let how = match key.mapping {
        ScanMapping::InOrder => "in order, a thread per column".to_owned(),
        ScanMapping::Owned => format!("{} tiles of a column one after the other in a block", plan.tiles),
        ScanMapping::Shared => format!("{} tiles of a column shared by all blocks", plan.tiles),
    };
    let reduction = match plan.reduced {
        1 => String::new(),
        reduced => format!(", {reduced} columns folded to one by {} lanes", key.group),
    };
    let reason = plan.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let shape = if key.mapping == ScanMapping::InOrder {
        String::new()
    } else {
        let (across, warps) = (key.across, key.threads / 32);
        let (lanes, subtiles) = (32 / across, key.subtiles);
        format!(", {across} columns x {warps} warps x {subtiles} x {lanes} lanes x {} steps", key.loops.vector)
    };
    format!("{how}{reason}{shape}{reduction}; {} blocks of {} threads", plan.blocks, key.threads)
}
