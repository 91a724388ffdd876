//! How deep an expression may nest: parsers and checkers descend into it on the stack. And how long a number may be: `syn`
//! takes a time by the square of its digits.

use proc_macro2::{Delimiter, Literal, Span, TokenStream, TokenTree};
use syn::Error;

/// Operators that can nest expressions, from the beginning of a statement or argument to any place in it. Other tokens
/// count as the operators whose stack they take: an operator takes up to 8 KiB without optimisation, and a compiler's
/// stack has 8 MiB.
pub const DEEPEST: usize = 1000;

/// The count of a pair of braces: a block is a list of statements.
const BLOCK: usize = 4;
/// The count of another pair of brackets.
const BRACKETS: usize = 2;
/// The count of `let`, with the pattern behind it.
const LET: usize = 3;
/// The count of a word behind another word.
const WORD: usize = 2;
/// The count of the sign that begins generic arguments.
const GENERIC: usize = 8;
/// The count of each sign around a closure's parameters.
const CLOSURE: usize = 4;

/// Characters of a number. The longest f64 that is written out has 767 digits that matter.
pub const LONGEST_NUMBER: usize = 1000;

/// Refuses expressions that are too deep to be parsed, and numbers that are too long.
///
/// Brackets, operators and words count; names and literals that stand between them, attributes, and what precedes a `;`
/// or `,` do not. So a sum may have [`DEEPEST`] terms, and a list or a body any number of elements and statements. A `,`
/// ends no generic arguments: each `<` before it counts until its `>`.
///
/// # Errors
/// At the first token that is too deep, or too long.
pub fn check(tokens: &TokenStream) -> Result<(), Error> {
    stream(tokens, 0)
}

fn stream(tokens: &TokenStream, around: usize) -> Result<(), Error> {
    let mut depth = around;
    let (mut after_word, mut in_attribute) = (false, false);
    // How many `<` have no `>` yet. (A `<` that compares counts, too.)
    let mut open = 0usize;
    let mut is_arrow = false;
    for tree in tokens.clone() {
        // Two words in a row, as in `return x` or `x as f32`, can nest without any other token.
        let is_word = matches!(&tree, TokenTree::Ident(word) if word != "let" && word != "fn");
        match &tree {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' => (depth, open) = (around, 0),
                ',' => depth = around + GENERIC * open,
                '#' => in_attribute = true,
                '<' => (depth, open) = (depth + GENERIC, open + 1),
                '>' if !is_arrow => (depth, open) = (depth + 1, open.saturating_sub(1)),
                '|' => depth += CLOSURE,
                _ => depth += usize::from(!in_attribute),
            },
            TokenTree::Group(group) => {
                depth += match group.delimiter() {
                    _ if in_attribute => 0,
                    Delimiter::Brace => BLOCK,
                    _ => BRACKETS,
                };
                in_attribute = false;
                stream(&group.stream(), checked(depth, group.span_open())?)?;
            }
            TokenTree::Ident(word) if word == "let" => depth += LET,
            TokenTree::Ident(_) => depth += if after_word && is_word { WORD } else { 0 },
            TokenTree::Literal(literal) => number(literal)?,
        }
        after_word = is_word;
        is_arrow = matches!(&tree, TokenTree::Punct(punct) if matches!(punct.as_char(), '-' | '='));
        checked(depth, tree.span())?;
    }
    Ok(())
}

fn number(literal: &Literal) -> Result<(), Error> {
    let text = literal.to_string();
    if text.len() <= LONGEST_NUMBER || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    let message = format!(
        "this number has {} characters, and at most {LONGEST_NUMBER} are read: write fewer digits, or an exponent",
        text.len()
    );
    Err(Error::new(literal.span(), message))
}

