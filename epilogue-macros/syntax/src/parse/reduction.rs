//! `reduction_op(x, Row, Add)`, `reduction_op(x, (Column, Batch), Max)`, `reduction_op(x, Row, Add, threadblock_shape.n)`.

use syn::{Expr, ExprCall, Ident, Member, Path, PathSegment};

use super::expression::expression;
use crate::ast::{Axis, COMPOSED_OPS, Expr as Value, INDEX_OPS, REDUCE_OPS, Reduction};
use crate::report::{Errors, alternatives, similar};

const AXES: [&str; 3] = ["Row", "Column", "All"];

pub(crate) fn reduction(word: &PathSegment, call: &ExprCall, errors: &mut Errors) -> Value {
    if !word.arguments.is_none() {
        errors.on(&word.arguments, "type arguments have no meaning here: remove them");
    }
    let mut arguments = call.args.iter();
    let (Some(input), Some(axis), Some(op)) = (arguments.next(), arguments.next(), arguments.next()) else {
        errors.at(
            call.paren_token.span.join(),
            "`reduction_op` takes a value, an axis and an operation: `reduction_op(x, Row, Add)`",
        );
        return Value::Invalid;
    };
    let input = Box::new(expression(input, errors));
    let axis = self::axis(axis, errors);
    let (op, own) = operation(op, errors);
    let length = arguments.next();
    if let Some(length) = length {
        self::length(length, axis.as_ref().map(|(axis, _, batch)| (*axis, *batch)), errors);
    }
    if let Some(extra) = arguments.next() {
        errors.on(
            extra,
            "`reduction_op` takes at most four arguments: value, axis, operation, `threadblock_shape.n` or `.m`",
        );
    }
    let reduction = Reduction { word: word.ident.clone(), input, axis, op, own, partial: length.is_some() };
    let has_partials = !reduction.gives_index() && reduction.composed().is_none() && reduction.own.is_none();
    if let (Some(length), Some(op), false) = (length, &reduction.op, has_partials) {
        errors.on(
            length,
            format_args!(
                "there are no partials of `{op}`: leave this out for the complete reduction, or reduce with {}",
                alternatives(&REDUCE_OPS)
            ),
        );
    }
    if let (Some(op), Some((_, axis, true))) = (&reduction.op, &reduction.axis)
        && reduction.gives_index()
    {
        errors.at(
            op.span(),
            format_args!("`{op}` gives the index of an element in its matrix: write `{axis}` without `Batch`"),
        );
    }
    Value::Reduction(Box::new(reduction))
}

