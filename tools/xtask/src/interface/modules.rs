//! A crate's modules, and which of their items users can reach.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::{Item, ItemImpl, UseTree, Visibility, parse_quote};

use super::items::{attributes, inherent, is_hidden, is_test, name, order, shown, subject, visibility};
use crate::workspace::Failure;

/// A path inside the crate, without the crate's name.
type Names = Vec<String>;

pub(super) struct Crate {
    modules: BTreeMap<Names, Vec<Item>>,
}

/// What a name stands for.
enum Named<'a> {
    Module(Names),
    /// An item, and the module that defines it.
    Item(Names, &'a Item),
}

/// What users can reach: by its path, a module's items.
#[derive(Default)]
struct Reached {
    modules: BTreeMap<Names, Vec<Item>>,
    /// The module and the name of every type that is shown, and where.
    types: BTreeMap<(Names, String), Names>,
    /// Modules that have been visited under a path.
    seen: BTreeSet<Names>,
}

impl Crate {
    /// The modules of a crate, from its `lib.rs` on.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut all = Self { modules: BTreeMap::new() };
        all.file(&folder.join("lib.rs"), folder, &mut Vec::new())?;
        Ok(all)
    }

    fn file(&mut self, file: &Path, folder: &Path, path: &mut Names) -> Result<(), Failure> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        self.module(parsed.items, folder, path)
    }

    /// The modules in `folder`, and these items.
    fn module(&mut self, items: Vec<Item>, folder: &Path, path: &mut Names) -> Result<(), Failure> {
        for item in &items {
            let Item::Mod(module) = item else { continue };
            if is_test(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            path.push(name.clone());
            match &module.content {
                Some((_, items)) => self.module(items.clone(), &folder.join(&name), path)?,
                None => {
                    let (own, page) = (folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs"));
                    // One of two modules that conditions choose from may have another file's name.
                    let file = if own.exists() { own } else { page };
                    if file.exists() {
                        self.file(&file, &folder.join(&name), path)?;
                    }
                }
            }
            path.pop();
        }
        let kept = items.into_iter().filter(|item| !is_test(attributes(item)));
        self.modules.entry(path.clone()).or_default().extend(kept);
        Ok(())
    }

    /// Modules that users can name, with what they show.
    pub(super) fn public_modules(&self, name: &str) -> Vec<(String, Vec<Item>)> {
        let mut reached = Reached::default();
        self.reach(&[], &[], &mut reached);
        for (module, items) in &self.modules {
            for item in items {
                let Item::Impl(item) = item else { continue };
                self.methods(module, item, &mut reached);
            }
        }
        let full = |path: Names| std::iter::once(name.to_owned()).chain(path).collect::<Vec<_>>().join("::");
        let sorted = |mut items: Vec<Item>| {
            items.sort_by_cached_key(order);
            items
        };
        let shown = reached.modules.into_iter().filter(|(_, items)| !items.is_empty());
        shown.map(|(path, items)| (full(path), sorted(items))).collect()
    }

    /// Adds what a module shows under a path.
    fn reach(&self, module: &[String], path: &[String], reached: &mut Reached) {
        if !reached.seen.insert(path.to_vec()) {
            return;
        }
        for item in self.modules.get(module).into_iter().flatten() {
            let exported = attributes(item).iter().any(|attribute| attribute.path().is_ident("macro_export"));
            let public = matches!(visibility(item), Some(Visibility::Public(_))) || exported;
            if !public || is_hidden(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    self.reach(&join(module, &name), &join(path, &name), reached);
                }
                Item::Use(item) => self.reach_use(module, path, &item.tree, &mut Vec::new(), reached),
                _ => self.add(module, path, item, reached),
            }
        }
    }

    fn add(&self, module: &[String], path: &[String], item: &Item, reached: &mut Reached) {
        if let (Some(shown), Some(name)) = (shown(item), name(item)) {
            reached.types.entry((module.to_vec(), name)).or_insert_with(|| path.to_vec());
            reached.modules.entry(path.to_vec()).or_default().push(shown);
        }
    }

    /// Adds what `pub use` brings; what is another crate's stays a `use`.
    fn reach_use(&self, module: &[String], path: &[String], tree: &UseTree, at: &mut Names, reached: &mut Reached) {
        match tree {
            UseTree::Path(inner) => {
                at.push(inner.ident.to_string());
                self.reach_use(module, path, &inner.tree, at, reached);
                at.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.reach_use(module, path, tree, at, reached));
            }
            UseTree::Glob(_) => match self.named(module, at, 0) {
                // Its path is another's, so it must not be taken for seen.
                Some(Named::Module(from)) => {
                    reached.seen.remove(path);
                    self.reach(&from, path, reached);
                }
                _ => self.foreign(path, at, "*", None, reached),
            },
            UseTree::Name(last) => self.reach_name(module, path, at, &last.ident.to_string(), None, reached),
            UseTree::Rename(last) => {
                let (name, new) = (last.ident.to_string(), last.rename.to_string());
                self.reach_name(module, path, at, &name, Some(&new), reached);
            }
        }
    }

    fn reach_name(
        &self,
        module: &[String],
        path: &[String],
        at: &Names,
        name: &str,
        new: Option<&str>,
        reached: &mut Reached,
    ) {
        let full = if name == "self" { at.clone() } else { join(at, name) };
        match self.named(module, &full, 0) {
            Some(Named::Module(from)) => {
                let name = new.or(full.last().map(String::as_str)).unwrap_or_default();
                self.reach(&from, &join(path, name), reached);
            }
            Some(Named::Item(from, item)) if new.is_none() => self.add(&from, path, item, reached),
            _ => self.foreign(path, at, name, new, reached),
        }
    }

    fn foreign(&self, path: &[String], at: &Names, name: &str, new: Option<&str>, reached: &mut Reached) {
        let text = match new {
            Some(new) => format!("pub use {}::{name} as {new};", at.join("::")),
            None => format!("pub use {}::{name};", at.join("::")),
        };
        let text = text.replace("use ::", "use ");
        if let Ok(item) = syn::parse_str(&text) {
            reached.modules.entry(path.to_vec()).or_default().push(item);
        }
    }

    /// What a path names in a module.
    fn named(&self, module: &[String], path: &[String], depth: u32) -> Option<Named<'_>> {
        // Circles of names would be an error of the compiler.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (module.to_vec(), rest),
            "super" => (module.split_last()?.1.to_vec(), rest),
            _ => (module.to_vec(), path),
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at.pop();
            } else if self.modules.contains_key(&join(&at, name)) {
                at.push(name.clone());
            } else {
                let items = self.modules.get(&at)?;
                if let Some(item) = items.iter().find(|item| super::items::name(item).as_ref() == Some(name)) {
                    return after.is_empty().then_some(Named::Item(at, item));
                }
                let brought = items.iter().find_map(|item| match item {
                    Item::Use(item) => brought(&item.tree, name, &mut Vec::new()),
                    _ => None,
                });
                let path = [brought?, after.to_vec()].concat();
                return self.named(&at, &path, depth + 1);
            }
            rest = after;
        }
        Some(Named::Module(at))
    }

    /// Adds an `impl`'s public functions where its type is shown, and the traits that types implement.
    fn methods(&self, module: &[String], item: &ItemImpl, reached: &mut Reached) {
        let Some(name) = subject(item) else { return };
        let defined = match self.named(module, std::slice::from_ref(&name), 0) {
            Some(Named::Item(from, _)) => from,
            _ => return,
        };
        let Some(path) = reached.types.get(&(defined, name)).cloned() else { return };
        let items = reached.modules.entry(path).or_default();
        match &item.trait_ {
            None => items.extend(inherent(item).map(Item::Impl)),
            Some((of, _)) => {
                let (generics, subject) = (&item.generics, &item.self_ty);
                let condition = &generics.where_clause;
                items.push(parse_quote!(impl #generics #of for #subject #condition {}));
            }
        }
    }
}

fn join(path: &[String], name: &str) -> Names {
    [path, &[name.to_owned()]].concat()
}

/// The path that a `use` gives this name.
fn brought(tree: &UseTree, name: &str, at: &mut Names) -> Option<Names> {
    match tree {
        UseTree::Path(inner) => {
            at.push(inner.ident.to_string());
            let found = brought(&inner.tree, name, at);
            at.pop();
            found
        }
        UseTree::Group(group) => group.items.iter().find_map(|tree| brought(tree, name, at)),
        UseTree::Name(last) if last.ident == "self" => (at.last().is_some_and(|x| x == name)).then(|| at.clone()),
        UseTree::Name(last) => (last.ident == name).then(|| join(at, name)),
        UseTree::Rename(last) => (last.rename == name).then(|| join(at, &last.ident.to_string())),
        UseTree::Glob(_) => None,
    }
}
