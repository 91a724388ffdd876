//! A function of tuples as a function of numbers, which gives one of its numbers.
//!
//! A name that stands for several numbers becomes a name for each: `a` is `a_0` and `a_1`. All tokens that stay are the user's
//! own, so messages point at them.

use std::collections::{HashMap, HashSet};

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprField, ExprIf, ItemFn, Local, Member, Pat, PatIdent, PatType, Stmt, Type};

use crate::parse::identifiers;
use crate::report::Errors;

/// Rewrites one function.
pub(super) struct Words<'a> {
    item: &'a ItemFn,
    errors: &'a mut Errors,
    /// Names in the user's text, which the names for numbers differ from.
    taken: HashSet<String>,
    /// The numbers that names stand for, innermost scope last; `None` for a name of one number.
    scopes: Vec<HashMap<String, Option<Vec<Ident>>>>,
    fresh: usize,
}

/// Which of how many numbers is wanted; `None` if there is one.
type Wanted = Option<(usize, usize)>;

impl<'a> Words<'a> {
    pub(super) fn new(item: &'a ItemFn, errors: &'a mut Errors) -> Self {
        let taken = identifiers(item).iter().map(ToString::to_string).collect();
        Self { item, errors, taken, scopes: vec![HashMap::new()], fresh: 0 }
    }

    /// The function that gives the wanted number. Its parameters are of this many numbers.
    pub(super) fn function(mut self, parameters: &[&PatType], counts: &[usize], wanted: Wanted) -> ItemFn {
        let mut item = self.item.clone();
        let f32: Type = syn::parse_quote!(f32);
        item.sig.inputs.clear();
        for (parameter, count) in parameters.iter().zip(counts) {
            let mut names = Vec::new();
            if *count == 1 {
                self.declare(&parameter.pat, None);
                names.push((*parameter.pat).clone());
            } else {
                names.extend(self.bind(&parameter.pat, *count).into_iter().map(Pat::Ident));
            }
            for name in names {
                let typed = PatType { pat: Box::new(name), ty: Box::new(f32.clone()), ..(*parameter).clone() };
                item.sig.inputs.push(syn::FnArg::Typed(typed));
            }
        }
        if let syn::ReturnType::Type(_, ty) = &mut item.sig.output {
            **ty = f32;
        }
        *item.block = self.block(&self.item.block.clone(), wanted);
        item
    }

    /// The numbers that an expression of a plain name stands for.
    fn numbers(&self, expr: &Expr) -> Option<&Vec<Ident>> {
        let Expr::Path(path) = ungrouped(expr) else { return None };
        let name = path.path.get_ident().filter(|_| path.qself.is_none())?.to_string();
        self.scopes.iter().rev().find_map(|scope| scope.get(&name))?.as_ref()
    }

    /// Notes what a name stands for.
    fn declare(&mut self, pat: &Pat, numbers: Option<Vec<Ident>>) {
        if let (Pat::Ident(name), Some(scope)) = (pat, self.scopes.last_mut()) {
            scope.insert(name.ident.to_string(), numbers);
        }
    }

    /// The names for each number of a pattern.
    fn bind(&mut self, pat: &Pat, count: usize) -> Vec<PatIdent> {
        match pat {
            Pat::Ident(whole) => {
                let names: Vec<Ident> = (0..count).map(|i| self.free(&whole.ident, i)).collect();
                self.declare(pat, Some(names.clone()));
                names.into_iter().map(|name| PatIdent { ident: name, ..whole.clone() }).collect()
            }
            Pat::Tuple(tuple) if tuple.elems.len() == count => {
                let one = |(i, element): (usize, &Pat)| match element {
                    Pat::Ident(name) => {
                        self.declare(element, None);
                        name.clone()
                    }
                    Pat::Wild(wild) => plain(format_ident!("_unused_{i}", span = wild.underscore_token.span)),
                    other => {
                        self.errors.on(other, "a name is needed here");
                        plain(format_ident!("_unused_{i}"))
                    }
                };
                tuple.elems.iter().enumerate().map(one).collect()
            }
            Pat::Tuple(tuple) => {
                let given = tuple.elems.len();
                self.errors.excuse(identifiers(tuple));
                self.errors.on(tuple, format_args!("this has {given} names for {count} numbers"));
                Vec::new()
            }
            other => {
                self.errors.on(other, format_args!("a name is needed here, or a tuple of {count}"));
                Vec::new()
            }
        }
    }

