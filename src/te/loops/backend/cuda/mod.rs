//! CUDA C++ for lowered programs: loop partition, the split between host and device, printing, and launches.
//!
//! No access leaves its memory. An index that depends on data is tested. That all others stay inside is proved for the
//! sizes of a run; where it isn't, another text runs, which tests every access. A failed test is reported as
//! [`DataError`](epilogue_runtime::DataError).
//!
//! The text follows TVM's style: fully parenthesised, one-element arrays for registers, pointers before scalars in
//! order of first use. It needs no headers of the toolkit. Contraction of products and sums to FMA is off. So the interpreter, native code and a GPU give the same
//! bits if the order of operations is the same.
//!
//! Values wrap, indices do not: a launch whose memory is large takes the same kernel with 64-bit indices. Tested accesses
//! have 64-bit indices, too.

mod allreduce;
mod lane_plan;
mod lanes;
mod launch;
mod print;
mod refusal;
mod restrict;
mod split;
mod threads;

pub(crate) use self::launch::CudaTarget;
use epilogue_runtime::Source;

use self::split::HostStep;
use crate::expr::identifier::sanitize;
use crate::te::cuda::Library;
use crate::te::error::TeError;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::rewrite::with_one_index;
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::lower::passes::partition::partition;
use crate::te::text::identifier;

/// The text before the kernels, as TVM prints it.
const HEADER: &str = include_str!("header.cuh");

/// A program as CUDA C++, with everything that its launches need.
#[derive(Debug)]
struct CudaProgram {
    /// One text with all kernels.
    source: Source,
    /// The kernels; steps refer to them by number.
    kernels: Vec<CudaKernel>,
    /// The steps of the host.
    steps: Vec<HostStep>,
    /// Memory that the program allocates.
    scratch: Vec<Buffer>,
}

impl CudaProgram {
    /// The variables to which the host gives values.
    fn host_counters(&self) -> Vec<Var> {
        let mut counters = Vec::new();
        let mut pending: Vec<&HostStep> = self.steps.iter().collect();
        while let Some(step) = pending.pop() {
            let inner = match step {
                HostStep::For { var, body, .. } | HostStep::Let { var, body, .. } => {
                    counters.push(*var);
                    body
                }
                HostStep::If { then, .. } => then,
                HostStep::Launch(_) => continue,
            };
            pending.extend(inner);
        }
        counters
    }
}

/// One kernel.
#[derive(Debug)]
struct CudaKernel {
    /// Its symbol.
    symbol: String,
    /// The pointers that it takes, and whether it writes through each.
    buffers: Vec<(Buffer, bool)>,
    /// The scalars, which come after the pointers.
    scalars: Vec<Var>,
    /// Extents of the grid along x, y and z.
    grid: [Expr; 3],
    /// Threads of a block along x, y and z.
    block: [Expr; 3],
    /// Extents of the loops in the kernel.
    loops: Vec<Expr>,
    /// Dynamic shared memory of a block, in bytes.
    shared_bytes: usize,
}

/// The form of a program's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Indices are 32 bits long.
    Plain,
    /// Indices are 64 bits long, for memory of 2^30 elements and more.
    Wide,
    /// Every access is tested, for runs with accesses that are not [proved](super::bounds) to stay inside. An index far
    /// outside would come back inside if it wrapped, so indices are 64 bits long.
    Tested,
}

impl Form {
    /// Whether indices are 64 bits long.
    const fn is_wide(self) -> bool {
        !matches!(self, Self::Plain)
    }
}

/// Prints a program.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for what a GPU doesn't support.
fn emit(program: &Program, form: Form) -> Result<CudaProgram, TeError> {
    descend(program.body.depth(), || emit_here(program, form))?
}

fn emit_here(program: &Program, form: Form) -> Result<CudaProgram, TeError> {
    let split = split::split(&partition(with_one_index(program.body.clone())))?;
    let name = identifier(&program.name);
    let mut library = Library::new();
    let (mut texts, mut kernels) = (String::new(), Vec::new());
    for (i, nest) in split.nests.iter().enumerate() {
        let symbol = sanitize(&if i == 0 { format!("{name}_kernel") } else { format!("{name}_kernel_{i}") });
        let printed = print::kernel(nest, &symbol, form, &mut library)?;
        if i > 0 {
            texts.push('\n');
        }
        texts.push_str(&printed.text);
        let extent = |thread| nest.extents.get(&thread).cloned().unwrap_or_else(|| Expr::int(1));
        let writes = |buffer: &Buffer| stores(&nest.body, buffer);
        let mut loops = Vec::new();
        loop_extents(&nest.body, &mut loops);
        kernels.push(CudaKernel {
            symbol,
            buffers: printed.buffers.into_iter().map(|buffer| (buffer.clone(), writes(&buffer))).collect(),
            scalars: printed.scalars,
            grid: [0, 1, 2].map(|d| extent(Thread::Block(d))),
            block: [0, 1, 2].map(|d| extent(Thread::Thread(d))),
            loops,
            shared_bytes: printed.shared_bytes,
        });
    }
    let entry = kernels.first().map(|kernel| kernel.symbol.clone()).unwrap_or_default();
    let text = format!("{HEADER}{}{texts}", library.text());
    let mut source = Source::new(format!("{name}.cu"), entry, text).option("--fmad=false");
    source.sites = library.sites();
    Ok(CudaProgram { source, kernels, steps: split.steps, scratch: split.scratch })
}

fn stores(statement: &Stmt, to: &Buffer) -> bool {
    matches!(statement, Stmt::Store { buffer, .. } if buffer == to)
        || statement.children().into_iter().any(|child| stores(child, to))
}

fn loop_extents(statement: &Stmt, extents: &mut Vec<Expr>) {
    if let Stmt::For { extent, .. } = statement {
        extents.push(extent.clone());
    }
    statement.children().into_iter().for_each(|child| loop_extents(child, extents));
}
