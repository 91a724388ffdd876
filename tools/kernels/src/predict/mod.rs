//! How long a kernel takes, from its machine code: `cargo xtask predict`. Those for sm_90a on an H200 are here, those for
//! sm_80 on an A100 in `sm80`.
//!
//! The code says what a warp issues for a block of K, for a tile and around both (`flow`, `issue`); the key says how many
//! bytes a stage has, how many stages and teams there are; the problem says how many tiles a block computes. One block is
//! run event by event (`block`): the slowest one is the kernel. What the code can't say (latencies, bandwidths, the power
//! limit) comes from the model's constants, so that a fit mends both.
//!
//! Both ways of a branch are counted, a spinning wait not at all. The error is unknown until a GPU has measured it.

mod block;
mod flow;
mod issue;
mod sm80;

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use epilogue::ElementType;
use epilogue::evt::Types;
use epilogue::gemm::sm90::{self, Cluster, Schedule, Sm90Key, Stream, Wgmma};
use epilogue::gemm::{Candidate, Instruction, KernelKey, MAX_EXTENT, Machine, Problem, SplitK, Workload, rank, source};
use epilogue_runtime::{Arch, Compiler, Output, testing};
use rayon::prelude::*;

use self::block::{Pace, Timeline};
use self::flow::{Flow, Parts};
use self::issue::{Unit, Work};
use super::epilogues::{bias_gelu_residual, everything, plain, residual, row_reduction};
use super::gate::Gate;
use super::sass::Sass;
use super::shapes::PACKED;

/// Clocks from the launch to a block's first instruction, and from the last store until it is seen: estimates.
const LAUNCH: f64 = 500.0;
const DRAIN: f64 = 600.0;
/// Clocks from the end of a product until its sums can be read, or its stage loaded again: an estimate.
const RELEASE: f64 = 60.0;

/// The shapes that the bundle measures first (`HEADLINE` in `tools/bundle/src/gemm/shapes.rs`).
const HEADLINE: [[usize; 3]; 12] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [2048, 2048, 2048],
    [1024, 1024, 1024],
    [4096, 4096, 1024],
    [8192, 28672, 8192],
    [8192, 8192, 28672],
    [16, 8192, 8192],
    [64, 28672, 8192],
    [256, 8192, 8192],
    [1024, 1024, 65536],
    [4095, 4097, 1000],
];

/// From this difference to the model's time on, in percent, the table of the headline's shapes says why.
const MUCH: f64 = 15.0;

/// Why predictions differ by much from the model's: the architecture, the beginning of the line, and the reason.
const REASONS: &[(Arch, &str, &str)] = &[
    (
        Arch::SM_90A,
        "1024x1024x1024",
        "more than half of so short a kernel is outside of products, for which the model's constants are smaller",
    ),
    (Arch::SM_80, "4096x4096x1024", OVERLAPPED),
    (Arch::SM_80, "4095x4097x1000", OVERLAPPED),
];

/// The same for kernels of several blocks on a multiprocessor.
const OVERLAPPED: &str = "with so little K the epilogue is a sixth of a block's time; the model adds it to the products, \
                          here another block multiplies meanwhile";

/// What is predicted: a product of bf16 with an epilogue, and the kernel for it on its GPU.
struct Subject {
    arch: Arch,
    machine: Machine,
    problem: Problem,
    tree: epilogue::evt::ValidTree,
    candidate: Candidate,
}

/// The code of a kernel in its parts, as work.
struct Code {
    parts: Parts,
    prologue: Work,
    /// For one block of K.
    product: Work,
    /// Turns of the loop of products for one block of K.
    turns: f64,
    tile: Work,
    producer: Work,
    /// After the last tile.
    end: Work,
}

/// Clocks for which one block of K keeps each part of a multiprocessor busy, and its bytes.
struct Stage {
    tensor: f64,
    shared: f64,
    issue: f64,
    l2: f64,
    memory: f64,
    l2_bytes: f64,
    memory_bytes: f64,
}

