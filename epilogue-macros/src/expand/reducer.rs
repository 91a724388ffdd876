//! `#[reducer]`: the module, with its functions for the host and the reducer that they are.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use syn::{FnArg, Pat, ReturnType};

use super::library::Library;
use super::tree::Emitter;
use super::twin::{Twin, constants};
use super::{local, plain};
use epilogue_syntax::reducer::{OwnFunction, Parts, ReducerModule, Word};
use epilogue_syntax::walk;

/// The expansion; after mistakes, a module of that name, so that no other errors follow from it.
pub(crate) fn expand(module: &ReducerModule) -> TokenStream {
    let ReducerModule { attributes, visibility, name, items, parts, library } = module;
    let library = &Library::new(library.as_ref());
    let inside = parts.as_ref().and_then(|parts| inside(name, parts, library)).unwrap_or_else(|| fallback(library));
    quote! {
        #(#attributes)*
        #visibility mod #name {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use #library::ops::*;

            #(#items)*
            #inside
        }
    }
}

fn fallback(library: &Library) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, unreachable_pub)]
        pub fn reducer() -> &'static #library::evt::Reducer {
            ::core::unreachable!()
        }
    }
}

/// The functions and the reducer; `None` after a mistake, which has been reported.
fn inside(name: &Ident, parts: &Parts, library: &Library) -> Option<TokenStream> {
    let Parts { identity, numbers, lift, combine, finish } = parts;
    let text = plain(name);
    let builders = |function: &OwnFunction| -> Option<Vec<TokenStream>> {
        let words = function.words.iter().enumerate();
        words.map(|(i, word)| builder(&word_name(&text, function, i), word, library)).collect()
    };
    let (lifts, combines) = (builders(lift)?, builders(combine)?);
    let finishes = builders(finish)?;
    let words = (0..numbers.len()).map(|i| match numbers.len() {
        1 => quote!(IDENTITY),
        _ => {
            let i = Literal::usize_unsuffixed(i);
            quote!(IDENTITY.#i)
        }
    });
    let number = quote!(<::core::primitive::f64 as ::core::convert::From<::core::primitive::f32>>::from);
    let hosts = [lift, combine, finish].map(|function| host(function, library));
    Some(quote! {
        #[allow(dead_code)]
        #identity

        #(#hosts)*

        /// The reduction's result for these elements, combined on the host one after the other.
        #[allow(dead_code, unreachable_pub)]
        pub fn reduce(elements: impl ::core::iter::IntoIterator<Item = ::core::primitive::f32>) -> ::core::primitive::f32 {
            let elements = ::core::iter::IntoIterator::into_iter(elements);
            finish(::core::iter::Iterator::fold(elements, IDENTITY, |state, x| combine(state, lift(x))))
        }

        /// The reducer, for trees that are built by hand.
        #[allow(dead_code, unreachable_pub)]
        pub fn reducer() -> &'static #library::evt::Reducer {
            static REDUCER: ::std::sync::LazyLock<#library::evt::Reducer> = ::std::sync::LazyLock::new(|| {
                #library::evt::Reducer::new(
                    #text,
                    &[#(#number(#words)),*],
                    ::std::vec![#(#lifts),*],
                    ::std::vec![#(#combines),*],
                    #(#finishes)*
                )
            });
            &REDUCER
        }
    })
}

/// The name of the function that gives one number.
fn word_name(reducer: &str, function: &OwnFunction, word: usize) -> String {
    let name = &function.item.sig.ident;
    if function.words.len() == 1 { format!("{reducer}_{name}") } else { format!("{reducer}_{name}_{word}") }
}

/// A block that builds the function of one number.
fn builder(name: &str, word: &Word, library: &Library) -> Option<TokenStream> {
    let mut emitter = Emitter::new(false, library);
    let parameters: Vec<(&Ident, Ident)> = word
        .function
        .parameters
        .iter()
        .map(|parameter| {
            let text = plain(&parameter.name);
            (&parameter.name, emitter.node(parameter.name.span(), &quote!(parameter(#text))))
        })
        .collect();
    let root = walk::elementwise(parameters, &word.function.body, &mut emitter)?;
    let (builder, constants) = (emitter.builder().clone(), constants(&word.constants));
    let calls = emitter.into_calls();
    Some(quote! {{
        #constants
        let mut #builder = #library::expr::FunctionBuilder::new(#name);
        #calls
        #builder.finish(#root)
    }})
}

/// The function for the host: rustc checks the user's body in it, once for every number that it gives.
fn host(function: &OwnFunction, library: &Library) -> TokenStream {
    let OwnFunction { item, words } = function;
    let (attributes, visibility, name) = (&item.attrs, &item.vis, &item.sig.ident);
    let ReturnType::Type(_, output) = &item.sig.output else { return TokenStream::new() };
    let typed: Vec<_> = item
        .sig
        .inputs
        .iter()
        .enumerate()
        .filter_map(|(i, input)| match input {
            FnArg::Typed(typed) => {
                let own = match &*typed.pat {
                    Pat::Ident(own) => own.ident.clone(),
                    _ => format_ident!("state_{i}"),
                };
                Some((own, &typed.ty))
            }
            FnArg::Receiver(_) => None,
        })
        .collect();
    // How many numbers a parameter has is how many the functions take of it.
    let taken = words.first().map_or(0, |word| word.function.parameters.len()) / typed.len().max(1);
    let arguments: Vec<TokenStream> = typed
        .iter()
        .flat_map(|(own, _)| {
            (0..taken).map(move |i| {
                let i = Literal::usize_unsuffixed(i);
                if taken == 1 { quote!(#own) } else { quote!(#own.#i) }
            })
        })
        .collect();
    let inner = words.iter().enumerate().map(|(i, word)| {
        let (name, constants) = (local(&format!("__epilogue_word_{i}")), constants(&word.constants));
        let parameters = word.function.parameters.iter().map(|parameter| {
            let (mutability, name) = (&parameter.mutability, &parameter.name);
            quote!(#mutability #name: ::core::primitive::f32)
        });
        let body = Twin(library).block(&word.function.body, &constants);
        quote! {
            #[allow(unused, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
            fn #name(#(#parameters),*) -> ::core::primitive::f32 #body
        }
    });
    let calls: Vec<TokenStream> = (0..words.len())
        .map(|i| {
            let name = local(&format!("__epilogue_word_{i}"));
            quote!(#name(#(#arguments),*))
        })
        .collect();
    let value = if calls.len() == 1 { quote!(#(#calls)*) } else { quote!((#(#calls),*)) };
    let inputs = typed.iter().map(|(own, ty)| quote!(#own: #ty));
    quote! {
        #(#attributes)*
        #[allow(dead_code, unused_qualifications, unused_mut)]
        #visibility fn #name(#(#inputs),*) -> #output {
            #(#inner)*
            #value
        }
    }
}
