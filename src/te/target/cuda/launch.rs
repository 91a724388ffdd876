//! Compiled programs for CUDA, and their runs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use epilogue_runtime::{Device, DeviceTensor, Kernel, KernelArgument, Launch, Stream};

use super::refusal::refuse;
use super::{CudaKernel, CudaProgram, HostStep, emit};
use crate::pool::Pool;
use crate::te::dtype::DType;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::ir::program::Program;
use crate::te::lang::buffer::Buffer;
use crate::te::lang::expr::Expr;
use crate::te::lang::var::Var;
use crate::te::target::binding::{Binding, evaluate};

/// From this many elements on, indices are 64 bits long. An index of 32 bits could overflow before its last term is
/// subtracted.
const WIDE: i64 = 1 << 30;

/// A program compiled for a device that runs CUDA.
#[derive(Debug)]
pub(crate) struct CudaTarget {
    device: Device,
    program: Program,
    narrow: Variant,
    wide: OnceLock<Variant>,
    /// Memory that holds data between launches.
    memory: Pool<Vec<DeviceTensor>>,
}

#[derive(Debug)]
struct Variant {
    emitted: CudaProgram,
    kernels: Vec<Kernel>,
}

impl Variant {
    fn new(device: &Device, program: &Program, wide: bool) -> Result<Self, TeError> {
        let emitted = emit(program, wide)?;
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
        let narrow = Variant::new(device, program, false)?;
        for kernel in &narrow.emitted.kernels {
            kernel
                .scalars
                .iter()
                .try_for_each(|var| Binding::require(program, *var, &narrow.emitted.host_counters()))?;
        }
        let (device, program) = (device.clone(), program.clone());
        Ok(Self { device, program, narrow, wide: OnceLock::new(), memory: Pool::default() })
    }

    pub(crate) fn source(&self) -> &str {
        &self.narrow.emitted.source.code
    }

    /// The kernels of the launches, in order.
    pub(crate) fn kernels(&self) -> &[Kernel] {
        &self.narrow.kernels
    }

    /// Whether a run writes an argument.
    pub(crate) fn writes(&self, argument: &Buffer) -> bool {
        self.narrow
            .emitted
            .kernels
            .iter()
            .flat_map(|k| &k.buffers)
            .any(|(buffer, written)| *written && buffer == argument)
    }

    pub(crate) fn run(&self, binding: &Binding, tensors: &[&DeviceTensor], stream: &Stream) -> Result<(), TeError> {
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
        binding: &Binding,
        tensors: &[&DeviceTensor],
        stream: &Stream,
    ) -> Result<(), TeError> {
        let mut memory: HashMap<&Buffer, &DeviceTensor> = HashMap::new();
        memory.extend(self.program.arguments.iter().map(|(_, buffer)| buffer).zip(tensors.iter().copied()));
        memory.extend(self.narrow.emitted.scratch.iter().zip(scratch));
        let wide = self.needs_wide_indices(binding, &memory);
        let variant = if wide { self.wide()? } else { &self.narrow };
        // The wide text is printed from the same program, so its scratch buffers are the same.
        let run = Run { variant, memory, stream, wide };
        run.steps(&variant.emitted.steps, &mut binding.sizes.clone())
    }

    fn wide(&self) -> Result<&Variant, TeError> {
        if let Some(variant) = self.wide.get() {
            return Ok(variant);
        }
        let variant = Variant::new(&self.device, &self.program, true)?;
        Ok(self.wide.get_or_init(|| variant))
    }

    fn scratch_shapes(&self, binding: &Binding) -> Result<Vec<Vec<usize>>, TeError> {
        let extent = |extent: &Expr| {
            let extent = evaluate(extent, &binding.sizes)?.max(0);
            usize::try_from(extent).map_err(|_| RunError::IntegerRange.into())
        };
        self.narrow.emitted.scratch.iter().map(|buffer| buffer.allocation().iter().map(extent).collect()).collect()
    }

    fn allocate(&self, stream: &Stream, shapes: &[Vec<usize>]) -> Result<Vec<DeviceTensor>, TeError> {
        let allocate =
            |(buffer, shape): (&Buffer, &Vec<usize>)| Ok(stream.zeros_of(buffer.dtype().in_memory(), shape)?);
        self.narrow.emitted.scratch.iter().zip(shapes).map(allocate).collect()
    }

    fn needs_wide_indices(&self, binding: &Binding, memory: &HashMap<&Buffer, &DeviceTensor>) -> bool {
        let large = |x: &Expr| evaluate(x, &binding.sizes).is_ok_and(|value| value >= WIDE);
        let span = |tensor: &DeviceTensor| {
            let (shape, strides) = (tensor.shape(), tensor.strides());
            let reach = shape.iter().zip(strides).map(|(&n, &s)| n.saturating_sub(1) as i64 * s.unsigned_abs() as i64);
            reach.sum::<i64>()
        };
        memory.values().any(|tensor| span(tensor) >= WIDE)
            || binding.sizes.values().any(|size| *size >= WIDE)
            || self
                .narrow
                .emitted
                .kernels
                .iter()
                .any(|kernel| kernel.loops.iter().any(large) || threads(&kernel.grid, &kernel.block, binding) >= WIDE)
    }
}

/// The number of threads along the longest of x, y and z.
fn threads(grid: &[Expr; 3], block: &[Expr; 3], binding: &Binding) -> i64 {
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

    /// Memory that needs 64-bit indices is too large for a test, but the kernels with such indices are not.
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
            let c = device.zeros::<f32>([9]).unwrap();
            let variant = if wide { target.wide().unwrap() } else { &target.narrow };
            let binding = Binding::of(&program, &[&a, &c]).unwrap();
            let shapes = target.scratch_shapes(&binding).unwrap();
            let scratch = target.allocate(&device.default_stream(), &shapes).unwrap();
            let mut memory: HashMap<&Buffer, &DeviceTensor> = HashMap::new();
            memory.extend(program.arguments.iter().map(|(_, buffer)| buffer).zip([&a, &c]));
            memory.extend(target.narrow.emitted.scratch.iter().zip(&scratch));
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
