//! Compares what is returned with what was declared.

use std::collections::HashSet;

use proc_macro2::Ident;
use quote::ToTokens;
use syn::Type;

use super::body::Body;
use super::scope::{Origin, ValueKind, ValueShape};
use super::{Form, Output, Primitive};
use crate::ast::{Class, ClassKind, Epilogue, Return};

/// Checks the returned names, and that every `TensorMut` is assigned and returned.
pub(crate) fn results(epilogue: &Epilogue, form: Form, body: &mut Body<'_>) -> Vec<Output> {
    if let Some(returns) = &epilogue.returns {
        count(returns, epilogue, body);
    }
    let mut outputs = Vec::new();
    let mut seen = HashSet::new();
    for (i, name) in epilogue.results.iter().enumerate() {
        let Some(name) = &name.0 else { continue };
        if !seen.insert(name.to_string()) {
            body.errors.at(
                name.span(),
                format_args!("`{name}` is returned twice: to store it a second time, `let {name}2 = {name};` and return `{name}2`"),
            );
            continue;
        }
        let declared = match form {
            Form::Function => epilogue.returns.as_ref().and_then(|returns| returns.get(i)).map(|it| it.class.as_ref()),
            Form::Closure => None,
        };
        outputs.extend(output(name, declared, form, epilogue, body));
    }
    untouched(epilogue, &seen, body);
    outputs
}

fn count(returns: &[Return], epilogue: &Epilogue, body: &mut Body<'_>) {
    let (declared, returned) = (returns.len(), epilogue.results.len());
    if epilogue.results.iter().all(|result| result.0.is_none()) {
        return;
    }
    if let Some(extra) = returns.get(returned) {
        body.errors.at(
            extra.span,
            format_args!(
                "the return type declares {declared} results, the body returns {returned}: remove this one, or return its value"
            ),
        );
    }
    if let Some(Some(extra)) = epilogue.results.get(declared).map(|result| &result.0) {
        body.errors.at(
            extra.span(),
            format_args!(
                "the body returns {returned} values, the return type declares {declared}: add the class of this one"
            ),
        );
    }
}

/// Checks one returned name; `declared` is `None` if no class was declared, `Some(None)` after a mistake.
fn output(
    name: &Ident,
    declared: Option<Option<&Class>>,
    form: Form,
    epilogue: &Epilogue,
    body: &mut Body<'_>,
) -> Option<Output> {
    let Some(variable) = body.variable(name).cloned() else {
        if name.to_string().chars().any(char::is_uppercase) {
            body.errors.at(
                name.span(),
                format_args!("`{name}` is not a value of this function: bind it with `let` to return it"),
            );
        } else {
            body.unknown(name);
        }
        return None;
    };
    let same_name = epilogue.parameters.iter().position(|parameter| parameter.binding.name == *name);
    let class_of = |i: usize| epilogue.parameters[i].class.as_ref().map(|class| class.kind);
    let mut parameter = None;
    match (variable.origin, same_name) {
        (Origin::Parameter(i), _) if class_of(i) == Some(ClassKind::TensorMut) => {
            if !body.assigned.contains(&i) {
                body.errors.at(
                    name.span(),
                    format_args!(
                        "`{name}` is returned as it was: assign to it, as in `{name} += accum;`, or declare it `Tensor`"
                    ),
                );
            }
            parameter = Some(i);
        }
        (Origin::Parameter(i), _) if class_of(i) == Some(ClassKind::Seed) => {
            body.errors.at(
                name.span(),
                format_args!("`{name}` is a seed and no value: return `let u = random({name});` to see its numbers"),
            );
            return None;
        }
        (Origin::Parameter(i), _) => {
            if class_of(i).is_some() {
                body.errors.at(
                    name.span(),
                    format_args!(
                        "a parameter is not returned: to store a copy, `let copy = {name};` and return `copy`; to change \
                         it in place, declare it `TensorMut`"
                    ),
                );
            }
            return None;
        }
        (Origin::Let, Some(i)) if class_of(i) == Some(ClassKind::TensorMut) => parameter = Some(i),
        (Origin::Let, Some(i)) => {
            if class_of(i).is_some() {
                body.errors.at(
                    name.span(),
                    format_args!(
                        "`{name}` is also a parameter, and both would be the field `{name}`: rename one, or declare the \
                         parameter `TensorMut` to change it in place"
                    ),
                );
            }
            return None;
        }
        (Origin::Accum | Origin::Let, None) | (Origin::Accum, Some(_)) => {}
    }
    let declared = match form {
        Form::Function => declared,
        Form::Closure => variable.annotation.as_deref().map(Some),
    };
    let class = agree(name, variable.kind, declared, form, body)?;
    if class == ClassKind::TensorMut && parameter.is_none() {
        body.errors.at(name.span(), format_args!("`{name}` is no `TensorMut` parameter: declare the result `Tensor`"));
        return None;
    }
    if class == ClassKind::Bits && parameter.is_some() {
        body.errors.at(
            name.span(),
            format_args!("`{name}` overwrites the parameter `{name}`: declare the result `TensorMut`, or rename one"),
        );
        return None;
    }
    let own = declared.flatten().and_then(|class| class.element.clone());
    let element = match parameter.and_then(|i| epilogue.parameters[i].class.as_ref()) {
        Some(Class { element: Some(of_parameter), .. }) => {
            if own.as_ref().is_some_and(|own| text(own) != text(of_parameter)) {
                body.errors.on(
                    own.as_ref(),
                    format_args!("`{name}` has one element type: the parameter says `{}`", text(of_parameter)),
                );
            }
            Some(of_parameter.clone())
        }
        _ => own,
    };
    stored_as(name, variable.kind, element.as_ref(), body)?;
    let ty = match variable.kind {
        ValueKind::Integer(_) => Primitive::I64,
        ValueKind::Truth(_) => Primitive::Bool,
        ValueKind::Number(_) | ValueKind::Seed | ValueKind::Partials(_) | ValueKind::Unknown => Primitive::F32,
    };
    Some(Output { name: name.clone(), class, element, parameter, ty })
}

