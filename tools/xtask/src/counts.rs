//! The number of tests of each program, held against `tests/counts.txt`: a test that vanishes, with a feature or a module
//! that nothing names any more, fails nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::workspace::{Failure, root};

/// The tests that programs report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The tests that passed, by program.
    passed: BTreeMap<String, u64>,
    ignored: u64,
    program: String,
}

impl Counts {
    /// Reads a line: cargo's lines name the next program, a program's line counts its tests.
    pub(crate) fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", .., file] if file.starts_with('(') => {
                self.program = program(file, words.contains(&"unittests"));
            }
            ["Doc-tests", name] => self.program = format!("{name}, examples in documents"),
            ["test", "result:", ..] => self.add_result(line),
            _ => {}
        }
    }

    /// Reads `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
    fn add_result(&mut self, line: &str) {
        for part in line.split([';', '.']) {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => {
                    *self.passed.entry(self.program.clone()).or_default() += number.parse().unwrap_or(0);
                }
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Adds counts of other programs, or of the programs built in some way.
    pub(crate) fn add(&mut self, other: Self, way: &str) {
        for (program, passed) in other.passed {
            let program = if way.is_empty() { program } else { format!("{program}, {way}") };
            *self.passed.entry(program).or_default() += passed;
        }
        self.ignored += other.ignored;
    }

    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    pub(crate) fn total(&self) -> u64 {
        self.passed.values().sum()
    }

    /// The tests that the file lists.
    pub(crate) fn known() -> Result<u64, Failure> {
        Ok(parse(&std::fs::read_to_string(file())?).values().sum())
    }

    /// Compares with the file.
    ///
    /// # Errors
    /// A program has fewer tests than the file says, or the file doesn't name it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let file = file();
        let known = parse(&std::fs::read_to_string(&file)?);
        let fewer = |(program, count): &(&String, &u64)| self.passed.get(*program).copied().unwrap_or(0) < **count;
        let vanished: Vec<String> = known
            .iter()
            .filter(fewer)
            .map(|(program, count)| {
                format!("{program}: {} tests, there were {count}", self.passed.get(program).copied().unwrap_or(0))
            })
            .collect();
        let new = self.passed.iter().filter(|(program, count)| **count > 0 && !known.contains_key(*program));
        let new = new.map(|(program, count)| format!("{program}: {count} tests, and no line there"));
        let findings: Vec<String> = vanished.into_iter().chain(new).collect();
        if findings.is_empty() {
            return Ok(());
        }
        let (findings, file) = (findings.join("\n"), file.display());
        Err(format!("{findings}\nIf this is meant, write these lines to {file}; all counts now:\n{self}").into())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.passed
            .iter()
            .filter(|(_, count)| **count > 0)
            .try_for_each(|(program, count)| writeln!(f, "{count:5} {program}"))
    }
}

fn file() -> PathBuf {
    root().join("tests/counts.txt")
}

/// The name of a program, as `te` for `(target/debug/deps/te-0123456789abcdef)`.
fn program(file: &str, unit: bool) -> String {
    let file = file.trim_matches(['(', ')']);
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
    if unit { format!("{name}, unit tests") } else { name.to_owned() }
}

fn parse(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (count, program) = line.trim().split_once(' ')?;
        Some((program.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_program() {
        let mut counts = Counts::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/epilogue-0123456789abcdef)",
            "running 7 tests",
            "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "     Running tests/te/main.rs (target/debug/deps/te-0123456789abcdef)",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s",
            "   Doc-tests epilogue_syntax",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            counts.read(line);
        }
        assert_eq!((counts.total(), counts.ignored()), (9, 2));
        let mut all = Counts::default();
        all.add(counts, "small");
        let wanted =
            "    5 epilogue, unit tests, small\n    3 epilogue_syntax, examples in documents, small\n    1 te, small\n";
        assert_eq!(all.to_string(), wanted);
        assert_eq!(parse(wanted), all.passed);
    }
}
