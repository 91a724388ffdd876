//! How long a kernel takes, from its machine code: `cargo xtask predict`, of each family on its GPU (`families`).
//!
//! The code says what a warp issues for a k-tile, for a tile and around both (`flow`, `issue`); the key says how many
//! bytes a stage has, how many stages and teams there are; the problem says how many tiles a block computes. One block is
//! run event by event (`block`): the slowest one is the kernel. Latencies, bandwidths and the power
//! limit come from the model's constants, so that a fit mends both.
//!
//! Both ways of a branch are counted, a spinning wait not at all. The error is unknown until a GPU has measured it.

pub(crate) mod block;
pub(crate) mod flow;
pub(crate) mod issue;
mod report;

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use epilogue::ElementType;
use epilogue::evt::Types;
use epilogue::gemm::{Arithmetic, Candidate, KernelKey, MAX_EXTENT, Machine, Offer, Problem, source};
use epilogue_runtime::{Arch, Compiler, Output, testing};
use epilogue_testing::headline::HEADLINE;
use rayon::prelude::*;

use self::block::Timeline;
use self::flow::{Flow, Parts};
use self::issue::Work;
use self::report::{json, line, report};
use super::epilogues::{bias_gelu_residual, everything, plain, residual, row_reduction};
use super::families::{self, Family};
use super::gate::Gate;
use super::sass::Sass;
use super::shapes::PACKED;

/// Clocks from the launch to a block's first instruction, and from the last store until it is seen: estimates.
pub(crate) const LAUNCH: f64 = 500.0;
pub(crate) const DRAIN: f64 = 600.0;
/// Clocks from the end of a product until its sums can be read, or its stage loaded again: an estimate.
pub(crate) const RELEASE: f64 = 60.0;

/// The predicted case: a product of bf16 with an epilogue, and the kernel for it on its GPU.
pub(crate) struct Subject {
    pub(crate) arch: Arch,
    /// The GPU's name.
    pub(crate) gpu: &'static str,
    pub(crate) machine: Machine,
    pub(crate) problem: Problem,
    pub(crate) tree: epilogue::evt::ValidTree,
    pub(crate) candidate: Candidate,
}

/// The code of a kernel in its parts, as work.
pub(crate) struct Code {
    pub(crate) parts: Parts,
    pub(crate) prologue: Work,
    /// For one k-tile.
    pub(crate) product: Work,
    /// Turns of the loop of products for one k-tile.
    pub(crate) turns: f64,
    pub(crate) tile: Work,
    pub(crate) producer: Work,
    /// After the last tile.
    pub(crate) end: Work,
}

/// Clocks for which one k-tile keeps each part of a multiprocessor busy, and its bytes.
pub(crate) struct Stage {
    pub(crate) tensor: f64,
    pub(crate) shared: f64,
    pub(crate) issue: f64,
    pub(crate) l2: f64,
    pub(crate) memory: f64,
    pub(crate) l2_bytes: f64,
    pub(crate) memory_bytes: f64,
}

/// A prediction.
pub(crate) struct Prediction {
    pub(crate) timeline: Timeline,
    /// Warps of a team on each scheduler, and teams: of warpgroups, or of blocks that share a multiprocessor.
    pub(crate) warps: f64,
    pub(crate) teams: usize,
    pub(crate) stage: Stage,
    /// Clocks of a tile's epilogue, and what limits it.
    pub(crate) epilogue: (f64, &'static str),
    /// Clocks in a microsecond.
    pub(crate) clocks_per_us: f64,
    /// Microseconds by which the power limit makes the products longer.
    pub(crate) power: f64,
    pub(crate) limiter: &'static str,
}

impl Subject {
    fn of(family: &dyn Family, mnk: [usize; 3], epilogue: &str, named: &str) -> Result<Self, Box<dyn Error>> {
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
        let offer = Offer { problem, layouts: (PACKED, PACKED), arithmetic: Arithmetic::Exact, tree: &tree };
        let (arch, (gpu, machine)) = (family.arch(), family.gpu());
        let candidates = offer.candidates_of(arch, &machine);
        let candidate = candidates.into_iter().find(|candidate| candidate.to_string().contains(named));
        let candidate = candidate.ok_or_else(|| {
            format!("no kernel for {arch} of this product has `{named}` in its name: ask for another")
        })?;
        Ok(Self { arch, gpu, machine, problem, tree, candidate })
    }

