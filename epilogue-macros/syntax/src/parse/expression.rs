//! Expressions.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Expr, ExprBinary, ExprCall, ExprIf, ExprLit, ExprMethodCall, ExprUnary, GenericArgument, Lit, Path, Token,
    UnOp,
};

use super::body::{block, statement_if};
use super::identifiers;
use super::reduction::reduction;
use crate::ast::{Connective, Expr as Value, INTEGER, If, Operator, POSITIONS, RANDOM, REAL, REDUCTION_OP, Random};
use crate::operations;
use crate::report::Errors;

/// Reads an expression, and reports what the language doesn't have.
pub(crate) fn expression(expr: &Expr, errors: &mut Errors) -> Value {
    for attribute in attributes(expr) {
        errors.on(attribute, "an attribute has no meaning on an expression: remove it");
    }
    match expr {
        Expr::Path(path) => {
            if let Some(qself) = &path.qself {
                errors.at(
                    qself.lt_token.span,
                    "a constant is named by a plain path here: bind it to a `const` and write that name",
                );
                return Value::Invalid;
            }
            if !plain(&path.path, errors) {
                return Value::Invalid;
            }
            Value::Path(Box::new(path.clone()))
        }
        Expr::Lit(literal) => number(literal, errors),
        Expr::Unary(unary) => match &unary.op {
            UnOp::Neg(minus) => Value::Negate(*minus, Box::new(expression(&unary.expr, errors))),
            UnOp::Not(not) => Value::Not(*not, Box::new(expression(&unary.expr, errors))),
            UnOp::Deref(star) => refuse(star.span, "values are never borrowed here: remove the `*`", errors),
            other => refuse(other.span(), "this operator is not in the language", errors),
        },
        Expr::Binary(binary) => {
            let connective = match &binary.op {
                BinOp::And(_) => Some(Connective::And),
                BinOp::Or(_) => Some(Connective::Or),
                _ => None,
            };
            if let Some(connective) = connective {
                let (left, right) = (expression(&binary.left, errors), expression(&binary.right, errors));
                return Value::Connected(Box::new(left), connective, binary.op, Box::new(right));
            }
            if let BinOp::Rem(_) = &binary.op {
                let sides = (expression(&binary.left, errors), expression(&binary.right, errors));
                return Value::Remainder(binary.op, Box::new(sides));
            }
            if let Some(sides) = power(binary, errors) {
                return sides;
            }
            let operator = operator(&binary.op, errors);
            let left = expression(&binary.left, errors);
            let right = expression(&binary.right, errors);
            match operator {
                Some(operator) => Value::Binary(Box::new(left), operator, binary.op, Box::new(right)),
                None => Value::Refused(vec![left, right]),
            }
        }
        Expr::Paren(paren) => Value::Paren(paren.paren_token, Box::new(expression(&paren.expr, errors))),
        // Something that a `macro_rules!` macro inserted is one operand, whatever operators it has.
        Expr::Group(group) => match expression(&group.expr, errors) {
            value @ (Value::Binary(..)
            | Value::Remainder(..)
            | Value::Connected(..)
            | Value::Not(..)
            | Value::Negate(..)
            | Value::If(_)) => Value::Paren(syn::token::Paren(Span::mixed_site()), Box::new(value)),
            value => value,
        },
        Expr::Call(call) => self::call(call, errors),
        Expr::MethodCall(call) => method(call, errors),
        Expr::If(branch) => self::branch(branch, errors),
        Expr::Block(inner) => {
            if let Some(label) = &inner.label {
                errors.on(label, "a block has no label here: remove it");
            }
            Value::Block(block(&inner.block, errors))
        }
        other => refused(other, errors),
    }
}

fn refuse(span: Span, message: &str, errors: &mut Errors) -> Value {
    errors.at(span, message);
    Value::Invalid
}

