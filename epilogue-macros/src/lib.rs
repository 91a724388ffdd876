//! The macros of the crate `epilogue`: a thin proc-macro shell over ordinary functions on tokens.
//!
//! ```text
//! tokens ──parse──► ast ──check──► names resolved, shape classes known ──expand──► tokens
//!             └──────────┴── every mistake, each at its own token (report)
//! ```
//!
//! This crate knows syntax. It must never know CUDA, and has no table of functions: rustc says what a function is, how
//! many arguments it takes and of what types, because the user's body is expanded a second time as Rust (the twin). It
//! has a list of the operations' names, for messages about unknown names (`operations`).

mod ast;
mod check;
mod expand;
mod operations;
mod parse;
mod report;
mod sight;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprClosure, ExprLit, ItemFn, Lit, LitStr, MetaNameValue, Token};

use report::Errors;

/// Turns a function into an epilogue: a struct with one field for every parameter except the accumulators, and for
/// every returned name.
///
/// `#[epilogue(name = X)]` names the struct; otherwise `row_reduction` becomes `RowReduction`.
#[proc_macro_attribute]
pub fn epilogue(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_epilogue(arguments.into(), item.into()).into()
}

/// The closure form of an epilogue, exported as `epilogue!`.
#[proc_macro]
pub fn epilogue_closure(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_closure(input.into()).into()
}

/// Turns a function of floats into an operation of the epilogue language.
///
/// `#[elementwise(cuda = "…")]` adds a hand-written CUDA C++ body, which uses the parameters by name and must `return`.
#[proc_macro_attribute]
pub fn elementwise(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_elementwise(arguments.into(), item.into()).into()
}

fn expand_epilogue(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let name = name_argument(arguments, &mut errors);
    let Some(item) = function_item(item, "epilogue", &mut errors) else {
        return errors.into_tokens();
    };
    let (header, mut epilogue) = parse::function(&item, &mut errors);
    let checked = check::epilogue(&mut epilogue, check::Form::Function, &mut errors);
    let expansion = expand::epilogue::expand(&header, name.as_ref(), &epilogue, &checked, !errors.is_empty());
    let mut tokens = errors.into_tokens();
    if !header.receiver {
        tokens.extend(expansion);
    }
    tokens
}

fn expand_closure(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = match syn::parse2::<ExprClosure>(input) {
        Ok(item) => item,
        Err(error) => {
            errors.push(error);
            return errors.into_tokens();
        }
    };
    let mut epilogue = parse::closure(&item, &mut errors);
    let checked = check::epilogue(&mut epilogue, check::Form::Closure, &mut errors);
    expand::closure::expand(&epilogue, &checked, &errors.into_tokens())
}

fn expand_elementwise(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let cuda = cuda_argument(arguments, &mut errors);
    let Some(item) = function_item(item, "elementwise", &mut errors) else {
        return errors.into_tokens();
    };
    let (header, mut function) = parse::elementwise(&item, &mut errors);
    let constants = check::elementwise(&header, &mut function, &mut errors);
    if errors.is_empty() {
        return expand::elementwise::expand(&item, &header, &function, &constants, cuda.as_ref());
    }
    let mut tokens = errors.into_tokens();
    tokens.extend(expand::elementwise::fallback(&item, &header));
    tokens
}

/// The function under an attribute.
fn function_item(item: TokenStream, attribute: &str, errors: &mut Errors) -> Option<ItemFn> {
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

fn first_span(tokens: TokenStream) -> proc_macro2::Span {
    tokens.into_iter().next().map_or_else(proc_macro2::Span::call_site, |first| first.span())
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

fn name_argument(arguments: TokenStream, errors: &mut Errors) -> Option<Ident> {
    let value = attribute_argument(arguments, "name", "name = RowReduction", errors)?;
    if let Expr::Path(path) = &value
        && let Some(ident) = path.path.get_ident()
    {
        return Some(ident.clone());
    }
    errors.on(value, "the struct's name is an identifier: `name = RowReduction`");
    None
}

fn cuda_argument(arguments: TokenStream, errors: &mut Errors) -> Option<LitStr> {
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
