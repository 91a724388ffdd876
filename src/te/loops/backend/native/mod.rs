//! Native code for loop programs, which Cranelift makes when a program is compiled.
//!
//! The code gives the same results as the interpreter, bit for bit. `parallel` loops run on the library's threads.
//! `vectorize`d loops use 128-bit vectors, several at a time. Sums that a loop accumulates in one element stay in
//! registers. A test around the whole body of a loop that holds only for its first iterations, as for unfinished tiles,
//! becomes the loop's end. Programs scheduled for a device's threads run as loops over the threads; their blocks run on
//! the library's threads.
//!
//! No access leaves its buffer. The arguments are checked against the program's shapes. The bounds of all indices are proved for every new
//! set of sizes, so the code needs no tests. If the proof fails, a version of the code that
//! tests each access runs instead, and reports the first one outside as an error. Strides of 1 are constants of the
//! code, so other layouts take other versions of it.

mod argument;
mod code;
mod host;
mod prepare;
mod threads;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use epilogue_float_mode::in_default_mode;
use epilogue_runtime::{CpuLevel, trace};

pub use self::argument::HostTensor;

use self::argument::{BoundArguments, bind, check_sharing};
use self::code::{CodeSource, NativeCode, generate};
use super::bounds::Proofs;
use crate::level;
use crate::sync::lock;
use crate::te::bind::arguments::places;
use crate::te::bind::binding::{OF_PROGRAMS, check_requirements, unknown_size};
use crate::te::error::TeError;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::program::{Program, Requirement};
use crate::te::loops::ir::rewrite::{inline_indices, with_one_index};
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::lower::passes::partition::partition;

/// Compiles a program to native code, for arguments that are contiguous along their last dimension. Code for other
/// layouts is compiled when a run first needs it.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for what native code can't do: a barrier that not all
/// threads reach, or an unsupported processor.
pub fn compile(program: &Program) -> Result<NativeKernel, TeError> {
    in_default_mode(|| descend(program.body.depth(), || compile_here(program)))?
}

fn compile_here(program: &Program) -> Result<NativeKernel, TeError> {
    let _span = trace::span!(DEBUG, "compile for this CPU", program = program.name.as_str());
    let body = threads::serialize(inline_indices(with_one_index(prepare::without_notes(program.body.clone()))))?;
    let body = crate::te::loops::lower::passes::simplify::simplify(prepare::unroll(partition(body)));
    let buffers: Vec<Buffer> = program.arguments.iter().map(|(_, buffer)| buffer.clone()).collect();
    let mut written = HashSet::new();
    stored(&body, &mut written);
    let kernel = NativeKernel {
        name: program.name.clone(),
        variables: variables(&buffers, &body),
        steps: buffers.iter().flat_map(given_strides).map(|(_, stride)| stride).collect(),
        written: buffers.iter().map(|buffer| written.contains(buffer)).collect(),
        arguments: program.arguments.clone(),
        requirements: program.requirements.clone(),
        buffers,
        level: level::current(),
        levels: body.depth(),
        body,
        versions: Mutex::new(HashMap::new()),
        proofs: Proofs::default(),
    };
    let units = kernel.buffers.iter().flat_map(|buffer| {
        let last = buffer.strides().len().saturating_sub(1);
        given_strides(buffer).map(move |(dimension, _)| dimension == last)
    });
    kernel.version(&Version { units: units.collect(), checked: false })?;
    Ok(kernel)
}

/// The strides of a caller's buffer that are variables, with their dimensions. Row-major memory has none: a variable in
/// its strides is a size.
fn given_strides(buffer: &Buffer) -> impl Iterator<Item = (usize, Var)> {
    let given: &[Expr] = if buffer.is_compact() { &[] } else { buffer.strides() };
    given.iter().enumerate().filter_map(|(dimension, stride)| Some((dimension, stride.as_var()?)))
}

/// A compiled program. Several threads may run it at the same time.
#[derive(Debug)]
pub struct NativeKernel {
    name: String,
    arguments: Vec<(Tensor, Buffer)>,
    requirements: Vec<Requirement>,
    buffers: Vec<Buffer>,
    /// Whether each argument is written.
    written: Vec<bool>,
    /// The level for which it is compiled.
    level: CpuLevel,
    /// How deep statements nest in `body`.
    levels: usize,
    body: Stmt,
    /// Sizes and strides, in the order in which the code takes them.
    variables: Vec<Var>,
    /// The strides that are variables, in the order of the arguments.
    steps: Vec<Var>,
    versions: Mutex<HashMap<Version, Arc<NativeCode>>>,
    proofs: Proofs,
}

/// The properties of one version of the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Version {
    /// For each stride, whether it is 1.
    units: Vec<bool>,
    /// Whether every access is tested.
    checked: bool,
}

impl NativeKernel {
    /// Whether the program writes an argument, given by its place.
    pub(crate) fn writes(&self, place: usize) -> bool {
        self.written.get(place) == Some(&true)
    }