/// A prediction.
struct Prediction {
    timeline: Timeline,
    /// Warps of a team on each scheduler, and teams: of warpgroups, or of blocks that share a multiprocessor.
    warps: f64,
    teams: usize,
    stage: Stage,
    /// Clocks of a tile's epilogue, and what limits it.
    epilogue: (f64, &'static str),
    /// Clocks in a microsecond.
    clocks_per_us: f64,
    /// Microseconds by which the power limit makes the products longer.
    power: f64,
    limiter: &'static str,
}

impl Subject {
    fn of(arch: Arch, mnk: [usize; 3], epilogue: &str, named: &str) -> Result<Self, Box<dyn Error>> {
        let tree = match epilogue {
            "plain" => plain(),
            "residual" => residual(),
            "bias_gelu_residual" => bias_gelu_residual(),
            "row_reduction" => row_reduction(),
            "everything" => everything(),
            other => {
                let known = "plain, residual, bias_gelu_residual, row_reduction and everything";
                return Err(format!("there is no epilogue `{other}` here; there are {known}").into());
            }
        };
        let tree = tree.validate(Types::new(ElementType::BF16, ElementType::BF16))?;
        let problem = Problem::new(mnk[0], mnk[1], mnk[2]);
        if let Some(extent) = mnk.into_iter().find(|extent| !(1..=MAX_EXTENT).contains(extent)) {
            return Err(format!("an extent is {extent}; it must be from 1 to {MAX_EXTENT}").into());
        }
        let (machine, candidates) = if arch == Arch::SM_80 {
            let (instruction, epilogue) = (Instruction::MmaBf16, tree.cost());
            let workload = Workload { problem, instruction, a: PACKED, b: PACKED, epilogue };
            (Machine::a100(), rank(&Machine::a100(), &workload)?)
        } else {
            let (instruction, fast_fp8) = (Wgmma::Bf16, false);
            let workload = sm90::Workload { problem, instruction, a: PACKED, b: PACKED, fast_fp8, tree: &tree };
            (Machine::h200(), sm90::rank(&Machine::h200(), &workload, |_| true))
        };
        let candidate = candidates.into_iter().find(|candidate| candidate.to_string().contains(named));
        let candidate = candidate.ok_or_else(|| {
            format!("no kernel for {arch} of this product has `{named}` in its name: ask for another")
        })?;
        Ok(Self { arch, machine, problem, tree, candidate })
    }

    /// The GPU's name.
    fn gpu(&self) -> &'static str {
        if self.arch == Arch::SM_80 { "A100" } else { "H200" }
    }

    /// The share of a tile's rows or columns that there are: nothing is loaded for the others.
    fn inside(extent: usize, tile: usize) -> f64 {
        extent as f64 / (extent.div_ceil(tile).max(1) * tile) as f64
    }

    fn name(&self) -> String {
        let Problem { m, n, k, .. } = self.problem;
        format!("{m}x{n}x{k} bf16 {}", self.tree.name())
    }

    fn disassembled(&self, gate: &Gate) -> Result<Sass, Box<dyn Error>> {
        let source = source(&self.tree, &self.candidate.key)?;
        let compiled = gate.compiler.compile(&source, self.arch, Output::Cubin)?;
        let nvdisasm = gate.nvdisasm.as_deref().ok_or("nvdisasm was not found: `cargo xtask tools` installs it")?;
        Ok(Sass::of(nvdisasm, &compiled.cubin)?)
    }
}

impl Code {
    fn of(sass: &Sass, key: &KernelKey) -> Result<Self, Box<dyn Error>> {
        let parts = Flow::of(sass).parts().ok_or("the machine code has no loop of products")?;
        let code = sass.instructions();
        let of = |places: &[usize]| Work::of(places.iter().map(|place| &code[*place]));
        let product = of(&parts.product);
        let turns = match key {
            // Instructions of 32 bytes of K make a stage, for every 64 rows of a warpgroup.
            KernelKey::Sm90(key) => {
                let per_stage = 4 * key.tile.warpgroup_rows() / 64;
                per_stage as f64 / product.counts[Unit::Tensor as usize].max(1) as f64
            }
            KernelKey::Sm80(key) => {
                (key.tile.warp_m * key.tile.warp_n * key.tile.k) as f64 / product.multiply_adds.max(1.0)
            }
        };
        let (prologue, tile, producer) = (of(&parts.prologue), of(&parts.tile), of(&parts.producer));
        let end = of(&parts.end);
        Ok(Self { parts, prologue, product, turns, tile, producer, end })
    }
}

