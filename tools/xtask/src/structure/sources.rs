//! A Rust source file: the items that it defines, the names that it imports, and the paths that it uses.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, ItemMod, Macro, Token, UseTree};

/// A path as written: `crate`, `super` and `self` included.
pub(super) type Names = Vec<String>;

/// The names and modules of one file.
#[derive(Default)]
pub(super) struct Source {
    /// `use a::b as c`: `c` and `a::b`.
    pub(super) brought: Vec<(String, Names)>,
    /// `use a::b::*`: `a::b`.
    pub(super) globs: Vec<Names>,
    /// Paths of two or more names, and the targets of `use`.
    pub(super) named: Vec<Names>,
    /// The number of inline modules around the visitor.
    inside: usize,
    /// `mod name;` under `#[cfg(test)]`: files that are not part of the library.
    pub(super) tests: Vec<String>,
}

impl Source {
    pub(super) fn parse(text: &str) -> syn::Result<Self> {
        let mut source = Self::default();
        source.visit_file(&syn::parse_file(text)?);
        Ok(source)
    }

    fn bring(&mut self, tree: &UseTree, mut path: Names) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.bring(&inner.tree, path);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.bring(tree, path.clone())),
            UseTree::Glob(_) if self.inside == 0 => self.globs.push(path),
            UseTree::Glob(_) => {}
            UseTree::Name(name) if name.ident == "self" => self.take(path.last().cloned(), path),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.take(Some(name.ident.to_string()), path);
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.take(Some(rename.rename.to_string()), path);
            }
        }
    }

    fn take(&mut self, name: Option<String>, path: Names) {
        self.name(path.clone());
        if self.inside == 0 {
            self.brought.extend(name.map(|name| (name, path)));
        }
    }

    /// Adds a path, relative to the file's own module.
    fn name(&mut self, mut path: Names) {
        for _ in 0..self.inside {
            match path.first().map(String::as_str) {
                Some("super") if path.get(1).is_some_and(|next| next == "super") => drop(path.remove(0)),
                Some("super") => path[0] = "self".to_owned(),
                _ => break,
            }
        }
        self.named.push(path);
    }
}

/// Whether an item exists only in test builds.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Mod(ItemMod { ident, content: None, attrs, .. }) = item
            && is_test(attrs)
        {
            self.tests.push(ident.to_string());
        }
        if !is_test(attributes(item)) {
            let is_inline = matches!(item, Item::Mod(ItemMod { content: Some(_), .. }));
            self.inside += usize::from(is_inline);
            visit::visit_item(self, item);
            self.inside -= usize::from(is_inline);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.bring(&item.tree, Names::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.name(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    /// The arguments of `format!`, `assert!`, `vec![x; n]` and the like are expressions, too.
    fn visit_macro(&mut self, invoked: &'ast Macro) {
        self.visit_path(&invoked.path);
        let listed = invoked.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok();
        let repeated = || invoked.parse_body_with(Punctuated::<Expr, Token![;]>::parse_terminated).ok();
        let arguments: Vec<Expr> = match listed {
            Some(arguments) => arguments.into_iter().collect(),
            None => repeated().into_iter().flatten().collect(),
        };
        arguments.iter().for_each(|argument| self.visit_expr(argument));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_and_tests_left_out() {
        let source = Source::parse(
            "use super::a::{self, b as c, d::*};
             fn f() { vec![crate::x::y(); 3]; let _ = format!(\"{}\", a::Z); }
             #[cfg(test)] mod tests { use crate::never; }
             #[cfg(test)] mod apart;
             mod inside { pub use crate::q::r; fn g() { super::t::u(); } }",
        )
        .expect("it parses");
        let joined = |paths: &[Names]| paths.iter().map(|path| path.join("::")).collect::<Vec<_>>().join(" ");
        assert_eq!(joined(&source.named), "super::a super::a::b crate::x::y a::Z crate::q::r self::t::u");
        assert_eq!(joined(&source.globs), "super::a::d");
        assert_eq!(source.brought[1], ("c".to_owned(), vec!["super".into(), "a".into(), "b".into()]));
        assert_eq!(source.tests, ["apart"]);
    }
}
