//! A process that runs steps one after the other, and the side that gives them to it.
//!
//! A kernel that faults destroys its process's GPU context, and one that hangs must be stopped. So no step runs in the
//! process that keeps the results. A worker that has finished a step without an error gets the next one, because
//! loading a GPU's context and libraries takes seconds. Otherwise it is replaced.
//!
//! The worker reads names of steps, one per line. For each it writes the step's records, one JSON object per line, and
//! then one that has `done` or `failed`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::{On, Options};
use crate::{Outcome, agenda, process};

/// `work cuda|emulated|cpu FOLDER [SEED]`: runs the steps whose names are read, until the input ends. If the process
/// that gives them ends before a step is done, this process and what it started end at once.
pub(crate) fn serve(words: &[String]) -> Outcome<()> {
    let (on, out, seed) = match words {
        [on, out] => (on, out, None),
        [on, out, seed] => (on, out, Some(seed.parse::<u64>()?)),
        _ => return Err("usage: epilogue-gpu work cuda|emulated|cpu FOLDER [SEED]".into()),
    };
    let machine = Machine::find(On::parse(on)?)?.writing_to(out);
    let steps = agenda::all(machine.on);
    let busy = Arc::new(AtomicBool::new(false));
    let (sender, names) = mpsc::channel();
    let told = Arc::clone(&busy);
    std::thread::spawn(move || {
        for name in std::io::stdin().lines().map_while(Result::ok) {
            told.store(true, Ordering::SeqCst);
            if sender.send(name).is_err() {
                return;
            }
        }
        if told.load(Ordering::SeqCst) {
            process::end_own_group();
        }
    });
    for name in names {
        // The same cases for any worker, whatever it ran before.
        if let Some(seed) = seed {
            fastrand::seed(seed);
        }
        let step = steps.iter().find(|step| step.name == name).ok_or_else(|| format!("there is no step {name}"));
        let last = match step.map_err(Into::into).and_then(|step| (step.run)(&machine)) {
            Ok(records) => {
                records.iter().for_each(|record| println!("{record}"));
                json!({"done": true})
            }
            Err(failure) => json!({"failed": failure.to_string()}),
        };
        busy.store(false, Ordering::SeqCst);
        println!("{last}");
    }
    Ok(())
}

/// Why a step gave no records.
#[derive(Debug)]
pub(crate) enum Lost {
    /// It failed, or its process did.
    Failed(String),
    /// It was stopped after its time.
    Stopped(Duration),
}

/// A worker, seen from the process that keeps the results.
pub(crate) struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    said: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Worker {
    pub(crate) fn start(options: &Options) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["work", options.on.name()]).arg(&options.out);
        command.args(options.seed.map(|seed| seed.to_string()));
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Outcome<Self> {
        let command = process::in_a_group(command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (orders, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok)) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let errors = errors.map(|errors| std::thread::spawn(move || end_of(errors)));
        Ok(Self { child, orders, said, errors })
    }

    /// Runs one step, in at most this time. After anything but `Ok` the worker can't be used again.
    pub(crate) fn step(&mut self, name: &str, limit: Duration) -> Result<Vec<Value>, Lost> {
        // A worker that takes no more orders says why when it ends.
        let told = self.orders.as_mut().is_some_and(|orders| writeln!(orders, "{name}").is_ok());
        let answer = if told { self.answer(limit) } else { Err(RecvTimeoutError::Disconnected) };
        match answer {
            Ok(outcome) => outcome.map_err(Lost::Failed),
            Err(RecvTimeoutError::Timeout) => Err(Lost::Stopped(limit)),
            Err(RecvTimeoutError::Disconnected) => Err(Lost::Failed(self.last_words())),
        }
    }

    /// The records of a step, or why it failed; an error if neither comes.
    fn answer(&self, limit: Duration) -> Result<Result<Vec<Value>, String>, RecvTimeoutError> {
        let end = Instant::now() + limit;
        let mut records = Vec::new();
        loop {
            let line = self.said.recv_timeout(end.saturating_duration_since(Instant::now()))?;
            match serde_json::from_str::<Value>(&line) {
                Ok(record) if record["done"] == true => return Ok(Ok(records)),
                Ok(record) if record["failed"].is_string() => {
                    return Ok(Err(record["failed"].as_str().unwrap_or_default().to_owned()));
                }
                Ok(record) if record["kind"].is_string() => records.push(record),
                // Other output of libraries is ignored.
                _ => {}
            }
        }
    }

    /// Ends it, whatever it is doing.
    pub(crate) fn kill(mut self) {
        process::end(&mut self.child);
    }

    /// The exit status of a worker that ends by itself, and the end of its error output.
    fn last_words(&mut self) -> String {
        let status = ended_by(&mut self.child, Duration::from_secs(10));
        process::end(&mut self.child);
        let errors = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let status = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
        format!("{status}: {}", errors.trim())
    }
}

impl Drop for Worker {
    /// Lets it end by itself if it is idle; otherwise ends it.
    fn drop(&mut self) {
        drop(self.orders.take());
        ended_by(&mut self.child, Duration::from_secs(5));
        process::end(&mut self.child);
    }
}

/// Waits for the end of a process; `None` if it is still running.
fn ended_by(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}

/// The bytes of a worker's error output that are kept.
const KEPT: usize = 16 << 10;

/// Reads to the end, so that the writer never waits, and keeps the last part.
fn end_of(mut errors: ChildStderr) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Worker {
        Worker::of(Command::new("sh").args(["-c", script])).expect("a shell")
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn records_come_step_by_step() {
        let script = "while read -r name; do echo noise; echo '[1]'; \
                      echo \"{\\\"kind\\\": \\\"$name\\\"}\"; echo '{\"done\": true}'; done";
        let mut worker = shell(script);
        for name in ["one", "two"] {
            assert_eq!(worker.step(name, LIMIT).expect("records"), [json!({"kind": name})]);
        }
    }

    #[test]
    fn failures_say_why() {
        let mut worker = shell("read -r name; echo '{\"kind\": \"x\"}'; echo '{\"failed\": \"no room\"}'");
        assert!(matches!(worker.step("a", LIMIT), Err(Lost::Failed(why)) if why == "no room"));
        let mut worker = shell("read -r name; echo half a re; echo lost >&2; exit 3");
        assert!(matches!(worker.step("a", LIMIT), Err(Lost::Failed(why)) if why.contains("3: lost")));
        let mut worker = shell("exec 0<&-; echo no context >&2; exit 2");
        assert!(matches!(worker.step("a", LIMIT), Err(Lost::Failed(why)) if why.contains("2: no context")));
    }

    /// Processes that a worker started end with it.
    #[test]
    fn a_step_that_hangs_is_stopped_with_its_children() {
        let mark = std::env::temp_dir().join(format!("epilogue-worker-{}", std::process::id()));
        let _ = std::fs::remove_file(&mark);
        let script = format!("read -r name; (sleep 2; touch {}) & yes >&2 | head -c 200000; sleep 60", mark.display());
        let mut worker = shell(&script);
        let stopped = worker.step("a", Duration::from_millis(300));
        assert!(matches!(stopped, Err(Lost::Stopped(_))), "{stopped:?}");
        worker.kill();
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!mark.exists(), "its child went on");
    }
}
