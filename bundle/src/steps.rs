//! The steps of each tier, in order, within the time there is.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use epilogue_runtime::Compiler;
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::{On, Options};
use crate::record::Results;
use crate::{Outcome, conformance, copy, correctness, gemm, peers, sanitizer, table, te};

/// What a step does: it gives its records.
type Run = Box<dyn Fn(&Machine) -> Outcome<Vec<Value>>>;

/// One thing to do, whose records are kept or lost together.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) tier: u8,
    /// About how long it takes on a GPU, to begin nothing that can't end in time.
    pub(crate) seconds: u64,
    /// Whether it measures times, so that nothing else may run meanwhile.
    pub(crate) timed: bool,
    pub(crate) run: Run,
}

impl Step {
    pub(crate) fn new(
        name: impl Into<String>,
        tier: u8,
        seconds: u64,
        run: impl Fn(&Machine) -> Outcome<Vec<Value>> + 'static,
    ) -> Self {
        Self { name: name.into(), tier, seconds, timed: false, run: Box::new(run) }
    }

    /// A step that measures times.
    pub(crate) fn timed(
        name: impl Into<String>,
        tier: u8,
        seconds: u64,
        run: impl Fn(&Machine) -> Outcome<Vec<Value>> + 'static,
    ) -> Self {
        Self { timed: true, ..Self::new(name, tier, seconds, run) }
    }
}

fn all(machine: &Machine) -> Vec<Step> {
    let mut steps = vec![Step::new("machine", 1, 5, |machine| Ok(vec![machine.facts()]))];
    steps.extend(correctness::steps());
    steps.extend(conformance::steps());
    steps.extend(sanitizer::steps());
    steps.extend(copy::steps());
    steps.extend(gemm::steps(machine));
    steps.extend(te::steps());
    steps.extend(peers::steps());
    // What is right comes before how fast it is.
    steps.sort_by_key(|step| (step.tier, step.timed));
    steps
}

/// Runs what is left of the tiers up to the one asked for, each step in a process of its own: a kernel that faults takes
/// its process' GPU context with it, and one that hangs is stopped. Steps that time nothing run side by side. False if a
/// step failed.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let machine = Machine::find(options.on)?;
    let name = format!("{}", machine.device);
    let mut results = Results::open(&options.out, &machine.commit, &name)?;
    println!("{name}, commit {}; results go to {}", machine.commit, options.out.display());
    let asked = |step: &Step| {
        let named = options.only.as_ref().is_none_or(|text| step.name.contains(text.as_str()));
        step.tier <= options.tier && named && !results.has(&step.name)
    };
    let due: Vec<Step> = all(&machine).into_iter().filter(asked).collect();
    let mut budget = Budget { began: Instant::now(), limit: options.budget, late: Vec::new() };
    let mut good = true;
    for alike in due.chunk_by(|x, y| (x.tier, x.timed) == (y.tier, y.timed)) {
        let workers = if alike.first().is_some_and(|step| step.timed) { 1 } else { side_by_side() };
        good &= together(alike, options, workers, &mut budget, &mut results)?;
    }
    let text = table::of(&results.all()?);
    std::fs::write(options.out.join("table.txt"), &text)?;
    println!("{text}");
    let late = &budget.late;
    if !late.is_empty() {
        println!("no time was left for {} steps; run again to go on: {}", late.len(), late.join(", "));
    }
    Ok(good)
}

/// The time there is.
struct Budget {
    began: Instant,
    limit: Duration,
    /// What it did not suffice for.
    late: Vec<String>,
}

/// Processes that run at once where nothing is timed: compiling takes most of their time, on one core each.
fn side_by_side() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8))
}

/// Runs steps, so many at a time, and keeps what they give as they end. False if one failed.
fn together(
    steps: &[Step],
    options: &Options,
    workers: usize,
    budget: &mut Budget,
    results: &mut Results,
) -> Outcome<bool> {
    let left = Mutex::new(steps.iter().map(|step| (step.name.as_str(), step.seconds)).collect::<VecDeque<_>>());
    let (began, limit) = (budget.began, budget.limit);
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (left, sender) = (&left, sender.clone());
            scope.spawn(move || {
                while let Some((name, seconds)) = left.lock().ok().and_then(|mut left| left.pop_front()) {
                    let start = Instant::now();
                    let late = began.elapsed().as_secs() + seconds > limit.as_secs();
                    let outcome = (!late).then(|| apart(name, seconds, options, worker).map_err(|e| e.to_string()));
                    if sender.send((name, outcome, start.elapsed().as_secs_f64())).is_err() {
                        return; // nobody keeps results any more
                    }
                }
            });
        }
        drop(sender);
        let mut good = true;
        for (name, outcome, seconds) in ended {
            match outcome {
                Some(outcome) => good &= keep(results, name, outcome, seconds)?,
                None => budget.late.push(name.to_owned()),
            }
        }
        Ok(good)
    })
}

/// Runs one step in another process, which prints its records.
fn apart(name: &str, seconds: u64, options: &Options, worker: usize) -> Outcome<Vec<Value>> {
    let said = options.out.join(format!("step-{worker}.jsonl"));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["step", name, options.on.name()]).arg(&options.out);
    let mut child = command.stdout(File::create(&said)?).stderr(Stdio::piped()).spawn()?;
    let limit = Duration::from_secs(30 + 4 * seconds);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(format!("it hung: stopped after {} s", limit.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = std::fs::read_to_string(&said)?;
    std::fs::remove_file(&said)?;
    if !status.success() {
        let mut error = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut error)?;
        }
        return Err(format!("{status}: {}", error.trim()).into());
    }
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// `step NAME cuda|emulated|cpu FOLDER`: one step, in this process.
pub(crate) fn one(words: &[String]) -> Outcome<()> {
    let [name, on, out] = words else { return Err("usage: epilogue-gpu step NAME cuda|emulated|cpu FOLDER".into()) };
    let machine = Machine::find(On::parse(on)?)?.writing_to(out);
    let step = all(&machine).into_iter().find(|step| step.name == *name);
    let step = step.ok_or_else(|| format!("there is no step {name}"))?;
    if machine.on != On::Cpu && needs_nvrtc(name) {
        Compiler::find()?; // else every single case would be called wrong
    }
    for record in (step.run)(&machine)? {
        println!("{record}");
    }
    Ok(())
}

/// Whether a step compiles kernels.
fn needs_nvrtc(step: &str) -> bool {
    !["machine", "conformance", "peers"].iter().any(|without| step.starts_with(without))
}

/// Writes down what a step gave; false if it failed or found something wrong.
fn keep(results: &mut Results, step: &str, outcome: Result<Vec<Value>, String>, seconds: f64) -> Outcome<bool> {
    match outcome {
        Ok(records) => {
            let wrong = records.iter().filter(|record| record["kind"] == "wrong").count();
            for record in records {
                results.add(step, record)?;
            }
            results.add(step, json!({"kind": "end", "ok": wrong == 0, "seconds": seconds}))?;
            println!(
                "{:7.1} s  {step}{}",
                seconds,
                if wrong == 0 { String::new() } else { format!(": {wrong} WRONG") }
            );
            Ok(wrong == 0)
        }
        Err(failure) => {
            results.add(step, json!({"kind": "end", "ok": false, "seconds": seconds, "error": failure}))?;
            println!("{seconds:7.1} s  {step}: FAILED: {failure}");
            Ok(false)
        }
    }
}
