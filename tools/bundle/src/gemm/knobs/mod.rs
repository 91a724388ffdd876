//! The gain of each knob of a family's kernels (a file each), and the measurements to which the cost model's constants are fitted.

mod sm90;
mod turn;

use std::cell::RefCell;

use epilogue::evt::Tree;
use epilogue::gemm::{Builder, Candidate, KernelKey};
use epilogue::{Device, ElementType, Gemm};
use serde_json::{Value, json};

use self::turn::Turn;
use super::shapes::Shape;
use super::workload::Workload;
use super::{ROTATED, builder, epilogues};
use crate::Outcome;
use crate::machine::Machine;
use crate::step::Step;
use crate::timing::{Contender, Timer};

/// The products for which knobs are turned one by one: large, medium, short K, long K, few rows.
const TURNED: [[usize; 3]; 5] =
    [[8192, 8192, 8192], [4096, 4096, 4096], [4096, 4096, 1024], [1024, 1024, 65536], [16, 8192, 8192]];

/// The epilogues with which knobs are turned: the cheapest and one with everything, if the type has both.
const EPILOGUES: [&str; 3] = ["plain", "bias_gelu_residual", "scaled"];

pub(crate) fn steps(shape: Shape) -> Vec<Step> {
    let mut steps = Vec::new();
    let at = format!("{}/{}", shape.element, shape.name());
    for named in epilogues::of(shape.element).into_iter().filter(|named| EPILOGUES.contains(&named.name)) {
        let (tree, name) = (named.tree, named.name);
        let step = |what: &str, seconds, run: fn(&Machine, &Race<'_>) -> Outcome<Vec<Value>>| {
            let run = move |machine: &Machine| run(machine, &Race { shape: &shape, epilogue: name, tree: tree() });
            Step::timed(format!("{what}/gemm/{at}/{name}"), 3, seconds, run)
        };
        // In a rehearsal no shape is one of these.
        if TURNED.contains(&[shape.m, shape.n, shape.k]) || shape.k < 256 {
            steps.push(step("knobs", 60, knobs));
        }
        steps.push(step("candidates", 60, candidates));
        if shape.headline {
            steps.push(step("autotune", 60, autotune));
        }
        if shape.headline && shape.element == ElementType::BF16 && name == EPILOGUES[0] {
            let of = move |run: fn(&Machine, &Race<'_>) -> Outcome<Vec<Value>>| {
                move |machine: &Machine| run(machine, &Race { shape: &shape, epilogue: name, tree: tree() })
            };
            let picked = format!("picks/gemm/{at}/{name}");
            steps.push(Step::new(format!("kernels/{picked}"), 1, 4, of(prepare_picks)).preparing(&picked));
            steps.push(Step::timed(picked, 1, shape.race_seconds(), of(picks)));
        }
    }
    steps
}

/// Kernels for one product and epilogue.
struct Race<'a> {
    shape: &'a Shape,
    epilogue: &'static str,
    tree: Tree,
}

impl Race<'_> {
    fn workload(&self, machine: &Machine) -> Outcome<Workload> {
        let rotation = if machine.is_rehearsal() { 1 } else { ROTATED };
        Workload::new(&machine.device, &self.tree, self.shape, rotation)
    }

    fn model(&self, device: &Device) -> Outcome<Gemm> {
        Ok(builder(device, self.tree.clone(), self.shape).plan()?)
    }

    /// Every kernel's median in microseconds, from interleaved runs; `None` in a rehearsal, where each runs once.
    fn run(&self, machine: &Machine, gemms: &[Gemm]) -> Outcome<Vec<Option<f64>>> {
        let workload = RefCell::new(self.workload(machine)?);
        let contender = |gemm| {
            let workload = &workload;
            Contender { name: String::new(), run: Box::new(move |i| workload.borrow_mut().run(gemm, i)) }
        };
        let mut contenders: Vec<Contender<'_>> = gemms.iter().map(contender).collect();
        let times = Timer::new(&machine.device)?.race(&mut contenders)?;
        Ok(times.iter().map(|times| (!machine.is_rehearsal()).then_some(times.median * 1e3)).collect())
    }

    fn record(&self, machine: &Machine, kind: &str, rows: &[Value]) -> Value {
        let Shape { m, n, k, element, .. } = self.shape;
        json!({
            "kind": kind, "shape": [m, n, k], "layout": self.shape.layout(), "element": element.to_string(),
            "epilogue": self.epilogue, "rows": rows, "clocks": machine.clocks(),
        })
    }
}

fn row(candidate: &Candidate, measured_us: Option<f64>) -> Value {
    json!({"candidate": candidate.to_string(), "predicted_us": candidate.microseconds, "measured_us": measured_us})
}

/// All plans, compiled by all cores.
fn compiled(builders: &[Builder]) -> Outcome<Vec<Gemm>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut gemms = Vec::new();
    for portion in builders.chunks(cores) {
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = portion.iter().map(|builder| scope.spawn(|| builder.clone().plan())).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for gemm in made {
            gemms.push(gemm.map_err(|_| "a kernel's compilation panicked")??);
        }
    }
    Ok(gemms)
}

