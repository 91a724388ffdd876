//! From a text to visitor trees, as the macros make them.
//!
//! ```text
//! text ──syn──► items by module (items) ──epilogue-syntax──► checked functions ──walk──► TreeBuilder (tree)
//!                                  names (names), constants (constants), operations (operations) ──┘
//! ```
//!
//! rustc's work for the macros is done here: names are looked up in the file and among the library's operations, and
//! constants are computed. No other file is read.

mod constants;
mod element;
mod function;
mod items;
mod mistakes;
mod names;
mod operations;
mod tree;

use epilogue_syntax::depth;
use proc_macro2::TokenStream;

pub(crate) use element::element;
pub use mistakes::{Mistakes, Text};
pub use tree::Epilogue;

/// The longest text, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;

/// The epilogues of a file, in order.
///
/// # Errors
/// Every mistake in the file.
pub fn read(text: &Text) -> Result<Vec<Epilogue>, Mistakes> {
    checked(text)?;
    let file = syn::parse_file(&text.text).map_err(|error| Mistakes::of(text, [error]))?;
    tree::all(text, &items::Items::of(&file))
}

/// The epilogues of a text from the command line: functions, whose attribute may be left out if the first parameter is
/// the accumulator; or the closure that `closure!` takes.
///
/// # Errors
/// Every mistake in it.
pub fn read_expression(text: &Text) -> Result<Vec<Epilogue>, Mistakes> {
    if text.text.trim_start().starts_with('|') {
        checked(text)?;
        return tree::closure(text).map(|epilogue| vec![epilogue]);
    }
    checked(text)?;
    let file = syn::parse_file(&text.text).map_err(|error| {
        let is_function = text.text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "fn");
        if is_function { Mistakes::of(text, [error]) } else { Mistakes::whole(text, NO_EPILOGUE) }
    })?;
    tree::all(text, &items::Items::with_bare_functions(&file))
}

const NO_EPILOGUE: &str = "this is not an epilogue: write a closure, `|accum, bias: RowVector| { let d = relu(accum + bias); d }`, or \
                           a function, `fn layer(accum: Accum) -> Tensor { … }`; a file stands without `-e`";

/// Refuses what no parser should be given: it would descend too deep.
fn checked(text: &Text) -> Result<(), Mistakes> {
    if text.text.len() > LONGEST {
        let message = format!("the text has {} bytes; at most {LONGEST} are read", text.text.len());
        return Err(Mistakes::whole(text, message));
    }
    // Text that is not Rust is refused where it is parsed.
    let tokens = text.text.parse::<TokenStream>().unwrap_or_default();
    depth::check(&tokens).map_err(|error| Mistakes::of(text, [error]))
}
