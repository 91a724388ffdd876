//! Python's libraries, each in a process that lives for the whole bench (`worker.py`). A process is stopped while it is
//! not its turn: the libraries' threads spin while they wait for work, and would take cores from the others.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::contestant::Contestant;
use crate::minilm;
use crate::work::Work;

const WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/worker.py");

/// A library's process.
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    version: String,
    child: Child,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

fn named(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where `cargo xtask` installs tools.
pub(crate) fn tools() -> PathBuf {
    named("EPILOGUE_TOOLS").unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.tools")))
}

/// The Python that `cargo xtask peers` installed, or that `EPILOGUE_PEERS` names.
fn python() -> PathBuf {
    named("EPILOGUE_PEERS").unwrap_or_else(|| tools().join("peers/bin/python"))
}

impl Worker {
    /// Starts a library's process; `None` if the library is not installed.
    pub(crate) fn start(name: &'static str, threads: usize) -> Option<Self> {
        let mut child = Command::new(python())
            .args([WORKER, name])
            .env("PEER_THREADS", threads.to_string())
            .env("PEER_MINILM", minilm::folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let pipes = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut worker = Self { name, version: String::new(), child, pipes: RefCell::new(pipes) };
        let hello = worker.answer()?;
        worker.version = hello.strip_prefix("hello ")?.to_owned();
        worker.pause(true)?;
        Some(worker)
    }

    /// The library and its version.
    pub(crate) fn described(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn answer(&self) -> Option<String> {
        let mut line = String::new();
        let read = self.pipes.borrow_mut().1.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim().to_owned())
    }

    #[cfg(unix)]
    fn pause(&self, paused: bool) -> Option<()> {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), if paused { Signal::STOP } else { Signal::CONT }).ok()
    }

    #[cfg(not(unix))]
    fn pause(&self, _paused: bool) -> Option<()> {
        Some(())
    }

    /// Lets the process go on until it has answered.
    fn ask(&self, question: &str) -> Option<String> {
        self.pause(false)?;
        {
            let (stdin, _) = &mut *self.pipes.borrow_mut();
            writeln!(stdin, "{question}").ok()?;
            stdin.flush().ok()?;
        }
        let answer = self.answer();
        self.pause(true)?;
        answer
    }

    /// The library as a contestant for a work, or why it is not one.
    pub(crate) fn contestant(&self, work: Work) -> Result<Contestant<'_>, String> {
        let answer = self.ask(&format!("prepare {}", work.words())).ok_or("it has ended")?;
        let Some(sample) = answer.strip_prefix("ready ") else {
            return Err(answer.strip_prefix("no ").unwrap_or(&answer).to_owned());
        };
        let sample = sample.split(' ').filter_map(|x| x.parse().ok()).collect();
        let run = |count| self.ask(&format!("run {count}")).and_then(|x| x.parse().ok()).expect("the worker runs");
        Ok(Contestant { name: self.name, run: Box::new(run), sample })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
