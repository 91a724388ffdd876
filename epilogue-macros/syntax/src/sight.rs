//! Facts from the file with a call about the name of the called function.
//!
//! rustc decides which function a name means: it knows imports, modules and blocks, which a macro doesn't. But for a
//! name without any meaning, rustc can only say that there is no crate of that name. Users need to know which
//! operations there are, and that a function of their own needs `#[elementwise]`. Rust has no way to give a name a
//! meaning only if it has no other: `#[diagnostic::on_unimplemented]` needs a name that has one, and an import next to
//! the call hides the names of the user's own blocks and modules.
//!
//! So the macro reads the tokens of the file. If nothing in it can give the name a meaning, the message is the macro's.
//! In doubtful cases rustc decides: if there is an import of the name, a glob import from outside the file, or a macro
//! that is given the name. The meaning of a program never depends on this, only who refuses it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::{ItemUse, UseTree};

use crate::depth;

/// The possible meaning of a called name, by what its file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Nothing in the file can give the name a meaning.
    Nothing,
    /// The name can only be an ordinary function's.
    Function,
    /// The name may be an operation's.
    Open,
}

/// The names of functions and modules in a file.
#[derive(Debug)]
pub struct File {
    /// The functions under `#[elementwise]`.
    pub operations: Vec<String>,
    /// The modules under `#[reducer]`.
    pub reducers: Vec<String>,
    /// The functions without attributes that could change what they are.
    functions: Vec<String>,
    /// Names that may get a meaning from imports, other attributes or macros.
    mentioned: Vec<String>,
    /// Whether the library's operations are imported by a glob.
    library: bool,
    /// The modules whose bodies are in the file.
    modules: Vec<String>,
    /// The other paths that are imported by a glob, from their first part inside the file on; `None` if that is
    /// outside.
    globs: Vec<Option<Vec<String>>>,
}

/// The files that a body's tokens are from, each read once.
#[derive(Default)]
pub struct Files {
    read: HashMap<PathBuf, Option<File>>,
    given: Option<File>,
}

impl Files {
    /// All tokens stand in this one, whatever their spans say.
    #[must_use]
    pub fn given(file: File) -> Self {
        Self { given: Some(file), ..Self::default() }
    }

    /// The file that a token is from; `None` if there is none, as in an editor's preview.
    pub(crate) fn of(&mut self, token: &Ident) -> Option<&File> {
        if self.given.is_some() {
            return self.given.as_ref();
        }
        let path = token.span().local_file()?;
        let read = |path: &PathBuf| File::read(&std::fs::read_to_string(path).ok()?);
        self.read.entry(path).or_insert_with_key(read).as_ref()
    }
}

