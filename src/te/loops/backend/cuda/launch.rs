//! Compiled programs for CUDA, and their runs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use epilogue_runtime::{Device, DeviceTensor, Kernel, KernelArgument, Launch, Stream};

use super::refusal::refuse;
use super::{CudaKernel, CudaProgram, Form, HostStep, emit};
use crate::pool::Pool;
use crate::te::bind::binding::{BoundSizes, evaluate};
use crate::te::dtype::DType;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::te::loops::backend::bounds::Proofs;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::rewrite::{inline_indices, with_one_index};
use crate::te::loops::ir::stmt::{Note, Stmt};
use crate::te::loops::lower::passes::partition::partition;

/// From this many elements on, indices are 64 bits long. An index of 32 bits could overflow before its last term is
/// subtracted.
const WIDE: i64 = 1 << 30;

/// A program compiled for a device that runs CUDA.
#[derive(Debug)]
pub(crate) struct CudaTarget {
    device: Device,
    program: Program,
    /// The body for proofs about the accesses of a run.
    body: Stmt,
    /// The sizes and strides that accesses depend on.
    variables: Vec<Var>,
    proofs: Proofs,
    /// The text that is compiled with the program.
    plain: Variant,
    /// The others, as soon as a run needs them.
    wide: OnceLock<Variant>,
    tested: OnceLock<Variant>,
    /// Memory that holds data between launches.
    memory: Pool<Vec<DeviceTensor>>,
}

#[derive(Debug)]
struct Variant {
    emitted: CudaProgram,
    kernels: Vec<Kernel>,
}

impl Variant {
    fn new(device: &Device, program: &Program, form: Form) -> Result<Self, TeError> {
        let emitted = emit(program, form)?;
        let limit = device.properties().shared_bytes_per_block as usize;
        if let Some(bytes) = emitted.kernels.iter().map(|kernel| kernel.shared_bytes).find(|bytes| *bytes > limit) {
            return Err(refuse(format!(
                "a launch with {bytes} bytes of shared memory in a block, of which {device} has at most {limit},"
            )));
        }
        let mut kernels = Vec::with_capacity(emitted.kernels.len());
        if device.arch().is_some() && !emitted.kernels.is_empty() {
            // All kernels are in one text, which is compiled once.
            let compiled = device.compiled(&emitted.source)?;
            for kernel in &emitted.kernels {
                kernels.push(device.load(compiled.clone(), &kernel.symbol)?);
            }
        }
        Ok(Self { emitted, kernels })
    }
}

impl CudaTarget {
    pub(crate) fn new(device: &Device, program: &Program) -> Result<Self, TeError> {
        let plain = Variant::new(device, program, Form::Plain)?;
        for kernel in &plain.emitted.kernels {
            kernel
                .scalars
                .iter()
                .try_for_each(|var| BoundSizes::require(program, *var, &plain.emitted.host_counters()))?;
        }
        let body = descend(program.body.depth(), || inline_indices(partition(with_one_index(program.body.clone()))))?;
        let (device, program, variables) = (device.clone(), program.clone(), variables(program));
        let (proofs, memory) = (Proofs::default(), Pool::default());
        let [wide, tested] = [(); 2].map(|()| OnceLock::new());
        Ok(Self { device, program, body, variables, proofs, plain, wide, tested, memory })
    }

    pub(crate) fn source(&self) -> &str {
        &self.plain.emitted.source.code
    }

    /// The kernels of the launches, in order.
    pub(crate) fn kernels(&self) -> &[Kernel] {
        &self.plain.kernels
    }

    /// Whether a run writes an argument.
    pub(crate) fn writes(&self, argument: &Buffer) -> bool {
        self.plain
            .emitted
            .kernels
            .iter()
            .flat_map(|k| &k.buffers)
            .any(|(buffer, written)| *written && buffer == argument)
    }

