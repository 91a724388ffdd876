//! Elementwise functions as `__device__` functions.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use smallvec::SmallVec;

use super::statements::{Formula, Values, statements};
use super::{Accuracy, real_name};
use crate::expr::{Body, ExprNode, Expression, Function, Real, identifier};

/// The elementwise functions that printed expressions call, and how accurate they have to be.
#[derive(Debug)]
pub struct Functions {
    real: Real,
    fast: bool,
    names: HashMap<(usize, Accuracy), String>,
    taken: HashSet<String>,
    text: String,
}

impl Functions {
    /// None yet. `fast` allows approximate instructions whatever the output's type (not in f64).
    #[must_use]
    pub fn new(real: Real, fast: bool) -> Self {
        // The namespaces inside `ops`.
        let taken = ["approx11", "approx8"].map(str::to_owned).into();
        Self { real, fast, names: HashMap::new(), taken, text: String::new() }
    }

    /// The arithmetic type.
    #[must_use]
    pub const fn real(&self) -> Real {
        self.real
    }

    /// The bits that an operation must get right, given those that its outputs have.
    pub(super) fn allowed(&self, significand: u32) -> u32 {
        if self.fast { significand.min(8) } else { significand }
    }

    /// The name to call a function by; makes sure that it, and what it calls, is defined.
    pub(super) fn require(&mut self, function: &'static Function, accuracy: Accuracy) -> String {
        // A hand-written body is the same at every accuracy.
        let accuracy = if function.cuda().is_some() { Accuracy::Full } else { accuracy };
        let key = (std::ptr::from_ref(function).addr(), accuracy);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let wanted = identifier::sanitize(function.name());
        let mut name = wanted.clone();
        let mut count = 2;
        while !self.taken.insert(format!("{}{name}", accuracy.namespace())) {
            name = format!("{wanted}_{count}");
            count += 1;
        }
        let called = format!("ops::{}{name}", accuracy.namespace());
        self.names.insert(key, called.clone());
        let definition = self.definition(function, &name, accuracy);
        self.text.push_str(&definition);
        called
    }

    /// The name to call a function by where all bits of its result count: `ops::f`, within `namespace epilogue`.
    pub fn accurate(&mut self, function: &'static Function) -> String {
        self.require(function, Accuracy::Full)
    }

    /// The name to call a function by where 11 significant bits of its result count: the same in f64.
    pub fn of_11_bits(&mut self, function: &'static Function) -> String {
        let accuracy = Accuracy::of(11, self.real);
        self.require(function, accuracy)
    }

    fn definition(&mut self, function: &'static Function, name: &str, accuracy: Accuracy) -> String {
        let real = real_name(self.real);
        let parameters = Parameters::of(function);
        let list: Vec<String> = parameters.names.iter().map(|p| format!("{real} {p}")).collect();
        let mut body = String::new();
        match (function.cuda(), function.body()) {
            (Some(text), _) => {
                // `real` is the arithmetic type's name in hand-written bodies.
                let _ = writeln!(body, "    using real = {real};");
                let _ = writeln!(body, "    {}", text.trim());
            }
            (None, Body::Primitive(op)) => {
                let values = PrimitiveValues { op: *op, parameters: &parameters.names, accuracy };
                self.print(&values, parameters.names.len(), &mut body);
            }
            (None, Body::Expression(expression)) => {
                let values = ExpressionValues::new(expression, &parameters, accuracy);
                self.print(&values, expression.root().index(), &mut body);
            }
        }
        let (open, close) = match accuracy.namespace().trim_end_matches("::") {
            "" => ("namespace ops {".to_owned(), "}  // namespace ops"),
            inner => (format!("namespace ops::{inner} {{"), "}"),
        };
        format!("{open}\n__device__ __forceinline__ {real} {name}({}) {{\n{body}}}\n{close}\n", list.join(", "))
    }

    fn print(&mut self, values: &impl Values, root: usize, body: &mut String) {
        for statement in statements(values, |_| true, self) {
            if statement.value == root {
                let _ = writeln!(body, "    return {};", statement.expression);
            } else {
                let _ = writeln!(body, "    {statement}");
            }
        }
        match values.formula(root) {
            Formula::Given => {
                let _ = writeln!(body, "    return {};", values.name(root));
            }
            Formula::Literal(number) => {
                let _ = writeln!(body, "    return {};", super::literal(number, self.real));
            }
            _ => {}
        }
    }