/// The candidates that are timed beside the model's choice in tier 1.
const NEXT: usize = 5;

/// The plans of the model's choice and of the candidates that come next.
fn picked(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Gemm>> {
    let count = if machine.is_rehearsal() { 2 } else { 1 + NEXT };
    let chosen = race.model(&machine.device)?;
    let candidates = chosen.choice().candidates().iter().take(count);
    let of = |candidate| builder(&machine.device, race.tree.clone(), race.shape).candidate(candidate);
    compiled(&candidates.map(of).collect::<Vec<_>>())
}

fn prepare_picks(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Value>> {
    picked(machine, race)?;
    Timer::new(&machine.device)?;
    Ok(Vec::new())
}

/// Whether the model's choice is the best one: its time beside those of the candidates that come next.
fn picks(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Value>> {
    let gemms = picked(machine, race)?;
    if gemms.is_empty() {
        return Ok(vec![json!({"kind": "skipped", "why": "this device has no kernels to choose among"})]);
    }
    let times = race.run(machine, &gemms)?;
    let rows = gemms.iter().zip(times).enumerate().filter_map(|(place, (gemm, time))| {
        let mut row = row(gemm.choice().kernel()?, time);
        row["by"] = json!(if place == 0 { "model".to_owned() } else { format!("candidate {}", place + 1) });
        Some(row)
    });
    Ok(vec![race.record(machine, "picks", &rows.collect::<Vec<_>>())])
}

/// The kernels that the model ranks best, and the best of a family that is not among them: the model's constants are
/// fitted to their times.
fn candidates(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Value>> {
    let limit = if machine.is_rehearsal() { 2 } else { 12 };
    let chosen = race.model(&machine.device)?;
    if chosen.choice().candidates().is_empty() {
        return Ok(vec![json!({"kind": "skipped", "why": "this device has no kernels to choose among"})]);
    }
    let all = chosen.choice().candidates();
    let mut timed: Vec<&Candidate> = all.iter().take(limit).collect();
    for candidate in all {
        if timed.iter().all(|other| other.key.family() != candidate.key.family()) {
            timed.push(candidate);
        }
    }
    let builder = |candidate| builder(&machine.device, race.tree.clone(), race.shape).candidate(candidate);
    let gemms = compiled(&timed.into_iter().map(builder).collect::<Vec<_>>())?;
    let times = race.run(machine, &gemms)?;
    let rows = gemms.iter().zip(times).filter_map(|(gemm, time)| Some(row(gemm.choice().kernel()?, time)));
    Ok(vec![race.record(machine, "candidates", &rows.collect::<Vec<_>>())])
}

/// The kernel that measuring chooses, compared with the model's choice.
fn autotune(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "only a GPU has a clock to tune by"})]);
    }
    let model = race.model(&machine.device)?;
    let tuned = race.workload(machine)?.autotuned(&model)?;
    let gemms = [model, tuned];
    let times = race.run(machine, &gemms)?;
    let rows = gemms.iter().zip(times).zip(["model", "autotune"]).filter_map(|((gemm, time), by)| {
        let mut row = row(gemm.choice().kernel()?, time);
        row["by"] = json!(by);
        Some(row)
    });
    Ok(vec![race.record(machine, "autotune", &rows.collect::<Vec<_>>())])
}

/// The model's choice with all its knobs fixed, and with one after another turned.
fn knobs(machine: &Machine, race: &Race<'_>) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let model = race.model(device)?;
    let turns = model.choice().kernel().map(turns).unwrap_or_default();
    if turns.is_empty() {
        return Ok(vec![json!({"kind": "skipped", "why": "the family of the chosen kernel has no knobs of its own"})]);
    }
    let (mut builders, mut turned) = (Vec::new(), vec![("none", String::new())]);
    let mut refused = Vec::new();
    for Turn { knob, value, turned: with } in turns {
        let builder = with(builder(device, race.tree.clone(), race.shape));
        match builder.choose() {
            Ok(_) => {
                builders.push(builder);
                turned.push((knob, value));
            }
            Err(error) => refused.push(json!({"knob": knob, "value": value, "refused": error.to_string()})),
        }
    }
    if machine.is_rehearsal() {
        builders.truncate(4);
    }
    let mut gemms = vec![model];
    gemms.extend(compiled(&builders)?);
    let times = race.run(machine, &gemms)?;
    let rows = gemms.iter().zip(times).zip(turned).filter_map(|((gemm, time), (knob, value))| {
        let mut row = row(gemm.choice().kernel()?, time);
        (row["knob"], row["value"]) = (json!(knob), json!(value));
        Some(row)
    });
    Ok(vec![race.record(machine, "knobs", &rows.chain(refused).collect::<Vec<_>>())])
}

/// Every value of every knob that the family of a kernel has, except those that the kernel has.
fn turns(candidate: &Candidate) -> Vec<Turn> {
    match &candidate.key {
        KernelKey::Sm90(key) => sm90::turns(key, candidate.split_k),
        KernelKey::Sm80(_) => Vec::new(),
    }
}
