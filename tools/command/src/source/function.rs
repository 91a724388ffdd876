//! The file's own operations, each made when it is first called.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use epilogue::ElementType;
use epilogue::evt::Reducer;
use epilogue::expr::{ExprId, Function, FunctionBuilder, Op};
use epilogue_syntax::ast::{Elementwise, Operator, Reduction};
use epilogue_syntax::reducer::{OwnFunction, ReducerModule};
use epilogue_syntax::report::Errors;
use epilogue_syntax::sight::{File, Files};
use epilogue_syntax::walk::{self, Builder, Logic, Primitive};
use epilogue_syntax::{ElementwiseFunction, elementwise};
use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{ExprPath, Type};

use super::constants;
use super::element::element;
use super::items::{Items, Path};
use super::names::meanings;
use super::operations::operation;

/// The file's definitions, and the mistakes found so far.
pub(super) struct Definitions<'a> {
    pub(super) items: &'a Items,
    pub(super) mistakes: Vec<syn::Error>,
    /// The file's text, with the import that the command supposes.
    text: String,
    made: BTreeMap<Path, State>,
    reducers: BTreeMap<Path, Option<&'static Reducer>>,
}

#[derive(Clone, Copy)]
enum State {
    /// Its body is being made: a call of it in there is one of itself.
    Making,
    Made(&'static Function),
    Mistaken,
}

/// A text for as long as the program runs, as trees and functions have their names; each once.
pub(super) fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(text) {
        return known;
    }
    let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
    kept.insert(new);
    new
}

/// A name without `r#`.
pub(super) fn plain(name: &Ident) -> &'static str {
    let text = name.to_string();
    kept(text.strip_prefix("r#").unwrap_or(&text))
}

/// The operation that the tree's primitive is.
pub(super) fn op(primitive: Primitive) -> Op {
    match primitive {
        Primitive::Neg => Op::Neg,
        Primitive::Select => Op::Select,
        Primitive::Max => Op::Max,
        Primitive::Min => Op::Min,
        Primitive::Operator(operator) => match operator {
            Operator::Add => Op::Add,
            Operator::Sub => Op::Sub,
            Operator::Mul => Op::Mul,
            Operator::Div => Op::Div,
            Operator::Lt => Op::Lt,
            Operator::Le => Op::Le,
            Operator::Gt => Op::Gt,
            Operator::Ge => Op::Ge,
            Operator::Eq => Op::Eq,
            Operator::Ne => Op::Ne,
        },
    }
}

impl<'a> Definitions<'a> {
    pub(super) fn new(items: &'a Items, text: &str) -> Self {
        let text = format!("use epilogue::prelude::*;\n{text}");
        Self { items, mistakes: items.repeated.clone(), text, made: BTreeMap::new(), reducers: BTreeMap::new() }
    }

    /// The file's text, as the macros look names up in it.
    pub(super) fn files(&self) -> Files {
        File::read(&self.text).map_or_else(Files::default, Files::given)
    }

    pub(super) fn mistake(&mut self, place: Span, message: impl std::fmt::Display) {
        self.mistakes.push(syn::Error::new(place, message));
    }

    /// Makes every operation of the file, so that all mistakes are found.
    pub(super) fn all(&mut self) {
        let items = self.items;
        for path in items.operations.keys() {
            self.own(path, Span::call_site());
        }
        for path in items.reducers.keys() {
            self.own_reducer(path);
        }
    }

