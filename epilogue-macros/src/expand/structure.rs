//! The common parts of both forms of an epilogue: their fields, the order of their arguments, and their tree.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, Visibility};

use super::library::Library;
use super::tree::Emitter;
use super::twin::{self, Twin};
use super::{local, plain};
use epilogue_syntax::ast::{ClassKind, Epilogue};
use epilogue_syntax::check::Checked;
use epilogue_syntax::walk;

/// A field of the struct, or a setter of the closure form.
pub(super) struct Field {
    pub(super) name: Ident,
    pub(super) access: FieldAccess,
    /// The text of its doc comment.
    pub(super) description: String,
    /// The user's own documentation of it.
    pub(super) docs: Vec<Attribute>,
}

/// How a run uses a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldAccess {
    Scalar,
    Seed,
    Input,
    Output,
}

impl FieldAccess {
    /// The field's type, borrowed for `lifetime`.
    pub(super) fn ty(self, lifetime: &syn::Lifetime, library: &Library) -> TokenStream {
        match self {
            Self::Scalar => quote!(::core::primitive::f64),
            Self::Seed => quote!(#library::Seed<#lifetime>),
            Self::Input => quote!(&#lifetime #library::DeviceTensor),
            Self::Output => quote!(&#lifetime mut #library::DeviceTensor),
        }
    }

    /// The field's type in a struct whose parameter `fields` determines the types of its fields.
    pub(super) fn generic(self, fields: &Ident) -> TokenStream {
        match self {
            Self::Scalar => quote!(::core::primitive::f64),
            Self::Seed => quote!(#fields::Seed),
            Self::Input => quote!(#fields::Input),
            Self::Output => quote!(#fields::Output),
        }
    }

    /// The function or variant that makes an `epilogue::Argument` of it.
    pub(super) fn variant(self) -> Ident {
        local(match self {
            Self::Scalar => "Scalar",
            Self::Seed => "seed",
            Self::Input => "Input",
            Self::Output => "Output",
        })
    }
}

/// The fields of the parameters.
pub(super) fn parameters(epilogue: &Epilogue, checked: &Checked) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for (parameter, element) in epilogue.parameters.iter().zip(&checked.elements) {
        let kind = parameter.class.as_ref().map_or(ClassKind::Tensor, |class| class.kind);
        let (access, use_) = match kind {
            ClassKind::Scalar => (FieldAccess::Scalar, ""),
            ClassKind::Seed => (FieldAccess::Seed, ""),
            ClassKind::TensorMut => (FieldAccess::Output, ", read and overwritten"),
            _ => (FieldAccess::Input, ", read"),
        };
        fields.push(Field {
            name: parameter.binding.name.clone(),
            access,
            description: format!("{}: {}{use_}.", written(kind, element.as_ref()), kind.extent()),
            docs: parameter.attributes.clone(),
        });
    }
    fields
}

/// The fields in the order of the arguments: parameters, then the outputs that don't overwrite one.
pub(super) fn fields(epilogue: &Epilogue, checked: &Checked) -> Vec<Field> {
    let mut fields = parameters(epilogue, checked);
    for output in checked.outputs.iter().filter(|output| output.parameter.is_none()) {
        fields.push(Field {
            name: output.name.clone(),
            access: FieldAccess::Output,
            description: format!(
                "{}: {}, written.",
                written(output.class, output.element.as_ref()),
                output.class.extent()
            ),
            docs: Vec::new(),
        });
    }
    fields
}

/// A class as users write it.
pub(super) fn written(kind: ClassKind, element: Option<&syn::Type>) -> String {
    match element {
        Some(element) => format!("`{}<{}>`", kind.name(), quote!(#element).to_string().replace(' ', "")),
        None => format!("`{}`", kind.name()),
    }
}

/// The fields of the struct after mistakes: all names that are known.
pub(super) fn fallback_fields(epilogue: &Epilogue, checked: &Checked) -> Vec<Field> {
    let mut fields = fields(epilogue, checked);
    for name in epilogue.results.iter().filter_map(|result| result.0.as_ref()) {
        fields.push(Field {
            name: name.clone(),
            access: FieldAccess::Output,
            description: "An output.".to_owned(),
            docs: Vec::new(),
        });
    }
    let mut seen = std::collections::HashSet::new();
    fields.retain(|field| seen.insert(plain(&field.name)));
    fields
}

/// The classes as types, so that an editor can lead from the user's words to their documentation.
fn classes(epilogue: &Epilogue, library: &Library) -> TokenStream {
    let parameters = epilogue.parameters.iter().filter_map(|parameter| parameter.class.as_ref());
    let results = epilogue.returns.iter().flatten().filter_map(|it| it.class.as_ref());
    let names = epilogue.accum_classes.iter().chain(parameters.chain(results).map(|class| &class.name));
    quote!(let _: ::core::option::Option<(#(#library::language::#names,)*)> = ::core::option::Option::None;)
}

/// The twin's attributes besides the user's lint levels.
fn quiet() -> TokenStream {
    quote!(#[allow(dead_code, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)])
}

/// The body's expansion.
pub(super) struct Body {
    /// The body of `Epilogue::tree`: the constants, the twin, then the builder's calls.
    pub(super) tree: TokenStream,
    /// The twin under the name `element`, in place of a hidden one.
    pub(super) element: Option<TokenStream>,
}

/// `visibility` is that of the twin, if users may call it.
pub(super) fn body(
    name: &Ident,
    visibility: Option<&Visibility>,
    levels: &TokenStream,
    epilogue: &Epilogue,
    checked: &Checked,
    library: &Library,
) -> Option<Body> {
    let constants = twin::constants(&checked.constants);
    let (twin, quiet) = (Twin(library), quiet());
    let classes = classes(epilogue, library);
    let mut emitter = Emitter::new(true, library);
    walk::epilogue(epilogue, checked, &mut emitter)?;
    let element = visibility.filter(|_| emitter.is_elementwise()).map(|visibility| {
        let function = twin.function(&Ident::new("element", name.span()), epilogue, checked);
        quote! {
            /// One element's results, of its accumulators and parameters, computed in f32 on the host: for unit tests.
            #levels
            #quiet
            #visibility #function
        }
    });
    let hidden = element.is_none().then(|| {
        let function = twin.function(name, epilogue, checked);
        quote!(#levels #quiet #function)
    });
    let (builder, name) = (emitter.builder().clone(), plain(name));
    let calls = emitter.into_calls();
    let tree = quote! {
        #constants
        #hidden
        #classes
        let mut #builder = #library::evt::TreeBuilder::new(#name, ::core::file!());
        #calls
        #builder.finish()
    };
    Some(Body { tree, element })
}
