//! The values that the reference computes with, and operations on them.

use smallvec::SmallVec;

use super::bounds::{Bounds, Slack};
use super::element::round;
use super::integer::Integer;
use super::pair::Pair;
use super::wide::Wide;
use crate::ElementType;
use crate::expr::{Body, ExprNode, Function, Logic, Op, Real};

/// A value of a tree or a function: a number, an integer, or a truth value as (exactly, may be true, may be false).
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<W> {
    Number(Pair<W>),
    Integer(Integer),
    Truth { exact: bool, may_hold: bool, may_fail: bool },
}

pub(super) fn known<W: Wide>(x: f64) -> Cell<W> {
    Cell::Number(Pair { exact: W::from_f64(x), bounds: Bounds::exact(x) })
}

pub(super) fn truth<W>(exact: bool) -> Cell<W> {
    Cell::Truth { exact, may_hold: exact, may_fail: !exact }
}

/// The value that an output stores: integers as f64, which is exact up to 2^53; truth values as 0 and 1.
pub(super) fn stored<W: Wide>(cell: &Cell<W>) -> Pair<W> {
    let (exact, low, high) = match *cell {
        Cell::Number(pair) => return pair,
        #[expect(clippy::cast_precision_loss, reason = "as `decode` gives what a device stored")]
        Cell::Integer(x) => (x.exact as f64, x.low as f64, x.high as f64),
        Cell::Truth { exact, may_hold, may_fail } => {
            (f64::from(u8::from(exact)), f64::from(u8::from(!may_fail)), f64::from(u8::from(may_hold)))
        }
    };
    Pair { exact: W::from_f64(exact), bounds: Bounds::exact(low).union(Bounds::exact(high)) }
}

/// Operations on truth values. If undecided operands depend on each other, the result admits more than can happen.
pub(super) fn connected<W>(logic: Logic, operands: &[Cell<W>]) -> Cell<W> {
    let parts = |cell: &Cell<W>| match *cell {
        Cell::Truth { exact, may_hold, may_fail } => (exact, may_hold, may_fail),
        // Validation makes sure that there are none.
        Cell::Number(_) | Cell::Integer(_) => (false, true, true),
    };
    let (x, y) = (parts(&operands[0]), operands.get(1).map_or((false, false, true), parts));
    let (exact, may_hold, may_fail) = match logic {
        Logic::And => (x.0 && y.0, x.1 && y.1, x.2 || y.2),
        Logic::Or => (x.0 || y.0, x.1 || y.1, x.2 && y.2),
        Logic::Not => (!x.0, x.2, x.1),
    };
    Cell::Truth { exact, may_hold, may_fail }
}

/// The number in a cell; validation makes sure that it is one.
pub(super) fn number<W: Wide>(cell: &Cell<W>) -> Pair<W> {
    match cell {
        Cell::Number(pair) => *pair,
        Cell::Integer(_) | Cell::Truth { .. } => Pair { exact: W::from_f64(f64::NAN), bounds: Bounds::NAN },
    }
}

/// The integer in a cell; validation makes sure that it is one.
fn integer<W>(cell: &Cell<W>) -> Integer {
    match cell {
        Cell::Integer(x) => *x,
        Cell::Number(_) | Cell::Truth { .. } => Integer::known(0),
    }
}

pub(super) fn apply<W: Wide>(op: Op, operands: &[Cell<W>], slack: Slack) -> Cell<W> {
    if let (Op::Select, [Cell::Truth { exact, may_hold, may_fail }, yes, no]) = (op, operands) {
        match (yes, no) {
            (Cell::Integer(yes), Cell::Integer(no)) => {
                let chosen = if *exact { yes.exact } else { no.exact };
                return Cell::Integer(match (may_hold, may_fail) {
                    (true, false) => *yes,
                    (false, true) => *no,
                    _ => Integer::either(chosen, *yes, *no),
                });
            }
            (
                Cell::Truth { exact: yes, may_hold: yes_holds, may_fail: yes_fails },
                Cell::Truth { exact: no, may_hold: no_holds, may_fail: no_fails },
            ) => {
                return Cell::Truth {
                    exact: if *exact { *yes } else { *no },
                    may_hold: *may_hold && *yes_holds || *may_fail && *no_holds,
                    may_fail: *may_hold && *yes_fails || *may_fail && *no_fails,
                };
            }
            _ => {}
        }
        let (yes, no) = (number(yes), number(no));
        let bounds = match (may_hold, may_fail) {
            (true, false) => yes.bounds,
            (false, true) => no.bounds,
            _ => yes.bounds.union(no.bounds),
        };
        return Cell::Number(Pair { exact: if *exact { yes.exact } else { no.exact }, bounds });
    }
    if let Some(Cell::Integer(_)) = operands.first() {
        let integers: SmallVec<[Integer; 3]> = operands.iter().map(integer).collect();
        if let (true, [x, y]) = (op.is_comparison(), integers.as_slice()) {
            let (exact, may_hold, may_fail) = Integer::compare(op, *x, *y);
            return Cell::Truth { exact, may_hold, may_fail };
        }
        return Cell::Integer(Integer::apply(op, &integers));
    }
    let pairs: SmallVec<[Pair<W>; 3]> = operands.iter().map(number).collect();
    if let (true, [x, y]) = (op.is_comparison(), pairs.as_slice()) {
        let (may_hold, may_fail) = Bounds::compare(op, x.bounds, y.bounds);
        return Cell::Truth { exact: W::compare(op, x.exact, y.exact), may_hold, may_fail };
    }
    let exact: SmallVec<[W; 3]> = pairs.iter().map(|p| p.exact).collect();
    let bounds: SmallVec<[Bounds; 3]> = pairs.iter().map(|p| p.bounds).collect();
    Cell::Number(Pair { exact: W::apply(op, &exact), bounds: Bounds::apply(op, &bounds, slack) })
}

pub(super) fn cast<W: Wide>(to: ElementType, x: Cell<W>, real: Real) -> Cell<W> {
    let x = number(&x);
    // The result is a number of the arithmetic type again (an i64 can have more bits).
    let there_and_back = |x: f64| round(real.element(), round(to, x));
    let exact = W::from_f64(there_and_back(x.exact.to_f64()));
    Cell::Number(Pair { exact, bounds: x.bounds.monotone(there_and_back) })
}

pub(super) fn call<W: Wide>(function: &Function, operands: &[Cell<W>], slack: Slack) -> Cell<W> {
    match function.body() {
        Body::Primitive(op) => apply(*op, operands, slack),
        Body::Expression(expression) => {
            let mut cells: Vec<Cell<W>> = Vec::with_capacity(expression.nodes().len());
            for node in expression.nodes() {
                let of = |ids: &[crate::expr::ExprId]| -> SmallVec<[Cell<W>; 3]> {
                    ids.iter().map(|id| cells[id.index()]).collect()
                };
                let cell = match node {
                    ExprNode::Parameter(p) => operands[*p],
                    ExprNode::Literal(x) => known(round(slack.real.element(), *x)),
                    ExprNode::Apply(op, ids) => apply(*op, &of(ids), slack),
                    ExprNode::Call(callee, ids) => call(callee, &of(ids), slack),
                    ExprNode::Cast(to, id) => cast(*to, cells[id.index()], slack.real),
                };
                cells.push(cell);
            }
            cells[expression.root().index()]
        }
    }
}
