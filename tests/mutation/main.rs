//! Mutants of the project's own kernels (products, automatic reductions and scans). Each is a kernel with one mistake
//! in its synchronisation, and running it must show this: by the race detector, by an error, or by a wrong result.
//!
//! The test runs a fixed sample. `cargo xtask mutate` runs every mutant and prints what found how many. Another test runs
//! the kernels themselves, and those of the other families, in many schedules.
#![allow(clippy::print_stdout, reason = "the full run's table")]

mod convolution;
mod depth;
mod explored;
mod gemm;
mod groups;
mod in_tile;
mod place;
mod survivors;
mod te;
mod trial;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use epilogue_runtime::ptx_vm::mutate::{Mutation, Operator, mutations};
use epilogue_runtime::testing;

use crate::place::Places;
use crate::survivors::{SURVIVORS, Survivor};
use crate::trial::{Bench, Kill, Subject};

/// Mutants of each kernel in the sample, which has every other kernel, times `EPILOGUE_CASES`.
const SAMPLE: u32 = 6;

/// Lines of PTX that are printed before and after a mutated one.
const AROUND: usize = 12;

/// The result for one mutant.
struct Fate {
    operator: Operator,
    kill: Option<Kill>,
    /// The entry of the list that it matches.
    known: Option<usize>,
    text: String,
}

/// The known survivor that matches a mutant.
fn known(subject: &dyn Subject, mutation: &Mutation, instruction: &str, calls: &[&str]) -> Option<usize> {
    let is_it = |s: &Survivor| {
        s.operator == mutation.operator
            && subject.name().contains(s.kernels)
            && instruction.starts_with(s.instruction)
            && calls.join(" < ").contains(s.place)
    };
    SURVIVORS.iter().position(is_it)
}

/// A sample of a kernel's mutants, the same in every run, or all of them.
fn chosen(ptx: &str, all: bool, seed: usize) -> Vec<Mutation> {
    let mut left: Vec<Mutation> = mutations(ptx).collect();
    if all {
        return left;
    }
    fastrand::Rng::with_seed(seed as u64).shuffle(&mut left);
    left.truncate(testing::cases(SAMPLE) as usize);
    left
}

/// The statements before and after a line of PTX.
fn around(ptx: &str, line: usize) -> String {
    let (from, to) = (line.saturating_sub(AROUND), line + AROUND);
    let statements = ptx.lines().zip(1..).filter(|(text, number)| {
        (from..=to).contains(number) && !text.trim().is_empty() && !text.trim_start().starts_with(".loc")
    });
    statements.map(|(text, number)| format!("\n    {number:5} {}", text.trim())).collect()
}

/// The fates of a kernel's mutants.
fn try_mutants(subject: &dyn Subject, number: usize, all: bool) -> Result<Vec<Fate>, String> {
    let bench = Bench::new(subject)?;
    let places = Places::new(&bench.text.ptx, &bench.text.source, &bench.text.file);
    let fates = chosen(&bench.text.ptx, all, number).into_iter().map(|mutation| {
        let killed = bench.kill(&mutation.apply(&bench.text.ptx));
        let calls = places.calls(mutation.line);
        let instruction = mutation.statement(&bench.text.ptx).split_whitespace().collect::<Vec<_>>().join(" ");
        let text = format!(
            "{}, {:?}: {}\n    `{}` from {}{}",
            subject.name(),
            mutation.operator,
            mutation.description,
            instruction,
            calls.join(" < "),
            match &killed {
                Some((kill, why)) => format!("\n    {kill:?}: {why}"),
                None => around(&bench.text.ptx, mutation.line),
            },
        );
        let known = known(subject, &mutation, &instruction, &calls);
        Fate { operator: mutation.operator, kill: killed.map(|(kill, _)| kill), known, text }
    });
    let fates: Vec<Fate> = fates.collect();
    if all {
        let killed = fates.iter().filter(|fate| fate.kill.is_some()).count();
        println!("{}: {killed} of {} mutants are found out", subject.name(), fates.len());
    }
    Ok(fates)
}