/// Warpgroups that share a tile, and teams of them.
const fn teams(key: &Sm90Key) -> (usize, usize) {
    match key.tile.schedule {
        Schedule::Cooperative => (key.tile.consumers, 1),
        Schedule::PingPong => (1, key.tile.consumers),
    }
}

/// Blocks of K of each tile of the slowest block; and clocks for the exchange of sums, by the model's constants.
fn tiles(machine: &Machine, s: &Subject, key: &Sm90Key, exchange: f64) -> (Vec<usize>, f64) {
    let constants = &machine.constants.sm90;
    let k_blocks = s.problem.k.div_ceil(key.instruction.tile_k());
    let units = usize::try_from(s.candidate.blocks).unwrap_or(usize::MAX) / key.cluster.blocks();
    let at_once = ((units as f64 / s.candidate.waves.max(f64::MIN_POSITIVE)).round() as usize).max(1);
    let whole = |count: usize, length: usize| vec![length; count];
    let waves = units.div_ceil(at_once);
    match s.candidate.split_k {
        SplitK::None => (whole(waves, k_blocks), 0.0),
        SplitK::Serial(n) => {
            (whole(waves, k_blocks.div_ceil(n)), 2.0 * exchange + constants.serial_turn * (n - 1) as f64)
        }
        SplitK::Parallel(n) => {
            (whole(waves, k_blocks.div_ceil(n)), (1.0 + n as f64) * exchange + constants.parallel_turn)
        }
        SplitK::Stream => {
            let stream = Stream::of(units, at_once, k_blocks);
            let share = (stream.streamed * stream.k_blocks).div_ceil(stream.clusters.max(1));
            let mut tiles = whole(usize::from(share > 0), share);
            tiles.extend(whole((stream.units - stream.streamed).div_ceil(stream.clusters.max(1)), k_blocks));
            let parts = if share == 0 { 0.0 } else { 1.0 + (k_blocks as f64 / share as f64).ceil() };
            (tiles, parts * exchange + constants.stream_turn)
        }
    }
}

/// Predicts a kernel's time on its GPU.
fn predict(s: &Subject, code: &Code) -> Prediction {
    match &s.candidate.key {
        KernelKey::Sm90(key) => predict_sm90(s, key, code),
        KernelKey::Sm80(key) => sm80::predict(s, key, code),
    }
}