    /// The definitions, callees first, each in `namespace ops`.
    #[must_use]
    pub fn definitions(&self) -> &str {
        &self.text
    }
}

/// Parameters' identifiers, each different.
struct Parameters {
    names: Vec<String>,
    taken: HashSet<String>,
}

impl Parameters {
    fn of(function: &Function) -> Self {
        let mut this = Self { names: Vec::new(), taken: HashSet::new() };
        for parameter in function.parameters() {
            let name = this.unique(&identifier::sanitize(parameter));
            this.names.push(name);
        }
        this
    }

    fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut count = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{count}");
            count += 1;
        }
        name
    }
}

/// One operation on the parameters.
struct PrimitiveValues<'a> {
    op: crate::expr::Op,
    parameters: &'a [String],
    accuracy: Accuracy,
}

impl Values for PrimitiveValues<'_> {
    fn count(&self) -> usize {
        self.parameters.len() + 1
    }
    fn formula(&self, value: usize) -> Formula {
        if value < self.parameters.len() {
            Formula::Given
        } else {
            Formula::Apply(self.op, (0..self.parameters.len()).collect())
        }
    }
    fn name(&self, value: usize) -> &str {
        self.parameters.get(value).map_or("result", String::as_str)
    }
    fn is_named(&self, _: usize) -> bool {
        true
    }
    fn uses(&self, _: usize) -> usize {
        1
    }
    fn significand(&self, _: usize) -> u32 {
        significand(self.accuracy)
    }
    fn line(&self, _: usize) -> u32 {
        0
    }
}

/// A function's body; values that the result doesn't need are left out.
struct ExpressionValues<'a> {
    expression: &'a Expression,
    names: Vec<String>,
    uses: Vec<usize>,
    accuracy: Accuracy,
}

impl<'a> ExpressionValues<'a> {
    fn new(expression: &'a Expression, parameters: &Parameters, accuracy: Accuracy) -> Self {
        let mut scope = Parameters { names: Vec::new(), taken: parameters.taken.clone() };
        let mut names = Vec::with_capacity(expression.nodes().len());
        let mut ids = (0..).map(|i| format!("t{i}"));
        for (node, name) in expression.nodes().iter().zip(expression.names()) {
            names.push(match (node, name) {
                (ExprNode::Parameter(p), _) => parameters.names[*p].clone(),
                (_, Some(name)) => scope.unique(&identifier::sanitize(name)),
                (_, None) => scope.unique(&ids.next().unwrap_or_default()),
            });
        }
        let mut uses = vec![0; expression.nodes().len()];
        uses[expression.root().index()] = 1;
        for (i, node) in expression.nodes().iter().enumerate().rev() {
            if uses[i] > 0 {
                node.operands().iter().for_each(|o| uses[o.index()] += 1);
            }
        }
        Self { expression, names, uses, accuracy }
    }
}

impl Values for ExpressionValues<'_> {
    fn count(&self) -> usize {
        self.expression.nodes().len()
    }
    fn formula(&self, value: usize) -> Formula {
        let places = |operands: &[crate::expr::ExprId]| operands.iter().map(|o| o.index()).collect::<SmallVec<_>>();
        match &self.expression.nodes()[value] {
            _ if self.uses[value] == 0 => Formula::Given,
            ExprNode::Parameter(_) => Formula::Given,
            ExprNode::Literal(x) => Formula::Literal(*x),
            ExprNode::Apply(op, operands) => Formula::Apply(*op, places(operands)),
            ExprNode::Call(function, operands) => Formula::Call(function, places(operands)),
            ExprNode::Cast(to, x) => Formula::Cast(*to, x.index()),
        }
    }
    fn name(&self, value: usize) -> &str {
        &self.names[value]
    }
    fn is_named(&self, value: usize) -> bool {
        value == self.expression.root().index() || self.expression.names()[value].is_some()
    }
    fn uses(&self, value: usize) -> usize {
        self.uses[value]
    }
    fn significand(&self, _: usize) -> u32 {
        significand(self.accuracy)
    }
    fn line(&self, _: usize) -> u32 {
        0
    }
}

const fn significand(accuracy: Accuracy) -> u32 {
    match accuracy {
        Accuracy::Bits8 => 8,
        Accuracy::Bits11 => 11,
        Accuracy::Full => 53,
    }
}
