//! Writes the epilogue of one element as a C++ function, with the user's names and lines.

use crate::cuda::{Writer, one_line};
use crate::evt::{ParameterClass, ValidTree, Value, ValueId, ValueKind, ValueType};
use crate::expr::cuda::{Functions, Scalar, integer, literal, statements};

/// A function of one element: from the values of the tree's leaves to those that outputs store or reduce.
#[derive(Debug)]
pub(crate) struct ElementFunction {
    /// Its C++ name.
    pub(crate) name: String,
    /// The C++ type of what it gives.
    pub(crate) values: String,
    /// The leaves that it takes, in the order of its parameters.
    pub(crate) leaves: Vec<ValueId>,
    /// The definitions of that type (with a field `_name` for every result) and of the function.
    pub(crate) text: String,
}

/// A function that decides from the host scalars whether an argument in memory is needed: BLAS's beta = 0.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Its C++ name.
    pub(crate) function: String,
    /// The visitor's member that keeps the result: `read_` and the argument's name.
    pub(crate) member: String,
    /// The host scalars that it takes, in the order of its parameters.
    pub(crate) scalars: Vec<ValueId>,
    /// Its definition.
    pub(crate) text: String,
}

/// Whether a visitor gives it. (What a seed gives is a random number.)
fn is_leaf(value: &Value) -> bool {
    match value.kind {
        ValueKind::Accum(_) | ValueKind::Load(_) | ValueKind::Position(_) | ValueKind::Random(..) => true,
        ValueKind::Broadcast(_) => value.ty != ValueType::Seed,
        _ => false,
    }
}

/// The random numbers of a visitor, each with its own name, that of its seed, and its stream.
pub(crate) fn chances(tree: &ValidTree) -> Vec<(String, String, u32)> {
    let chances = tree.values().iter().filter_map(|value| match value.kind {
        ValueKind::Random(seed, stream) => {
            Some((format!("_{}", value.name), format!("_{}", tree.value(seed).name), stream))
        }
        _ => None,
    });
    chances.collect()
}

/// The C++ type of a value.
fn type_of(tree: &ValidTree, id: ValueId) -> &'static str {
    tree.value(id).scalar().cuda(tree.real())
}

/// The type of a value in the visitor, with `Real` for the arithmetic type.
pub(crate) fn visitor_type(tree: &ValidTree, id: ValueId) -> &'static str {
    match tree.value(id).scalar() {
        Scalar::Real => "Real",
        other => other.cuda(tree.real()),
    }
}

/// `const float c, const float alpha`
fn parameter_list(tree: &ValidTree, ids: &[ValueId]) -> String {
    let list: Vec<String> =
        ids.iter().map(|id| format!("const {} {}", type_of(tree, *id), tree.value(*id).name)).collect();
    list.join(", ")
}

/// The C++ expression for a value whose statement has been written.
fn reference(tree: &ValidTree, id: ValueId) -> String {
    match tree.value(id).kind {
        ValueKind::Literal(x) => literal(x, tree.real()),
        ValueKind::Integer(x) => integer(x, tree.value(id).scalar()),
        _ => tree.value(id).name.clone(),
    }
}

/// A path as a string of C++. (PTX has it, too, whose strings have no quotation marks in them.)
fn path_literal(path: &str) -> String {
    format!("\"{}\"", one_line(path).replace('"', "'").replace('\\', r"\\"))
}

/// A visitor's values of an accumulator, named by its index among the accumulators that a kernel has.
pub(crate) fn accumulator(tree: &ValidTree, accumulator: usize) -> String {
    let place = tree.live_accumulators().take_while(|live| *live < accumulator).count();
    format!("accum[{place}]")
}