    /// The reducer that a path in a module means.
    pub(super) fn reducer(&mut self, path: &syn::Path, module: &Path) -> Option<&'static Reducer> {
        let items = self.items;
        let meanings = meanings(items, path, module);
        if let Some(own) = meanings.iter().find(|meaning| items.reducers.contains_key(*meaning)) {
            return self.own_reducer(own);
        }
        let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        self.mistake(
            path.span(),
            format_args!(
                "`{name}` is not a reducer of this file, and the command reads no other: write the module here, under `#[reducer]`"
            ),
        );
        None
    }

    fn own_reducer(&mut self, path: &Path) -> Option<&'static Reducer> {
        if let Some(made) = self.reducers.get(path) {
            return *made;
        }
        let made = self.make_reducer(path).map(|reducer| &*Box::leak(Box::new(reducer)));
        self.reducers.insert(path.clone(), made);
        made
    }

    fn make_reducer(&mut self, path: &Path) -> Option<Reducer> {
        let items = self.items;
        let found = items.reducers.get(path)?;
        let mut errors = Errors::default();
        let item = found.item.to_token_stream();
        let read = epilogue_syntax::reducer(found.arguments.clone(), item, &|| self.files(), &mut errors);
        let errors = errors.into_found();
        if !errors.is_empty() {
            self.mistakes.extend(errors);
            return None;
        }
        let ReducerModule { name, parts, .. } = read?;
        let (name, parts, before) = (plain(&name), parts?, self.mistakes.len());
        let mut identity = Vec::new();
        for number in &parts.numbers {
            match constants::computed_in(items, number, path) {
                Ok(value) => identity.push(f64::from(value)),
                Err(mistake) => self.mistakes.push(mistake),
            }
        }
        let lift = self.words(name, &parts.lift, path)?;
        let combine = self.words(name, &parts.combine, path)?;
        let finish = self.words(name, &parts.finish, path)?.pop()?;
        (self.mistakes.len() == before).then(|| Reducer::new(name, &identity, lift, combine, finish))
    }

    /// The functions of the numbers that a reducer's function gives.
    fn words(&mut self, reducer: &str, function: &OwnFunction, module: &Path) -> Option<Vec<Function>> {
        let mut functions = Vec::new();
        for (i, word) in function.words.iter().enumerate() {
            let own = &function.item.sig.ident;
            let name =
                if function.words.len() == 1 { format!("{reducer}_{own}") } else { format!("{reducer}_{own}_{i}") };
            let (function, truth) = self.built(kept(&name), &word.function, &word.constants, module)?;
            if truth {
                self.mistake(own.span(), "a running result has numbers: write `if … { 1.0 } else { 0.0 }`");
            }
            functions.push(function);
        }
        Some(functions)
    }

    /// A function's body; whether it gives a truth value.
    fn built(
        &mut self,
        name: &'static str,
        function: &Elementwise,
        constants: &[ExprPath],
        module: &Path,
    ) -> Option<(Function, bool)> {
        let builder = FunctionBuilder::new(name);
        let mut sink = FunctionSink { definitions: self, builder, module, constants };
        let parameters: Vec<_> = function
            .parameters
            .iter()
            .map(|parameter| {
                let id = sink.builder.parameter(plain(&parameter.name));
                (&parameter.name, Value { id, truth: false })
            })
            .collect();
        let root = walk::elementwise(parameters, &function.body, &mut sink)?;
        Some((sink.builder.finish(root.id), root.truth))
    }

    /// The file's operation of an absolute path; `place` is where it is called.
    fn own(&mut self, path: &Path, place: Span) -> Option<&'static Function> {
        match self.made.get(path).copied() {
            Some(State::Made(function)) => return Some(function),
            Some(State::Mistaken) => return None,
            Some(State::Making) => {
                let name = path.last().cloned().unwrap_or_default();
                self.mistake(
                    place,
                    format_args!("`{name}` calls itself over this: an elementwise function has no recursion"),
                );
                return None;
            }
            None => {}
        }
        self.made.insert(path.clone(), State::Making);
        let function = self.make(path);
        self.made.insert(path.clone(), function.map_or(State::Mistaken, State::Made));
        function
    }

    fn make(&mut self, path: &Path) -> Option<&'static Function> {
        let items = self.items;
        let found = items.operations.get(path)?;
        let mut errors = Errors::default();
        let read = elementwise(found.arguments.clone(), found.item.to_token_stream(), self.files(), &mut errors);
        let errors = errors.into_found();
        if !errors.is_empty() {
            self.mistakes.extend(errors);
            return None;
        }
        let ElementwiseFunction { header, function, constants, cuda, .. } = read?;
        let before = self.mistakes.len();
        let (made, truth) = self.built(plain(&header.name), &function, &constants, &found.module)?;
        if truth {
            let message = "it returns a truth value, and an elementwise function returns a number: write `if … { 1.0 } else { 0.0 }`";
            self.mistake(header.name.span(), message);
        }
        if self.mistakes.len() > before {
            return None;
        }
        let made = match cuda {
            Some(body) => made.with_cuda(kept(&body.value())),
            None => made,
        };
        Some(Box::leak(Box::new(made)))
    }

    /// The function that a call in a module means, if it takes this many arguments.
    pub(super) fn called(&mut self, path: &syn::Path, module: &Path, given: usize) -> Option<&'static Function> {
        let place = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        let function = self.meant(path, module, place)?;
        self.takes(function, given, place)
    }

    fn meant(&mut self, path: &syn::Path, module: &Path, place: Span) -> Option<&'static Function> {
        let items = self.items;
        let meanings = meanings(items, path, module);
        if let Some(own) = meanings.iter().find(|meaning| items.operations.contains_key(*meaning)) {
            return self.own(own, place);
        }
        // Without an import, too: the command supposes the prelude's.
        let library = meanings.iter().find_map(|meaning| {
            let (name, at) = meaning.split_last()?;
            let named =
                matches!(at, [first, second] if first == "epilogue" && (second == "ops" || second == "prelude"));
            if named || at == module.as_slice() { operation(name) } else { None }
        });
        if library.is_none() {
            let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
            self.mistake(
                place,
                format_args!(
                    "`{name}` is not in this file, and the command reads no other: write the function here, under \
                     `#[elementwise]`"
                ),
            );
        }
        library
    }

    /// A function, if it takes this many arguments.
    pub(super) fn takes(
        &mut self,
        function: &'static Function,
        given: usize,
        place: Span,
    ) -> Option<&'static Function> {
        let (name, needed) = (function.name(), function.parameters().len());
        if needed != given {
            let (s, are) = (if needed == 1 { "" } else { "s" }, if given == 1 { "is" } else { "are" });
            self.mistake(place, format_args!("`{name}` takes {needed} argument{s}, {given} {are} given"));
            return None;
        }
        Some(function)
    }

    /// The library's operation of a method's name.
    pub(super) fn method(&mut self, name: &Ident, given: usize) -> Option<&'static Function> {
        match operation(&name.to_string()) {
            Some(function) => self.takes(function, given, name.span()),
            None => {
                self.mistake(name.span(), format_args!("there is no operation `{name}`"));
                None
            }
        }
    }

    /// The value of a body's constant; 0 after a mistake.
    pub(super) fn constant(&mut self, constants: &[ExprPath], constant: usize, module: &Path) -> f64 {
        let value = constants.get(constant).map(|path| constants::value(self.items, &path.path, module));
        match value {
            Some(Ok(value)) => f64::from(value),
            Some(Err(mistake)) => {
                self.mistakes.push(mistake);
                0.0
            }
            None => 0.0,
        }
    }

    /// The element type that is written so; f32 after a mistake.
    pub(super) fn element(&mut self, written: &Type) -> ElementType {
        let name = match written {
            Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let name = name.unwrap_or_else(|| written.to_token_stream().to_string().replace(' ', ""));
        element(&name).unwrap_or_else(|message| {
            self.mistake(written.span(), message);
            ElementType::F32
        })
    }
}

