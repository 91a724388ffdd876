//! Parameter and result classes: `Tensor<bf16>`, `RowVector`, …

use syn::{GenericArgument, PathArguments, Type};

use crate::ast::{Class, ClassKind};
use crate::report::{Errors, alternatives, similar};

/// Reads a class that must be one of `allowed`; `role` says whose: "a parameter", "a result".
pub(crate) fn class(ty: &Type, allowed: &[ClassKind], role: &str, errors: &mut Errors) -> Option<Class> {
    let names: Vec<&str> = allowed.iter().map(|kind| kind.name()).collect();
    let segment = match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        Type::Paren(paren) => return class(&paren.elem, allowed, role, errors),
        Type::Group(group) => return class(&group.elem, allowed, role, errors),
        _ => None,
    };
    let Some(segment) = segment else {
        let advice = match ty {
            Type::Reference(reference) => {
                errors.at(
                    reference.and_token.span,
                    format_args!(
                        "{role} is declared by its class, without a reference: {}; the generated struct borrows the \
                         device's tensors",
                        alternatives(&names)
                    ),
                );
                return None;
            }
            Type::Array(_) | Type::Slice(_) => " (shapes are run-time arguments and are never written here)",
            _ => "",
        };
        errors.on(ty, format_args!("{role} has one of the classes {}{advice}", alternatives(&names)));
        return None;
    };
    let written = segment.ident.to_string();
    let Some(kind) = ClassKind::ALL.into_iter().find(|kind| kind.name() == written) else {
        let advice = match (written.as_str(), similar(&written, names.iter().copied())) {
            ("f64" | "f32" | "f16" | "bf16" | "i8" | "u8" | "i32" | "i64", _)
                if allowed.contains(&ClassKind::Scalar) =>
            {
                "; a number given by the host is a `Scalar`".to_owned()
            }
            (_, Some(name)) => format!("; did you mean `{name}`?"),
            ("Vector" | "Vec", None) => "; a `RowVector` has N values, a `ColumnVector` M".to_owned(),
            ("DeviceTensor", None) => {
                "; write the class, `Tensor`: the generated struct borrows `DeviceTensor`s".to_owned()
            }
            (_, None) if !allowed.contains(&ClassKind::Scalar) && written.starts_with(char::is_uppercase) => {
                "; several results are a tuple, as in `-> (Tensor, ColumnVector)`, and the macro makes their struct"
                    .to_owned()
            }
            _ => String::new(),
        };
        errors.at(
            segment.ident.span(),
            format_args!("{role} has one of the classes {}, not `{written}`{advice}", alternatives(&names)),
        );
        return None;
    };
    let element = element(kind, &segment.arguments, errors)?;
    if !allowed.contains(&kind) {
        let advice = match kind {
            ClassKind::Accum => "the accumulator is returned as a `Tensor`",
            ClassKind::Seed => "the numbers of a seed, `random(seed)`, are returned as a `Tensor`",
            ClassKind::Scalar => "a value that stays in device memory is a `DeviceScalar`",
            ClassKind::RowPartials | ClassKind::ColumnPartials => {
                "partials are only returned: bind them with `reduction_op(x, Row, Add, threadblock_shape.n)`"
            }
            _ => "",
        };
        let separator = if advice.is_empty() { "" } else { "; " };
        errors.at(
            segment.ident.span(),
            format_args!("{role} cannot be `{written}`, only {}{separator}{advice}", alternatives(&names)),
        );
        return None;
    }
    Some(Class { kind, name: segment.ident.clone(), element })
}

/// The element type between the angle brackets; `None` after a mistake.
fn element(kind: ClassKind, arguments: &PathArguments, errors: &mut Errors) -> Option<Option<Type>> {
    let arguments = match arguments {
        PathArguments::None => return Some(None),
        PathArguments::AngleBracketed(arguments) => arguments,
        PathArguments::Parenthesized(arguments) => {
            errors.on(arguments, format_args!("an element type is written `{}<f16>`", kind.name()));
            return None;
        }
    };
    let refusal = match kind {
        ClassKind::Accum => Some("the accumulator's type follows from A's and B's: write `Accum`"),
        ClassKind::Scalar => {
            Some("a `Scalar` has the type of the arithmetic (f32, or f64 when A is f64): write `Scalar`")
        }
        ClassKind::Seed => Some("a seed is always two 64-bit integers: write `Seed`"),
        ClassKind::Bits => {
            Some("bits are truth values, eight columns in a byte: write `Bits`, or `Tensor<bool>` for a byte each")
        }
        ClassKind::RowPartials => Some("partials are always f32: write `RowPartials`"),
        ClassKind::ColumnPartials => Some("partials are always f32: write `ColumnPartials`"),
        ClassKind::Tensor
        | ClassKind::TensorMut
        | ClassKind::RowVector
        | ClassKind::ColumnVector
        | ClassKind::DeviceScalar => None,
    };
    if let Some(refusal) = refusal {
        errors.on(arguments, refusal);
        return None;
    }
    let mut types = arguments.args.iter();
    match (types.next(), types.next()) {
        (Some(GenericArgument::Type(ty @ Type::Path(_))), None) => Some(Some(ty.clone())),
        (Some(_), Some(extra)) => {
            errors.on(
                extra,
                format_args!("`{}` takes one element type; shapes and layouts are run-time arguments", kind.name()),
            );
            None
        }
        (Some(other), None) => {
            errors.on(
                other,
                format_args!("an element type such as f32, f16, bf16 or i8 goes here: `{}<f16>`", kind.name()),
            );
            None
        }
        (None, _) => {
            errors.on(arguments, format_args!("write `{0}` or, with an element type, `{0}<f16>`", kind.name()));
            None
        }
    }
}
