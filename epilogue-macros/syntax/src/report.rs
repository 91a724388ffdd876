//! Every mistake of one function, reported together.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// The mistakes found so far, each at its own token.
#[derive(Default)]
pub struct Errors {
    found: Vec<Error>,
    excused: HashSet<String>,
}

impl Errors {
    /// Adds a mistake at a place.
    pub fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.found.push(Error::new(span, message));
    }

    /// Adds a mistake that consists of these tokens.
    pub fn on(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.found.push(Error::new_spanned(tokens, message));
    }

    /// Adds a mistake that syn found.
    pub fn push(&mut self, error: Error) {
        self.found.push(error);
    }

    /// Adds syn's error for something that must not be there, if there is one.
    pub fn check(&mut self, result: syn::Result<()>) {
        if let Err(error) = result {
            self.found.push(error);
        }
    }

    /// The number of mistakes.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are no mistakes.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Notes names that a mistake would have introduced, so that their absence is not reported, too.
    pub fn excuse(&mut self, names: impl IntoIterator<Item = Ident>) {
        self.excused.extend(names.into_iter().map(|name| name.to_string()));
    }

    /// Whether a name is missing because of a mistake that was reported.
    pub fn is_excused(&self, name: &str) -> bool {
        self.excused.contains(name)
    }

    /// One `compile_error!` for each mistake, in the order of the source; empty when there was none.
    #[must_use]
    pub fn into_tokens(self) -> TokenStream {
        self.into_found().iter().map(Error::to_compile_error).collect()
    }

    /// The mistakes, in the order of the source.
    #[must_use]
    pub fn into_found(mut self) -> Vec<Error> {
        self.found.sort_by_key(|error| {
            let start = error.span().start();
            (start.line, start.column)
        });
        self.found
    }
}

/// `` `a`, `b` or `c` ``
pub fn alternatives(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} or `{last}`", first.join(", "))
        }
    }
}

/// The known name that is most similar to a misspelt one, if any is similar. Among equals it is one of the same length: letters are
/// swapped more often than left out.
pub fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written_lower = written.to_lowercase();
    let length = written.chars().count();
    let (distance, best) = known
        .into_iter()
        .map(|name| (edit_distance(&written_lower, &name.to_lowercase()), name))
        .min_by_key(|(distance, name)| (*distance, name.chars().count().abs_diff(length)))?;
    (distance <= length / 3).then_some(best)
}

/// The number of insertions, deletions, substitutions and swaps of neighbours between two words (optimal string
/// alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edit_distance("tahn", "tanh"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(similar("bta", ["alpha", "beta"]), Some("beta"));
        assert_eq!(similar("add", ["Add", "Mul"]), Some("Add"));
        assert_eq!(similar("tahn", ["tan", "tanh"]), Some("tanh"));
        assert_eq!(similar("gamma", ["alpha", "beta"]), None);
    }
}
