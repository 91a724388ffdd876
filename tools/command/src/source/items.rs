//! The items of a file that matter: functions under the library's attributes, constants, imports, each with its module.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, FnArg, Item, ItemConst, ItemFn, ItemMod, Meta, Stmt, Type, UseTree};

/// Names of modules from the file's root on.
pub(super) type Path = Vec<String>;

/// A function under an attribute.
pub(super) struct Function {
    pub(super) module: Path,
    /// The arguments between the attribute's parentheses.
    pub(super) arguments: TokenStream,
    /// The function without that attribute.
    pub(super) item: ItemFn,
}

/// A module under `#[reducer]`.
pub(super) struct OwnReducer {
    /// The arguments between the attribute's parentheses.
    pub(super) arguments: TokenStream,
    /// The module without that attribute.
    pub(super) item: ItemMod,
}

/// The imports of a module.
#[derive(Default)]
pub(super) struct Imports {
    /// A name, and the path that it stands for.
    pub(super) names: Vec<(String, Path)>,
    /// Paths whose items are imported.
    pub(super) globs: Vec<Path>,
}

/// The items of a file.
#[derive(Default)]
pub(super) struct Items {
    pub(super) epilogues: Vec<Function>,
    pub(super) operations: BTreeMap<Path, Function>,
    pub(super) reducers: BTreeMap<Path, OwnReducer>,
    pub(super) constants: BTreeMap<Path, ItemConst>,
    /// The values of constants that have been computed.
    pub(super) computed: RefCell<BTreeMap<Path, f32>>,
    pub(super) imports: BTreeMap<Path, Imports>,
    /// Names that a module defines twice.
    pub(super) repeated: Vec<syn::Error>,
    /// Whether a function whose first parameter is the accumulator needs no attribute.
    bare: bool,
}

impl Items {
    pub(super) fn of(file: &syn::File) -> Self {
        let mut items = Self::default();
        file.items.iter().for_each(|item| items.item(item, &mut Vec::new()));
        items
    }

    /// The items of a file in which functions of an accumulator need no attribute.
    pub(super) fn with_bare_functions(file: &syn::File) -> Self {
        let mut items = Self { bare: true, ..Self::default() };
        file.items.iter().for_each(|item| items.item(item, &mut Vec::new()));
        items
    }

    fn item(&mut self, item: &Item, module: &mut Path) {
        match item {
            Item::Fn(function) => self.function(function, module),
            Item::Const(constant) => {
                let mut path = module.clone();
                path.push(constant.ident.to_string());
                if self.constants.insert(path, constant.clone()).is_some() {
                    self.repeated.push(twice(&constant.ident));
                }
            }
            Item::Use(import) => self.import(&import.tree, &mut Vec::new(), module),
            Item::Mod(inner) => {
                module.push(inner.ident.to_string());
                self.reducer(inner, module);
                inner.content.iter().flat_map(|(_, items)| items).for_each(|item| self.item(item, module));
                module.pop();
            }
            _ => {}
        }
    }

    /// Takes a module under `#[reducer]`, whose path is given.
    fn reducer(&mut self, item: &ItemMod, path: &Path) {
        let Some(i) = item.attrs.iter().position(|attribute| is_named(attribute, "reducer")) else { return };
        let mut item = item.clone();
        let arguments = between(item.attrs.remove(i).meta);
        let name = item.ident.clone();
        if self.reducers.insert(path.clone(), OwnReducer { arguments, item }).is_some() {
            self.repeated.push(twice(&name));
        }
    }

    fn function(&mut self, function: &ItemFn, module: &mut Path) {
        let place = |name: &str| function.attrs.iter().position(|attribute| is_named(attribute, name));
        if let Some(i) = place("epilogue") {
            self.epilogues.push(taken(function, Some(i), module));
        } else if let Some(i) = place("elementwise") {
            let mut path = module.clone();
            path.push(function.sig.ident.to_string());
            if self.operations.insert(path, taken(function, Some(i), module)).is_some() {
                self.repeated.push(twice(&function.sig.ident));
            }
        } else if self.bare && takes_accumulator(function) {
            self.epilogues.push(taken(function, None, module));
        } else {
            // An item inside a function is taken for its module's.
            for statement in &function.block.stmts {
                if let Stmt::Item(item) = statement {
                    self.item(item, module);
                }
            }
        }
    }

    fn import(&mut self, tree: &UseTree, path: &mut Path, module: &Path) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path, module);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, path, module)),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some((last, path)) = path.split_last() {
                    self.bring(last.clone(), last.clone(), path, module);
                }
            }
            UseTree::Name(name) => self.bring(name.ident.to_string(), name.ident.to_string(), path, module),
            UseTree::Rename(rename) if rename.ident == "self" => {
                if let Some((last, path)) = path.split_last() {
                    self.bring(rename.rename.to_string(), last.clone(), path, module);
                }
            }
            UseTree::Rename(rename) => self.bring(rename.rename.to_string(), rename.ident.to_string(), path, module),
            UseTree::Glob(_) => self.imports.entry(module.clone()).or_default().globs.push(path.clone()),
        }
    }

    fn bring(&mut self, name: String, last: String, path: &[String], module: &Path) {
        let mut path = path.to_vec();
        path.push(last);
        self.imports.entry(module.clone()).or_default().names.push((name, path));
    }
}

fn is_named(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == name)
}

/// The arguments between an attribute's parentheses.
fn between(attribute: Meta) -> TokenStream {
    match attribute {
        Meta::List(list) => list.tokens,
        Meta::NameValue(pair) => pair.to_token_stream(),
        Meta::Path(_) => TokenStream::new(),
    }
}

fn twice(name: &syn::Ident) -> syn::Error {
    syn::Error::new(
        name.span(),
        format_args!("there are two items of the name `{name}` in this module, and `cfg` is not evaluated: remove one"),
    )
}

fn taken(function: &ItemFn, attribute: Option<usize>, module: &Path) -> Function {
    let mut item = function.clone();
    let arguments = attribute.map_or_else(TokenStream::new, |i| between(item.attrs.remove(i).meta));
    Function { module: module.clone(), arguments, item }
}

fn takes_accumulator(function: &ItemFn) -> bool {
    let Some(FnArg::Typed(first)) = function.sig.inputs.first() else { return false };
    matches!(&*first.ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Accum"))
}
