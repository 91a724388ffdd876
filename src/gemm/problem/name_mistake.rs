//! Mistakes in the names of arguments.

use std::fmt;

/// A mistake in the names of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMistake {
    /// A name that the epilogue doesn't have.
    Unknown(String),
    /// A name that was given twice.
    Twice(&'static str),
    /// Names that were not given.
    Missing(Vec<&'static str>),
}

impl fmt::Display for NameMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "no argument is named `{name}`"),
            Self::Twice(name) => write!(f, "argument `{name}` is given twice"),
            Self::Missing(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "nothing is given for {}", names.join(", "))
            }
        }
    }
}
