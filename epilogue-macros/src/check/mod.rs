//! Names, shape classes and results: what can be checked without knowing any type or function.

mod body;
mod result;
mod scope;

use proc_macro2::Ident;
use syn::{ExprPath, Type};

use crate::ast::{ClassKind, Elementwise, Epilogue, Header};
use crate::parse;
use crate::report::Errors;
use body::Body;
use scope::{Kind, Origin, Shape, Variable};

/// What the check found out about a body.
pub(crate) struct Checked {
    /// The constants that [`Expr::Constant`](crate::ast::Expr::Constant) counts.
    pub(crate) constants: Vec<ExprPath>,
    /// The returned values, those with mistakes left out.
    pub(crate) outputs: Vec<Output>,
    /// For every parameter, whether the body assigns to it.
    pub(crate) assigned: Vec<bool>,
    /// For every parameter, the element type in force: its own, or that of the result which overwrites it.
    pub(crate) elements: Vec<Option<Type>>,
}

/// A returned value.
pub(crate) struct Output {
    pub(crate) name: Ident,
    pub(crate) class: ClassKind,
    pub(crate) element: Option<Type>,
    /// The `TensorMut` parameter that it overwrites.
    pub(crate) parameter: Option<usize>,
}

/// Whether the results' classes are declared or follow from the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Function,
    Closure,
}

/// Checks an epilogue and resolves its paths to locals and constants.
pub(crate) fn epilogue(epilogue: &mut Epilogue, form: Form, errors: &mut Errors) -> Checked {
    let names = epilogue.accums.iter().chain(epilogue.parameters.iter().map(|parameter| &parameter.binding));
    parse::refuse_repeated(names.map(|binding| &binding.name), errors);
    let mode = match form {
        Form::Function => body::Mode::Epilogue,
        Form::Closure => body::Mode::Closure,
    };
    let mut body = Body::new(mode, errors);
    for accum in &epilogue.accums {
        body.declare(
            &accum.name,
            Variable {
                kind: Kind::Number(Shape::Tensor),
                mutable: accum.mutability.is_some(),
                origin: Origin::Accum,
                integer: false,
                annotation: None,
            },
        );
    }
    for (i, parameter) in epilogue.parameters.iter().enumerate() {
        let kind = parameter.class.as_ref().and_then(|class| Shape::of(class.kind)).map_or(Kind::Unknown, Kind::Number);
        let mutable = parameter.class.as_ref().is_none_or(|class| class.kind == ClassKind::TensorMut);
        let element = parameter.class.as_ref().and_then(|class| class.element.as_ref());
        let integer = element.is_some_and(body::is_integer);
        body.declare(
            &parameter.binding.name,
            Variable { kind, mutable, origin: Origin::Parameter(i), integer, annotation: None },
        );
    }
    body.statements(&mut epilogue.body.statements);
    let outputs = result::results(epilogue, form, &mut body);
    let assigned = (0..epilogue.parameters.len()).map(|i| body.assigned.contains(&i)).collect();
    let elements = epilogue
        .parameters
        .iter()
        .enumerate()
        .map(|(i, parameter)| {
            let own = parameter.class.as_ref().and_then(|class| class.element.clone());
            let overwriting = outputs.iter().find(|output| output.parameter == Some(i));
            own.or_else(|| overwriting.and_then(|output| output.element.clone()))
        })
        .collect();
    Checked { constants: body.constants, outputs, assigned, elements }
}

/// Checks an elementwise function and resolves its paths; returns the constants.
pub(crate) fn elementwise(header: &Header, function: &mut Elementwise, errors: &mut Errors) -> Vec<ExprPath> {
    let mut body = Body::new(body::Mode::Elementwise(header.name.to_string()), errors);
    for parameter in &function.parameters {
        body.declare(
            &parameter.name,
            Variable {
                kind: Kind::Number(Shape::Tensor),
                mutable: parameter.mutability.is_some(),
                origin: Origin::Let,
                integer: false,
                annotation: None,
            },
        );
    }
    body.block_in_place(&mut function.body);
    body.constants
}