/// Everything that Rust has and the language doesn't.
fn refused(expr: &Expr, errors: &mut Errors) -> Value {
    const LOOP: &str =
        "there are no loops, as every element takes the same operations: write the steps one after the other";
    if let Expr::Let(it) = expr {
        errors.excuse(identifiers(&it.pat));
    }
    let (span, message) = match expr {
        Expr::While(it) => (it.while_token.span, LOOP),
        Expr::ForLoop(it) => (it.for_token.span, LOOP),
        Expr::Loop(it) => (it.loop_token.span, LOOP),
        Expr::Break(it) => (it.break_token.span, LOOP),
        Expr::Continue(it) => (it.continue_token.span, LOOP),
        Expr::Return(it) => (
            it.return_token.span,
            "there is no `return`: the last line of the body, without a semicolon, is what is returned",
        ),
        Expr::Match(it) => (it.match_token.span, "`match` is not in the language: write `if … { … } else { … }`"),
        Expr::Let(it) => {
            (it.let_token.span, "`if let` is not in the language: a condition is a comparison such as `x > 0.0`")
        }
        Expr::Closure(it) => {
            (it.inputs_begin.span, "a closure cannot stand here: write an `#[elementwise]` function and call it")
        }
        Expr::Reference(it) => (it.and_token.span, "values are never borrowed here: remove the `&`"),
        Expr::RawAddr(it) => (it.and_token.span, "values are never borrowed here"),
        Expr::Cast(it) => (
            it.as_token.span,
            "`as` is not in the language: `x.cast::<f16>()` rounds to an element type, and constants are written as floats",
        ),
        Expr::Try(it) => (it.question_token.span, "`?` is not in the language: every operation succeeds"),
        Expr::Await(it) => (it.await_token.span, "`await` is not in the language"),
        Expr::Async(it) => (it.async_token.span, "an `async` block is not in the language"),
        Expr::Const(it) => (it.const_token.span, "a `const` block is not in the language: name a `const` item"),
        Expr::Unsafe(it) => (it.unsafe_token.span, "an `unsafe` block is not in the language"),
        Expr::TryBlock(it) => (it.try_token.span, "a `try` block is not in the language"),
        Expr::Yield(it) => (it.yield_token.span, "`yield` is not in the language"),
        Expr::Infer(it) => (it.underscore_token.span, "a value is needed here"),
        Expr::Assign(it) => (it.eq_token.span, "an assignment is a statement: put it on its own line, ended by `;`"),
        Expr::Index(it) => (
            it.bracket_token.span.join(),
            "a value cannot be indexed: it stands for one element, the same in every argument (slice or permute a tensor where it is passed to `run`)",
        ),
        Expr::Field(it) => (
            it.dot_token.span,
            "a value has no fields; `threadblock_shape.n` and `.m` are only the last argument of `reduction_op`",
        ),
        Expr::Range(it) => (it.limits.span(), "a range is not in the language"),
        Expr::Macro(it) => (
            it.mac.path.span(),
            "a macro cannot be expanded here: write its result as ordinary operations, or call an `#[elementwise]` function",
        ),
        Expr::Array(it) => (it.bracket_token.span.join(), "an array is not in the language: a value is one number"),
        Expr::Repeat(it) => (it.bracket_token.span.join(), "an array is not in the language: a value is one number"),
        Expr::Tuple(it) => {
            (it.paren_token.span.join(), "a tuple is only what the function returns: a value is one number")
        }
        Expr::Struct(it) => (
            it.path.span(),
            "a struct is not in the language: a value is one number, and several are returned as `(d, sums)`",
        ),
        other => (other.span(), "this is not in the epilogue language"),
    };
    refuse(span, message, errors)
}

/// Refuses `x ** y`, which Rust reads as `x * (*y)`.
fn power(binary: &ExprBinary, errors: &mut Errors) -> Option<Value> {
    let (BinOp::Mul(times), Expr::Unary(ExprUnary { op: UnOp::Deref(star), expr: exponent, .. })) =
        (&binary.op, &*binary.right)
    else {
        return None;
    };
    if times.span().end() != star.span().start() {
        return None;
    }
    errors.at(times.span(), "`**` is not in the language: a power is `pow(x, y)`, and a square is `square(x)`");
    Some(Value::Refused(vec![expression(&binary.left, errors), expression(exponent, errors)]))
}

fn operator(op: &BinOp, errors: &mut Errors) -> Option<Operator> {
    let message = match op {
        BinOp::Add(_) => return Some(Operator::Add),
        BinOp::Sub(_) => return Some(Operator::Sub),
        BinOp::Mul(_) => return Some(Operator::Mul),
        BinOp::Div(_) => return Some(Operator::Div),
        BinOp::Lt(_) => return Some(Operator::Lt),
        BinOp::Le(_) => return Some(Operator::Le),
        BinOp::Gt(_) => return Some(Operator::Gt),
        BinOp::Ge(_) => return Some(Operator::Ge),
        BinOp::Eq(_) => return Some(Operator::Eq),
        BinOp::Ne(_) => return Some(Operator::Ne),
        BinOp::BitXor(_) => "`^` is not in the language: a power is `pow(x, y)`",
        BinOp::BitAnd(_) | BinOp::BitOr(_) | BinOp::Shl(_) | BinOp::Shr(_) => {
            "values are floating-point numbers, which have no bit operations; comparisons are combined with `&&` and `||`"
        }
        BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) => {
            "an assignment is a statement: put it on its own line, ended by `;`"
        }
        _ => "this operator is not in the language: there are `+ - * /` and the comparisons",
    };
    errors.on(op, message);
    None
}

