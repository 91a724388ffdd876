//! CUDA C++ to machine code or PTX, through the disk cache. No device is needed.

use std::fmt;
use std::path::Path;

use crate::arch::Arch;
use crate::cache::{CacheKey, KernelCache};
use crate::compile_log::CompileLog;
use crate::discovery;
use crate::error::{Absent, Result};
use crate::nvrtc::{Made, Nvrtc};
use crate::source::{Compiled, Output, Source};

/// Changes whenever the options that [`options`] adds or the stored form change.
const CACHE_GENERATION: &[u8] = b"epilogue kernels 1";

/// NVIDIA's run-time compiler, loaded from this machine.
#[derive(Clone)]
pub struct Compiler {
    nvrtc: &'static Nvrtc,
    cache: Option<KernelCache>,
}

impl Compiler {
    /// The first NVRTC (CUDA 12.0 or newer) among: the library or folder that `EPILOGUE_NVRTC` names (nothing else,
    /// if it is set); `CUDA_HOME`, `CUDA_PATH`; `/usr/local/cuda*`; the system loader's path; the site-packages of
    /// `VIRTUAL_ENV`, `CONDA_PREFIX`, the user and the system; the tool folder that `EPILOGUE_TOOLS` names. None that
    /// other users may write is taken. It works with the user's [`KernelCache`].
    ///
    /// # Errors
    /// [`Absent::Nvrtc`] with the places searched.
    pub fn find() -> Result<Self, Absent> {
        Ok(Self { nvrtc: discovery::find_nvrtc()?, cache: KernelCache::of_user() })
    }

    /// The same compiler with another cache, or with none.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<KernelCache>) -> Self {
        self.cache = cache;
        self
    }

    /// NVRTC's version, such as `(13, 0)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.nvrtc.version
    }

    /// The library's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.nvrtc.path
    }

    /// Compiles a kernel, or takes it from the cache. The cache can fail only in saving time: its failures to write
    /// are not reported.
    ///
    /// # Errors
    /// [`Error::Compile`](crate::Error::Compile) with the log; [`Error::Nvrtc`](crate::Error::Nvrtc) when NVRTC itself
    /// fails.
    pub fn compile(&self, source: &Source, arch: Arch, output: Output) -> Result<Compiled> {
        let options = options(source, arch, output);
        let key = self.key(source, &options);
        if let Some(cache) = &self.cache
            && let Some(made) = cache.load(key).as_deref().and_then(decode)
        {
            return Ok(compiled(made, source, true));
        }
        let made = self.nvrtc.compile(&source.name, &source.code, &options, output == Output::Cubin)?;
        if let Some(cache) = &self.cache {
            let _ = cache.store(key, &encode(&made));
        }
        Ok(compiled(made, source, false))
    }

    /// Everything that the output depends on. The name is part of it: messages and line information hold it.
    fn key(&self, source: &Source, options: &[String]) -> CacheKey {
        let (major, minor) = self.nvrtc.version;
        let version = format!("NVRTC {major}.{minor}, {} bytes", self.nvrtc.file_bytes);
        let mut parts = vec![CACHE_GENERATION, version.as_bytes(), source.name.as_bytes(), source.code.as_bytes()];
        parts.extend(options.iter().map(String::as_bytes));
        CacheKey::of(&parts)
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "Compiler(NVRTC {major}.{minor} at {})", self.path().display())
    }
}

/// All of NVRTC's options. Machine code needs a real architecture, and only then does ptxas run and report.
fn options(source: &Source, arch: Arch, output: Output) -> Vec<String> {
    let mut options = vec!["--std=c++17".to_owned(), "--generate-line-info".to_owned()];
    match output {
        Output::Cubin => {
            options.push(format!("--gpu-architecture={arch}"));
            options.push("--ptxas-options=-v".to_owned());
        }
        Output::Ptx => options.push(format!("--gpu-architecture={}", arch.virtual_name())),
    }
    options.extend(source.options.iter().cloned());
    options
}

fn compiled(made: Made, source: &Source, cached: bool) -> Compiled {
    Compiled {
        cubin: made.cubin,
        ptx: made.ptx,
        log: CompileLog::parse(&made.log),
        sites: source.sites.clone(),
        cached,
    }
}

