//! Collects from the sources every message of a refusal that a user of the library may read. So they can be read in a
//! row. A test compares them with a snapshot, so that no message is added or changed unread.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, ExprCall, ExprMacro, FieldValue, ItemMod, Lit, LitStr, Macro, Member};

use crate::workspace::{Failure, root};

/// The crates whose errors users see. (`tests/ui` tests the macros' messages.)
const CRATES: [&str; 3] = ["src", "runtime/src", "runtime/ptx-vm/src"];
/// Fields of errors that contain a part of a message.
const PARTS: [&str; 5] = ["reason", "advice", "needed", "allowed", "broken"];
/// Functions that make errors from a text.
const MAKERS: [&str; 6] = ["refuse", "refused", "mistake", "unexpected", "absent", "wrong"];

/// The messages by file.
pub(crate) fn all() -> Result<String, Failure> {
    let mut files = Vec::new();
    for folder in CRATES {
        sources(&root().join(folder), &mut files)?;
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        let mut messages = Messages::default();
        messages.visit_file(&syn::parse_file(&fs::read_to_string(&file)?)?);
        if !messages.0.is_empty() {
            let _ = writeln!(text, "{}", file.strip_prefix(root())?.display());
            messages.0.iter().for_each(|message| {
                let _ = writeln!(text, "  {}", message.replace('\n', "\\n"));
            });
        }
    }
    Ok(text)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The messages in a file, in order.
#[derive(Default)]
struct Messages(Vec<String>);

impl Visit<'_> for Messages {
    fn visit_attribute(&mut self, attribute: &Attribute) {
        if attribute.path().is_ident("error")
            && let Ok(list) = attribute.meta.require_list()
        {
            self.literals(list.tokens.clone());
        }
    }

    fn visit_field_value(&mut self, field: &FieldValue) {
        match &field.member {
            Member::Named(name) if PARTS.iter().any(|part| name == part) => Texts(self).visit_expr(&field.expr),
            _ => visit::visit_field_value(self, field),
        }
    }

    fn visit_expr_call(&mut self, call: &ExprCall) {
        let name = match &*call.func {
            syn::Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        match name {
            Some(name) if MAKERS.contains(&name.as_str()) => {
                call.args.iter().for_each(|argument| Texts(self).visit_expr(argument));
            }
            _ => visit::visit_expr_call(self, call),
        }
    }

    fn visit_item_mod(&mut self, module: &ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }
}

impl Messages {
    /// A separator ("; ") is not a message.
    fn add(&mut self, text: String) {
        if text.split_whitespace().count() > 1 {
            self.0.push(text);
        }
    }

    /// The strings among tokens: the text of `format!`, and strings that are inserted in it.
    fn literals(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.literals(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.add(text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

/// All strings in an expression are parts of a message.
struct Texts<'m>(&'m mut Messages);

impl Visit<'_> for Texts<'_> {
    fn visit_lit(&mut self, literal: &Lit) {
        if let Lit::Str(text) = literal {
            self.0.add(text.value());
        }
    }

    fn visit_expr_macro(&mut self, call: &ExprMacro) {
        self.visit_macro(&call.mac);
    }

    fn visit_macro(&mut self, call: &Macro) {
        if call.path.is_ident("format") {
            self.0.literals(call.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect_file;
    use syn::{Attribute, Item, Meta, Type};

    /// The public errors of a file, those that derive `Debug`, and those that `message::debug!` is called for.
    #[derive(Default)]
    struct Errors {
        all: Vec<String>,
        derived: Vec<String>,
        by_message: Vec<String>,
    }

    impl Errors {
        fn of(items: &[Item]) -> Self {
            let mut errors = Self::default();
            items.iter().for_each(|item| errors.item(item));
            errors
        }

        fn item(&mut self, item: &Item) {
            match item {
                Item::Enum(item) => self.named(&item.ident, &item.vis, &item.attrs),
                Item::Struct(item) => self.named(&item.ident, &item.vis, &item.attrs),
                Item::Impl(item) => {
                    let of = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
                    if of.is_some_and(|of| of.ident == "Error")
                        && let Type::Path(error) = &*item.self_ty
                    {
                        self.all.extend(error.path.segments.last().map(|last| last.ident.to_string()));
                    }
                }
                Item::Macro(call) if call.mac.path.segments.last().is_some_and(|last| last.ident == "debug") => {
                    self.by_message.extend(call.mac.tokens.to_string().split(',').map(|name| name.trim().to_owned()));
                }
                _ => {}
            }
        }

        fn named(&mut self, name: &syn::Ident, visibility: &syn::Visibility, attributes: &[Attribute]) {
            let derives = |what: &str| {
                let derived = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
                let mut words = derived.flat_map(|attribute| {
                    let words = match &attribute.meta {
                        Meta::List(list) => list.tokens.to_string(),
                        Meta::Path(_) | Meta::NameValue(_) => String::new(),
                    };
                    words.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>()
                });
                words.any(|word| word == what)
            };
            if derives("Debug") {
                self.derived.push(name.to_string());
            }
            if derives("Error") && matches!(visibility, syn::Visibility::Public(_)) {
                self.all.push(name.to_string());
            }
        }
    }

    /// A program that ends with an error in `main` prints its `Debug`.
    #[test]
    fn every_public_error_prints_its_message_for_debug() {
        let mut files = Vec::new();
        for folder in super::CRATES {
            super::sources(&super::root().join(folder), &mut files).expect("the sources can be read");
        }
        let mut count = 0;
        for path in files {
            let file = syn::parse_file(&fs::read_to_string(&path).expect("a file")).expect("Rust");
            let Errors { all, derived, by_message } = Errors::of(&file.items);
            count += all.len();
            for error in all {
                assert!(
                    by_message.contains(&error) && !derived.contains(&error),
                    "{}: call `message::debug!` for `{error}` in place of deriving `Debug`",
                    path.display()
                );
            }
        }
        assert!(count > 35, "they are found: {count}");
    }

    /// `UPDATE_EXPECT=1 cargo test --workspace --bin xtask messages` renews the list; read what it changes.
    #[test]
    fn no_message_comes_unread() {
        let all = super::all().expect("the sources can be read");
        assert!(all.lines().count() > 300, "they are found");
        expect_file!["../../../tests/golden/messages.txt"].assert_eq(&all);
    }
}
