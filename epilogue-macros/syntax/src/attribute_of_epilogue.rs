//! `#[epilogue(name = X, backward(through = y, given(v), saved(z), gradients(bias), gradients_of_all(w), name = Y), crate = path)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, Meta, MetaList, MetaNameValue, Path};

use crate::attribute::{library, list};
use crate::report::Errors;

/// The arguments between the attribute's parentheses.
#[derive(Default)]
pub(crate) struct Arguments {
    /// The struct's name.
    pub(crate) name: Option<Ident>,
    /// The backward pass that is asked for.
    pub(crate) backward: Option<Backward>,
    /// The library's path.
    pub(crate) library: Option<Path>,
}

/// `backward`, with what it says; what isn't said follows from the function.
pub(crate) struct Backward {
    /// The word.
    pub(crate) place: Span,
    pub(crate) name: Option<Ident>,
    pub(crate) through: Option<Ident>,
    pub(crate) given: Vec<Ident>,
    pub(crate) saved: Option<Vec<Ident>>,
    pub(crate) gradients: Option<Vec<Ident>>,
    pub(crate) gradients_of_all: Vec<Ident>,
}

const KNOWN: &str = "the arguments are `name = RowReduction`, `backward` and `crate = path`";
const OF_BACKWARD: &str = "`backward` takes `through = y`, `given(v)`, `saved(z)`, `gradients(bias)`, `gradients_of_all(bias)` and \
                           `name = Gradients`, with names of the function's own";

pub(crate) fn arguments(tokens: TokenStream, errors: &mut Errors) -> Arguments {
    let mut arguments = Arguments::default();
    for meta in list::<Meta>(tokens, KNOWN, errors) {
        match &meta {
            Meta::NameValue(pair) if pair.path.is_ident("name") => name(pair, &mut arguments.name, errors),
            Meta::NameValue(pair) if pair.path.is_ident("crate") => library(pair, &mut arguments.library, errors),
            Meta::Path(_) | Meta::List(_) if meta.path().is_ident("backward") => {
                if arguments.backward.is_some() {
                    errors.on(meta.path(), "`backward` is given twice");
                    continue;
                }
                let inner = match &meta {
                    Meta::List(list) => list.tokens.clone(),
                    _ => TokenStream::new(),
                };
                arguments.backward = Some(backward(meta.path().span(), inner, errors));
            }
            other => errors.on(other.path(), KNOWN),
        }
    }
    arguments
}

/// A struct's name.
fn name(pair: &MetaNameValue, name: &mut Option<Ident>, errors: &mut Errors) {
    let written = ident(&pair.value);
    match (written, name.is_some()) {
        (_, true) => errors.on(&pair.path, "`name` is given twice"),
        (None, false) => errors.on(&pair.value, "the struct's name is an identifier: `name = RowReduction`"),
        (written, false) => *name = written,
    }
}

fn ident(value: &Expr) -> Option<Ident> {
    match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    }
}

fn backward(place: Span, tokens: TokenStream, errors: &mut Errors) -> Backward {
    let mut backward = Backward {
        place,
        name: None,
        through: None,
        given: Vec::new(),
        saved: None,
        gradients: None,
        gradients_of_all: Vec::new(),
    };
    let mut seen: Vec<String> = Vec::new();
    for meta in list::<Meta>(tokens, OF_BACKWARD, errors) {
        let key = meta.path().to_token_stream().to_string();
        if key != "name" && seen.contains(&key) {
            errors.on(meta.path(), format_args!("`{key}` is given twice"));
            continue;
        }
        match (&meta, key.as_str()) {
            (Meta::NameValue(pair), "name") => name(pair, &mut backward.name, errors),
            (Meta::NameValue(pair), "through") => match ident(&pair.value) {
                Some(through) => backward.through = Some(through),
                None => errors.on(&pair.value, "what the gradient goes through is a returned name: `through = y`"),
            },
            (Meta::List(list), "given") => backward.given = names(list, errors),
            (Meta::List(list), "saved") => backward.saved = Some(names(list, errors)),
            (Meta::List(list), "gradients") => backward.gradients = Some(names(list, errors)),
            (Meta::List(list), "gradients_of_all") => backward.gradients_of_all = names(list, errors),
            _ => errors.on(&meta, OF_BACKWARD),
        }
        seen.push(key);
    }
    backward
}

fn names(of: &MetaList, errors: &mut Errors) -> Vec<Ident> {
    list(of.tokens.clone(), "names stand here, with commas between them", errors)
}