    pub(crate) fn run(&self, binding: &BoundSizes, tensors: &[&DeviceTensor], stream: &Stream) -> Result<(), TeError> {
        let shapes = self.scratch_shapes(binding)?;
        let fits = |kept: &Vec<DeviceTensor>| kept.iter().zip(&shapes).all(|(tensor, shape)| tensor.shape() == shape);
        let scratch = match self.memory.take(stream, fits) {
            Some(scratch) => scratch,
            None => Arc::new(self.allocate(stream, &shapes)?),
        };
        self.run_with(&scratch, binding, tensors, stream)?;
        self.memory.put(stream, scratch);
        Ok(())
    }

    fn run_with(
        &self,
        scratch: &[DeviceTensor],
        binding: &BoundSizes,
        tensors: &[&DeviceTensor],
        stream: &Stream,
    ) -> Result<(), TeError> {
        let mut memory: HashMap<&Buffer, &DeviceTensor> = HashMap::new();
        memory.extend(self.program.arguments.iter().map(|(_, buffer)| buffer).zip(tensors.iter().copied()));
        memory.extend(self.plain.emitted.scratch.iter().zip(scratch));
        let form = match self.stays_inside(binding, tensors) {
            true if self.needs_wide_indices(binding, &memory) => Form::Wide,
            true => Form::Plain,
            false => Form::Tested,
        };
        let variant = self.variant(form)?;
        // All texts are printed from the same program, so their scratch buffers are the same.
        let run = Run { variant, memory, stream, wide: form.is_wide() };
        run.steps(&variant.emitted.steps, &mut binding.sizes.clone())
    }

    /// Whether no access leaves its memory in this run.
    fn stays_inside(&self, binding: &BoundSizes, tensors: &[&DeviceTensor]) -> bool {
        let buffers = self.program.arguments.iter().map(|(_, buffer)| buffer.clone());
        let spans: Vec<(Buffer, usize)> = buffers.zip(tensors.iter().map(|tensor| span(tensor))).collect();
        self.proofs.stays_inside(&self.body, (&binding.sizes, &self.variables), &spans)
    }

    fn variant(&self, form: Form) -> Result<&Variant, TeError> {
        let kept = match form {
            Form::Plain => return Ok(&self.plain),
            Form::Wide => &self.wide,
            Form::Tested => &self.tested,
        };
        if let Some(variant) = kept.get() {
            return Ok(variant);
        }
        if form == Form::Tested
            && let Some(function) = called(&self.program.body)
        {
            return Err(refuse_call(&self.program.name, &function));
        }
        let variant = Variant::new(&self.device, &self.program, form)?;
        Ok(kept.get_or_init(|| variant))
    }

    fn scratch_shapes(&self, binding: &BoundSizes) -> Result<Vec<Vec<usize>>, TeError> {
        let extent = |extent: &Expr| {
            let extent = evaluate(extent, &binding.sizes)?.max(0);
            usize::try_from(extent).map_err(|_| RunError::IntegerRange.into())
        };
        self.plain.emitted.scratch.iter().map(|buffer| buffer.allocation().iter().map(extent).collect()).collect()
    }

    fn allocate(&self, stream: &Stream, shapes: &[Vec<usize>]) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate =
            |(buffer, shape): (&Buffer, &Vec<usize>)| Ok(stream.zeros_of(buffer.dtype().in_memory(), shape)?);
        self.plain.emitted.scratch.iter().zip(shapes).map(allocate).collect()
    }

    fn needs_wide_indices(&self, binding: &BoundSizes, memory: &HashMap<&Buffer, &DeviceTensor>) -> bool {
        let large = |x: &Expr| evaluate(x, &binding.sizes).is_ok_and(|value| value >= WIDE);
        memory.values().any(|tensor| span(tensor) as i64 > WIDE)
            || binding.sizes.values().any(|size| *size >= WIDE)
            || self
                .plain
                .emitted
                .kernels
                .iter()
                .any(|kernel| kernel.loops.iter().any(large) || threads(&kernel.grid, &kernel.block, binding) >= WIDE)
    }
}

