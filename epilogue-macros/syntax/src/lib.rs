//! The syntax of the epilogue language: what stands under the macros of the crate `epilogue`, parsed and checked.
//!
//! ```text
//! tokens ──parse──► ast ──check──► names resolved, shape classes known ──walk──► calls of a builder
//!             └──────────┴── every mistake, each at its own token (report)
//! ```
//!
//! It has two users: the builder of `epilogue-macros` writes tokens, and the builder of the command `epilogue` makes
//! the visitor tree at once. It is an interface between these packages, and changes with them.
//!
//! It knows syntax. It must never know CUDA, and holds no table of functions. Its users find out what a function is,
//! how many arguments it takes and of what type: the macros ask rustc, the command asks the library. It knows the
//! operations' names, for messages about names that nothing has (`operations`).

pub mod ast;
mod attribute;
mod attribute_of_epilogue;
pub mod check;
pub mod depth;
pub mod operations;
mod parse;
pub mod reducer;
pub mod report;
pub mod sight;
pub mod walk;

use proc_macro2::{Ident, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{ExprClosure, ExprPath, ItemFn, LitStr, MetaNameValue, Path, Token};

use crate::ast::{Elementwise, Epilogue, Header};
use crate::check::{Backward, Checked, Form};
use crate::reducer::ReducerModule;
use crate::report::Errors;
use crate::sight::Files;

/// A function under `#[epilogue]`.
pub struct EpilogueFunction {
    /// The text outside the parameters and the body.
    pub header: Header,
    /// The struct's name, if the attribute says one.
    pub name: Option<Ident>,
    /// The parameters and the body.
    pub epilogue: Epilogue,
    /// The check's facts.
    pub checked: Checked,
    /// The backward pass that the attribute asks for.
    pub backward: Option<Backward>,
    /// The library's path, if it isn't `::epilogue`.
    pub library: Option<Path>,
}

/// The input of `closure!(…)`.
pub struct EpilogueClosure {
    /// The parameters and the body.
    pub epilogue: Epilogue,
    /// The check's facts.
    pub checked: Checked,
    /// The library's path, if it isn't `::epilogue`.
    pub library: Option<Path>,
}

/// A function under `#[elementwise]`.
pub struct ElementwiseFunction {
    /// The function, as it was written.
    pub item: ItemFn,
    /// The text outside the parameters and the body.
    pub header: Header,
    /// The parameters and the body.
    pub function: Elementwise,
    /// The constants that the body names.
    pub constants: Vec<ExprPath>,
    /// The hand-written device body, if the attribute has one.
    pub cuda: Option<LitStr>,
    /// The library's path, if it isn't `::epilogue`.
    pub library: Option<Path>,
}

/// Reads what stands under `#[epilogue(arguments)]`; `None` if it is not a function. All mistakes are in `errors`.
pub fn epilogue(
    arguments: TokenStream,
    item: TokenStream,
    files: Files,
    errors: &mut Errors,
) -> Option<EpilogueFunction> {
    if !can_be_parsed([&arguments, &item], errors) {
        return None;
    }
    let attribute_of_epilogue::Arguments { name, backward, library } =
        attribute_of_epilogue::arguments(arguments, errors);
    let item = attribute::item(item, "`#[epilogue]` stands on a function", errors)?;
    let (header, mut epilogue) = parse::function(&item, errors);
    let checked = check::epilogue(&mut epilogue, Form::Function, files, errors);
    let backward = backward.map(|backward| check::backward(&backward, &epilogue, &checked, errors));
    Some(EpilogueFunction { header, name, epilogue, checked, backward, library })
}

/// Reads what stands in `closure!(…)`; `None` if it is not a closure. All mistakes are in `errors`.
pub fn closure(input: TokenStream, files: Files, errors: &mut Errors) -> Option<EpilogueClosure> {
    if !can_be_parsed([&input], errors) {
        return None;
    }
    let parts = |input: ParseStream<'_>| {
        let mut argument = None;
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            argument = Some(input.parse::<MetaNameValue>()?);
            input.parse::<Token![,]>()?;
        }
        Ok((argument, input.parse::<ExprClosure>()?))
    };
    match parts.parse2(input) {
        Ok((argument, item)) => {
            let mut library = None;
            if let Some(argument) = argument {
                attribute::library(&argument, &mut library, errors);
            }
            let mut epilogue = parse::closure(&item, errors);
            let checked = check::epilogue(&mut epilogue, Form::Closure, files, errors);
            Some(EpilogueClosure { epilogue, checked, library })
        }
        Err(error) => {
            errors.push(error);
            None
        }
    }
}

/// Reads what stands under `#[elementwise(arguments)]`; `None` if it is not a function. All mistakes are in `errors`.
pub fn elementwise(
    arguments: TokenStream,
    item: TokenStream,
    files: Files,
    errors: &mut Errors,
) -> Option<ElementwiseFunction> {
    if !can_be_parsed([&arguments, &item], errors) {
        return None;
    }
    let attribute::OfElementwise { cuda, library } = attribute::of_elementwise(arguments, errors);
    let item = attribute::item(item, "`#[elementwise]` stands on a function", errors)?;
    let (header, mut function) = parse::elementwise(&item, errors);
    let constants = check::elementwise(&header, &mut function, files, errors);
    Some(ElementwiseFunction { item, header, function, constants, cuda, library })
}

/// Reads what stands under `#[reducer(arguments)]`; `None` if it is not a module. All mistakes are in `errors`; `files` is asked
/// for each function.
pub fn reducer(
    arguments: TokenStream,
    item: TokenStream,
    files: &dyn Fn() -> Files,
    errors: &mut Errors,
) -> Option<ReducerModule> {
    if !can_be_parsed([&arguments, &item], errors) {
        return None;
    }
    reducer::module(arguments, item, files, errors)
}

/// Whether nothing is nested too deep; otherwise that is reported.
fn can_be_parsed<const N: usize>(all: [&TokenStream; N], errors: &mut Errors) -> bool {
    let found = all.into_iter().map(depth::check).find_map(Result::err);
    let can = found.is_none();
    found.into_iter().for_each(|error| errors.push(error));
    can
}
