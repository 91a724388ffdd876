//! Runs a scan on a device: compiles it for the run's shapes, and launches it.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KernelArgument, Launch, Stream, trace};

use super::one::{OneKernel, Values};
use super::several::SeveralKernels;
use crate::ElementType;
use crate::pool::Pool;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::bind::iteration_space::{Space, tensor_of};
use crate::te::auto::cpu::made::{Cached, CodeCache, Made, Scan};
use crate::te::auto::gpu::choose::scan::{MOST_REDUCED, ScanPlan, choose};
use crate::te::auto::gpu::emit::context::{check_ranges, used_axes};
use crate::te::auto::gpu::emit::field::{Field, ScanField};
use crate::te::auto::gpu::emit::linear_map::map_bytes;
use crate::te::auto::gpu::emit::loops::Side;
use crate::te::auto::gpu::emit::scan::{ScanKey, ScanMapping, emit};
use crate::te::auto::gpu::variants::{Variant, Variants};
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::auto::split::by_shape::KernelSequence;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::lang::tensor::Tensor;

/// A scan on a device.
pub(in crate::te::auto) struct ScanKernel {
    device: Device,
    pattern: Recurrence,
    order: Order,
    variants: Variants<ScanKey>,
    workspaces: Pool<Workspace>,
    /// The outputs of reduced columns, for the case that there are no columns, and which parameters they take.
    over_nothing: Option<(OneKernel, Vec<usize>)>,
    /// The same in several kernels, if there are more columns to reduce than one kernel can, and which parameters they
    /// take.
    apart: Option<(SeveralKernels, Vec<usize>)>,
    /// The code of the last run on the CPU.
    code_cache: CodeCache,
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

impl ScanKernel {
    pub(in crate::te::auto) fn new(device: &Device, pattern: Recurrence, order: Order) -> Result<Self, TeError> {
        let over_nothing = pattern.over_nothing()?;
        Ok(Self {
            apart: apart(device, &pattern, order)?,
            device: device.clone(),
            over_nothing: over_nothing.map(|(map, places)| (OneKernel::new(device, map, order), places)),
            pattern,
            order,
            variants: Variants::default(),
            workspaces: Pool::default(),
            code_cache: CodeCache::default(),
        })
    }

