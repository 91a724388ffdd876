//! The backward pass that an attribute asks for: which names are what.

use std::collections::HashSet;

use proc_macro2::{Ident, Span};

use super::{Checked, Output, Primitive};
use crate::ast::{ClassKind, Epilogue, Parameter};
use crate::attribute_of_epilogue;
use crate::report::{Errors, alternatives};

/// A backward pass, by names of the function's own.
pub struct Backward {
    /// The word in the attribute.
    pub place: Span,
    /// The struct's name, if the attribute says one.
    pub name: Option<Ident>,
    /// The output whose gradient is the accumulator.
    pub through: Ident,
    /// Outputs whose gradients are parameters.
    pub given: Vec<Ident>,
    /// Outputs that are read.
    pub saved: Vec<Ident>,
    /// Parameters whose gradients are results.
    pub gradients: Vec<Ident>,
    /// Parameters whose gradients are summed over the batch.
    pub gradients_of_all: Vec<Ident>,
}

/// Resolves what the attribute says, and what it leaves out.
pub(crate) fn backward(
    said: &attribute_of_epilogue::Backward,
    epilogue: &Epilogue,
    checked: &Checked,
    errors: &mut Errors,
) -> Backward {
    let check = Check { epilogue, checked };
    for parameter in &epilogue.parameters {
        if let Some(class) = parameter.class.as_ref().filter(|class| class.kind == ClassKind::TensorMut) {
            errors.at(
                class.name.span(),
                "the values of a `TensorMut` are gone in the backward pass: declare it `Tensor`, and return the new values under \
                 another name",
            );
        }
    }
    let is_through = |output: &&Output| output.class == ClassKind::Tensor && output.ty == Primitive::F32;
    let through = match &said.through {
        Some(name) => check.output(name, is_through, "a gradient goes through a `Tensor` of numbers", errors),
        None => {
            let first = checked.outputs.iter().find(is_through).map(|output| output.name.clone());
            if first.is_none() && errors.is_empty() {
                errors.at(said.place, "a backward pass goes through a `Tensor` of numbers, and none is returned");
            }
            first
        }
    };
    let given = |name: &Ident, errors: &mut Errors| {
        check.output(name, |output| output.ty == Primitive::F32, "only numbers have gradients", errors)
    };
    let given: Vec<Ident> = said.given.iter().filter_map(|name| given(name, errors)).collect();
    let is_saved = |output: &&Output| match output.class {
        ClassKind::Tensor => matches!(output.ty, Primitive::F32 | Primitive::Bool),
        class => class == ClassKind::Bits,
    };
    let saved: Vec<Ident> = match &said.saved {
        Some(names) => {
            let what = "only a `Tensor` or `Bits` is saved (others are computed again)";
            names.iter().filter_map(|name| check.output(name, is_saved, what, errors)).collect()
        }
        None => {
            let others = checked.outputs.iter().filter(is_saved).map(|output| &output.name);
            others.filter(|name| through.as_ref() != Some(*name) && !given.contains(name)).cloned().collect()
        }
    };
    let all: Vec<Ident> = said.gradients_of_all.iter().filter_map(|name| check.parameter(name, errors)).collect();
    for name in &all {
        if check.class(name) == Some(ClassKind::Tensor) {
            errors.at(
                name.span(),
                format_args!("`{name}` is M×N, and nothing is summed over the batch alone: write it under `gradients`"),
            );
        }
    }
    let gradients: Vec<Ident> = match &said.gradients {
        Some(names) => names.iter().filter_map(|name| check.parameter(name, errors)).collect(),
        None => {
            let own = epilogue.parameters.iter().zip(&checked.elements);
            let wanted = own.filter(|(parameter, element)| {
                has_gradient(parameter, element.as_ref())
                    && parameter.class.as_ref().is_some_and(|class| class.kind != ClassKind::Scalar)
            });
            let names = wanted.map(|(parameter, _)| &parameter.binding.name);
            names.filter(|name| !all.contains(name)).cloned().collect()
        }
    };
    // After a mistake, any name: then there is no tree.
    let through = through.unwrap_or_else(|| Ident::new("y", said.place));
    for names in [
        std::iter::once(&through).chain(&given).collect::<Vec<_>>(),
        saved.iter().collect(),
        gradients.iter().chain(&all).collect(),
    ] {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name.to_string()) {
                errors.at(name.span(), format_args!("`{name}` is named twice: leave one out"));
            }
        }
    }
    let with_gradient = epilogue.accums.iter().map(|accum| &accum.name).chain([&through]).chain(&given);
    for name in with_gradient.chain(&gradients).chain(&all) {
        let gradient = format!("d_{name}");
        if let Some(taken) = check.names().find(|taken| **taken == gradient) {
            errors.at(
                taken.span(),
                format_args!("the gradient of `{name}` is called `{gradient}` in the backward pass: rename this"),
            );
        }
    }
    let place = said.place;
    Backward { place, name: said.name.clone(), through, given, saved, gradients, gradients_of_all: all }
}

