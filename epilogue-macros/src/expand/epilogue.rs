//! `#[epilogue]`: the struct that the function becomes.
//!
//! ```text
//! struct BiasGelu<F: Fields = Unborrowed> { c: F::Input, alpha: f64, d: F::Output }
//! impl Epilogue for BiasGelu { type Arguments<'a> = BiasGelu<Borrowed<'a>>; … }
//! ```
//!
//! One name has two uses: `Gemm<BiasGelu>` is a type that a user's struct can have, and `BiasGelu { c: &c, … }` is the
//! arguments of one run. If the struct had a lifetime, the first use would need one wherever a plan is kept, although a
//! plan borrows nothing. A type parameter with a default needs nothing in a type, and is inferred in a literal. (A
//! second type for the plan would need a second name, which users would have to learn.)

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Lifetime};

use super::backward;
use super::library::Library;
use super::structure::{Body, Field, FieldAccess, body, fallback_fields, fields};
use super::{local, plain, upper_camel_case};
use epilogue_syntax::EpilogueFunction;
use epilogue_syntax::ast::Header;

/// The expansion; after mistakes, items with the same names, so that no other errors follow from them.
pub(crate) fn expand(function: &EpilogueFunction, mistaken: bool) -> TokenStream {
    let EpilogueFunction { header, name, epilogue, checked, backward, library } = function;
    let library = &Library::new(library.as_ref());
    let name = name.clone().unwrap_or_else(|| upper_camel_case(&header.name));
    let attributes = Attributes::new(&header.attributes);
    let whole = || body(&header.name, Some(&header.visibility), &attributes.levels, epilogue, checked, library);
    let (fields, body) = match (!mistaken).then(whole).flatten() {
        Some(body) => (fields(epilogue, checked), body),
        None => {
            let tree = quote!(::core::unreachable!());
            (fallback_fields(epilogue, checked), Body { tree, element: None })
        }
    };
    let forward = items(header, &name, &fields, &body.tree, &attributes, library);
    let element = body.element.map(|element| {
        let conditions = &attributes.conditions;
        quote! {
            #conditions
            impl #name {
                #element
            }
        }
    });
    let backward = backward.as_ref().map(|of| {
        let own = of.name.clone().unwrap_or_else(|| format_ident!("{name}Backward"));
        let tree = if mistaken { quote!(::core::unreachable!()) } else { backward::tree(&name, of, library) };
        let attributes = Attributes {
            structure: backward::documentation(&name, of, &attributes.conditions),
            levels: TokenStream::new(),
            conditions: attributes.conditions.clone(),
        };
        items(header, &own, &backward::fields(epilogue, checked, of), &tree, &attributes, library)
    });
    quote! {
        #forward
        #element
        #backward
    }
}

/// A struct that is an epilogue.
fn items(
    header: &Header,
    name: &Ident,
    fields: &[Field],
    tree: &TokenStream,
    attributes: &Attributes,
    library: &Library,
) -> TokenStream {
    let lifetime = Lifetime::new("'a", Span::mixed_site());
    let borrows = borrows(fields);
    let borrowed = borrows.then(|| quote!(<#library::Borrowed<#lifetime>>));
    let anonymous = borrows.then(|| quote!(<#library::Borrowed<'_>>));
    let structure = structure(header, name, fields, attributes, library);
    let (values, conditions) = (values(fields, library), &attributes.conditions);
    let debug = debug(name, fields);
    quote! {
        #structure

        #conditions
        #[automatically_derived]
        impl ::core::fmt::Debug for #name #anonymous {
            #debug
        }

        #conditions
        #[automatically_derived]
        impl #library::Epilogue for #name {
            type Arguments<#lifetime> = #name #borrowed;

            fn tree() -> #library::evt::Tree {
                #tree
            }
        }

        #conditions
        #[automatically_derived]
        impl<#lifetime> #library::Arguments<#lifetime> for #name #borrowed {
            fn arguments(self) -> ::std::vec::Vec<#library::Argument<#lifetime>> {
                #values
            }
        }
    }
}

fn structure(
    header: &Header,
    name: &Ident,
    fields: &[Field],
    attributes: &Attributes,
    library: &Library,
) -> TokenStream {
    let visibility = &header.visibility;
    // A parameter with the struct's own name would hide the struct.
    let parameter = format_ident!("{}", if name == "F" { "Kind" } else { "F" }, span = Span::mixed_site());
    let generics = borrows(fields).then(|| quote!(<#parameter: #library::Fields = #library::Unborrowed>));
    let members = fields.iter().map(|field| {
        let (name, ty, docs, description) =
            (&field.name, field.access.generic(&parameter), &field.docs, &field.description);
        // A separate paragraph after the user's text.
        let description = if docs.is_empty() { description.clone() } else { format!("\n\n{description}") };
        quote!(#(#docs)* #[doc = #description] #visibility #name: #ty)
    });
    let attributes = &attributes.structure;
    quote! {
        #attributes
        #[allow(non_snake_case)]
        #visibility struct #name #generics {
            #(#members,)*
        }
    }
}

/// Whether a run borrows anything; after a mistake there may be nothing.
fn borrows(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.access != FieldAccess::Scalar)
}

/// `Debug::fmt`, written by hand, because a derived one would require fields that can be printed.
fn debug(name: &Ident, fields: &[Field]) -> TokenStream {
    let (formatter, name) = (local("formatter"), plain(name));
    let calls = fields.iter().map(|field| {
        let (field, text) = (&field.name, plain(&field.name));
        quote!(.field(#text, &self.#field))
    });
    quote! {
        fn fmt(&self, #formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            #formatter.debug_struct(#name) #(#calls)* .finish()
        }
    }
}

/// The arguments in order, taken out of `self`.
pub(super) fn values(fields: &[Field], library: &Library) -> TokenStream {
    let arguments = fields.iter().map(|field| {
        let (name, variant) = (&field.name, field.access.variant());
        quote!(#library::Argument::#variant(self.#name))
    });
    quote!(::std::vec![#(#arguments),*])
}

/// The user's attributes, by the item that they belong to.
struct Attributes {
    structure: TokenStream,
    /// Lint levels, which affect the user's body; only the twin has it.
    levels: TokenStream,
    /// `#[cfg]`, which every item needs.
    conditions: TokenStream,
}

impl Attributes {
    fn new(attributes: &[Attribute]) -> Self {
        let mut sorted =
            Self { structure: TokenStream::new(), levels: TokenStream::new(), conditions: TokenStream::new() };
        for attribute in attributes {
            let is = |name: &str| attribute.path().is_ident(name);
            let tokens = quote!(#attribute);
            if is("cfg") {
                sorted.structure.extend(tokens.clone());
                sorted.conditions.extend(tokens);
            } else if is("allow") {
                sorted.structure.extend(tokens.clone());
                sorted.levels.extend(tokens);
            } else if is("warn") || is("deny") || is("forbid") || is("expect") {
                sorted.levels.extend(tokens);
            } else if is("doc") || is("deprecated") || is("must_use") || is("cfg_attr") {
                sorted.structure.extend(tokens);
            }
        }
        sorted
    }
}
