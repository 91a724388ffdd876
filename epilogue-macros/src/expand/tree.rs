//! Expands the body to calls of a builder: `TreeBuilder` for epilogues, `FunctionBuilder` for elementwise functions.

use epilogue_syntax::ast::{ClassKind, Reduction};
use epilogue_syntax::walk::{Builder, EpilogueBuilder, Extent, Logic, Primitive};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Path, Type};

use super::library::Library;
use super::{constant, local, plain, upper_camel_case};

/// Writes the builder's calls in the order of evaluation.
pub(super) struct Emitter {
    calls: TokenStream,
    builder: Ident,
    next: usize,
    /// Whether the builder keeps source positions.
    sites: bool,
    /// The functions that are called, as paths.
    callees: Vec<TokenStream>,
    library: Library,
    /// Whether each element's results follow from its own numbers alone.
    elementwise: bool,
}

impl Emitter {
    pub(super) fn new(sites: bool, library: &Library) -> Self {
        Self {
            calls: TokenStream::new(),
            builder: local("builder"),
            next: 0,
            sites,
            callees: Vec::new(),
            library: library.clone(),
            elementwise: true,
        }
    }

    /// The variable that holds the builder.
    pub(super) fn builder(&self) -> &Ident {
        &self.builder
    }

    /// The functions that the body calls, one entry for each call.
    pub(super) fn callees(&self) -> Vec<TokenStream> {
        self.callees.clone()
    }

    /// Whether each element's results follow from its own numbers alone: not from others, its place, or more than an `f32`
    /// holds.
    pub(super) fn is_elementwise(&self) -> bool {
        self.elementwise
    }

    /// The calls so far.
    pub(super) fn into_calls(self) -> TokenStream {
        self.calls
    }

