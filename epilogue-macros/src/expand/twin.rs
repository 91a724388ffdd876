//! Expands the body to Rust, so that rustc checks its types, arity, names and unused variables at the user's own
//! tokens.
//!
//! The twin is hidden, unless each element's results follow from its own numbers: then it is the struct's function
//! `element`, for unit tests.
//!
//! Every number is an `f32`, every integer an `i64`, every truth value a `bool`. A method call becomes a call of the
//! library's function of that name. A constant becomes an item of type `f32`, and a reduction a call that returns an
//! `f32`. Everything else stays as the user wrote it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ExprPath;
use syn::punctuated::Punctuated;
use syn::token::Comma;

use super::constant;
use super::library::Library;
use epilogue_syntax::ast::{AssignOperator, Block, Epilogue, Expr, Statement};
use epilogue_syntax::check::{Checked, Primitive};

/// The items with the constants' values; a constant that is not an `f32` is an error at the user's token.
pub(super) fn constants(constants: &[ExprPath]) -> TokenStream {
    constants
        .iter()
        .enumerate()
        .map(|(place, path)| {
            let name = constant(place);
            quote!(const #name: ::core::primitive::f32 = #path;)
        })
        .collect()
}

/// Writes the body as Rust that names the library by this path.
#[derive(Clone, Copy)]
pub(super) struct Twin<'a>(pub(super) &'a Library);

