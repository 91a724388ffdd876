//! Kernels compiled ahead of time, in one file: what a program runs where there is no compiler.
//!
//! # Making one
//! A [`Builder`] gives *targets*: devices that stand for a GPU that need not be there ([`Builder::target`]), or for an
//! emulated one ([`Builder::emulated_target`]). Whatever is planned, built or run on a target compiles the kernels that
//! it would run, and runs nothing; the builder keeps them. NVRTC compiles for every architecture, so a bundle is made
//! wherever there is an NVRTC: by a build script, by a program, on a machine without a GPU.
//!
//! # Using it
//! [`Bundle::open`] reads and checks a file, [`Bundle::install`] gives it to a device. A device with a bundle compiles
//! nothing and asks no cache: it takes every kernel from its bundles, or fails with
//! [`Error::NotInBundle`](crate::Error::NotInBundle), which says what is missing. So what runs does not depend on what a
//! machine happens to have installed.
//!
//! ```
//! use epilogue_runtime::bundle::{Builder, Bundle};
//! use epilogue_runtime::{Arch, Device, Error, Source};
//!
//! let scale = |factor: &str| {
//!     let code = format!("extern \"C\" __global__ void scale(float* x) {{ x[threadIdx.x] *= {factor}; }}");
//!     Source::new("scale.cu", "scale", code)
//! };
//! # if epilogue_runtime::testing::compiler("the page of bundles").is_none() { return Ok(()) }
//! // Where there is an NVRTC:
//! let builder = Builder::new();
//! builder.target(Arch::SM_90A)?.compile(&scale("2.0f"))?;
//! builder.emulated_target(Arch::SM_80)?.compile(&scale("2.0f"))?;
//! let bytes = builder.to_bytes(); // or `builder.write("kernels.bundle")?`
//!
//! // Where there is none:
//! let bundle = Bundle::from_bytes(bytes)?; // or `Bundle::open("kernels.bundle")?`
//! let device = Device::emulated(Arch::SM_80)?;
//! bundle.install(&device)?;
//! assert_eq!(device.compile(&scale("2.0f"))?.name(), "scale");
//! assert!(matches!(device.compile(&scale("3.0f")), Err(Error::NotInBundle { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What identifies a kernel
//! The hash of its text without comments and `#line` directives, and its options; beside it the architecture and the
//! form (machine code, or PTX for emulated devices). Neither the compiler's version, nor a path, nor a place in the
//! user's files is in it: a build script and the program that it builds mean the same kernel, wherever their sources
//! lie. Machine code for `sm_80` serves an `sm_86`, too. Other text is another kernel: a bundle that another version of
//! this library made is refused kernel by kernel, where that version writes them in another way.
//!
//! # The file
//! ```text
//! 0   "epilogue bundle\n"
//! 16  u32 version, u32 number of kernels, u64 bytes of the index, u64 bytes of the file     little-endian
//! 40  blake3 of bytes 0 to 40 and the index
//! 72  the index: u16 length and text of who made it; for every kernel, in ascending order of the first three:
//!     32 bytes hash of its text, u8 form, 3 u8 architecture, u64 length, 32 bytes blake3 of its content,
//!     u16 length and text of its name
//!     the contents, in the order of the index: machine code, PTX (of machine code, the declarations), the log; each
//!     after its u64 length
//! ```
//! All of it is checked when it is opened. The hashes find damage, not forgery: a bundle is code, and a file that other
//! users may write is not taken.

mod builder;
mod declarations;
mod error;
mod file;
mod identity;
mod install;
pub(crate) mod opened;
pub(crate) mod recorder;
#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use error::BundleError;
pub use opened::{Bundle, Bundled};