impl ElementFunction {
    /// Writes the function, which has a number where a kernel has several; `functions` collects the functions that it calls.
    pub(crate) fn of(tree: &ValidTree, number: Option<usize>, functions: &mut Functions) -> Self {
        let leaves: Vec<ValueId> = tree.enumerate().filter(|(_, v)| is_leaf(v)).map(|(id, _)| id).collect();
        let mut results: Vec<ValueId> = Vec::new();
        for output in tree.outputs() {
            if !results.contains(&output.value) {
                results.push(output.value);
            }
        }
        // No value, argument or guard has a name with an underscore at its end.
        let (of, number) = match number {
            Some(number) => (format!("_{number}"), number.to_string()),
            None => (String::new(), String::new()),
        };
        let sweep = if number.is_empty() { String::new() } else { format!(", in sweep {number}") };
        let name = format!("{}{of}_", crate::expr::identifier::sanitize(tree.name()));
        let values = format!("Values{number}");
        let mut code = Writer::new();
        let given: Vec<String> = results.iter().map(|id| reference(tree, *id)).collect();
        let of = one_line(tree.name());
        writeln!(code, "// What `{of}` stores or reduces of one element{sweep}.\nstruct {values} {{");
        for id in &results {
            writeln!(code, "{} _{};", type_of(tree, *id), tree.value(*id).name);
        }
        let parameters = parameter_list(tree, &leaves);
        writeln! { code, "
            }};

            // `{of}` of one element{sweep}.
            __device__ __forceinline__ {values} {name}({parameters}) {{" }
        for statement in statements(tree, |_| true, functions) {
            if statement.line != 0 {
                writeln!(code, "#line {} {}", statement.line, path_literal(tree.file()));
            }
            writeln!(code, "{statement}");
        }
        writeln!(code, "return {{{}}};\n}}", given.join(", "));
        let text = code.text();
        Self { name, values, leaves, text }
    }
}

impl Guard {
    /// One guard for every argument that is read only if a product of host scalars is not 0.
    pub(crate) fn all(tree: &ValidTree, functions: &mut Functions) -> Vec<Self> {
        let mut guards = Vec::new();
        for (parameter, value) in tree.loads().chain(tree.broadcasts()) {
            if let Some(factors) = tree.guard(parameter) {
                guards.push(Self::of(tree, &tree.value(value).name, factors, functions));
            }
        }
        guards
    }

    fn of(tree: &ValidTree, name: &str, factors: &[ValueId], functions: &mut Functions) -> Self {
        // The values that the factors depend on.
        let mut needed = vec![false; tree.values().len()];
        for factor in factors {
            needed[factor.index()] = true;
        }
        for (id, value) in tree.enumerate().collect::<Vec<_>>().into_iter().rev() {
            if needed[id.index()] {
                value.kind.operands().iter().for_each(|operand| needed[operand.index()] = true);
            }
        }
        let scalars: Vec<ValueId> = tree
            .broadcasts()
            .filter(|(p, v)| tree.parameter(*p).class == ParameterClass::Scalar && needed[v.index()])
            .map(|(_, value)| value)
            .collect();
        let function = format!("_needs_{name}");
        let mut code = Writer::new();
        let list = parameter_list(tree, &scalars);
        writeln! { code, "
            // Whether `{name}` is needed: not where it is multiplied by 0.
            __device__ __forceinline__ bool {function}({list}) {{" }
        for statement in statements(tree, |value| needed[value], functions) {
            writeln!(code, "{statement}");
        }
        let zero = literal(0.0, tree.real());
        let nonzero: Vec<String> = factors.iter().map(|f| format!("{} != {zero}", reference(tree, *f))).collect();
        writeln!(code, "return {};\n}}", nonzero.join(" || "));
        let text = code.text();
        Self { function, member: format!("read_{name}"), scalars, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, TreeBuilder, Types};
    use crate::expr::Op;

    /// Names and paths may have characters that end a line of C++.
    #[test]
    fn a_name_or_path_ends_no_line() {
        let mut builder = TreeBuilder::new("a\n#error b", "c\r\n#error d\\\u{200b}\"é.rs");
        builder.at(7, 3);
        let accum = builder.accum("accum");
        let one = builder.literal(1.0);
        let sum = builder.apply(Op::Add, &[accum, one]);
        builder.output("d", sum, BroadcastClass::Tensor, None);
        let tree = builder.finish().validate(Types::new(ElementType::F32, ElementType::F32)).expect("a valid tree");
        let text = ElementFunction::of(&tree, None, &mut Functions::new(tree.real(), false)).text;
        assert!(text.lines().all(|line| !line.starts_with("#error")), "{text}");
        assert!(text.contains("#line 7 \"c??#error d\\\\\u{200b}'é.rs\"\n"), "{text}");
        assert!(text.contains("// `a?#error b` of one element."), "{text}");
    }
}
