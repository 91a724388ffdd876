//! The errors of this crate.

pub(crate) mod exchange;
pub(crate) mod formats;
pub(crate) mod ranks;

use std::fmt;
use std::path::PathBuf;

use crate::compile::compile_log::CompileLog;
use crate::device::cpu_level::CpuLevel;
use crate::error::exchange::ExchangeError;
use crate::error::ranks::CommunicatorError;
use crate::layout::element::ElementType;

/// Something that is missing on this machine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Absent {
    /// The program was compiled without the feature `cuda`.
    #[error("this program was compiled without GPUs: add the feature `cuda` of `epilogue`, or use `Device::cpu()`")]
    Feature,
    /// No usable CUDA driver.
    #[error("no usable CUDA driver: {reason}; install NVIDIA's driver, or use `Device::cpu()`")]
    Driver {
        /// The loader's message, or what is missing in the driver.
        reason: String,
    },
    /// The CUDA driver works, but has no device of this ordinal.
    #[error("CUDA device {ordinal} does not exist: this machine has {count} (CUDA_VISIBLE_DEVICES may hide some)")]
    Device {
        /// The ordinal asked for.
        ordinal: usize,
        /// How many devices the driver reports.
        count: usize,
    },
    /// NVIDIA's run-time compiler library was not found, or can't be used.
    #[error(
        "{}, or name its library in EPILOGUE_NVRTC. Searched: {}{}",
        Unusable(unusable),
        Paths(searched),
        Untrusted(untrusted)
    )]
    Nvrtc {
        /// Every folder and library that was tried, in order.
        searched: Vec<PathBuf>,
        /// Libraries that were found and can't be used: the library, and whether it is too old (before CUDA 12) or why
        /// it doesn't load.
        unusable: Vec<String>,
        /// Libraries that were found but not loaded, because other users may have put them there: the file or folder,
        /// and why.
        untrusted: Vec<String>,
    },
}

crate::message::debug!(Absent);

struct Paths<'a>(&'a [PathBuf]);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, path) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, path.display())?;
        }
        Ok(())
    }
}

struct Unusable<'a>(&'a [String]);

impl fmt::Display for Unusable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("NVRTC was not found; install it with `pip install nvidia-cuda-nvrtc`"),
            all => {
                let all = all.join("; ");
                write!(
                    f,
                    "no NVRTC that was found can be used: {all}; install a newer one with `pip install nvidia-cuda-nvrtc`"
                )
            }
        }
    }
}

struct Untrusted<'a>(&'a [String]);

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let all = self.0.join("; ");
        write!(
            f,
            ". Not taken, because others may have put it there: {all}. Change that, or name the library in EPILOGUE_NVRTC"
        )
    }
}

#[cfg(feature = "emulated")]
struct Findings<'a>(&'a [ptx_vm::race::Finding]);

#[cfg(feature = "emulated")]
impl fmt::Display for Findings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// A shape, view or stride that is not possible.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum LayoutError {
    #[error("a tensor of shape {shape:?} is larger than memory can address")]
    TooLarge { shape: Vec<usize> },
    #[error("shape {shape:?} holds {needed} elements, and {given} were given")]
    DataLength { shape: Vec<usize>, needed: usize, given: usize },
    #[error("axis {axis} does not exist: the shape is {shape:?}")]
    Axis { axis: usize, shape: Vec<usize> },
    #[error("range {start}..{end} does not fit axis {axis} of shape {shape:?}")]
    Range { axis: usize, start: usize, end: usize, shape: Vec<usize> },
    #[error("{order:?} does not name every axis of shape {shape:?} once")]
    Permutation { order: Vec<usize>, shape: Vec<usize> },
    #[error("axes {} name axis {axis} twice", listed(.lists))]
    AxisTwice { lists: Vec<Vec<usize>>, axis: usize },
    #[error("axes {} leave out axis {axis}", listed(.lists))]
    AxisLeftOut { lists: Vec<Vec<usize>>, axis: usize },
    #[error(
        "the {name}, axes {axes:?}, are {extents:?} with strides {strides:?}, which don't merge: at most {most} may be left; \
         make the tensor contiguous in this order (`permute`, then `contiguous()`), or name axes that lie one after another"
    )]
    Digits { name: &'static str, axes: Vec<usize>, extents: Vec<usize>, strides: Vec<isize>, most: usize },
    #[error("a transpose swaps the last two axes, and shape {shape:?} has fewer")]
    Transpose { shape: Vec<usize> },
    #[error("shape {from:?} can't become {to:?}: the numbers of elements differ")]
    ElementCount { from: Vec<usize>, to: Vec<usize> },
    #[error(
        "a view of shape {from:?} with strides {strides:?} can't become {to:?} without a copy: call `contiguous()` first"
    )]
    Reshape { from: Vec<usize>, strides: Vec<isize>, to: Vec<usize> },
    #[error("shape {from:?} does not broadcast to {to:?}: every axis must be equal or 1, aligned at the last")]
    Broadcast { from: Vec<usize>, to: Vec<usize> },
    #[error("strides {strides:?} do not fit shape {shape:?}: give one for every axis")]
    StrideCount { shape: Vec<usize>, strides: Vec<isize> },
    #[error(
        "strides {strides:?} hold a negative one, as those of a reversed view do; strides are 0 or more: copy the view first \
         (`as_standard_layout()` in ndarray, `ascontiguousarray` in numpy)"
    )]
    NegativeStride { strides: Vec<isize> },
    #[error(
        "writing through a view that holds some element more than once (shape {shape:?}, strides {strides:?}) has no one meaning"
    )]
    WriteToRepeated { shape: Vec<usize>, strides: Vec<isize> },
    #[error("a view of shape {shape:?} with strides {strides:?} reaches {needed} elements, and {given} were given")]
    TooShort { shape: Vec<usize>, strides: Vec<isize>, needed: usize, given: usize },
    #[error("address {address:#x} is not a multiple of {alignment}, the alignment of {element}")]
    Misaligned { address: u64, alignment: usize, element: ElementType },
}

