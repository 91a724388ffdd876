//! Mistakes in a text, shown where they are.

use std::fmt;

use proc_macro2::Span;

/// A text, and what messages call it.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file's path, or a word for the command line.
    pub name: String,
    /// The text.
    pub text: String,
}

/// All mistakes of a text, in its order, each with its line.
#[derive(Debug)]
pub struct Mistakes {
    name: String,
    found: Vec<Mistake>,
}

#[derive(Debug)]
struct Mistake {
    line: usize,
    /// From 1.
    column: usize,
    /// The line as it stands in the text.
    shown: String,
    /// Characters of it that are wrong.
    width: usize,
    message: String,
}

impl Mistakes {
    /// Mistakes by the places that they stand at.
    #[must_use]
    pub fn of(text: &Text, found: impl IntoIterator<Item = syn::Error>) -> Self {
        let lines: Vec<&str> = text.text.lines().collect();
        let found = found.into_iter().flatten().map(|error| Mistake::new(&lines, error.span(), error.to_string()));
        Self { name: text.name.clone(), found: found.collect() }
    }

    /// One mistake of the text as a whole.
    #[must_use]
    pub fn whole(text: &Text, message: impl Into<String>) -> Self {
        let mistake = Mistake { line: 0, column: 0, shown: String::new(), width: 0, message: message.into() };
        Self { name: text.name.clone(), found: vec![mistake] }
    }

    /// One mistake at a line and a column, both from 1; a line of 0 is none.
    #[must_use]
    pub fn at(text: &Text, line: u32, column: u32, message: String) -> Self {
        let (line, column) = (line as usize, column as usize);
        let shown = line.checked_sub(1).and_then(|line| text.text.lines().nth(line)).unwrap_or_default().to_owned();
        Self { name: text.name.clone(), found: vec![Mistake { line, column, shown, width: 1, message }] }
    }
}

impl Mistake {
    fn new(lines: &[&str], span: Span, message: String) -> Self {
        let (start, end) = (span.start(), span.end());
        let shown = start.line.checked_sub(1).and_then(|line| lines.get(line)).copied().unwrap_or_default();
        let until = if end.line == start.line { end.column } else { shown.chars().count() };
        let width = until.saturating_sub(start.column).max(1);
        Self { line: start.line, column: start.column + 1, shown: shown.to_owned(), width, message }
    }
}

/// The longest part of a line that is shown.
const SHOWN: usize = 160;
/// The part of a longer line before the mistake that is shown.
const BEFORE: usize = 40;

impl Mistake {
    /// The line, and the characters before and under the mistake; of a long line the part with the mistake.
    fn excerpt(&self) -> (String, String, usize) {
        let start = self.column.saturating_sub(1);
        let whole = self.shown.chars().count();
        let from = if whole > SHOWN { start.saturating_sub(BEFORE).min(whole) } else { 0 };
        let mut shown: String = self.shown.chars().skip(from).take(SHOWN).collect();
        // Tabs stay tabs, so that the marks stand under what they mark.
        let mut lead: String = shown.chars().take(start - from).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let width = self.width.min(SHOWN.saturating_sub(start - from)).max(1);
        if from > 0 {
            shown.insert(0, '…');
            lead.insert(0, ' ');
        }
        if from + SHOWN < whole {
            shown.push('…');
        }
        (shown, lead, width)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.found.iter().enumerate() {
            let Mistake { line, column, message, .. } = mistake;
            if i > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "error: {message}")?;
            if *line == 0 {
                write!(f, "\n --> {}", self.name)?;
                continue;
            }
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            let (shown, lead, width) = mistake.excerpt();
            write!(
                f,
                "\n{margin}--> {}:{line}:{column}\n{margin} |\n{number} | {shown}\n{margin} | {lead}{}",
                self.name,
                "^".repeat(width)
            )?;
        }
        Ok(())
    }
}
