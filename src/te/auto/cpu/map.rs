//! Maps on the CPU: strips of points, in parallel.

use epilogue_runtime::HostAccess;
use rayon::prelude::*;

use super::elements::{Along, Elements};
use super::memory::{Target, runs, write};
use super::program::{Program, Register};
use super::registers::{LANES, Registers};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::bind::iteration_space::{Space, points};
use crate::te::auto::gpu::choose::reduce::choose;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::{Output, Reduction};
use crate::te::error::TeError;

/// Strips that a task has at least.
const STRIPS: usize = 8;

/// Computes what has no reduction; gives the choice in words.
pub(in crate::te::auto) fn run(
    reduction: &Reduction,
    bound: &Bound<'_>,
    space: &Space,
    used: &[bool],
    order: Order,
) -> Result<String, TeError> {
    let plan = choose(reduction, space, used, order, 1)?;
    let (inner, reads, parameters) = (plan.inner.as_slice(), &reduction.reads.list, &reduction.parameters);
    let mut program = Program::default();
    let all = 0..reads.len();
    let elements =
        Elements::new(&mut program, &reduction.axes, reads, all, space, used, (&[], inner), parameters, bound)?;
    let value = |output: &Output| program.value(&output.value, &bound.sizes);
    let results: Vec<Register> = reduction.outputs.iter().map(value).collect::<Result<_, _>>()?;
    let steps = program.take_steps();
    let (inputs, outputs) = bound.tensors.split_at(bound.tensors.len() - reduction.outputs.len());
    let count = points(inner);
    let access = HostAccess::lock(inputs, outputs)?;
    let strips = (count as usize).div_ceil(LANES);
    let all_strips = || {
        (0..strips).into_par_iter().with_min_len(STRIPS).try_for_each_init(
            || (Registers::new(&program), Fence),
            |(registers, _), strip| -> Result<(), TeError> {
                let first = (strip * LANES) as i64;
                let lanes = (count - first).min(LANES as i64) as usize;
                let along = runs(inner, first, lanes);
                // SAFETY: the locks keep everyone else out.
                unsafe { elements.fill(registers, Along::Inner(&[], &along), lanes) }?;
                registers.run(&steps, lanes)?;
                for (place, ((tensor, to), result)) in outputs.iter().zip(&space.outputs).zip(&results).enumerate() {
                    let step = inner.last().map_or(0, |slot| slot.outputs[place]);
                    for run in &along {
                        let offset: i64 = inner.iter().zip(&run.index).map(|(slot, i)| slot.outputs[place] * i).sum();
                        let address = to.address.wrapping_add_signed(offset * to.size as i64);
                        // SAFETY: the points are within the output's shape, no two strips have one in common, and the
                        // locks keep everyone else out.
                        unsafe { write(registers, *result, run.lane, run.count, Target::of(tensor, address, step)) };
                    }
                }
                Ok(())
            },
        )
    };
    parallel::run(all_strips)?;
    drop(access);
    Ok("on the CPU: strips of points".to_owned())
}