crate::message::debug!(LayoutError);

/// `[0, 2] and [1, 2]`, `[0], [1, 2] and [3]`
fn listed(lists: &[Vec<usize>]) -> String {
    joined(&lists.iter().map(|list| format!("{list:?}")).collect::<Vec<_>>())
}

/// `the baseline, AVX2 and AVX-512`
fn levels(levels: &[CpuLevel]) -> String {
    joined(&levels.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn joined(all: &[String]) -> String {
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// Data that a kernel can't use, such as a bad token id. Everything else about the launch, and the device, is in order.
///
/// On the CPU, the run that meets the data fails with this error. On a GPU (and an emulated one), a launch does not
/// wait for its kernel. The kernel goes on with 0 instead of the element or the quotient. The next
/// [`Stream::synchronize`], reading back of a tensor, or [`Device::check`] fails with this error.
///
/// [`Stream::synchronize`]: crate::Stream::synchronize
/// [`Device::check`]: crate::Device::check
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// An index outside of its tensor.
    #[error("an index of dimension {dimension} is {index}, outside of {tensor}'s extent there, {extent}")]
    Index {
        /// The tensor.
        tensor: String,
        /// The dimension, from 0.
        dimension: usize,
        /// The index.
        index: i64,
        /// The dimension's extent.
        extent: i64,
    },
    /// An access outside of its memory, after its indices were combined into one.
    #[error("{access} is element {element} of {count}")]
    Element {
        /// The access.
        access: String,
        /// The element's number. If an index is outside of its dimension, this is a number outside of the memory.
        element: i64,
        /// The number of elements.
        count: i64,
    },
    /// A bound of a group that is outside of the divided extent, or below the bounds before it.
    #[error(
        "a bound of groups is {bound}: bounds go from 0 to {extent}, the extent of what they divide, and never down"
    )]
    Bound {
        /// The bound.
        bound: i64,
        /// The extent of what is divided.
        extent: i64,
    },
    /// A division of an integer by zero.
    #[error("an integer is divided by zero{}", divisor.as_ref().map(|x| format!(": {x} is zero")).unwrap_or_default())]
    DivisionByZero {
        /// The divisor, if it is known.
        divisor: Option<String>,
    },
    /// A failure in a kernel that is no longer known.
    #[error("a kernel met data that it can't use")]
    Unknown,
}

crate::message::debug!(DataError);

/// NVRTC refused a source, or ptxas its output.
#[derive(Clone, Debug)]
pub struct CompileFailure {
    /// The source's name.
    pub name: String,
    /// The options given.
    pub options: Vec<String>,
    /// The parsed log. If the source has `#line` directives, the diagnostics name the user's file and line.
    pub log: CompileLog,
}

impl fmt::Display for CompileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not compile ({})", self.name, self.options.join(" "))?;
        if self.log.diagnostics.is_empty() {
            return write!(f, ":\n{}", self.log.text);
        }
        for diagnostic in &self.log.diagnostics {
            write!(f, "\n{diagnostic}")?;
        }
        Ok(())
    }
}

