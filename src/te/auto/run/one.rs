//! Runs a reduction or a map on a device: compiles it for the run's shapes, and launches it.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, KernelArgument, Launch, Stream, trace};

use crate::ElementType;
use crate::pool::Pool;
use crate::te::auto::bind::arguments::{Bound, Sizes};
use crate::te::auto::bind::iteration_space::{LoopLevel, Space, Steps, tensor_of};
use crate::te::auto::cpu;
use crate::te::auto::cpu::made::Made;
use crate::te::auto::gpu::choose::reduce::{Plan, choose};
use crate::te::auto::gpu::emit::context::{check_ranges, used_axes};
use crate::te::auto::gpu::emit::field::{Field, ReduceField};
use crate::te::auto::gpu::emit::loops::Side;
use crate::te::auto::gpu::emit::reduce::emit;
use crate::te::auto::gpu::key::{ReduceKey, ThreadMapping, value_bytes};
use crate::te::auto::gpu::variants::{Variant, Variants};
use crate::te::auto::kernel::Ran;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::reads::Read;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::lang::axis::Domain;
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;

/// One kernel on a device.
pub(in crate::te::auto) struct OneKernel {
    device: Device,
    pub(in crate::te::auto) reduction: Reduction,
    order: Order,
    variants: Variants<ReduceKey>,
    workspaces: Pool<Workspace>,
}

/// A run that has been analysed.
pub(in crate::te::auto) struct Prepared {
    space: Space,
    used: Vec<bool>,
    /// The launch; `None` on the CPU.
    plan: Option<Plan>,
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

impl Prepared {
    /// Whether the launch would leave most of the device idle for long.
    pub(in crate::te::auto) fn is_starved(&self, device: &Device) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_starved(device.properties().multiprocessors))
    }
}

impl OneKernel {
    pub(in crate::te::auto) fn new(device: &Device, reduction: Reduction, order: Order) -> Self {
        Self { device: device.clone(), reduction, order, variants: Variants::default(), workspaces: Pool::default() }
    }

    pub(in crate::te::auto) const fn order(&self) -> Order {
        self.order
    }

    /// Whether a size is used only to address what is read.
    pub(in crate::te::auto) fn only_moves_with(&self, size: Var) -> bool {
        let reduction = &self.reduction;
        let of_domain = |domain: Domain| domain.min.uses(size) || domain.extent.uses(size);
        let of_read = |read: &Read| {
            read.guard.as_ref().is_some_and(|guard| guard.uses(size))
                || (read.affine.is_none() && read.indices.iter().any(|index| index.uses(size)))
        };
        !reduction.expressions().iter().any(|x| x.uses(size))
            && !reduction.axes.iter().filter_map(|axis| axis.domain()).any(of_domain)
            && !reduction.reads.list.iter().any(of_read)
    }

    /// For every read, its argument and its address, if the address is known before the run.
    ///
    /// # Errors
    /// The error of a read at indices outside of its tensor.
    pub(in crate::te::auto) fn places(&self, bound: &Bound<'_>) -> Result<Vec<(usize, Option<u64>)>, TeError> {
        let (space, parameters) = (self.space(bound)?, &self.reduction.parameters);
        let place = |(read, steps): (&Read, &Option<Steps>)| {
            let argument = parameters.iter().position(|parameter| *parameter == read.tensor);
            let none = || LoweringError::MissingArgument { tensor: read.tensor.name(), what: "an input" };
            Ok((argument.ok_or_else(none)?, steps.as_ref().map(|steps| steps.address)))
        };
        self.reduction.reads.list.iter().zip(&space.reads).map(place).collect()
    }

    /// Analyses a run; `None` if there is nothing to do.
    pub(in crate::te::auto) fn prepare(&self, bound: &Bound<'_>) -> Result<Option<Prepared>, TeError> {
        let reduction = &self.reduction;
        let space = self.space(bound)?;
        let elements = if reduction.passes.is_empty() { space.extents.len() } else { reduction.outer };
        if space.extents[..elements].contains(&0) {
            return Ok(None);
        }
        let (axes, expressions) = (&reduction.axes, reduction.expressions());
        let used = used_axes(axes, &reduction.reads.list, |read| space.reads[read].is_none(), &expressions);
        check_ranges(axes, &used, &space, &bound.sizes, &expressions)?;
        let multiprocessors = || self.device.properties().multiprocessors;
        let plan = self.device.arch().map(|_| choose(reduction, &space, &used, self.order, multiprocessors()));
        Ok(Some(Prepared { plan: plan.transpose()?, space, used }))
    }

    /// Runs the kernel.
    pub(in crate::te::auto) fn run(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
        prepared: &Prepared,
    ) -> Result<Ran, TeError> {
        let Some(plan) = &prepared.plan else {
            let mut made = self.made(bound, prepared)?;
            made.run(bound, self.reduction.outputs.len())?;
            return Ok(Ran::on_host(made.describe()));
        };
        let variant = self.variants.of(&self.device, &plan.key, || {
            let emitted = emit(&self.reduction, &plan.key)?;
            let kernel = emitted.source.entry.as_str();
            trace::event!(DEBUG, "choice", kernel = kernel, choice = trace::text(describe(plan)));
            Ok(emitted)
        })?;
        self.launch(stream, bound, &prepared.space, plan, &variant)?;
        Ok(Ran { choice: describe(plan).into(), source: Arc::clone(&variant.code) })
    }