impl File {
    /// Reads the text of a file; `None` if that is not tokens of Rust.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut file = Self {
            operations: Vec::new(),
            reducers: Vec::new(),
            functions: Vec::new(),
            mentioned: Vec::new(),
            library: false,
            modules: Vec::new(),
            globs: Vec::new(),
        };
        file.items(&trees(TokenStream::from_str(text).ok()?), 0);
        Some(file)
    }

    /// The possible meaning of a name. `library` says whether the library has an operation of that name.
    #[must_use]
    pub fn sight(&self, name: &str, library: bool) -> Sight {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        let inside = |glob: &Option<Vec<String>>| {
            glob.as_ref().is_some_and(|path| path.iter().all(|part| self.modules.contains(part)))
        };
        if !self.globs.iter().all(inside) || has(&self.operations) || has(&self.mentioned) || (library && self.library)
        {
            Sight::Open
        } else if has(&self.functions) {
            Sight::Function
        } else {
            Sight::Nothing
        }
    }

    /// Reads items and statements; `depth` counts the modules around them in the file.
    fn items(&mut self, trees: &[TokenTree], depth: usize) {
        let mut i = 0;
        while i < trees.len() {
            match (&trees[i], trees.get(i + 1), trees.get(i + 2)) {
                (TokenTree::Ident(word), ..) if word == "use" => {
                    let end = trees[i..].iter().position(|tree| is_punct(tree, ';')).map_or(trees.len(), |n| i + n + 1);
                    self.import(&trees[i..end], depth);
                    i = end;
                    continue;
                }
                (TokenTree::Ident(word), Some(TokenTree::Ident(name)), Some(TokenTree::Group(body)))
                    if word == "mod" =>
                {
                    self.modules.push(name.to_string());
                    let is_reducer = |attribute: &TokenStream| names(attribute).any(|name| name == "reducer");
                    if attributes(&trees[..i]).iter().any(is_reducer) {
                        self.reducers.push(name.to_string());
                    }
                    self.items(&self::trees(body.stream()), depth + 1);
                    i += 3;
                    continue;
                }
                (TokenTree::Ident(word), Some(TokenTree::Ident(name)), _) if word == "fn" => {
                    self.function(name, &trees[..i]);
                    i += 2;
                    continue;
                }
                // `name!(…)` and `macro_rules! name { … }`
                (TokenTree::Punct(bang), Some(next), after) if bang.as_char() == '!' => {
                    let is_attribute = i > 0 && is_punct(&trees[i - 1], '#');
                    match (next, after) {
                        (TokenTree::Group(body), _) if !is_attribute => self.mention(body, false),
                        (TokenTree::Ident(_), Some(TokenTree::Group(body))) => self.mention(body, true),
                        _ => {}
                    }
                }
                (TokenTree::Group(group), ..) => self.items(&self::trees(group.stream()), depth),
                _ => {}
            }
            i += 1;
        }
    }

    fn function(&mut self, name: &Ident, before: &[TokenTree]) {
        let attributes = attributes(before);
        let has = |word: &str| attributes.iter().any(|attribute| names(attribute).any(|name| name == word));
        let list = if has("elementwise") {
            &mut self.operations
        } else if attributes.iter().all(|attribute| names(attribute).next().is_some_and(|first| is_plain(&first))) {
            &mut self.functions
        } else {
            &mut self.mentioned
        };
        list.push(name.to_string());
    }

    /// Notes the names in a macro's input, which may get a meaning there. Names that are only called are left out,
    /// unless `expanded`: then the tokens are the body of a `macro_rules!` macro, and the call is made elsewhere.
    fn mention(&mut self, body: &Group, expanded: bool) {
        let trees = trees(body.stream());
        for (i, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Ident(name) => {
                    let called = is_group(trees.get(i + 1), Delimiter::Parenthesis);
                    let defined = i > 0 && matches!(&trees[i - 1], TokenTree::Ident(word) if word == "fn");
                    if expanded || defined || !called {
                        self.mentioned.push(name.to_string());
                    }
                }
                TokenTree::Group(group) => self.mention(group, expanded),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn import(&mut self, trees: &[TokenTree], depth: usize) {
        let tokens: TokenStream = trees.iter().cloned().collect();
        match depth::check(&tokens).and_then(|()| syn::parse2::<ItemUse>(tokens)) {
            Ok(item) => self.import_tree(&item.tree, &mut Vec::new(), depth),
            Err(_) => self.globs.push(None),
        }
    }

    fn import_tree(&mut self, tree: &UseTree, path: &mut Vec<String>, depth: usize) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import_tree(&part.tree, path, depth);
                path.pop();
            }
            UseTree::Name(name) => self.mentioned.push(name.ident.to_string()),
            UseTree::Rename(rename) => self.mentioned.push(rename.rename.to_string()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import_tree(tree, path, depth)),
            UseTree::Glob(_) => match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["epilogue", "prelude" | "ops"] => self.library = true,
                ["std" | "core" | "alloc", ..] => {}
                _ => {
                    let up = path.iter().take_while(|part| *part == "super").count();
                    self.globs.push((up <= depth).then(|| path[up..].to_vec()));
                }
            },
        }
    }
}

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_group(tree: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(tree, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// The attributes of the function whose `fn` comes next. They are before its visibility and other words.
fn attributes(before: &[TokenTree]) -> Vec<TokenStream> {
    let mut attributes = Vec::new();
    let mut i = before.len();
    while i > 0 {
        i -= 1;
        match &before[i] {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && i > 0 => {
                attributes.push(group.stream());
                i -= 1;
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
            // `(crate)` of a visibility
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {}
            _ => break,
        }
    }
    attributes
}

/// Every word of an attribute.
fn names(attribute: &TokenStream) -> impl Iterator<Item = String> {
    attribute.clone().into_iter().filter_map(|tree| match tree {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    })
}

/// Whether an attribute leaves a function what it is.
fn is_plain(attribute: &str) -> bool {
    ["doc", "allow", "expect", "warn", "deny", "inline", "must_use", "deprecated", "cfg", "test"].contains(&attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn sees(text: &str, expected: Sight) {
        let text =
            format!("use epilogue::{{prelude::*, Device}};\n{text}\nfn user(x: f32) {{ let d = mish(x).mish(); }}");
        assert_eq!(File::read(&text).expect("tokens").sight("mish", false), expected, "{text}");
    }

    #[test]
    fn what_can_give_a_name_a_meaning_leaves_it_to_rustc() {
        for text in [
            "#[elementwise] fn mish(x: f32) -> f32 { x }",
            "#[elementwise(cuda = \"return x;\")] #[must_use] pub fn mish(x: f32) -> f32 { x }",
            "#[cfg_attr(all(), elementwise)] fn mish(x: f32) -> f32 { x }",
            "#[renamed_attribute] fn mish(x: f32) -> f32 { x }",
            "mod mine { #[elementwise] fn mish(x: f32) -> f32 { x } }",
            "fn main() { #[elementwise] fn mish(x: f32) -> f32 { x } }",
            "use mine::mish;",
            "use mine::{activations::{squared as mish}};",
            "use mine::*;",
            "use super::*;",
            "mod mine { pub use super::super::*; } use mine::*;",
            "mod mine { pub use other::*; } use mine::*;",
            "mod tests { use super::super::*; }",
            "fn main() { use mine::operations::*; }",
            "operations! { mish, softsign }",
            "operation!(fn mish(x) = x);",
            "macro_rules! operations { () => { #[elementwise] fn mish(x: f32) -> f32 { x } } }",
            "macro_rules! epilogues { () => { fn f(accum: Accum) -> Tensor { let d = mish(accum); d } } }",
        ] {
            sees(text, Sight::Open);
        }
    }

    #[test]
    fn nothing_and_ordinary_functions_are_seen() {
        for text in [
            "",
            "use std::f32::consts::*; use other::mish as other;",
            "mod tests { use super::*; }",
            "mod mine { pub mod own {} } use mine::own::*; mod tests { use super::mine::*; }",
            "struct S { mish: f32 } fn other() { let mish = 1.0; }",
            "let value = closure!(|accum| { let d = mish(accum); d });",
            "#![allow(dead_code)] #[epilogue] fn f(accum: Accum) -> Tensor { let d = mish(accum); d }",
        ] {
            sees(text, Sight::Nothing);
        }
        for text in [
            "fn mish(x: f32) -> f32 { x }",
            "/// Documented.\n#[inline] pub fn mish(x: f32) -> f32 { x }",
            "#[epilogue] fn f(accum: Accum) -> Tensor { accum } const fn mish(x: f32) -> f32 { x }",
        ] {
            sees(text, Sight::Function);
        }
    }

    #[test]
    fn the_library_s_own_need_their_import() {
        let file = |text| File::read(text).expect("tokens");
        assert_eq!(file("use epilogue::prelude::*;").sight("tanh", true), Sight::Open);
        assert_eq!(file("use epilogue::prelude::epilogue;").sight("tanh", true), Sight::Nothing);
        assert_eq!(file("use epilogue::prelude::{epilogue, tanh};").sight("tanh", true), Sight::Open);
    }
}
