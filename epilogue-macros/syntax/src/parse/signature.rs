//! Functions and closures: everything around the body.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprClosure, FnArg, ItemFn, Pat, PatType, ReturnType, Safety, Signature, Type};

use super::binding::{binding, named};
use super::body;
use super::class::class;
use crate::ast::{Binding, ClassKind, Elementwise, Epilogue, Header, Parameter, Return};
use crate::report::Errors;

/// The attribute of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Epilogue,
    Elementwise,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Epilogue => "an epilogue",
            Self::Elementwise => "an elementwise function",
        }
    }
}

/// A function under `#[epilogue]`.
pub(crate) fn function(item: &ItemFn, errors: &mut Errors) -> (Header, Epilogue) {
    let header = header(item, Kind::Epilogue, errors);
    let typed: Vec<&PatType> = item.sig.inputs.iter().filter_map(typed).collect();
    let leading = typed.iter().take_while(|typed| is_accum(&typed.ty)).count();
    match typed.first() {
        None => {
            errors.excuse([Ident::new("accum", Span::call_site())]);
            errors.at(
                item.sig.paren_token.span.join(),
                "an epilogue's first parameter is the accumulator: write `accum: Accum`",
            );
        }
        // Then the first parameter counts as an ordinary one.
        Some(first) if leading == 0 => {
            errors.excuse([Ident::new("accum", Span::call_site())]);
            errors.at(first.ty.span(), "an epilogue's first parameter is the accumulator: put `accum: Accum` in front");
        }
        Some(_) => {}
    }
    let accums: Vec<Binding> = typed[..leading].iter().map(|typed| accumulator(typed, errors)).collect();
    refuse_many(typed[..leading].iter().map(|typed| typed.ty.span()), errors);
    let accum_classes = typed[..leading].iter().filter_map(|typed| accum_word(&typed.ty)).collect();
    let mut skip = leading;
    let mut parameters = Vec::new();
    for input in &item.sig.inputs {
        match input {
            FnArg::Typed(_) if skip > 0 => skip -= 1,
            FnArg::Typed(typed) => parameters.extend(parameter(&typed.attrs, &typed.pat, Some(&typed.ty), errors)),
            FnArg::Receiver(receiver) => {
                errors.at(receiver.self_token.span, "an epilogue is a free function: move it out of the `impl`");
            }
        }
    }
    let returns = returns(&item.sig, errors);
    let (body, results) = body::epilogue(&item.block, errors);
    (header, Epilogue { accums, accum_classes, parameters, returns, body, results })
}

/// The closure given to `closure!`.
pub(crate) fn closure(item: &ExprClosure, errors: &mut Errors) -> Epilogue {
    for attribute in &item.attrs {
        errors.on(attribute, "an attribute has no meaning here");
    }
    errors.check(item.modifiers.require_empty());
    if let Some(lifetimes) = &item.lifetimes {
        errors.on(lifetimes, "an epilogue has no lifetimes: remove this");
    }
    for (word, span) in [
        ("const", item.constness.map(|token| token.span)),
        ("async", item.asyncness.map(|token| token.span)),
        ("move", item.capture.map(|token| token.span)),
    ] {
        if let Some(span) = span {
            errors.at(span, format_args!("an epilogue cannot be `{word}`: remove the word"));
        }
    }
    if let ReturnType::Type(_, ty) = &item.output {
        errors.on(ty, "the closure form infers its results from the body: remove the return type");
    }
    let mut accums = Vec::new();
    match item.inputs.first() {
        None => {
            errors.excuse([Ident::new("accum", Span::call_site())]);
            errors.at(
                item.inputs_end.span,
                "an epilogue's first parameter is the accumulator: write `|accum, c: Tensor| …`",
            );
        }
        Some(Pat::Ident(name)) => accums.extend(binding(name, errors)),
        Some(Pat::Type(typed)) => match (&*typed.pat, is_accum(&typed.ty)) {
            (Pat::Ident(name), true) => accums.extend(binding(name, errors)),
            _ => {
                errors.excuse([Ident::new("accum", Span::call_site())]);
                errors.on(&typed.ty, "the first parameter is the accumulator: write `|accum, c: Tensor| …`");
            }
        },
        Some(other) => errors.on(other, "the first parameter is the accumulator's name: `accum`"),
    }
    // Only the first accumulator may omit its class.
    if !accums.is_empty() {
        let more = item.inputs.iter().skip(1).map_while(|input| match input {
            Pat::Type(typed) if is_accum(&typed.ty) => Some(typed),
            _ => None,
        });
        let more: Vec<&PatType> = more.collect();
        accums.extend(more.iter().map(|typed| accumulator(typed, errors)));
        refuse_many(
            item.inputs.first().into_iter().map(Spanned::span).chain(more.iter().map(|typed| typed.ty.span())),
            errors,
        );
    }
    let skipped = accums.len();
    let parameters = item
        .inputs
        .iter()
        .skip(skipped)
        .filter_map(|input| match input {
            Pat::Type(typed) => parameter(&typed.attrs, &typed.pat, Some(&typed.ty), errors),
            other => parameter(&[], other, None, errors),
        })
        .collect();
    let (body, results) = match &*item.body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => body::epilogue(&block.block, errors),
        other => {
            errors.on(other, "an epilogue's body is a block that ends in the names of its results: `{ let d = …; d }`");
            (body::empty(other.span()), Vec::new())
        }
    };
    Epilogue { accums, accum_classes: Vec::new(), parameters, returns: None, body, results }
}

