//! The file's epilogues as visitor trees.

use epilogue::ElementType;
use epilogue::evt::{
    Axis, BroadcastClass, Composed, ComposedOp, Form, NodeId, ParameterClass, Position, ReduceOp, Reduction, Tree,
    TreeBuilder, derive,
};
use epilogue::expr;
use epilogue_syntax::ast::{self, ClassKind};
use epilogue_syntax::check::{Backward, Checked};
use epilogue_syntax::report::Errors;
use epilogue_syntax::walk::{self, Builder, EpilogueBuilder, Extent, Logic, Primitive};
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{ExprPath, Type};

use super::function::{Definitions, kept, op, plain};
use super::items::{Items, Path};
use super::mistakes::{Mistakes, Text};

/// An epilogue of a text.
#[derive(Clone, Debug)]
pub struct Epilogue {
    /// The function's name, as the user wrote it.
    pub name: String,
    /// Its tree, not yet checked for types.
    pub tree: Tree,
}

/// The trees of all epilogues.
pub(super) fn all(text: &Text, items: &Items) -> Result<Vec<Epilogue>, Mistakes> {
    let mut definitions = Definitions::new(items, &text.text);
    definitions.all();
    let mut epilogues = Vec::new();
    for found in &items.epilogues {
        let mut errors = Errors::default();
        let tokens = found.item.to_token_stream();
        let read = epilogue_syntax::epilogue(found.arguments.clone(), tokens, definitions.files(), &mut errors);
        let errors = errors.into_found();
        if !errors.is_empty() {
            definitions.mistakes.extend(errors);
        } else if let Some(read) = read {
            let name = plain(&read.header.name);
            let tree = tree(&mut definitions, text, &found.module, name, (&read.epilogue, &read.checked));
            let backward = read.backward.as_ref().zip(tree.as_ref());
            let backward = backward.and_then(|(of, tree)| self::backward(&mut definitions, tree, of));
            epilogues.extend(tree.map(|tree| Epilogue { name: name.to_owned(), tree }));
            epilogues.extend(backward);
        }
    }
    finished(text, definitions.mistakes, epilogues)
}

/// The tree of the closure that the text is.
pub(super) fn closure(text: &Text) -> Result<Epilogue, Mistakes> {
    let tokens: TokenStream = text.text.parse().map_err(|error: proc_macro2::LexError| {
        Mistakes::of(text, [syn::Error::new(error.span(), "this is no Rust")])
    })?;
    let items = Items::default();
    let mut definitions = Definitions::new(&items, &text.text);
    let mut errors = Errors::default();
    let read = epilogue_syntax::closure(tokens, definitions.files(), &mut errors);
    definitions.mistakes.extend(errors.into_found());
    let mut epilogues = Vec::new();
    if let (Some(closure), true) = (&read, definitions.mistakes.is_empty()) {
        let tree = tree(&mut definitions, text, &Path::new(), "epilogue", (&closure.epilogue, &closure.checked));
        epilogues.extend(tree.map(|tree| Epilogue { name: "epilogue".to_owned(), tree }));
    }
    let epilogues = finished(text, definitions.mistakes, epilogues)?;
    epilogues.into_iter().next().ok_or_else(|| Mistakes::whole(text, "there is no epilogue in it"))
}

fn finished(text: &Text, mut found: Vec<syn::Error>, epilogues: Vec<Epilogue>) -> Result<Vec<Epilogue>, Mistakes> {
    if found.is_empty() {
        return Ok(epilogues);
    }
    found.sort_by_key(|error| {
        let start = error.span().start();
        (start.line, start.column)
    });
    let mut seen = std::collections::HashSet::new();
    found.retain(|error| {
        let start = error.span().start();
        seen.insert((start.line, start.column, error.to_string()))
    });
    Err(Mistakes::of(text, found))
}

fn tree(
    definitions: &mut Definitions<'_>,
    text: &Text,
    module: &Path,
    name: &'static str,
    (epilogue, checked): (&ast::Epilogue, &Checked),
) -> Option<Tree> {
    let builder = TreeBuilder::new(name, kept(&text.name));
    let mut sink = TreeSink { definitions, builder, module, constants: &checked.constants };
    walk::epilogue(epilogue, checked, &mut sink)?;
    Some(sink.builder.finish())
}