    /// The share of a tile's rows or columns that there are: nothing is loaded for the others.
    pub(crate) fn inside(extent: usize, tile: usize) -> f64 {
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
        let turns = families::kernel(key).turns(&product);
        let (prologue, tile, producer) = (of(&parts.prologue), of(&parts.tile), of(&parts.producer));
        let end = of(&parts.end);
        Ok(Self { parts, prologue, product, turns, tile, producer, end })
    }
}

/// Predicts a kernel's time on its GPU.
fn predict(s: &Subject, code: &Code) -> Prediction {
    families::kernel(&s.candidate.key).predict(s, code)
}

/// Limit of the time: the slowest unit of its largest part.
pub(crate) fn limiter(timeline: &Timeline, stage: &Stage, epilogue: &'static str, power: bool) -> &'static str {
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

pub(crate) fn gate() -> Result<Gate, Box<dyn Error>> {
    Ok(Gate::new(Compiler::find()?, testing::nvdisasm("predict")))
}

/// The kernels of subjects as code, each once.
fn codes(gate: &Gate, subjects: &[Subject]) -> Result<Vec<(KernelKey, Code)>, String> {
    // Several have one kernel; others differ in what their names leave out, such as arguments without tensor copies.
    let mut kernels: Vec<&Subject> = Vec::new();
    for subject in subjects {
        if kernels.iter().all(|known| known.candidate.key != subject.candidate.key) {
            kernels.push(subject);
        }
    }
    let code = |s: &&Subject| {
        let code = s.disassembled(gate).and_then(|sass| Code::of(&sass, &s.candidate.key));
        Ok((s.candidate.key, code.map_err(|error| format!("{}: {error}", s.candidate.key))?))
    };
    kernels.par_iter().map(code).collect()
}

/// The code of a subject's kernel.
fn code<'c>(codes: &'c [(KernelKey, Code)], subject: &Subject) -> Result<&'c Code, String> {
    let found = codes.iter().find(|(key, _)| *key == subject.candidate.key);
    found.map(|(_, code)| code).ok_or_else(|| "a kernel was not compiled".to_owned())
}

/// Microseconds of the headline's products with an epilogue: by the machine code, and by the model.
pub(crate) fn times(gate: &Gate, family: &dyn Family, epilogue: &str) -> Result<Vec<[f64; 2]>, String> {
    let of = |mnk| Subject::of(family, mnk, epilogue, "").map_err(|error| format!("{mnk:?}: {error}"));
    let subjects = HEADLINE.map(of).into_iter().collect::<Result<Vec<_>, _>>()?;
    let codes = codes(gate, &subjects)?;
    let both = |s: &Subject| Ok([predict(s, code(&codes, s)?).microseconds(), s.candidate.microseconds]);
    subjects.iter().map(both).collect()
}

/// The headline shapes with the prediction beside the model's, as text.
pub(crate) fn headline(gate: &Gate) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let of = |(family, mnk)| Subject::of(family, mnk, "plain", "").map_err(|error| format!("{mnk:?}: {error}"));
    let shapes = families::all_predicted().flat_map(|family| HEADLINE.map(|mnk| (family, mnk)));
    let subjects = shapes.map(of).collect::<Result<Vec<_>, _>>()?;
    let codes = codes(gate, &subjects)?;
    let mut table = String::new();
    for (i, subject) in subjects.iter().enumerate() {
        if i.is_multiple_of(HEADLINE.len()) {
            let title = format!("== kernels for {} on an {} ==", subject.arch, subject.gpu);
            writeln!(table, "{}{title}", if i == 0 { "" } else { "\n" }).map_err(|e| text(&e))?;
        }
        let code = code(&codes, subject)?;
        table.push_str(&line(subject, code).map_err(|e| text(&e))?);
    }
    Ok(table)
}

/// `predict [MxNxK] [--arch sm_80|sm_90a] [--epilogue NAME] [--named TEXT] [--timeline FILE]`: one product, or the headline's.
pub(crate) fn print(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut mnk, mut family, mut epilogue, mut named, mut timeline) = (None, families::predicted(), "plain", "", None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let mut value = |what: &str| rest.next().ok_or_else(|| format!("{argument} takes {what}"));
        match argument {
            "--arch" => {
                family = families::named(rest.next())?;
                if !family.is_predicted() {
                    let arch = family.arch();
                    return Err(format!(
                        "kernels for {arch} are not predicted by their machine code: the model says their times"
                    )
                    .into());
                }
            }
            "--epilogue" => epilogue = value("an epilogue's name")?,
            "--named" => named = value("a part of a kernel's name")?,
            "--timeline" => timeline = Some(PathBuf::from(value("a file")?)),
            shape => {
                let numbers: Vec<usize> = shape.split('x').filter_map(|number| number.parse().ok()).collect();
                let [m, n, k] = numbers[..] else {
                    return Err(format!(
                        "`{shape}` is not a product: give its extents as MxNxK, such as 4096x4096x1024"
                    )
                    .into());
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
    let subject = Subject::of(family, mnk, epilogue, named)?;
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

    use super::issue::Unit;
    use super::*;

    /// A kernel of 64x64 by one warpgroup, written by hand after the form of the real ones.
    const SMALL: &str = include_str!("small.sass");

    fn small(mnk: [usize; 3]) -> (Subject, Code) {
        let subject =
            Subject::of(families::predicted(), mnk, "plain", "64x64 by one warpgroup").expect("such a kernel");
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
