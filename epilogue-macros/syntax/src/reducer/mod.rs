//! A module under `#[reducer]`: its parts, and each of its functions as one elementwise function for every number of the
//! running result.
//!
//! ```text
//! fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) { (a.0 + b.0, a.1.max(b.1)) }
//!     ──►  combine(a_0, a_1, b_0, b_1) = a_0 + b_0        and  combine(a_0, a_1, b_0, b_1) = a_1.max(b_1)
//! ```
//!
//! So the language of these functions is that of `#[elementwise]`, and all behind knows functions of numbers only.

mod words;

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Expr, ExprPath, FnArg, Item, ItemConst, ItemFn, ItemMod, MetaNameValue, PatType, Path, ReturnType, Type,
    Visibility,
};

use crate::ast::Elementwise;
use crate::report::Errors;
use crate::sight::Files;
use crate::{attribute, check, parse};
use words::Words;

/// The most numbers of a running result, as `epilogue::evt::MAX_WORDS` says.
const MOST: usize = 4;

/// The items that the module must have.
const PARTS: &str = "a reducer has `const IDENTITY`, `fn lift`, `fn combine` and `fn finish`";

/// A module under `#[reducer]`.
pub struct ReducerModule {
    /// Its documentation, conditions and lint levels.
    pub attributes: Vec<Attribute>,
    /// Its visibility.
    pub visibility: Visibility,
    /// Its name, which is the reducer's.
    pub name: Ident,
    /// Its other items.
    pub items: Vec<Item>,
    /// The parts; `None` after a mistake.
    pub parts: Option<Parts>,
    /// The library's path, if it isn't `::epilogue`.
    pub library: Option<Path>,
}

/// The parts of a reducer.
pub struct Parts {
    /// The running result of no elements, as it was written.
    pub identity: ItemConst,
    /// Its numbers.
    pub numbers: Vec<Expr>,
    /// From an element to a running result.
    pub lift: OwnFunction,
    /// From two running results to one.
    pub combine: OwnFunction,
    /// From a running result to what is given.
    pub finish: OwnFunction,
}

/// One of the module's functions.
pub struct OwnFunction {
    /// The function, as it was written.
    pub item: ItemFn,
    /// For every number that it gives, the function of numbers.
    pub words: Vec<Word>,
}

/// The function of one number.
pub struct Word {
    /// The parameters and the body.
    pub function: Elementwise,
    /// The constants that the body names.
    pub constants: Vec<ExprPath>,
}

/// Reads what stands under `#[reducer(arguments)]`; `None` if it is not a module. All mistakes are in `errors`.
pub(crate) fn module(
    arguments: TokenStream,
    item: TokenStream,
    files: &dyn Fn() -> Files,
    errors: &mut Errors,
) -> Option<ReducerModule> {
    let library = library(arguments, errors);
    let place = format_args!("`#[reducer]` stands on a module: `#[reducer] mod norm {{ … }}`; {PARTS}");
    let module: ItemMod = attribute::item(item, place, errors)?;
    let Some((_, content)) = &module.content else {
        errors.at(module.ident.span(), "a reducer's module has its body here: `#[reducer] mod norm { … }`");
        return None;
    };
    let mut found = Found::default();
    for item in content {
        found.take(item, errors);
    }
    let before = errors.len();
    let parts = found.parts(&module.ident, files, errors);
    let parts = parts.filter(|_| errors.len() == before);
    Some(ReducerModule {
        attributes: module.attrs,
        visibility: module.vis,
        name: module.ident,
        items: found.items,
        parts,
        library,
    })
}

/// The only argument.
fn library(arguments: TokenStream, errors: &mut Errors) -> Option<Path> {
    const ONLY: &str = "the only argument is `crate = path`";
    if arguments.to_string() == "ordered" {
        errors.on(
            arguments,
            "an epilogue's elements are combined in the order of the tensor core's registers: make `combine` commutative, or \
             reduce with `te`",
        );
        return None;
    }
    let mut library = None;
    for argument in attribute::list::<MetaNameValue>(arguments, ONLY, errors) {
        if argument.path.is_ident("crate") {
            attribute::library(&argument, &mut library, errors);
        } else {
            errors.on(&argument.path, ONLY);
        }
    }
    library
}

