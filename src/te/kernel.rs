//! Programs compiled for a device.

use epilogue_runtime::{Device, DeviceKind, DeviceTensor, Stream};

use super::binding::Binding;
use super::cuda::CudaTarget;
use super::error::TeError;
use super::ir::Program;
use crate::Argument;

/// A lowered program, compiled for a device.
///
/// Sizes and strides are run-time arguments: one kernel serves every shape.
#[derive(Debug)]
pub struct Kernel {
    device: Device,
    program: Program,
    target: CudaTarget,
}

impl Program {
    /// Compiles the program for a device.
    ///
    /// # Errors
    /// [`TeError::Target`] for what the device has no form for; [`TeError::Device`] for what its compiler or driver
    /// fails with.
    pub fn build(&self, device: &Device) -> Result<Kernel, TeError> {
        if device.kind() == DeviceKind::Cpu {
            return Err(TeError::Target { what: format!("the program {}", self.name), target: "the CPU" });
        }
        Ok(Kernel { device: device.clone(), program: self.clone(), target: CudaTarget::new(device, self)? })
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

    /// The CUDA C++ that runs; it stands alone.
    #[must_use]
    pub fn source(&self) -> &str {
        self.target.source()
    }

    /// The compiled kernels of the program's launches, in the order of the source.
    #[must_use]
    pub fn launches(&self) -> &[epilogue_runtime::Kernel] {
        self.target.kernels()
    }

    /// Runs it on the device's default stream. `arguments` are the program's, in its order.
    ///
    /// # Errors
    /// [`TeError::Argument`], which names the tensor, for a rank, type, extent, stride or device that doesn't fit, and
    /// for an output that overlaps itself or another argument; then nothing is written. [`TeError::Device`] for what
    /// the device fails with.
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_on(&self.device.default_stream(), arguments)
    }

    /// [`Kernel::run`] on another stream of the device.
    ///
    /// # Errors
    /// As [`Kernel::run`].
    pub fn run_on(&self, stream: &Stream, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        let mut tensors: Vec<&DeviceTensor> = Vec::with_capacity(arguments.len());
        for (place, argument) in arguments.iter().enumerate() {
            tensors.push(match argument {
                Argument::Input(tensor) => tensor,
                Argument::Output(tensor) => tensor,
                Argument::Scalar(_) => {
                    let known = self.program.arguments.get(place).map(|(tensor, _)| tensor.name());
                    let reason = "a program's arguments are tensors; a number was given".to_owned();
                    return Err(TeError::Argument { tensor: known.unwrap_or_else(|| place.to_string()), reason });
                }
            });
        }
        let binding = Binding::of(&self.program, &tensors)?;
        self.check_memory(arguments, &tensors)?;
        self.target.run(&binding, &tensors, stream)
    }

    /// What is written is written through an output, is on the device, and is nobody else's.
    fn check_memory(&self, arguments: &[Argument<'_>], tensors: &[&DeviceTensor]) -> Result<(), TeError> {
        let name = |place: usize| self.program.arguments[place].0.name();
        let refuse = |place: usize, reason: String| Err(TeError::Argument { tensor: name(place), reason });
        for (place, tensor) in tensors.iter().enumerate() {
            if *tensor.device() != self.device {
                return refuse(place, format!("it is on {}, the kernel on {}", tensor.device(), self.device));
            }
            if !self.target.writes(&self.program.arguments[place].1) {
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
