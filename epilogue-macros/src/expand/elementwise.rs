//! `#[elementwise]`: the host's function, and the tree of the same name.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, ItemFn, LitStr};

use super::tree::Emitter;
use super::{local, plain, twin};
use crate::ast::{Elementwise, Header};

/// The expansion of a function without mistakes.
pub(crate) fn expand(
    item: &ItemFn,
    header: &Header,
    function: &Elementwise,
    constants: &[syn::ExprPath],
    cuda: Option<&LitStr>,
) -> TokenStream {
    let mut emitter = Emitter::new(false);
    for parameter in &function.parameters {
        let text = plain(&parameter.name);
        let node = emitter.node(parameter.name.span(), &quote!(parameter(#text)));
        emitter.bind(&parameter.name, node);
    }
    let Some(root) = emitter.body(&function.body) else {
        // Only a mistake leaves a body without a tree, and mistakes have been reported.
        return fallback(item, header);
    };
    let (builder, constants) = (emitter.builder().clone(), twin::constants(constants));
    let (calls, name) = (emitter.into_calls(), plain(&header.name));
    let cuda = cuda.map(|body| quote!(.with_cuda(#body)));
    let tree = quote! {
        #constants
        static FUNCTION: ::std::sync::LazyLock<::epilogue::expr::Function> = ::std::sync::LazyLock::new(|| {
            let mut #builder = ::epilogue::expr::FunctionBuilder::new(#name);
            #calls
            #builder.finish(#root) #cuda
        });
        &FUNCTION
    };
    let (attributes, visibility, signature) = (&header.attributes, &header.visibility, &item.sig);
    let body = twin::block(&function.body, &constants);
    let namespace = namespace(header, &tree);
    quote! {
        #(#attributes)*
        #[allow(unused_qualifications)]
        #visibility #signature #body
        #namespace
    }
}

/// What has the function's name among types: `f::function()` is its tree.
///
/// A type rather than a module, so that the paths in the body mean what they mean in the function, also where the
/// function stands inside another one.
fn namespace(header: &Header, tree: &TokenStream) -> TokenStream {
    let (visibility, name) = (&header.visibility, &header.name);
    let conditions = header.attributes.iter().filter(|attribute| is_condition(attribute));
    let conditions = quote!(#(#conditions)*);
    let function = local("function");
    quote! {
        #conditions
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        #conditions
        #[doc(hidden)]
        #[allow(dead_code)]
        impl #name {
            #visibility fn #function() -> &'static ::epilogue::expr::Function {
                #tree
            }
        }
    }
}

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

/// After a mistake: items of the same names, so that nothing else fails because of it.
pub(crate) fn fallback(item: &ItemFn, header: &Header) -> TokenStream {
    if header.receiver {
        return TokenStream::new();
    }
    let conditions = header.attributes.iter().filter(|attribute| is_condition(attribute));
    let (visibility, name) = (&header.visibility, &header.name);
    let names = (0..item.sig.inputs.len()).map(|i| format_ident!("_{i}"));
    let namespace = namespace(header, &quote!(::core::unreachable!()));
    quote! {
        #(#conditions)*
        #[allow(missing_docs, dead_code)]
        #visibility fn #name(#(#names: ::core::primitive::f32),*) -> ::core::primitive::f32 {
            ::core::unreachable!()
        }
        #namespace
    }
}