fn number(literal: &ExprLit, errors: &mut Errors) -> Value {
    let message = match &literal.lit {
        Lit::Float(float) => match (float.suffix(), float.base10_parse::<f64>()) {
            ("f32", Ok(value)) if value.abs() > f64::from(f32::MAX) => "this number is too large for an f32".to_owned(),
            ("", Ok(value)) if !value.is_finite() => "this number is too large".to_owned(),
            ("" | "f32", Ok(value)) => return Value::Literal(literal.lit.clone(), value),
            (_, Err(_)) => "this number cannot be read".to_owned(),
            (_, Ok(_)) => format!(
                "a number has no type of its own, it takes the arithmetic's (f32, or f64 when A is f64): write `{}`",
                float.base10_digits()
            ),
        },
        Lit::Int(int)
            if matches!(int.suffix(), "" | "f32")
                && int.base10_parse::<i64>().is_ok()
                && !int.to_string().starts_with("0x") =>
        {
            match (int.suffix(), int.base10_digits().parse::<f64>()) {
                ("f32", Ok(value)) => return Value::Literal(literal.lit.clone(), value),
                (_, Ok(value)) => return Value::Integer(int.clone(), value),
                (_, Err(_)) => "this number cannot be read".to_owned(),
            }
        }
        Lit::Int(_) => "values are floating-point numbers: write a literal such as `2.0`".to_owned(),
        Lit::Bool(_) => {
            "a truth value is made by a comparison such as `x > 0.0`, or read from a `Tensor<bool>`".to_owned()
        }
        _ => "only numbers such as `2.0` are literals here".to_owned(),
    };
    errors.on(&literal.lit, message);
    Value::Invalid
}

/// Whether a path has no type arguments.
fn plain(path: &Path, errors: &mut Errors) -> bool {
    let mut fine = true;
    for segment in &path.segments {
        if !segment.arguments.is_none() {
            errors.on(&segment.arguments, "type arguments have no meaning here: remove them");
            fine = false;
        }
        if segment.ident == "Self" {
            errors.at(segment.ident.span(), "`Self` has no meaning in a free function");
            fine = false;
        }
    }
    fine
}

fn arguments(arguments: &Punctuated<Expr, Token![,]>, errors: &mut Errors) -> Punctuated<Value, Token![,]> {
    arguments
        .pairs()
        .map(|pair| {
            let (argument, comma) = pair.into_tuple();
            syn::punctuated::Pair::new(expression(argument, errors), comma.copied())
        })
        .collect()
}

fn call(call: &ExprCall, errors: &mut Errors) -> Value {
    let path = match ungroup(&call.func) {
        Expr::Path(path) if path.qself.is_none() => &path.path,
        other => {
            errors.on(other, "only a function named by its path is called: `tanh(x)`, `my_ops::squared_relu(x)`");
            return Value::Refused(arguments(&call.args, errors).into_iter().collect());
        }
    };
    if path.segments.len() == 1 && path.segments[0].ident == REDUCTION_OP {
        return reduction(&path.segments[0], call, errors);
    }
    if let Some(word) = path.get_ident().filter(|word| *word == RANDOM) {
        return random(word, call, errors);
    }
    if let Some(word) = path.get_ident()
        && let Some(value) = of_integers(word, call, errors)
    {
        return value;
    }
    let fine = plain(path, errors) && operations::of_rust(path, errors);
    let args = arguments(&call.args, errors);
    if fine {
        Value::Call(Box::new(path.clone()), call.paren_token, args)
    } else {
        Value::Refused(args.into_iter().collect())
    }
}

/// `random(seed)` or `random(seed, stream)`
fn random(word: &syn::Ident, call: &ExprCall, errors: &mut Errors) -> Value {
    let stream = match (call.args.len(), call.args.get(1).and_then(integer)) {
        (1, _) => Some(0),
        (2, Some((literal, positive))) => {
            let stream = literal.base10_parse::<u32>().ok().filter(|_| positive);
            if stream.is_none() {
                errors.at(literal.span(), "a stream of random numbers is an integer from 0 to 4294967295");
            }
            stream
        }
        _ => {
            errors.at(
                word.span(),
                "`random` takes a seed and, for further independent numbers of it, an integer literal: `random(seed)`, \
                 `random(seed, 1)`",
            );
            None
        }
    };
    let mut others = call.args.iter();
    let seed = others.next().map(|seed| {
        let seed = expression(seed, errors);
        Value::Random(Box::new(Random {
            word: word.clone(),
            paren: call.paren_token,
            seed,
            stream: stream.unwrap_or_default(),
        }))
    });
    match (seed, stream) {
        (Some(seed), Some(_)) => seed,
        // Where a seed is named, there is no second mistake in it. An integer was meant as a stream.
        (seed, _) => {
            let others = others.filter(|other| integer(other).is_none()).map(|other| expression(other, errors));
            let seed = seed.filter(|_| call.args.first().is_some_and(|seed| matches!(ungroup(seed), Expr::Path(_))));
            Value::Refused(seed.into_iter().chain(others).collect())
        }
    }
}

