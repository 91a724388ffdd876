//! Reads Rust's syntax as the language's; everything else is refused at its own token.
//!
//! `body`, `expression` and `reduction` call each other, as in the grammar: a block is statements of expressions, and
//! an expression may be an `if` with blocks or a reduction of an expression.

mod binding;
mod body;
mod class;
mod expression;
mod reduction;
mod signature;

use proc_macro2::Ident;
use quote::ToTokens;

pub(crate) use class::class;
pub(crate) use reduction::{advice, unknown};
pub(crate) use signature::{closure, elementwise, function, refuse_repeated};

/// Every identifier in a piece of syntax.
pub(crate) fn identifiers(tokens: &impl ToTokens) -> Vec<Ident> {
    fn walk(tokens: proc_macro2::TokenStream, found: &mut Vec<Ident>) {
        for tree in tokens {
            match tree {
                proc_macro2::TokenTree::Ident(ident) => found.push(ident),
                proc_macro2::TokenTree::Group(group) => walk(group.stream(), found),
                proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(tokens.to_token_stream(), &mut found);
    found
}
