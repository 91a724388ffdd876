//! The tail of a launch. The block that completes reductions also computes everything that follows from them, one value
//! a row or column.
//!
//! A thread that has combined the partials of a line has written the results itself, so it reads them back without a
//! barrier. All the tail's names are in a namespace of their own.

use super::arguments::{ReductionGroup, output_name};
use super::element::visitor_type;
use super::epilogue::EpilogueText;
use crate::cuda::Writer;
use crate::evt::{
    Axis, BroadcastClass, Computation, ParameterClass, Position, ValidOutput, ValidTree, ValueId, ValueKind,
};
use crate::expr::cuda::{Functions, element_name};
use crate::gemm::kernel::ArgumentViews;

/// A tail, ready to be written.
pub(crate) struct Tail<'a> {
    pub(crate) epilogue: EpilogueText<'a>,
    axis: Axis,
}

impl<'a> Tail<'a> {
    /// `views` are its arguments that are no plain vectors; `functions` collects what it calls.
    pub(crate) fn of(tree: &'a ValidTree, views: ArgumentViews, functions: &mut Functions) -> Self {
        let axis = match tree.outputs().first().map(|output| output.class) {
            Some(BroadcastClass::ColumnVector) => Axis::Row,
            Some(BroadcastClass::RowVector) => Axis::Column,
            _ => Axis::All,
        };
        Self { epilogue: EpilogueText::of(&Computation::of_pass(tree, None), views, functions), axis }
    }

    /// Whether it follows when a group of reductions is complete.
    pub(crate) fn follows(&self, group: ReductionGroup) -> bool {
        group == ReductionGroup { axis: self.axis, batch: false }
    }

    /// Writes its definitions, in a file of this name.
    pub(crate) fn write(&self, code: &mut Writer, file: &str) {
        writeln! { code, "

            // What follows from complete reductions, line by line: the block that completes them computes it.
            namespace tail {{" }
        code.blank();
        self.epilogue.write(code, file);
        writeln!(code, "\n\n}}  // namespace tail");
    }

    /// Writes the statements that compute it, for the lines of this tile; `walk` is the threads' walk.
    pub(crate) fn lines(&self, code: &mut Writer, walk: &str) {
        match self.axis {
            Axis::Row | Axis::Column => {
                let lines = if self.axis == Axis::Row { "RowLines" } else { "ColumnLines" };
                writeln! { code, "
                    using Lines = {lines}<{walk}>;
                    for (int i = {walk}::thread(); i < Lines::LINES; i += {walk}::THREADS) {{
                        const int line = Lines::first(work) + i;
                        if (line >= Lines::extent(problem)) break;" }
            }
            Axis::All => writeln!(code, "if ({walk}::thread() == 0) {{"),
        }
        for (_, element) in &self.epilogue.sweeps {
            let leaves: Vec<String> = element.leaves.iter().map(|id| self.leaf(*id)).collect();
            writeln!(code, "const auto values = tail::{}({});", element.name, leaves.join(", "));
        }
        for (i, output) in self.epilogue.tree.stores() {
            code.lines(&self.store(i, output));
        }
        writeln!(code, "}}");
    }

    fn store(&self, i: usize, output: &ValidOutput) -> String {
        let (to, element) = (output_name(i), element_name(output.element));
        let x = format!("narrow<{element}>(values._{})", self.epilogue.tree.value(output.value).name);
        match self.axis {
            Axis::Row | Axis::Column => {
                format!("store(parameters.of_tail.{to}, {x}, work.batch, line, Lines::extent(problem));")
            }
            Axis::All => format!("store(parameters.of_tail.{to}, {x}, work.batch);"),
        }
    }

    /// The function's argument for a leaf.
    fn leaf(&self, id: ValueId) -> String {
        let tree = self.epilogue.tree;
        let name = format!("_{}", tree.value(id).name);
        let parameter = match tree.value(id).kind {
            ValueKind::Position(position) => {
                return match position {
                    Position::Row | Position::Column => "line",
                    Position::Batch => "work.batch",
                    Position::Rows => "problem.m",
                    Position::Columns => "problem.n",
                }
                .to_owned();
            }
            ValueKind::Broadcast(parameter) => parameter,
            // A tail has vectors only.
            _ => return "0".to_owned(),
        };
        let (class, element) = (tree.parameter(parameter).class, element_name(tree.parameter(parameter).element));
        let load = match class {
            // Random numbers belong to elements of the matrix.
            ParameterClass::Seed => return "0".to_owned(),
            ParameterClass::Scalar => return format!("parameters.of_tail.{name}"),
            ParameterClass::DeviceScalar => format!("load(parameters.of_tail.{name}, work.batch)"),
            _ => format!("load(parameters.of_tail.{name}, work.batch, line, Lines::extent(problem))"),
        };
        let ty = visitor_type(tree, id);
        match self.epilogue.guards.iter().find(|guard| guard.member == format!("read{name}")) {
            Some(guard) => {
                let scalars: Vec<String> =
                    guard.scalars.iter().map(|id| format!("parameters.of_tail._{}", tree.value(*id).name)).collect();
                format!("widen<{ty}>(tail::{}({}) ? {load} : {element}{{}})", guard.function, scalars.join(", "))
            }
            None => format!("widen<{ty}>({load})"),
        }
    }
}
