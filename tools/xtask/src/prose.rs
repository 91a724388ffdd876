//! How plain the project's prose is: sentences that break the rules of `CONTRIBUTING.md`, counted by rule.
//!
//! The prose is the doc comments of Rust files, the head of each `.cuh` file, and Markdown outside of recorded results. A
//! test fails if a sentence breaks a rule.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::say::say;
use crate::workspace::{Failure, root};

/// A rule's name, and whether a sentence breaks it.
type Rule = (&'static str, fn(&str) -> bool);

const RULES: [Rule; 4] = [
    ("starts with Of, The same, What, Those or Who", starts_with_no_term),
    ("says \"of which\", \"such\" or \"so many\"", has_a_heavy_word),
    ("has two relative clauses", has_two_relative_clauses),
    ("has 25 words or more", is_long),
];

/// Prints the counts, the files that have most, and with a text the sentences of the files whose path contains it.
pub(crate) fn print(of: Option<&str>) -> Result<(), Failure> {
    let findings = Findings::read(&root())?;
    say!("{} sentences", findings.sentences);
    for ((name, _), count) in RULES.iter().zip(findings.counts()) {
        say!("{count:6}  {name}");
    }
    let Some(of) = of else {
        say!("\nfiles with most");
        findings.worst().take(20).for_each(|(file, count)| say!("{count:6}  {}", file.display()));
        return Ok(());
    };
    for (file, broken) in findings.by_file.iter().filter(|(file, _)| file.to_string_lossy().contains(of)) {
        say!("\n{}", file.display());
        broken.iter().for_each(|(rule, sentence)| say!("  {}: {sentence}", RULES[*rule].0));
    }
    Ok(())
}

/// Sentences, by file, with the rule that each breaks.
#[derive(Default)]
struct Findings {
    sentences: usize,
    by_file: BTreeMap<PathBuf, Vec<(usize, String)>>,
}

impl Findings {
    fn read(root: &Path) -> Result<Self, Failure> {
        let mut findings = Self::default();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let within = path.strip_prefix(root)?.to_path_buf();
                if path.is_dir() {
                    let left_out = name.starts_with('.') || name == "target" || within == Path::new("benches/results");
                    folders.extend((!left_out).then_some(path));
                } else if let Some(prose) = Prose::of(&name) {
                    let text = std::fs::read_to_string(&path)?;
                    findings.take(within, &prose.paragraphs(&text));
                }
            }
        }
        Ok(findings)
    }

    fn take(&mut self, file: PathBuf, paragraphs: &[String]) {
        let mut broken = Vec::new();
        for sentence in paragraphs.iter().flat_map(|paragraph| sentences(paragraph)) {
            self.sentences += 1;
            let rules = RULES.iter().enumerate().filter(|(_, (_, breaks))| breaks(&sentence));
            broken.extend(rules.map(|(rule, _)| (rule, sentence.clone())));
        }
        if !broken.is_empty() {
            self.by_file.insert(file, broken);
        }
    }

    fn counts(&self) -> [usize; RULES.len()] {
        let mut counts = [0; RULES.len()];
        self.by_file.values().flatten().for_each(|(rule, _)| counts[*rule] += 1);
        counts
    }

    fn worst(&self) -> impl Iterator<Item = (&PathBuf, usize)> {
        let mut files: Vec<_> = self.by_file.iter().map(|(file, broken)| (file, broken.len())).collect();
        files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        files.into_iter()
    }
}

/// Where a file has its prose.
#[derive(Clone, Copy)]
enum Prose {
    /// Doc comments.
    Rust,
    /// The comment before the first line of code.
    CudaHead,
    /// Everything but code and tables.
    Markdown,
}

