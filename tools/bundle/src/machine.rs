//! Describes this machine, and the tools and peers that it has.

use std::path::{Path, PathBuf};
use std::process::Command;

use cudarc::driver::sys as driver;
use epilogue_runtime::{Arch, Compiler, Device};
use serde_json::{Value, json};

use crate::Outcome;
use crate::options::On;

/// The machine that the steps run on.
pub(crate) struct Machine {
    pub(crate) device: Device,
    pub(crate) on: On,
    /// The commit that the program was built from.
    pub(crate) commit: String,
    /// The folder of the bundle, which has the peers' programs.
    pub(crate) bundle: PathBuf,
    /// The folder for files that steps leave.
    pub(crate) out: PathBuf,
}

impl Machine {
    pub(crate) fn find(on: On) -> Outcome<Self> {
        let device = match on {
            On::Cuda => Device::cuda(0)?,
            On::Emulated => Device::emulated(Arch::SM_90A)?,
            On::Cpu => Device::cpu(),
        };
        let program = std::env::current_exe()?;
        let bundle = program.parent().map(Path::to_owned).unwrap_or_default();
        let commit =
            std::fs::read_to_string(bundle.join("commit")).map_or_else(|_| "unknown".into(), |c| c.trim().into());
        Ok(Self { device, on, commit, bundle, out: ".".into() })
    }

    pub(crate) fn writing_to(mut self, out: impl Into<PathBuf>) -> Self {
        self.out = out.into();
        self
    }

    /// Whether problems are small and times have no meaning.
    pub(crate) fn is_rehearsal(&self) -> bool {
        self.on != On::Cuda
    }

    /// The current clocks, power and temperature, right after something was timed; null in a rehearsal.
    pub(crate) fn clocks(&self) -> Value {
        if self.is_rehearsal() {
            return Value::Null;
        }
        let query = "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu";
        json!(said("nvidia-smi", &[query, "--format=csv,noheader"]))
    }

    /// Everything that a result depends on, except the program.
    pub(crate) fn facts(&self) -> Value {
        let properties = self.device.properties();
        let nvrtc = Compiler::find().map(|compiler| {
            let (major, minor) = compiler.version();
            json!({"version": format!("{major}.{minor}"), "path": compiler.path().display().to_string()})
        });
        json!({
            "kind": "machine",
            "name": properties.name,
            "multiprocessors": properties.multiprocessors,
            "l2_bytes": properties.l2_bytes,
            "memory_bytes": properties.memory_bytes,
            "peak_clock_khz": properties.clock_khz,
            "nvrtc": nvrtc.unwrap_or_else(|absent| json!(absent.to_string())),
            "nvidia_smi": said("nvidia-smi", &[
                "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu",
                "--format=csv,noheader",
            ]),
            "nvcc": said("nvcc", &["--version"]).map(|text| text.lines().last().unwrap_or_default().to_owned()),
            "torch": version_in_python("torch"),
            "triton": version_in_python("triton"),
            "compute_sanitizer": said("compute-sanitizer", &["--version"]).map(|text| text.lines().last().unwrap_or_default().to_owned()),
            "date": said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        })
    }
}

/// A Python package's version, without importing it, which takes seconds.
fn version_in_python(package: &str) -> Option<String> {
    said("python3", &["-c", &format!("import importlib.metadata as m; print(m.version('{package}'))")])
}

/// The output of a program; `None` if there is no program of this name, or it fails.
pub(crate) fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool(program)).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The program with this name: on the PATH, or in CUDA's folder of tools.
pub(crate) fn tool(name: &str) -> PathBuf {
    let on_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()));
    let home = std::env::var_os("CUDA_HOME").map_or_else(|| "/usr/local/cuda".into(), PathBuf::from);
    on_path.or_else(|| Some(home.join("bin").join(name)).filter(|file| file.is_file())).unwrap_or_else(|| name.into())
}

/// Makes the runtime's context, which is the device's primary one, current in the calling thread, for other users of
/// the driver.
#[allow(unsafe_code, reason = "a call of the driver")]
pub(crate) fn bind_primary_context() -> Result<(), String> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver is initialised, since a device is open; the context stays retained as long as the process.
    let status = unsafe {
        match driver::cuDevicePrimaryCtxRetain(&raw mut context, 0) {
            driver::CUresult::CUDA_SUCCESS => driver::cuCtxSetCurrent(context),
            failed => failed,
        }
    };
    if status == driver::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(format!("the primary context: {status:?}")) }
}
