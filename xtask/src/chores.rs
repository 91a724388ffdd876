//! What a command line may ask for: the list of chores, their options, and what `--help` says of each.

use std::fmt::Write as _;

use crate::Failure;

/// One chore.
pub(crate) struct Chore {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [Choice],
    /// What it does, in lines.
    pub(crate) does: &'static [&'static str],
    /// Given what was chosen, checked before.
    pub(crate) run: fn(&Chosen) -> Result<(), Failure>,
}

/// An option of a chore.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    pub(crate) does: &'static str,
}

/// What follows an option.
pub(crate) enum Value {
    None,
    OneOf(&'static [&'static str]),
    /// Anything; the word that help calls it by.
    Any(&'static str),
}

/// The options that were given, in their order, each with its value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen(Vec<(&'static str, String)>);

impl Chosen {
    /// Whether an option was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The value of an option that was given (empty if it takes none), the last one's.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// As words, for another program that takes the same options.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.0.iter().flat_map(|(name, value)| [*name, value.as_str()]).filter(|word| !word.is_empty()).collect()
    }
}

/// What a command line asks for.
pub(crate) enum Asked<'c> {
    Help(String),
    Run(&'c Chore, Chosen),
}

/// Reads a command line; nothing runs. The error says what there is.
pub(crate) fn read<'c>(chores: &'c [Chore], words: &[&str]) -> Result<Asked<'c>, Failure> {
    let Some((name, options)) = words.split_first() else { return Ok(Asked::Help(list(chores))) };
    let is_help = |word: &str| ["help", "--help", "-h"].contains(&word);
    // `help CHORE` is `CHORE --help`.
    let (name, helps) = match options.first() {
        Some(chore) if is_help(name) => (chore, true),
        _ => (name, options.iter().any(|word| *word != "help" && is_help(word))),
    };
    if is_help(name) {
        return Ok(Asked::Help(list(chores)));
    }
    let chore = chores.iter().find(|chore| chore.name == *name);
    let chore = chore.ok_or_else(|| format!("there is no chore `{name}`\n\n{}", list(chores)))?;
    if helps {
        return Ok(Asked::Help(chore.help()));
    }
    Ok(Asked::Run(chore, chore.chosen(options).map_err(|error| format!("{error}\n\n{}", chore.help()))?))
}

/// All chores, each with what it takes and does.
fn list(chores: &[Chore]) -> String {
    let mut text =
        "usage: cargo xtask <chore> [options]; `cargo xtask <chore> --help` says more of its options\n".to_owned();
    for chore in chores {
        let _ = writeln!(text, "\n  {}", chore.usage());
        for line in chore.does {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

impl Chore {
    fn usage(&self) -> String {
        let options: Vec<String> = self.options.iter().map(|choice| format!(" [{}]", choice.usage())).collect();
        format!("{}{}", self.name, options.concat())
    }

    fn help(&self) -> String {
        let mut text = format!("usage: cargo xtask {}\n\n", self.usage());
        for line in self.does {
            let _ = writeln!(text, "{line}");
        }
        for choice in self.options {
            let _ = write!(text, "\n  {}\n      {}", choice.usage(), choice.does);
        }
        text
    }

    fn chosen(&self, words: &[&str]) -> Result<Chosen, Failure> {
        let mut chosen = Chosen::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let choice = self.options.iter().find(|choice| choice.name == *word);
            let choice = choice.ok_or_else(|| format!("`{word}` is no option of `{}`", self.name))?;
            let value = match choice.value {
                Value::None => "",
                Value::Any(_) => words.next().copied().ok_or_else(|| format!("`{word}` needs a value"))?,
                Value::OneOf(allowed) => {
                    let given = words.next().copied().unwrap_or("nothing");
                    let known = allowed.iter().find(|value| **value == given);
                    known.ok_or_else(|| format!("`{word}` takes {}; {given} was given", allowed.join(" or ")))?
                }
            };
            chosen.0.push((choice.name, value.to_owned()));
        }
        Ok(chosen)
    }
}

impl Choice {
    fn usage(&self) -> String {
        match self.value {
            Value::None => self.name.to_owned(),
            Value::OneOf(allowed) => format!("{} {}", self.name, allowed.join("|")),
            Value::Any(word) => format!("{} {word}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHORES: [Chore; 2] = [
        Chore { name: "plain", options: &[], does: &["Does it."], run: |_| Ok(()) },
        Chore {
            name: "other",
            options: &[
                Choice { name: "--all", value: Value::None, does: "Everything." },
                Choice { name: "--arch", value: Value::OneOf(&["old", "new"]), does: "Which." },
                Choice { name: "--of", value: Value::Any("TEXT"), does: "What." },
            ],
            does: &["Does this", "and that."],
            run: |_| Err("it ran".into()),
        },
    ];

    fn said(line: &str) -> String {
        match read(&CHORES, &line.split_whitespace().collect::<Vec<_>>()) {
            Ok(Asked::Help(text)) => text,
            Ok(Asked::Run(chore, chosen)) => format!("{} {}", chore.name, chosen.words().join(" ")),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn help_is_there_for_everything_and_runs_nothing() {
        for line in ["", "help", "--help", "-h"] {
            let text = said(line);
            assert!(text.contains("  plain\n      Does it.\n") && text.contains("  other [--all] [--arch old|new]"));
        }
        for line in ["other --help", "other -h", "other --arch new --help", "help other", "other --wrong -h"] {
            let text = said(line);
            assert!(text.starts_with("usage: cargo xtask other [--all] [--arch old|new] [--of TEXT]"), "{text}");
            assert!(text.contains("Does this\nand that.\n") && text.contains("  --of TEXT\n      What."), "{text}");
        }
    }

    #[test]
    fn options_are_checked_before_anything_runs() {
        assert_eq!(said("plain"), "plain ");
        assert_eq!(said("other --of x --all --arch new"), "other --of x --all --arch new");
        for (line, wrong) in [
            ("other --arch", "`--arch` takes old or new; nothing was given"),
            ("other --arch x", "`--arch` takes old or new; x was given"),
            ("other --of", "`--of` needs a value"),
            ("plain --all", "`--all` is no option of `plain`"),
            ("others", "there is no chore `others`"),
            ("help others", "there is no chore `others`"),
        ] {
            let text = said(line);
            assert!(text.starts_with(&format!("error: {wrong}\n\nusage: ")), "{text}");
        }
    }

    #[test]
    fn the_last_value_counts() {
        let chosen = CHORES[1].chosen(&["--of", "a", "--of", "b"]).expect("options");
        assert_eq!((chosen.value("--of"), chosen.has("--all")), (Some("b"), false));
    }
}
