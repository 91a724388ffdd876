//! The arguments between an attribute's parentheses, and the item under it.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, LitStr, MetaNameValue, Token};

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

/// The device body in `#[elementwise(cuda = "…")]`.
pub(crate) fn cuda_argument(arguments: TokenStream, errors: &mut Errors) -> Option<LitStr> {
    const ONLY: &str = "the only argument is `cuda = \"return …;\"`";
    let mut value = None;
    for argument in list::<MetaNameValue>(arguments, ONLY, errors) {
        if !argument.path.is_ident("cuda") {
            errors.on(&argument.path, ONLY);
        } else if value.is_some() {
            errors.on(&argument.path, "`cuda` is given twice");
        } else {
            value = Some(argument.value);
        }
    }
    match value? {
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