struct Check<'a> {
    epilogue: &'a Epilogue,
    checked: &'a Checked,
}

impl Check<'_> {
    fn names(&self) -> impl Iterator<Item = &Ident> {
        let own = self.epilogue.accums.iter().map(|accum| &accum.name);
        let parameters = self.epilogue.parameters.iter().map(|parameter| &parameter.binding.name);
        own.chain(parameters).chain(self.checked.outputs.iter().map(|output| &output.name))
    }

    /// The name of a returned value that fits.
    fn output(&self, name: &Ident, fits: impl Fn(&&Output) -> bool, what: &str, errors: &mut Errors) -> Option<Ident> {
        let outputs = &self.checked.outputs;
        match outputs.iter().find(|output| output.name == *name) {
            Some(output) if fits(&output) => return Some(name.clone()),
            Some(output) => {
                let class = output.class.name();
                let kind = match output.ty {
                    Primitive::Bool => " of truth values",
                    Primitive::I64 => " of integers",
                    Primitive::F32 | Primitive::Seed => "",
                };
                errors.at(name.span(), format_args!("{what}, and `{name}` is a `{class}`{kind}: leave it out"));
            }
            None => {
                let returned = listed(outputs.iter().map(|output| &output.name), "nothing");
                errors.at(name.span(), format_args!("`{name}` is not returned: the function returns {returned}"));
            }
        }
        None
    }

    fn class(&self, name: &Ident) -> Option<ClassKind> {
        let parameter = self.epilogue.parameters.iter().find(|parameter| parameter.binding.name == *name)?;
        parameter.class.as_ref().map(|class| class.kind)
    }

    /// The name of a parameter that has a gradient.
    fn parameter(&self, name: &Ident, errors: &mut Errors) -> Option<Ident> {
        let own = || self.epilogue.parameters.iter().zip(&self.checked.elements);
        match own().find(|(parameter, _)| parameter.binding.name == *name) {
            Some((parameter, element)) if has_gradient(parameter, element.as_ref()) => return Some(name.clone()),
            // Its mistake has been reported.
            Some((Parameter { class: None, .. }, _)) => {}
            Some(_) => errors.at(
                name.span(),
                format_args!(
                    "only numbers that may have a fraction have gradients, and `{name}` is none: leave it out"
                ),
            ),
            None => {
                let there = listed(own().map(|(parameter, _)| &parameter.binding.name), "none");
                errors.at(
                    name.span(),
                    format_args!(
                        "there is no parameter `{name}`, but {there} (accumulators have their gradients anyway)"
                    ),
                );
            }
        }
        None
    }
}

/// Names in a message; `none` if there are none.
fn listed<'a>(names: impl Iterator<Item = &'a Ident>, none: &str) -> String {
    let names: Vec<String> = names.map(Ident::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() { none.to_owned() } else { alternatives(&names) }
}

/// Whether a parameter is of numbers that may have a fraction.
fn has_gradient(parameter: &Parameter, element: Option<&syn::Type>) -> bool {
    let of_class = parameter.class.as_ref().is_some_and(|class| {
        matches!(
            class.kind,
            ClassKind::Tensor
                | ClassKind::RowVector
                | ClassKind::ColumnVector
                | ClassKind::Scalar
                | ClassKind::DeviceScalar
        )
    });
    of_class && element.is_none_or(|element| !super::body::is_bool(element) && !super::body::is_integer(element))
}
