//! Where the product is needed. If position tests discard the accumulators of a whole rectangle of elements, it need
//! not be multiplied. Example: the part above the diagonal of a causal mask, `if column() > row() { f32::NEG_INFINITY }
//! else { x }`.
//!
//! A condition is followed if it compares integers made of positions, extents, constants and integers that all elements
//! share. Each has a least and a greatest value in a rectangle, so a comparison may hold there, may not hold, or both.
//! Any other condition may do both. One walk serves two users by different [`Bounds`]: it computes with numbers
//! ([`Rectangle`]), or writes a function (`gemm/emit/needed.rs`).
//!
//! The CPU asks for each tile. A kernel asks for the tiles of a cluster together; a tile that needs nothing has no
//! k-tiles, and sums of 0.

use std::ops::Range;

use smallvec::SmallVec;

use super::integers::never_wrap;
use super::{ParameterClass, ParameterId, Position, ValidTree, ValueId, ValueKind, ValueType};
use crate::expr::{Logic, Op, fold};

/// How to compute with the least and greatest values of integers in a rectangle. No operation overflows an `i64`.
pub(crate) trait Bounds {
    /// An integer.
    type Integer: Clone;
    /// Whether something holds.
    type Truth: Clone;

    /// A constant.
    fn constant(&mut self, x: i64) -> Self::Integer;
    /// The least and the greatest value of a position in the rectangle.
    fn position(&mut self, position: Position) -> [Self::Integer; 2];
    /// An integer parameter that all elements share; `None` if its value isn't known.
    fn scalar(&mut self, parameter: ParameterId) -> Option<Self::Integer>;
    /// `Neg` of one integer; `Add`, `Sub`, `Mul`, `Min` or `Max` of two.
    fn apply(&mut self, op: Op, operands: &[Self::Integer]) -> Self::Integer;
    /// `Lt` or `Le`.
    fn compare(&mut self, op: Op, x: &Self::Integer, y: &Self::Integer) -> Self::Truth;
    /// Both hold, or one of them.
    fn join(&mut self, logic: Logic, x: Self::Truth, y: Self::Truth) -> Self::Truth;
}

/// Whether something is possible in a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Possible<T> {
    Never,
    Always,
    If(T),
}

/// The conditions on positions that decide whether a tree's accumulators are needed, found out once for all rectangles.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Marks the values that these conditions are made of, and the conditions themselves.
    wanted: Vec<bool>,
    never_wrap: Vec<bool>,
}

impl Conditions {
    /// `None` if accumulators are needed everywhere, as far as is known, or there are none.
    pub(crate) fn of(tree: &ValidTree) -> Option<Self> {
        let this = Self::all(tree);
        matches!(this.needs_product(tree, &mut Unknown), Possible::If(())).then_some(this)
    }

    fn all(tree: &ValidTree) -> Self {
        Self { wanted: wanted(tree), never_wrap: never_wrap(&tree.values, &tree.parameters) }
    }

    /// Whether any element of a rectangle needs an accumulator; `tree` is the conditions' own.
    pub(crate) fn needs_product<B: Bounds>(&self, tree: &ValidTree, bounds: &mut B) -> Possible<B::Truth> {
        let count = tree.values.len();
        let (integers, truths, needs) = (vec![None; count], vec![None; count], vec![Possible::Never; count]);
        let mut walk = Walk { tree, conditions: self, bounds, integers, truths, needs };
        // Operands come before those that read them; trees may be deep.
        tree.enumerate().for_each(|(id, _)| walk.value(id));
        let mut needed = Possible::Never;
        // A reduced value matters elsewhere than in its rectangle.
        let reduced = tree.values.iter().filter_map(|value| match value.kind {
            ValueKind::Reduce(_, x) => Some(x),
            _ => None,
        });
        for id in tree.outputs.iter().map(|output| output.value).chain(reduced) {
            let of_one = walk.needs[id.index()].clone();
            needed = walk.any(needed, of_one);
        }
        needed
    }
}

