//! The arguments between an attribute's parentheses, and the item under it.
//!
//! `crate = path` is an argument of every macro: the path of the library where it is renamed or re-exported.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, LitStr, MetaNameValue, Path, Token};

use crate::report::Errors;

/// The item under an attribute; `other` says where the attribute stands, if it is an item of another kind.
pub(crate) fn item<T: Parse>(tokens: TokenStream, other: impl Display, errors: &mut Errors) -> Option<T> {
    match syn::parse2::<T>(tokens.clone()) {
        Ok(item) => Some(item),
        Err(error) => {
            match syn::parse2::<syn::Item>(tokens.clone()) {
                Ok(_) => errors.at(first_span(tokens), other),
                Err(_) => errors.push(error),
            }
            None
        }
    }
}

fn first_span(tokens: TokenStream) -> Span {
    tokens.into_iter().next().map_or_else(Span::call_site, |first| first.span())
}

/// Reads a list between parentheses, with commas; `otherwise` says what may stand there.
pub(crate) fn list<T: Parse>(tokens: TokenStream, otherwise: &str, errors: &mut Errors) -> Vec<T> {
    match Punctuated::<T, Token![,]>::parse_terminated.parse2(tokens.clone()) {
        Ok(list) => list.into_iter().collect(),
        Err(_) => {
            errors.on(tokens, otherwise);
            Vec::new()
        }
    }
}

/// Notes the path of `crate = path`.
pub(crate) fn library(pair: &MetaNameValue, library: &mut Option<Path>, errors: &mut Errors) {
    const WANTED: &str = "`crate` is a path of the library, without quotes: `crate = my_library::epilogue`";
    if library.is_some() {
        errors.on(&pair.path, "`crate` is given twice");
        return;
    }
    let Some(path) = path(&pair.value) else {
        errors.on(&pair.value, WANTED);
        return;
    };
    match path.segments.first() {
        Some(first) if path.leading_colon.is_none() && (first.ident == "self" || first.ident == "super") => errors.at(
            first.ident.span(),
            "the library's path begins with the name of a crate, `crate::` or `::`: a reducer's module uses it inside",
        ),
        _ if path.segments.iter().any(|segment| !segment.arguments.is_empty()) => errors.on(path, WANTED),
        _ => *library = Some(path.clone()),
    }
}

/// A path, also of a `macro_rules!` macro's argument.
fn path(value: &Expr) -> Option<&Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Some(&path.path),
        Expr::Group(group) => path(&group.expr),
        _ => None,
    }
}

/// The arguments of `#[elementwise(…)]`.
#[derive(Default)]
pub(crate) struct OfElementwise {
    /// The device body in `cuda = "…"`.
    pub(crate) cuda: Option<LitStr>,
    pub(crate) library: Option<Path>,
}

pub(crate) fn of_elementwise(arguments: TokenStream, errors: &mut Errors) -> OfElementwise {
    const KNOWN: &str = "the arguments are `cuda = \"return …;\"` and `crate = path`";
    let (mut read, mut body) = (OfElementwise::default(), None);
    for argument in list::<MetaNameValue>(arguments, KNOWN, errors) {
        if argument.path.is_ident("crate") {
            library(&argument, &mut read.library, errors);
        } else if !argument.path.is_ident("cuda") {
            errors.on(&argument.path, KNOWN);
        } else if body.is_some() {
            errors.on(&argument.path, "`cuda` is given twice");
        } else {
            body = Some(argument.value);
        }
    }
    read.cuda = body.and_then(|body| device_body(body, errors));
    read
}

fn device_body(body: Expr, errors: &mut Errors) -> Option<LitStr> {
    match body {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if text.value().contains("return") => Some(text),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            errors.on(text, "a CUDA C++ body returns its value: `cuda = \"return x * x;\"`");
            None
        }
        other => {
            errors.on(other, "the CUDA C++ body is a string: `cuda = \"return x * x;\"`");
            None
        }
    }
}
