//! The values of constants: the file's, computed in f32 as rustc does, and the standard library's.

use syn::spanned::Spanned;
use syn::{BinOp, Expr, Lit, Type, UnOp};

use super::items::{Items, Path};
use super::names::meanings;

/// Constants that stand for each other at most.
const LONGEST_CHAIN: usize = 64;

/// The value of a constant that a body in a module names.
pub(super) fn value(items: &Items, path: &syn::Path, module: &Path) -> Result<f32, syn::Error> {
    named(items, path, module, LONGEST_CHAIN)
}

/// The value of an expression in a module.
pub(super) fn computed_in(items: &Items, expr: &Expr, module: &Path) -> Result<f32, syn::Error> {
    computed(items, expr, module, LONGEST_CHAIN)
}

fn named(items: &Items, path: &syn::Path, module: &Path, chain: usize) -> Result<f32, syn::Error> {
    let text = || path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>().join("::");
    let Some(chain) = chain.checked_sub(1) else {
        return Err(syn::Error::new(path.span(), format_args!("the value of `{}` follows from itself", text())));
    };
    for meaning in meanings(items, path, module) {
        // A constant that is named twice is computed once: each could name another one twice.
        if let Some(value) = items.computed.borrow().get(&meaning) {
            return Ok(*value);
        }
        if let Some(constant) = items.constants.get(&meaning) {
            let is_f32 = matches!(&*constant.ty, Type::Path(path) if path.path.is_ident("f32"));
            if !is_f32 {
                return Err(syn::Error::new(
                    constant.ty.span(),
                    format_args!(
                        "a constant that an epilogue names is an `f32`: write `const {}: f32`",
                        constant.ident
                    ),
                ));
            }
            let module = meaning[..meaning.len() - 1].to_vec();
            let value = computed(items, &constant.expr, &module, chain)?;
            items.computed.borrow_mut().insert(meaning, value);
            return Ok(value);
        }
        if let Some(value) = standard(&meaning) {
            return Ok(value);
        }
    }
    Err(syn::Error::new(
        path.span(),
        format_args!(
            "there is no constant `{}` in this file: write `const {}: f32 = …;` there, or the number",
            text(),
            path.segments.last().map(|part| part.ident.to_string()).unwrap_or_default()
        ),
    ))
}

/// The value of a constant's expression.
fn computed(items: &Items, expr: &Expr, module: &Path, chain: usize) -> Result<f32, syn::Error> {
    match expr {
        Expr::Paren(inner) => computed(items, &inner.expr, module, chain),
        Expr::Group(inner) => computed(items, &inner.expr, module, chain),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Float(float) if matches!(float.suffix(), "" | "f32") => float.base10_parse(),
            _ => Err(refused(expr)),
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Ok(-computed(items, &unary.expr, module, chain)?),
        Expr::Binary(binary) => {
            let (x, y) =
                (computed(items, &binary.left, module, chain)?, computed(items, &binary.right, module, chain)?);
            match binary.op {
                BinOp::Add(_) => Ok(x + y),
                BinOp::Sub(_) => Ok(x - y),
                BinOp::Mul(_) => Ok(x * y),
                BinOp::Div(_) => Ok(x / y),
                _ => Err(refused(expr)),
            }
        }
        Expr::Path(path) if path.qself.is_none() => named(items, &path.path, module, chain),
        _ => Err(refused(expr)),
    }
}

fn refused(expr: &Expr) -> syn::Error {
    syn::Error::new(
        expr.span(),
        "the command computes constants of numbers such as `2.0`, other constants, and `+ - * /`: write the value",
    )
}

/// `std::f32::consts::PI`, `f32::MAX` and the like; `core` has the same.
fn standard(path: &[String]) -> Option<f32> {
    use std::f32::consts as c;
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let (name, at) = names.split_last()?;
    match at {
        ["std" | "core", "f32", "consts"] => Some(match *name {
            "PI" => c::PI,
            "TAU" => c::TAU,
            "E" => c::E,
            "SQRT_2" => c::SQRT_2,
            "FRAC_1_SQRT_2" => c::FRAC_1_SQRT_2,
            "FRAC_1_PI" => c::FRAC_1_PI,
            "FRAC_2_PI" => c::FRAC_2_PI,
            "FRAC_2_SQRT_PI" => c::FRAC_2_SQRT_PI,
            "FRAC_PI_2" => c::FRAC_PI_2,
            "FRAC_PI_3" => c::FRAC_PI_3,
            "FRAC_PI_4" => c::FRAC_PI_4,
            "FRAC_PI_6" => c::FRAC_PI_6,
            "FRAC_PI_8" => c::FRAC_PI_8,
            "LN_2" => c::LN_2,
            "LN_10" => c::LN_10,
            "LOG2_E" => c::LOG2_E,
            "LOG2_10" => c::LOG2_10,
            "LOG10_2" => c::LOG10_2,
            "LOG10_E" => c::LOG10_E,
            _ => return None,
        }),
        [.., "f32"] => Some(match *name {
            "MAX" => f32::MAX,
            "MIN" => f32::MIN,
            "MIN_POSITIVE" => f32::MIN_POSITIVE,
            "EPSILON" => f32::EPSILON,
            "INFINITY" => f32::INFINITY,
            "NEG_INFINITY" => f32::NEG_INFINITY,
            "NAN" => f32::NAN,
            _ => return None,
        }),
        _ => None,
    }
}
