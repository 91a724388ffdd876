//! NVRTC's library: its functions, and a compilation with them.
//!
//! cudarc's loader looks only for bare names and panics if there is none, and its safe layer gives no machine code. So
//! this file loads the dozen functions that it needs. A library is never unloaded, because NVRTC has state of its own.

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::{fmt, fs};

use crate::compile::compile_log::CompileLog;
use crate::error::{CompileFailure, Error, Result};

type Program = *mut c_void;
type Status = c_int;

/// `NVRTC_ERROR_INVALID_OPTION` and `NVRTC_ERROR_COMPILATION` (nvrtc.h): mistakes in the options or the source.
const INVALID_OPTION: Status = 5;
const COMPILATION: Status = 6;

/// NVRTC's functions, by their names in nvrtc.h.
#[allow(non_snake_case)]
struct Functions {
    nvrtcGetErrorString: unsafe extern "C" fn(Status) -> *const c_char,
    nvrtcCreateProgram: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    nvrtcDestroyProgram: unsafe extern "C" fn(*mut Program) -> Status,
    nvrtcCompileProgram: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    nvrtcGetProgramLogSize: unsafe extern "C" fn(Program, *mut usize) -> Status,
    nvrtcGetProgramLog: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    nvrtcGetPTXSize: unsafe extern "C" fn(Program, *mut usize) -> Status,
    nvrtcGetPTX: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    nvrtcGetCUBINSize: unsafe extern "C" fn(Program, *mut usize) -> Status,
    nvrtcGetCUBIN: unsafe extern "C" fn(Program, *mut c_char) -> Status,
}

macro_rules! functions {
    ($library:expr, $($name:ident),* $(,)?) => {
        Functions { $(
            // SAFETY: the field's type is the function's declaration in nvrtc.h, unchanged since CUDA 11.1.
            $name: *unsafe { $library.get(concat!(stringify!($name), "\0").as_bytes())? },
        )* }
    };
}

impl Functions {
    fn load(library: &libloading::Library) -> Result<Self, libloading::Error> {
        Ok(functions!(
            library,
            nvrtcGetErrorString,
            nvrtcCreateProgram,
            nvrtcDestroyProgram,
            nvrtcCompileProgram,
            nvrtcGetProgramLogSize,
            nvrtcGetProgramLog,
            nvrtcGetPTXSize,
            nvrtcGetPTX,
            nvrtcGetCUBINSize,
            nvrtcGetCUBIN,
        ))
    }
}

/// Why a library can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    NotThere,
    /// The loader's message.
    DoesNotLoad(String),
    /// Its version.
    TooOld((u32, u32)),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str("is not there"),
            Self::DoesNotLoad(reason) => write!(f, "does not load ({reason})"),
            Self::TooOld((major, minor)) => {
                write!(f, "is too old: it is of CUDA {major}.{minor}, and 12.0 or newer is needed")
            }
        }
    }
}

/// The loader's message; the error itself only says that it failed.
fn cause(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The version of CUDA that a library is of.
fn version_of(library: &libloading::Library) -> Result<(u32, u32), Unusable> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status;
    // SAFETY: the function's declaration in nvrtc.h, the same in all versions.
    let version = unsafe { library.get::<Version>(c"nvrtcVersion".to_bytes_with_nul()) };
    let version = version.map_err(|error| Unusable::DoesNotLoad(cause(&error)))?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: two valid places to write to.
    let status = unsafe { version(&raw mut major, &raw mut minor) };
    if status != 0 {
        return Err(Unusable::DoesNotLoad(format!("it doesn't say its version (nvrtcVersion gives {status})")));
    }
    Ok((u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0)))
}

/// A loaded NVRTC.
pub(super) struct Library {
    functions: Functions,
    pub(super) version: (u32, u32),
}

/// A kernel that NVRTC has compiled.
pub(crate) struct CompiledKernel {
    pub(crate) cubin: Vec<u8>,
    pub(crate) ptx: String,
    pub(crate) log: String,
}