/// One more than the last element that an index of a tensor reaches.
fn span(tensor: &DeviceTensor) -> usize {
    if tensor.shape().contains(&0) {
        return 0;
    }
    let steps = tensor.shape().iter().zip(tensor.strides());
    steps.fold(1, |sum, (extent, stride)| sum.saturating_add((extent - 1).saturating_mul(stride.unsigned_abs())))
}

/// The variables of a program's arguments, each once.
fn variables(program: &Program) -> Vec<Var> {
    let mut found: Vec<Var> = Vec::new();
    for (_, buffer) in &program.arguments {
        for var in buffer.shape().iter().chain(buffer.strides()).filter_map(Expr::as_var) {
            if !found.contains(&var) {
                found.push(var);
            }
        }
    }
    found
}

/// A function of the user that a program calls.
fn called(statement: &Stmt) -> Option<String> {
    match statement {
        Stmt::Note { note: Note::Call(call), .. } => Some(call.function.name().to_owned()),
        _ => statement.children().into_iter().find_map(called),
    }
}

/// The refusal of a run whose accesses would have to be tested, but are made by a function of the user.
fn refuse_call(program: &str, function: &str) -> TeError {
    let reason = format!(
        "it is not proved that every access of {program} stays inside for these sizes, and what {function} accesses can't be \
         tested; give extents that the tiles divide, or test the indices of what it reads"
    );
    RunError::Failed { reason }.into()
}

/// The number of threads along the longest of x, y and z.
fn threads(grid: &[Expr; 3], block: &[Expr; 3], binding: &BoundSizes) -> i64 {
    let extent = |x: &Expr| evaluate(x, &binding.sizes).unwrap_or(1).max(0);
    grid.iter().zip(block).map(|(grid, block)| extent(grid).saturating_mul(extent(block))).max().unwrap_or(0)
}

/// A run in progress.
struct Run<'a> {
    variant: &'a Variant,
    memory: HashMap<&'a Buffer, &'a DeviceTensor>,
    stream: &'a Stream,
    wide: bool,
}

