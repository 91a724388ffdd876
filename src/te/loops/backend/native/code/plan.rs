//! Decides what a loop allows: whether its iterations can be lanes, and which elements can stay in registers.

use super::value::lanes_per_vector;
use crate::te::arith::{coefficient, simplify};
use crate::te::dtype::DType;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

/// The number of 32-bit lanes at a time: as many vectors as leave enough registers for intermediate values.
const LANES: usize = 32;
/// The number of registers in which a loop may keep elements.
const KEPT: usize = 16;

/// An index in the first lane.
pub(super) fn first_lane(index: &Expr, lane: Var) -> Expr {
    simplify(&index.substitute(&|var| (var == lane).then(|| Expr::new(var.dtype(), Kind::Int(0)))))
}

/// The iterations from which on a loop's body does nothing, so that the loop may end there; and the body without the
/// test that tells this. The test is around the whole body and holds only for the first iterations.
pub(super) fn limits(var: Var, body: &Stmt) -> (Vec<Expr>, &Stmt) {
    let (mut found, mut inner) = (Vec::new(), body);
    while let Stmt::If { condition, then } = inner {
        let mut more = Vec::new();
        if !tests_below(condition, var, &mut more) {
            break;
        }
        found.append(&mut more);
        inner = then;
    }
    (found, inner)
}

/// Collects the counter's first value for which a condition fails from there on. False if the condition is not of this
/// kind.
fn tests_below(condition: &Expr, var: Var, found: &mut Vec<Expr>) -> bool {
    condition.conjuncts().into_iter().all(|test| is_below(test, var, found))
}

fn is_below(condition: &Expr, var: Var, found: &mut Vec<Expr>) -> bool {
    match condition.kind() {
        Kind::Binary(op @ (Binary::Lt | Binary::Le), a, b)
            if a.dtype().is_integer() && !condition.loads() && coefficient(&(a - b), var) == Some(1) =>
        {
            let room = first_lane(&(b - a), var);
            found.push(if *op == Binary::Le { room + 1 } else { room });
            true
        }
        _ => false,
    }
}

/// The difference of two indices, if it is a constant.
fn constant_difference(a: &Expr, b: &Expr) -> Option<i64> {
    simplify(&(a - b)).as_int()
}

/// How a vectorised loop runs.
#[derive(Debug)]
pub(super) struct VectorPlan {
    /// The number of iterations at a time.
    pub(super) lanes: usize,
    /// Distances between what is read and what is written. Each must be 0 or at least the loop's extent.
    pub(super) distances: Vec<Expr>,
}

/// Decides whether the iterations of a loop can be lanes.
pub(super) fn vector_plan(var: Var, extent: &Expr, body: &Stmt) -> Option<VectorPlan> {
    let mut shape = Shape { var, bound: Vec::new(), widest: 4, allowed: true };
    shape.check(body);
    if !shape.allowed {
        return None;
    }
    let distances = distances(var, extent, body)?;
    let most = if shape.widest == 8 { LANES / 2 } else { LANES };
    let lanes = match extent.as_int().map(|extent| usize::try_from(extent).unwrap_or(0)) {
        Some(extent) => (extent / 4 * 4).min(most),
        None => most,
    };
    (lanes >= 4).then_some(VectorPlan { lanes, distances })
}

struct Shape {
    var: Var,
    /// Variables that may differ between lanes.
    bound: Vec<Var>,
    /// The size in bytes of the widest type that occurs.
    widest: usize,
    allowed: bool,
}

impl Shape {
    fn varies(&self, x: &Expr) -> bool {
        x.uses(self.var) || self.bound.iter().any(|var| x.uses(*var))
    }

    fn check(&mut self, statement: &Stmt) {
        for x in statement.expressions() {
            x.visit(&mut |x| {
                if matches!(x.dtype(), DType::Number(element) if element.is_float() && element.size() == 8) {
                    self.widest = 8;
                }
            });
        }
        match statement {
            Stmt::For { extent, .. } => self.allowed &= !self.varies(extent),
            Stmt::If { condition, .. } => self.allowed &= !self.varies(condition),
            Stmt::Let { var, value, .. } => {
                if self.varies(value) {
                    self.bound.push(*var);
                }
            }
            Stmt::Allocate { .. } | Stmt::Launch { .. } | Stmt::AllReduce(_) | Stmt::Barrier => self.allowed = false,
            Stmt::Store { .. } | Stmt::Seq(_) | Stmt::Note { .. } | Stmt::Prefetch { .. } => {}
        }
        statement.children().into_iter().for_each(|child| self.check(child));
    }
}