impl Library {
    /// Loads a library. `path` may be a bare name for the system's loader. The library is not older than CUDA 12, the
    /// first version that knows sm_90a.
    pub(super) fn open(path: &Path) -> Result<Self, Unusable> {
        // The loader would wait for whoever writes to a pipe.
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            return Err(Unusable::DoesNotLoad("it is not a file".to_owned()));
        }
        // NVRTC opens its builtins by their bare name when it first compiles. It finds them only if they are already
        // loaded or on the loader's path.
        if let Some(builtins) = path.parent().and_then(builtins_in) {
            // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
            std::mem::forget(unsafe { libloading::Library::new(builtins) });
        }
        // SAFETY: as above.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
            let reason = cause(&error);
            // A bare name that the system's loader doesn't find. (What the library itself needs may be missing, too.)
            let is_missing = cfg!(windows) || reason.starts_with(&format!("{}: cannot open", path.display()));
            let is_there = fs::exists(path).unwrap_or(true);
            if is_missing && !is_there { Unusable::NotThere } else { Unusable::DoesNotLoad(reason) }
        })?;
        // Before the other functions, which the oldest versions lack.
        let version = version_of(&library)?;
        if version.0 < 12 {
            return Err(Unusable::TooOld(version));
        }
        let functions = Functions::load(&library).map_err(|error| Unusable::DoesNotLoad(cause(&error)))?;
        std::mem::forget(library);
        Ok(Self { functions, version })
    }

    fn check(&self, call: &'static str, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static string for any status.
        let message = unsafe { CStr::from_ptr((self.functions.nvrtcGetErrorString)(status)) };
        Err(Error::Nvrtc { call, message: message.to_string_lossy().into_owned() })
    }

    /// Compiles a source. `cubin` says whether the options ask for machine code.
    pub(super) fn compile(&self, name: &str, code: &str, options: &[String], cubin: bool) -> Result<CompiledKernel> {
        let text = |what: &str| {
            CString::new(what).map_err(|_| Error::Nvrtc {
                call: "nvrtcCreateProgram",
                message: "the source, its name or an option contains a zero byte".to_owned(),
            })
        };
        let (c_name, c_code) = (text(&file_name(name))?, text(code)?);
        let c_options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const c_char> = c_options.iter().map(|o| o.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);

        let mut program = ProgramGuard { library: self, program: ptr::null_mut() };
        // SAFETY: the strings end with zero and outlive the call; no headers are given.
        let status = unsafe {
            let (code, name) = (c_code.as_ptr(), c_name.as_ptr());
            (self.functions.nvrtcCreateProgram)(&raw mut program.program, code, name, 0, ptr::null(), ptr::null())
        };
        self.check("nvrtcCreateProgram", status)?;
        let handle = program.program;
        // SAFETY: a program made above; `pointers` holds `count` strings.
        let status = unsafe { (self.functions.nvrtcCompileProgram)(handle, count, pointers.as_ptr()) };
        let f = &self.functions;
        // The sizes below include the final zero of a text.
        let log = self.bytes("nvrtcGetProgramLog", handle, f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog)?;
        let log = into_text(log);
        if matches!(status, INVALID_OPTION | COMPILATION) {
            // If ptxas refused the PTX, its `.loc` lines give the location.
            let ptx = self.bytes("nvrtcGetPTX", handle, f.nvrtcGetPTXSize, f.nvrtcGetPTX).unwrap_or_default();
            let mut log = CompileLog::parse(&log);
            log.locate(&into_text(ptx));
            return Err(Error::Compile(Box::new(CompileFailure {
                name: name.to_owned(),
                options: options.to_vec(),
                log,
            })));
        }
        self.check("nvrtcCompileProgram", status).map_err(|error| match error {
            // The log says what failed, for example which builtins library was not found.
            Error::Nvrtc { call, message } => Error::Nvrtc { call, message: format!("{message} {}", log.trim()) },
            other => other,
        })?;
        let ptx = into_text(self.bytes("nvrtcGetPTX", handle, f.nvrtcGetPTXSize, f.nvrtcGetPTX)?);
        let cubin =
            if cubin { self.bytes("nvrtcGetCUBIN", handle, f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN)? } else { Vec::new() };
        Ok(CompiledKernel { cubin, ptx, log })
    }

    /// The bytes from a function for the size and one for the content.
    fn bytes(
        &self,
        call: &'static str,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        content: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Result<Vec<u8>> {
        let mut length = 0;
        // SAFETY: a live program and a place to write to.
        self.check(call, unsafe { size(program, &raw mut length) })?;
        let mut bytes = vec![0u8; length];
        // SAFETY: NVRTC writes exactly the number of bytes that it just gave.
        self.check(call, unsafe { content(program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

/// Destroys a program when it goes out of scope.
struct ProgramGuard<'a> {
    library: &'a Library,
    program: Program,
}

impl Drop for ProgramGuard<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program is live, and no one uses it any more.
            unsafe { (self.library.functions.nvrtcDestroyProgram)(&raw mut self.program) };
        }
    }
}

/// A source's name as PTX's `.file` has it: in one line, in a string that knows no escapes.
fn file_name(name: &str) -> String {
    let shown = |c: char| if c.is_control() || matches!(c, '"' | '\\') { '_' } else { c };
    name.chars().map(shown).collect()
}

fn into_text(mut bytes: Vec<u8>) -> String {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The builtins library beside NVRTC.
fn builtins_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            // `.alt` is the variant for another C library.
            name.starts_with("libnvrtc-builtins.so") || (name.starts_with("nvrtc-builtins") && name.ends_with(".dll"))
        })
        .map(|e| e.path())
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A library with this function only.
    fn library_with(name: &str, function: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("epilogue-nvrtc-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (source, library) = (folder.join("stub.rs"), folder.join("libnvrtc.so.11.2"));
        fs::write(&source, format!("#[no_mangle]\npub unsafe extern \"C\" fn {function}")).expect("written");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let made = Command::new(rustc)
            .args(["--edition=2021", "--crate-type=cdylib", "-Cpanic=abort", "-o"])
            .args([&library, &source])
            .output()
            .expect("rustc, which compiled this test");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        library
    }

    /// The refusal of a library; removes the library.
    fn refusal(library: &Path) -> Unusable {
        let refusal = Library::open(library).err().expect("no NVRTC of today");
        fs::remove_dir_all(library.parent().expect("a folder")).expect("removed");
        refusal
    }

    #[test]
    fn a_library_before_cuda_12_is_too_old() {
        let says = "nvrtcVersion(major: *mut i32, minor: *mut i32) -> i32 { *major = 11; *minor = 8; 0 }";
        let refusal = refusal(&library_with("old", says));
        assert_eq!(refusal, Unusable::TooOld((11, 8)));
        assert_eq!(refusal.to_string(), "is too old: it is of CUDA 11.8, and 12.0 or newer is needed");
    }

    #[test]
    fn a_library_that_is_no_nvrtc_does_not_load() {
        let refused = refusal(&library_with("other", "other() {}"));
        assert!(matches!(&refused, Unusable::DoesNotLoad(reason) if reason.contains("nvrtcVersion")), "{refused}");
        let refused = refusal(&library_with("silent", "nvrtcVersion(_: *mut i32, _: *mut i32) -> i32 { 1 }"));
        assert!(matches!(&refused, Unusable::DoesNotLoad(reason) if reason.contains("gives 1")), "{refused}");
    }
}
