//! `#[elementwise]`: the function of numbers or expressions, and a type of the same name with its tree.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, ItemFn};

use super::library::Library;
use super::tree::Emitter;
use super::twin::Twin;
use super::{local, plain};
use epilogue_syntax::ElementwiseFunction;
use epilogue_syntax::ast::{Elementwise, Header};
use epilogue_syntax::walk;

/// The expansion of a function without mistakes.
pub(crate) fn expand(function: &ElementwiseFunction) -> TokenStream {
    let ElementwiseFunction { item, header, function, constants, cuda, library } = function;
    let library = &Library::new(library.as_ref());
    let mut emitter = Emitter::new(false, library);
    let parameters: Vec<(&Ident, Ident)> = function
        .parameters
        .iter()
        .map(|parameter| {
            let text = plain(&parameter.name);
            (&parameter.name, emitter.node(parameter.name.span(), &quote!(parameter(#text))))
        })
        .collect();
    let Some(root) = walk::elementwise(parameters, &function.body, &mut emitter) else {
        // A body has no tree only after a mistake, which has been reported.
        return fallback(item, header, library);
    };
    let (builder, constants) = (emitter.builder().clone(), super::twin::constants(constants));
    let depth = depth(&emitter.callees(), library);
    let (calls, name) = (emitter.into_calls(), plain(&header.name));
    let cuda = cuda.as_ref().map(|body| quote!(.with_cuda(#body)));
    let tree = quote! {
        #constants
        static FUNCTION: ::std::sync::LazyLock<#library::expr::Function> = ::std::sync::LazyLock::new(|| {
            let mut #builder = #library::expr::FunctionBuilder::new(#name);
            #calls
            #builder.finish(#root) #cuda
        });
        &FUNCTION
    };
    let body = Twin(library).block(&function.body, &constants);
    let called = called(item, header, function, &body, library);
    let namespace = namespace(header, &tree, &depth, library);
    quote! {
        #called
        #namespace
    }
}

/// The function under its name. For numbers it calls an inner function of that name with the user's body; it also takes
/// expressions.
fn called(
    item: &ItemFn,
    header: &Header,
    function: &Elementwise,
    body: &TokenStream,
    library: &Library,
) -> TokenStream {
    let (attributes, visibility, name) = (&header.attributes, &header.visibility, &header.name);
    let names: Vec<&Ident> = function.parameters.iter().map(|parameter| &parameter.name).collect();
    let Some((first, rest)) = names.split_first() else { return TokenStream::new() };
    let (signature, path) = (&item.sig, quote!(#library::expr));
    quote! {
        #(#attributes)*
        #[allow(unused_qualifications)]
        #visibility fn #name<X: #path::Number>(
            #first: X #(, #rest: impl #path::Operand<X::Value>)*
        ) -> X::Value {
            #[allow(dead_code)]
            #signature #body
            #path::Number::call(
                #first,
                [#(#path::Operand::operand(#rest)),*],
                #name::function,
                |#first, [#(#rest),*]| #name(#first #(, #rest)*),
            )
        }
    }
}

/// A type with the function's name: `f::function()` is its tree.
///
/// It is a type rather than a module, so paths in the body mean the same as in the function. This also holds if the
/// function is inside another one.
fn namespace(header: &Header, tree: &TokenStream, depth: &TokenStream, library: &Library) -> TokenStream {
    let (visibility, name) = (&header.visibility, &header.name);
    let conditions = header.attributes.iter().filter(|attribute| is_condition(attribute));
    let conditions = quote!(#(#conditions)*);
    let function = local("function");
    // rustc points at these if calls form a circle, so they have the span of the function's name.
    let place = Span::mixed_site().located_at(name.span());
    let depth_name = Ident::new(DEPTH, place);
    let depth_constant = quote_spanned!(place=> #visibility const #depth_name: ::core::primitive::u32 = #depth;);
    let evaluated = quote_spanned!(place=> const _: ::core::primitive::u32 = #name::#depth_name;);
    quote! {
        #conditions
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        #conditions
        #[doc(hidden)]
        #[allow(dead_code)]
        impl #name {
            #depth_constant

            #visibility fn #function() -> &'static #library::expr::Function {
                #tree
            }
        }

        #conditions
        #evaluated
    }
}

/// One more than the deepest callee's depth. A function that calls itself, even through others, has none, and rustc
/// reports it.
fn depth(callees: &[TokenStream], library: &Library) -> TokenStream {
    let depth = local(DEPTH);
    let deepest = callees
        .iter()
        .fold(quote!(0), |deepest, callee| quote!(#library::__private::deeper(#callee::#depth, #deepest)));
    quote!(1 + #deepest)
}

/// The constant with the depth of an operation's calls.
const DEPTH: &str = "CALL_DEPTH";

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

/// After a mistake: items with the same names, so that no other errors follow from it.
pub(crate) fn fallback(item: &ItemFn, header: &Header, library: &Library) -> TokenStream {
    if header.receiver {
        return TokenStream::new();
    }
    let conditions = header.attributes.iter().filter(|attribute| is_condition(attribute));
    let (visibility, name) = (&header.visibility, &header.name);
    let path = quote!(#library::expr);
    let rest = item.sig.inputs.iter().skip(1).map(|_| quote!(, _: impl #path::Operand<X::Value>));
    let signature = match item.sig.inputs.is_empty() {
        true => quote!(() -> ::core::primitive::f32),
        false => quote!(<X: #path::Number>(_: X #(#rest)*) -> X::Value),
    };
    let namespace = namespace(header, &quote!(::core::unreachable!()), &quote!(1), library);
    quote! {
        #(#conditions)*
        #[allow(missing_docs, dead_code)]
        #visibility fn #name #signature {
            ::core::unreachable!()
        }
        #namespace
    }
}