impl Run<'_> {
    fn steps(&self, steps: &[HostStep], sizes: &mut HashMap<Var, i64>) -> Result<(), TeError> {
        for step in steps {
            match step {
                HostStep::For { var, extent, body } => {
                    for i in 0..evaluate(extent, sizes)? {
                        sizes.insert(*var, i);
                        self.steps(body, sizes)?;
                    }
                }
                HostStep::If { condition, then } => {
                    if evaluate(condition, sizes)? != 0 {
                        self.steps(then, sizes)?;
                    }
                }
                HostStep::Let { var, value, body } => {
                    let value = evaluate(value, sizes)?;
                    sizes.insert(*var, value);
                    self.steps(body, sizes)?;
                }
                HostStep::Launch(number) => {
                    let (kernel, compiled) = (&self.variant.emitted.kernels[*number], &self.variant.kernels[*number]);
                    self.launch(kernel, compiled, sizes)?;
                }
            }
        }
        Ok(())
    }

    fn launch(&self, kernel: &CudaKernel, compiled: &Kernel, sizes: &HashMap<Var, i64>) -> Result<(), TeError> {
        let (mut grid, mut block) = ([1; 3], [1; 3]);
        for (extents, shape) in [(&kernel.grid, &mut grid), (&kernel.block, &mut block)] {
            for (extent, place) in extents.iter().zip(shape) {
                let value = evaluate(extent, sizes)?;
                if value <= 0 {
                    return Ok(());
                }
                *place = u32::try_from(value).map_err(|_| RunError::Failed {
                    reason: format!("{} has an extent of {value}; a launch has at most 2^32 - 1", kernel.symbol),
                })?;
            }
        }
        let scalars = kernel.scalars.iter().map(|var| self.scalar(*var, sizes)).collect::<Result<Vec<_>, _>>()?;
        let mut arguments = Vec::with_capacity(kernel.buffers.len() + scalars.len());
        for (buffer, written) in &kernel.buffers {
            let Some(tensor) = self.memory.get(buffer) else {
                return Err(RunError::Failed { reason: format!("{} has no memory", buffer.name()) }.into());
            };
            arguments.push(if *written { KernelArgument::Output(tensor) } else { KernelArgument::Input(tensor) });
        }
        arguments.extend(scalars.iter().map(|bytes| KernelArgument::Value(bytes)));
        let shared_bytes = u32::try_from(kernel.shared_bytes).map_err(|_| RunError::IntegerRange)?;
        let shape = Launch { grid, block, shared_bytes, ..Launch::default() };
        Ok(compiled.launch(&shape, &arguments, self.stream)?)
    }

    fn scalar(&self, var: Var, sizes: &HashMap<Var, i64>) -> Result<Vec<u8>, TeError> {
        let missing = || LoweringError::Unbound { variable: var.name().to_owned() };
        let value = *sizes.get(&var).ok_or_else(missing)?;
        if var.dtype() != DType::I32 || self.wide {
            return Ok(value.to_ne_bytes().to_vec());
        }
        let value = i32::try_from(value).map_err(|_| RunError::IntegerRange)?;
        Ok(value.to_ne_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te;
    use epilogue_runtime::Arch;

    /// Memory that needs 64-bit indices is too large for a test, but the kernels with 64-bit indices are not.
    #[test]
    fn wide_indices_compute_the_same() {
        if epilogue_runtime::testing::compiler("wide_indices_compute_the_same").is_none() {
            return;
        }
        let (n, m) = (te::var("n"), te::var("m"));
        let a = te::placeholder([n, m], "A");
        let k = te::reduce_axis((0, m), "k");
        let weighted = |k: te::Axis| Expr::from(k).cast(DType::F32).min(3.0);
        let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]) * weighted(k), [k])).unwrap();
        let c = te::compute([n], "C", |[i]| b.at([i]) + b.at([(i + n - 1) % n])).unwrap();
        let mut s = te::create_schedule(&[&c]);
        let (_, ki) = s.stage(&b).unwrap().split(k, 8).unwrap();
        s.stage(&b).unwrap().unroll(ki).unwrap();
        for tensor in [&b, &c] {
            let stage = s.stage(tensor).unwrap();
            let (outer, inner) = stage.split(tensor.axis(0).unwrap(), 6).unwrap();
            stage.bind(outer, te::thread_axis("blockIdx.x")).unwrap();
            stage.bind(inner, te::thread_axis("threadIdx.x")).unwrap();
        }
        let program = te::lower(&s, &[&a, &c], "main").unwrap();
        let device = Device::emulated(Arch::SM_80).unwrap();
        let values: Vec<f32> = (0..9 * 13).map(|i| (i % 7) as f32).collect();
        let a = device.tensor(&values, [9, 13]).unwrap();
        let target = CudaTarget::new(&device, &program).unwrap();
        let mut results = Vec::new();
        for wide in [false, true] {
            let form = if wide { Form::Wide } else { Form::Plain };
            let c = device.zeros::<f32>([9]).unwrap();
            let variant = target.variant(form).unwrap();
            let binding = BoundSizes::of(&program, &[&a, &c]).unwrap();
            let shapes = target.scratch_shapes(&binding).unwrap();
            let scratch = target.allocate(&device.default_stream(), &shapes).unwrap();
            let mut memory: HashMap<&Buffer, &DeviceTensor> = HashMap::new();
            memory.extend(program.arguments.iter().map(|(_, buffer)| buffer).zip([&a, &c]));
            memory.extend(target.plain.emitted.scratch.iter().zip(&scratch));
            let stream = device.default_stream();
            let run = Run { variant, memory, stream: &stream, wide };
            run.steps(&variant.emitted.steps, &mut binding.sizes.clone()).unwrap();
            assert_eq!(variant.emitted.source.code.contains("for (int64_t "), wide);
            results.push(c.to_vec::<f32>().unwrap());
        }
        assert!(results[0].iter().any(|x| *x > 0.0));
        assert_eq!(results[0], results[1]);
    }
}