/// The items of a module, by what they are.
#[derive(Default)]
struct Found {
    identity: Option<ItemConst>,
    functions: Vec<ItemFn>,
    items: Vec<Item>,
}

impl Found {
    fn take(&mut self, item: &Item, errors: &mut Errors) {
        match item {
            Item::Const(constant) if constant.ident == "IDENTITY" => self.identity = Some(constant.clone()),
            Item::Fn(function) if ["lift", "combine", "finish"].iter().any(|name| function.sig.ident == name) => {
                self.functions.push(function.clone());
            }
            Item::Fn(function) if function.attrs.is_empty() => errors.at(
                function.sig.ident.span(),
                format_args!(
                    "{PARTS}; a function that these call stands under `#[elementwise]`, outside of the module or in it"
                ),
            ),
            other => self.items.push(other.clone()),
        }
    }

    fn function(&self, name: &str) -> Option<&ItemFn> {
        self.functions.iter().find(|function| function.sig.ident == name)
    }

    /// The type that an alias of the module stands for.
    fn resolved<'t>(&'t self, ty: &'t Type) -> &'t Type {
        let alias = self.items.iter().find_map(|item| match (item, ty) {
            (Item::Type(alias), Type::Path(path)) if path.path.is_ident(&alias.ident) => Some(&*alias.ty),
            _ => None,
        });
        alias.unwrap_or(ty)
    }

    /// How many numbers a type has: `f32`, or a tuple of these.
    fn numbers(&self, ty: &Type) -> Option<usize> {
        match self.resolved(ty) {
            Type::Paren(inner) => self.numbers(&inner.elem),
            Type::Group(inner) => self.numbers(&inner.elem),
            Type::Tuple(tuple) => {
                let all = tuple.elems.iter().all(|ty| !matches!(ty, Type::Tuple(_)) && self.numbers(ty) == Some(1));
                all.then_some(tuple.elems.len()).filter(|words| *words > 1)
            }
            Type::Path(path) => path.path.is_ident("f32").then_some(1),
            _ => None,
        }
    }

    fn parts(&self, name: &Ident, files: &dyn Fn() -> Files, errors: &mut Errors) -> Option<Parts> {
        let written = [
            ("const IDENTITY", self.identity.is_some()),
            ("fn lift", self.function("lift").is_some()),
            ("fn combine", self.function("combine").is_some()),
            ("fn finish", self.function("finish").is_some()),
        ];
        let missing: Vec<String> =
            written.iter().filter(|(_, there)| !there).map(|(part, _)| format!("`{part}`")).collect();
        if !missing.is_empty() {
            let are = if missing.len() == 1 { "is" } else { "are" };
            errors.at(name.span(), format_args!("{PARTS}: {} {are} missing", missing.join(", ")));
        }
        let (identity, lift, combine, finish) =
            (self.identity.as_ref()?, self.function("lift")?, self.function("combine")?, self.function("finish")?);
        let state = self.numbers(&identity.ty);
        let Some(state) = state.filter(|words| (1..=MOST).contains(words)) else {
            let message = match state {
                Some(words) => format!("a running result has at most {MOST} numbers, and this has {words}"),
                None => "a running result is an `f32`, or a tuple of up to four: `(f32, f32)`".to_owned(),
            };
            errors.on(&identity.ty, message);
            return None;
        };
        let numbers = match unparenthesised(&identity.expr) {
            Expr::Tuple(tuple) if tuple.elems.len() == state => tuple.elems.iter().cloned().collect(),
            other if state == 1 => vec![other.clone()],
            other => {
                errors.on(other, format_args!("the identity is written out: a tuple of {state} numbers"));
                Vec::new()
            }
        };
        let lift = self.split(lift, &[1], state, files, errors);
        let combine = self.split(combine, &[state, state], state, files, errors);
        let finish = self.split(finish, &[state], 1, files, errors);
        Some(Parts { identity: identity.clone(), numbers, lift: lift?, combine: combine?, finish: finish? })
    }