fn checked(depth: usize, span: Span) -> Result<usize, Error> {
    if depth <= DEEPEST {
        return Ok(depth);
    }
    let message = format!(
        "this is nested too deep to be read: at most {DEEPEST} operators and brackets may stand between the beginning of a \
         statement and any place in it; bind parts of it with `let`"
    );
    Err(Error::new(span, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Errors;
    use crate::sight::Files;

    fn is_read(text: &str) -> bool {
        check(&text.parse().expect("tokens")).is_ok()
    }

    #[test]
    fn what_nests_is_counted() {
        for nesting in [
            "-",
            "a<",
            "a<b, ",
            "a: B<b, ",
            "a<fn() -> b, ",
            "||",
            "x = ",
            "(",
            "{",
            "x + ",
            "return return ",
            "|x| ",
            "x as ",
            "if x {} else ",
            "&",
            "f(1, ",
            "let x = ",
            "if let x = ",
            "match ",
            "unsafe {",
        ] {
            let closed = |n: usize| {
                let close = [('(', ")"), ('{', "}")].iter().find(|(open, _)| nesting.trim_end().ends_with(*open));
                let close = close.map_or("", |(_, close)| close);
                let close = if nesting.starts_with("f(") { ")" } else { close };
                format!("{}x{}", nesting.repeat(n), close.repeat(n))
            };
            assert!(is_read(&closed(100)), "{nesting}");
            assert!(!is_read(&closed(DEEPEST + 1)), "{nesting}");
        }
    }

    /// The deepest nesting of every kind that is read, on a stack like the compiler's. (An overflow ends this process.)
    #[test]
    fn what_is_read_fits_a_stack() {
        for (open, close) in [
            ("- ", ""),
            ("x = ", ""),
            ("x + ", ""),
            ("& ", ""),
            ("return ", ""),
            ("let x = ", ""),
            ("if let x = ", ""),
            ("if x {} else ", ""),
            ("match ", ""),
            ("match x { y => ", "}"),
            ("for x in ", ""),
            ("while ", ""),
            ("|| ", ""),
            ("|x| ", ""),
            ("|x| -> f32 {", "}"),
            ("unsafe {", "}"),
            ("'a: loop {", "}"),
            ("f(", ")"),
            ("x[", "]"),
            ("f::<f", ""),
            ("f::<f, ", ""),
            ("x as F<f, ", ""),
            ("x as fn(", ")"),
            ("<f32 as ", ""),
            ("let Some(", ")"),
        ] {
            let nested = |n: usize| format!("|accum: Accum| {{ {}accum{} }}", open.repeat(n), close.repeat(n));
            let all: Vec<usize> = (1..=DEEPEST).collect();
            let deepest = all.partition_point(|n| is_read(&nested(*n)));
            let text = nested(deepest);
            let read = move || {
                let tokens = text.parse().expect("tokens");
                crate::closure(tokens, Files::default(), &mut Errors::default());
            };
            let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(read).expect("a thread");
            thread.join().expect("no panic");
            assert!((60..=DEEPEST).contains(&deepest), "{open}: {deepest}");
        }
    }

    #[test]
    fn numbers_have_a_longest() {
        for number in ["1", "1.0", "0x1", "1e0"] {
            let with = |zeros: usize| format!("x + {number}{} + y", "0".repeat(zeros));
            assert!(is_read(&with(LONGEST_NUMBER - 3)), "{number}");
            assert!(!is_read(&with(LONGEST_NUMBER)), "{number}");
        }
        assert!(is_read(&format!("#[doc = \"{}\"] x", "0".repeat(10 * LONGEST_NUMBER))), "a text is no number");
    }

    #[test]
    fn what_does_not_nest_is_not() {
        for flat in
            ["#[doc = \"a\"] ", "x = -y * (z + 1);", "f(a, b, c), ", "fn f(x: f32) -> f32 { x * 2.0 };", "a: B<f32>, "]
        {
            assert!(is_read(&flat.repeat(10 * DEEPEST)), "{flat}");
        }
    }
}
