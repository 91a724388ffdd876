//! Checks a compiled kernel: the compiler's log and the machine code must show what was intended.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use epilogue::ElementType;
use epilogue::evt::{InTile, Tree, Types, ValidTree};
use epilogue::gemm::{Error, KernelKey, source};
use epilogue_runtime::{Arch, CompileLog, Compiler, Output, Resources};

use super::families::{self, Kernel};
use super::sass::{Sass, is_product};

/// A kernel to be checked.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) tree: Tree,
    pub(crate) key: KernelKey,
    pub(crate) arch: Arch,
}

impl Subject {
    /// Element types of A and B.
    pub(crate) fn elements(&self) -> (ElementType, ElementType) {
        self.key.elements()
    }

    pub(crate) fn valid(&self) -> Result<ValidTree, Error> {
        let (a, b) = self.elements();
        Ok(self.tree.validate(Types::new(a, b))?)
    }
}

/// The findings for a compiled kernel.
pub(crate) struct Report {
    name: String,
    arch: Arch,
    key: KernelKey,
    resources: Resources,
    shared_bytes: usize,
    counts: Option<[(&'static str, usize); 6]>,
    time: Duration,
    /// The PTX, for those who run it.
    pub(crate) ptx: String,
    /// Faults.
    pub(crate) findings: Vec<String>,
    /// Accesses of local memory outside the loop of products, if warps specialise the consumers': a few words per tile, in some ten
    /// thousand instructions, for which the compiler had no registers.
    pub(crate) kept: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { registers, spill_store_bytes, spill_load_bytes, barriers, .. } = &self.resources;
        let stages = self.key.stages();
        write!(
            f,
            "{:>3} registers, {:>3} spilled, {stages:>2} stages, {:>6} shared, {barriers:>2} barriers, {:>5.2} s",
            registers,
            spill_store_bytes + spill_load_bytes,
            self.shared_bytes,
            self.time.as_secs_f64()
        )?;
        for (what, count) in self.counts.iter().flatten().filter(|(_, count)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        write!(f, "  {} {} {}", self.arch, self.name, self.key)?;
        f.write_str(&families::kernel(&self.key).details())?;
        if self.kept > 0 {
            write!(f, "\n    - {} accesses of local memory, outside the loop of products", self.kept)?;
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n    ! {finding}"))
    }
}

impl Report {
    /// Registers, spilled bytes, and how many instructions of each counted kind there are in the machine code, if it was looked
    /// at.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares them"))]
    pub(crate) fn size(&self) -> (u32, u32, Option<[(&'static str, usize); 6]>) {
        let Resources { registers, spill_store_bytes, spill_load_bytes, .. } = self.resources;
        (registers, spill_store_bytes + spill_load_bytes, self.counts)
    }

    /// How many products of tensor cores there are in the machine code, if it was looked at.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares them"))]
    pub(crate) fn products(&self) -> Option<usize> {
        self.counts.map(|[(_, of_warps), (_, of_warpgroups), ..]| of_warps + of_warpgroups)
    }
}

/// Compiles and disassembles.
pub(crate) struct Gate {
    pub(crate) compiler: Compiler,
    /// Without it, only the log is checked.
    pub(crate) nvdisasm: Option<PathBuf>,
}

impl Gate {
    pub(crate) const fn new(compiler: Compiler, nvdisasm: Option<PathBuf>) -> Self {
        Self { compiler, nvdisasm }
    }

    /// Compiles a kernel and checks it; `None` if its family lacks the kernel.
    pub(crate) fn check(&self, subject: &Subject) -> Result<Option<Report>, String> {
        let text = |error: &dyn fmt::Display| format!("{} {}: {error}", subject.tree.name(), subject.key);
        let valid = subject.valid().map_err(|e| text(&e))?;
        let in_tile = InTile::of(&valid).filter(|_| subject.key.in_tile());
        let computed = in_tile.as_ref().map_or(&valid, InTile::tree);
        let source = match source(&valid, &subject.key) {
            Err(Error::NoKernel { .. }) => return Ok(None),
            other => other.map_err(|e| text(&e))?,
        };
        let start = Instant::now();
        let compiled = self.compiler.compile(&source, subject.arch, Output::Cubin).map_err(|e| text(&e))?;
        let time = start.elapsed();
        let resources = compiled.log.kernel(&source.entry);
        let resources = resources.ok_or_else(|| text(&"the log lacks the kernel's resources"))?.clone();
        let mut findings = Vec::new();
        let kernel = families::kernel(&subject.key);
        let shared_bytes = kernel.shared_bytes(computed);
        check_log(&mut findings, kernel, &compiled.log, &resources, shared_bytes);
        let (mut counts, mut kept) = (None, 0);
        if let Some(nvdisasm) = &self.nvdisasm {
            let sass = Sass::of(nvdisasm, &compiled.cubin).map_err(|e| text(&e))?;
            kept = kernel.check(&mut findings, computed, &sass);
            counts = Some([
                ("HMMA", sass.count("HMMA") + sass.count("DMMA")),
                ("GMMA", sass.count_where(is_product)),
                ("UTMALDG", sass.count("UTMALDG")),
                ("STSM", sass.count("STSM")),
                ("UTMASTG", sass.count("UTMASTG")),
                ("CALL", sass.count("CALL")),
            ]);
        }
        let (name, arch, key, ptx) = (subject.tree.name().to_owned(), subject.arch, subject.key, compiled.ptx);
        Ok(Some(Report { name, arch, key, resources, shared_bytes, counts, time, ptx, findings, kept }))
    }
}

fn check_log(findings: &mut Vec<String>, kernel: &dyn Kernel, log: &CompileLog, resources: &Resources, shared: usize) {
    findings.extend(log.warnings().map(|warning| format!("the compiler says: {warning}")));
    let (stack, limit) = (kernel.stack_limit(), kernel.shared_limit());
    let spilled = resources.spill_store_bytes + resources.spill_load_bytes;
    if resources.stack_bytes > stack || (stack == 0 && spilled > 0) {
        findings.push(format!("spills: {resources:?}"));
    }
    if shared + resources.shared_bytes as usize > limit {
        findings
            .push(format!("{} bytes of shared memory; {limit} are allowed", shared + resources.shared_bytes as usize));
    }
    kernel.check_resources(findings, resources);
    if resources.barriers > 15 {
        findings.push("all named barriers are reserved: one has an index that is not a constant".to_owned());
    }
}

/// Notes how many of something there are, unless there are some exactly if they are wanted.
pub(crate) fn expect(findings: &mut Vec<String>, what: &str, count: usize, wanted: bool) {
    if wanted && count == 0 {
        findings.push(format!("no {what}"));
    }
    if !wanted && count > 0 {
        findings.push(format!("{count} {what}, where none is meant"));
    }
}
