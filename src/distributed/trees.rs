//! The trees of a product of several ranks: what each rank multiplies, and what is computed from the sums. It refuses
//! epilogues that don't work on a part of the rows or columns.

use super::error::Error;
use crate::ElementType;
use crate::evt::{
    BroadcastClass, DeclaredElement, Form, MAX_ACCUMULATORS, Node, OutputKind, Parameter, ParameterClass, ParameterId,
    Position, Reduction, Site, Tree, TreeBuilder, ValidOutput, ValidTree, ValueKind,
};

/// The sums over ranks, as parameters of the epilogue that is applied to them.
const SUMS: [&str; MAX_ACCUMULATORS] = ["sum_over_ranks", "second_over_ranks", "third_over_ranks", "fourth_over_ranks"];

/// A rank's partial sums: an output for each accumulator.
pub(super) fn partial(tree: &Tree, element: ElementType) -> Tree {
    let mut builder = TreeBuilder::new("partial_product", file!());
    for (name, sum) in tree.accumulators().iter().zip(SUMS) {
        let accumulator = builder.accum(name);
        builder.output(sum, accumulator, BroadcastClass::Tensor, Some(element));
    }
    builder.finish()
}

/// The epilogue with its accumulators read from memory, from parameters after its own.
///
/// # Errors
/// [`Error::Name`].
pub(super) fn of_sums(mut tree: Tree, element: ElementType) -> Result<Tree, Error> {
    let names = tree.parameters.iter().map(|parameter| parameter.name);
    if let Some(name) = names.chain(tree.outputs.iter().map(|output| output.name)).find(|name| SUMS.contains(name)) {
        return Err(Error::Name { name });
    }
    let own = u32::try_from(tree.parameters.len()).unwrap_or(u32::MAX);
    for data in &mut tree.nodes {
        if let Node::Accum(i) = data.node {
            data.node = Node::Load(ParameterId(own + u32::try_from(i).unwrap_or(u32::MAX)));
        }
    }
    let sums = SUMS.iter().take(tree.accumulators.len());
    tree.parameters.extend(sums.map(|&name| Parameter {
        name,
        class: ParameterClass::Tensor,
        element: DeclaredElement::Written(element),
        site: Site::default(),
    }));
    // There is a product, but nothing reads it.
    tree.accumulators.truncate(1);
    Ok(tree)
}

fn reductions(tree: &ValidTree) -> impl Iterator<Item = Reduction> {
    let values = tree.values().iter().filter_map(|value| match value.kind {
        ValueKind::Reduce(reduction, _) => Some(reduction),
        _ => None,
    });
    values.chain(tree.outputs().iter().filter_map(ValidOutput::reduction))
}

fn positions(tree: &ValidTree) -> impl Iterator<Item = Position> {
    tree.values().iter().filter_map(|value| match value.kind {
        ValueKind::Position(position) => Some(position),
        _ => None,
    })
}

/// A part of the product, which limits the trees that a run can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedPart {
    /// Some of the rows.
    Rows,
    /// Some of the columns.
    Columns,
}

/// The first reason why an epilogue needs all rows, or all columns.
pub(super) fn needs_all(tree: &ValidTree, part: SharedPart) -> Option<String> {
    let crosses = |reduction: &Reduction| {
        let along = match part {
            SharedPart::Rows => BroadcastClass::ColumnVector,
            SharedPart::Columns => BroadcastClass::RowVector,
        };
        // A result that keeps the axis has not crossed it.
        reduction.axis.result_class() != along || reduction.form == Form::Partial
    };
    if let Some(reduction) = reductions(tree).find(crosses) {
        let form = if reduction.form == Form::Partial { "per-tile partials" } else { "a reduction" };
        return Some(format!("{form} along {:?}", reduction.axis));
    }
    // Its element's row and column, as a position.
    if tree.has_chance() {
        return Some("`random(…)`".to_owned());
    }
    // A part of the columns may begin within a byte.
    if part == SharedPart::Columns && tree.has_bits() {
        return Some("`Bits`".to_owned());
    }
    let is_of = |position: &Position| match part {
        SharedPart::Rows => matches!(position, Position::Row | Position::Rows | Position::Batch),
        SharedPart::Columns => matches!(position, Position::Column | Position::Columns),
    };
    positions(tree).find(is_of).map(|position| format!("`{}()`", position.name()))
}

/// # Errors
/// [`Error::Before`] unless all that the epilogue returns can be summed over ranks.
pub(super) fn check_before(tree: &ValidTree) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::Before { epilogue: tree.name(), what });
    if reductions(tree).next().is_some() {
        return refuse("a reduction".to_owned());
    }
    for output in tree.outputs() {
        if output.parameter.is_some() {
            return refuse(format!("the `TensorMut` `{}`", output.name));
        }
        if output.packed {
            return refuse(format!("the `Bits` `{}`", output.name));
        }
        if output.class != BroadcastClass::Tensor || output.kind != OutputKind::Store {
            return refuse(format!("the {} `{}`", output.class.name(), output.name));
        }
    }
    Ok(())
}