/// The backward pass that an attribute asks for.
fn backward(definitions: &mut Definitions<'_>, forward: &Tree, of: &Backward) -> Option<Epilogue> {
    let mut backward = derive::Backward::of(forward, plain(&of.through)).all_parameters();
    backward = of.given.iter().fold(backward, |backward, name| backward.given(plain(name)));
    backward = of.saved.iter().fold(backward, |backward, name| backward.saved(plain(name)));
    backward = of.gradients.iter().fold(backward, |backward, name| backward.gradient(plain(name)));
    backward = of.gradients_of_all.iter().fold(backward, |backward, name| backward.gradient_of_all(plain(name)));
    match backward.tree() {
        Ok(tree) => Some(Epilogue { name: tree.name().to_owned(), tree }),
        Err(error) => {
            definitions.mistake(of.place, error);
            None
        }
    }
}

/// Makes one tree.
struct TreeSink<'d, 'a> {
    definitions: &'d mut Definitions<'a>,
    builder: TreeBuilder,
    module: &'d Path,
    constants: &'d [ExprPath],
}

impl TreeSink<'_, '_> {
    /// The builder, at a place; lines and columns count from 1.
    fn at(&mut self, place: Span) -> &mut TreeBuilder {
        let start = place.start();
        let number = |x: usize| u32::try_from(x).unwrap_or(u32::MAX);
        self.builder.at(number(start.line), number(start.column + 1))
    }

    fn called(&mut self, function: Option<&'static expr::Function>, place: Span, arguments: &[NodeId]) -> NodeId {
        match function {
            Some(function) => self.at(place).call(function, arguments),
            None => self.literal(place, 0.0),
        }
    }

    fn optional(&mut self, element: Option<&Type>) -> Option<ElementType> {
        element.map(|element| self.definitions.element(element))
    }
}

impl Builder for TreeSink<'_, '_> {
    type Node = NodeId;

    fn apply(&mut self, place: Span, primitive: Primitive, operands: &[NodeId]) -> NodeId {
        self.at(place).apply(op(primitive), operands)
    }

    fn logic(&mut self, place: Span, logic: Logic, operands: &[NodeId]) -> NodeId {
        let logic = match logic {
            Logic::And => expr::Logic::And,
            Logic::Or => expr::Logic::Or,
            Logic::Not => expr::Logic::Not,
        };
        self.at(place).logic(logic, operands)
    }

    fn literal(&mut self, place: Span, value: f64) -> NodeId {
        self.at(place).literal(value)
    }

    fn constant(&mut self, place: Span, constant: usize) -> NodeId {
        let value = self.definitions.constant(self.constants, constant, self.module);
        self.literal(place, value)
    }

    fn integer_literal(&mut self, place: Span, value: i64) -> NodeId {
        self.at(place).integer_literal(value)
    }

    fn position(&mut self, word: &Ident) -> NodeId {
        let known = position(&word.to_string());
        let position = known.unwrap_or_else(|| {
            self.definitions.mistake(word.span(), format_args!("there is no position `{word}`"));
            Position::Row
        });
        self.at(word.span()).position(position)
    }

    fn random(&mut self, place: Span, seed: NodeId, stream: u32) -> NodeId {
        self.at(place).random(seed, stream)
    }

    fn integer(&mut self, place: Span, parameter: NodeId) -> NodeId {
        self.at(place).integer(parameter)
    }

    fn real(&mut self, place: Span, x: NodeId) -> NodeId {
        self.at(place).real(x)
    }

    fn call(&mut self, path: &syn::Path, arguments: &[NodeId]) -> NodeId {
        let place = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        let function = self.definitions.called(path, self.module, arguments.len());
        self.called(function, place, arguments)
    }

    fn operation(&mut self, name: &Ident, arguments: &[NodeId]) -> NodeId {
        let function = self.definitions.method(name, arguments.len());
        self.called(function, name.span(), arguments)
    }

    fn cast(&mut self, place: Span, element: &Type, x: NodeId) -> NodeId {
        let element = self.definitions.element(element);
        self.at(place).cast(element, x)
    }

