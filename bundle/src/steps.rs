//! The steps of each tier, in order, within the time there is.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::{On, Options};
use crate::record::Results;
use crate::{Failure, Outcome, conformance, copy, correctness, gemm, peers, sanitizer, table, te};

/// What a step does: it gives its records.
type Run = Box<dyn Fn(&Machine) -> Outcome<Vec<Value>>>;

/// One thing to do, whose records are kept or lost together.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) tier: u8,
    /// About how long it takes on a GPU, to begin nothing that can't end in time.
    pub(crate) seconds: u64,
    pub(crate) run: Run,
}

impl Step {
    pub(crate) fn new(
        name: impl Into<String>,
        tier: u8,
        seconds: u64,
        run: impl Fn(&Machine) -> Outcome<Vec<Value>> + 'static,
    ) -> Self {
        Self { name: name.into(), tier, seconds, run: Box::new(run) }
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
    steps.sort_by_key(|step| step.tier);
    steps
}

/// Runs what is left of the tiers up to the one asked for, each step in a process of its own: a kernel that faults takes
/// its process' GPU context with it, and one that hangs is stopped. False if a step failed.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let began = Instant::now();
    let machine = Machine::find(options.on)?;
    let name = format!("{}", machine.device);
    let mut results = Results::open(&options.out, &machine.commit, &name)?;
    println!("{name}, commit {}; results go to {}", machine.commit, options.out.display());
    let (mut good, mut late) = (true, Vec::new());
    for step in all(&machine) {
        let asked = options.only.as_ref().is_none_or(|text| step.name.contains(text.as_str()));
        if step.tier > options.tier || !asked || results.has(&step.name) {
            continue;
        }
        if began.elapsed().as_secs() + step.seconds > options.budget.as_secs() {
            late.push(step.name);
            continue;
        }
        let start = Instant::now();
        let outcome = apart(&step, options);
        let seconds = start.elapsed().as_secs_f64();
        good &= keep(&mut results, &step.name, outcome, seconds)?;
    }
    let text = table::of(&results.all()?);
    std::fs::write(options.out.join("table.txt"), &text)?;
    println!("{text}");
    if !late.is_empty() {
        println!("no time was left for {} steps; run again to go on: {}", late.len(), late.join(", "));
    }
    Ok(good)
}

/// Runs one step in another process, which prints its records.
fn apart(step: &Step, options: &Options) -> Outcome<Vec<Value>> {
    let said = options.out.join("step.jsonl");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["step", &step.name, options.on.name()]).arg(&options.out);
    let mut child = command.stdout(File::create(&said)?).stderr(Stdio::piped()).spawn()?;
    let limit = Duration::from_secs(30 + 4 * step.seconds);
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

/// `step NAME cuda|emulated FOLDER`: one step, in this process.
pub(crate) fn one(words: &[String]) -> Outcome<()> {
    let [name, on, out] = words else { return Err("usage: epilogue-gpu step NAME cuda|emulated FOLDER".into()) };
    let machine = Machine::find(On::parse(on)?)?.writing_to(out);
    let step = all(&machine).into_iter().find(|step| step.name == *name);
    let step = step.ok_or_else(|| format!("there is no step {name}"))?;
    for record in (step.run)(&machine)? {
        println!("{record}");
    }
    Ok(())
}

/// Writes down what a step gave; false if it failed or found something wrong.
fn keep(results: &mut Results, step: &str, outcome: Result<Vec<Value>, Failure>, seconds: f64) -> Outcome<bool> {
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
            results.add(step, json!({"kind": "end", "ok": false, "seconds": seconds, "error": failure.to_string()}))?;
            println!("{seconds:7.1} s  {step}: FAILED: {failure}");
            Ok(false)
        }
    }
}
