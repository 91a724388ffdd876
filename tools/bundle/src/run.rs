//! Runs the steps that are due within the available time, and keeps the results.

use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use epilogue_runtime::Compiler;
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::{On, Options};
use crate::record::Results;
use crate::step::Step;
use crate::watch::Watch;
use crate::worker::{Lost, Worker};
use crate::{Outcome, agenda, estimate, table};

/// How long after the available time a step that began in time is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Runs what is left of the tiers up to the one that is asked for. Steps that time nothing run side by side. False if a
/// step failed or found something wrong.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    if options.list {
        print!("{}", estimate::list(options)?);
        return Ok(true);
    }
    let machine = Machine::find(options.on).map_err(|failure| match options.on {
        On::Cuda => format!("{failure}; `--device emulated` and `--device cpu` rehearse without a GPU").into(),
        _ => failure,
    })?;
    let name = format!("{}", machine.device);
    let mut results = Results::open(&options.out, &machine.commit, &name)?;
    println!("{name}, commit {}; results go to {}", machine.commit, options.out.display());
    agenda::check_only(options)?;
    let mut parts = agenda::due(options, &results);
    skip_without_nvrtc(options.on, &mut parts, &mut results)?;
    let mut budget = Budget { began: Instant::now(), limit: options.budget, late: Vec::new() };
    let mut good = true;
    let watch = Watch::start(options.on);
    for part in &parts {
        // In a rehearsal, times have no meaning.
        let alone = options.on == On::Cuda && part.iter().any(|step| step.timed);
        let workers = if alone { 1 } else { agenda::side_by_side(cores()) };
        good &= together(part, options, workers, &watch, &mut budget, &mut results)?;
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

/// Without NVRTC, steps that compile kernels are left for another run.
fn skip_without_nvrtc(on: On, parts: &mut Vec<Vec<Step>>, results: &mut Results) -> Outcome<()> {
    let Err(absent) = Compiler::find() else { return Ok(()) };
    if on == On::Cpu {
        return Ok(());
    }
    let count = |parts: &[Vec<Step>]| parts.iter().map(Vec::len).sum::<usize>();
    let before = count(parts);
    parts.iter_mut().for_each(|part| part.retain(|step| !step.needs_nvrtc));
    parts.retain(|part| !part.is_empty());
    let skipped = before - count(parts);
    if skipped > 0 {
        let why = format!("{skipped} steps compile kernels, and {absent}");
        results.add("nvrtc", json!({"kind": "skipped", "why": why}))?;
        results.add("nvrtc", json!({"kind": "end", "ok": true, "seconds": 0}))?;
    }
    Ok(())
}

/// The available time.
struct Budget {
    began: Instant,
    limit: Duration,
    /// The steps for which there was not enough time.
    late: Vec<String>,
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The outcome of a step.
enum Outcomes {
    Records(Vec<Value>),
    Failed(String),
    /// There was no time for it.
    Late,
}

/// Runs steps, `workers` at a time, and keeps their results as they end. False if one failed.
fn together(
    steps: &[Step],
    options: &Options,
    workers: usize,
    watch: &Watch,
    budget: &mut Budget,
    results: &mut Results,
) -> Outcome<bool> {
    let left = Mutex::new(steps.iter().map(|step| (step.name.as_str(), step.seconds)).collect::<VecDeque<_>>());
    let end = budget.began + budget.limit;
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(steps.len()) {
            let (left, sender) = (&left, sender.clone());
            scope.spawn(move || {
                let mut worker = None;
                while let Some((name, seconds)) = left.lock().ok().and_then(|mut left| left.pop_front()) {
                    let start = Instant::now();
                    let outcome = one(&mut worker, options, name, seconds, end);
                    if sender.send((name, outcome, start, Instant::now())).is_err() {
                        return; // results are no longer received
                    }
                }
            });
        }
        drop(sender);
        let mut good = true;
        for (name, outcome, start, end) in ended {
            let (seconds, seen) = ((end - start).as_secs_f64(), watch.seen(start, end));
            match outcome {
                Outcomes::Records(records) => good &= keep(results, name, records, seconds, &seen)?,
                Outcomes::Failed(failure) => {
                    results.add(
                        name,
                        json!({"kind": "end", "ok": false, "seconds": seconds, "seen": seen, "error": failure}),
                    )?;
                    println!("{seconds:7.1} s  {name}: FAILED: {failure}");
                    good = false;
                }
                Outcomes::Late => budget.late.push(name.to_owned()),
            }
        }
        Ok(good)
    })
}

/// Runs one step, with the worker at this place or a new one. The worker stays if the step ended without an error.
fn one(place: &mut Option<Worker>, options: &Options, name: &str, seconds: u64, end: Instant) -> Outcomes {
    let left = end.saturating_duration_since(Instant::now());
    if left < Duration::from_secs(seconds) {
        return Outcomes::Late;
    }
    let own = Duration::from_secs(60 + 2 * seconds);
    let mut worker = match place.take().map_or_else(|| Worker::start(options), Ok) {
        Ok(worker) => worker,
        Err(failure) => return Outcomes::Failed(failure.to_string()),
    };
    match worker.step(name, own.min(left + GRACE)) {
        Ok(records) => {
            if records.iter().all(|record| record["kind"] != "wrong") {
                *place = Some(worker);
            }
            Outcomes::Records(records)
        }
        Err(Lost::Failed(why)) => Outcomes::Failed(why),
        Err(Lost::Stopped(limit)) => {
            worker.kill();
            // A step that is stopped because the available time is over has not failed.
            if limit < own {
                Outcomes::Late
            } else {
                Outcomes::Failed(format!("it hung: stopped after {} s", limit.as_secs()))
            }
        }
    }
}

/// Keeps the results of a step; false if it found something wrong.
fn keep(results: &mut Results, step: &str, records: Vec<Value>, seconds: f64, seen: &Value) -> Outcome<bool> {
    let wrong = records.iter().filter(|record| record["kind"] == "wrong").count();
    for record in records {
        results.add(step, record)?;
    }
    results.add(step, json!({"kind": "end", "ok": wrong == 0, "seconds": seconds, "seen": seen}))?;
    println!("{seconds:7.1} s  {step}{}", if wrong == 0 { String::new() } else { format!(": {wrong} WRONG") });
    Ok(wrong == 0)
}
