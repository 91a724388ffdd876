//! The library's path in the expansion: `::epilogue`, or what `crate = path` says.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::Path;

/// The path under which the macro's user has the library.
#[derive(Clone)]
pub(crate) struct Library(TokenStream);

impl Library {
    /// `path` is the argument `crate`.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self(path.map_or_else(|| quote!(::epilogue), ToTokens::to_token_stream))
    }

    /// The path for a place, where rustc's messages about what follows it begin. It keeps its meaning.
    pub(super) fn at(&self, place: Span) -> TokenStream {
        let located = |mut tree: TokenTree| {
            tree.set_span(tree.span().located_at(place));
            tree
        };
        self.0.clone().into_iter().map(located).collect()
    }
}

impl ToTokens for Library {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}
