//! Just enough of PTX's grammar for edits: the statements of a text, with their opcodes and operands.

use std::ops::Range;

/// One statement, as far as operators need it.
#[derive(Clone, Debug)]
pub(super) struct Statement<'a> {
    /// Its place in the text in bytes, with guard and semicolon.
    pub(super) bytes: Range<usize>,
    /// Its line, counted from 1.
    pub(super) line: usize,
    /// `@p` or `@!p`.
    pub(super) guard: Option<&'a str>,
    /// Its text, with the semicolon.
    pub(super) text: &'a str,
    /// Its opcode with all modifiers.
    pub(super) opcode: &'a str,
    /// The place of the opcode.
    pub(super) opcode_start: usize,
    /// The top-level operands, with their places.
    pub(super) operands: Vec<(&'a str, Range<usize>)>,
    /// Whether a label, or the start or end of a function, is between this statement and the one before.
    pub(super) starts_block: bool,
}

impl<'a> Statement<'a> {
    /// The parts of the opcode between the dots.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.opcode.split('.')
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.parts().any(|p| p == part)
    }

    pub(super) fn is(&self, prefix: &str) -> bool {
        let rest = self.opcode.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
    }

    /// Whether it branches or ends the thread.
    pub(super) fn is_control(&self) -> bool {
        ["bra", "brx", "ret", "exit", "call", "trap"].iter().any(|op| self.is(op))
    }

    /// The names of registers and variables in the text of operands.
    pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '%' | '_' | '$' | '.')))
            .filter(|name| name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '%' | '_' | '$')))
    }
}

/// The statements of a text: everything that ends in a semicolon, except comments, labels, directives and braces.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    let mut starts_block = true;
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let Some(start) = next_statement(text, &mut at, &mut line, &mut starts_block) else { break };
        let Some(end) = text[start..].find(';').map(|end| start + end) else { break };
        let body = &text[start..end];
        // A directive, or text with a comment inside: neither is a statement.
        if body.starts_with('.') || body.contains(['\n', '/']) && body.contains("//") {
            at = if body.starts_with('.') { end + 1 } else { start + body.find('\n').map_or(body.len(), |n| n + 1) };
            line += text[start..at.min(text.len())].matches('\n').count();
            continue;
        }
        found.push(statement(text, start..end, line, starts_block));
        starts_block = false;
        line += body.matches('\n').count();
        at = end + 1;
    }
    found
}

/// Skips to the next statement or directive that ends in a semicolon.
fn next_statement(text: &str, at: &mut usize, line: &mut usize, starts_block: &mut bool) -> Option<usize> {
    loop {
        let rest = text.get(*at..)?;
        let trimmed = rest.trim_start();
        *line += rest[..rest.len() - trimmed.len()].matches('\n').count();
        *at += rest.len() - trimmed.len();
        let first = trimmed.chars().next()?;
        let skip_line = trimmed.find('\n').unwrap_or(trimmed.len());
        let until = |end: &str| trimmed.find(end).map_or(trimmed.len(), |n| n + end.len());
        let skipped = if trimmed.starts_with("//") {
            skip_line
        } else if trimmed.starts_with("/*") {
            until("*/")
        } else if matches!(first, '{' | '}' | ';' | ')' | '(' | ',') {
            *starts_block |= first != ';';
            1
        } else if let Some(length) = label(trimmed) {
            *starts_block = true;
            length
        } else if first == '.' && !directive_ends_in_semicolon(trimmed) {
            skip_line
        } else {
            return Some(*at);
        };
        *line += trimmed[..skipped].matches('\n').count();
        *at += skipped.max(1);
    }
}

/// The length of a label and its colon.
fn label(text: &str) -> Option<usize> {
    let name = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')))?;
    let colon = text[name..].trim_start();
    (name > 0 && colon.starts_with(':') && !colon.starts_with("::")).then(|| text.len() - colon.len() + 1)
}

/// True for `.reg`, `.shared` and similar directives; false for `.loc`, `.entry`, `.param` in a signature and
/// `.maxntid`.
fn directive_ends_in_semicolon(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    line.split("//").next().unwrap_or_default().trim_end().ends_with(';')
}

fn statement(text: &str, bytes: Range<usize>, line: usize, starts_block: bool) -> Statement<'_> {
    let body = &text[bytes.clone()];
    let split = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let guard = body.starts_with('@').then(|| &body[..split(body)]);
    let after = guard.map_or(0, str::len);
    let start = after + (body[after..].len() - body[after..].trim_start().len());
    let opcode = &body[start..start + split(&body[start..])];
    let opcode_start = bytes.start + start;
    let operands = operands(text, opcode_start + opcode.len()..bytes.end);
    let bytes = bytes.start..bytes.end + 1;
    Statement { text: &text[bytes.clone()], bytes, line, guard, opcode, opcode_start, operands, starts_block }
}

fn operands(text: &str, bytes: Range<usize>) -> Vec<(&str, Range<usize>)> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0, bytes.start);
    let mut push = |from: usize, to: usize| {
        let piece = &text[from..to];
        let start = from + (piece.len() - piece.trim_start().len());
        let piece = piece.trim();
        if !piece.is_empty() {
            found.push((piece, start..start + piece.len()));
        }
    };
    for (offset, c) in text[bytes.clone()].char_indices() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                push(from, bytes.start + offset);
                from = bytes.start + offset + 1;
            }
            _ => {}
        }
    }
    push(from, bytes.end);
    found
}