    /// Runs without columns: outputs that reduce the columns have values nevertheless.
    fn run_over_nothing(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Option<Ran>, TeError> {
        let Some((kernel, places)) = &self.over_nothing else { return Ok(None) };
        let bound = of_places(bound, places);
        let Some(prepared) = kernel.prepare(&bound)? else { return Ok(None) };
        kernel.run(stream, &bound, &prepared).map(Some)
    }

    fn space(&self, bound: &Bound<'_>) -> Result<Space, TeError> {
        let pattern = &self.pattern;
        let mut space = Space::of(&pattern.axes, &pattern.reads.list, &pattern.parameters, bound)?;
        let time = pattern.outer();
        for output in &pattern.outputs {
            let tensor = tensor_of(&pattern.parameters, bound, &output.tensor)?;
            space.push_output(tensor, &output.axes);
            let computed = space.extents[time];
            let Some(steps) = space.outputs.last_mut() else { continue };
            // From the first element to that of the first computed step.
            let mut skip = pattern.given_steps * steps.strides[time];
            if output.reversed {
                // The computed steps fill everything except the last `given_steps` places.
                skip = (computed - 1) * steps.strides[time];
                steps.strides[time] = -steps.strides[time];
            }
            steps.address = steps.address.wrapping_add_signed(skip * steps.size as i64);
        }
        Ok(space)
    }

    fn launch(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
        space: &Space,
        plan: &ScanPlan,
        variant: &Variant,
    ) -> Result<(), TeError> {
        let maps = plan.shared_maps().unsigned_abs() as usize;
        let groups = if plan.key.mapping == ScanMapping::Shared { plan.groups.unsigned_abs() as usize } else { 0 };
        let map_bytes = self.pattern.map.as_ref().map_or(0, map_bytes) * maps * plan.key.across as usize;
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
        let values = Values { bound, space, outer: &plan.outer, inner: &plan.inner, points: plan.steps, vector };
        let mut bytes = Vec::with_capacity(variant.fields.len() * 8);
        for field in &variant.fields {
            let value = match field {
                Field::Scan(field) => own(*field),
                other => values.of(other, Side::Inner, &self.pattern.reads.list, &self.pattern.parameters)?,
            };
            bytes.extend(value.to_ne_bytes());
        }
        let inputs = bound.tensors.len() - self.pattern.outputs.len();
        let mut arguments = vec![KernelArgument::Value(&bytes)];
        arguments.extend(bound.tensors.iter().enumerate().map(|(place, tensor)| {
            if place < inputs { KernelArgument::Reads(tensor) } else { KernelArgument::Writes(tensor) }
        }));
        arguments.extend([&workspace.claims, &workspace.flags, &workspace.maps].map(KernelArgument::Writes));
        let grid = [plan.blocks as u32, 1, 1];
        let launch = Launch { grid, block: [plan.key.threads, 1, 1], ..Launch::default() };
        // A launch that fails may leave claims behind, so its workspace is dropped.
        variant.kernel.launch(&launch, &arguments, stream)?;
        self.workspaces.put(stream, workspace);
        Ok(())
    }
}

impl Runs for ScanKernel {
    fn run_bound(&self, stream: &Stream, bound: &Bound<'_>) -> Result<Option<Ran>, TeError> {
        let pattern = &self.pattern;
        let outputs = pattern.outputs.len();
        if let Some(cached) = self.code_cache.take(bound, None) {
            return Ok(Some(Ran::on_host(self.code_cache.run(cached, bound, outputs)?)));
        }
        let total = bound.sizes.value(&pattern.total_steps)?;
        if total == 0 {
            return Ok(None);
        }
        if total < pattern.given_steps {
            let reason = format!("the scan has {total} steps, but {} are given", pattern.given_steps);
            return Err(RunError::Failed { reason }.into());
        }
        let space = self.space(bound)?;
        if space.extents[..pattern.outer()].contains(&0) {
            return self.run_over_nothing(stream, bound);
        }
        if let (Some(reduction), Some((several, places))) = (&pattern.column_reduction, &self.apart) {
            let reduced = reduction.axes.iter().fold(1i64, |all, axis| all.saturating_mul(space.extents[*axis]));
            if reduced > MOST_REDUCED {
                return several.run_bound(stream, &of_places(bound, places));
            }
        }
        let used =
            used_axes(&pattern.axes, &pattern.reads.list, |read| space.reads[read].is_none(), &pattern.expressions());
        check_ranges(&pattern.axes, &used, &space, &bound.sizes, &pattern.expressions())?;
        if self.device.arch().is_none() {
            let made = Made::scan(Scan::new(pattern, bound, &space, &used, self.order)?);
            let choice = self.code_cache.run(Cached::new(bound, None, made), bound, outputs)?;
            return Ok(Some(Ran::on_host(choice)));
        }
        let plan = choose(pattern, &space, &used, self.order, self.device.properties().multiprocessors)?;
        let variant = self.variants.of(&self.device, &plan.key, || {
            let emitted = emit(&self.pattern, &plan.key)?;
            let kernel = emitted.source.entry.as_str();
            trace::event!(DEBUG, "choice", kernel = kernel, choice = trace::text(describe(&plan)));
            Ok(emitted)
        })?;
        self.launch(stream, bound, &space, &plan, &variant)?;
        Ok(Some(Ran { choice: describe(&plan).into(), source: Arc::clone(&variant.code) }))
    }
}

/// The kernels of a scan whose columns are reduced: first the scan, then the outputs that are computed from its states.
fn apart(device: &Device, pattern: &Recurrence, order: Order) -> Result<Option<(SeveralKernels, Vec<usize>)>, TeError> {
    if pattern.column_reduction.is_none() {
        return Ok(None);
    }
    let outputs: Vec<Tensor> = pattern.outputs.iter().map(|output| output.tensor.clone()).collect();
    let Some(sequence) = KernelSequence::of(&outputs)? else { return Ok(None) };
    let place = |tensor: &Tensor| {
        let place = pattern.parameters.iter().position(|parameter| parameter == tensor);
        place.ok_or_else(|| TeError::from(LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" }))
    };
    let places = sequence.parameters.iter().map(place).collect::<Result<_, _>>()?;
    Ok(Some((SeveralKernels::new(device, sequence, order)?, places)))
}

/// Some of a run's tensors.
fn of_places<'a>(bound: &Bound<'a>, places: &[usize]) -> Bound<'a> {
    Bound { tensors: places.iter().map(|place| bound.tensors[*place]).collect(), sizes: bound.sizes.clone() }
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
