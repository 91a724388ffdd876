//! The tail of a launch: what the block that completes reductions computes of them at once, one value a row or column.
//!
//! A thread that has combined the partials of a line has written the results itself, so it reads them back without a
//! barrier. All the tail's names are in a namespace of their own.

use super::arguments::{EpilogueArguments, ReductionGroup, output_name};
use super::element::{ElementFunction, Guard, visitor_type};
use super::text::Numbered;
use crate::evt::{Axis, BroadcastClass, ParameterClass, Position, ValidOutput, ValidTree, ValueId, ValueKind};
use crate::expr::cuda::{Functions, element_name};

/// The kernel's parameter has a tail's arguments after its own.
pub(crate) const fn field(tail: Option<&Tail<'_>>) -> &'static str {
    match tail {
        Some(_) => "    tail::Arguments of_tail;\n",
        None => "",
    }
}

/// A tail, ready to be written.
pub(crate) struct Tail<'a> {
    tree: &'a ValidTree,
    pub(crate) arguments: EpilogueArguments,
    element: ElementFunction,
    guards: Vec<Guard>,
    axis: Axis,
}

impl<'a> Tail<'a> {
    /// `functions` collects what it calls.
    pub(crate) fn of(tree: &'a ValidTree, functions: &mut Functions) -> Self {
        let axis = match tree.outputs().first().map(|output| output.class) {
            Some(BroadcastClass::ColumnVector) => Axis::Row,
            Some(BroadcastClass::RowVector) => Axis::Column,
            _ => Axis::All,
        };
        let (element, guards) = (ElementFunction::of(tree, functions), Guard::all(tree, functions));
        Self { tree, arguments: EpilogueArguments::of(tree), element, guards, axis }
    }

    /// Whether it follows when a group of reductions is complete.
    pub(crate) fn follows(&self, group: ReductionGroup) -> bool {
        group == ReductionGroup { axis: self.axis, batch: false }
    }

    /// Writes its definitions.
    pub(crate) fn write(&self, text: &mut Numbered) {
        text.push(
            "\n// What follows from complete reductions, line by line: the block that completes them computes it.\n",
        );
        text.push("namespace tail {\n\n");
        text.push(&self.element.text);
        text.resume_numbering();
        for guard in &self.guards {
            text.push("\n");
            text.push(&guard.text);
        }
        text.push("\n");
        text.push(&self.arguments.layout.cuda());
        text.push("\n}  // namespace tail\n");
    }

    /// The statements that compute it, for the lines of this tile; `walk` is the threads' walk.
    pub(crate) fn lines(&self, walk: &str) -> Vec<String> {
        let (first, last, indent) = match self.axis {
            Axis::Row | Axis::Column => {
                let lines = if self.axis == Axis::Row { "RowLines" } else { "ColumnLines" };
                let first = vec![
                    format!("            using Lines = {lines}<{walk}>;"),
                    format!("            for (int i = {walk}::thread(); i < Lines::LINES; i += {walk}::THREADS) {{"),
                    "                const int line = Lines::first(work) + i;".to_owned(),
                    "                if (line >= Lines::extent(problem)) break;".to_owned(),
                ];
                (first, "            }", "                ")
            }
            Axis::All => {
                (vec![format!("            if ({walk}::thread() == 0) {{")], "            }", "                ")
            }
        };
        let mut lines = first;
        let leaves: Vec<String> = self.element.leaves.iter().map(|id| self.leaf(*id)).collect();
        lines.push(format!("{indent}const auto values = tail::{}({});", self.element.name, leaves.join(", ")));
        for (i, output) in self.tree.stores() {
            lines.push(format!("{indent}{}", self.store(i, output)));
        }
        lines.push(last.to_owned());
        lines
    }

    fn store(&self, i: usize, output: &ValidOutput) -> String {
        let (to, element) = (output_name(i), element_name(output.element));
        let x = format!("narrow<{element}>(values._{})", self.tree.value(output.value).name);
        match self.axis {
            Axis::Row | Axis::Column => {
                format!("store(parameters.of_tail.{to}, {x}, work.batch, line, Lines::extent(problem));")
            }
            Axis::All => format!("store(parameters.of_tail.{to}, {x}, work.batch);"),
        }
    }

    /// What the function takes for a leaf.
    fn leaf(&self, id: ValueId) -> String {
        let name = format!("_{}", self.tree.value(id).name);
        let parameter = match self.tree.value(id).kind {
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
        let (class, element) =
            (self.tree.parameter(parameter).class, element_name(self.tree.parameter(parameter).element));
        let load = match class {
            // What random numbers are of is an element of the matrix.
            ParameterClass::Seed => return "0".to_owned(),
            ParameterClass::Scalar => return format!("parameters.of_tail.{name}"),
            ParameterClass::DeviceScalar => format!("load(parameters.of_tail.{name}, work.batch)"),
            _ => format!("load(parameters.of_tail.{name}, work.batch, line, Lines::extent(problem))"),
        };
        let ty = visitor_type(self.tree, id);
        match self.guards.iter().find(|guard| guard.member == format!("read{name}")) {
            Some(guard) => {
                let scalars: Vec<String> = guard
                    .scalars
                    .iter()
                    .map(|id| format!("parameters.of_tail._{}", self.tree.value(*id).name))
                    .collect();
                format!("widen<{ty}>(tail::{}({}) ? {load} : {element}{{}})", guard.function, scalars.join(", "))
            }
            None => format!("widen<{ty}>({load})"),
        }
    }
}