/// A function under `#[elementwise]`.
pub(crate) fn elementwise(item: &ItemFn, errors: &mut Errors) -> (Header, Elementwise) {
    let header = header(item, Kind::Elementwise, errors);
    let mut parameters = Vec::new();
    for input in &item.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                errors.at(
                    receiver.self_token.span,
                    "an elementwise function is a free function: move it out of the `impl`",
                );
            }
            FnArg::Typed(typed) => {
                for attribute in &typed.attrs {
                    errors.on(attribute, NO_ATTRIBUTE);
                }
                if !is_f32(&typed.ty) {
                    errors.on(
                        &typed.ty,
                        "an elementwise function takes values of type `f32` (in f64 products they are computed in f64)",
                    );
                }
                parameters.extend(named(&typed.pat, errors));
            }
        }
    }
    if item.sig.inputs.is_empty() {
        errors.at(item.sig.paren_token.span.join(), "an elementwise function has at least one parameter: `x: f32`");
    }
    match &item.sig.output {
        ReturnType::Default => {
            errors.at(item.sig.paren_token.span.close(), "an elementwise function returns one value: write `-> f32`");
        }
        ReturnType::Type(_, ty) if is_f32(ty) => {}
        ReturnType::Type(_, ty) => errors.on(ty, "an elementwise function returns `f32`"),
    }
    refuse_repeated(parameters.iter().map(|binding: &Binding| &binding.name), errors);
    let body = body::block(&item.block, errors);
    (header, Elementwise { parameters, body })
}

fn header(item: &ItemFn, kind: Kind, errors: &mut Errors) -> Header {
    let signature = &item.sig;
    let noun = kind.noun();
    errors.check(item.modifiers.require_empty());
    let safety = match &signature.safety {
        Safety::Default => None,
        Safety::Safe(token) => Some(("safe", token.span)),
        Safety::Unsafe(token) => Some(("unsafe", token.span)),
    };
    let words = [
        signature.constness.map(|token| ("const", token.span)),
        signature.asyncness.map(|token| ("async", token.span)),
        safety,
        signature.abi.as_ref().map(|abi| ("extern", abi.extern_token.span)),
    ];
    for (word, span) in words.into_iter().flatten() {
        errors.at(span, format_args!("{noun} cannot be `{word}`: remove the word"));
    }
    if !signature.generics.params.is_empty() {
        errors.on(
            &signature.generics.params,
            format_args!(
                "{noun} cannot be generic: element types are chosen by the tensors, shapes are run-time arguments"
            ),
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        errors.on(clause, format_args!("{noun} cannot be generic: remove the `where` clause"));
    }
    if let Some(variadic) = &signature.variadic {
        errors.on(variadic, format_args!("{noun} has a fixed list of parameters"));
    }
    for attribute in &item.attrs {
        if let Some(name) = unknown_attribute(attribute, kind) {
            errors.on(attribute, format_args!("`#[{name}]` has no meaning on {noun}: remove it"));
        }
    }
    Header {
        attributes: item.attrs.clone(),
        visibility: item.vis.clone(),
        name: signature.ident.clone(),
        receiver: signature.receiver().is_some(),
    }
}

/// The name of an attribute that the expansion would lose, if it is one.
fn unknown_attribute(attribute: &Attribute, kind: Kind) -> Option<String> {
    const COMMON: [&str; 9] = ["doc", "cfg", "cfg_attr", "allow", "expect", "warn", "deny", "forbid", "deprecated"];
    let path = attribute.path();
    let known = COMMON.iter().any(|name| path.is_ident(name))
        || path.is_ident("must_use")
        || (kind == Kind::Elementwise && path.is_ident("inline"));
    let last = path.segments.last()?;
    let tool = path.segments.len() > 1
        && path.segments.first().is_some_and(|first| first.ident == "rustfmt" || first.ident == "clippy");
    (!known && !tool).then(|| last.ident.to_string())
}

/// The most accumulators of an epilogue, as `epilogue::evt::MAX_ACCUMULATORS` says.
const MAX_ACCUMULATORS: usize = 4;

/// A parameter with a type.
fn typed(input: &FnArg) -> Option<&PatType> {
    match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    }
}

