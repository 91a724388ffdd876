//! The body as calls of a builder: `TreeBuilder` for epilogues, `FunctionBuilder` for elementwise functions.

use std::collections::HashMap;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Lit, Type};

use super::{constant, local, plain, upper_camel_case};
use epilogue_syntax::ast::{AssignOperator, Block, Connective, Expr, Reduction, Statement};

/// Writes the builder's calls in the order of evaluation.
pub(super) struct Emitter {
    calls: TokenStream,
    builder: Ident,
    next: usize,
    /// Which node each name stands for, innermost scope last.
    scopes: Vec<HashMap<String, Ident>>,
    /// Whether the builder keeps source positions.
    sites: bool,
    /// The functions called, as paths.
    callees: Vec<TokenStream>,
}

/// A node, and whether this expression made it (an alias keeps the name it has).
struct Emitted {
    node: Ident,
    fresh: bool,
}

/// What an `if` asks: comparisons, by their nodes, and how they are combined.
enum Condition {
    Comparison(Ident),
    Not(Box<Condition>),
    Connected(Box<Condition>, Connective, Box<Condition>),
}

impl Emitter {
    pub(super) fn new(sites: bool) -> Self {
        Self {
            calls: TokenStream::new(),
            builder: local("builder"),
            next: 0,
            scopes: vec![HashMap::new()],
            sites,
            callees: Vec::new(),
        }
    }

    /// The variable that holds the builder.
    pub(super) fn builder(&self) -> &Ident {
        &self.builder
    }

    /// The functions that the body calls, each as often as it does.
    pub(super) fn callees(&self) -> Vec<TokenStream> {
        self.callees.clone()
    }

    /// The calls so far.
    pub(super) fn into_calls(self) -> TokenStream {
        self.calls
    }

