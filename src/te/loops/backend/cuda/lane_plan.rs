//! Decides which accesses of a vectorised loop can be done several elements at a time.

use crate::te::arith::{coefficient, simplify};
use crate::te::dtype::DType;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::Stmt;

/// Bytes of the widest access.
const WIDEST: usize = 16;
/// With more iterations than this, the lanes would not stay in registers.
const MOST: i64 = 64;

/// An access whose elements are neighbours over all iterations.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    pub(super) buffer: Buffer,
    pub(super) index: Expr,
    /// The index in the first iteration, if the stride is 1.
    pub(super) first: Expr,
    /// The stride that must be 1, if it is known only at run time.
    pub(super) stride: Option<Var>,
    /// The number of elements in one access.
    pub(super) width: usize,
    pub(super) read: bool,
    pub(super) written: bool,
}

/// A loop with memory accesses that can be done for several iterations at once.
pub(super) struct LanePlan<'a> {
    /// The conditions on indices that must hold for this.
    pub(super) conditions: Vec<Expr>,
    pub(super) accesses: Vec<Neighbours>,
    /// The body if all conditions hold.
    pub(super) then: &'a Stmt,
}

/// One access of a loop's body.
struct Access {
    pub(super) buffer: Buffer,
    pub(super) index: Expr,
    is_store: bool,
    /// Whether every iteration does it.
    always: bool,
}

/// Plans how a loop's memory can be accessed for several iterations at once. `None` if it can't, or if the body has
/// more than stores under conditions on indices.
pub(super) fn lane_plan<'a>(var: Var, extent: &Expr, body: &'a Stmt) -> Option<LanePlan<'a>> {
    let lanes = extent.as_int().filter(|lanes| (2..=MOST).contains(lanes))?;
    let (mut conditions, mut then) = (Vec::new(), body);
    while let Stmt::If { condition, then: inner } = then {
        for_all_lanes(condition, var, lanes, &mut conditions)?;
        then = inner;
    }
    let mut all = Vec::new();
    if !gather(then, &mut all) {
        return None;
    }
    let mut accesses: Vec<Neighbours> = Vec::new();
    // Stores come first: they decide which of several shifted views of one buffer is aligned.
    let (stores, loads): (Vec<&Access>, Vec<&Access>) = all.iter().partition(|access| access.is_store);
    for access in stores.into_iter().chain(loads).filter(|access| access.always && is_movable(access, &all)) {
        let known = accesses.iter_mut().find(|known| known.buffer == access.buffer && known.index == access.index);
        if let Some(known) = known {
            (known.read, known.written) = (known.read || !access.is_store, known.written || access.is_store);
            continue;
        }
        let (Some(width), Some((first, stride))) = (width(access.buffer.dtype(), lanes), first(access, var)) else {
            continue;
        };
        let shifted = |known: &Neighbours| {
            let apart = simplify(&(&first - &known.first)).as_int();
            known.buffer == access.buffer && apart.is_some_and(|apart| apart % known.width as i64 != 0)
        };
        if accesses.iter().any(shifted) {
            continue;
        }
        let (buffer, index) = (access.buffer.clone(), access.index.clone());
        let (read, written) = (!access.is_store, access.is_store);
        accesses.push(Neighbours { buffer, index, first, stride, width, read, written });
    }
    (!accesses.is_empty()).then_some(LanePlan { conditions, accesses, then })
}

/// An expression in one iteration.
fn at(x: &Expr, var: Var, lane: i64) -> Expr {
    simplify(&x.substitute(&|v| (v == var).then(|| Expr::new(var.dtype(), Kind::Int(lane)))))
}

/// Collects what must hold so that a condition holds in all iterations; `None` if indices don't tell this.
fn for_all_lanes(condition: &Expr, var: Var, lanes: i64, found: &mut Vec<Expr>) -> Option<()> {
    condition.conjuncts().into_iter().try_for_each(|test| one_for_all_lanes(test, var, lanes, found))
}

fn one_for_all_lanes(condition: &Expr, var: Var, lanes: i64, found: &mut Vec<Expr>) -> Option<()> {
    match condition.kind() {
        _ if condition.loads() => None,
        Kind::Binary(op @ (Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge), a, b) if a.dtype().is_integer() => {
            // A difference that grows with the iterations is largest in the last one.
            let growth = coefficient(&(a - b), var)?;
            let below = matches!(op, Binary::Lt | Binary::Le);
            found.push(at(condition, var, if (growth > 0) == below { lanes - 1 } else { 0 }));
            Some(())
        }
        _ if !condition.uses(var) => {
            found.push(condition.clone());
            Some(())
        }
        _ => None,
    }
}

/// The index in the first iteration, and the stride that must be 1, if the elements are neighbours.
fn first(access: &Access, var: Var) -> Option<(Expr, Option<Var>)> {
    if coefficient(&access.index, var) == Some(1) {
        return Some((at(&access.index, var, 0), None));
    }
    access.buffer.strides().iter().filter_map(Expr::as_var).find_map(|stride| {
        let unit = |v: Var| (v == stride).then(|| Expr::new(stride.dtype(), Kind::Int(1)));
        let index = simplify(&access.index.substitute(&unit));
        (coefficient(&index, var) == Some(1)).then(|| (at(&index, var, 0), Some(stride)))
    })
}

/// The number of elements of an access: as many as fit, and divide the number of iterations.
fn width(dtype: DType, lanes: i64) -> Option<usize> {
    let DType::Number(element) = dtype else { return None };
    let mut width = WIDEST / element.size();
    while width > 1 && lanes % width as i64 != 0 {
        width /= 2;
    }
    (width > 1).then_some(width)
}

/// Whether a read can be moved before the loop, or a write after it.
fn is_movable(access: &Access, all: &[Access]) -> bool {
    let others = || all.iter().filter(|other| other.buffer == access.buffer);
    let is_written = others().any(|other| other.is_store);
    access.buffer.scope().is_shared_by_threads()
        && !access.index.loads()
        && (!is_written || others().all(|other| other.index == access.index))
}

/// Collects the accesses of stores. False if there is any other statement.
fn gather(statement: &Stmt, found: &mut Vec<Access>) -> bool {
    match statement {
        Stmt::Seq(statements) => statements.iter().all(|statement| gather(statement, found)),
        Stmt::Store { buffer, indices, value } => {
            let [index] = indices.as_slice() else { return false };
            loads(value, found);
            loads(index, found);
            found.push(Access { buffer: buffer.clone(), index: index.clone(), is_store: true, always: true });
            true
        }
        _ => false,
    }
}

fn loads(x: &Expr, found: &mut Vec<Access>) {
    x.visit_guarded(false, &mut |x, guarded| {
        if let Kind::Load(buffer, indices) = x.kind()
            && let [index] = indices.as_slice()
        {
            found.push(Access { buffer: buffer.clone(), index: index.clone(), is_store: false, always: !guarded });
        }
    });
}