    /// The program's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// [`NativeKernel::run`] with arguments given with the tensors that the program was lowered with, in any order.
    ///
    /// # Errors
    /// [`RunError::Argument`](crate::te::RunError::Argument), which names the tensor, for one that is missing, given twice
    /// or not the program's; the errors of [`NativeKernel::run`].
    pub fn run_bound(&self, arguments: Vec<(&Tensor, HostTensor<'_>)>) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.arguments.iter().map(|(tensor, _)| tensor).collect();
        let given: Vec<&Tensor> = arguments.iter().map(|(tensor, _)| *tensor).collect();
        let places = places(&parameters, &given)?;
        let mut arguments: Vec<Option<HostTensor<'_>>> = arguments.into_iter().map(|(_, given)| Some(given)).collect();
        let mut ordered: Vec<HostTensor<'_>> = places.iter().filter_map(|place| arguments[*place].take()).collect();
        self.run(&mut ordered)
    }

    /// Runs the kernel. The arguments are in the order in which [`lower`](crate::te::lower) was given the tensors
    /// ([`NativeKernel::run_bound`] takes them in any order).
    ///
    /// Memory that the program reads before it writes it holds what the caller put there. Memory that the program
    /// allocates holds zeros or older values.
    ///
    /// # Errors
    /// [`RunError::Argument`](crate::te::RunError::Argument) for a number, type, shape or layout of arguments that doesn't
    /// fit. Also for an argument that is written but was passed for reading, and for one that shares memory with a written
    /// argument; nothing is run then. [`TeError::Data`] for an access out of bounds or a division by zero, and
    /// [`RunError::Failed`](crate::te::RunError::Failed) for an allocation that fails; some elements may have been written.
    pub fn run(&self, arguments: &mut [HostTensor<'_>]) -> Result<(), TeError> {
        check_sharing(&self.arguments, &self.written, arguments)?;
        // SAFETY: memory that is written is not shared.
        unsafe { self.run_disjoint(arguments) }
    }

    /// Runs the kernel without a check of sharing.
    ///
    /// # Safety
    /// No element that is written through one argument may be used through another.
    ///
    /// # Errors
    /// The errors of [`NativeKernel::run`].
    pub(crate) unsafe fn run_disjoint(&self, arguments: &mut [HostTensor<'_>]) -> Result<(), TeError> {
        let BoundArguments { sizes, spans } = bind(&self.arguments, &self.written, arguments)?;
        let mut written = arguments.iter().zip(&self.written).filter(|(_, written)| **written);
        if written.all(|(argument, _)| argument.is_empty()) {
            return Ok(());
        }
        check_requirements(&self.requirements, &sizes)?;
        let mut values = Vec::with_capacity(self.variables.len());
        for var in &self.variables {
            let missing = || unknown_size(*var, self.arguments.iter().map(|(tensor, _)| tensor), OF_PROGRAMS);
            values.push(*sizes.get(var).ok_or_else(missing)?);
        }
        let units = self.steps.iter().map(|var| sizes.get(var) == Some(&1)).collect();
        let lens: Vec<(Buffer, usize)> = self.buffers.iter().cloned().zip(spans.iter().copied()).collect();
        let checked = !self.proofs.stays_inside(&self.body, (&sizes, &self.variables), &lens);
        let code = self.version(&Version { units, checked })?;
        let mut frame: Vec<u64> = arguments.iter().map(|argument| argument.pointer() as u64).collect();
        frame.extend(spans.iter().map(|span| *span as u64));
        #[expect(clippy::cast_sign_loss, reason = "the code takes the bits")]
        frame.extend(values.iter().map(|value| *value as u64));
        // SAFETY: `bind` has checked that the memory holds the spans and that written memory may be written. The caller
        // promises that it is not shared. All accesses stay inside, or are tested.
        in_default_mode(|| unsafe { code.run(&frame) })
    }

    /// The code for a layout; it is compiled if necessary.
    fn version(&self, version: &Version) -> Result<Arc<NativeCode>, TeError> {
        let mut versions = lock(&self.versions);
        if let Some(code) = versions.get(version) {
            return Ok(Arc::clone(code));
        }
        let code = Arc::new(level::within(self.level, || descend(self.levels, || self.made(version)))??);
        versions.insert(version.clone(), Arc::clone(&code));
        Ok(code)
    }

    fn made(&self, version: &Version) -> Result<NativeCode, TeError> {
        let units = self.steps.iter().zip(&version.units).filter(|(_, unit)| **unit);
        let body = prepare::specialise(self.body.clone(), &units.map(|(var, _)| (*var, 1)).collect());
        // The buffers of this version: where a size is known, a buffer becomes another one.
        let mut written = HashSet::new();
        stored(&body, &mut written);
        let source = CodeSource {
            body: &body,
            arguments: &self.buffers,
            written: &written,
            variables: &self.variables,
            checked: version.checked,
        };
        generate(&source)
    }
}

/// The variables of the arguments' shapes and strides, then those that occur only in the body.
fn variables(buffers: &[Buffer], body: &Stmt) -> Vec<Var> {
    let mut found: Vec<Var> = Vec::new();
    let mut add = |x: &Expr| {
        x.visit(&mut |x| {
            if let Kind::Var(var) = x.kind()
                && !var.is_counter()
                && !found.contains(var)
            {
                found.push(*var);
            }
        });
    };
    for buffer in buffers {
        buffer.shape().iter().chain(buffer.strides()).for_each(&mut add);
    }
    let mut named = Vec::new();
    mentioned(body, &mut add, &mut named);
    found.retain(|var| !named.contains(var));
    found
}

fn mentioned(statement: &Stmt, add: &mut dyn FnMut(&Expr), named: &mut Vec<Var>) {
    statement.expressions().into_iter().for_each(&mut *add);
    match statement {
        Stmt::Let { var, .. } => named.push(*var),
        Stmt::Allocate { buffer, .. } => buffer.allocation().iter().for_each(&mut *add),
        _ => {}
    }
    statement.children().into_iter().for_each(|child| mentioned(child, add, named));
}

fn stored(statement: &Stmt, found: &mut HashSet<Buffer>) {
    match statement {
        Stmt::Store { buffer, .. } => {
            found.insert(buffer.clone());
        }
        Stmt::Allocate { buffer, .. } => {
            found.insert(buffer.clone());
        }
        _ => {}
    }
    statement.children().into_iter().for_each(|child| stored(child, found));
}