    /// A name for one number of a name, which the user has not.
    fn free(&self, name: &Ident, i: usize) -> Ident {
        let mut free = format_ident!("{name}_{i}");
        while self.taken.contains(&free.to_string()) {
            free = format_ident!("{free}_");
        }
        free
    }

    /// How many numbers an expression is surely made of, if several.
    fn count(&self, expr: &Expr) -> Option<usize> {
        match ungrouped(expr) {
            Expr::Tuple(tuple) => Some(tuple.elems.len()),
            Expr::If(branch) => match branch.then_branch.stmts.last() {
                Some(Stmt::Expr(value, None)) => self.count(value),
                _ => None,
            },
            Expr::Block(inner) => match inner.block.stmts.last() {
                Some(Stmt::Expr(value, None)) => self.count(value),
                _ => None,
            },
            other => self.numbers(other).map(Vec::len),
        }
    }

    fn block(&mut self, block: &Block, wanted: Wanted) -> Block {
        self.scopes.push(HashMap::new());
        let mut statements = Vec::new();
        let last = block.stmts.len().wrapping_sub(1);
        for (i, statement) in block.stmts.iter().enumerate() {
            match statement {
                Stmt::Expr(value, None) if i == last => statements.push(Stmt::Expr(self.wanted(value, wanted), None)),
                Stmt::Expr(value, semi) => statements.push(Stmt::Expr(self.statement(value), *semi)),
                Stmt::Local(local) => self.local(local, &mut statements),
                other => statements.push(other.clone()),
            }
        }
        self.scopes.pop();
        Block { brace_token: block.brace_token, stmts: statements }
    }

