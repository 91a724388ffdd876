//! Lowers a schedule to a loop program: inlines, infers bounds, makes the loops, places memory, simplifies.
//!
//! Each pass has a module. [`lower`] gives the program that is printed and run; [`lower_traced`] also gives the program
//! after each pass. The program is verified after the last pass, and in a debug build after every pass.

mod analysis;
mod emit;
pub(crate) mod passes;
mod trace;

use epilogue_float_mode::in_default_mode;

pub use passes::unroll::UnrollConfig;
pub use trace::Trace;

use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::ir::verify::{Indexing, verify};
use crate::te::loops::schedule::Schedule;

/// The loop program of a schedule. It takes the given tensors as arguments, in this order. They may include
/// placeholders that nothing reads: a run then takes them, too, and sizes that occur only in their shapes get values
/// from them. An output that is one of several values computed together needs no argument if another of them has one: its
/// memory is the program's own.
///
/// A stage that is computed by itself has loops over the elements that others read, where these are a range that sizes give;
/// otherwise over all.
///
/// # Blocks don't wait for each other
/// Threads of a block get the barriers that they need. Blocks of a launch get none: where one would use what another
/// writes, the schedule is refused ([`LoweringError::AcrossBlocks`](crate::te::LoweringError::AcrossBlocks)). A barrier of
/// all blocks needs all of them on the device at once, which only a cooperative launch promises. This library has none:
///
/// - How many blocks fit is known after compilation, from registers and shared memory. A schedule fixes their number before.
/// - Emulated devices admit more blocks than fit as soon as those before them wait. A barrier of too many blocks, which hangs
///   a GPU, would end there, so no test could find it.
/// - Launches of a stream wait for each other anyway, and a recorded graph replays them without the host.
///
/// Compute that stage in a launch of its own ([`Schedule::compute_root`](crate::te::Schedule::compute_root)).
/// [`auto::scan_all`](crate::te::auto::scan_all) does all steps of a recurrence in one launch where each block can have rows
/// of its own. Otherwise it takes a few launches a step.
///
/// # Errors
/// A tensor that is read or returned but is not among the arguments; bounds that can't be found; a reduction over
/// threads that is not possible; blocks of one launch that would have to wait for each other; private memory of a
/// thread that others read; a primitive whose conditions don't hold where the stage is computed
/// ([`ScheduleError::Primitive`](crate::te::ScheduleError::Primitive)).
pub fn lower(schedule: &Schedule, arguments: &[&Tensor], name: &str) -> Result<Program, TeError> {
    lower_watched(schedule, arguments, name, &mut |_, _| {})
}

/// [`lower`], with the program after each pass. Read it to find the pass that did something.
///
/// ```
/// use epilogue::te;
///
/// let (a, k) = (te::placeholder([4, 8], "a"), te::reduce_axis((0, 8), "k"));
/// let b = te::compute([4], "b", |[i]| te::sum(a.at([i, k]), [k]))?;
/// let trace = te::lower_traced(&te::create_schedule(&[&b]), &[&a, &b], "sums");
/// println!("{trace}"); // each pass and its listing, where it changed something
/// assert_eq!(trace.passes().len(), 10);
/// let made = trace.into_result()?;
/// assert!(made.script().contains("for i in range(4)"));
/// # Ok::<(), te::TeError>(())
/// ```
#[must_use]
pub fn lower_traced(schedule: &Schedule, arguments: &[&Tensor], name: &str) -> Trace {
    let mut passes = Vec::new();
    let result = lower_watched(schedule, arguments, name, &mut |pass, program| passes.push((pass, program.clone())));
    Trace::new(passes, result)
}

/// Is shown the program after each pass.
type Watch<'a> = dyn FnMut(&'static str, &Program) + Send + 'a;

fn lower_watched(
    schedule: &Schedule,
    arguments: &[&Tensor],
    name: &str,
    watch: &mut Watch<'_>,
) -> Result<Program, TeError> {
    analysis::scans::check_scans(schedule)?;
    let levels = analysis::nesting::check_nesting(schedule)?;
    in_default_mode(|| descend(levels, || lower_checked(schedule, arguments, name, watch)))?
}

/// [`lower`] for a schedule whose scans and nesting are as they must be.
fn lower_checked(
    schedule: &Schedule,
    arguments: &[&Tensor],
    name: &str,
    watch: &mut Watch<'_>,
) -> Result<Program, TeError> {
    let schedule = analysis::over_threads::put_threads_outside(schedule.normalize()?);
    let plan = analysis::bounds::infer(&schedule, arguments)?;
    analysis::private_memory::check_private_memory(&schedule, &plan)?;
    let circular = plan.circular();
    let emit::Emitted { program, doubled } = emit::emit(&schedule, plan, arguments, name)?;
    let mut passes = Passes { program, indexing: Indexing::PerDimension, watch };
    passes.made("emit")?;
    passes.pass("double_buffer", |body| passes::double_buffer::double(body, &doubled))?;
    passes.pass("barriers", |body| passes::barriers::place_barriers(body, circular))?;
    passes.pass("virtual_threads", passes::virtual_threads::inject)?;
    passes.indexing = Indexing::Flat;
    passes.pass("flatten", |body| Ok(passes::flatten::flatten(body)))?;
    passes.pass("simplify", |body| Ok(passes::simplify::simplify(body)))?;
    passes.pass("hoist_allocations", |body| Ok(passes::hoist::hoist_allocations(body)))?;
    passes.pass("unroll", passes::unroll::unroll)?;
    passes.pass("hoist_conditions", |body| Ok(passes::hoist::hoist_conditions(body)))?;
    passes.pass("share", |body| Ok(passes::share::share_index_arithmetic(body)))?;
    passes.program.body.mistake().map_or(Ok(()), Err)?;
    verify(&passes.program, Indexing::Flat)?;
    Ok(passes.program)
}

/// The program on its way.
struct Passes<'a, 'b> {
    program: Program,
    indexing: Indexing,
    watch: &'a mut Watch<'b>,
}

impl Passes<'_, '_> {
    fn pass(&mut self, name: &'static str, pass: impl FnOnce(Stmt) -> Result<Stmt, TeError>) -> Result<(), TeError> {
        let body = std::mem::replace(&mut self.program.body, Stmt::Seq(Vec::new()));
        self.program.body = pass(body)?;
        self.made(name)
    }

    /// Shows and checks the program after the pass `name`.
    fn made(&mut self, name: &'static str) -> Result<(), TeError> {
        (self.watch)(name, &self.program);
        if !cfg!(debug_assertions) {
            return Ok(());
        }
        self.program.body.mistake().map_or(Ok(()), Err)?;
        verify(&self.program, self.indexing).map_err(|error| match error {
            TeError::Internal { what } => TeError::Internal { what: format!("after the pass {name}: {what}") },
            other => other,
        })
    }
}
