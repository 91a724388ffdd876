//! Drawings of a checked tree: as text, as DOT for Graphviz, and as SVG, which needs no other program.
//!
//! All show the user's names, shape classes and element types. The boxes and arrows of a [`Graph`] also serve programs of
//! several kernels.

mod dot;
mod layout;
mod svg;
mod text;

use super::{Axis, BroadcastClass, Form, OutputKind, ParameterClass, Reduction, ValidTree, ValueId, ValueKind};
use super::{ValidOutput, ValueType};
use crate::expr::Op;

/// The meaning of a box; each kind has its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Accum,
    Load,
    Broadcast,
    Position,
    Literal,
    Operation,
    Call,
    Cast,
    Store,
    Reduce,
    Product,
    Kernels,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Accum,
        Self::Load,
        Self::Broadcast,
        Self::Position,
        Self::Literal,
        Self::Operation,
        Self::Call,
        Self::Cast,
        Self::Store,
        Self::Reduce,
        Self::Product,
        Self::Kernels,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Accum => "accumulator",
            Self::Load => "load",
            Self::Broadcast => "broadcast",
            Self::Position => "position",
            Self::Literal => "number",
            Self::Operation => "operation",
            Self::Call => "function",
            Self::Cast => "cast",
            Self::Store => "store",
            Self::Reduce => "reduction",
            Self::Product => "product",
            Self::Kernels => "other kernels",
        }
    }

    /// Fill and outline: a pale and a dark colour of one hue. They also differ in lightness, for readers who can't tell
    /// hues.
    const fn colours(self) -> (&'static str, &'static str) {
        match self {
            Self::Accum => ("#ffd9a8", "#b35c00"),
            Self::Load => ("#cfe3ff", "#1f5fa8"),
            Self::Broadcast => ("#d5f0f2", "#1b7a80"),
            Self::Position => ("#e4e1f7", "#4b3fa0"),
            Self::Literal => ("#eeeeee", "#777777"),
            Self::Operation => ("#ffffff", "#444444"),
            Self::Call => ("#dcf2d3", "#3f7d2a"),
            Self::Cast => ("#efe0fa", "#7a3fa8"),
            Self::Store => ("#ffd6d6", "#a82a2a"),
            Self::Reduce => ("#fff2b8", "#8a6d00"),
            Self::Product => ("#ffe3c2", "#b35c00"),
            Self::Kernels => ("#eef1e6", "#56663a"),
        }
    }
}

/// A box.
#[derive(Clone, Debug)]
pub(crate) struct Box {
    pub(crate) kind: Kind,
    /// The user's name.
    pub(crate) name: Option<String>,
    /// The operation.
    pub(crate) what: String,
    /// Shape class and element type.
    pub(crate) ty: String,
}

impl Box {
    fn lines(&self) -> Vec<&str> {
        self.name.iter().map(String::as_str).chain([self.what.as_str(), self.ty.as_str()]).collect()
    }
}

/// An arrow from an operand to its user.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The role of the operand, if it isn't obvious.
    pub(crate) label: String,
    /// Whether the operand may be skipped.
    pub(crate) dashed: bool,
}

/// Boxes, operands before users, and arrows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) boxes: Vec<Box>,
    pub(crate) arrows: Vec<Arrow>,
}

impl Graph {
    /// The tree's graph: every number is drawn where it is used, everything else once.
    fn of(tree: &ValidTree) -> Self {
        let mut graph = Self::default();
        let mut places: Vec<usize> = Vec::new();
        for (id, value) in tree.enumerate() {
            if let ValueKind::Literal(_) | ValueKind::Integer(_) = value.kind {
                places.push(usize::MAX);
                continue;
            }
            let from: Vec<usize> = value.kind.operands().into_iter().map(|o| graph.operand(tree, o, &places)).collect();
            let place = graph.push(value_box(tree, id));
            for (position, from) in from.into_iter().enumerate() {
                let (label, dashed) = operand_label(tree, &value.kind, position);
                graph.arrows.push(Arrow { from, to: place, label, dashed });
            }
            places.push(place);
        }
        for output in tree.outputs() {
            let from = graph.operand(tree, output.value, &places);
            let to = graph.push(output_box(output));
            graph.arrows.push(Arrow { from, to, label: String::new(), dashed: false });
        }
        graph
    }

