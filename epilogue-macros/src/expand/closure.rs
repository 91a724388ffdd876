//! `closure!`: a value with one setter for every parameter and output.
//!
//! Each field has a type parameter that says whether it was set. Only a value with all of them set has the arguments'
//! type, so an incomplete one is an error at the call of `run`. There rustc prints the type, which therefore names the
//! fields that were not set: `Epilogue<c_is_not_set, f64, d_is_not_set>`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Lifetime;

use super::library::Library;
use super::structure::{Field, body, fallback_fields, fields};
use super::{epilogue, local, plain, upper_camel_case};
use epilogue_syntax::EpilogueClosure;

/// The expansion; after mistakes, a value with the same setters.
pub(crate) fn expand(closure: &EpilogueClosure, mistakes: &TokenStream) -> TokenStream {
    let EpilogueClosure { epilogue, checked, library } = closure;
    let library = &Library::new(library.as_ref());
    let whole = || body(&local("epilogue"), None, &TokenStream::new(), epilogue, checked, library);
    let (fields, tree) = match mistakes.is_empty().then(whole).flatten() {
        Some(body) => (fields(epilogue, checked), body.tree),
        None => (fallback_fields(epilogue, checked), quote!(::core::unreachable!())),
    };
    let name = local("Epilogue");
    let states = states(&fields);
    let names = fields.iter().map(|field| &field.name).collect::<Vec<_>>();
    let unset = fields.iter().map(|field| unset(&field.name)).collect::<Vec<_>>();
    let lifetime = Lifetime::new("'a", Span::mixed_site());
    let set = fields.iter().map(|field| field.access.ty(&lifetime, library)).collect::<Vec<_>>();
    let setters = (0..fields.len()).map(|i| setter(&name, &fields, (&states, &unset), i, &lifetime, library));
    let values = epilogue::values(&fields, library);
    quote! {
        {
            #mistakes

            #(
                #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
                #[allow(non_camel_case_types)]
                struct #unset;
            )*

            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[allow(non_snake_case)]
            struct #name<#(#states),*> {
                #(#names: #states,)*
            }

            #(#setters)*

            #[automatically_derived]
            impl #library::Epilogue for #name<#(#unset),*> {
                type Arguments<#lifetime> = #name<#(#set),*>;

                fn tree() -> #library::evt::Tree {
                    #tree
                }
            }

            #[automatically_derived]
            impl<#lifetime> #library::Arguments<#lifetime> for #name<#(#set),*> {
                fn arguments(self) -> ::std::vec::Vec<#library::Argument<#lifetime>> {
                    #values
                }
            }

            #name { #(#names: #unset),* }
        }
    }
}

/// The type of a field before its setter is called.
fn unset(field: &Ident) -> Ident {
    format_ident!("{}_is_not_set", plain(field), span = Span::mixed_site())
}

/// One type parameter for each field, named after it.
fn states(fields: &[Field]) -> Vec<Ident> {
    let mut states: Vec<Ident> = Vec::new();
    for field in fields {
        let mut state = upper_camel_case(&field.name);
        while states.contains(&state) || state == "Epilogue" {
            state = format_ident!("{state}_");
        }
        state.set_span(Span::mixed_site());
        states.push(state);
    }
    states
}

fn setter(
    name: &Ident,
    fields: &[Field],
    (states, unset): (&[Ident], &[Ident]),
    i: usize,
    lifetime: &Lifetime,
    library: &Library,
) -> TokenStream {
    let (field, value) = (&fields[i], local("value"));
    let (setter, ty, description) = (&field.name, field.access.ty(lifetime, library), &field.description);
    let docs = &field.docs;
    let others = states.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, state)| state);
    let before = states.iter().enumerate().map(|(j, state)| if j == i { &unset[j] } else { state });
    let after = states.iter().enumerate().map(|(j, state)| if j == i { ty.clone() } else { quote!(#state) });
    let moved = fields.iter().enumerate().map(|(j, field)| {
        let name = &field.name;
        if j == i { quote!(#name: #value) } else { quote!(#name: self.#name) }
    });
    // A host scalar borrows nothing.
    let lifetime = (field.access != super::structure::FieldAccess::Scalar).then(|| quote!(<#lifetime>));
    quote! {
        #[allow(dead_code, non_snake_case)]
        impl<#(#others),*> #name<#(#before),*> {
            #(#docs)*
            #[doc = #description]
            fn #setter #lifetime(self, #value: #ty) -> #name<#(#after),*> {
                #name { #(#moved),* }
            }
        }
    }
}
