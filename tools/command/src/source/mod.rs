//! From a text to visitor trees, as the macros make them.
//!
//! ```text
//! text ──syn──► items by module (items) ──epilogue-syntax──► checked functions ──walk──► TreeBuilder (tree)
//!                                  names (names), constants (constants), operations (operations) ──┘
//! ```
//!
//! What rustc does for the macros is done here: names are looked up in the file and among the library's operations, and
//! constants are computed. No other file is read.

mod constants;
mod element;
mod function;
mod items;
mod mistakes;
mod names;
mod operations;
mod tree;

pub(crate) use element::element;
pub use mistakes::{Mistakes, Text};
pub use tree::Epilogue;

/// The longest text, in bytes.
const LONGEST: usize = 1 << 20;

/// Brackets within each other.
const DEEPEST: usize = 200;

/// Tokens between two ends of statements or arguments: an expression nests as deep as it is long.
const LONGEST_STATEMENT: usize = 4096;

/// The epilogues of a file, in order.
///
/// # Errors
/// Every mistake in the file.
pub fn read(text: &Text) -> Result<Vec<Epilogue>, Mistakes> {
    checked(text)?;
    let file = syn::parse_file(&text.text).map_err(|error| Mistakes::of(text, [error]))?;
    tree::all(text, &items::Items::of(&file))
}

/// The epilogues of a text from the command line: functions, whose attribute may be left out where the first parameter is
/// the accumulator; or the closure that `epilogue!` takes.
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

const NO_EPILOGUE: &str = "this is no epilogue: write a closure, `|accum, bias: RowVector| { let d = relu(accum + bias); d }`, or \
                           a function, `fn layer(accum: Accum) -> Tensor { … }`; a file stands without `-e`";

/// Refuses what no parser should be given: it would descend too deep.
fn checked(text: &Text) -> Result<(), Mistakes> {
    if text.text.len() > LONGEST {
        let message = format!("the text has {} bytes; at most {LONGEST} are read", text.text.len());
        return Err(Mistakes::whole(text, message));
    }
    let (mut depth, mut tokens, mut in_word) = (0_usize, 0_usize, false);
    for (number, line) in text.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for character in code.chars() {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_word = character.is_alphanumeric() || character == '_';
            match character {
                ';' | ',' | '{' | '}' => tokens = 0,
                _ if !(character.is_whitespace() || is_word && in_word) => tokens += 1,
                _ => {}
            }
            in_word = is_word;
            if depth > DEEPEST || tokens > LONGEST_STATEMENT {
                let message = format!(
                    "this is too long to be read: brackets nest at most {DEEPEST} deep, and a statement has at most \
                     {LONGEST_STATEMENT} tokens; bind its parts with `let`"
                );
                return Err(Mistakes::at(text, u32::try_from(number + 1).unwrap_or(0), 1, message));
            }
        }
        in_word = false;
    }
    Ok(())
}