/// The conditions between values that depend on an accumulator, and what they are made of.
fn wanted(tree: &ValidTree) -> Vec<bool> {
    let count = tree.values.len();
    let (mut depends, mut wanted) = (vec![false; count], vec![false; count]);
    for (id, value) in tree.enumerate() {
        let operands = value.kind.operands();
        let any = operands.iter().any(|operand| depends[operand.index()]);
        depends[id.index()] = any || matches!(value.kind, ValueKind::Accum(_));
        if let (ValueKind::Apply(Op::Select, _), [condition, rest @ ..]) = (&value.kind, &operands[..]) {
            wanted[condition.index()] |= rest.iter().any(|operand| depends[operand.index()]);
        }
    }
    for (number, value) in tree.values.iter().enumerate().rev() {
        let is_made_of_operands = match &value.kind {
            ValueKind::Logic(..) => true,
            ValueKind::Apply(..) => value.ty != ValueType::Real(tree.real()),
            _ => false,
        };
        if wanted[number] && is_made_of_operands {
            value.kind.operands().iter().for_each(|operand| wanted[operand.index()] = true);
        }
    }
    wanted
}

/// Where nothing is known but that everything has a value.
struct Unknown;

impl Bounds for Unknown {
    type Integer = ();
    type Truth = ();

    fn constant(&mut self, _: i64) {}

    fn position(&mut self, _: Position) -> [(); 2] {
        [(); 2]
    }

    fn scalar(&mut self, _: ParameterId) -> Option<()> {
        Some(())
    }

    fn apply(&mut self, _: Op, _: &[()]) {}

    fn compare(&mut self, _: Op, (): &(), (): &()) {}

    fn join(&mut self, _: Logic, (): (), (): ()) {}
}

/// A rectangle of elements of one batch, by numbers. It has rows and columns.
pub(crate) struct Rectangle<F> {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    pub(crate) batch: usize,
    /// M and N.
    pub(crate) extents: [usize; 2],
    /// The value of an integer that all elements share, if it is known.
    pub(crate) scalar: F,
}

impl<F: FnMut(ParameterId) -> Option<i64>> Rectangle<F> {
    /// Whether any of its elements needs an accumulator.
    pub(crate) fn needs_product(mut self, tree: &ValidTree, conditions: &Conditions) -> bool {
        match conditions.needs_product(tree, &mut self) {
            Possible::Never => false,
            Possible::Always => true,
            Possible::If(needed) => needed,
        }
    }
}

impl<F: FnMut(ParameterId) -> Option<i64>> Bounds for Rectangle<F> {
    type Integer = i64;
    type Truth = bool;

    fn constant(&mut self, x: i64) -> i64 {
        x
    }

    fn position(&mut self, position: Position) -> [i64; 2] {
        let integer = |x: usize| i64::try_from(x).unwrap_or(i64::MAX);
        let [rows, columns] = self.extents;
        match position {
            Position::Row => [self.rows.start, self.rows.end.saturating_sub(1)],
            Position::Column => [self.columns.start, self.columns.end.saturating_sub(1)],
            Position::Batch => [self.batch; 2],
            Position::Rows => [rows; 2],
            Position::Columns => [columns; 2],
        }
        .map(integer)
    }

    fn scalar(&mut self, parameter: ParameterId) -> Option<i64> {
        (self.scalar)(parameter)
    }

    fn apply(&mut self, op: Op, operands: &[i64]) -> i64 {
        fold::integers(op, operands).unwrap_or_default()
    }

    fn compare(&mut self, op: Op, x: &i64, y: &i64) -> bool {
        if op == Op::Lt { x < y } else { x <= y }
    }

    fn join(&mut self, logic: Logic, x: bool, y: bool) -> bool {
        if logic == Logic::And { x && y } else { x || y }
    }
}

/// Whether a condition may hold, and whether it may not.
type MayHold<T> = [Possible<T>; 2];

/// Facts about the values so far, by their numbers.
struct Walk<'a, B: Bounds> {
    tree: &'a ValidTree,
    conditions: &'a Conditions,
    bounds: &'a mut B,
    /// The least and the greatest value of an integer, if they are known.
    integers: Vec<Option<[B::Integer; 2]>>,
    truths: Vec<Option<MayHold<B::Truth>>>,
    /// Whether a value depends on an accumulator.
    needs: Vec<Possible<B::Truth>>,
}