impl Twin<'_> {
    /// A function with the epilogue's body: of the accumulators and parameters, in their order. It gives the outputs, as a
    /// tuple if there are several.
    pub(super) fn function(self, name: &Ident, epilogue: &Epilogue, checked: &Checked) -> TokenStream {
        let accums = epilogue.accums.iter().map(|accum| {
            let (mutability, name) = (&accum.mutability, &accum.name);
            self.parameter(&mutability.to_token_stream(), name, Primitive::F32)
        });
        let truths = checked.truths.iter().zip(&checked.seeds);
        let declared = epilogue.parameters.iter().zip(&checked.assigned).zip(truths);
        let parameters = declared.map(|((it, assigned), (truth, seed))| {
            let mutability = match &it.binding.mutability {
                Some(mutability) => mutability.to_token_stream(),
                None if *assigned => quote!(mut),
                None => TokenStream::new(),
            };
            let ty = match (truth, seed) {
                (true, _) => Primitive::Bool,
                (_, true) => Primitive::Seed,
                _ => Primitive::F32,
            };
            self.parameter(&mutability, &it.binding.name, ty)
        });
        let (constants, statements) = (constants(&checked.constants), self.statements(&epilogue.body.statements));
        let names: Vec<&Ident> = checked.outputs.iter().map(|output| &output.name).collect();
        let types: Vec<TokenStream> = checked.outputs.iter().map(|output| self.primitive(output.ty)).collect();
        let (results, types) = match (&names[..], &types[..]) {
            ([one], [ty]) => (quote!(#one), quote!(#ty)),
            (all, types) => (quote!((#(#all),*)), quote!((#(#types),*))),
        };
        quote! {
            fn #name(#(#accums,)* #(#parameters),*) -> #types {
                #constants
                #statements
                #results
            }
        }
    }

    fn parameter(self, mutability: &TokenStream, name: &Ident, ty: Primitive) -> TokenStream {
        let ty = self.primitive(ty);
        quote!(#mutability #name: #ty)
    }

    fn primitive(self, ty: Primitive) -> TokenStream {
        match ty {
            Primitive::F32 => quote!(::core::primitive::f32),
            Primitive::I64 => quote!(::core::primitive::i64),
            Primitive::Bool => quote!(::core::primitive::bool),
            Primitive::Seed => {
                let library = self.0;
                quote!(#library::language::Seed<'_>)
            }
        }
    }

    pub(super) fn block(self, block: &Block, constants: &TokenStream) -> TokenStream {
        let statements = self.statements(&block.statements);
        let value = block.value.as_deref().map(|value| self.expression(value));
        let mut tokens = TokenStream::new();
        block.brace.surround(&mut tokens, |tokens| {
            constants.to_tokens(tokens);
            statements.to_tokens(tokens);
            value.to_tokens(tokens);
        });
        tokens
    }

    fn statements(self, statements: &[Statement]) -> TokenStream {
        statements
            .iter()
            .map(|statement| match statement {
                Statement::Let(it) => {
                    let (attributes, let_token, mutability) = (&it.attributes, &it.let_token, &it.binding.mutability);
                    let (name, eq, semi) = (&it.binding.name, &it.eq_token, &it.semi_token);
                    let value = self.expression(&it.value);
                    quote!(#(#attributes)* #let_token #mutability #name #eq #value #semi)
                }
                Statement::Assign(it) => {
                    let (name, semi, value) = (&it.name, &it.semi_token, self.expression(&it.value));
                    let operator = match &it.operator {
                        AssignOperator::Plain(token) => token.to_token_stream(),
                        AssignOperator::Compound(_, token) => token.to_token_stream(),
                    };
                    quote!(#name #operator #value #semi)
                }
                Statement::Invalid(_) => TokenStream::new(),
            })
            .collect()
    }

    fn expression(self, expr: &Expr) -> TokenStream {
        match expr {
            Expr::Path(path) => path.to_token_stream(),
            Expr::Local(name) => name.to_token_stream(),
            Expr::Constant(place, span) => {
                let mut name = constant(*place);
                name.set_span(at(*span));
                name.to_token_stream()
            }
            Expr::Literal(literal, _) => literal.to_token_stream(),
            Expr::IntegerLiteral(literal, _) => literal.to_token_stream(),
            Expr::Position(word, paren) => {
                let mut tokens = self.inside("language", at(word.span()));
                word.to_tokens(&mut tokens);
                paren.surround(&mut tokens, |_| {});
                tokens
            }
            Expr::Random(random) => {
                let mut tokens = self.inside("language", at(random.word.span()));
                random.word.to_tokens(&mut tokens);
                random.paren.surround(&mut tokens, |tokens| tokens.extend(self.expression(&random.seed)));
                tokens
            }
            Expr::ToInteger(word, paren, x) | Expr::ToReal(word, paren, x) => {
                let mut tokens = self.inside("language", at(word.span()));
                word.to_tokens(&mut tokens);
                paren.surround(&mut tokens, |tokens| tokens.extend(self.expression(x)));
                tokens
            }
            Expr::Extreme(word, operands) => {
                let (x, y) = (self.argument(&operands.0), self.argument(&operands.1));
                quote_spanned!(at(word.span())=> ::core::cmp::Ord::#word(#x, #y))
            }
            Expr::Not(not, x) => {
                let x = self.expression(x);
                quote!(#not #x)
            }
            Expr::Connected(left, _, operator, right) => {
                let (left, right) = (self.expression(left), self.expression(right));
                quote!(#left #operator #right)
            }
            Expr::Negate(minus, x) => {
                let x = self.expression(x);
                quote!(#minus #x)
            }
            Expr::Binary(left, _, operator, right) => {
                let (left, right) = (self.expression(left), self.expression(right));
                quote!(#left #operator #right)
            }
            Expr::Call(path, paren, list) => {
                let mut tokens = path.to_token_stream();
                paren.surround(&mut tokens, |tokens| tokens.extend(self.arguments(list)));
                tokens
            }
            Expr::Method(receiver, method, paren, list) => {
                let receiver = self.argument(receiver);
                // The call begins at the receiver, so that rustc's suggestions replace the right text.
                let start = receiver.clone().into_iter().next().map_or_else(|| method.span(), |first| first.span());
                let mut tokens = self.inside("ops", start);
                method.to_tokens(&mut tokens);
                paren.surround(&mut tokens, |tokens| {
                    tokens.extend(quote!(#receiver,));
                    tokens.extend(self.arguments(list));
                });
                tokens
            }
            Expr::Cast(x, method, element) => {
                let x = self.argument(x);
                let private = self.inside("__private", method.span());
                quote_spanned!(method.span()=> #private cast::<#element>(#x))
            }
            Expr::Reduction(reduction) => {
                let input = self.expression(&reduction.input);
                let word = &reduction.word;
                let place = at(word.span());
                let private = self.inside("__private", place);
                if let Some(path) = &reduction.own {
                    let reducer = super::tree::reducer(path);
                    return quote_spanned!(place=> #private reduction_by(#input, #reducer));
                }
                match reduction.composed() {
                    Some(composed) if composed.of_truths => {
                        quote_spanned!(place=> #private reduction_of_truths(#input))
                    }
                    _ if reduction.gives_index() => {
                        quote_spanned!(place=> #private reduction_to_index(#input))
                    }
                    _ => {
                        let language = self.inside("language", place);
                        quote_spanned!(place=> #language #word(#input))
                    }
                }
            }
            Expr::If(branch) => {
                let (if_token, else_token) = (&branch.if_token, &branch.else_token);
                let (condition, otherwise) = (self.expression(&branch.condition), self.expression(&branch.otherwise));
                let then = self.block(&branch.then, &TokenStream::new());
                quote!(#if_token #condition #then #else_token #otherwise)
            }
            Expr::Block(inner) => self.block(inner, &TokenStream::new()),
            Expr::Paren(paren, inner) => {
                let mut tokens = TokenStream::new();
                paren.surround(&mut tokens, |tokens| tokens.extend(self.expression(inner)));
                tokens
            }
            Expr::Integer(..) | Expr::Remainder(..) | Expr::Refused(_) | Expr::Invalid => TokenStream::new(),
        }
    }

    /// The path of one of the library's modules, up to what follows it at a place.
    fn inside(self, module: &str, place: Span) -> TokenStream {
        let (library, module) = (self.0.at(place), Ident::new(module, place));
        quote_spanned!(place=> #library::#module::)
    }

    /// The receiver of a method as an argument, without parentheses that it no longer needs.
    fn argument(self, expr: &Expr) -> TokenStream {
        match expr {
            Expr::Paren(_, inner) => self.expression(inner),
            other => self.expression(other),
        }
    }

    fn arguments(self, arguments: &Punctuated<Expr, Comma>) -> TokenStream {
        arguments
            .pairs()
            .map(|pair| {
                let (argument, comma) = pair.into_tuple();
                let argument = self.expression(argument);
                quote!(#argument #comma)
            })
            .collect()
    }
}

/// A span for the expansion's own names, at the user's place.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}
