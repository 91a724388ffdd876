//! Programs compiled for a device, and their runs.

use epilogue_runtime::{Device, DeviceKind, DeviceTensor, Stream};

use super::cuda::CudaTarget;
#[cfg(feature = "native")]
use super::native::{HostTensor, NativeKernel};
use crate::Argument;
use crate::level;
use crate::te::bind::arguments::{places, stand_ins};
use crate::te::bind::binding::{BoundSizes, check_requirements};
use crate::te::error::{RunError, TeError};
use crate::te::expr::tensor::Tensor;
use crate::te::loops::ir::program::Program;

/// A lowered program, compiled for a device.
///
/// Sizes and strides are run-time arguments, so one kernel serves every shape.
#[derive(Debug)]
pub struct Kernel {
    device: Device,
    program: Program,
    target: Target,
}

/// The compiled form, by target.
#[derive(Debug)]
enum Target {
    Cuda(Box<CudaTarget>),
    #[cfg(feature = "native")]
    Native(Box<NativeKernel>),
}

impl Target {
    fn new(device: &Device, program: &Program) -> Result<Self, TeError> {
        if device.kind() != DeviceKind::Cpu {
            return Ok(Self::Cuda(Box::new(CudaTarget::new(device, program)?)));
        }
        #[cfg(feature = "native")]
        return Ok(Self::Native(Box::new(super::native::compile(program)?)));
        #[cfg(not(feature = "native"))]
        Err(crate::te::LoweringError::Target {
            what: format!("the program {}", program.name),
            target: "the CPU in a build without the feature `native` of the crate epilogue",
        }
        .into())
    }

    /// Whether the program writes an argument, given by its place.
    fn writes(&self, program: &Program, place: usize) -> bool {
        match self {
            Self::Cuda(target) => target.writes(&program.arguments[place].1),
            #[cfg(feature = "native")]
            Self::Native(kernel) => kernel.writes(place),
        }
    }
}

impl Program {
    /// Compiles the program for a device.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for what the device doesn't support;
    /// [`TeError::Device`] for errors of its compiler or driver.
    pub fn build(&self, device: &Device) -> Result<Kernel, TeError> {
        Ok(Kernel {
            device: device.clone(),
            program: self.clone(),
            target: level::on(device, || Target::new(device, self))?,
        })
    }
}

impl Kernel {
    /// The device that it was compiled for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The program that it was compiled from.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The complete CUDA C++ source; empty on the CPU.
    #[must_use]
    pub fn source(&self) -> &str {
        match &self.target {
            Target::Cuda(target) => target.source(),
            #[cfg(feature = "native")]
            Target::Native(_) => "",
        }
    }

    /// The compiled kernels of the program's launches, in the order of the source. Empty on the CPU.
    #[must_use]
    pub fn launches(&self) -> &[epilogue_runtime::Kernel] {
        match &self.target {
            Target::Cuda(target) => target.kernels(),
            #[cfg(feature = "native")]
            Target::Native(_) => &[],
        }
    }

    /// Runs the kernel on the device's default stream. Arguments are given with their tensors, those of
    /// [`lower`](crate::te::lower), in any order.
    ///
    /// # Errors
    /// [`RunError::Argument`], which names the tensor, for one that is missing, given twice or not the program's; the
    /// errors of [`Kernel::run`].
    pub fn run_bound(&self, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        self.run_bound_on(&self.device.default_stream(), arguments)
    }

    /// [`Kernel::run_bound`] on another stream of the device.
    ///
    /// # Errors
    /// The errors of [`Kernel::run_bound`].
    pub fn run_bound_on(&self, stream: &Stream, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.program.arguments.iter().map(|(tensor, _)| tensor).collect();
        let given: Vec<&Tensor> = arguments.iter().map(|(tensor, _)| *tensor).collect();
        let places = places(&parameters, &given)?;
        let ordered: Vec<&Argument<'_>> = places.iter().map(|place| &arguments[*place].1).collect();
        self.run_ordered(stream, &ordered)
    }