fn text(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}

/// Compares the type of a value with the element type in which it is stored, if that type's name is known.
fn stored_as(name: &Ident, kind: ValueKind, element: Option<&Type>, body: &mut Body<'_>) -> Option<()> {
    let Some(Type::Path(path)) = element else { return Some(()) };
    let written = path.path.segments.last()?.ident.to_string();
    let integer = ["i64", "i32", "i8", "u8"].contains(&written.as_str());
    let float = ["f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2"].contains(&written.as_str());
    let message = match kind {
        ValueKind::Truth(_) if integer || float => format!(
            "`{name}` is a truth value and is returned as {written}: declare it `bool`, or return a number, `if {name} {{ 1.0 }} \
             else {{ 0.0 }}`"
        ),
        ValueKind::Integer(_) if float || written == "bool" => format!(
            "`{name}` is an integer and is returned as {written}: declare it `i64`, `i32`, `i8` or `u8`, or return \
             `real({name})`"
        ),
        ValueKind::Number(_) | ValueKind::Partials(_) if written == "bool" => {
            format!("`{name}` is a number and is returned as bool: return a comparison such as `{name} != 0.0`")
        }
        _ => return Some(()),
    };
    body.errors.at(name.span(), message);
    None
}

/// Compares the class of a value with the declared one; gives the class of the output.
fn agree(
    name: &Ident,
    kind: ValueKind,
    declared: Option<Option<&Class>>,
    form: Form,
    body: &mut Body<'_>,
) -> Option<ClassKind> {
    let actual = kind.class();
    let declared = match declared {
        // The closure form, or fewer declared than returned results (which is reported once).
        None => return if form == Form::Closure { actual } else { None },
        Some(None) => return None,
        Some(Some(declared)) => declared.kind,
    };
    let Some(actual) = actual else { return Some(declared) };
    if declared == actual || (declared == ClassKind::TensorMut && actual == ClassKind::Tensor) {
        return Some(declared);
    }
    let instead = match kind {
        ValueKind::Truth(ValueShape::Tensor) if declared == ClassKind::Bits => return Some(declared),
        ValueKind::Number(_) if declared == ClassKind::Bits => Some(("a number", "0.0")),
        ValueKind::Integer(_) if declared == ClassKind::Bits => Some(("an integer", "0")),
        _ => None,
    };
    if let Some((what, zero)) = instead {
        body.errors.at(
            name.span(),
            format_args!(
                "`{name}` is {what}, and `Bits` are truth values: return a comparison such as `{name} > {zero}`, or declare \
                 `{}`",
                actual.name()
            ),
        );
        return None;
    }
    let advice = match (actual, declared) {
        (_, ClassKind::Tensor | ClassKind::TensorMut | ClassKind::Bits) if !matches!(kind, ValueKind::Partials(_)) => {
            ", or combine it with an M×N value such as `accum`"
        }
        _ => "",
    };
    body.errors.at(
        name.span(),
        format_args!(
            "`{name}` is a `{}` ({}) but is returned as a `{}` ({}): declare `{}`{advice}",
            actual.name(),
            actual.extent(),
            declared.name(),
            declared.extent(),
            actual.name(),
        ),
    );
    None
}

/// Refuses a `TensorMut` that is not returned.
fn untouched(epilogue: &Epilogue, returned: &HashSet<String>, body: &mut Body<'_>) {
    // It is not known which name a wrong result stands for.
    if epilogue.results.is_empty() || epilogue.results.iter().any(|result| result.0.is_none()) {
        return;
    }
    for parameter in &epilogue.parameters {
        let Some(class) = &parameter.class else { continue };
        let name = &parameter.binding.name;
        if class.kind == ClassKind::TensorMut && !returned.contains(&name.to_string()) {
            body.errors.at(
                class.name.span(),
                format_args!("a `TensorMut` is assigned to and returned: return `{name}`, or declare it `Tensor`"),
            );
        }
    }
}
