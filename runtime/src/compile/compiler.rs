//! Compiles CUDA C++ to machine code or PTX, with the disk cache. No device is needed.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use crate::compile::arch::Arch;
use crate::compile::cache::{KernelCache, Miss};
use crate::compile::compile_log::CompileLog;
use crate::compile::discovery;
use crate::compile::limits;
use crate::compile::nvrtc::{CompiledKernel, Nvrtc};
use crate::compile::source::{Compiled, Output, Source};
use crate::compile::stored::{self, source_key};
use crate::error::{Absent, Result};
use crate::trace;

/// NVIDIA's run-time compiler on this machine.
#[derive(Clone)]
pub struct Compiler {
    nvrtc: &'static Nvrtc,
    cache: Option<KernelCache>,
}

impl Compiler {
    /// Finds the first NVRTC (CUDA 12.0 or newer) in: the library or folder that `EPILOGUE_NVRTC` names (if it is set,
    /// only there); `CUDA_HOME`, `CUDA_PATH`; `/usr/local/cuda*`; the system loader's path; the site-packages of
    /// `VIRTUAL_ENV`, `CONDA_PREFIX`, the user and the system; the tool folder that `EPILOGUE_TOOLS` names. A library
    /// that other users may write is not used. The compiler uses the user's [`KernelCache`].
    ///
    /// # Errors
    /// [`Absent::Nvrtc`] with the places searched.
    pub fn find() -> Result<Self, Absent> {
        Ok(Self { nvrtc: discovery::find_nvrtc()?, cache: KernelCache::of_user() })
    }

    /// Takes another cache, or none.
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

    /// Compiles a kernel, or takes it from the cache. A failure to write to the cache is not reported, since the cache
    /// only saves time.
    ///
    /// # Errors
    /// [`Error::Compile`](crate::Error::Compile) with the log; [`Error::Source`](crate::Error::Source) for what no compiler
    /// is given; [`Error::Nvrtc`](crate::Error::Nvrtc) if NVRTC itself fails.
    pub fn compile(&self, source: &Source, arch: Arch, output: Output) -> Result<Compiled> {
        limits::check(source)?;
        let options = options(source, arch, output);
        let key = source_key(source, &options);
        let found = self.cache.as_ref().ok_or(Miss::NoCache).and_then(|cache| stored::load(cache, key, self.version()));
        match found {
            Ok(made) => {
                trace::event!(DEBUG, "cache hit", kernel = source.entry.as_str());
                return Ok(compiled(made, source, true));
            }
            Err(miss) => {
                trace::event!(DEBUG, "cache miss", kernel = source.entry.as_str(), reason = trace::text(&miss));
            }
        }
        let begun = Instant::now();
        let made = self.nvrtc.compile(&source.name, &source.code, &options, output == Output::Cubin)?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        trace::event!(INFO, "compiled", kernel = source.entry.as_str(), milliseconds = milliseconds);
        if let Some(cache) = &self.cache {
            stored::store(cache, key, self.version(), &made);
        }
        Ok(compiled(made, source, false))
    }
}

impl KernelCache {
    /// The kernel that any NVRTC has compiled from a source before, on a machine that may no longer have an NVRTC; of
    /// several versions, the newest one's.
    #[must_use]
    pub fn compiled(&self, source: &Source, arch: Arch, output: Output) -> Option<Compiled> {
        let made = stored::load_by_any(self, source_key(source, &options(source, arch, output)))?;
        Some(compiled(made, source, true))
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "Compiler(NVRTC {major}.{minor} at {})", self.path().display())
    }
}

/// All options for NVRTC. Machine code needs a real architecture; only then does ptxas run and report resources.
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

/// The compiled form of a source.
pub(crate) fn compiled(made: CompiledKernel, source: &Source, cached: bool) -> Compiled {
    Compiled {
        cubin: made.cubin,
        ptx: made.ptx,
        log: CompileLog::parse(&made.log),
        sites: source.sites.clone(),
        cached,
    }
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
        assert!(matches!(compiler.compile(&zero, Arch::SM_80, Output::Ptx), Err(Error::Source { .. })));
    }

    /// The longest names that there can be, which NVRTC repeats in the log of its assembler.
    #[test]
    fn what_is_just_within_the_limits_compiles() {
        let Some(compiler) = testing::compiler("what_is_just_within_the_limits_compiles") else { return };
        let (name, file) = ("k".repeat(limits::LONGEST_WORD), "f".repeat(limits::LONGEST_NAME - 3) + ".cu");
        let deep = limits::DEEPEST - 2;
        let value = format!("{}1{}", "(".repeat(deep), ")".repeat(deep));
        let code =
            format!("extern \"C\" __global__ void {name}(int* x) {{\n#line 7 \"{file}\"\n    *x = {value};\n}}\n");
        let source = Source::new(file, name.clone(), code);
        let made = compiler.with_cache(None).compile(&source, Arch::SM_80, Output::Cubin).unwrap();
        assert!(made.log.kernel(&name).is_some());
    }

    /// In a child, whose addresses are limited after NVRTC has been loaded: NVRTC itself would end it.
    #[test]
    #[cfg(target_os = "linux")]
    fn without_memory_compiling_is_refused() {
        const NAME: &str = "compile::compiler::tests::without_memory_compiling_is_refused";
        const CHILD: &str = "EPILOGUE_TEST_IS_WITHOUT_MEMORY";
        let Some(compiler) = testing::compiler(NAME) else { return };
        let compiler = compiler.with_cache(None);
        if std::env::var_os(CHILD).is_none() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let output = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            return;
        }
        let compile = |name: &str| compiler.compile(&Source::new(name, "scale", KERNEL), Arch::SM_80, Output::Ptx);
        compile("first.cu").unwrap();
        let has = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = has.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap();
        let most = pages * 4096 + (16 << 20);
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: a valid place to read from.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let refused = compile("second.cu").map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
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
        // Without NVRTC, the same kernel is found, and no other.
        let kept = cache.compiled(&source, Arch::SM_80, Output::Cubin).unwrap();
        assert!(kept.cached && kept.cubin == first.cubin);
        assert!(cache.compiled(&source, Arch::SM_90A, Output::Cubin).is_none());
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
