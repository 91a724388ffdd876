//! The CPU device compared with what people use instead: ndarray and plain loops in Rust; numpy, jax (XLA), onnxruntime
//! and torch in Python, as far as they are installed (`cargo xtask peers` installs them).
//!
//! `cargo bench --bench peers -- [words]` measures the rows whose names have all of the words. Contestants take turns,
//! and the time of each is the median over its turns; before that, their results are compared. It uses as many threads
//! as it may: `taskset -c 0 cargo bench …` uses one. It prints a Markdown table with the times. It also has this
//! library's time relative to the fastest of the others (below 1 it is faster). The column `fuse` is this library, too: the
//! work as one program of tensor expressions.

#![allow(clippy::print_stdout, reason = "it prints its results")]

mod contestant;
#[path = "../../examples/common/epilogues.rs"]
mod epilogues;
#[path = "../../examples/minilm/kernels.rs"]
mod kernels;
mod minilm;
#[path = "../../examples/minilm/model.rs"]
#[allow(dead_code, reason = "the example compares vectors, and layers of two devices")]
mod model;
#[path = "../ndarray_rows.rs"]
mod ndarray_rows;
mod ours;
#[path = "../../examples/minilm/program.rs"]
#[allow(dead_code, reason = "the example prints the choice")]
mod program;
mod python;
mod rust;
mod work;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use contestant::Contestant;
use epilogue::Device;
use epilogue_benches::median;
use python::Worker;
use work::Work;

/// The result of the example's model.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The time for which the contestants of a row take turns, and the least number of turns.
const LONG: Duration = Duration::from_secs(2);
const TURNS: usize = 9;
/// The least time of one turn, in seconds.
const TURN: f64 = 2e-3;
/// The pause before each turn. A process that is stopped stops when its main thread has run once more, for which it needs a
/// core; until then its other threads look for work, on a core that the next contestant would have.
const PAUSE: Duration = Duration::from_millis(15);

const PYTHON: [&str; 4] = ["numpy", "jax", "onnxruntime", "torch"];

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}

/// The instructions for vectors and matrices that the CPU says it has (some of its own may be hidden: `avx2.c`).
fn instructions() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid_count;
        let features = __cpuid_count(7, 0).edx;
        let has = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512_bf16", is_x86_feature_detected!("avx512bf16")),
            ("avx512_vnni", is_x86_feature_detected!("avx512vnni")),
            ("amx_bf16", features & 1 << 22 != 0),
            ("amx_int8", features & 1 << 25 != 0),
        ];
        has.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![std::env::consts::ARCH]
}

/// The CPU, the number of threads and the versions.
fn heading(threads: usize, workers: &[Worker]) -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| cpus.lines().find_map(|line| Some(line.strip_prefix(key)?.split_once(": ")?.1.to_owned()));
    let commit = first_line(Command::new("git").args(["describe", "--always", "--dirty"])).unwrap_or_default();
    let versions: Vec<String> = workers.iter().map(Worker::described).collect();
    format!(
        "{} ({}), threads: {threads}, commit {commit}; {}",
        of("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        instructions().join(", "),
        versions.join(", "),
    )
}

/// The median seconds of a call of each contestant.
fn take_turns(contestants: &mut [Contestant<'_>]) -> Vec<f64> {
    let counts: Vec<usize> = contestants
        .iter_mut()
        .map(|contestant| {
            // The first calls also warm up.
            let once = (0..3).map(|_| (contestant.run)(1)).fold(f64::INFINITY, f64::min);
            ((TURN / once).ceil() as usize).clamp(1, 100_000)
        })
        .collect();
    let mut times = vec![Vec::new(); contestants.len()];
    let start = Instant::now();
    while start.elapsed() < LONG || times[0].len() < TURNS {
        for ((contestant, count), times) in contestants.iter_mut().zip(&counts).zip(&mut times) {
            std::thread::sleep(PAUSE);
            times.push((contestant.run)(*count) / *count as f64);
        }
    }
    times.into_iter().map(median).collect()
}

/// An error if the result of a contestant differs from the first one's.
fn check(work: Work, contestants: &[Contestant<'_>]) -> Result<(), String> {
    let Some((ours, others)) = contestants.split_first() else { return Ok(()) };
    for other in others {
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > work.tolerance() * a.abs().max(1.0);
        if other.sample.len() != ours.sample.len() || ours.sample.iter().zip(&other.sample).any(far) {
            return Err(format!("{work}: {:?} here, {:?} by {}", ours.sample, other.sample, other.name));
        }
    }
    Ok(())
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s => format!("{:.3} ms", s * 1e3),
    }
}

fn main() -> ours::Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let threads = std::thread::available_parallelism()?.get();
    let workers: Vec<Worker> = PYTHON.iter().filter_map(|name| Worker::start(name, threads)).collect();
    println!("{}\n", heading(threads, &workers));
    let device = Device::cpu();
    let names: Vec<&str> =
        ["epilogue", "fuse", "ndarray", "loop"].into_iter().chain(workers.iter().map(|w| w.name)).collect();
    println!("| work | {} | ratio to the best |", names.join(" | "));
    println!("|---|{}--:|", "--:|".repeat(names.len()));
    let mut wrong = Vec::new();
    for work in Work::all() {
        if !words.iter().all(|word| work.to_string().contains(word.as_str())) {
            continue;
        }
        let mut contestants = vec![ours::contestant(&device, work)?];
        contestants.extend(ours::fused(&device, work)?);
        let own = contestants.len();
        contestants.extend(rust::contestants(work));
        contestants.extend(workers.iter().filter_map(|worker| worker.contestant(work).ok()));
        wrong.extend(check(work, &contestants).err());
        let times = take_turns(&mut contestants);
        let by_name: BTreeMap<&str, f64> = contestants.iter().map(|c| c.name).zip(times.iter().copied()).collect();
        let best = times[own..].iter().copied().fold(f64::INFINITY, f64::min);
        let cells: Vec<String> =
            names.iter().map(|name| by_name.get(name).map_or_else(String::new, |t| time(*t))).collect();
        println!("| {work} | {} | {:.2} |", cells.join(" | "), times[0] / best);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