/// All kernels.
fn subjects() -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    subjects.extend(gemm::ampere().into_iter().chain(gemm::hopper()).map(|s| Box::new(s) as Box<dyn Subject>));
    subjects.extend(groups::all().into_iter().map(|s| Box::new(s) as Box<dyn Subject>));
    subjects.extend(depth::all().into_iter().map(|s| Box::new(s) as Box<dyn Subject>));
    subjects.extend(convolution::all().into_iter().map(|s| Box::new(s) as Box<dyn Subject>));
    subjects.extend(in_tile::all().into_iter().map(|s| Box::new(s) as Box<dyn Subject>));
    subjects.extend(te::all());
    subjects
}

/// Tries all subjects whose name contains a text, on all cores.
fn run(wanted: &str, all: bool) -> Vec<Result<Vec<Fate>, String>> {
    let mut subjects = subjects();
    subjects.retain(|s| s.name().contains(wanted));
    if !all && wanted.is_empty() {
        subjects = subjects.into_iter().step_by(2).collect();
    }
    if subjects.is_empty() {
        let names: Vec<String> = self::subjects().iter().map(|s| s.name()).collect();
        return vec![Err(format!("no kernel's name contains `{wanted}`; there are: {}", names.join("; ")))];
    }
    on_all_cores(subjects.len(), |number| try_mutants(subjects[number].as_ref(), number, all))
}

/// Does work that is numbered from 0, on all cores. Gives the results in order.
fn on_all_cores<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let result = work(number);
            done.lock().expect("no thread panics").push((number, result));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(take))));
    let mut done = done.into_inner().expect("no thread panics");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Mutants by operator: how many there are, how many each kind of evidence killed, and survivors.
fn table(fates: &[Fate]) -> String {
    let mut rows: BTreeMap<Operator, BTreeMap<Option<Kill>, usize>> = BTreeMap::new();
    for fate in fates {
        *rows.entry(fate.operator).or_default().entry(fate.kill).or_default() += 1;
    }
    let mut text = String::from("operator        mutants   race  stopped  wrong  refused  survived\n");
    for (operator, counts) in rows {
        let of = |kill| counts.get(&kill).copied().unwrap_or(0);
        let all: usize = counts.values().sum();
        let [race, stopped, wrong, refused] =
            [Kill::Race, Kill::Stopped, Kill::Wrong, Kill::Refused].map(|kill| of(Some(kill)));
        let operator = format!("{operator:?}");
        let _ = writeln!(text, "{operator:14}  {all:7}  {race:5}  {stopped:7}  {wrong:5}  {refused:7}  {:8}", of(None));
    }
    text
}

#[test]
fn mutants_are_found_out() {
    if testing::compiler("mutants_are_found_out").is_none() {
        return;
    }
    let all = std::env::var("EPILOGUE_MUTANTS").is_ok_and(|which| which == "all");
    let wanted = std::env::var("EPILOGUE_MUTANTS_OF").unwrap_or_default();
    let (mut fates, mut wrong) = (Vec::new(), Vec::new());
    for outcome in run(&wanted, all) {
        match outcome {
            Ok(of_kernel) => fates.extend(of_kernel),
            Err(error) => wrong.push(error),
        }
    }
    for fate in &fates {
        if fate.kill.is_none() && fate.known.is_none() {
            wrong.push(format!("survives: {}", fate.text));
        }
    }
    if all {
        println!("{}", table(&fates));
        for (number, survivor) in SURVIVORS.iter().enumerate() {
            let count = fates.iter().filter(|fate| fate.kill.is_none() && fate.known == Some(number)).count();
            let Survivor { operator, kernels, instruction, place, reason } = survivor;
            println!("{count} survive: {operator:?} of `{instruction}` from `{place}` in {kernels:?}: {reason}");
            if count == 0 && wanted.is_empty() {
                wrong.push(format!("no mutant is the survivor {operator:?} of `{instruction}` from `{place}`"));
            }
        }
        let killed = fates.iter().filter(|fate| fate.kill.is_some()).count();
        println!("{killed} of {} mutants are found out", fates.len());
    }
    assert!(wrong.is_empty(), "{} of {} mutants:\n{}", wrong.len(), fates.len(), wrong.join("\n"));
}