impl<B: Bounds> Walk<'_, B> {
    /// Finds out about a value, whose operands are known.
    fn value(&mut self, id: ValueId) {
        let number = id.index();
        let [wanted, never_wraps] = [&self.conditions.wanted, &self.conditions.never_wrap].map(|all| all[number]);
        match self.tree.value(id).ty {
            ValueType::Integer(_) if wanted && never_wraps => self.integers[number] = self.bounds_of(id),
            ValueType::Bool if wanted => self.truths[number] = Some(self.whether_holds(id)),
            _ => {}
        }
        self.needs[number] = self.whether_needs(id);
    }

    fn whether_needs(&mut self, id: ValueId) -> Possible<B::Truth> {
        let tree = self.tree;
        let kind = &tree.value(id).kind;
        if matches!(kind, ValueKind::Accum(_)) {
            return Possible::Always;
        }
        let operands = kind.operands();
        let mut needs: SmallVec<[_; 3]> = operands.iter().map(|operand| self.needs[operand.index()].clone()).collect();
        if let (ValueKind::Apply(Op::Select, _), [_, then, otherwise]) = (kind, &mut needs[..])
            && !matches!((&*then, &*otherwise), (Possible::Never, Possible::Never))
        {
            let [holds, fails] = self.may_hold(operands[0]);
            *then = self.both(holds, then.clone());
            *otherwise = self.both(fails, otherwise.clone());
        }
        needs.into_iter().fold(Possible::Never, |needed, of_one| self.any(needed, of_one))
    }

    /// Whether a value may be true, and whether it may be false: both, if the value isn't followed.
    fn may_hold(&self, id: ValueId) -> MayHold<B::Truth> {
        self.truths[id.index()].clone().unwrap_or([Possible::Always, Possible::Always])
    }

    fn whether_holds(&mut self, id: ValueId) -> MayHold<B::Truth> {
        let tree = self.tree;
        match &tree.value(id).kind {
            ValueKind::Logic(Logic::Not, operands) => {
                let [holds, fails] = self.may_hold(operands[0]);
                [fails, holds]
            }
            ValueKind::Logic(logic, operands) => {
                let ([x, not_x], [y, not_y]) = (self.may_hold(operands[0]), self.may_hold(operands[1]));
                match logic {
                    Logic::And => [self.both(x, y), self.any(not_x, not_y)],
                    Logic::Or | Logic::Not => [self.any(x, y), self.both(not_x, not_y)],
                }
            }
            ValueKind::Apply(op, operands) if op.is_comparison() => self.compared(*op, operands[0], operands[1]),
            _ => [Possible::Always, Possible::Always],
        }
    }

    fn compared(&mut self, op: Op, x: ValueId, y: ValueId) -> MayHold<B::Truth> {
        let (Some(x), Some(y)) = (self.integer(x), self.integer(y)) else {
            return [Possible::Always, Possible::Always];
        };
        let ([x_least, x_most], [y_least, y_most]) = (&x, &y);
        let mut is = |op: Op, x: &B::Integer, y: &B::Integer| self.bounds.compare(op, x, y);
        let [holds, fails] = match op {
            Op::Lt => [is(Op::Lt, x_least, y_most), is(Op::Le, y_least, x_most)],
            Op::Le => [is(Op::Le, x_least, y_most), is(Op::Lt, y_least, x_most)],
            Op::Gt => [is(Op::Lt, y_least, x_most), is(Op::Le, x_least, y_most)],
            Op::Ge => [is(Op::Le, y_least, x_most), is(Op::Lt, x_least, y_most)],
            _ => {
                let reach = [is(Op::Le, x_least, y_most), is(Op::Le, y_least, x_most)];
                let vary = [is(Op::Lt, x_least, y_most), is(Op::Lt, y_least, x_most)];
                let ([reach, other], [vary, or]) = (reach, vary);
                let (equal, differ) =
                    (self.bounds.join(Logic::And, reach, other), self.bounds.join(Logic::Or, vary, or));
                if op == Op::Eq { [equal, differ] } else { [differ, equal] }
            }
        };
        [Possible::If(holds), Possible::If(fails)]
    }

    fn integer(&self, id: ValueId) -> Option<[B::Integer; 2]> {
        self.integers[id.index()].clone()
    }

    fn bounds_of(&mut self, id: ValueId) -> Option<[B::Integer; 2]> {
        let tree = self.tree;
        match &tree.value(id).kind {
            ValueKind::Integer(x) => {
                let x = self.bounds.constant(*x);
                Some([x.clone(), x])
            }
            ValueKind::Position(position) => Some(self.bounds.position(*position)),
            ValueKind::Broadcast(parameter) if tree.parameter(*parameter).class == ParameterClass::DeviceScalar => {
                let x = self.bounds.scalar(*parameter)?;
                Some([x.clone(), x])
            }
            ValueKind::Apply(Op::Select, operands) => {
                let [x, y] = [operands[1], operands[2]].map(|id| self.integer(id));
                let ([least, most], [other_least, other_most]) = (x?, y?);
                Some([
                    self.bounds.apply(Op::Min, &[least, other_least]),
                    self.bounds.apply(Op::Max, &[most, other_most]),
                ])
            }
            ValueKind::Apply(Op::Neg, operands) => {
                let [least, most] = self.integer(operands[0])?;
                Some([most, least].map(|x| self.bounds.apply(Op::Neg, &[x])))
            }
            ValueKind::Apply(op, operands) => {
                let [x, y] = [*operands.first()?, *operands.get(1)?].map(|id| self.integer(id));
                let ([x_least, x_most], [y_least, y_most]) = (x?, y?);
                let mut of = |x: &B::Integer, y: &B::Integer| self.bounds.apply(*op, &[x.clone(), y.clone()]);
                match op {
                    Op::Add | Op::Min | Op::Max => Some([of(&x_least, &y_least), of(&x_most, &y_most)]),
                    Op::Sub => Some([of(&x_least, &y_most), of(&x_most, &y_least)]),
                    Op::Mul => {
                        let corners =
                            [(&x_least, &y_least), (&x_least, &y_most), (&x_most, &y_least), (&x_most, &y_most)];
                        let corners = corners.map(|(x, y)| of(x, y));
                        Some([Op::Min, Op::Max].map(|op| self.farthest(op, &corners)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn farthest(&mut self, op: Op, [first, others @ ..]: &[B::Integer; 4]) -> B::Integer {
        others.iter().fold(first.clone(), |farthest, x| self.bounds.apply(op, &[farthest, x.clone()]))
    }

    fn any(&mut self, x: Possible<B::Truth>, y: Possible<B::Truth>) -> Possible<B::Truth> {
        match (x, y) {
            (Possible::Always, _) | (_, Possible::Always) => Possible::Always,
            (Possible::Never, other) | (other, Possible::Never) => other,
            (Possible::If(x), Possible::If(y)) => Possible::If(self.bounds.join(Logic::Or, x, y)),
        }
    }

    fn both(&mut self, x: Possible<B::Truth>, y: Possible<B::Truth>) -> Possible<B::Truth> {
        match (x, y) {
            (Possible::Never, _) | (_, Possible::Never) => Possible::Never,
            (Possible::Always, other) | (other, Possible::Always) => other,
            (Possible::If(x), Possible::If(y)) => Possible::If(self.bounds.join(Logic::And, x, y)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, NodeId, TreeBuilder, Types};

    /// A tree whose output is `condition ? accum : 0`.
    fn masked(condition: impl FnOnce(&mut TreeBuilder) -> NodeId) -> ValidTree {
        let mut b = TreeBuilder::new("e", "a.rs");
        let (accum, zero) = (b.accum("accum"), b.literal(0.0));
        let condition = condition(&mut b);
        let d = b.apply(Op::Select, &[condition, accum, zero]);
        b.output("d", d, BroadcastClass::Tensor, None);
        b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("a valid tree")
    }

    fn at(rows: Range<usize>, columns: Range<usize>) -> Rectangle<impl FnMut(ParameterId) -> Option<i64>> {
        Rectangle { rows, columns, batch: 1, extents: [100, 200], scalar: |_| None }
    }

    #[test]
    fn above_the_diagonal_a_causal_mask_needs_nothing() {
        let tree = masked(|b| {
            let (row, column) = (b.position(Position::Row), b.position(Position::Column));
            b.apply(Op::Le, &[column, row])
        });
        assert!(Conditions::of(&tree).is_some());
        let needs = |rows, columns| at(rows, columns).needs_product(&tree, &Conditions::all(&tree));
        assert!(needs(0..16, 0..16) && needs(16..32, 0..16) && needs(16..32, 31..47));
        assert!(!needs(0..16, 16..32) && !needs(16..32, 32..48));
    }

    #[test]
    fn what_all_need_is_needed_everywhere() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        b.output("d", accum, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("a valid tree");
        assert!(Conditions::of(&tree).is_none());
        assert!(at(0..1, 0..1).needs_product(&tree, &Conditions::all(&tree)));
    }

    #[test]
    fn an_integer_that_may_wrap_says_nothing() {
        let wraps = |factor: i64| {
            masked(|b| {
                let (row, factor) = (b.position(Position::Row), b.integer_literal(factor));
                let (large, limit) = (b.apply(Op::Mul, &[row, factor]), b.integer_literal(5));
                b.apply(Op::Lt, &[large, limit])
            })
        };
        assert_eq!([1 << 31, 1 << 40].map(|factor| Conditions::of(&wraps(factor)).is_some()), [true, false]);
    }

    /// Conditions on positions, as functions and as nodes.
    #[derive(Clone, Debug)]
    enum Condition {
        Compare(Op, [i64; 3], [i64; 3]),
        Join(Logic, Box<Condition>, Box<Condition>),
        Not(Box<Condition>),
    }

    /// The first, times the row, and the second, times the column, and the third; held within a range where it is odd.
    fn linear([a, b, c]: [i64; 3], row: i64, column: i64) -> i64 {
        let x = a * row - b * column;
        if c % 2 == 0 { x + c } else { x.min(c).max(-c) }
    }

    impl Condition {
        fn holds(&self, row: i64, column: i64) -> bool {
            match self {
                Self::Compare(op, x, y) => {
                    let order = linear(*x, row, column).cmp(&linear(*y, row, column));
                    match op {
                        Op::Lt => order.is_lt(),
                        Op::Le => order.is_le(),
                        Op::Gt => order.is_gt(),
                        Op::Ge => order.is_ge(),
                        Op::Eq => order.is_eq(),
                        _ => order.is_ne(),
                    }
                }
                Self::Join(Logic::And, x, y) => x.holds(row, column) && y.holds(row, column),
                Self::Join(_, x, y) => x.holds(row, column) || y.holds(row, column),
                Self::Not(x) => !x.holds(row, column),
            }
        }

        fn node(&self, b: &mut TreeBuilder) -> NodeId {
            match self {
                Self::Compare(op, x, y) => {
                    let [x, y] = [*x, *y].map(|[of_row, of_column, last]| {
                        let [row, column] =
                            [(Position::Row, of_row), (Position::Column, of_column)].map(|(of, factor)| {
                                let (of, factor) = (b.position(of), b.integer_literal(factor));
                                b.apply(Op::Mul, &[of, factor])
                            });
                        let (x, last_node) = (b.apply(Op::Sub, &[row, column]), b.integer_literal(last));
                        if last % 2 == 0 {
                            return b.apply(Op::Add, &[x, last_node]);
                        }
                        let (low, least) = (b.apply(Op::Min, &[x, last_node]), b.integer_literal(-last));
                        b.apply(Op::Max, &[low, least])
                    });
                    b.apply(*op, &[x, y])
                }
                Self::Join(logic, x, y) => {
                    let (x, y) = (x.node(b), y.node(b));
                    b.logic(*logic, &[x, y])
                }
                Self::Not(x) => {
                    let x = x.node(b);
                    b.logic(Logic::Not, &[x])
                }
            }
        }
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        let compared = prop::sample::select(vec![Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne]);
        let sum = || prop::array::uniform3(-3i64..4);
        let leaf = (compared, sum(), sum()).prop_map(|(op, x, y)| Condition::Compare(op, x, y));
        leaf.prop_recursive(3, 8, 2, |inner| {
            let two = (prop::sample::select(vec![Logic::And, Logic::Or]), inner.clone(), inner.clone());
            prop_oneof![
                two.prop_map(|(logic, x, y)| Condition::Join(logic, Box::new(x), Box::new(y))),
                inner.prop_map(|x| Condition::Not(Box::new(x))),
            ]
        })
    }

    proptest! {
        /// A rectangle that isn't needed has no element whose condition holds.
        #[test]
        fn nothing_that_is_needed_is_left_out(
            condition in conditions(), first in prop::array::uniform2(0usize..12), size in prop::array::uniform2(1usize..6),
        ) {
            let tree = masked(|b| condition.node(b));
            let needs = |rows, columns| at(rows, columns).needs_product(&tree, &Conditions::all(&tree));
            let [rows, columns] = [0, 1].map(|axis| first[axis]..first[axis] + size[axis]);
            let holds = rows.clone().any(|row| columns.clone().any(|column| condition.holds(row as i64, column as i64)));
            prop_assert!(needs(rows.clone(), columns.clone()) || !holds);
            // If there is one element, everything is known.
            if size == [1, 1] {
                prop_assert_eq!(needs(rows, columns), holds);
            }
        }
    }
}