/// A value of a function's body.
#[derive(Clone, Copy)]
struct Value {
    id: ExprId,
    /// Whether it is a comparison's result.
    truth: bool,
}

/// Makes the body of one operation.
struct FunctionSink<'d, 'a> {
    definitions: &'d mut Definitions<'a>,
    builder: FunctionBuilder,
    module: &'d Path,
    constants: &'d [ExprPath],
}

impl FunctionSink<'_, '_> {
    fn call_of(&mut self, function: Option<&'static Function>, place: Span, arguments: &[Value]) -> Value {
        let Some(function) = function else { return self.literal(place, 0.0) };
        let chooses = function.body() == &epilogue::expr::Body::Primitive(Op::Select);
        for (i, argument) in arguments.iter().enumerate() {
            self.expect(argument, chooses && i == 0, function.name(), place);
        }
        let ids: Vec<ExprId> = arguments.iter().map(|argument| argument.id).collect();
        let id = self.builder.call(function, &ids);
        Value { id, truth: false }
    }

    /// Reports a number where a truth value is needed, or the other way round.
    fn expect(&mut self, value: &Value, truth: bool, user: &str, place: Span) {
        match (value.truth, truth) {
            (false, true) => self.definitions.mistake(
                place,
                format_args!("the condition of `{user}` is a number; compare it with something, as in `x > 0.0`"),
            ),
            (true, false) => self.definitions.mistake(
                place,
                format_args!("`{user}` takes numbers, not truth values: write `if … {{ 1.0 }} else {{ 0.0 }}`"),
            ),
            _ => {}
        }
    }

