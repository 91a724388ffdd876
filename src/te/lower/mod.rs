//! From a schedule to a loop program: inline, infer bounds, make loops, place memory, simplify.
//!
//! Each pass is a module of its own; [`lower`] gives the program that is printed and interpreted.

mod analysis;
mod emit;
pub(crate) mod passes;

pub use passes::unroll::UnrollConfig;

use crate::te::error::TeError;
use crate::te::ir::program::Program;
use crate::te::lang::tensor::Tensor;
use crate::te::schedule::Schedule;

/// The loop program of a schedule, taking the given tensors in the given order. Placeholders that nothing reads may be
/// among them: a run is then given them, too, and sizes that only their shapes have get their values.
///
/// # Errors
/// A tensor that is read or returned and not among the arguments; bounds that can't be found; a reduction over threads
/// that can't be done; blocks of one launch that would have to wait for each other; memory of a thread that others
/// read; a primitive whose conditions don't hold where the stage is computed ([`TeError::Primitive`]).
pub fn lower(schedule: &Schedule, arguments: &[&Tensor], name: &str) -> Result<Program, TeError> {
    analysis::scans::check_scans(schedule)?;
    analysis::nesting::check_nesting(schedule)?;
    let schedule = analysis::over_threads::put_threads_outside(schedule.normalize()?);
    let plan = analysis::bounds::infer(&schedule, arguments)?;
    analysis::own_memory::check_own_memory(&schedule, &plan)?;
    let circular = plan.circular();
    let emit::Emitted { program, doubled } = emit::emit(&schedule, plan, arguments, name)?;
    let body = passes::double_buffer::double(program.body, &doubled)?;
    let body = passes::barriers::place_barriers(body, circular)?;
    let body = passes::virtual_threads::inject(body)?;
    let body = passes::flatten::flatten(body);
    let body = passes::simplify::simplify(body);
    let body = passes::hoist::hoist_allocations(body);
    let body = passes::unroll::unroll(body)?;
    let body = passes::hoist::hoist_conditions(body);
    let body = passes::share::share_index_arithmetic(body);
    body.mistake().map_or(Ok(Program { body, ..program }), Err)
}
