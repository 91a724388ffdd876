//! `epilogue!`: a value with one setter for every parameter and output.
//!
//! Each field has a type parameter that says whether it was set. Only a value with all of them set has the arguments'
//! type, so an incomplete one is an error at the call of `run`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Lifetime;

use super::structure::{Field, fallback_fields, fields, tree_body};
use super::{epilogue, local, upper_camel_case};
use epilogue_syntax::ast::Epilogue;
use epilogue_syntax::check::Checked;

/// The expansion; after mistakes, a value with the same setters.
pub(crate) fn expand(epilogue: &Epilogue, checked: &Checked, mistakes: &TokenStream) -> TokenStream {
    let tree =
        mistakes.is_empty().then(|| tree_body(&local("epilogue"), &TokenStream::new(), epilogue, checked)).flatten();
    let (fields, tree) = match tree {
        Some(tree) => (fields(epilogue, checked), tree),
        None => (fallback_fields(epilogue, checked), quote!(::core::unreachable!())),
    };
    let name = local("Epilogue");
    let states = states(&fields);
    let names = fields.iter().map(|field| &field.name).collect::<Vec<_>>();
    let unset = fields.iter().map(|_| quote!(::epilogue::Unset)).collect::<Vec<_>>();
    let lifetime = Lifetime::new("'a", Span::mixed_site());
    let set = fields.iter().map(|field| field.access.ty(&lifetime)).collect::<Vec<_>>();
    let setters = (0..fields.len()).map(|i| setter(&name, &fields, &states, i, &lifetime));
    let values = epilogue::values(&fields);
    quote! {
        {
            #mistakes

            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[allow(non_snake_case)]
            struct #name<#(#states),*> {
                #(#names: #states,)*
            }

            #(#setters)*

            #[automatically_derived]
            impl ::epilogue::Epilogue for #name<#(#unset),*> {
                type Arguments<#lifetime> = #name<#(#set),*>;

                fn tree() -> ::epilogue::evt::Tree {
                    #tree
                }
            }

            #[automatically_derived]
            impl<#lifetime> ::epilogue::Arguments<#lifetime> for #name<#(#set),*> {
                fn arguments(self) -> ::std::vec::Vec<::epilogue::Argument<#lifetime>> {
                    #values
                }
            }

            #name { #(#names: ::epilogue::Unset),* }
        }
    }
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

fn setter(name: &Ident, fields: &[Field], states: &[Ident], i: usize, lifetime: &Lifetime) -> TokenStream {
    let (field, value) = (&fields[i], local("value"));
    let (setter, ty, description) = (&field.name, field.access.ty(lifetime), &field.description);
    let docs = &field.docs;
    let others = states.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, state)| state);
    let before =
        states.iter().enumerate().map(|(j, state)| if j == i { quote!(::epilogue::Unset) } else { quote!(#state) });
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