    pub(crate) fn push(&mut self, new: Box) -> usize {
        self.boxes.push(new);
        self.boxes.len() - 1
    }

    fn operand(&mut self, tree: &ValidTree, id: ValueId, places: &[usize]) -> usize {
        match tree.value(id).kind {
            ValueKind::Literal(_) | ValueKind::Integer(_) => self.push(value_box(tree, id)),
            _ => places[id.index()],
        }
    }
}

/// The language's word for a shape class.
const fn class_word(class: BroadcastClass) -> &'static str {
    match class {
        BroadcastClass::Scalar => "Scalar",
        BroadcastClass::RowVector => "RowVector",
        BroadcastClass::ColumnVector => "ColumnVector",
        BroadcastClass::Tensor => "Tensor",
    }
}

/// The number of accumulators and their element type.
fn accumulators(tree: &ValidTree) -> String {
    let element = tree.types().accumulator;
    match tree.accumulators().len() {
        1 => format!("accumulator {element}"),
        count => format!("{count} accumulators {element}"),
    }
}

fn value_box(tree: &ValidTree, id: ValueId) -> Box {
    let value = tree.value(id);
    let class = class_word(value.class);
    let ty = match value.ty {
        ValueType::Real(real) => format!("{class} {real}"),
        ValueType::Integer(width) => format!("{class} {}", width.element()),
        ValueType::Bool => format!("{class} bool"),
        ValueType::Seed => "Seed".to_owned(),
    };
    let name = value.user_name.map(str::to_owned);
    let (kind, what, ty) = match &value.kind {
        ValueKind::Accum(i) => {
            let what = match tree.accumulators().len() {
                1 => "accumulator".to_owned(),
                _ => format!("accumulator {}", i + 1),
            };
            (Kind::Accum, what, format!("{class} {}", tree.types().accumulator))
        }
        ValueKind::Load(p) => match tree.parameter(*p).class {
            ParameterClass::Bits => (Kind::Load, "load".to_owned(), "Bits".to_owned()),
            _ => (Kind::Load, "load".to_owned(), format!("{class} {}", tree.parameter(*p).element)),
        },
        ValueKind::Broadcast(p) => {
            let parameter = tree.parameter(*p);
            let (what, class) = match parameter.class {
                ParameterClass::Scalar => ("host scalar", "Scalar"),
                ParameterClass::DeviceScalar => ("load", "DeviceScalar"),
                _ => ("load", class),
            };
            match parameter.class {
                ParameterClass::Seed => (Kind::Broadcast, "seed".to_owned(), ty),
                _ => (Kind::Broadcast, what.to_owned(), format!("{class} {}", parameter.element)),
            }
        }
        ValueKind::Literal(x) => (Kind::Literal, format!("{x}"), tree.real().to_string()),
        ValueKind::Integer(x) => (Kind::Literal, format!("{x}"), "integer".to_owned()),
        ValueKind::Position(position) => (Kind::Position, format!("{}()", position.name()), ty),
        ValueKind::Random(_, 0) => (Kind::Position, "random".to_owned(), ty),
        ValueKind::Random(_, stream) => (Kind::Position, format!("random, stream {stream}"), ty),
        ValueKind::Logic(logic, _) => (Kind::Operation, logic.symbol().to_owned(), ty),
        ValueKind::ToReal(_) => (Kind::Operation, "real".to_owned(), ty),
        ValueKind::Apply(op, _) => (Kind::Operation, op.symbol().to_owned(), ty),
        ValueKind::Scaled { .. } => (Kind::Operation, "*".to_owned(), ty),
        ValueKind::Call(function, _) => (Kind::Call, function.name().to_owned(), ty),
        ValueKind::Cast(to, _) => (Kind::Cast, format!("cast to {to}"), ty),
        ValueKind::Reduce(reduction, _) => (Kind::Reduce, reduction_text(*reduction), ty),
    };
    let ty = if value.phase == 0 { ty } else { format!("{ty}, phase {}", value.phase) };
    Box { kind, name, what, ty }
}

fn output_box(output: &ValidOutput) -> Box {
    let (kind, what) = match output.kind {
        OutputKind::Store => (Kind::Store, "store".to_owned()),
        OutputKind::Reduce(reduction) => (Kind::Reduce, reduction_text(reduction)),
    };
    let class = match output.reduction() {
        Some(Reduction { form: Form::Partial, axis: Axis::Row, .. }) => "RowPartials",
        Some(Reduction { form: Form::Partial, .. }) => "ColumnPartials",
        _ => class_word(output.class),
    };
    let ty = if output.packed { "Bits".to_owned() } else { format!("{class} {}", output.element) };
    Box { kind, name: Some(output.name.to_owned()), what, ty }
}

