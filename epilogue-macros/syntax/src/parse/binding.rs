//! Names that parameters and `let` introduce.

use proc_macro2::Ident;
use syn::{Pat, PatIdent};

use super::identifiers;
use crate::ast::Binding;
use crate::report::Errors;

/// A pattern that must be a plain name.
pub(crate) fn named(pat: &Pat, errors: &mut Errors) -> Option<Binding> {
    match pat {
        Pat::Ident(ident) => binding(ident, errors),
        Pat::Wild(wild) => {
            errors.at(wild.underscore_token.span, "a name is needed here: start it with `_` if it is not used");
            None
        }
        Pat::Type(typed) => {
            errors.on(&typed.ty, "the type follows from the value: remove it");
            named(&typed.pat, errors)
        }
        other => {
            errors.excuse(identifiers(other));
            errors.on(other, "a value is one number and cannot be taken apart: write one name");
            None
        }
    }
}

pub(crate) fn binding(ident: &PatIdent, errors: &mut Errors) -> Option<Binding> {
    for attribute in &ident.attrs {
        errors.on(attribute, "an attribute has no meaning here");
    }
    if let Some(by_ref) = &ident.by_ref {
        errors.at(by_ref.span, "values are never borrowed: remove `ref`");
    }
    if let Some((at, _)) = &ident.subpat {
        errors.at(at.span, "a value is one number and cannot be taken apart: write one name");
    }
    Some(Binding { mutability: ident.mutability, name: ident.ident.clone() })
}

/// The names that a pattern would introduce, so that their uses are not reported, too.
pub(crate) fn introduced(pat: &Pat) -> Vec<Ident> {
    identifiers(pat)
}