fn predict_sm90(s: &Subject, key: &Sm90Key, code: &Code) -> Prediction {
    let machine = &s.machine;
    let constants = &machine.constants.sm90;
    let (warps, teams) = teams(key);
    let clocks_per_us = machine.clock * constants.busy_clock * 1e3;
    // In clocks of a busy multiprocessor; the L2 and the memory have clocks of their own.
    let share = |gigabytes: f64| gigabytes / (machine.multiprocessors as f64 * machine.clock * constants.busy_clock);
    let l2_rate = share(machine.l2_gigabytes_per_second).min(machine.l2_port_bytes_per_clock);
    let memory_rate = machine.memory_bytes_per_clock / constants.busy_clock;

    let (p, cost) = (&s.problem, s.tree.cost());
    let (m, n, k) = (p.m as f64, p.n as f64, p.k as f64);
    let size = key.instruction.element_size() as f64;
    let elements = (key.result_tile().0 * key.result_tile().1) as f64;
    let (tiles, exchanged) = tiles(machine, s, key, 4.0 * elements / l2_rate);
    let stages_of_all =
        s.candidate.blocks as f64 * p.k.div_ceil(key.instruction.tile_k()) as f64 / s.candidate.split_k.splits() as f64;
    let moved = (m * k + k * n) * size + m * n * cost.bytes_per_element() as f64;
    let (along_rows, along_columns) = key.mma_cluster();
    let (rows, columns) = key.result_tile();
    let (rows, columns) = (Subject::inside(p.m, rows), Subject::inside(p.n, columns));
    let (rows, columns) = if key.swap_ab { (columns, rows) } else { (rows, columns) };
    let (rows, columns) = (rows * key.tile.rows as f64, columns * key.tile.columns as f64);
    let l2_bytes = 128.0 * (rows / along_columns as f64 + columns / along_rows as f64);
    let memory_bytes = moved / stages_of_all.max(1.0);
    let warpgroups = warps as f64;
    let macs = code.product.multiply_adds * code.turns * warpgroups;
    let stage = Stage {
        // A tensor core of each scheduler: 64 rows by 2 columns by the instruction's K in a clock.
        tensor: macs / rate(key) / constants.tensor_share,
        shared: code.product.product_bytes * code.turns * warpgroups / 128.0,
        issue: code.product.issue(warpgroups) * code.turns + code.producer.issue(1.0),
        l2: l2_bytes / l2_rate,
        memory: memory_bytes / memory_rate,
        l2_bytes,
        memory_bytes,
    };
    let mut product = stage.tensor.max(stage.shared).max(stage.issue);
    if key.pending == 0 {
        // A warpgroup's sums are complete before it goes on; only other warpgroups fill the tensor cores meanwhile.
        product = product.max(stage.tensor / warpgroups + code.product.alone);
    }
    let (work, limit) = code.tile.clocks(warpgroups);
    let read = elements * cost.bytes_read as f64 / l2_rate;
    let epilogue = if read > work { (read, "the L2") } else { (work, limit) };
    let clustered = if key.cluster == Cluster::NONE { 0.0 } else { constants.cluster_start };
    let timeline = block::run(&Pace {
        launch: LAUNCH,
        prologue: code.prologue.alone + clustered,
        latency: constants.latency,
        load: stage.l2.max(stage.memory),
        product,
        release: RELEASE,
        epilogue: epilogue.0,
        drain: exchanged + code.end.alone + DRAIN,
        restart: 0.0,
        stages: key.stages,
        teams,
        tiles,
    });
    let power = power(machine, s, key, &stage, macs, &timeline, clocks_per_us);
    let limiter = limiter(&timeline, &stage, epilogue.1, power > 0.0);
    Prediction { timeline, warps: warpgroups, teams, stage, epilogue, clocks_per_us, power, limiter }
}

/// Multiply-adds per clock of a multiprocessor (H100 whitepaper, table 3): as many rows of K as 32 bytes have, for each
/// of 128 elements.
fn rate(key: &Sm90Key) -> f64 {
    128.0 * 32.0 / key.instruction.element_size() as f64
}

/// By how many microseconds the power limit makes the products longer, as the model has it.
fn power(
    machine: &Machine,
    s: &Subject,
    key: &Sm90Key,
    stage: &Stage,
    macs: f64,
    timeline: &Timeline,
    clocks_per_us: f64,
) -> f64 {
    let constants = &machine.constants.sm90;
    let products = timeline.shares[3].1 / clocks_per_us;
    if timeline.clocks / clocks_per_us <= constants.power_after {
        return 0.0;
    }
    let of_tile = (key.tile.rows * key.tile.columns) as f64;
    let multiplied = s.candidate.blocks as f64 * of_tile * s.problem.k as f64 / s.candidate.split_k.splits() as f64;
    let clock = machine.clock
        * if key.instruction.element_size() == 1 { constants.power_clock_8_bit } else { constants.power_clock };
    let shared_bytes = key.tile.rows as f64 / 64.0 * (64.0 + key.tile.columns as f64) * 128.0;
    let bytes = (stage.l2_bytes + constants.power_of_shared * shared_bytes) / macs.max(1.0);
    let least = multiplied / (rate(key) * machine.multiprocessors as f64 * clock * 1e3)
        * (1.0 + constants.power_of_bytes * bytes);
    (least - products).max(0.0)
}