const NO_ATTRIBUTE: &str = "an attribute has no meaning on a parameter: remove it (for `#[cfg]`, write two functions)";

/// A leading parameter that is an accumulator.
fn accumulator(typed: &PatType, errors: &mut Errors) -> Binding {
    errors.excuse([Ident::new("accum", Span::call_site())]);
    let _ = class(&typed.ty, &[ClassKind::Accum], "the first parameter", errors);
    for attribute in &typed.attrs {
        if !attribute.path().is_ident("doc") {
            errors.on(attribute, NO_ATTRIBUTE);
        }
    }
    named(&typed.pat, errors)
        .unwrap_or_else(|| Binding { mutability: None, name: Ident::new("accum", Span::mixed_site()) })
}

/// Refuses the first accumulator beyond the limit, at its class.
fn refuse_many(mut spans: impl Iterator<Item = Span>, errors: &mut Errors) {
    if let Some(span) = spans.nth(MAX_ACCUMULATORS) {
        errors.at(
            span,
            "an epilogue has at most four accumulators, each the product of A and another B: use two products",
        );
    }
}

fn is_accum(ty: &Type) -> bool {
    accum_word(ty).is_some()
}

/// The word `Accum` of a type, if that is the type.
fn accum_word(ty: &Type) -> Option<Ident> {
    match unparenthesised(ty) {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.clone()).filter(|word| word == "Accum"),
        _ => None,
    }
}

fn is_f32(ty: &Type) -> bool {
    matches!(unparenthesised(ty), Type::Path(path) if path.qself.is_none()
        && path.path.segments.last().is_some_and(|last| last.ident == "f32" && last.arguments.is_none()))
}

fn parameter(attributes: &[Attribute], pat: &Pat, ty: Option<&Type>, errors: &mut Errors) -> Option<Parameter> {
    let (docs, others): (Vec<&Attribute>, Vec<&Attribute>) =
        attributes.iter().partition(|attribute| attribute.path().is_ident("doc"));
    for attribute in others {
        errors.on(attribute, NO_ATTRIBUTE);
    }
    let binding = named(pat, errors);
    let class = match ty {
        Some(ty) if is_accum(ty) => {
            errors.on(ty, "accumulators come before all other parameters: put this one in front of them");
            None
        }
        Some(ty) => class(ty, &ClassKind::PARAMETERS, "a parameter", errors),
        None => {
            errors.on(pat, "a parameter needs its class: `c: Tensor`");
            None
        }
    };
    let binding = binding?;
    let may_be_mutable = class.as_ref().is_none_or(|class| class.kind == ClassKind::TensorMut);
    if let Some(mutability) = binding.mutability.filter(|_| !may_be_mutable) {
        errors.at(
            mutability.span,
            format_args!(
                "only a `TensorMut` is assigned to; for a changing copy write `let mut {0} = {0};` in the body",
                binding.name
            ),
        );
    }
    Some(Parameter { attributes: docs.into_iter().cloned().collect(), binding, class })
}

fn returns(signature: &Signature, errors: &mut Errors) -> Option<Vec<Return>> {
    let ty = match &signature.output {
        ReturnType::Default => {
            errors.at(
                signature.paren_token.span.close(),
                "an epilogue declares what it returns: write `-> Tensor`, or a tuple such as `-> (Tensor, ColumnVector)`",
            );
            return None;
        }
        ReturnType::Type(_, ty) => unparenthesised(ty),
    };
    let mut result = |ty: &Type| Return { class: class(ty, &ClassKind::RESULTS, "a result", errors), span: ty.span() };
    if let Type::Tuple(tuple) = ty {
        let returns: Vec<Return> = tuple.elems.iter().map(&mut result).collect();
        if returns.is_empty() {
            errors.on(tuple, "an epilogue returns at least one value: write `-> Tensor`");
            return None;
        }
        return Some(returns);
    }
    Some(vec![result(ty)])
}

fn unparenthesised(ty: &Type) -> &Type {
    match ty {
        Type::Paren(paren) => unparenthesised(&paren.elem),
        Type::Group(group) => unparenthesised(&group.elem),
        other => other,
    }
}

/// Refuses the second of two equal names.
pub(crate) fn refuse_repeated<'a>(names: impl Iterator<Item = &'a Ident>, errors: &mut Errors) {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        // `r#c` is `c`, too.
        let written = name.to_string();
        let plain = written.strip_prefix("r#").unwrap_or(&written).to_owned();
        if !seen.insert(plain.clone()) {
            errors.at(name.span(), format_args!("there are two parameters of the name `{plain}`: rename one"));
        }
    }
}
