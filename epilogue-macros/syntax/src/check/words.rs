//! The words for values in messages.

use quote::ToTokens;

use crate::ast::Expr;

/// The message for a truth value where a number is needed.
pub(super) const NO_NUMBER: &str = "a truth value is not a number: write `if x > 0.0 { 1.0 } else { 0.0 }`";

/// A value without its parentheses.
pub(super) fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(_, inner) => strip(inner),
        other => other,
    }
}

/// The text of a value, if it is short.
fn words(expr: &Expr) -> Option<String> {
    match strip(expr) {
        Expr::Local(name) => Some(name.to_string()),
        Expr::Position(word, _) => Some(format!("{word}()")),
        Expr::ToInteger(word, _, x) => words(x).map(|x| format!("{word}({x})")),
        Expr::Literal(literal, _) => Some(literal.to_token_stream().to_string()),
        Expr::IntegerLiteral(literal, _) => Some(literal.to_string()),
        _ => None,
    }
}

/// The name of a value in a message.
pub(super) fn described(expr: &Expr) -> String {
    words(expr).map_or_else(|| "this".to_owned(), |words| format!("`{words}`"))
}

/// Advice for a place that needs no integer.
pub(super) fn as_real(expr: &Expr) -> String {
    words(expr).map_or_else(|| "write `real(…)` of it".to_owned(), |words| format!("write `real({words})`"))
}

/// An integer and a number in one operation.
pub(super) fn mixed(integer: &Expr, integer_side: &str, number: &Expr, number_side: &str) -> String {
    let what = |expr: &Expr, side: &str| words(expr).map_or_else(|| side.to_owned(), |words| format!("`{words}`"));
    let advice = match strip(number) {
        Expr::Local(name) => format!(", or `integer({name})` where `{name}` is a parameter of an integer type"),
        _ => String::new(),
    };
    let (integer_is, number_is) = (what(integer, integer_side), what(number, number_side));
    format!("{integer_is} is an integer and {number_is} a number: {}{advice}", as_real(integer))
}
