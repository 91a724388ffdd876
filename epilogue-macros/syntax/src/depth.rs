//! How deep an expression may nest: parsers and checkers descend into it on the stack. And how long a number may be: `syn`
//! takes a time by the square of its digits.

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use syn::Error;

/// Tokens that can nest expressions, from the beginning of a statement or argument to any place in it.
pub const DEEPEST: usize = 1000;

/// Characters of a number. The longest f64 that is written out has 767 digits that matter.
pub const LONGEST_NUMBER: usize = 1000;

/// Words between which an expression does not become deeper.
const NOT_NESTING: [&str; 2] = ["let", "fn"];

/// Refuses expressions that are too deep to be parsed, and numbers that are too long.
///
/// Brackets, operators and words count; names and literals that stand between them, attributes, and what precedes a `;`
/// or `,` do not. So a sum may have [`DEEPEST`] terms, and a list or a body any number of elements and statements.
///
/// # Errors
/// At the first token that is too deep, or too long.
pub fn check(tokens: &TokenStream) -> Result<(), Error> {
    stream(tokens, 0)
}

fn stream(tokens: &TokenStream, around: usize) -> Result<(), Error> {
    let mut depth = around;
    let (mut after_word, mut in_attribute) = (false, false);
    for tree in tokens.clone() {
        // Two words in a row, as in `return x` or `x as f32`, can nest without any other token.
        let is_word = matches!(&tree, TokenTree::Ident(word) if !NOT_NESTING.iter().any(|known| word == known));
        match &tree {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' | ',' => depth = around,
                '#' => in_attribute = true,
                // Generic arguments and closures take more of the stack than operators do.
                '<' | '|' => depth += 4,
                _ => depth += usize::from(!in_attribute),
            },
            TokenTree::Group(group) => {
                depth += usize::from(!in_attribute);
                in_attribute = false;
                stream(&group.stream(), checked(depth, group.span_open())?)?;
            }
            TokenTree::Ident(_) => depth += usize::from(after_word && is_word),
            TokenTree::Literal(literal) => number(literal)?,
        }
        after_word = is_word;
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

    fn is_read(text: &str) -> bool {
        check(&text.parse().expect("tokens")).is_ok()
    }

    #[test]
    fn what_nests_is_counted() {
        for nesting in [
            "-",
            "a<",
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
        for flat in ["#[doc = \"a\"] ", "x = -y * (z + 1);", "f(a, b, c), ", "fn f(x: f32) -> f32 { x * 2.0 };"] {
            assert!(is_read(&flat.repeat(10 * DEEPEST)), "{flat}");
        }
    }
}
