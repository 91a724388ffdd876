//! The results file: one JSON object per line, appended when a step ends, so that nothing is lost if a run is
//! interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Outcome;

/// The results of all runs into one folder.
pub(crate) struct Results {
    /// The file; `None` if results are not kept.
    kept: Option<(File, PathBuf)>,
    commit: String,
    device: String,
    done: BTreeSet<String>,
    /// Steps that have failed.
    failed: BTreeSet<String>,
}

impl Results {
    /// Opens or creates `folder/results.jsonl`. Records of another commit or device stay in the file, but are ignored.
    pub(crate) fn open(folder: &Path, commit: &str, device: &str) -> Outcome<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("results.jsonl");
        let before = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let (mut done, mut failed) = (BTreeSet::new(), BTreeSet::new());
        for record in before.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if record["commit"] == commit && record["device"] == device && record["kind"] == "end" {
                let step = record["step"].as_str().unwrap_or_default().to_owned();
                if record["ok"] == true { &mut done } else { &mut failed }.insert(step);
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        if !before.is_empty() && !before.ends_with('\n') {
            writeln!(file)?; // after a line that was cut off
        }
        Ok(Self { kept: Some((file, path)), commit: commit.to_owned(), device: device.to_owned(), done, failed })
    }

    /// Results that are not kept.
    pub(crate) fn none() -> Self {
        let (done, failed) = (BTreeSet::new(), BTreeSet::new());
        Self { kept: None, commit: String::new(), device: String::new(), done, failed }
    }

    /// Whether a step has already succeeded.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.done.contains(step)
    }

    /// Whether a step has been run before, but has never succeeded.
    pub(crate) fn has_failed(&self, step: &str) -> bool {
        self.failed.contains(step) && !self.has(step)
    }

    /// Appends one record of a step.
    pub(crate) fn add(&mut self, step: &str, mut record: Value) -> Outcome<()> {
        record["step"] = json!(step);
        record["commit"] = json!(self.commit);
        record["device"] = json!(self.device);
        if let Some((file, _)) = &mut self.kept {
            writeln!(file, "{record}")?;
        }
        Ok(())
    }

    /// The records of this commit and device: those of the last run of every step, and everything that was ever wrong,
    /// since random cases are new at every run.
    pub(crate) fn all(&self) -> Outcome<Vec<Value>> {
        let Some((_, path)) = &self.kept else { return Ok(Vec::new()) };
        let records = fs::read_to_string(path)?
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|record| record["commit"] == self.commit.as_str() && record["device"] == self.device.as_str())
            .collect();
        Ok(last_runs(records))
    }
}

/// In the order in which steps first ended.
fn last_runs(records: Vec<Value>) -> Vec<Value> {
    let (mut order, mut running, mut ended) = (Vec::new(), BTreeMap::<String, Vec<Value>>::new(), BTreeMap::new());
    for record in records {
        let step = record["step"].as_str().unwrap_or_default().to_owned();
        let ends = record["kind"] == "end";
        running.entry(step.clone()).or_default().push(record);
        if !ends {
            continue;
        }
        let run = running.remove(&step).unwrap_or_default();
        match ended.get_mut(&step) {
            Some(before) => {
                let before: &mut Vec<Value> = before;
                before.retain(|record| record["kind"] == "wrong");
                before.extend(run);
            }
            None => {
                order.push(step.clone());
                ended.insert(step, run);
            }
        }
    }
    order.iter().flat_map(|step| ended.remove(step).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_counts_and_what_was_wrong_stays() {
        let record = |step: &str, kind: &str, run: u8| json!({"step": step, "kind": kind, "run": run});
        let records = vec![
            record("a", "speed", 1),
            record("b", "wrong", 1),
            record("a", "end", 1),
            record("b", "end", 1),
            record("a", "speed", 2),
            record("b", "correct", 2),
            record("b", "end", 2),
            record("c", "speed", 1),
        ];
        let expected = [
            record("a", "speed", 1),
            record("a", "end", 1),
            record("b", "wrong", 1),
            record("b", "correct", 2),
            record("b", "end", 2),
        ];
        assert_eq!(last_runs(records), expected, "a run that was cut short gives nothing");
    }

    #[test]
    fn a_run_goes_on_where_it_stopped() {
        let folder = std::env::temp_dir().join(format!("epilogue-results-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let mut results = Results::open(&folder, "abc", "gpu").expect("results");
        results.add("one", json!({"kind": "end", "ok": true})).expect("written");
        results.add("two", json!({"kind": "end", "ok": false})).expect("written");
        OpenOptions::new()
            .append(true)
            .open(folder.join("results.jsonl"))
            .and_then(|mut file| file.write_all(b"{\"step\": \"three\", \"cut"))
            .expect("written");
        let results = Results::open(&folder, "abc", "gpu").expect("results");
        assert!(results.has("one") && !results.has("two") && !results.has("three"));
        assert!(results.has_failed("two") && !results.has_failed("one") && !results.has_failed("three"));
        assert!(!Results::open(&folder, "abd", "gpu").expect("results").has("one"), "another commit");
        assert!(!Results::open(&folder, "abc", "cpu").expect("results").has("one"), "another device");
        let _ = fs::remove_dir_all(&folder);
    }
}
