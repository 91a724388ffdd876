//! Expands checked syntax to Rust: the struct, the calls that build the visitor tree, and the twin that rustc checks.

mod backward;
pub(crate) mod closure;
pub(crate) mod elementwise;
pub(crate) mod epilogue;
pub(crate) mod library;
pub(crate) mod reducer;
mod structure;
mod tree;
mod twin;

use proc_macro2::{Ident, Span};
use quote::format_ident;

/// A name that is visible only in the expansion.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The item with the value of the body's constant of this number. Items have no hygiene, hence the long name.
fn constant(place: usize) -> Ident {
    format_ident!("__EPILOGUE_CONSTANT_{place}", span = Span::mixed_site())
}

/// A name as text, without `r#`.
fn plain(name: &Ident) -> String {
    let text = name.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

/// `row_reduction` as a type's name, `RowReduction`.
fn upper_camel_case(name: &Ident) -> Ident {
    let mut camel = String::new();
    for word in plain(name).split('_') {
        let mut characters = word.chars();
        camel.extend(characters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(characters.as_str());
    }
    if camel.is_empty() || camel.starts_with(|c: char| c.is_ascii_digit()) || camel == "Self" {
        camel.insert(0, '_');
    }
    Ident::new(&camel, name.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        for (function, ty) in [
            ("row_reduction", "RowReduction"),
            ("f", "F"),
            ("bias_gelu_2", "BiasGelu2"),
            ("_hidden", "Hidden"),
            ("r#match", "Match"),
            ("__", "_"),
        ] {
            let ident: Ident = syn::parse_str(function).expect("an identifier");
            if ty == "_" {
                assert_eq!(upper_camel_case(&ident).to_string(), "_");
            } else {
                assert_eq!(upper_camel_case(&ident), ty);
            }
        }
    }
}