    /// Adds a call that creates a node, with its place in the user's source.
    pub(super) fn node(&mut self, span: Span, call: &TokenStream) -> Ident {
        let node = format_ident!("v{}", self.next, span = Span::mixed_site());
        self.next += 1;
        let (builder, site) = (&self.builder, self.site(span));
        self.calls.extend(quote!(let #node = #builder #site . #call;));
        node
    }

    /// Lines and columns count from 1, as in rustc's messages.
    fn site(&self, span: Span) -> Option<TokenStream> {
        let start = span.start();
        let (line, column) = (Literal::usize_unsuffixed(start.line), Literal::usize_unsuffixed(start.column + 1));
        self.sites.then(|| quote!(.at(#line, #column)))
    }

    fn called(&mut self, callee: TokenStream, span: Span, arguments: &[Ident]) -> Ident {
        let call = quote!(call(#callee::function(), &[#(#arguments),*]));
        self.callees.push(callee);
        self.node(span, &call)
    }
}

impl Builder for Emitter {
    type Node = Ident;

    fn apply(&mut self, place: Span, primitive: Primitive, operands: &[Ident]) -> Ident {
        let library = &self.library;
        let op = local(primitive.name());
        self.node(place, &quote!(apply(#library::expr::Op::#op, &[#(#operands),*])))
    }

    fn logic(&mut self, place: Span, logic: Logic, operands: &[Ident]) -> Ident {
        let library = &self.library;
        let logic = local(match logic {
            Logic::And => "And",
            Logic::Or => "Or",
            Logic::Not => "Not",
        });
        self.node(place, &quote!(logic(#library::expr::Logic::#logic, &[#(#operands),*])))
    }

    fn literal(&mut self, place: Span, value: f64) -> Ident {
        let value = Literal::f64_suffixed(value);
        self.node(place, &quote!(literal(#value)))
    }

    fn constant(&mut self, place: Span, constant: usize) -> Ident {
        let name = self::constant(constant);
        let value = quote!(<::core::primitive::f64 as ::core::convert::From<::core::primitive::f32>>::from(#name));
        self.node(place, &quote!(literal(#value)))
    }

    fn integer_literal(&mut self, place: Span, value: i64) -> Ident {
        let value = Literal::i64_suffixed(value);
        self.node(place, &quote!(integer_literal(#value)))
    }

    fn position(&mut self, word: &Ident) -> Ident {
        self.elementwise = false;
        let library = &self.library;
        let position = local(&upper_camel_case(word).to_string());
        self.node(word.span(), &quote!(position(#library::evt::Position::#position)))
    }

    fn random(&mut self, place: Span, seed: Ident, stream: u32) -> Ident {
        self.elementwise = false;
        let stream = Literal::u32_suffixed(stream);
        self.node(place, &quote!(random(#seed, #stream)))
    }

    fn integer(&mut self, place: Span, parameter: Ident) -> Ident {
        self.elementwise = false;
        self.node(place, &quote!(integer(#parameter)))
    }

    fn real(&mut self, place: Span, x: Ident) -> Ident {
        self.node(place, &quote!(real(#x)))
    }

    fn call(&mut self, path: &Path, arguments: &[Ident]) -> Ident {
        let name = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        self.called(quote!(#path), name, arguments)
    }

    fn operation(&mut self, name: &Ident, arguments: &[Ident]) -> Ident {
        let library = self.library.at(name.span());
        self.called(quote_spanned!(name.span()=> #library::ops::#name), name.span(), arguments)
    }

    fn cast(&mut self, place: Span, element: &Type, x: Ident) -> Ident {
        let element = element_type(element, &self.library);
        self.node(place, &quote!(cast(#element, #x)))
    }

    fn reduce(&mut self, reduction: &Reduction, x: Ident) -> Ident {
        self.elementwise = false;
        let library = &self.library;
        // The user's own words, so that an editor leads from them to their documentation.
        let (axis, batch) = match &reduction.axis {
            Some((_, axis, batch)) => (Some(axis), *batch),
            None => (None, false),
        };
        let op = &reduction.op;
        if reduction.composed().is_some() {
            let description = quote! {
                #library::evt::Composed {
                    axis: #library::evt::Axis::#axis,
                    batch: #batch,
                    op: #library::evt::ComposedOp::#op,
                }
            };
            return self.node(reduction.word.span(), &quote!(compose(#description, #x)));
        }
        let form = local(if reduction.partial { "Partial" } else { "Complete" });
        let op = match &reduction.own {
            Some(path) => {
                let reducer = reducer(path);
                quote!(#library::evt::ReduceOp::User(#reducer()))
            }
            None => quote!(#library::evt::ReduceOp::#op),
        };
        let description = quote! {
            #library::evt::Reduction {
                axis: #library::evt::Axis::#axis,
                batch: #batch,
                op: #op,
                form: #library::evt::Form::#form,
            }
        };
        self.node(reduction.word.span(), &quote!(reduce(#description, #x)))
    }

    fn name(&mut self, node: &Ident, name: &Ident) {
        let (builder, text) = (&self.builder, plain(name));
        self.calls.extend(quote!(#builder.name(#node, #text);));
    }
}

impl EpilogueBuilder for Emitter {
    fn accum(&mut self, name: &Ident) -> Ident {
        let text = plain(name);
        self.node(name.span(), &quote!(accum(#text)))
    }

    fn parameter(&mut self, name: &Ident, class: ClassKind, element: Option<&Type>) -> Ident {
        let library = &self.library;
        let (text, class, element) = (plain(name), local(class.name()), optional_element_type(element, library));
        self.node(name.span(), &quote!(parameter(#text, #library::evt::ParameterClass::#class, #element)))
    }

    fn output(&mut self, name: &Ident, node: Ident, extent: Extent, element: Option<&Type>) {
        let library = &self.library;
        if extent == Extent::Bits {
            let (builder, site, text) = (&self.builder, self.site(name.span()), plain(name));
            self.calls.extend(quote!(#builder #site .output_bits(#text, #node);));
            return;
        }
        let class = local(match extent {
            Extent::Tensor | Extent::Bits => "Tensor",
            Extent::RowVector => "RowVector",
            Extent::ColumnVector => "ColumnVector",
            Extent::Scalar => "Scalar",
        });
        let (text, element) = (plain(name), optional_element_type(element, library));
        let (builder, site) = (&self.builder, self.site(name.span()));
        let call = quote!(output(#text, #node, #library::evt::BroadcastClass::#class, #element));
        self.calls.extend(quote!(#builder #site . #call;));
    }
}

/// The function of a reducer's module that gives the reducer; rustc's messages about it are at the module's name.
pub(super) fn reducer(path: &Path) -> TokenStream {
    let place = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
    let function = Ident::new("reducer", Span::mixed_site().located_at(place));
    quote!(#path::#function)
}

/// `<bf16 as EpilogueElement>::ELEMENT`
fn element_type(element: &Type, library: &Library) -> TokenStream {
    let span = Span::mixed_site().located_at(element.span());
    let library = library.at(span);
    quote_spanned!(span=> <#element as #library::EpilogueElement>::ELEMENT)
}

/// An optional element type, as an expression.
fn optional_element_type(element: Option<&Type>, library: &Library) -> TokenStream {
    match element.map(|element| element_type(element, library)) {
        Some(element) => quote!(::core::option::Option::Some(#element)),
        None => quote!(::core::option::Option::None),
    }
}
