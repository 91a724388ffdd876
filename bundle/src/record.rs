//! The results file: one JSON object a line, appended as steps end, so that nothing is lost when a run is cut short.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Outcome;

/// The results of all runs into one folder.
pub(crate) struct Results {
    file: File,
    path: PathBuf,
    commit: String,
    device: String,
    done: BTreeSet<String>,
}

impl Results {
    /// Opens or begins `folder/results.jsonl`. Records of another commit or device stay in the file and count for
    /// nothing.
    pub(crate) fn open(folder: &Path, commit: &str, device: &str) -> Outcome<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("results.jsonl");
        let before = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let done = before
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|record| record["commit"] == commit && record["device"] == device && record["kind"] == "end")
            .filter(|record| record["ok"] == true)
            .filter_map(|record| record["step"].as_str().map(str::to_owned))
            .collect();
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        if !before.is_empty() && !before.ends_with('\n') {
            writeln!(file)?; // a line that was cut short
        }
        Ok(Self { file, path, commit: commit.to_owned(), device: device.to_owned(), done })
    }

    /// Whether a step has ended well before.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.done.contains(step)
    }

    /// Appends one record of a step.
    pub(crate) fn add(&mut self, step: &str, mut record: Value) -> Outcome<()> {
        record["step"] = json!(step);
        record["commit"] = json!(self.commit);
        record["device"] = json!(self.device);
        writeln!(self.file, "{record}")?;
        Ok(())
    }

    /// All records of this commit and device.
    pub(crate) fn all(&self) -> Outcome<Vec<Value>> {
        Ok(fs::read_to_string(&self.path)?
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|record| record["commit"] == self.commit.as_str() && record["device"] == self.device.as_str())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!Results::open(&folder, "abd", "gpu").expect("results").has("one"), "another commit");
        assert!(!Results::open(&folder, "abc", "cpu").expect("results").has("one"), "another device");
        let _ = fs::remove_dir_all(&folder);
    }
}