/// An integer literal, and whether it has no sign.
fn integer(expr: &Expr) -> Option<(&syn::LitInt, bool)> {
    match ungroup(expr) {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) if literal.suffix().is_empty() => Some((literal, true)),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            integer(&unary.expr).map(|(literal, _)| (literal, false))
        }
        _ => None,
    }
}

/// The words that give integers, and `real`, which takes an integer.
fn of_integers(word: &syn::Ident, call: &ExprCall, errors: &mut Errors) -> Option<Value> {
    let written = word.to_string();
    let position = POSITIONS.contains(&written.as_str());
    if !position && written != INTEGER && written != REAL {
        return None;
    }
    let mut given: Vec<Value> = arguments(&call.args, errors).into_iter().collect();
    Some(match (position, given.len()) {
        (true, 0) => Value::Position(word.clone(), call.paren_token),
        (true, _) => {
            let what = if written.ends_with('s') { "the product's" } else { "the element's own" };
            errors.at(word.span(), format_args!("`{written}()` takes nothing: it is {what}"));
            Value::Refused(given)
        }
        (false, 1) => {
            let x = Box::new(given.remove(0));
            if written == INTEGER {
                Value::ToInteger(word.clone(), call.paren_token, x)
            } else {
                Value::ToReal(word.clone(), call.paren_token, x)
            }
        }
        (false, _) => {
            let example = if written == INTEGER { "integer(labels)" } else { "real(row())" };
            errors.at(word.span(), format_args!("`{written}` takes one value, as in `{example}`"));
            Value::Refused(given)
        }
    })
}

fn method(call: &ExprMethodCall, errors: &mut Errors) -> Value {
    let receiver = Box::new(expression(&call.receiver, errors));
    let args = arguments(&call.args, errors);
    if call.method == "cast" {
        let element =
            call.turbofish.as_ref().and_then(|turbofish| match (turbofish.args.first(), turbofish.args.len()) {
                (Some(GenericArgument::Type(ty @ syn::Type::Path(_))), 1) => Some(ty.clone()),
                _ => None,
            });
        return match (element, args.is_empty()) {
            (Some(element), true) => Value::Cast(receiver, call.method.clone(), Box::new(element)),
            (None, _) => refuse(
                call.method.span(),
                "`cast` rounds to an element type, which is named: `x.cast::<f16>()`",
                errors,
            ),
            (Some(_), false) => {
                refuse(call.paren_token.span.join(), "`cast` takes no arguments: `x.cast::<f16>()`", errors)
            }
        };
    }
    if call.method == REDUCTION_OP {
        return refuse(call.method.span(), "a reduction is written `reduction_op(x, Row, Add)`", errors);
    }
    if let Some(turbofish) = &call.turbofish {
        errors.on(turbofish, "type arguments have no meaning here: remove them");
        return Value::Refused(std::iter::once(*receiver).chain(args).collect());
    }
    Value::Method(receiver, call.method.clone(), call.paren_token, args)
}

fn branch(branch: &ExprIf, errors: &mut Errors) -> Value {
    let Some((else_token, otherwise)) = &branch.else_branch else {
        statement_if(branch, errors);
        return Value::Invalid;
    };
    let condition = expression(&branch.cond, errors);
    let then = block(&branch.then_branch, errors);
    let otherwise = expression(otherwise, errors);
    Value::If(Box::new(If {
        if_token: branch.if_token,
        condition: Box::new(condition),
        then,
        else_token: *else_token,
        otherwise: Box::new(otherwise),
    }))
}

/// The expression without the invisible brackets that a `macro_rules!` macro leaves around its arguments.
fn ungroup(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungroup(&group.expr),
        other => other,
    }
}

fn attributes(expr: &Expr) -> &[syn::Attribute] {
    match expr {
        Expr::Path(it) => &it.attrs,
        Expr::Lit(it) => &it.attrs,
        Expr::Unary(it) => &it.attrs,
        Expr::Binary(it) => &it.attrs,
        Expr::Paren(it) => &it.attrs,
        Expr::Group(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Block(it) => &it.attrs,
        // Everything else is refused as a whole.
        _ => &[],
    }
}