    /// Runs the kernel on the device's default stream. `arguments` are in the order in which
    /// [`lower`](crate::te::lower) was given the tensors; [`Kernel::run_bound`] takes them in any order.
    ///
    /// # Errors
    /// [`RunError::Argument`], with the tensor's name, for a rank, type, extent, stride or device that doesn't fit.
    /// Also for an output that overlaps itself or another argument; nothing is written then. [`TeError::Device`] for
    /// errors of the device. [`TeError::Data`] for an access outside of memory and for a division by zero: from the run
    /// on the CPU; on a GPU from the call that waits for it, as reading a result does.
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_on(&self.device.default_stream(), arguments)
    }

    /// [`Kernel::run`] on another stream of the device.
    ///
    /// # Errors
    /// The errors of [`Kernel::run`].
    pub fn run_on(&self, stream: &Stream, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_ordered(stream, &arguments.iter().collect::<Vec<_>>())
    }

    /// Compiles what runs on contiguous tensors of these shapes need, and runs nothing. A program has one kernel for
    /// all shapes, which is there already, and another for tensors of more than 2^30 elements.
    ///
    /// # Errors
    /// As [`Kernel::run_bound`], and what compiling fails with.
    pub fn prepare(&self, shapes: &[(&Tensor, &[usize])]) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.program.arguments.iter().map(|(tensor, _)| tensor).collect();
        let mut tensors = stand_ins(&self.device, &parameters, shapes)?;
        let arguments: Vec<Argument<'_>> = tensors
            .iter_mut()
            .enumerate()
            .map(|(place, tensor)| {
                if self.target.writes(&self.program, place) {
                    Argument::Output(tensor)
                } else {
                    Argument::Input(tensor)
                }
            })
            .collect();
        self.run_on(&self.device.dry_stream(), &arguments)
    }

    fn run_ordered(&self, stream: &Stream, arguments: &[&Argument<'_>]) -> Result<(), TeError> {
        let mut tensors: Vec<&DeviceTensor> = Vec::with_capacity(arguments.len());
        for (place, argument) in arguments.iter().enumerate() {
            tensors.push(match argument {
                Argument::Input(tensor) => tensor,
                Argument::Output(tensor) => tensor,
                Argument::Scalar(_) | Argument::Seed(..) => {
                    let known = self.program.arguments.get(place).map(|(tensor, _)| tensor.name());
                    let reason = "a program's arguments are tensors; a number was given".to_owned();
                    return Err(
                        RunError::Argument { tensor: known.unwrap_or_else(|| place.to_string()), reason }.into()
                    );
                }
            });
        }
        let binding = BoundSizes::of(&self.program, &tensors)?;
        self.check_memory(arguments, &tensors)?;
        self.run_sized(stream, &binding, &tensors)
    }

    /// Runs on tensors that are on the device. No written one shares memory with another.
    ///
    /// # Errors
    /// The errors of [`Kernel::run`].
    pub(crate) fn run_tensors(&self, stream: &Stream, tensors: &[&DeviceTensor]) -> Result<(), TeError> {
        self.run_sized(stream, &BoundSizes::of(&self.program, tensors)?, tensors)
    }

    fn run_sized(&self, stream: &Stream, binding: &BoundSizes, tensors: &[&DeviceTensor]) -> Result<(), TeError> {
        let mut written = tensors.iter().enumerate().filter(|(place, _)| self.target.writes(&self.program, *place));
        if written.all(|(_, tensor)| tensor.shape().contains(&0)) {
            return Ok(());
        }
        check_requirements(&self.program.requirements, &binding.sizes)?;
        match &self.target {
            Target::Cuda(target) => target.run(binding, tensors, stream),
            // It is compiled.
            #[cfg(feature = "native")]
            Target::Native(_) if stream.is_dry() => Ok(()),
            #[cfg(feature = "native")]
            Target::Native(kernel) => run_native(kernel, tensors),
        }
    }

    /// Checks that every written argument is passed as an output, is on the device, and shares no memory with others.
    fn check_memory(&self, arguments: &[&Argument<'_>], tensors: &[&DeviceTensor]) -> Result<(), TeError> {
        let name = |place: usize| self.program.arguments[place].0.name();
        let refuse = |place: usize, reason: String| Err(RunError::Argument { tensor: name(place), reason }.into());
        for (place, tensor) in tensors.iter().enumerate() {
            if *tensor.device() != self.device {
                return refuse(place, format!("it is on {}, the kernel on {}", tensor.device(), self.device));
            }
            if !self.target.writes(&self.program, place) {
                continue;
            }
            if !matches!(arguments[place], Argument::Output(_)) {
                return refuse(place, "it is written; pass it as an output (`(&mut tensor).into()`)".to_owned());
            }
            if tensor.has_internal_overlap() {
                return refuse(place, "it is written, but some of its elements share memory".to_owned());
            }
            let other = (0..tensors.len()).find(|other| *other != place && tensor.overlaps(tensors[*other]));
            if let Some(other) = other {
                return refuse(place, format!("it is written, but shares memory with {}", name(other)));
            }
        }
        Ok(())
    }
}

/// Runs native code on tensors of the CPU. A tensor that is written must share no element with another.
#[cfg(feature = "native")]
fn run_native(kernel: &NativeKernel, tensors: &[&DeviceTensor]) -> Result<(), TeError> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (place, tensor) in tensors.iter().enumerate() {
        if kernel.writes(place) { writes.push(*tensor) } else { reads.push(*tensor) }
    }
    let access = epilogue_runtime::HostAccess::lock(&reads, &writes).map_err(TeError::from)?;
    let (mut next_read, mut next_write) = (0.., 0..);
    let mut arguments = Vec::with_capacity(tensors.len());
    for (place, tensor) in tensors.iter().enumerate() {
        let writable = kernel.writes(place);
        let pointer = if writable {
            next_write.next().and_then(|i| access.write_pointer(i))
        } else {
            next_read.next().and_then(|i| access.read_pointer(i)).map(<*const u8>::cast_mut)
        };
        let Some(pointer) = pointer else { continue };
        let range = tensor.byte_range();
        let len = usize::try_from(range.end - range.start).unwrap_or(0) / tensor.element_type().size();
        let dtype = tensor.element_type().into();
        // SAFETY: the view lies in its buffer, which is locked as long as the arguments live (for writing, if it is
        // written).
        let argument = unsafe { HostTensor::from_raw(pointer, len, dtype, tensor.shape(), writable) };
        let strides: Vec<usize> = tensor.strides().iter().map(|stride| stride.unsigned_abs()).collect();
        arguments.push(argument.with_strides(tensor.shape(), &strides)?);
    }
    // SAFETY: the caller has compared the elements of all views.
    unsafe { kernel.run_disjoint(&mut arguments) }
}
