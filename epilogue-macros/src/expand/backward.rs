//! `#[epilogue(backward)]`: the struct of the backward pass.
//!
//! The macro knows names only, so the struct's fields are all parameters that a derivative might need. Its tree is
//! derived from the forward tree when a plan asks for it. If it cannot be derived, the tree's validation says so.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::library::Library;
use super::plain;
use super::structure::{Field, FieldAccess, parameters, written};
use epilogue_syntax::ast::{ClassKind, Epilogue};
use epilogue_syntax::check::{Backward, Checked};

/// The body of `Epilogue::tree`.
pub(super) fn tree(forward: &Ident, of: &Backward, library: &Library) -> TokenStream {
    let list = |names: &[Ident]| {
        let names = names.iter().map(plain);
        quote!(&[#(#names),*])
    };
    let (through, start) = (plain(&of.through), of.place.start());
    let (given, saved) = (list(&of.given), list(&of.saved));
    let (gradients, of_all) = (list(&of.gradients), list(&of.gradients_of_all));
    let (line, column) = (Literal::usize_unsuffixed(start.line), Literal::usize_unsuffixed(start.column + 1));
    quote! {
        #library::__private::backward(
            &<#forward as #library::Epilogue>::tree(),
            &#library::__private::BackwardOf {
                through: #through,
                given: #given,
                saved: #saved,
                gradients: #gradients,
                gradients_of_all: #of_all,
                place: (#line, #column),
            },
        )
    }
}

/// The struct's attributes.
pub(super) fn documentation(forward: &Ident, of: &Backward, conditions: &TokenStream) -> TokenStream {
    let text = format!(
        "The backward pass of [`{forward}`]: the accumulator is the gradient of `{}`. It is given what the forward pass was.",
        plain(&of.through)
    );
    quote!(#conditions #[doc = #text] #[allow(dead_code)])
}

/// The fields in the order of the arguments: forward parameters, saved outputs, given gradients, then the gradients.
pub(super) fn fields(epilogue: &Epilogue, checked: &Checked, of: &Backward) -> Vec<Field> {
    let mut fields = parameters(epilogue, checked);
    let class = |name: &Ident| {
        let output = checked.outputs.iter().find(|output| output.name == *name);
        output.map_or((ClassKind::Tensor, None), |output| (output.class, output.element.as_ref()))
    };
    for name in &of.saved {
        let (class, element) = class(name);
        let description =
            format!("{}: {}, which the forward pass wrote, read.", written(class, element), class.extent());
        fields.push(Field { name: name.clone(), access: FieldAccess::Input, description, docs: Vec::new() });
    }
    for name in &of.given {
        let (class, element) = class(name);
        let description =
            format!("{}: {}, the gradient of `{}`, read.", written(class, element), class.extent(), plain(name));
        fields.push(Field { name: gradient(name), access: FieldAccess::Input, description, docs: Vec::new() });
    }
    for accum in &epilogue.accums {
        let description = format!("`Tensor`: M×N values, the gradient of `{}`, written.", plain(&accum.name));
        fields.push(Field { name: gradient(&accum.name), access: FieldAccess::Output, description, docs: Vec::new() });
    }
    for (name, all) in
        of.gradients.iter().map(|name| (name, false)).chain(of.gradients_of_all.iter().map(|n| (n, true)))
    {
        let parameter = epilogue.parameters.iter().find(|parameter| parameter.binding.name == *name);
        let kind =
            parameter.and_then(|parameter| parameter.class.as_ref()).map_or(ClassKind::Tensor, |class| class.kind);
        let kind = if kind == ClassKind::Scalar { ClassKind::DeviceScalar } else { kind };
        let summed = if all { ", summed over the batch" } else { "" };
        let description =
            format!("`{}`: {}, the gradient of `{}`{summed}, written.", kind.name(), kind.extent(), plain(name));
        fields.push(Field { name: gradient(name), access: FieldAccess::Output, description, docs: Vec::new() });
    }
    // After a mistake a name may be there twice.
    let mut seen = std::collections::HashSet::new();
    fields.retain(|field| seen.insert(plain(&field.name)));
    fields
}

/// `d_x`, at the place of `x`.
fn gradient(name: &Ident) -> Ident {
    format_ident!("d_{}", plain(name), span = name.span())
}
