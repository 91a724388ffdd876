//! Prints expressions as TVMScript text, for messages and for the printers of programs.

use std::collections::HashMap;
use std::fmt;

use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::tensor::Operation;
use crate::te::expr::var::Var;

/// The names of what an expression mentions.
pub(crate) trait Names {
    /// A variable.
    fn var(&self, var: Var) -> String {
        identifier(var.name())
    }

    /// A buffer.
    fn buffer(&self, buffer: &Buffer) -> String {
        identifier(buffer.name())
    }

    /// Whether floating-point numbers without a fraction are written with a point: `2.0`, not `2`.
    fn points(&self) -> bool {
        false
    }
}

/// The names that the user gave.
pub(crate) struct Plain;

impl Names for Plain {}

/// The name without the characters that an identifier can't have.
pub(crate) fn identifier(name: &str) -> String {
    let mut result: String = name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if result.is_empty() || result.starts_with(char::is_numeric) {
        result.insert(0, '_');
    }
    result
}

/// An expression with the user's names, for a message. If the expression is large, only its outermost operations are
/// printed.
pub(crate) fn expression(x: &Expr) -> String {
    if x.unfolded() <= LONGEST {
        return written(x, &Plain);
    }
    let rest = Expr::from(Var::local(REST, x.dtype()));
    written(&outermost(x, &rest, 5), &Elided)
}

/// The most nodes of an expression that are printed in a message.
const LONGEST: u64 = 500;

/// Stands for the rest of an expression.
const REST: &str = "…";

/// The names that the user gave, and `…` for what is left out.
struct Elided;

impl Names for Elided {
    fn var(&self, var: Var) -> String {
        if var.name() == REST { REST.to_owned() } else { identifier(var.name()) }
    }
}

/// The expression down to some depth; `rest` stands for what is deeper.
fn outermost(x: &Expr, rest: &Expr, depth: usize) -> Expr {
    let operands = x.operands();
    let mut shown = operands.iter().take(8).map(|operand| match depth {
        _ if operand.unfolded() <= 8 => (operand.id(), (*operand).clone()),
        0 => (operand.id(), rest.clone()),
        _ => (operand.id(), outermost(operand, rest, depth - 1)),
    });
    let shown: HashMap<Id, Expr> = shown.by_ref().collect();
    let own = x.id();
    x.replaced(&mut |part| if part.id() == own { None } else { Some(shown.get(&part.id()).unwrap_or(rest).clone()) })
}

/// Binding strength, weakest first.
fn precedence(x: &Expr) -> u8 {
    match x.kind() {
        Kind::Binary(op, ..) => match op {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne => 4,
            Binary::Add | Binary::Sub => 5,
            Binary::Mul | Binary::Div | Binary::FloorDiv | Binary::FloorMod => 6,
            Binary::Min | Binary::Max => 9,
            Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => 9,
        },
        Kind::Not(_) => 3,
        Kind::Int(value) if *value < 0 => 7,
        _ => 9,
    }
}

/// The text of an expression. Shared parts get names by `T.Let` where this makes the text much shorter.
pub(crate) fn print(x: &Expr, names: &dyn Names) -> String {
    let Some((parts, body)) = x.with_names("cse_v", None) else { return written(x, names) };
    let mut text = format!("{}{}", "T.Let(".repeat(parts.len()), written(&body, names));
    for (var, value) in parts.iter().rev() {
        text += &format!(", where={{{}: {}}})", names.var(*var), written(value, names));
    }
    text
}

fn written(x: &Expr, names: &dyn Names) -> String {
    match x.kind() {
        Kind::Int(value) => integer(*value, x.dtype()),
        Kind::Float(value) => format!("T.{}({})", x.dtype().script_name(), float(*value, names.points())),
        Kind::Var(var) => names.var(*var),
        Kind::Binary(op @ (Binary::Min | Binary::Max), a, b) => {
            let name = if *op == Binary::Min { "min" } else { "max" };
            format!("T.{name}({}, {})", written(a, names), written(b, names))
        }
        Kind::Binary(op, a, b) if op.is_bitwise() => {
            format!("T.{}({}, {})", symbol(*op), written(a, names), written(b, names))
        }
        Kind::Binary(op, a, b) => {
            let own = precedence(x);
            let side = |operand: &Expr, least: u8| {
                let text = written(operand, names);
                if precedence(operand) < least { format!("({text})") } else { text }
            };
            format!("{} {} {}", side(a, own), symbol(*op), side(b, own + 1))
        }
        Kind::Not(a) => format!("not {}", written(a, names)),
        Kind::Select(c, a, b) => {
            format!("T.Select({}, {}, {})", written(c, names), written(a, names), written(b, names))
        }
        Kind::Cast(a) => format!("T.Cast(\"{}\", {})", x.dtype().script_name(), written(a, names)),
        Kind::Apply(op, operands) => format!("T.{}({})", operation(*op), written_list(operands, names)),
        Kind::Call(function, operands) => format!("{}({})", function.name(), written_list(operands, names)),
        Kind::Read(tensor, indices) => format!("{}[{}]", tensor.name(), written_list(indices, names)),
        Kind::Load(buffer, indices) => format!("{}[{}]", names.buffer(buffer), written_list(indices, names)),
        Kind::Reduce(reduce, value) => reduction(reduce, *value, names),
        Kind::Likely(a) => format!("T.likely({})", written(a, names)),
        Kind::Invalid(error) => format!("<{error}>"),
    }
}