/// The distances that must be tested before a loop's iterations may be lanes; `None` when they may not.
///
/// A lane must only see what it wrote itself. So all accesses of a written buffer must move by the same step from lane to lane.
/// They must be either equal or too far apart to overlap.
fn distances(var: Var, extent: &Expr, body: &Stmt) -> Option<Vec<Expr>> {
    let mut accesses = Vec::new();
    gather(body, &mut accesses);
    let mut distances: Vec<Expr> = Vec::new();
    for write in accesses.iter().filter(|access| access.is_store) {
        let step = coefficient(&write.index, var).filter(|step| *step != 0)?;
        for other in accesses.iter().filter(|other| other.buffer == write.buffer) {
            // Another iteration of an inner loop, or another value of a name, may touch what another lane wrote.
            if other.inner.iter().any(|inner| other.index.uses(*inner)) {
                return None;
            }
            if other.index == write.index {
                continue;
            }
            if coefficient(&other.index, var) != Some(step) || step != 1 {
                return None;
            }
            let distance = simplify(&(&first_lane(&write.index, var) - &first_lane(&other.index, var)));
            match (distance.as_int(), extent.as_int()) {
                (Some(0), _) => {}
                (Some(distance), Some(extent)) if distance.abs() >= extent => {}
                (Some(_), Some(_)) => return None,
                _ if distance_is_opaque(&distance) => return None,
                _ if !distances.contains(&distance) => distances.push(distance),
                _ => {}
            }
        }
    }
    Some(distances)
}

fn distance_is_opaque(distance: &Expr) -> bool {
    let mut found = false;
    distance.visit(&mut |x| found |= matches!(x.kind(), Kind::Load(..)));
    found
}

/// One access of a buffer in a loop's body.
#[derive(Clone, Debug)]
struct Access {
    buffer: Buffer,
    index: Expr,
    is_store: bool,
    /// The loop counters and names between the body and the access.
    inner: Vec<Var>,
}

fn gather(statement: &Stmt, found: &mut Vec<Access>) {
    fn walk(statement: &Stmt, inner: &mut Vec<Var>, found: &mut Vec<Access>) {
        for x in statement.expressions() {
            x.visit(&mut |x| {
                if let Kind::Load(buffer, indices) = x.kind()
                    && let [index] = indices.as_slice()
                {
                    let (buffer, index) = (buffer.clone(), index.clone());
                    found.push(Access { buffer, index, is_store: false, inner: inner.clone() });
                }
            });
        }
        if let Stmt::Store { buffer, indices, .. } = statement
            && let [index] = indices.as_slice()
        {
            let (buffer, index) = (buffer.clone(), index.clone());
            found.push(Access { buffer, index, is_store: true, inner: inner.clone() });
        }
        let outside = inner.len();
        if let Stmt::For { var, .. } | Stmt::Let { var, .. } = statement {
            inner.push(*var);
        }
        statement.children().into_iter().for_each(|child| walk(child, inner, found));
        inner.truncate(outside);
    }
    walk(statement, &mut Vec::new(), found);
}

/// An element, or a run of lanes, that a loop accesses repeatedly.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) buffer: Buffer,
    /// The index in lane 0 of the whole loop, which tells accesses of the same element.
    pub(super) index: Expr,
    /// The index of the first element, at the beginning of the loop that keeps it.
    pub(super) place: Expr,
    pub(super) width: usize,
    written: bool,
    /// Whether every iteration accesses it.
    always: bool,
}

/// The elements that a loop may keep in registers: it writes them, doesn't change their index, and no other access in
/// it can touch them. `lanes` are those of the vectorised loop around it.
pub(super) fn in_registers(var: Var, body: &Stmt, lanes: Option<(Var, usize)>) -> Vec<Candidate> {
    let inside = lanes.is_some();
    let mut search = Search { bound: vec![var], lanes, inside, found: Vec::new(), refused: Vec::new() };
    search.walk(body, true);
    let Search { mut found, refused, .. } = search;
    found.retain(|candidate| !refused.contains(&candidate.buffer));
    let all = found.clone();
    found.retain(|candidate| {
        let apart = |other: &&Candidate| {
            let distance = constant_difference(&other.index, &candidate.index);
            let width = i64::try_from(candidate.width.max(other.width)).unwrap_or(i64::MAX);
            distance.is_none_or(|distance| distance.abs() < width)
        };
        let same = |other: &&Candidate| other.buffer == candidate.buffer;
        let itself = |other: &Candidate| other.index == candidate.index && other.width == candidate.width;
        !all.iter().filter(same).filter(|other| !itself(other)).any(|other| apart(&other))
    });
    // Either all accessed elements of a buffer are kept or none. Otherwise an access could read stale memory.
    let of = |list: &[Candidate], buffer: &Buffer| list.iter().filter(|c| c.buffer == *buffer).count();
    let complete = found.clone();
    found.retain(|c| of(&complete, &c.buffer) == of(&all, &c.buffer) && c.always);
    let always = found.clone();
    found.retain(|c| of(&always, &c.buffer) == of(&all, &c.buffer));
    let written: Vec<Buffer> = found.iter().filter(|c| c.written).map(|c| c.buffer.clone()).collect();
    found.retain(|c| written.contains(&c.buffer));
    let mut left = KEPT;
    found.retain(|candidate| {
        let registers =
            if candidate.width == 1 { 1 } else { candidate.width / lanes_per_vector(candidate.buffer.dtype()) };
        let fits = registers <= left;
        left -= if fits { registers } else { 0 };
        fits
    });
    let fitting = found.clone();
    found.retain(|c| of(&fitting, &c.buffer) == of(&all, &c.buffer));
    found
}