    fn no_number(&mut self, place: Span) -> Value {
        self.definitions.mistake(place, "an elementwise function computes with numbers alone");
        self.literal(place, 0.0)
    }
}

impl Builder for FunctionSink<'_, '_> {
    type Node = Value;

    fn apply(&mut self, place: Span, primitive: Primitive, operands: &[Value]) -> Value {
        let op = op(primitive);
        let user = if primitive == Primitive::Select { "if" } else { op.symbol() };
        let truth = match operands {
            // The branches are two numbers or two truth values, which the check of the syntax has seen to.
            [condition, then, _] => {
                self.expect(condition, true, user, place);
                then.truth
            }
            _ => {
                operands.iter().for_each(|operand| self.expect(operand, false, user, place));
                op.is_comparison()
            }
        };
        let ids: Vec<ExprId> = operands.iter().map(|operand| operand.id).collect();
        Value { id: self.builder.apply(op, &ids), truth }
    }

    fn logic(&mut self, place: Span, _: Logic, _: &[Value]) -> Value {
        self.no_number(place)
    }

    fn literal(&mut self, _: Span, value: f64) -> Value {
        let id = self.builder.literal(value);
        Value { id, truth: false }
    }

    fn constant(&mut self, place: Span, constant: usize) -> Value {
        let value = self.definitions.constant(self.constants, constant, self.module);
        self.literal(place, value)
    }

    fn integer_literal(&mut self, place: Span, _: i64) -> Value {
        self.no_number(place)
    }

    fn position(&mut self, word: &Ident) -> Value {
        self.no_number(word.span())
    }

    fn random(&mut self, place: Span, _: Value, _: u32) -> Value {
        self.no_number(place)
    }

    fn integer(&mut self, place: Span, _: Value) -> Value {
        self.no_number(place)
    }

    fn real(&mut self, place: Span, _: Value) -> Value {
        self.no_number(place)
    }

    fn call(&mut self, path: &syn::Path, arguments: &[Value]) -> Value {
        let function = self.definitions.called(path, self.module, arguments.len());
        self.call_of(function, path.span(), arguments)
    }

    fn operation(&mut self, name: &Ident, arguments: &[Value]) -> Value {
        let function = self.definitions.method(name, arguments.len());
        self.call_of(function, name.span(), arguments)
    }

    fn cast(&mut self, _: Span, element: &Type, x: Value) -> Value {
        let element = self.definitions.element(element);
        let id = self.builder.cast(element, x.id);
        Value { id, truth: false }
    }

    fn reduce(&mut self, reduction: &Reduction, _: Value) -> Value {
        self.no_number(reduction.word.span())
    }

    fn name(&mut self, node: &Value, name: &Ident) {
        self.builder.name(node.id, plain(name));
    }
}
