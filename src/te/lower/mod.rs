//! From a schedule to a loop program: inline, infer bounds, make loops, place memory, simplify.
//!
//! Each pass is a module of its own; [`lower`] gives the program that is printed and interpreted.

mod align;
mod barriers;
mod bounds;
mod double_buffer;
mod emit;
mod flatten;
mod hoist;
mod inline;
mod interval;
pub(crate) mod loops;
mod matching;
mod normalize;
mod over_threads;
mod own_memory;
pub(crate) mod partition;
mod pragmas;
mod prefetch;
mod promises;
mod readers;
mod rolling;
mod scans;
mod share;
mod simplify;
mod tensorize;
mod unroll;
mod virtual_threads;

#[cfg(feature = "native")]
pub(crate) use simplify::simplify as simplify_statement;

pub use unroll::UnrollConfig;

use super::error::TeError;
use super::ir::Program;
use super::schedule::Schedule;
use super::tensor::Tensor;

/// The loop program of a schedule, taking the given tensors in the given order. Placeholders that nothing reads may be
/// among them: a run is then given them, too, and sizes that only their shapes have get their values.
///
/// # Errors
/// A tensor that is read or returned and not among the arguments; bounds that can't be found; a reduction over threads
/// that can't be done; blocks of one launch that would have to wait for each other; memory of a thread that others
/// read; a primitive whose conditions don't hold where the stage is computed ([`TeError::Primitive`]).
pub fn lower(schedule: &Schedule, arguments: &[&Tensor], name: &str) -> Result<Program, TeError> {
    scans::check_scans(schedule)?;
    let schedule = over_threads::put_threads_outside(schedule.normalize());
    let plan = bounds::infer(&schedule, arguments)?;
    own_memory::check_own_memory(&schedule, &plan)?;
    let circular = plan.circular();
    let emit::Emitted { program, doubled } = emit::emit(&schedule, plan, arguments, name)?;
    let body = double_buffer::double(program.body, &doubled)?;
    let body = barriers::place_barriers(body, circular)?;
    let body = virtual_threads::inject(body)?;
    let body = flatten::flatten(body);
    let body = simplify::simplify(body);
    let body = hoist::hoist_allocations(body);
    let body = unroll::unroll(body)?;
    let body = hoist::hoist_conditions(body);
    let body = share::share_index_arithmetic(body);
    Ok(Program { body, ..program })
}