    /// One call that makes a node, written at a place in the user's source.
    pub(super) fn node(&mut self, span: Span, call: &TokenStream) -> Ident {
        let node = format_ident!("v{}", self.next, span = Span::mixed_site());
        self.next += 1;
        let (builder, site) = (&self.builder, self.site(span));
        self.calls.extend(quote!(let #node = #builder #site . #call;));
        node
    }

    /// One call that makes no node.
    pub(super) fn call(&mut self, span: Span, call: &TokenStream) {
        let (builder, site) = (&self.builder, self.site(span));
        self.calls.extend(quote!(#builder #site . #call;));
    }

    /// Positions count from 1, as rustc's messages do.
    fn site(&self, span: Span) -> Option<TokenStream> {
        let start = span.start();
        let (line, column) = (Literal::usize_unsuffixed(start.line), Literal::usize_unsuffixed(start.column + 1));
        self.sites.then(|| quote!(.at(#line, #column)))
    }

    pub(super) fn bind(&mut self, name: &Ident, node: Ident) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), node);
        }
    }

    /// The node a name stands for; `None` after a mistake, which was reported.
    pub(super) fn lookup(&self, name: &Ident) -> Option<Ident> {
        let name = name.to_string();
        self.scopes.iter().rev().find_map(|scope| scope.get(&name)).cloned()
    }

    pub(super) fn statements(&mut self, statements: &[Statement]) -> Option<()> {
        for statement in statements {
            match statement {
                Statement::Let(it) => {
                    let value = self.expression(&it.value)?;
                    self.name(&it.binding.name, &value);
                    self.bind(&it.binding.name, value.node);
                }
                Statement::Assign(it) => {
                    let mut value = self.expression(&it.value)?;
                    if let AssignOperator::Compound(operator, token) = &it.operator {
                        let (before, operator, x) = (self.lookup(&it.name)?, local(operator.name()), &value.node);
                        let call = quote!(apply(::epilogue::expr::Op::#operator, &[#before, #x]));
                        value = Emitted { node: self.node(token.span(), &call), fresh: true };
                    }
                    self.name(&it.name, &value);
                    let name = it.name.to_string();
                    let variable = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name))?;
                    *variable = value.node;
                }
                Statement::Invalid(_) => return None,
            }
        }
        Some(())
    }

    fn name(&mut self, name: &Ident, value: &Emitted) {
        if value.fresh {
            let (builder, node, text) = (&self.builder, &value.node, plain(name));
            self.calls.extend(quote!(#builder.name(#node, #text);));
        }
    }

    /// A block's statements and value in a scope of their own.
    fn block(&mut self, block: &Block) -> Option<Emitted> {
        self.scopes.push(HashMap::new());
        let value = self.statements(&block.statements).and_then(|()| self.expression(block.value.as_deref()?));
        self.scopes.pop();
        value
    }

    /// The node of an elementwise function's value.
    pub(super) fn body(&mut self, block: &Block) -> Option<Ident> {
        self.statements(&block.statements)?;
        self.expression(block.value.as_deref()?).map(|value| value.node)
    }

    fn expression(&mut self, expr: &Expr) -> Option<Emitted> {
        let (span, call) = match expr {
            Expr::Local(name) => return Some(Emitted { node: self.lookup(name)?, fresh: false }),
            Expr::Paren(_, inner) => return self.expression(inner),
            Expr::Block(inner) => return self.block(inner),
            Expr::Path(_) | Expr::Integer(..) | Expr::Refused(_) | Expr::Invalid => return None,
            // Trees combine truth values; functions have comparisons and choices alone.
            Expr::Not(not, x) if self.sites => {
                let x = self.expression(x)?.node;
                (not.span, quote!(logic(::epilogue::expr::Logic::Not, &[#x])))
            }
            Expr::Connected(left, connective, token, right) if self.sites => {
                let (left, right) = (self.expression(left)?.node, self.expression(right)?.node);
                let logic = local(if *connective == Connective::And { "And" } else { "Or" });
                (token.span(), quote!(logic(::epilogue::expr::Logic::#logic, &[#left, #right])))
            }
            Expr::Not(..) | Expr::Connected(..) => return self.truth(expr),
            Expr::IntegerLiteral(literal, value) => {
                let value = Literal::i64_suffixed(*value);
                (literal.span(), quote!(integer_literal(#value)))
            }
            Expr::Position(word, _) => {
                let position = local(&upper_camel_case(word).to_string());
                (word.span(), quote!(position(::epilogue::evt::Position::#position)))
            }
            Expr::ToInteger(word, _, x) => {
                let x = self.expression(x)?.node;
                (word.span(), quote!(integer(#x)))
            }
            Expr::ToReal(word, _, x) => {
                let x = self.expression(x)?.node;
                (word.span(), quote!(real(#x)))
            }
            Expr::Extreme(word, operands) => {
                let (x, y) = (self.expression(&operands.0)?.node, self.expression(&operands.1)?.node);
                let op = local(&upper_camel_case(word).to_string());
                (word.span(), quote!(apply(::epilogue::expr::Op::#op, &[#x, #y])))
            }
            Expr::Constant(place, span) => {
                let name = constant(*place);
                (
                    *span,
                    quote!(literal(<::core::primitive::f64 as ::core::convert::From<::core::primitive::f32>>::from(#name))),
                )
            }
            Expr::Literal(literal, value) => (literal.span(), number(literal, *value)),
            Expr::Negate(minus, x) => {
                let x = self.expression(x)?.node;
                (minus.span, quote!(apply(::epilogue::expr::Op::Neg, &[#x])))
            }
            Expr::Binary(left, operator, token, right) => {
                let (left, right) = (self.expression(left)?.node, self.expression(right)?.node);
                let operator = local(operator.name());
                (token.span(), quote!(apply(::epilogue::expr::Op::#operator, &[#left, #right])))
            }
            Expr::Call(path, _, arguments) => {
                let arguments = self.arguments(None, arguments)?;
                let name = path.segments.last()?.ident.span();
                self.callees.push(quote!(#path));
                (name, quote!(call(#path::function(), &[#(#arguments),*])))
            }
            Expr::Method(receiver, method, _, arguments) => {
                let receiver = self.expression(receiver)?.node;
                let arguments = self.arguments(Some(receiver), arguments)?;
                let path = quote_spanned!(method.span()=> ::epilogue::ops::);
                self.callees.push(quote!(#path #method));
                (method.span(), quote!(call(#path #method::function(), &[#(#arguments),*])))
            }
            Expr::Cast(x, method, element) => {
                let x = self.expression(x)?.node;
                let element = element_type(element);
                (method.span(), quote!(cast(#element, #x)))
            }
            Expr::Reduction(reduction) => {
                let x = self.expression(&reduction.input)?.node;
                let description = self::reduction(reduction)?;
                (reduction.word.span(), quote!(reduce(#description, #x)))
            }
            Expr::If(branch) => {
                let condition = self.condition(&branch.condition)?;
                let then = self.block(&branch.then)?.node;
                let otherwise = self.expression(&branch.otherwise)?.node;
                let node = self.choose(branch.if_token.span, &condition, &then, &otherwise);
                return Some(Emitted { node, fresh: true });
            }
        };
        Some(Emitted { node: self.node(span, &call), fresh: true })
    }

    /// The comparisons of a condition, in the order of evaluation.
    fn condition(&mut self, expr: &Expr) -> Option<Condition> {
        Some(match expr {
            // A tree takes a truth value as it is.
            truth if self.sites => Condition::Comparison(self.expression(truth)?.node),
            Expr::Paren(_, inner) => self.condition(inner)?,
            Expr::Not(_, x) => Condition::Not(Box::new(self.condition(x)?)),
            Expr::Connected(left, connective, _, right) => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Condition::Connected(Box::new(left), *connective, Box::new(right))
            }
            comparison => Condition::Comparison(self.expression(comparison)?.node),
        })
    }

    /// A choice between two values. Functions have comparisons and no truth values, so `&&`, `||` and `!` are in which of
    /// the two values each comparison gives.
    fn choose(&mut self, span: Span, condition: &Condition, then: &Ident, otherwise: &Ident) -> Ident {
        match condition {
            Condition::Comparison(comparison) => {
                self.node(span, &quote!(apply(::epilogue::expr::Op::Select, &[#comparison, #then, #otherwise])))
            }
            Condition::Not(inner) => self.choose(span, inner, otherwise, then),
            Condition::Connected(left, Connective::And, right) => {
                let both = self.choose(span, right, then, otherwise);
                self.choose(span, left, &both, otherwise)
            }
            Condition::Connected(left, Connective::Or, right) => {
                let second = self.choose(span, right, then, otherwise);
                self.choose(span, left, then, &second)
            }
        }
    }

    /// A condition that is no `if`'s, as one comparison: what it chooses of 1 and 0, compared with 0.
    fn truth(&mut self, expr: &Expr) -> Option<Emitted> {
        let span = match expr {
            Expr::Not(not, _) => not.span,
            Expr::Connected(_, _, token, _) => token.span(),
            _ => return None,
        };
        let condition = self.condition(expr)?;
        let (one, zero) = (self.node(span, &quote!(literal(1.0f64))), self.node(span, &quote!(literal(0.0f64))));
        let chosen = self.choose(span, &condition, &one, &zero);
        let node = self.node(span, &quote!(apply(::epilogue::expr::Op::Ne, &[#chosen, #zero])));
        Some(Emitted { node, fresh: true })
    }

    fn arguments<P>(
        &mut self,
        first: Option<Ident>,
        arguments: &syn::punctuated::Punctuated<Expr, P>,
    ) -> Option<Vec<Ident>> {
        let mut nodes: Vec<Ident> = first.into_iter().collect();
        for argument in arguments {
            nodes.push(self.expression(argument)?.node);
        }
        Some(nodes)
    }
}

/// `<bf16 as Element>::TYPE`
pub(super) fn element_type(element: &Type) -> TokenStream {
    let span = Span::mixed_site().located_at(element.span());
    quote_spanned!(span=> <#element as ::epilogue::Element>::TYPE)
}

/// An optional element type, as an expression.
pub(super) fn optional_element_type(element: Option<&Type>) -> TokenStream {
    match element.map(element_type) {
        Some(element) => quote!(::core::option::Option::Some(#element)),
        None => quote!(::core::option::Option::None),
    }
}

/// A literal in full precision; one with the suffix `f32` has the precision of an f32.
fn number(literal: &Lit, value: f64) -> TokenStream {
    let is_f32 = match literal {
        Lit::Float(float) => float.suffix() == "f32",
        Lit::Int(int) => int.suffix() == "f32",
        _ => false,
    };
    let literal = if is_f32 {
        // Exact: every f32 is an f64.
        #[allow(clippy::cast_possible_truncation)]
        Literal::f64_suffixed(f64::from(value as f32))
    } else {
        Literal::f64_suffixed(value)
    };
    quote!(literal(#literal))
}

fn reduction(reduction: &Reduction) -> Option<TokenStream> {
    // The user's own words, so that an editor leads from them to their documentation.
    let (_, axis, batch) = reduction.axis.as_ref()?;
    let op = reduction.op.as_ref()?;
    let form = local(if reduction.partial { "Partial" } else { "Complete" });
    Some(quote! {
        ::epilogue::evt::Reduction {
            axis: ::epilogue::evt::Axis::#axis,
            batch: #batch,
            op: ::epilogue::evt::ReduceOp::#op,
            form: ::epilogue::evt::Form::#form,
        }
    })
}
