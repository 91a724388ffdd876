//! The macros of the crate `epilogue`: a thin proc-macro shell over ordinary functions on tokens.
//!
//! ```text
//! tokens ──epilogue-syntax──► checked syntax ──expand──► tokens
//!                  └── every mistake, each at its own token
//! ```
//!
//! This crate knows syntax. It must never know CUDA, and holds no table of functions. rustc says what a function is,
//! how many arguments it takes and of what type: the user's body is expanded a second time as Rust (the twin).

mod expand;
#[cfg(test)]
mod tests;

use epilogue_syntax::report::Errors;
use epilogue_syntax::sight::Files;
use proc_macro2::TokenStream;

use crate::expand::library::Library;

/// Turns a function into an epilogue: a struct with one field for every parameter except the accumulators, and for
/// every returned name.
///
/// `#[epilogue(name = X)]` names the struct; otherwise `row_reduction` becomes `RowReduction`. `#[epilogue(backward)]` adds the
/// struct of the backward pass. `#[epilogue(crate = path)]` says where the library is, if it is renamed or re-exported.
#[proc_macro_attribute]
pub fn epilogue(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_epilogue(arguments.into(), item.into()).into()
}

/// The closure form of an epilogue: `epilogue::closure!(|accum, c: Tensor| { … })`, or
/// `epilogue::closure!(crate = path, |accum, c: Tensor| { … })`.
#[proc_macro]
pub fn closure(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_closure(input.into()).into()
}

/// Turns a function of floats into an operation of the epilogue language.
///
/// `#[elementwise(cuda = "…")]` adds a hand-written CUDA C++ body, which uses the parameters by name and must `return`.
/// `#[elementwise(crate = path)]` says where the library is.
#[proc_macro_attribute]
pub fn elementwise(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_elementwise(arguments.into(), item.into()).into()
}

/// Turns a module with `const IDENTITY`, `fn lift`, `fn combine` and `fn finish` into a reduction of the epilogue
/// language. `reduction_op(x, Row, name_of_the_module)` asks for it. `#[reducer(crate = path)]` says where the library is.
#[proc_macro_attribute]
pub fn reducer(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_reducer(arguments.into(), item.into()).into()
}

fn expand_reducer(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let module = epilogue_syntax::reducer(arguments, item, &Files::default, &mut errors);
    let expansion = module.map(|module| expand::reducer::expand(&module));
    let mut tokens = errors.into_tokens();
    tokens.extend(expansion);
    tokens
}

fn expand_epilogue(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(function) = epilogue_syntax::epilogue(arguments, item, Files::default(), &mut errors) else {
        return errors.into_tokens();
    };
    let expansion = expand::epilogue::expand(&function, !errors.is_empty());
    let mut tokens = errors.into_tokens();
    if !function.header.receiver {
        tokens.extend(expansion);
    }
    tokens
}

fn expand_closure(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(closure) = epilogue_syntax::closure(input, Files::default(), &mut errors) else {
        return errors.into_tokens();
    };
    expand::closure::expand(&closure, &errors.into_tokens())
}

fn expand_elementwise(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(function) = epilogue_syntax::elementwise(arguments, item, Files::default(), &mut errors) else {
        return errors.into_tokens();
    };
    if errors.is_empty() {
        return expand::elementwise::expand(&function);
    }
    let mut tokens = errors.into_tokens();
    let library = Library::new(function.library.as_ref());
    tokens.extend(expand::elementwise::fallback(&function.item, &function.header, &library));
    tokens
}
