//! The parts of a run of tests, with the time of each: of this run, and, when it begins, of the last one here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::say::say;
use crate::workspace::{Failure, root};

/// The parts that are done.
pub(crate) struct Parts {
    /// Where the times are kept for the next run.
    file: PathBuf,
    last: BTreeMap<String, f64>,
    done: Vec<(String, Duration)>,
    begun: Instant,
}

impl Parts {
    /// The parts of a run of this name. Says how long it takes: by the last run that ended here, else `otherwise`.
    pub(crate) fn begin(run: &str, otherwise: &str) -> Self {
        let file = root().join(format!("target/xtask-{run}.seconds"));
        let last = parse(&std::fs::read_to_string(&file).unwrap_or_default());
        if last.is_empty() {
            say!("this takes {otherwise}");
        } else {
            say!("the last run here took {}", minutes(last.values().sum()));
        }
        Self { file, last, done: Vec::new(), begun: Instant::now() }
    }

    /// Runs a part.
    pub(crate) fn time<T>(&mut self, name: &str, part: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let expected =
            self.last.get(name).map_or_else(String::new, |last| format!(" ({} at the last run)", minutes(*last)));
        say!("=== {name}{expected}, {} after the beginning", minutes(self.begun.elapsed().as_secs_f64()));
        let start = Instant::now();
        let done = part();
        self.done.push((name.to_owned(), start.elapsed()));
        if done.is_err() {
            self.print();
        }
        done
    }

    /// Prints the times.
    fn print(&self) {
        let mut total = Duration::ZERO;
        say!("seconds");
        for (name, time) in &self.done {
            total += *time;
            say!("{:8.1}  {name}", time.as_secs_f64());
        }
        say!("{:8.1}  together", total.as_secs_f64());
    }

    /// Prints the times, and keeps them: every part was run to its end.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.print();
        // `CARGO_TARGET_DIR` may be another folder.
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&self.file, text(&self.done))?;
        Ok(())
    }
}

fn text(done: &[(String, Duration)]) -> String {
    done.iter().map(|(name, time)| format!("{:.1} {name}\n", time.as_secs_f64())).collect()
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (seconds, name) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok().filter(|seconds: &f64| seconds.is_finite())?))
    };
    text.lines().filter_map(line).collect()
}

/// `45 s`, `3.5 min`
pub(crate) fn minutes(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept() {
        let done =
            [("build".to_owned(), Duration::from_millis(61_500)), ("doc tests".to_owned(), Duration::from_secs(3))];
        let last = parse(&text(&done));
        assert_eq!(last.into_iter().collect::<Vec<_>>(), [("build".to_owned(), 61.5), ("doc tests".to_owned(), 3.0)]);
        assert!(parse("nothing\nNaN build\n").is_empty());
        assert_eq!((minutes(89.0), minutes(210.0)), ("89 s".to_owned(), "3.5 min".to_owned()));
    }
}