    fn local(&mut self, local: &Local, statements: &mut Vec<Stmt>) {
        let (pat, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(typed)),
            other => (other, None),
        };
        let Some(init) = &local.init else {
            self.declare(pat, None);
            statements.push(Stmt::Local(local.clone()));
            return;
        };
        let count = match (self.count(&init.expr), pat) {
            (None, Pat::Tuple(tuple)) => {
                let message = "this is one number and can't be taken apart: a tuple, a name that stands for one, or an `if` of these \
                               can";
                let value = self.scalar(&init.expr);
                self.errors.on(value, message);
                self.errors.excuse(identifiers(tuple));
                return;
            }
            (count, _) => count,
        };
        let made = |pat: PatIdent, value: Expr| {
            let mut local = local.clone();
            local.pat = Pat::Ident(pat);
            if let Some(init) = &mut local.init {
                *init.expr = value;
            }
            Stmt::Local(local)
        };
        let Some(count) = count else {
            let value = self.scalar(&init.expr);
            self.declare(pat, None);
            let mut local = local.clone();
            if let Some(init) = &mut local.init {
                *init.expr = value;
            }
            statements.push(Stmt::Local(local));
            return;
        };
        if let Some(typed) = ty
            && !matches!(&*typed.ty, Type::Tuple(tuple) if tuple.elems.len() == count)
        {
            self.errors.on(&typed.ty, "the type follows from the value: remove it");
        }
        // All values before all names, which may be those of the values.
        let values: Vec<Expr> = (0..count).map(|i| self.wanted(&init.expr, Some((i, count)))).collect();
        let read: HashSet<String> = values.iter().flat_map(identifiers).map(|name| name.to_string()).collect();
        let names = self.bind(pat, count);
        let clashes = names.iter().any(|name| read.contains(&name.ident.to_string()));
        if !clashes {
            statements.extend(names.into_iter().zip(values).map(|(name, value)| made(name, value)));
            return;
        }
        let mut later = Vec::new();
        for (name, value) in names.into_iter().zip(values) {
            self.fresh += 1;
            let between = format_ident!("{}_new_{}", name.ident, self.fresh);
            statements.push(made(plain(between.clone()), value));
            later.push(made(name, syn::parse_quote!(#between)));
        }
        statements.extend(later);
    }

    /// An expression that is not a block's value.
    fn statement(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Assign(assign) => {
                let mut assign = assign.clone();
                *assign.right = self.scalar(&assign.right);
                *assign.left = self.scalar(&assign.left);
                Expr::Assign(assign)
            }
            other => self.scalar(other),
        }
    }

    /// The wanted number of an expression.
    fn wanted(&mut self, expr: &Expr, wanted: Wanted) -> Expr {
        let Some((i, count)) = wanted else { return self.scalar(expr) };
        if let Some(names) = self.numbers(expr) {
            if names.len() != count {
                let given = names.len();
                self.errors.on(expr, format_args!("this has {given} numbers where {count} are needed"));
                return zero();
            }
            return named(names[i].clone(), expr.span());
        }
        match ungrouped(expr) {
            Expr::Tuple(tuple) if tuple.elems.len() == count => self.scalar(&tuple.elems[i]),
            Expr::Tuple(tuple) => {
                let given = tuple.elems.len();
                self.errors.on(tuple, format_args!("this has {given} numbers where {count} are needed"));
                zero()
            }
            Expr::If(branch) => Expr::If(self.branch(branch, wanted)),
            Expr::Block(inner) => {
                let mut inner = inner.clone();
                inner.block = self.block(&inner.block, wanted);
                Expr::Block(inner)
            }
            other => {
                self.errors.on(
                    other,
                    format_args!(
                        "{count} numbers are needed here: a tuple, a name that stands for one, or an `if` of these"
                    ),
                );
                zero()
            }
        }
    }

    fn branch(&mut self, branch: &ExprIf, wanted: Wanted) -> ExprIf {
        let mut branch = branch.clone();
        *branch.cond = self.scalar(&branch.cond);
        branch.then_branch = self.block(&branch.then_branch, wanted);
        if let Some((_, otherwise)) = &mut branch.else_branch {
            **otherwise = self.wanted(&otherwise.clone(), wanted);
        }
        branch
    }

    /// An expression of one number.
    fn scalar(&mut self, expr: &Expr) -> Expr {
        if let Some(names) = self.numbers(expr) {
            let (count, first) = (names.len(), names[0].clone());
            let name = identifiers(expr).first().map(ToString::to_string).unwrap_or_default();
            self.errors.on(expr, format_args!("`{name}` is {count} numbers: name one of them, `{name}.0`"));
            return named(first, expr.span());
        }
        let mut expr = expr.clone();
        match &mut expr {
            Expr::Field(field) => return self.field(field),
            Expr::Paren(inner) => *inner.expr = self.scalar(&inner.expr),
            Expr::Group(inner) => *inner.expr = self.scalar(&inner.expr),
            Expr::Unary(unary) => *unary.expr = self.scalar(&unary.expr),
            Expr::Binary(binary) => {
                *binary.left = self.scalar(&binary.left);
                *binary.right = self.scalar(&binary.right);
            }
            Expr::Call(call) => call.args.iter_mut().for_each(|argument| *argument = self.scalar(argument)),
            Expr::MethodCall(call) => {
                *call.receiver = self.scalar(&call.receiver);
                call.args.iter_mut().for_each(|argument| *argument = self.scalar(argument));
            }
            Expr::If(branch) => *branch = self.branch(branch, None),
            Expr::Block(inner) => inner.block = self.block(&inner.block, None),
            _ => {}
        }
        expr
    }

    /// `a.0`
    fn field(&mut self, field: &ExprField) -> Expr {
        let of = ungrouped(&field.base);
        let Member::Unnamed(index) = &field.member else { return Expr::Field(field.clone()) };
        let Some(names) = self.numbers(of) else {
            if let Expr::Path(path) = of
                && let Some(name) = path.path.get_ident()
            {
                // The check says that the name doesn't exist.
                let text = name.to_string();
                let known = self.scopes.iter().any(|scope| scope.contains_key(&text));
                if !known && !text.chars().any(char::is_uppercase) {
                    return of.clone();
                }
                let message = format!("`{name}` is one number and has no `.{}`", index.index);
                self.errors.at(field.member.span(), message);
                return of.clone();
            }
            return Expr::Field(field.clone());
        };
        let (found, count) = (names.get(index.index as usize).cloned(), names.len());
        if let Some(name) = found {
            return named(name, field.span());
        }
        let name = identifiers(of).first().map(ToString::to_string).unwrap_or_default();
        let message = format!("`{name}` has {count} numbers, `{name}.0` to `{name}.{}`", count - 1);
        self.errors.at(field.member.span(), message);
        zero()
    }
}

/// An expression without what a `macro_rules!` macro and parentheses put around it.
fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        Expr::Paren(paren) => ungrouped(&paren.expr),
        other => other,
    }
}

fn plain(ident: Ident) -> PatIdent {
    PatIdent { attrs: Vec::new(), by_ref: None, mutability: None, ident, subpat: None }
}

/// A name at the user's place.
fn named(mut name: Ident, place: Span) -> Expr {
    name.set_span(name.span().located_at(place));
    syn::parse_quote!(#name)
}

/// In place of a mistake, which has been reported.
fn zero() -> Expr {
    syn::parse_quote!(0.0)
}
