//! User reducers: the reductions that `#[reducer]` makes.

use std::hash::{Hash, Hasher};

use crate::expr::Function;
use crate::expr::identifier::shortened;

/// The most numbers that a reducer's running result has.
pub const MAX_WORDS: usize = 4;

/// How a reduction combines values whose running result is one to four numbers: an identity, what an element becomes, how two
/// running results combine, and what is given at the end.
///
/// [`#[reducer]`](crate::prelude::reducer) makes one of a module with real Rust. By hand it is a function for each
/// number: `lift[i]` takes an element and gives the number `i` of its running result. `combine[i]` takes all numbers of
/// one running result and then all numbers of the other. `finish` takes all numbers of one.
///
/// Every device combines in an order of its own, which is the same at every run. So `combine` must be associative, up to
/// rounding, and commutative; and combined with the identity a running result must stay what it is. Nobody checks that.
///
/// ```
/// use epilogue::evt::{Axis, BroadcastClass, Form, ReduceOp, Reducer, Reduction, TreeBuilder};
/// use epilogue::expr::{FunctionBuilder, Op};
///
/// let mut lift = FunctionBuilder::new("square");
/// let x = lift.parameter("x");
/// let square = lift.apply(Op::Mul, &[x, x]);
/// let mut combine = FunctionBuilder::new("sum");
/// let (a, b) = (combine.parameter("a"), combine.parameter("b"));
/// let sum = combine.apply(Op::Add, &[a, b]);
/// let mut finish = FunctionBuilder::new("root");
/// let s = finish.parameter("s");
/// let root = finish.apply(Op::Sqrt, &[s]);
/// let norm = Reducer::new("norm", &[0.0], vec![lift.finish(square)], vec![combine.finish(sum)], finish.finish(root));
///
/// let op = ReduceOp::User(Box::leak(Box::new(norm)));
/// let mut b = TreeBuilder::new("norms", "norms.rs");
/// let accum = b.accum("accum");
/// let r = b.reduce(Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete }, accum);
/// b.output("r", r, BroadcastClass::ColumnVector, None);
/// ```
#[derive(Clone, Debug)]
pub struct Reducer {
    name: &'static str,
    identity: Vec<f64>,
    lift: Vec<Function>,
    combine: Vec<Function>,
    finish: Function,
}

impl Reducer {
    /// Puts the parts together. If they don't fit each other, validation of a tree with it fails.
    #[must_use]
    pub fn new(
        name: &'static str,
        identity: &[f64],
        lift: Vec<Function>,
        combine: Vec<Function>,
        finish: Function,
    ) -> Self {
        Self { name, identity: identity.to_vec(), lift, combine, finish }
    }

    /// Its name, as the user wrote it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How many numbers its running result has.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.identity.len()
    }

    /// The running result of no elements.
    #[must_use]
    pub fn identity(&self) -> &[f64] {
        &self.identity
    }

    /// From an element to each number of its running result.
    #[must_use]
    pub fn lift(&self) -> &[Function] {
        &self.lift
    }

    /// From two running results, one after the other, to each number of what they give together.
    #[must_use]
    pub fn combine(&self) -> &[Function] {
        &self.combine
    }

    /// From a running result to what the reduction gives.
    #[must_use]
    pub const fn finish(&self) -> &Function {
        &self.finish
    }

    /// The reason why its parts don't fit, if they don't.
    pub(in crate::evt) fn misfit(&self) -> Option<String> {
        let words = self.words();
        if !(1..=MAX_WORDS).contains(&words) {
            return Some(format!("its running result has {words} numbers, and 1 to {MAX_WORDS} are allowed"));
        }
        for (part, functions) in [("lift", &self.lift), ("combine", &self.combine)] {
            if functions.len() != words {
                let given = functions.len();
                return Some(format!(
                    "its identity has {words} numbers and `{part}` {given} functions: give one for each"
                ));
            }
        }
        let taken = [("lift", &self.lift[..], 1), ("combine", &self.combine, 2 * words)];
        let finish = ("finish", std::slice::from_ref(&self.finish), words);
        for (part, functions, needed) in taken.into_iter().chain([finish]) {
            if let Some(wrong) = functions.iter().find(|function| function.parameters().len() != needed) {
                let given = wrong.parameters().len();
                return Some(format!("a function of `{part}` has {given} parameters, and {needed} are needed"));
            }
            if let Some((function, excess)) = functions.iter().find_map(|f| Some((f, f.excess()?))) {
                return Some(format!("its function `{}` is too long: {excess}", shortened(function.name())));
            }
        }
        None
    }
}

impl PartialEq for Reducer {
    fn eq(&self, other: &Self) -> bool {
        let bits = |x: &Self| x.identity.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        std::ptr::eq(self, other)
            || self.name == other.name
                && bits(self) == bits(other)
                && self.lift == other.lift
                && self.combine == other.combine
                && self.finish == other.finish
    }
}

impl Eq for Reducer {}

impl Hash for Reducer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.words().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::evt::{Axis, BroadcastClass, Form, ReduceOp, Reduction, TreeBuilder, Types};
    use crate::expr::FunctionBuilder;

    /// A function of this many numbers, which gives the first.
    fn first(parameters: usize) -> Function {
        let mut b = FunctionBuilder::new("f");
        let names = ["a", "b", "c", "d"];
        let ids: Vec<_> = names[..parameters].iter().map(|name| b.parameter(name)).collect();
        b.finish(ids[0])
    }

    #[track_caller]
    fn refused(reducer: Reducer, form: Form, expected: &str) {
        let op = ReduceOp::User(Box::leak(Box::new(reducer)));
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let r = b.reduce(Reduction { axis: Axis::Row, batch: false, op, form }, accum);
        b.output("r", r, BroadcastClass::ColumnVector, None);
        let error = b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).expect_err("it is refused");
        assert_eq!(error.mistake.to_string(), expected);
    }

    #[test]
    fn parts_must_fit() {
        let two = || vec![first(1), first(1)];
        refused(
            Reducer::new("r", &[], Vec::new(), Vec::new(), first(1)),
            Form::Complete,
            "the reducer `r` can't be used: its running result has 0 numbers, and 1 to 4 are allowed",
        );
        refused(
            Reducer::new("r", &[0.0], two(), vec![first(2)], first(1)),
            Form::Complete,
            "the reducer `r` can't be used: its identity has 1 numbers and `lift` 2 functions: give one for each",
        );
        refused(
            Reducer::new("r", &[0.0; 2], two(), vec![first(4), first(3)], first(2)),
            Form::Complete,
            "the reducer `r` can't be used: a function of `combine` has 3 parameters, and 4 are needed",
        );
        refused(
            Reducer::new("r", &[0.0; 2], two(), vec![first(4), first(4)], first(1)),
            Form::Complete,
            "the reducer `r` can't be used: a function of `finish` has 1 parameters, and 2 are needed",
        );
        refused(
            Reducer::new("r", &[0.0], vec![first(1)], vec![first(2)], first(1)),
            Form::Partial,
            "the partial reduction of a `reduction_op` is of a reducer of your own; partials exist of the language's own operations \
             only",
        );
    }
}
