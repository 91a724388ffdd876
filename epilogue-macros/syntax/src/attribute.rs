//! What stands between an attribute's parentheses, and the function under it.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, ItemFn, Lit, LitStr, MetaNameValue, Token};

use crate::report::Errors;

/// The function under an attribute.
pub(crate) fn function_item(item: TokenStream, attribute: &str, errors: &mut Errors) -> Option<ItemFn> {
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(item) => Some(item),
        Err(error) => {
            match syn::parse2::<syn::Item>(item.clone()) {
                Ok(_) => errors.at(first_span(item), format_args!("`#[{attribute}]` stands on a function")),
                Err(_) => errors.push(error),
            }
            None
        }
    }
}

fn first_span(tokens: TokenStream) -> Span {
    tokens.into_iter().next().map_or_else(Span::call_site, |first| first.span())
}

/// `key = value, …` between an attribute's parentheses.
struct AttributeArguments(Punctuated<MetaNameValue, Token![,]>);

impl Parse for AttributeArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Punctuated::parse_terminated(input).map(Self)
    }
}

/// The values of the one known key; anything else is reported.
fn attribute_argument(arguments: TokenStream, key: &str, example: &str, errors: &mut Errors) -> Option<Expr> {
    if arguments.is_empty() {
        return None;
    }
    let arguments = match AttributeArguments::parse.parse2(arguments.clone()) {
        Ok(arguments) => arguments.0,
        Err(_) => {
            errors.on(arguments, format_args!("the only argument is `{example}`"));
            return None;
        }
    };
    let mut value = None;
    for argument in arguments {
        if !argument.path.is_ident(key) {
            errors.on(&argument.path, format_args!("the only argument is `{example}`"));
        } else if value.is_some() {
            errors.on(&argument.path, format_args!("`{key}` is given twice"));
        } else {
            value = Some(argument.value);
        }
    }
    value
}

/// The device body in `#[elementwise(cuda = "…")]`.
pub(crate) fn cuda_argument(arguments: TokenStream, errors: &mut Errors) -> Option<LitStr> {
    let value = attribute_argument(arguments, "cuda", "cuda = \"return …;\"", errors)?;
    match value {
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
