//! `#[epilogue]`: the struct that the function becomes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{Attribute, Lifetime};

use super::structure::{Access, Field, fallback_fields, fields, tree_body};
use super::upper_camel_case;
use crate::ast::{Epilogue, Header};
use crate::check::Checked;

/// The expansion; with mistakes, items of the same names, so that nothing else fails because of them.
pub(crate) fn expand(
    header: &Header,
    name: Option<&Ident>,
    epilogue: &Epilogue,
    checked: &Checked,
    mistaken: bool,
) -> TokenStream {
    let name = name.cloned().unwrap_or_else(|| upper_camel_case(&header.name));
    let attributes = Attributes::new(&header.attributes);
    let tree = (!mistaken).then(|| tree_body(&header.name, &attributes.twin, epilogue, checked)).flatten();
    let (fields, tree) = match tree {
        Some(tree) => (fields(epilogue, checked), tree),
        None => (fallback_fields(epilogue, checked), quote!(::core::unreachable!())),
    };
    let lifetime = Lifetime::new("'a", Span::mixed_site());
    // After a mistake there may be nothing to borrow.
    let borrows = fields.iter().any(|field| field.access != Access::Scalar);
    let generics = borrows.then(|| quote!(<#lifetime>));
    let anonymous = borrows.then(|| quote!(<'_>));
    let structure = structure(header, &name, &generics, &fields, &lifetime, &attributes);
    let (values, conditions) = (values(&fields), &attributes.conditions);
    quote! {
        #structure

        #conditions
        #[automatically_derived]
        impl ::epilogue::Epilogue for #name #anonymous {
            type Arguments<#lifetime> = #name #generics;

            fn tree() -> ::epilogue::evt::Tree {
                #tree
            }
        }

        #conditions
        #[automatically_derived]
        impl<#lifetime> ::epilogue::Arguments<#lifetime> for #name #generics {
            fn arguments(self) -> ::std::vec::Vec<::epilogue::Argument<#lifetime>> {
                #values
            }
        }
    }
}

fn structure(
    header: &Header,
    name: &Ident,
    generics: &Option<TokenStream>,
    fields: &[Field],
    lifetime: &Lifetime,
    attributes: &Attributes,
) -> TokenStream {
    let visibility = &header.visibility;
    let members = fields.iter().map(|field| {
        let (name, ty, docs, description) = (&field.name, field.access.ty(lifetime), &field.docs, &field.description);
        // A paragraph of its own after the user's words.
        let description = if docs.is_empty() { description.clone() } else { format!("\n\n{description}") };
        quote!(#(#docs)* #[doc = #description] #visibility #name: #ty)
    });
    let attributes = &attributes.structure;
    quote! {
        #attributes
        #[derive(::core::fmt::Debug)]
        #[allow(non_snake_case)]
        #visibility struct #name #generics {
            #(#members,)*
        }
    }
}

/// The arguments in order, taken out of `self`.
pub(super) fn values(fields: &[Field]) -> TokenStream {
    let arguments = fields.iter().map(|field| {
        let (name, variant) = (&field.name, field.access.variant());
        quote!(::epilogue::Argument::#variant(self.#name))
    });
    quote!(::std::vec::Vec::from([#(#arguments),*]))
}

/// The user's attributes, each where it belongs.
struct Attributes {
    structure: TokenStream,
    twin: TokenStream,
    /// `#[cfg]`, which every item needs.
    conditions: TokenStream,
}

impl Attributes {
    fn new(attributes: &[Attribute]) -> Self {
        let mut sorted =
            Self { structure: TokenStream::new(), twin: TokenStream::new(), conditions: TokenStream::new() };
        for attribute in attributes {
            let is = |name: &str| attribute.path().is_ident(name);
            let tokens = quote!(#attribute);
            if is("cfg") {
                sorted.structure.extend(tokens.clone());
                sorted.conditions.extend(tokens);
            } else if is("doc") || is("allow") {
                sorted.structure.extend(tokens.clone());
                sorted.twin.extend(tokens);
            } else if is("warn") || is("deny") || is("forbid") || is("expect") {
                // Lint levels concern the user's body, which only the twin holds.
                sorted.twin.extend(tokens);
            } else if is("deprecated") || is("must_use") || is("cfg_attr") {
                sorted.structure.extend(tokens);
            }
        }
        sorted
    }
}
