//! Writes the function that says which tiles need their main loop (`device/needed.cuh`), if the tree's positions
//! exclude any.

use crate::cuda::Writer;
use crate::evt::{Bounds, Conditions, ParameterId, Position, Possible, ValidTree};
use crate::expr::cuda::{Scalar, integer};
use crate::expr::{Logic, Op};

/// A function while it is written: every value that is computed is a constant of its own.
struct Text<'a> {
    tree: &'a ValidTree,
    code: Writer,
    constants: usize,
}

impl Text<'_> {
    fn named(&mut self, ty: &str, value: &str) -> String {
        let name = format!("{}{}", ty.chars().next().unwrap_or('x'), self.constants);
        self.constants += 1;
        writeln!(self.code, "[[maybe_unused]] const {ty} {name} = {value};");
        name
    }
}

impl Bounds for Text<'_> {
    type Integer = String;
    type Truth = String;

    fn constant(&mut self, x: i64) -> String {
        integer(x, Scalar::I64)
    }

    fn position(&mut self, position: Position) -> [String; 2] {
        match position {
            Position::Row => ["rectangle.first_row", "rectangle.last_row"],
            Position::Column => ["rectangle.first_column", "rectangle.last_column"],
            Position::Batch => ["rectangle.batch"; 2],
            Position::Rows => ["problem.m"; 2],
            Position::Columns => ["problem.n"; 2],
        }
        .map(|value| format!("i64({value})"))
    }

    fn scalar(&mut self, parameter: ParameterId) -> Option<String> {
        let value = self.tree.parameter(parameter).value?;
        let load = format!("load(parameters.arguments._{}, rectangle.batch)", self.tree.value(value).name);
        Some(self.named("i64", &load))
    }

    fn apply(&mut self, op: Op, operands: &[String]) -> String {
        let value = match (op, operands) {
            (Op::Neg, [x]) => format!("-({x})"),
            (Op::Add, [x, y]) => format!("{x} + {y}"),
            (Op::Sub, [x, y]) => format!("{x} - {y}"),
            (Op::Mul, [x, y]) => format!("{x} * {y}"),
            (Op::Min, [x, y]) => format!("{x} < {y} ? {x} : {y}"),
            (_, [x, y, ..]) => format!("{x} > {y} ? {x} : {y}"),
            (_, rest) => rest.concat(),
        };
        self.named("i64", &value)
    }

    fn compare(&mut self, op: Op, x: &String, y: &String) -> String {
        let sign = if op == Op::Lt { "<" } else { "<=" };
        self.named("bool", &format!("{x} {sign} {y}"))
    }

    fn join(&mut self, logic: Logic, x: String, y: String) -> String {
        let sign = if logic == Logic::And { "&&" } else { "||" };
        self.named("bool", &format!("{x} {sign} {y}"))
    }
}

/// Writes the specialisation of `Need` for a kernel whose parameters are defined. Nothing, if the product is needed
/// everywhere.
pub(crate) fn specialisation(code: &mut Writer, tree: &ValidTree) {
    let mut text = Text { tree, code: Writer::new(), constants: 0 };
    let needed = Conditions::of(tree).map(|conditions| conditions.needs_product(tree, &mut text));
    let Some(Possible::If(needed)) = needed else { return };
    writeln! { code, "

        // Whether any element of a rectangle needs the product: from the least and the greatest values of positions.
        template <>
        struct Need<Config> {{
            static constexpr bool EVERYWHERE = false;

            static __device__ __forceinline__ bool of(const Parameters& parameters, const Rectangle& rectangle) {{
                [[maybe_unused]] const auto& problem = parameters.common.problem;
                {}
                return {needed};
            }}
        }};", text.code.text() }
    code.blank();
}
