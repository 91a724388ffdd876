//! Lexical scopes, as in Rust.

use std::collections::HashMap;

use crate::ast::{Axis, Class, ClassKind};

/// The extent of a value in the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueShape {
    Scalar,
    Row,
    Column,
    Tensor,
}

impl ValueShape {
    /// The extent of a parameter of this class; `None` if parameters can't have the class.
    pub(crate) fn of(class: ClassKind) -> Option<Self> {
        match class {
            ClassKind::Accum | ClassKind::Tensor | ClassKind::TensorMut | ClassKind::Bits => Some(Self::Tensor),
            ClassKind::RowVector => Some(Self::Row),
            ClassKind::ColumnVector => Some(Self::Column),
            ClassKind::Scalar | ClassKind::DeviceScalar => Some(Self::Scalar),
            ClassKind::Seed | ClassKind::RowPartials | ClassKind::ColumnPartials => None,
        }
    }

    /// The extent of what a reduction along an axis leaves.
    pub(crate) const fn left_by(axis: Axis) -> Self {
        match axis {
            Axis::Row => Self::Column,
            Axis::Column => Self::Row,
            Axis::All => Self::Scalar,
        }
    }

    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Scalar, x) | (x, Self::Scalar) => x,
            _ => Self::Tensor,
        }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueKind {
    Number(ValueShape),
    Integer(ValueShape),
    /// The result of a comparison, or an element of type bool.
    Truth(ValueShape),
    /// The seed and offset of random numbers.
    Seed,
    /// The result of a reduction along an axis, one partial per tile.
    Partials(Axis),
    /// After a mistake: nothing more is reported about it.
    Unknown,
}

impl ValueKind {
    /// The number that is computed from two values; after a mistake it is unknown.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self.shape(), other.shape()) {
            (Some(a), Some(b)) => Self::Number(a.join(b)),
            _ => Self::Unknown,
        }
    }

    /// Its name in messages.
    pub(crate) fn noun(self) -> Option<&'static str> {
        match self {
            Self::Number(_) => Some("a number"),
            Self::Integer(_) => Some("an integer"),
            Self::Truth(_) => Some("a truth value"),
            Self::Seed | Self::Partials(_) | Self::Unknown => None,
        }
    }

    pub(crate) fn shape(self) -> Option<ValueShape> {
        match self {
            Self::Number(shape) | Self::Integer(shape) | Self::Truth(shape) => Some(shape),
            Self::Seed | Self::Partials(_) | Self::Unknown => None,
        }
    }

    /// The class under which a value of this kind is returned.
    pub(crate) fn class(self) -> Option<ClassKind> {
        match self {
            Self::Number(shape) | Self::Integer(shape) | Self::Truth(shape) => Some(match shape {
                ValueShape::Tensor => ClassKind::Tensor,
                ValueShape::Row => ClassKind::RowVector,
                ValueShape::Column => ClassKind::ColumnVector,
                ValueShape::Scalar => ClassKind::DeviceScalar,
            }),
            Self::Partials(Axis::All) => Some(ClassKind::DeviceScalar),
            Self::Partials(Axis::Row) => Some(ClassKind::RowPartials),
            Self::Partials(Axis::Column) => Some(ClassKind::ColumnPartials),
            Self::Seed | Self::Unknown => None,
        }
    }
}

/// Where a variable comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Accum,
    Parameter(usize),
    Let,
}

/// The type of a variable's elements in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// It is computed, or given by the host.
    Nothing,
    /// A parameter without a written element type: that of A.
    Unwritten,
    Integers,
    Truths,
    /// Another type, by its written name.
    Others(String),
}

/// A variable in scope.
#[derive(Clone)]
pub(crate) struct Variable {
    pub(crate) kind: ValueKind,
    pub(crate) mutable: bool,
    pub(crate) origin: Origin,
    pub(crate) holds: Holds,
    /// The class written at its `let`, in the closure form.
    pub(crate) annotation: Option<std::rc::Rc<Class>>,
}

/// One `{ … }`.
struct Level {
    names: HashMap<String, Variable>,
    /// Whether it is a branch of an `if`, where an outer variable cannot be assigned.
    branch: bool,
}

/// The scopes around a place, innermost last.
pub(crate) struct Scopes(Vec<Level>);

/// The result of looking up the variable of an assignment.
pub(crate) enum Reach<'a> {
    Variable(&'a mut Variable),
    /// The variable is outside the `if` with the branch that has the assignment.
    OutsideBranch,
    Unknown,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        Self(vec![Level { names: HashMap::new(), branch: false }])
    }

    pub(crate) fn enter(&mut self, branch: bool) {
        self.0.push(Level { names: HashMap::new(), branch });
    }

    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    pub(crate) fn declare(&mut self, name: String, variable: Variable) {
        if let Some(level) = self.0.last_mut() {
            level.names.insert(name, variable);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Variable> {
        self.0.iter().rev().find_map(|level| level.names.get(name))
    }

    pub(crate) fn assign(&mut self, name: &str) -> Reach<'_> {
        let mut crossed_branch = false;
        for level in self.0.iter_mut().rev() {
            if let Some(variable) = level.names.get_mut(name) {
                return if crossed_branch { Reach::OutsideBranch } else { Reach::Variable(variable) };
            }
            crossed_branch |= level.branch;
        }
        Reach::Unknown
    }

    /// Every name in scope.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|level| level.names.keys().map(String::as_str))
    }
}