    fn reduce(&mut self, reduction: &ast::Reduction, x: NodeId) -> NodeId {
        let (axis, batch) = match &reduction.axis {
            Some((ast::Axis::Row, _, batch)) => (Axis::Row, *batch),
            Some((ast::Axis::Column, _, batch)) => (Axis::Column, *batch),
            Some((ast::Axis::All, _, batch)) => (Axis::All, *batch),
            None => (Axis::All, false),
        };
        let word = reduction.op.as_ref().map(ToString::to_string).unwrap_or_default();
        if let (Some(op), None) = (composed_op(&word), &reduction.own) {
            return self.at(reduction.word.span()).compose(Composed { axis, batch, op }, x);
        }
        let op = match &reduction.own {
            // After a mistake there is no tree.
            Some(path) => self.definitions.reducer(path, self.module).map_or(ReduceOp::Add, ReduceOp::User),
            None => reduce_op(&word).unwrap_or_else(|| {
                self.definitions.mistake(reduction.word.span(), format_args!("there is no reduction `{word}`"));
                ReduceOp::Add
            }),
        };
        let form = if reduction.partial { Form::Partial } else { Form::Complete };
        self.at(reduction.word.span()).reduce(Reduction { axis, batch, op, form }, x)
    }

    fn name(&mut self, node: &NodeId, name: &Ident) {
        self.builder.name(*node, plain(name));
    }
}

impl EpilogueBuilder for TreeSink<'_, '_> {
    fn accum(&mut self, name: &Ident) -> NodeId {
        self.at(name.span()).accum(plain(name))
    }

    fn parameter(&mut self, name: &Ident, class: ClassKind, element: Option<&Type>) -> NodeId {
        let element = self.optional(element);
        let class = match class {
            ClassKind::TensorMut => ParameterClass::TensorMut,
            ClassKind::Bits => ParameterClass::Bits,
            ClassKind::RowVector => ParameterClass::RowVector,
            ClassKind::ColumnVector => ParameterClass::ColumnVector,
            ClassKind::Scalar => ParameterClass::Scalar,
            ClassKind::DeviceScalar => ParameterClass::DeviceScalar,
            ClassKind::Seed => ParameterClass::Seed,
            // The check has refused the classes that are no parameter's.
            ClassKind::Tensor | ClassKind::Accum | ClassKind::RowPartials | ClassKind::ColumnPartials => {
                ParameterClass::Tensor
            }
        };
        self.at(name.span()).parameter(plain(name), class, element)
    }

    fn output(&mut self, name: &Ident, node: NodeId, extent: Extent, element: Option<&Type>) {
        let element = self.optional(element);
        let class = match extent {
            Extent::Bits => return self.at(name.span()).output_bits(plain(name), node),
            Extent::Tensor => BroadcastClass::Tensor,
            Extent::RowVector => BroadcastClass::RowVector,
            Extent::ColumnVector => BroadcastClass::ColumnVector,
            Extent::Scalar => BroadcastClass::Scalar,
        };
        self.at(name.span()).output(plain(name), node, class, element);
    }
}

fn position(word: &str) -> Option<Position> {
    let all = [Position::Row, Position::Column, Position::Batch, Position::Rows, Position::Columns];
    all.into_iter().find(|position| position.name() == word)
}

fn reduce_op(word: &str) -> Option<ReduceOp> {
    Some(match word {
        "Add" => ReduceOp::Add,
        "Mul" => ReduceOp::Mul,
        "Max" => ReduceOp::Max,
        "Min" => ReduceOp::Min,
        "AbsMax" => ReduceOp::AbsMax,
        "SumSquares" => ReduceOp::SumSquares,
        "ArgMax" => ReduceOp::ArgMax,
        "ArgMin" => ReduceOp::ArgMin,
        _ => return None,
    })
}

fn composed_op(word: &str) -> Option<ComposedOp> {
    ComposedOp::ALL.into_iter().find(|op| op.name() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_language_is_known() {
        assert!(ast::POSITIONS.into_iter().all(|word| position(word).is_some()));
        assert!(ast::COMPOSED_OPS.into_iter().all(|word| composed_op(word).is_some_and(|op| op.name() == word)));
        assert_eq!(ast::COMPOSED_OPS.len(), ComposedOp::ALL.len());
        let reductions = || ast::REDUCE_OPS.into_iter().chain(ast::INDEX_OPS);
        assert!(reductions().all(|word| reduce_op(word).is_some_and(|op| format!("{op:?}") == word)));
    }
}
