//! Names, shape classes and results: what can be checked without knowing types or functions.

mod backward;
mod body;
mod chain;
mod integers;
mod result;
mod scope;
mod words;

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{ExprPath, Type};

use crate::ast::{ClassKind, Elementwise, Epilogue, Header};
use crate::parse;
use crate::report::Errors;
use crate::sight::Files;
pub use backward::Backward;
pub(crate) use backward::backward;
use body::Body;
use scope::{Holds, Origin, ValueKind, ValueShape, Variable};

/// The facts that the check finds out about a body.
pub struct Checked {
    /// The constants that [`Expr::Constant`](crate::ast::Expr::Constant) numbers.
    pub constants: Vec<ExprPath>,
    /// The returned values, without those with mistakes.
    pub outputs: Vec<Output>,
    /// For every parameter, whether the body assigns to it.
    pub assigned: Vec<bool>,
    /// For every parameter, whether its elements are truth values.
    pub truths: Vec<bool>,
    /// For every parameter, whether it is a seed.
    pub seeds: Vec<bool>,
    /// For every parameter, its element type, or that of the result that overwrites it.
    pub elements: Vec<Option<Type>>,
}

/// A returned value.
pub struct Output {
    /// Its name.
    pub name: Ident,
    /// Its class.
    pub class: ClassKind,
    /// The element type that is written.
    pub element: Option<Type>,
    /// The `TensorMut` parameter that it overwrites.
    pub parameter: Option<usize>,
    /// The Rust type of its value.
    pub ty: Primitive,
}

/// The Rust type of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// A number.
    F32,
    /// An integer.
    I64,
    /// A truth value.
    Bool,
    /// The seed and offset of random numbers.
    Seed,
}

/// Whether the results' classes are declared or follow from the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Declared, as in a function.
    Function,
    /// Following, as in a closure.
    Closure,
}

/// Checks an epilogue and resolves its paths to locals and constants.
pub(crate) fn epilogue(epilogue: &mut Epilogue, form: Form, files: Files, errors: &mut Errors) -> Checked {
    let names = epilogue.accums.iter().chain(epilogue.parameters.iter().map(|parameter| &parameter.binding));
    parse::refuse_repeated(names.map(|binding| &binding.name), errors);
    let mode = match form {
        Form::Function => body::Mode::Epilogue,
        Form::Closure => body::Mode::Closure,
    };
    let mut body = Body::new(mode, files, errors);
    for accum in &epilogue.accums {
        body.declare(
            &accum.name,
            Variable {
                kind: ValueKind::Number(ValueShape::Tensor),
                mutable: accum.mutability.is_some(),
                origin: Origin::Accum,
                holds: Holds::Nothing,
                annotation: None,
            },
        );
    }
    let (mut truths, mut seeds) = (Vec::new(), Vec::new());
    for (i, parameter) in epilogue.parameters.iter().enumerate() {
        let shape = parameter.class.as_ref().and_then(|class| ValueShape::of(class.kind));
        let mutable = parameter.class.as_ref().is_none_or(|class| class.kind == ClassKind::TensorMut);
        let element = parameter.class.as_ref().and_then(|class| class.element.as_ref());
        let holds = match element {
            None if parameter.class.as_ref().is_some_and(|class| class.kind == ClassKind::Bits) => Holds::Truths,
            Some(element) if body::is_bool(element) => Holds::Truths,
            Some(element) if body::is_integer(element) => Holds::Integers,
            Some(element) => Holds::Others(element.to_token_stream().to_string()),
            None if parameter.class.as_ref().is_some_and(|class| class.kind == ClassKind::Scalar) => Holds::Nothing,
            None => Holds::Unwritten,
        };
        truths.push(holds == Holds::Truths);
        let seed = parameter.class.as_ref().is_some_and(|class| class.kind == ClassKind::Seed);
        seeds.push(seed);
        let kind = match (shape, &holds) {
            _ if seed => ValueKind::Seed,
            (Some(shape), Holds::Truths) => ValueKind::Truth(shape),
            (Some(shape), _) => ValueKind::Number(shape),
            (None, _) => ValueKind::Unknown,
        };
        body.declare(
            &parameter.binding.name,
            Variable { kind, mutable, origin: Origin::Parameter(i), holds, annotation: None },
        );
    }
    body.statements(&mut epilogue.body.statements);
    chain::check(epilogue, body.errors);
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
    Checked { constants: body.constants, outputs, assigned, elements, truths, seeds }
}

/// Checks an elementwise function and resolves its paths; returns the constants.
pub(crate) fn elementwise(
    header: &Header,
    function: &mut Elementwise,
    files: Files,
    errors: &mut Errors,
) -> Vec<ExprPath> {
    let mut body = Body::new(body::Mode::Elementwise(header.name.to_string()), files, errors);
    for parameter in &function.parameters {
        body.declare(
            &parameter.name,
            Variable {
                kind: ValueKind::Number(ValueShape::Tensor),
                mutable: parameter.mutability.is_some(),
                origin: Origin::Let,
                holds: Holds::Nothing,
                annotation: None,
            },
        );
    }
    body.block_in_place(&mut function.body);
    body.constants
}