/// A reduction as the user writes it: `reduction_op(…, Row, Add)`.
fn reduction_text(reduction: Reduction) -> String {
    let axis = match reduction.axis {
        Axis::Row => "Row",
        Axis::Column => "Column",
        Axis::All => "All",
    };
    let op = reduction.op.name();
    if reduction.batch { format!("reduce (({axis}, Batch), {op})") } else { format!("reduce ({axis}, {op})") }
}

/// The role of an operand, and whether it may be skipped.
fn operand_label(tree: &ValidTree, kind: &ValueKind, position: usize) -> (String, bool) {
    match kind {
        ValueKind::Scaled { scalar, .. } if position == 1 => {
            let scalar = tree.value(*scalar);
            (format!("unless {} = 0", scalar.user_name.unwrap_or(&scalar.name)), true)
        }
        ValueKind::Apply(Op::Select, _) => (["if", "then", "else"][position.min(2)].to_owned(), false),
        ValueKind::Apply(op, operands) => {
            let plain = operands.len() == 1 || matches!(op, Op::Add | Op::Mul | Op::Min | Op::Max | Op::Eq | Op::Ne);
            let words = if *op == Op::Fma { ["factor", "factor", "summand"] } else { ["left", "right", "right"] };
            (if plain { String::new() } else { words[position.min(2)].to_owned() }, false)
        }
        ValueKind::Call(function, operands) if operands.len() > 1 => {
            (function.parameters().get(position).copied().unwrap_or_default().to_owned(), false)
        }
        _ => (String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::ElementType;
    use crate::evt::{ReduceOp, TreeBuilder, Types};
    use crate::ops;

    /// A tree with every kind of box.
    fn example() -> ValidTree {
        let mut b = TreeBuilder::new("example", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let bias = b.parameter("bias", ParameterClass::RowVector, Some(ElementType::F32));
        let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        b.parameter("unused", ParameterClass::DeviceScalar, None);
        let scaled = b.apply(Op::Mul, &[alpha, accum]);
        let old = b.apply(Op::Mul, &[beta, c]);
        let sum = b.apply(Op::Add, &[scaled, old]);
        let z = b.apply(Op::Add, &[sum, bias]);
        b.name(z, "z");
        let gelu = b.call(ops::gelu::function(), &[z]);
        let zero = b.literal(0.0);
        let positive = b.apply(Op::Gt, &[z, zero]);
        let d = b.apply(Op::Select, &[positive, gelu, z]);
        b.name(d, "d");
        let rounded = b.cast(ElementType::BF16, d);
        let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::SumSquares, form: Form::Complete };
        let squares = b.reduce(sum, rounded);
        b.output("d", d, BroadcastClass::Tensor, None);
        b.output("squares", squares, BroadcastClass::ColumnVector, None);
        b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("valid")
    }

    #[test]
    fn text() {
        expect![[r#"
            example: A f16, B f16, accumulator f32, computed in f32
            d = store: Tensor f16
            └─ d = select: Tensor f32
               ├─ [if] >: Tensor bool
               │  ├─ z = +: Tensor f32
               │  │  ├─ +: Tensor f32
               │  │  │  ├─ *: Tensor f32
               │  │  │  │  ├─ alpha = host scalar: Scalar f32
               │  │  │  │  └─ accum = accumulator: Tensor f32
               │  │  │  └─ *: Tensor f32
               │  │  │     ├─ beta = host scalar: Scalar f32
               │  │  │     └─ [unless beta = 0] c = load: Tensor f16
               │  │  └─ bias = load: RowVector f32
               │  └─ 0: f32
               ├─ [then] gelu: Tensor f32
               │  └─ z (above)
               └─ [else] z (above)
            squares = reduce (Row, SumSquares): ColumnVector f32
            └─ cast to bf16: Tensor f32
               └─ d (above)
            not used: unused
        "#]]
        .assert_eq(&example().to_string());
    }

    /// A reduction that others are computed from is a box like others, and says its phase.
    #[test]
    fn phases() {
        let mut b = TreeBuilder::new("softmax", "a.rs");
        let accum = b.accum("accum");
        let rows = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };
        let largest = b.reduce(rows(ReduceOp::Max), accum);
        let shifted = b.apply(Op::Sub, &[accum, largest]);
        let e = b.call(ops::exp::function(), &[shifted]);
        b.name(e, "e");
        let sum = b.reduce(rows(ReduceOp::Add), e);
        b.name(sum, "sum");
        let d = b.apply(Op::Div, &[e, sum]);
        b.output("d", d, BroadcastClass::Tensor, None);
        b.output("sum", sum, BroadcastClass::ColumnVector, None);
        let tree = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("valid");
        expect![[r#"
            softmax: A f16, B f16, accumulator f32, computed in f32
            d = store: Tensor f16
            └─ /: Tensor f32, phase 2
               ├─ e = exp: Tensor f32, phase 1
               │  └─ -: Tensor f32, phase 1
               │     ├─ accum = accumulator: Tensor f32
               │     └─ reduce (Row, Max): ColumnVector f32, phase 1
               │        └─ accum = accumulator: Tensor f32
               └─ sum = reduce (Row, Add): ColumnVector f32, phase 2
                  └─ e (above)
            sum = reduce (Row, Add): ColumnVector f32
            └─ e (above)
        "#]]
        .assert_eq(&tree.to_string());
        assert_eq!(tree.to_dot().matches("phase 2").count(), 2);
        assert!(tree.to_svg().contains("phase 1"));
    }

    #[test]
    fn dot() {
        expect![[r##"
            digraph "example" {
              node [shape=box, style="rounded,filled", fontname="sans-serif"];
              edge [fontname="sans-serif", fontsize=10];
              n0 [label="accum\naccumulator\nTensor f32", fillcolor="#ffd9a8", color="#b35c00"];
              n1 [label="c\nload\nTensor f16", fillcolor="#cfe3ff", color="#1f5fa8"];
              n2 [label="bias\nload\nRowVector f32", fillcolor="#d5f0f2", color="#1b7a80"];
              n3 [label="alpha\nhost scalar\nScalar f32", fillcolor="#d5f0f2", color="#1b7a80"];
              n4 [label="beta\nhost scalar\nScalar f32", fillcolor="#d5f0f2", color="#1b7a80"];
              n5 [label="*\nTensor f32", fillcolor="#ffffff", color="#444444"];
              n6 [label="*\nTensor f32", fillcolor="#ffffff", color="#444444"];
              n7 [label="+\nTensor f32", fillcolor="#ffffff", color="#444444"];
              n8 [label="z\n+\nTensor f32", fillcolor="#ffffff", color="#444444"];
              n9 [label="gelu\nTensor f32", fillcolor="#dcf2d3", color="#3f7d2a"];
              n10 [label="0\nf32", fillcolor="#eeeeee", color="#777777"];
              n11 [label=">\nTensor bool", fillcolor="#ffffff", color="#444444"];
              n12 [label="d\nselect\nTensor f32", fillcolor="#ffffff", color="#444444"];
              n13 [label="cast to bf16\nTensor f32", fillcolor="#efe0fa", color="#7a3fa8"];
              n14 [label="d\nstore\nTensor f16", fillcolor="#ffd6d6", color="#a82a2a"];
              n15 [label="squares\nreduce (Row, SumSquares)\nColumnVector f32", fillcolor="#fff2b8", color="#8a6d00"];
              n3 -> n5 [label=""];
              n0 -> n5 [label=""];
              n4 -> n6 [label=""];
              n1 -> n6 [label="unless beta = 0", style=dashed];
              n5 -> n7 [label=""];
              n6 -> n7 [label=""];
              n7 -> n8 [label=""];
              n2 -> n8 [label=""];
              n8 -> n9 [label=""];
              n8 -> n11 [label="left"];
              n10 -> n11 [label="right"];
              n11 -> n12 [label="if"];
              n9 -> n12 [label="then"];
              n8 -> n12 [label="else"];
              n12 -> n13 [label=""];
              n12 -> n14 [label=""];
              n13 -> n15 [label=""];
            }
        "##]]
        .assert_eq(&example().to_dot());
    }

    #[test]
    fn svg() {
        expect_test::expect_file!["example.svg"].assert_eq(&example().to_svg());
    }
}