impl Prose {
    fn of(name: &str) -> Option<Self> {
        match Path::new(name).extension()?.to_str()? {
            "rs" => Some(Self::Rust),
            "cuh" => Some(Self::CudaHead),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// The text without markers, a string for each paragraph or point of a list.
    fn paragraphs(self, text: &str) -> Vec<String> {
        let mut lines: Vec<Option<&str>> = Vec::new();
        for line in text.lines() {
            let line = line.trim_start();
            match self {
                Self::Markdown => lines.push(Some(line)),
                Self::Rust => lines.push(line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))),
                Self::CudaHead if line.starts_with("//") => lines.push(line.strip_prefix("//")),
                Self::CudaHead if line.is_empty() || line.starts_with("#pragma") => lines.push(None),
                Self::CudaHead => break,
            }
        }
        let mut paragraphs = vec![String::new()];
        let mut in_code = false;
        for line in lines {
            let line = line.map_or("", str::trim);
            let is_fence = line.starts_with("```");
            in_code ^= is_fence;
            let ends = line.is_empty() || is_fence || in_code || line.starts_with(['|', '#']);
            let point = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
            if (ends || point.is_some()) && paragraphs.last().is_some_and(|last| !last.is_empty()) {
                paragraphs.push(String::new());
            }
            if let (false, Some(last)) = (ends, paragraphs.last_mut()) {
                last.push_str(point.unwrap_or(line));
                last.push(' ');
            }
        }
        paragraphs
    }
}

/// The sentences of a paragraph: they end with a full stop, question mark or colon before a space.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for word in paragraph.split_whitespace() {
        if let Some(last) = sentences.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
        let ends = word.trim_end_matches([')', '*', '"']).ends_with(['.', '?', '!', ':', ';']);
        if ends && !["e.g.", "i.e.", "vs.", "etc."].contains(&word) {
            sentences.push(String::new());
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

fn starts_with_no_term(sentence: &str) -> bool {
    ["Of ", "The same", "What ", "Those ", "Who "].iter().any(|start| sentence.starts_with(start))
}

fn has_a_heavy_word(sentence: &str) -> bool {
    let padded = format!(" {sentence} ").replace(" such as ", " as ");
    [" of which ", " of whom ", " such ", " Such ", " so many ", " So many "].iter().any(|words| padded.contains(words))
}

fn has_two_relative_clauses(sentence: &str) -> bool {
    words(sentence).filter(|word| ["which", "who", "whom", "whose"].contains(word)).count() >= 2
}

fn is_long(sentence: &str) -> bool {
    words(sentence).count() >= 25
}

fn words(sentence: &str) -> impl Iterator<Item = &str> {
    let trimmed = sentence.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    trimmed.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sentence_breaks_a_rule() {
        let counts = Findings::read(&root()).expect("readable sources").counts();
        for ((name, _), count) in RULES.iter().zip(counts) {
            assert_eq!(count, 0, "sentences: {name}; `cargo xtask prose --of src` prints them");
        }
    }

    #[test]
    fn sentences_are_found_in_comments_heads_and_pages() {
        let rust = "//! A tile. Of which\n//! there are two.\n//!\n//! ```\n//! code();\n//! ```\nfn f() {} // no prose\n/// Rows.";
        assert_eq!(Prose::Rust.paragraphs(rust), ["A tile. Of which there are two. ", "Rows. "]);
        assert_eq!(sentences("A tile. Of which there are two. "), ["A tile.", "Of which there are two."]);
        let cuda = "// A ring.\n#pragma once\n\nstruct A { // no prose\n";
        assert_eq!(Prose::CudaHead.paragraphs(cuda), ["A ring. ", ""]);
        let page = "# Title\nText.\n\n| a | b |\n- first\n  goes on\n- second";
        assert_eq!(Prose::Markdown.paragraphs(page), ["Text. ", "first goes on ", "second "]);
    }

    #[test]
    fn each_rule_has_sentences_that_break_it() {
        let broken = |sentence: &str| RULES.map(|(_, breaks)| breaks(sentence));
        assert_eq!(broken("Those of a list are kept."), [true, false, false, false]);
        assert_eq!(broken("A table, of which rows are read."), [false, true, false, false]);
        assert_eq!(broken("A type such as f32."), [false; 4]);
        assert_eq!(broken(&"word ".repeat(25)), [false, false, false, true]);
        assert_eq!(broken("A warp, which waits, reads a row whose end is known."), [false, false, true, false]);
    }
}