    /// A function of this many numbers by parameter, which gives this many, as functions that give one.
    fn split(
        &self,
        item: &ItemFn,
        taken: &[usize],
        given: usize,
        files: &dyn Fn() -> Files,
        errors: &mut Errors,
    ) -> Option<OwnFunction> {
        let typed: Vec<&PatType> = item
            .sig
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(typed),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let fits = typed.len() == taken.len()
            && item.sig.inputs.len() == taken.len()
            && typed.iter().zip(taken).all(|(typed, words)| self.numbers(&typed.ty) == Some(*words));
        let gives = match &item.sig.output {
            ReturnType::Default => false,
            ReturnType::Type(_, ty) => self.numbers(ty) == Some(given),
        };
        if !fits || !gives {
            let list: Vec<String> =
                taken.iter().zip(names(item)).map(|(words, name)| format!("{name}: {}", tuple(*words))).collect();
            errors.on(
                quote_signature(item),
                format_args!(
                    "with this identity the signature is `fn {}({}) -> {}`",
                    item.sig.ident,
                    list.join(", "),
                    tuple(given)
                ),
            );
            return None;
        }
        let (mut words, mut all) = (Vec::new(), Errors::default());
        for word in 0..given {
            let mut own = Errors::default();
            let rewritten = Words::new(item, &mut own).function(&typed, taken, (given > 1).then_some((word, given)));
            let (header, mut function) = parse::elementwise(&rewritten, &mut own);
            let constants = check::elementwise(&header, &mut function, files(), &mut own);
            words.push(Word { function, constants });
            own.into_found().into_iter().for_each(|error| all.push(error));
        }
        once(all, errors);
        Some(OwnFunction { item: item.clone(), words })
    }
}

/// Adds mistakes, but only one of equal mistakes in several words.
fn once(found: Errors, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for error in found.into_found() {
        let (start, end) = (error.span().start(), error.span().end());
        if seen.insert((start.line, start.column, end.line, end.column, error.to_string())) {
            errors.push(error);
        }
    }
}

/// `f32` or `(f32, f32)`
fn tuple(words: usize) -> String {
    if words == 1 { "f32".to_owned() } else { format!("({})", vec!["f32"; words].join(", ")) }
}

/// Names for the parameters in a message.
fn names(item: &ItemFn) -> [&'static str; 2] {
    match item.sig.ident.to_string().as_str() {
        "lift" => ["x", ""],
        "combine" => ["a", "b"],
        _ => ["s", ""],
    }
}