/// What limits the time: of its parts the largest, and of that what is slowest.
fn limiter(timeline: &Timeline, stage: &Stage, epilogue: &'static str, power: bool) -> &'static str {
    let largest = timeline.shares.iter().fold(("", 0.0), |most, one| if one.1 > most.1 { *one } else { most });
    match largest.0 {
        "products" if power => "the power limit",
        "products" if stage.tensor >= stage.shared.max(stage.issue) => "tensor cores",
        "products" if stage.shared >= stage.issue => "shared memory",
        "products" => "issuing",
        "waits for loads" | "first stage" if stage.memory >= stage.l2 => "memory",
        "waits for loads" => "the L2",
        "epilogue alone" => epilogue,
        _ => "latency: the launch, the first stage and the drain",
    }
}

impl Prediction {
    fn microseconds(&self) -> f64 {
        self.timeline.clocks / self.clocks_per_us + self.power
    }
}

/// A prediction for a person to read.
fn report(s: &Subject, code: &Code, prediction: &Prediction) -> Result<String, Box<dyn Error>> {
    let (warps, teams) = (prediction.warps, prediction.teams);
    let mut text = format!("{} on an {}\n{}; {}\n", s.name(), s.gpu(), s.candidate.key, s.candidate.split_k);
    let count = |work: &Work| {
        let named = Unit::ALL.iter().zip(work.counts).filter(|(_, count)| *count > 0);
        let list: Vec<String> = named.map(|((_, name), count)| format!("{count} {name}")).collect();
        format!("{} ({})", work.instructions(), list.join(", "))
    };
    writeln!(text, "instructions of a warp")?;
    writeln!(text, "  prologue: {}", count(&code.prologue))?;
    writeln!(text, "  a block of K: {}", count(&code.product))?;
    writeln!(text, "  a tile: {}", count(&code.tile))?;
    writeln!(text, "  after the last tile: {}", count(&code.end))?;
    if code.producer.instructions() > 0 {
        writeln!(text, "  the producer, a stage: {}", count(&code.producer))?;
    }
    if code.parts.counted_once > 0 {
        writeln!(text, "  {} loops of a tile are counted once", code.parts.counted_once)?;
    }
    let Stage { tensor, shared, issue, l2, memory, l2_bytes, memory_bytes } = prediction.stage;
    writeln!(
        text,
        "clocks of a block of K, {warps} warps a scheduler: tensor cores {tensor:.0}, shared memory {shared:.0}, issuing \
         {issue:.0}; loads: L2 {l2:.0} ({l2_bytes:.0} bytes), memory {memory:.0} ({memory_bytes:.0} bytes)"
    )?;
    let (epilogue, limit) = prediction.epilogue;
    writeln!(
        text,
        "clocks of a tile beside its products: {epilogue:.0}, limited by {limit} (one warp alone {:.0}); {teams} team{}",
        code.tile.alone,
        if teams == 1 { "" } else { "s, one multiplies while the other's epilogue runs" }
    )?;
    let all = prediction.microseconds();
    let us = |clocks: f64| clocks / prediction.clocks_per_us;
    writeln!(text, "the slowest block")?;
    let shares = prediction.timeline.shares.iter().map(|(name, clocks)| (*name, us(*clocks)));
    for (name, us) in shares.chain([("the power limit", prediction.power)]).filter(|(_, us)| *us > 0.0) {
        writeln!(text, "  {name}: {us:.2} us, {:.1} %", 100.0 * us / all)?;
    }
    let model = s.candidate.microseconds;
    let difference = 100.0 * (all / model - 1.0);
    writeln!(
        text,
        "{all:.1} us, limited by {}; the model of the choice says {model:.1} us ({difference:+.1} %)",
        prediction.limiter
    )?;
    text.push_str("No GPU has measured this yet: its error is unknown.\n");
    Ok(text)
}

/// One block's timeline as JSON, for `cargo xtask predict` to draw: lanes with stretches of microseconds.
fn json(s: &Subject, prediction: &Prediction) -> String {
    let us = |clocks: f64| clocks / prediction.clocks_per_us;
    let events = prediction.timeline.events.iter().filter(|event| event.end > event.begin).map(|event| {
        let (lane, phase) = (event.lane, event.phase.name());
        format!("[{lane}, \"{phase}\", {:.4}, {:.4}]", us(event.begin), us(event.end))
    });
    let events: Vec<String> = events.collect();
    format!("{{\"title\": \"{}\", \"events\": [{}]}}\n", s.name(), events.join(", "))
}

fn gate() -> Result<Gate, Box<dyn Error>> {
    Ok(Gate::new(Compiler::find()?, testing::nvdisasm("predict")))
}

/// One line of the table of the headline's shapes.
fn line(subject: &Subject, code: &Code) -> Result<String, std::fmt::Error> {
    let prediction = predict(subject, code);
    let (us, model) = (prediction.microseconds(), subject.candidate.microseconds);
    let us_of = |clocks: f64| clocks / prediction.clocks_per_us;
    let parts = prediction.timeline.shares.iter().map(|(name, clocks)| (*name, us_of(*clocks)));
    let parts = parts.chain([("the power limit", prediction.power)]).filter(|(_, us)| *us > 0.0);
    let parts = parts.map(|(name, us)| format!("{name} {us:.1}"));
    let tile = match &subject.candidate.key {
        KernelKey::Sm90(key) => key.tile.to_string(),
        KernelKey::Sm80(key) => key.tile.to_string(),
    };
    let split_k = subject.candidate.split_k;
    let split = if split_k == SplitK::None { String::new() } else { format!(", {split_k}") };
    let difference = 100.0 * (us / model - 1.0);
    let mut line = format!(
        "{}: {tile}{split}: {us:.1} us, the model {model:.1} us ({difference:+.1} %); limited by {}: {}\n",
        subject.name(),
        prediction.limiter,
        parts.collect::<Vec<_>>().join(", "),
    );
    let reason = REASONS.iter().find(|(of, begin, _)| *of == subject.arch && line.starts_with(begin));
    match (reason, difference.abs() > MUCH) {
        (Some((.., reason)), true) => writeln!(line, "  the difference: {reason}")?,
        (None, true) => writeln!(line, "  the difference has no reason in REASONS yet")?,
        (Some(_), false) => writeln!(line, "  a reason in REASONS is left over")?,
        (None, false) => {}
    }
    Ok(line)
}

/// The headline shapes with the prediction beside the model's, as text.
pub(crate) fn headline(gate: &Gate) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let of = |(arch, mnk)| Subject::of(arch, mnk, "plain", "").map_err(|error| format!("{mnk:?}: {error}"));
    let shapes = [Arch::SM_90A, Arch::SM_80].into_iter().flat_map(|arch| HEADLINE.map(|mnk| (arch, mnk)));
    let subjects = shapes.map(of).collect::<Result<Vec<_>, _>>()?;
    // Several have one kernel; others differ in what their names leave out, such as arguments without tensor copies.
    let mut kernels: Vec<&Subject> = Vec::new();
    for subject in &subjects {
        if kernels.iter().all(|known| known.candidate.key != subject.candidate.key) {
            kernels.push(subject);
        }
    }
    let code = |s: &&Subject| {
        let code = s.disassembled(gate).and_then(|sass| Code::of(&sass, &s.candidate.key));
        Ok((s.candidate.key, code.map_err(|error| format!("{}: {error}", s.candidate.key))?))
    };
    let codes = kernels.par_iter().map(code).collect::<Result<Vec<_>, String>>()?;
    let mut table = String::new();
    for (i, subject) in subjects.iter().enumerate() {
        if i.is_multiple_of(HEADLINE.len()) {
            let title = format!("== kernels for {} on an {} ==", subject.arch, subject.gpu());
            writeln!(table, "{}{title}", if i == 0 { "" } else { "\n" }).map_err(|e| text(&e))?;
        }
        let (_, code) =
            codes.iter().find(|(key, _)| *key == subject.candidate.key).ok_or("a kernel was not compiled")?;
        table.push_str(&line(subject, code).map_err(|e| text(&e))?);
    }
    Ok(table)
}