struct Search {
    /// Counters and names whose values change inside the loop.
    bound: Vec<Var>,
    lanes: Option<(Var, usize)>,
    /// Whether the lanes belong to a loop outside, which may be at a later run of lanes.
    inside: bool,
    found: Vec<Candidate>,
    refused: Vec<Buffer>,
}

impl Search {
    fn walk(&mut self, statement: &Stmt, always: bool) {
        let own_always = always;
        for x in statement.expressions() {
            self.loads(x, own_always);
        }
        match statement {
            Stmt::Store { buffer, indices, .. } => self.access(buffer, indices, true, always),
            Stmt::Seq(statements) => statements.iter().for_each(|s| self.walk(s, always)),
            Stmt::If { then, .. } => self.walk(then, false),
            Stmt::Let { var, body, .. } => {
                self.bound.push(*var);
                self.walk(body, always);
            }
            Stmt::Allocate { buffer, body } => {
                self.refused.push(buffer.clone());
                self.walk(body, always);
            }
            Stmt::For { var, extent, kind, body } => self.inner_loop(*var, extent, *kind, body, always),
            Stmt::Note { body, .. } => self.walk(body, always),
            Stmt::Launch { .. } | Stmt::AllReduce(_) | Stmt::Barrier | Stmt::Prefetch { .. } => {}
        }
    }

    fn inner_loop(&mut self, var: Var, extent: &Expr, kind: LoopKind, body: &Stmt, always: bool) {
        let runs = extent.as_int().is_some_and(|n| n > 0);
        if kind == LoopKind::Parallel && self.lanes.is_none() {
            // Its body is another function, which sees only memory.
            let mut accesses = Vec::new();
            gather(body, &mut accesses);
            self.refused.extend(accesses.into_iter().map(|access| access.buffer));
            return;
        }
        let plan = (kind == LoopKind::Vectorized && self.lanes.is_none()).then(|| vector_plan(var, extent, body));
        match plan.flatten() {
            Some(plan) if whole(&plan, extent) => {
                self.lanes = Some((var, plan.lanes));
                self.walk(body, always && runs);
                self.lanes = None;
            }
            _ => {
                self.bound.push(var);
                self.walk(body, always && runs);
            }
        }
    }

    fn loads(&mut self, x: &Expr, always: bool) {
        x.visit_guarded(!always, &mut |x, guarded| {
            if let Kind::Load(buffer, indices) = x.kind() {
                self.access(buffer, indices, false, !guarded);
            }
        });
    }

    fn access(&mut self, buffer: &Buffer, indices: &[Expr], written: bool, always: bool) {
        let [index] = indices else { return self.refused.push(buffer.clone()) };
        let whole = index;
        let (index, width) = match self.lanes {
            Some((lane, width)) => match coefficient(index, lane) {
                Some(0) => (index.clone(), 1),
                Some(1) => (first_lane(index, lane), width),
                _ => return self.refused.push(buffer.clone()),
            },
            None => (index.clone(), 1),
        };
        let place = if self.inside { whole.clone() } else { index.clone() };
        let mut moves = self.bound.iter().any(|var| index.uses(*var));
        index.visit(&mut |x| moves |= matches!(x.kind(), Kind::Load(..)));
        if moves {
            return self.refused.push(buffer.clone());
        }
        let known = self.found.iter_mut().find(|c| c.buffer == *buffer && c.index == index && c.width == width);
        match known {
            Some(candidate) => {
                candidate.written |= written;
                candidate.always |= always;
            }
            None => self.found.push(Candidate { buffer: buffer.clone(), index, place, width, written, always }),
        }
    }
}

/// Whether a vectorised loop is exactly one run of lanes, with nothing before or after it, and without tests.
pub(super) fn whole(plan: &VectorPlan, extent: &Expr) -> bool {
    plan.distances.is_empty() && extent.as_int().is_some_and(|extent| usize::try_from(extent) == Ok(plan.lanes))
}
