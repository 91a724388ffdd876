//! Checks a compiled kernel: the compiler's log and the machine code must show what was intended.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use epilogue::ElementType;
use epilogue::evt::{InTile, Tree, Types, ValidTree};
use epilogue::gemm::sm90::{SharedMap, Sm90Key, Traffic, Within};
use epilogue::gemm::{Divided, Error, Float16, Instruction, KernelKey, Major, Sm80Key, source};
use epilogue_runtime::{Arch, CompileLog, Compiler, Output, Resources};

use super::sass::{Sass, is_product};

/// The most shared memory of a block on sm_80 and on sm_90 (CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability").
const SHARED_LIMITS: [usize; 2] = [163 * 1024, 227 * 1024];

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
        match &self.key {
            KernelKey::Sm80(key) => key.instruction.elements(),
            KernelKey::Sm90(key) => key.instruction.elements(),
        }
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
    /// What is wrong.
    pub(crate) findings: Vec<String>,
    /// Accesses of local memory outside the loop of products, on sm_90a the consumers': a few words per tile, in some ten
    /// thousand instructions, for which the compiler had no registers.
    pub(crate) kept: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { registers, spill_store_bytes, spill_load_bytes, barriers, .. } = &self.resources;
        let stages = match &self.key {
            KernelKey::Sm80(key) => key.tile.stages,
            KernelKey::Sm90(key) => key.stages,
        };
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
        if let KernelKey::Sm80(Sm80Key { a, b, split_k, .. }) = &self.key {
            write!(f, "; A {:?} {}, B {:?} {}, split {split_k:?}", a.major, a.copy_bytes, b.major, b.copy_bytes)?;
        }
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

    /// Compiles a kernel and checks it; `None` if its family has no such kernel.
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
        let shared_bytes = match &subject.key {
            KernelKey::Sm80(key) => key.tile.shared_bytes(key.instruction),
            KernelKey::Sm90(key) => SharedMap::of(key, &Traffic::of(computed, key.direct)).bytes(),
        };
        check_log(&mut findings, &subject.key, &compiled.log, &resources, shared_bytes);
        let (mut counts, mut kept) = (None, 0);
        if let Some(nvdisasm) = &self.nvdisasm {
            let sass = Sass::of(nvdisasm, &compiled.cubin).map_err(|e| text(&e))?;
            match &subject.key {
                KernelKey::Sm80(key) => kept = check_sm80(&mut findings, key, &sass),
                KernelKey::Sm90(key) => {
                    check_sm90(&mut findings, key, computed, &sass);
                    kept = sass.local_accesses_of_consumers();
                }
            }
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

fn check_log(findings: &mut Vec<String>, key: &KernelKey, log: &CompileLog, resources: &Resources, shared: usize) {
    findings.extend(log.warnings().map(|warning| format!("the compiler says: {warning}")));
    // Some words may be spilled where it costs nothing: on sm_90a by a producer with few registers, which waits most of
    // the time, or by a consumer whose accumulators are not operands, on sm_80 once for a tile. (That nobody does so
    // between products, the machine code shows.)
    let (stack, limit) = match key {
        KernelKey::Sm80(_) => (32, SHARED_LIMITS[0]),
        KernelKey::Sm90(key) => (if key.tile.registers().is_some() { 96 } else { 0 }, SHARED_LIMITS[1]),
    };
    let spilled = resources.spill_store_bytes + resources.spill_load_bytes;
    if resources.stack_bytes > stack || (stack == 0 && spilled > 0) {
        findings.push(format!("spills: {resources:?}"));
    }
    if shared + resources.shared_bytes as usize > limit {
        findings
            .push(format!("{} bytes of shared memory; {limit} are allowed", shared + resources.shared_bytes as usize));
    }
    if let KernelKey::Sm90(key) = key {
        if resources.shared_bytes != 0 {
            findings.push(format!("{} bytes of static shared memory move the rings", resources.shared_bytes));
        }
        // 65536 registers among the threads, in steps of 8.
        let entry = (65536 / key.threads() / 8 * 8).min(255);
        if key.tile.registers().is_some() && resources.registers as usize != entry {
            findings.push(format!("{} registers at entry; setmaxnreg counts on {entry}", resources.registers));
        }
    }
    if resources.barriers > 15 {
        findings.push("all named barriers are reserved: one has an index that is not a constant".to_owned());
    }
}

fn expect(findings: &mut Vec<String>, what: &str, count: usize, wanted: bool) {
    if wanted && count == 0 {
        findings.push(format!("no {what}"));
    }
    if !wanted && count > 0 {
        findings.push(format!("{count} {what}, where none is meant"));
    }
}

/// Gives the number of accesses of local memory outside the loop of products.
fn check_sm80(findings: &mut Vec<String>, key: &Sm80Key, sass: &Sass) -> usize {
    let (i, j) = (key.tile.warp_m / 16, key.tile.warp_n / 8);
    // The products of one stage: 16 rows by 8 columns each (for f64 8 rows), of k16, k8 or k4.
    let (name, per_stage) = match key.instruction {
        Instruction::MmaF16 => ("HMMA.16816.F32", i * j * key.tile.k / 16),
        Instruction::MmaBf16 | Instruction::MmaFastBf16 => ("HMMA.16816.F32.BF16", i * j * key.tile.k / 16),
        Instruction::MmaTf32 => ("HMMA.1688.F32.TF32", i * j * key.tile.k / 8),
        Instruction::MmaF64 => ("DMMA", 2 * i * j * key.tile.k / 4),
        Instruction::MmaInt8(_) => ("IMMA.16832", i * j * key.tile.k / 32),
        // With the most accumulators and operands to convert the loop has one step, of k32 (LEAN in `src/device/sm80/mainloop.cuh`).
        Instruction::MmaFp8(_) if i * j * 4 >= 128 => ("HMMA.16816.F32", 2 * i * j),
        Instruction::MmaFp8(_) => ("HMMA.16816.F32", i * j * key.tile.k / 16),
        Instruction::MmaMixed(types) => {
            let name = if types.a == Float16::F16 { "HMMA.16816.F32" } else { "HMMA.16816.F32.BF16" };
            (name, if i * j * 4 >= 128 { 2 * i * j } else { i * j * key.tile.k / 16 })
        }
        Instruction::FmaF32 => ("FFMA", key.tile.warp_m * key.tile.warp_n / 32 * key.tile.k),
    };
    let count = sass.count(name);
    let whole = key.instruction == Instruction::FmaF32 && count >= per_stage;
    if count == 0 || !(whole || count.is_multiple_of(per_stage)) {
        findings.push(format!("{count} {name}; {per_stage} make a stage"));
    }
    let (size, of_b) = key.instruction.sizes();
    let copied = [(key.a, size), (key.b, of_b)].iter().any(|(operand, size)| operand.copy_bytes > *size || *size >= 4);
    expect(findings, "LDGSTS (cp.async)", sass.count("LDGSTS"), copied);
    // It also loads TF32 operands that are contiguous along K.
    if size <= 2 {
        expect(findings, "LDSM (ldmatrix)", sass.count("LDSM"), true);
    }
    let product = name.split('.').next().unwrap_or(name);
    let Some((between, kept)) = sass.local_accesses_around(product) else {
        findings.push("no loop of products".to_owned());
        return 0;
    };
    if between > 0 {
        findings.push(format!("{between} accesses of local memory between products"));
    }
    kept
}

fn check_sm90(findings: &mut Vec<String>, key: &Sm90Key, tree: &ValidTree, sass: &Sass) {
    let traffic = Traffic::of(tree, key.direct);
    // Four instructions, for 32 bytes of K each, make a stage, for every 64 rows of a warpgroup; the loop is not
    // unrolled.
    let per_stage = 4 * key.tile.warpgroup_rows() / 64;
    let products = sass.count_where(is_product);
    if tree.multiplies() {
        if products == 0 || products > 2 * per_stage || !products.is_multiple_of(per_stage) {
            findings.push(format!("{products} warpgroup products; {per_stage} make a stage"));
        }
        let shape = format!(".64x{}x", key.tile.columns);
        if sass.count_where(|i| is_product(i) && !i.opcode.contains(&shape)) > 0 {
            findings.push(format!("a warpgroup product is not of 64x{}", key.tile.columns));
        }
        let batches = sass.count_where(|i| is_product(i) && i.operands.contains("gsb0"));
        let arrivals = sass.count_where(|i| i.opcode == "WARPGROUP.ARRIVE");
        if batches != arrivals || batches == 0 {
            findings.push(format!("{batches} batches of products and {arrivals} WARPGROUP.ARRIVE"));
        }
        expect(findings, "WARPGROUP.DEPBAR", sass.count("WARPGROUP.DEPBAR"), true);
        for instruction in sass.writes_to_open_accumulators(key.tile.columns / 2) {
            findings.push(format!("{} {} writes an open accumulator", instruction.opcode, instruction.operands));
        }
        expect(findings, "UTMALDG", sass.count("UTMALDG"), true);
        let pixels = sass.count_where(|i| i.opcode.starts_with("UTMALDG") && i.opcode.contains("IM2COL"));
        let boxes = match (key.reading.patches(), key.a) {
            (None, _) => 0,
            (_, Major::K) => 1,
            // Of 64 rows each, of which a block loads its share.
            (_, Major::Mn) => key.tile.rows / 64 / key.mma_cluster().1,
        };
        if pixels != boxes {
            findings.push(format!("{pixels} UTMALDG.IM2COL, where {boxes} load a block's patches of a stage"));
        }
        let rows = if key.swap_ab { key.tile.columns } else { key.tile.rows };
        let (copies, meant) = (sass.count("LDGSTS"), if key.reading.is_picked() { 2 * (rows / 8) } else { 0 });
        if copies != meant {
            findings.push(format!(
                "{copies} LDGSTS (cp.async), where {meant} copy a thread's part of a stage, whole or not"
            ));
        }
        expect(findings, "ARRIVES.LDGSTSBAR", sass.count("ARRIVES.LDGSTSBAR"), key.reading.is_picked());
        match sass.stray_between_products() {
            None => findings.push("no loop of products".to_owned()),
            Some(mut stray) => {
                // What threads have copied, products see behind a fence.
                stray.retain(|i| !(key.reading.is_picked() && i.opcode == "MEMBAR.ALL.CTA"));
                findings.extend(stray.iter().map(|i| format!("{} {} between products", i.opcode, i.operands)));
            }
        }
    }
    let (along_rows, along_columns) = key.mma_cluster();
    let multicast = sass.count_where(|i| i.opcode.starts_with("UTMALDG") && i.opcode.contains("MULTICAST"));
    expect(findings, "UTMALDG.MULTICAST", multicast, along_rows * along_columns > 1);
    let stores = !traffic.outputs.is_empty();
    expect(findings, "UTMASTG", sass.count("UTMASTG"), stores);
    expect(findings, "UTMACMDFLUSH", sass.count("UTMACMDFLUSH"), stores);
    if stores {
        expect(findings, "FENCE.VIEW.ASYNC", sass.count("FENCE.VIEW.ASYNC"), true);
    }
    let halves = traffic.outputs.iter().any(|(_, element)| element.size() == 2);
    expect(findings, "STSM (stmatrix)", sass.count("STSM"), halves);
    let transposed = sass.count_where(|i| i.opcode.starts_with("STSM") && i.opcode.contains(".MT"));
    expect(findings, "STSM.MT88 (transposed)", transposed, halves && key.swap_ab);
    let exchanges = key.within() == Some(Within::Cluster);
    expect(findings, "STAS (st.async)", sass.count("STAS"), exchanges);
    expect(findings, "UBLKCP (cp.async.bulk)", sass.count("UBLKCP"), key.reading.divided() == Some(Divided::Depth));
    expect(findings, "SYNCS.PHASECHK (mbarrier waits)", sass.count("SYNCS.PHASECHK"), true);
    let sets = key.tile.registers().is_some();
    expect(findings, "USETMAXREG.DEALLOC", sass.count("USETMAXREG.DEALLOC"), sets);
    expect(findings, "USETMAXREG.TRY_ALLOC", sass.count("USETMAXREG.TRY_ALLOC"), sets);
    let (arrivals, waits) = (sass.count("UCGABAR_ARV"), sass.count("UCGABAR_WAIT"));
    expect(findings, "UCGABAR_ARV (cluster barriers)", arrivals, key.cluster.blocks() > 1);
    if arrivals != waits {
        findings.push(format!("{arrivals} cluster barriers are arrived at and {waits} waited for"));
    }
    expect(findings, "ACQBULK (griddepcontrol.wait)", sass.count("ACQBULK"), key.dependent_launch);
    expect(findings, "HMMA", sass.count("HMMA"), false);
}