/// The parameters and the result.
fn quote_signature(item: &ItemFn) -> TokenStream {
    let (name, inputs, output) = (&item.sig.ident, &item.sig.inputs, &item.sig.output);
    let mut tokens = quote!(#name);
    item.sig.paren_token.surround(&mut tokens, |tokens| inputs.to_tokens(tokens));
    output.to_tokens(&mut tokens);
    tokens
}

fn unparenthesised(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => unparenthesised(&inner.expr),
        Expr::Group(inner) => unparenthesised(&inner.expr),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages for a module.
    fn mistakes(text: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let item = text.parse().expect("tokens");
        let _ = module(TokenStream::new(), item, &Files::default, &mut errors);
        errors.into_found().iter().map(|error| format!("{}: {error}", error.span().start().line)).collect()
    }

    const NORM: &str = "mod m {
        const IDENTITY: (f32, f32) = (0.0, f32::NEG_INFINITY);
        fn lift(x: f32) -> (f32, f32) { (x * x, x) }
        fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) { (a.0 + b.0, a.1.max(b.1)) }
        fn finish(s: (f32, f32)) -> f32 { s.0 / s.1 }
    }";

    #[track_caller]
    fn with(from: &str, to: &str, expected: &[&str]) {
        assert!(NORM.contains(from), "{from}");
        assert_eq!(mistakes(&NORM.replace(from, to)), expected);
    }

    #[test]
    fn what_is_allowed() {
        with("", "", &[]);
        with("{ (x * x, x) }", "{ let s = (x, x); let (mut p, q) = s; p *= q; (p, s.1) }", &[]);
        with("{ s.0 / s.1 }", "{ let s = if s.0 > 0.0 { (1.0, s.1) } else { s }; s.1 }", &[]);
        with(
            "fn combine(a: (f32, f32), b",
            "fn combine((p, q): (f32, f32), b",
            &[
                "4: there is no `a` here; it is neither a parameter nor a `let` (a constant with a small name is written `self::a`)",
                "4: there is no `a` here; it is neither a parameter nor a `let` (a constant with a small name is written `self::a`)",
            ],
        );
        with("const IDENTITY: (f32, f32)", "type S = (f32, f32); const IDENTITY: S", &[]);
    }

    #[test]
    fn every_mistake_is_said_once() {
        with(
            "fn finish",
            "fn last",
            &[
                "1: a reducer has `const IDENTITY`, `fn lift`, `fn combine` and `fn finish`: `fn finish` is missing",
                "5: a reducer has `const IDENTITY`, `fn lift`, `fn combine` and `fn finish`; a function that these call stands under `#[elementwise]`, outside of the module or in it",
            ],
        );
        with(
            "(f32, f32) = (0.0, f32::NEG_INFINITY)",
            "(f32, f64) = (0.0, 1.0)",
            &["2: a running result is an `f32`, or a tuple of up to four: `(f32, f32)`"],
        );
        with(
            "(f32, f32) = (0.0, f32::NEG_INFINITY)",
            "(f32, f32, f32, f32, f32) = (0.0, 0.0, 0.0, 0.0, 0.0)",
            &["2: a running result has at most 4 numbers, and this has 5"],
        );
        with(
            "(f32, f32) = (0.0, f32::NEG_INFINITY)",
            "(f32, f32, f32) = (0.0, 0.0, 0.0)",
            &[
                "3: with this identity the signature is `fn lift(x: f32) -> (f32, f32, f32)`",
                "4: with this identity the signature is `fn combine(a: (f32, f32, f32), b: (f32, f32, f32)) -> (f32, f32, f32)`",
                "5: with this identity the signature is `fn finish(s: (f32, f32, f32)) -> f32`",
            ],
        );
        with("(x * x, x)", "(x * x, x, x)", &["3: this has 3 numbers where 2 are needed"]);
        with(
            "(x * x, x)",
            "x * x",
            &["3: 2 numbers are needed here: a tuple, a name that stands for one, or an `if` of these"],
        );
        with(
            "a.0 + b.0",
            "a + b.2",
            &["4: `a` is 2 numbers: name one of them, `a.0`", "4: `b` has 2 numbers, `b.0` to `b.1`"],
        );
        with("s.0 / s.1", "{ s.0 = 1.0; s.0 }", &["5: `s_0` is assigned to: declare it `let mut s_0`"]);
        with(
            "x * x, x",
            "y * x.0, while true {}",
            &[
                "3: there is no `y` here; it is neither a parameter nor a `let` (a constant with a small name is written `self::y`)",
                "3: `x` is one number and has no `.0`",
                "3: there are no loops, as every element takes the same operations: write the steps one after the other",
            ],
        );
    }

    #[test]
    fn what_stands_elsewhere_is_refused() {
        assert_eq!(
            mistakes("fn f() {}")[0].split(';').next(),
            Some("1: `#[reducer]` stands on a module: `#[reducer] mod norm { … }`",)
        );
        assert_eq!(mistakes("mod m;"), ["1: a reducer's module has its body here: `#[reducer] mod norm { … }`"]);
        let mut errors = Errors::default();
        let ordered = "ordered".parse().expect("tokens");
        let _ = module(ordered, NORM.parse().expect("tokens"), &Files::default, &mut errors);
        let found = errors.into_found();
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("make `combine` commutative"));
    }
}