    /// Compiles a run on the CPU.
    pub(in crate::te::auto) fn made(&self, bound: &Bound<'_>, prepared: &Prepared) -> Result<Made, TeError> {
        let task = self.on_host(bound, prepared);
        if self.reduction.passes.is_empty() { Made::map(&task, self.order) } else { Made::reduction(&task, self.order) }
    }

    /// The task of a run on the CPU.
    pub(in crate::te::auto) fn on_host<'a>(&'a self, bound: &'a Bound<'a>, prepared: &'a Prepared) -> cpu::Task<'a> {
        cpu::Task { reduction: &self.reduction, bound, space: &prepared.space, used: &prepared.used }
    }

    fn space(&self, bound: &Bound<'_>) -> Result<Space, TeError> {
        let reduction = &self.reduction;
        let mut space = Space::of(&reduction.axes, &reduction.reads.list, &reduction.parameters, bound)?;
        for output in &reduction.outputs {
            space.push_output(tensor_of(&reduction.parameters, bound, &output.tensor)?, &output.places);
        }
        Ok(space)
    }

    fn launch(
        &self,
        stream: &Stream,
        bound: &Bound<'_>,
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
        let values = Values { bound, space, outer: &plan.outer, inner: &plan.inner, points: plan.points, vector };
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
        arguments.extend(bound.tensors.iter().enumerate().map(|(place, tensor)| {
            if place < inputs { KernelArgument::Reads(tensor) } else { KernelArgument::Writes(tensor) }
        }));
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

/// Computes the values of parameters.
pub(in crate::te::auto) struct Values<'a> {
    pub(in crate::te::auto) bound: &'a Bound<'a>,
    pub(in crate::te::auto) space: &'a Space,
    pub(in crate::te::auto) outer: &'a [LoopLevel],
    pub(in crate::te::auto) inner: &'a [LoopLevel],
    pub(in crate::te::auto) points: i64,
    pub(in crate::te::auto) vector: i64,
}

impl Values<'_> {
    pub(in crate::te::auto) fn of(
        &self,
        field: &Field,
        vector_side: Side,
        reads: &[Read],
        parameters: &[Tensor],
    ) -> Result<u64, TeError> {
        let levels = |side: Side| match side {
            Side::Outer => self.outer,
            Side::Inner => self.inner,
        };
        let tensor = |read: usize| tensor_of(parameters, self.bound, &reads[read].tensor);
        Ok(match field {
            Field::Read(read) => match &self.space.reads[*read] {
                Some(steps) => steps.address,
                None => tensor(*read)?.device_address(),
            },
            Field::ReadStep(read, side, level) => levels(*side)[*level].reads[*read] as u64,
            Field::Stride(read, d) => tensor(*read)?.strides()[*d] as u64,
            Field::Extent(read, d) => tensor(*read)?.shape()[*d] as u64,
            Field::Output(output) => self.space.outputs[*output].address,
            Field::OutputStep(output, side, level) => levels(*side)[*level].outputs[*output] as u64,
            Field::Count(side, level) => self.count(levels(*side), *level, *side == vector_side) as u64,
            Field::Divider(side, level) => divider(self.count(levels(*side), *level, *side == vector_side)),
            Field::Points => self.points as u64,
            Field::Size(var) => size(&self.bound.sizes, *var)? as u64,
            Field::Minimum(axis) => self.space.minima[*axis] as u64,
            Field::Reduce(_) | Field::Scan(_) | Field::Elements => {
                return Err(TeError::Internal { what: format!("the parameter {field:?} is another kernel's") });
            }
        })
    }

    /// The number of steps of a loop; in chunks if it takes several points at once.
    fn count(&self, levels: &[LoopLevel], level: usize, has_vector: bool) -> i64 {
        let extent = levels[level].extent;
        if has_vector && level + 1 == levels.len() { (extent + self.vector - 1) / self.vector } else { extent }
    }
}

fn size(sizes: &Sizes, var: Var) -> Result<i64, TeError> {
    sizes.of(var).ok_or_else(|| {
        RunError::Failed { reason: format!("the size {} can't be found from the arguments' shapes", var.name()) }.into()
    })
}

/// `te::Divider` for `d`, as its 8 bytes.
fn divider(d: i64) -> u64 {
    let d = d.clamp(1, i64::from(i32::MAX)).unsigned_abs();
    let log = u64::from(64 - (d - 1).leading_zeros());
    let multiplier = (1u64 << (31 + log)) / d + 1;
    // Little-endian: the multiplier comes first. At d = 1 it is 2^31 + 1.
    (31 + log) << 32 | multiplier
}

#[cfg(test)]
mod tests {
    use super::divider;

    #[test]
    fn quotients_are_exact_below_2_31() {
        let quotient = |n: u32, d: i64| {
            let packed = divider(d);
            ((u64::from(n) * u64::from(packed as u32)) >> (packed >> 32)) as u32
        };
        let interesting: Vec<u32> =
            (0..31).flat_map(|b| [(1u32 << b) - 1, 1 << b, (1 << b) + 1]).chain([i32::MAX as u32]).collect();
        for &d in interesting.iter().filter(|d| **d > 0) {
            for &n in &interesting {
                for n in [n, n / d * d, (n / d * d).saturating_sub(1), n / 3] {
                    assert_eq!(quotient(n, i64::from(d)), n / d, "{n} / {d}");
                }
            }
        }
    }
}