/// The three parts, each after its length.
fn encode(made: &Made) -> Vec<u8> {
    let parts = [&made.cubin, made.ptx.as_bytes(), made.log.as_bytes()];
    let mut bytes = Vec::with_capacity(parts.iter().map(|p| p.len() + 8).sum());
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Made> {
    let mut part = || {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        bytes = rest;
        Some(part.to_vec())
    };
    let (cubin, ptx, log) = (part()?, String::from_utf8(part()?).ok()?, String::from_utf8(part()?).ok()?);
    Some(Made { cubin, ptx, log })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::error::Error;
    use crate::testing;

    const KERNEL: &str = r#"
extern "C" __global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"#;

    #[test]
    fn entries_round_trip() {
        let made = Made { cubin: vec![1, 2, 3], ptx: "ptx".to_owned(), log: String::new() };
        let bytes = encode(&made);
        let again = decode(&bytes).unwrap();
        assert_eq!((again.cubin, again.ptx, again.log), (made.cubin, made.ptx, made.log));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none());
        }
    }

    #[test]
    fn compiles_to_machine_code_and_to_ptx() {
        let Some(compiler) = testing::compiler("compiles_to_machine_code_and_to_ptx") else { return };
        let compiler = compiler.with_cache(None);
        let source = Source::new("scale.cu", "scale", KERNEL);
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let made = compiler.compile(&source, arch, Output::Cubin).unwrap();
            assert_eq!(&made.cubin[..4], b"\x7fELF");
            assert!(made.ptx.contains(&format!(".target {arch}")) && made.ptx.contains(".entry scale"));
            let resources = made.log.kernel("scale").unwrap();
            assert!(resources.registers > 0 && resources.spill_store_bytes == 0 && resources.shared_bytes == 0);
            let ptx = compiler.compile(&source, arch, Output::Ptx).unwrap();
            assert!(ptx.cubin.is_empty() && ptx.ptx.contains(".entry scale") && ptx.log.kernels.is_empty());
            assert!(!ptx.cached);
        }
    }

    #[test]
    fn errors_name_the_users_line() {
        let Some(compiler) = testing::compiler("errors_name_the_users_line") else { return };
        let code =
            "extern \"C\" __global__ void k(float* x) {\n#line 42 \"src/model.rs\"\n    float d = missing(x[0]);\n}\n";
        let error = compiler.compile(&Source::new("k.cu", "k", code), Arch::SM_80, Output::Cubin).unwrap_err();
        expect![[r#"
            `k.cu` does not compile (--std=c++17 --generate-line-info --gpu-architecture=sm_80 --ptxas-options=-v)
            src/model.rs:42: error: identifier "missing" is undefined
              | float d = missing(x[0]);
              |           ^"#]]
        .assert_eq(&error.to_string());

        let code = "extern \"C\" __global__ void k(int n) {\n#line 7 \"src/model.rs\"\n    asm volatile(\"bar.sync.foo %0;\" :: \"r\"(n));\n}\n";
        let error = compiler.compile(&Source::new("k.cu", "k", code), Arch::SM_80, Output::Cubin).unwrap_err();
        let Error::Compile(failure) = error else { panic!("{error}") };
        assert_eq!(failure.log.diagnostics[0].location, Some(("src/model.rs".to_owned(), 7)), "{failure}");

        let bad_option = Source::new("k.cu", "k", KERNEL).option("--no-such-option");
        let error = compiler.compile(&bad_option, Arch::SM_80, Output::Ptx).unwrap_err();
        assert!(error.to_string().contains("unrecognized option --no-such-option"), "{error}");
        let zero = Source::new("k.cu", "k", "\0");
        assert!(matches!(compiler.compile(&zero, Arch::SM_80, Output::Ptx), Err(Error::Nvrtc { .. })));
    }

    #[test]
    fn the_cache_gives_the_same_and_survives_damage() {
        let Some(compiler) = testing::compiler("the_cache_gives_the_same_and_survives_damage") else { return };
        let folder = std::env::temp_dir().join(format!("epilogue-compiler-{}", std::process::id()));
        let cache = KernelCache::at(&folder);
        let compiler = compiler.with_cache(Some(cache.clone()));
        let source = Source::new("scale.cu", "scale", KERNEL);
        let first = compiler.compile(&source, Arch::SM_80, Output::Cubin).unwrap();
        let again = compiler.compile(&source, Arch::SM_80, Output::Cubin).unwrap();
        assert!(!first.cached && again.cached);
        assert_eq!((&first.cubin, &first.ptx, &first.log), (&again.cubin, &again.ptx, &again.log));
        for other in [
            compiler.compile(&source, Arch::SM_86, Output::Cubin).unwrap(),
            compiler.compile(&source, Arch::SM_80, Output::Ptx).unwrap(),
            compiler.compile(&source.clone().option("--fmad=false"), Arch::SM_80, Output::Cubin).unwrap(),
        ] {
            assert!(!other.cached);
        }
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }
        let made_anew = compiler.compile(&source, Arch::SM_80, Output::Cubin).unwrap();
        assert!(!made_anew.cached);
        assert_eq!(made_anew.cubin, first.cubin);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