fn symbol(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::FloorDiv => "//",
        Binary::FloorMod => "%",
        Binary::Min => "min",
        Binary::Max => "max",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Gt => ">",
        Binary::Ge => ">=",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::And => "and",
        Binary::Or => "or",
        Binary::BitAnd => "bitwise_and",
        Binary::BitOr => "bitwise_or",
        Binary::BitXor => "bitwise_xor",
        Binary::Shl => "shift_left",
        Binary::Shr => "shift_right",
    }
}

fn operation(op: Op) -> String {
    format!("{op:?}").to_lowercase()
}

fn written_list(items: &[Expr], names: &dyn Names) -> String {
    items.iter().map(|x| written(x, names)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn list(items: &[Expr], names: &dyn Names) -> String {
    items.iter().map(|x| print(x, names)).collect::<Vec<_>>().join(", ")
}

fn integer(value: i64, dtype: DType) -> String {
    match dtype {
        DType::Bool => format!("T.bool({})", if value != 0 { "True" } else { "False" }),
        DType::I32 => value.to_string(),
        DType::U64 => format!("T.uint64({})", value.cast_unsigned()),
        DType::Number(_) => format!("T.{}({value})", dtype.script_name()),
    }
}

fn float(value: f64, points: bool) -> String {
    if value.is_nan() {
        "\"nan\"".to_owned()
    } else if value.is_infinite() {
        format!("\"{}inf\"", if value < 0.0 { "-" } else { "" })
    } else if points && value.fract() == 0.0 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}

/// The separators of a buffer, before whose dimensions its indices are flattened apart: among the flattened indices, or
/// among all.
pub(crate) fn separators(buffer: &Buffer, flat: bool) -> String {
    match buffer.separators() {
        [] => String::new(),
        places if flat => format!(", axis_separators={:?}", (1..=places.len()).collect::<Vec<_>>()),
        places => format!(", axis_separators={places:?}"),
    }
}

/// `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`
pub(crate) fn combiner(combiner: &Combiner, names: &dyn Names) -> String {
    let parameters: Vec<String> = combiner.left.iter().chain(&combiner.right).map(|var| names.var(*var)).collect();
    let result = match combiner.result.as_slice() {
        [one] => print(one, names),
        several => format!("({})", list(several, names)),
    };
    let identity = list(&combiner.identity, names);
    format!("T.comm_reducer(lambda {}: {result}, [{identity}])", parameters.join(", "))
}

fn reduction(reduce: &Reduce, value: usize, names: &dyn Names) -> String {
    let axes: Vec<String> = reduce
        .axes
        .iter()
        .map(|axis| {
            let (min, end) = axis.domain().map_or((Expr::int(0), Expr::int(0)), |domain| {
                (domain.min.clone(), crate::te::arith::simplify(&(&domain.min + &domain.extent)))
            });
            let range = format!("T.Range({}, {})", print(&min, names), print(&end, names));
            format!("T.iter_var({}, {range}, \"CommReduce\", \"\")", names.var(axis.var()))
        })
        .collect();
    format!(
        "T.reduce({}, source=[{}], init=[{}], axis=[{}], condition={}, value_index={value})",
        combiner(&reduce.combiner, names),
        list(&reduce.source, names),
        list(&reduce.init, names),
        axes.join(", "),
        print(&reduce.condition, names),
    )
}

impl Operation {
    /// The body of a computation, as TVM prints `op.body`. Empty for a placeholder or a scan.
    #[must_use]
    pub fn body_text(&self) -> String {
        let body = self.as_compute().map(|compute| list(&compute.body, &Plain)).unwrap_or_default();
        format!("[{body}]")
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expression(self))
    }
}
