//! Kernels compiled ahead of time, in one file, for programs that run without a compiler.
//!
//! # Making one
//! A [`Builder`] makes *targets*: devices that stand for a GPU, which need not be there ([`Builder::target`]), or for
//! an emulated one ([`Builder::emulated_target`]). Whatever is planned, built or run on a target only compiles the
//! kernels that it would run; the builder keeps them. NVRTC compiles for every architecture, so a bundle can be made
//! wherever there is an NVRTC: by a build script, by a program, on a machine without a GPU.
//!
//! # Using it
//! [`Bundle::open`] reads and checks a file, [`Bundle::install`] gives it to a device. A device with a bundle neither
//! compiles nor uses the cache: it takes every kernel from its bundles, or fails with
//! [`Error::NotInBundle`](crate::Error::NotInBundle), which says what is missing. So what runs does not depend on what
//! is installed on a machine.
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
//! The hash of its text, without comments and `#line` directives, and of its options; and also the architecture and the
//! form (machine code, or PTX for emulated devices). The compiler's version, paths and places in the user's files are
//! not part of it: a build script and the program that it builds identify the same kernel, wherever their sources are.
//! Nothing about plans is in the file: the program makes tensor maps, grids and parameters as always.
//! Machine code for `sm_80` also runs on `sm_86`. Another text is another kernel: if another version of this library
//! generates a kernel differently, a bundle made by that version doesn't have this version's kernel.
//!
//! The index also lists every kernel's *origins*: hashes of what its text was generated from ([`Source::origin`]). A
//! generator that chooses among kernels looks them up ([`Device::is_listed`]) and writes no text. An origin promises
//! nothing, because the kernel is taken by its text. If the generator has changed since, its kernel is listed and missing,
//! and it goes on to the next one. A bundle of version 1 lists no origins and is refused: it is of an older library, and
//! other texts are other kernels.
//!
//! [`Source::origin`]: crate::Source::origin
//! [`Device::is_listed`]: crate::Device::is_listed
//!
//! # The file
//! ```text
//! 0   "epilogue bundle\n"
//! 16  u32 version (2), u32 number of kernels, u64 bytes of the index, u64 bytes of the file     little-endian
//! 40  blake3 of bytes 0 to 40 and the index
//! 72  the index: u16 length and text of who made it; for every kernel, in ascending order of the first three:
//!     32 bytes hash of its text, u8 form, 3 u8 architecture, u64 length, 32 bytes blake3 of its content,
//!     u16 number of its origins and 32 bytes for each, ascending, u16 length and text of its name
//!     the contents, in the order of the index: machine code, PTX (of machine code, the declarations), the log; each
//!     after its u64 length
//! ```
//! Opening a bundle checks all of it. The hashes detect damage, not forgery: a bundle is code, so a file that other
//! users may write is refused.

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
