//! The steps of each tier, in order, within the time there is.

use std::time::Instant;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::Options;
use crate::record::Results;
use crate::{Failure, Outcome, copy, correctness, gemm, peers, sanitizer, table, te};

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
    steps.extend(sanitizer::steps());
    steps.extend(copy::steps());
    steps.extend(gemm::steps(machine));
    steps.extend(te::steps());
    steps.extend(peers::steps());
    steps.sort_by_key(|step| step.tier);
    steps
}

/// Runs what is left of the tiers up to the one asked for. False if a step failed.
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
        let outcome = (step.run)(&machine);
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
