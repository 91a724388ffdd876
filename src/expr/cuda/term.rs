//! The text of an expression, with its precedence.

use crate::expr::{Logic, Op};

/// C++ operator precedence, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    Conditional,
    Or,
    And,
    Equality,
    Relational,
    Additive,
    Multiplicative,
    Unary,
    Primary,
}

impl Binding {
    /// The next higher precedence, which the right operand of a left-associative operator needs.
    const fn tighter(self) -> Self {
        match self {
            Self::Conditional => Self::Or,
            Self::Or => Self::And,
            Self::And => Self::Equality,
            Self::Equality => Self::Relational,
            Self::Relational => Self::Additive,
            Self::Additive => Self::Multiplicative,
            Self::Multiplicative => Self::Unary,
            Self::Unary | Self::Primary => Self::Primary,
        }
    }
}

/// Expression text.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) text: String,
    pub(super) binding: Binding,
}

impl Term {
    pub(super) fn primary(text: impl Into<String>) -> Self {
        Self { text: text.into(), binding: Binding::Primary }
    }

    pub(super) fn number(text: String) -> Self {
        let binding = if text.starts_with('-') { Binding::Unary } else { Binding::Primary };
        Self { text, binding }
    }

    pub(super) fn call(function: &str, operands: &[&Self]) -> Self {
        let operands: Vec<&str> = operands.iter().map(|o| o.text.as_str()).collect();
        Self::primary(format!("{function}({})", operands.join(", ")))
    }

    fn at(&self, binding: Binding) -> String {
        if self.binding >= binding { self.text.clone() } else { format!("({})", self.text) }
    }

    pub(super) fn negated(&self) -> Self {
        // The operand must be primary: `--x` would be a decrement.
        Self { text: format!("-{}", self.at(Binding::Primary)), binding: Binding::Unary }
    }

    /// An infix operation; `None` if the operation isn't written infix.
    ///
    /// The right operand is parenthesised even if its operator is the same: floating-point addition and multiplication
    /// are not associative.
    pub(super) fn infix(op: Op, left: &Self, right: &Self) -> Option<Self> {
        let binding = match op {
            Op::Add | Op::Sub => Binding::Additive,
            Op::Mul | Op::Div => Binding::Multiplicative,
            Op::Lt | Op::Le | Op::Gt | Op::Ge => Binding::Relational,
            Op::Eq | Op::Ne => Binding::Equality,
            _ => return None,
        };
        let text = format!("{} {} {}", left.at(binding), op.symbol(), right.at(binding.tighter()));
        Some(Self { text, binding })
    }

    /// An operation on truth values. `&&` inside of `||` gets parentheses, too, because compilers warn without them.
    pub(super) fn logic(logic: Logic, operands: &[&Self]) -> Self {
        let (binding, needed) = match logic {
            Logic::And => (Binding::And, Binding::Equality),
            Logic::Or => (Binding::Or, Binding::Equality),
            Logic::Not => {
                let text = operands.iter().map(|x| format!("!{}", x.at(Binding::Primary))).collect();
                return Self { text, binding: Binding::Unary };
            }
        };
        let sides: Vec<String> = operands.iter().map(|x| x.at(needed)).collect();
        Self { text: sides.join(&format!(" {} ", logic.symbol())), binding }
    }

    pub(super) fn conditional(condition: &Self, yes: &Self, no: &Self) -> Self {
        let tighter = Binding::Conditional.tighter();
        let text = format!("{} ? {} : {}", condition.at(tighter), yes.at(tighter), no.at(Binding::Conditional));
        Self { text, binding: Binding::Conditional }
    }
}