fn word(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// An axis and whether the batch is reduced with it.
fn axis(expr: &Expr, errors: &mut Errors) -> Option<(Axis, Ident, bool)> {
    if let Expr::Paren(paren) = expr {
        return axis(&paren.expr, errors);
    }
    if let Expr::Tuple(tuple) = expr {
        let mut elements = tuple.elems.iter();
        return match (elements.next(), elements.next(), elements.next()) {
            (Some(first), Some(second), None) if word(second).is_some_and(|second| second == "Batch") => {
                single_axis(first, errors).map(|(axis, word)| (axis, word, true))
            }
            (Some(first), Some(second), None) if word(first).is_some_and(|first| first == "Batch") => {
                single_axis(second, errors).map(|(axis, word)| (axis, word, true))
            }
            _ => {
                errors.on(tuple, "an axis is `Row`, `Column` or `All`, or a pair with the batch: `(Row, Batch)`");
                None
            }
        };
    }
    single_axis(expr, errors).map(|(axis, word)| (axis, word, false))
}

fn single_axis(expr: &Expr, errors: &mut Errors) -> Option<(Axis, Ident)> {
    let Some(ident) = word(expr) else {
        errors.on(expr, "an axis is `Row`, `Column` or `All`, or a pair with the batch: `(Row, Batch)`");
        return None;
    };
    match ident.to_string().as_str() {
        "Row" => Some((Axis::Row, ident.clone())),
        "Column" => Some((Axis::Column, ident.clone())),
        "All" => Some((Axis::All, ident.clone())),
        "Batch" => {
            errors.at(ident.span(), "the batch is reduced together with another axis: `(Row, Batch)`, `(All, Batch)`");
            None
        }
        other => {
            let advice = similar(other, AXES).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            errors.at(ident.span(), format_args!("an axis is {}, not `{other}`{advice}", alternatives(&AXES)));
            None
        }
    }
}

/// The word of an operation, and the path of one of the user's own.
fn operation(expr: &Expr, errors: &mut Errors) -> (Option<Ident>, Option<Path>) {
    let words = words();
    let path = match expr {
        Expr::Path(path) if path.qself.is_none() && path.path.segments.iter().all(|part| part.arguments.is_none()) => {
            &path.path
        }
        _ => {
            errors.on(expr, format_args!("a reduction's operation is {}", alternatives(&words)));
            return (None, None);
        }
    };
    let last = path.segments.last().map(|part| part.ident.clone());
    let Some(ident) = path.get_ident() else { return (last, Some(path.clone())) };
    let written = ident.to_string();
    if words.contains(&written.as_str()) {
        return (last, None);
    }
    // A module has a small name; what it is, the check finds out.
    if !written.starts_with(char::is_uppercase) {
        return (last, Some(path.clone()));
    }
    errors.at(ident.span(), unknown(&written));
    (None, None)
}

/// Every operation of the language.
fn words() -> Vec<&'static str> {
    REDUCE_OPS.into_iter().chain(INDEX_OPS).chain(COMPOSED_OPS).collect()
}

/// The message about a word that is not an operation.
pub(crate) fn unknown(written: &str) -> String {
    let otherwise = || "; one of your own is a module under `#[reducer]`".to_owned();
    format!(
        "a reduction's operation is {}, not `{written}`{}",
        alternatives(&words()),
        advice(written).unwrap_or_else(otherwise)
    )
}

/// A guess at the meaning of a word that is not an operation.
pub(crate) fn advice(written: &str) -> Option<String> {
    match written {
        "Sum" | "sum" => Some("; a sum is `Add`".to_owned()),
        "Product" | "Prod" => Some("; a product is `Mul`".to_owned()),
        "Avg" | "avg" | "Average" => Some("; a mean is `Mean`".to_owned()),
        "Var" | "var" => Some("; a variance is `Variance`".to_owned()),
        other => similar(other, words()).map(|name| format!("; did you mean `{name}`?")),
    }
}

/// The fourth argument, which must fit the axis.
fn length(expr: &Expr, axis: Option<(Axis, bool)>, errors: &mut Errors) {
    let member = match expr {
        Expr::Field(field) if word(&field.base).is_some_and(|base| base == "threadblock_shape") => {
            match &field.member {
                Member::Named(member) if member == "m" || member == "n" => Some(member),
                other => {
                    errors.on(other, "a tile has the extents `threadblock_shape.m` and `threadblock_shape.n`");
                    return;
                }
            }
        }
        _ => None,
    };
    let Some(member) = member else {
        errors.on(
            expr,
            "a fourth argument asks for one partial per tile: `threadblock_shape.n` for `Row`, `threadblock_shape.m` for \
             `Column`; leave it out for complete reductions",
        );
        return;
    };
    match axis {
        Some((Axis::Row, false)) if member == "m" => errors.at(
            member.span(),
            "a row of a tile has `threadblock_shape.n` elements: write `n` here, or reduce along `Column`",
        ),
        Some((Axis::Column, false)) if member == "n" => errors.at(
            member.span(),
            "a column of a tile has `threadblock_shape.m` elements: write `m` here, or reduce along `Row`",
        ),
        Some((Axis::All, _)) => {
            errors
                .on(expr, "there are partials for `Row` and `Column` only: leave this out for the complete reduction");
        }
        Some((Axis::Row | Axis::Column, true)) => errors.on(
            expr,
            "partials keep the batch: write the axis without `Batch`, or leave this out for the complete reduction",
        ),
        Some((Axis::Row | Axis::Column, false)) | None => {}
    }
}