/// Why a tensor can't be made, or a kernel can't be compiled or run.
///
/// The message says what was given, what is allowed and what to do. The variants are for programs that handle an error,
/// for example go on with the CPU if a GPU is [`Absent`].
///
/// ```
/// use epilogue_runtime::{Device, Error, LayoutError};
///
/// let error = Device::cpu().tensor(&[1.0f32; 5], [2, 3]).unwrap_err();
/// assert!(matches!(error, Error::Layout(LayoutError::DataLength { needed: 6, given: 5, .. })));
/// assert_eq!(error.to_string(), "shape [2, 3] holds 6 elements, and 5 were given");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine lacks something.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// A shape, view or stride that is not possible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Memory that can't come in or go out without a copy, or that may not be used in this way.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Ranks can't do something together, or can't any more.
    #[error(transparent)]
    Communicator(#[from] CommunicatorError),
    /// The tensor has another element type than the caller asked for.
    #[error("the tensor holds {held}, and was asked for {asked}")]
    ElementType {
        /// The tensor's type.
        held: ElementType,
        /// The type that the caller asked for.
        asked: ElementType,
    },
    /// A tensor, stream or event of another device was given.
    #[error("{what} is on {given}, and is needed on {needed}: copy it there")]
    Device {
        /// The given thing: a tensor, a stream.
        what: &'static str,
        /// Its device.
        given: String,
        /// The device that it must be on.
        needed: String,
    },
    /// A level of vector instructions that this CPU doesn't have.
    #[error(
        "this CPU doesn't have {given}; it has {}: choose one of `CpuLevel::available`, or use `Device::cpu`",
        levels(available)
    )]
    CpuLevel {
        /// The level that was asked for.
        given: CpuLevel,
        /// The levels that the CPU has.
        available: &'static [CpuLevel],
    },
    /// An operation that the device doesn't support.
    #[error("{device} can't {operation}: {advice}")]
    Unsupported {
        /// The device.
        device: String,
        /// The operation.
        operation: &'static str,
        /// An alternative.
        advice: &'static str,
    },
    /// Memory ran out, or would exceed a limit of the process's control groups (a container's). If a run on the CPU fails so
    /// in its middle, what it has written until then stays.
    #[error("{device} has no room for {bytes} bytes more")]
    OutOfMemory {
        /// The device.
        device: String,
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// The system gives no thread.
    #[error(
        "the system gives no thread with a stack of {stack} bytes ({reason}): raise the limit of threads (`ulimit -u`, a \
         container's `pids.max`) or of memory"
    )]
    Thread {
        /// The bytes of its stack.
        stack: usize,
        /// The system's message.
        reason: String,
    },
    /// A call of the CUDA driver failed.
    #[error("{call} failed with {name} ({code}): {message}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// `CUresult`.
        code: u32,
        /// Its name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
        name: String,
        /// The driver's description.
        message: String,
    },
    /// A kernel met data that it can't use.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The source does not compile.
    #[error("{0}")]
    Compile(Box<CompileFailure>),
    /// The device takes its kernels from [bundles](crate::compile::bundle), and none of them has this one.
    #[error("no bundle of this device holds the kernel `{kernel}` for {needed}: {advice}")]
    NotInBundle {
        /// The kernel.
        kernel: String,
        /// The target: an architecture, possibly an emulated one.
        needed: String,
        /// The bundles' content, and a way out.
        advice: String,
    },
    /// A source that no compiler is given.
    #[error("the source of the kernel `{kernel}` can't be compiled: {reason}")]
    Source {
        /// The kernel.
        kernel: String,
        /// The given and the allowed value.
        reason: String,
    },
    /// NVRTC failed for a reason other than the source.
    #[error("NVRTC's {call} failed: {message}")]
    Nvrtc {
        /// The function of NVRTC.
        call: &'static str,
        /// NVRTC's description.
        message: String,
    },
    /// A tensor, box or stride that tensor copies don't support.
    #[error("no tensor map can describe this: {reason}")]
    TensorMap {
        /// The given and the allowed value.
        reason: String,
    },
    /// A launch that no device supports.
    #[error("kernel `{kernel}` can't be launched so: {reason}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The given and the allowed value.
        reason: String,
    },
    /// The emulated device found a fault in a kernel.
    #[error("kernel `{kernel}` on {device}: {message}")]
    Emulation {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// ptx-vm's report.
        message: String,
    },
    /// The emulated device's race detector found unordered accesses, or misused barriers. The kernel's results are not
    /// the only possible ones.
    #[cfg(feature = "emulated")]
    #[error("kernel `{kernel}` on {device} has {} races or misused barriers:\n{}", findings.len(), Findings(findings))]
    Races {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// The detector's findings.
        findings: Vec<ptx_vm::race::Finding>,
    },
    /// The emulated device's memory refused an access.
    #[error("memory of {device}: {message}")]
    EmulatedMemory {
        /// The device.
        device: String,
        /// ptx-vm's report.
        message: String,
    },
    /// The emulated device does not understand a kernel's PTX.
    #[error("kernel `{kernel}` on {device}: {message}")]
    EmulatedModule {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// ptx-vm's report: the line and what it does not know.
        message: String,
    },
    /// Work that can't be part of a graph, or a graph that can't be launched any more.
    #[error("this can't be captured: {reason}")]
    Capture {
        /// The obstacle, and a way out.
        reason: String,
    },
    /// An event without a time, or of another device.
    #[error("no time passed between these events: {reason}")]
    Event {
        /// The missing part.
        reason: &'static str,
    },
}

crate::message::debug!(Error);

/// The results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