/// `predict [MxNxK] [--arch sm_80|sm_90a] [--epilogue NAME] [--named TEXT] [--timeline FILE]`: one product, or the headline's.
pub(crate) fn print(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut mnk, mut arch, mut epilogue, mut named, mut timeline) = (None, Arch::SM_90A, "plain", "", None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let mut value = |what: &str| rest.next().ok_or_else(|| format!("{argument} takes {what}"));
        match argument {
            "--arch" => {
                arch = match value("sm_80 or sm_90a")? {
                    "sm_80" => Arch::SM_80,
                    "sm_90a" => Arch::SM_90A,
                    other => return Err(format!("--arch takes sm_80 or sm_90a; {other} was given").into()),
                }
            }
            "--epilogue" => epilogue = value("an epilogue's name")?,
            "--named" => named = value("a part of a kernel's name")?,
            "--timeline" => timeline = Some(PathBuf::from(value("a file")?)),
            shape => {
                let numbers: Vec<usize> = shape.split('x').filter_map(|number| number.parse().ok()).collect();
                let [m, n, k] = numbers[..] else {
                    return Err(
                        format!("`{shape}` is no product: give its extents as MxNxK, such as 4096x4096x1024").into()
                    );
                };
                mnk = Some([m, n, k]);
            }
        }
    }
    let gate = gate()?;
    let Some(mnk) = mnk else {
        print!("{}", headline(&gate)?);
        return Ok(());
    };
    let subject = Subject::of(arch, mnk, epilogue, named)?;
    let code = Code::of(&subject.disassembled(&gate)?, &subject.candidate.key)?;
    let prediction = predict(&subject, &code);
    print!("{}", report(&subject, &code, &prediction)?);
    if let Some(file) = timeline {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, json(&subject, &prediction))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use epilogue::gemm::Parameter;
    use expect_test::expect_file;

    use super::*;

    /// A kernel of 64x64 by one warpgroup, written by hand after the form of the real ones.
    const SMALL: &str = include_str!("small.sass");

    fn small(mnk: [usize; 3]) -> (Subject, Code) {
        let subject = Subject::of(Arch::SM_90A, mnk, "plain", "64x64 by one warpgroup").expect("such a kernel");
        let code = Code::of(&Sass::parse(SMALL), &subject.candidate.key).expect("a loop of products");
        (subject, code)
    }

    /// Counted by hand.
    #[test]
    fn the_code_of_a_small_kernel_is_as_counted_by_hand() {
        let (_, code) = small([1024, 1024, 1024]);
        let counts = [&code.prologue, &code.product, &code.tile, &code.producer].map(Work::instructions);
        assert_eq!(counts, [8, 14, 15, 8]);
        assert_eq!((code.turns, code.product.counts[Unit::Tensor as usize]), (1.0, 4));
        assert_eq!(code.product.multiply_adds, 4.0 * 64.0 * 64.0 * 16.0);
        assert_eq!(code.parts.counted_once, 0);
    }

    #[test]
    fn a_prediction_is_printed_as_committed() {
        let (subject, code) = small([1024, 1024, 1024]);
        let prediction = predict(&subject, &code);
        let text = report(&subject, &code, &prediction).expect("a report");
        expect_file!["../../../../tests/golden/predict.txt"].assert_eq(&text);
        let json = json(&subject, &prediction);
        assert!(json.starts_with("{\"title\": \"1024x1024x1024 bf16 plain\", \"events\": [[0, \"launch\", 0.0000,"));
    }

    /// More K takes longer; half the memory's bandwidth makes what is bound by memory nearly twice as slow, and the rest
    /// no faster.
    #[test]
    fn predictions_follow_the_problem_and_the_machine() {
        let time = |machine: &Machine, mnk| {
            let (subject, code) = small(mnk);
            predict(&Subject { machine: machine.clone(), ..subject }, &code).microseconds()
        };
        let h200 = Machine::h200();
        let by_k = [512, 1024, 2048, 8192].map(|k| time(&h200, [2048, 2048, k]));
        assert!(by_k.windows(2).all(|pair| pair[0] < pair[1]), "{by_k:?}");
        let memory = Parameter::all().find(|p| p.name() == "machine.memory").expect("it is one");
        let slow = memory.with(&h200, memory.of(&h200) / 2.0);
        let ratio = |mnk| time(&slow, mnk) / time(&h200, mnk);
        let (bound, not) = (ratio([64, 65536, 8192]), ratio([4096, 4096, 4096]));
        assert!(bound > 1.7 && bound <= 2.0, "{bound}");
        assert!((1.0..1.2).contains(&not), "{not}");
    }
}
