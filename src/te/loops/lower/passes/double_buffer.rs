//! Double buffering: the loop around a stage writes the next iteration's elements to one half while it reads the other.
//!
//! `for i { B = f(i); use(B) }` becomes
//!
//! ```text
//! B[0] = f(0)
//! for i {
//!     if i + 1 < n { B[(i + 1) % 2] = f(i + 1) }
//!     use(B[i % 2])
//! }
//! ```
//!
//! The pass runs before barriers are placed. That pass sees that the halves don't overlap, so one barrier an iteration
//! is enough.

use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::{redirect, substitute, with_fresh_buffers};
use crate::te::loops::ir::stmt::{LoopKind, Note, Stmt};

/// A stage whose memory has two halves.
#[derive(Debug)]
pub(crate) struct DoubleBuffered {
    pub(crate) stage: String,
    pub(crate) buffers: Vec<Buffer>,
    /// Whether the loop in which it is computed has one iteration. There is then no next iteration, and one half is
    /// enough if no other loop is directly around.
    pub(crate) once: bool,
}

/// Doubles the memory of the stages.
pub(crate) fn double(mut statement: Stmt, stages: &[DoubleBuffered]) -> Result<Stmt, TeError> {
    for stage in stages {
        let mut done = false;
        statement = stage.walk(statement, &mut done)?;
        if !done && !stage.once {
            return Err(stage.refuse(
                "it is computed in no loop of its consumer; place it with `compute_at` in a loop that runs in order and \
                 more than once",
            ));
        }
    }
    Ok(statement)
}

impl DoubleBuffered {
    fn refuse(&self, reason: impl Into<String>) -> TeError {
        ScheduleError::Primitive { primitive: "double_buffer", stage: self.stage.clone(), reason: reason.into() }.into()
    }

    /// Finds the innermost loop around the allocation of the stage's memory.
    fn walk(&self, statement: Stmt, done: &mut bool) -> Result<Stmt, TeError> {
        if let Stmt::For { var, extent, kind, body } = statement {
            let body = self.walk(*body, done)?;
            if *done || !self.is_allocated_in(&body) {
                return Ok(Stmt::For { var, extent, kind, body: Box::new(body) });
            }
            *done = true;
            return self.pipelined(var, extent, kind, body);
        }
        let mut mistake = None;
        let result = statement.map_children(&mut |child| {
            if *done || mistake.is_some() {
                return child;
            }
            self.walk(child, done).unwrap_or_else(|error| {
                mistake = Some(error);
                Stmt::Seq(Vec::new())
            })
        });
        mistake.map_or(Ok(result), Err)
    }

    /// Whether the memory is allocated directly in a loop's body.
    fn is_allocated_in(&self, body: &Stmt) -> bool {
        match body {
            Stmt::Allocate { buffer, body } => self.buffers.contains(buffer) || self.is_allocated_in(body),
            _ => false,
        }
    }

    fn pipelined(&self, var: Var, extent: Expr, kind: LoopKind, body: Stmt) -> Result<Stmt, TeError> {
        if !matches!(kind, LoopKind::Serial | LoopKind::Unrolled) {
            return Err(self.refuse(format!("the loop over {} around it does not run in order", var.name())));
        }
        let (memory, body) = peel(body);
        let (own, others): (Vec<Buffer>, Vec<Buffer>) = memory.into_iter().partition(|b| self.buffers.contains(b));
        if own.iter().any(|buffer| buffer.allocation().iter().any(|extent| extent.uses(var))) {
            let reason = format!("its extent changes with {}, and so would the place of the halves", var.name());
            return Err(self.refuse(reason));
        }
        let statements = match body {
            Stmt::Seq(statements) => statements,
            other => vec![other],
        };
        let (producers, rest): (Vec<Stmt>, Vec<Stmt>) =
            statements.into_iter().partition(|s| self.buffers.iter().any(|buffer| stores(s, buffer)));
        if let Some(buffer) = read_before(&producers, &rest) {
            let name = buffer.name();
            return Err(self.refuse(format!(
                "it reads {name}, which the same iteration of {} computes: the next iteration's {name} is not there yet; \
                 compute {name} inside its loops, or outside this one",
                var.name()
            )));
        }
        let doubled: Vec<Buffer> = own.iter().map(two_halves).collect();
        let half = |statement: Stmt, half: &Expr| {
            let place = |buffer: &Buffer, indices: &[Expr]| {
                let place = own.iter().position(|known| known == buffer)?;
                let mut all = vec![half.clone()];
                all.extend(indices.iter().cloned());
                Some((doubled[place].clone(), all))
            };
            redirect(statement, &place)
        };
        let iteration = |value: &Expr| {
            let at = substitute(Stmt::sequence(producers.clone()), &|v| (v == var).then(|| value.clone()));
            half(at, &crate::te::arith::simplify(&value.clone().floor_mod(2)))
        };
        let first = with_fresh_buffers(iteration(&Expr::int(0)));
        let first = guard(&Expr::int(0).less(&extent), first);
        let next = Expr::from(var) + 1;
        let note = |body| {
            doubled.iter().fold(body, |body, buffer| Stmt::Note {
                note: Note::DoubleBufferWrite(buffer.clone()),
                body: Box::new(body),
            })
        };
        let ahead = Stmt::If { condition: next.clone().less(&extent).likely(), then: Box::new(note(iteration(&next))) };
        let now = half(Stmt::sequence(rest), &Expr::from(var).floor_mod(2));
        let body = allocate(others, Stmt::sequence([ahead, now]));
        let repeated = Stmt::For { var, extent, kind, body: Box::new(body) };
        Ok(allocate(doubled.clone(), Stmt::sequence([first, repeated])))
    }
}

fn two_halves(buffer: &Buffer) -> Buffer {
    let mut shape = vec![Expr::int(2)];
    shape.extend(buffer.shape().iter().cloned());
    if buffer.is_compact() {
        // The halves belong to the first group of dimensions.
        let separators: Vec<usize> = buffer.separators().iter().map(|place| place + 1).collect();
        let whole = Buffer::compact(buffer.name(), buffer.dtype(), shape, buffer.scope());
        return whole.with_separators(&separators);
    }
    let mut strides = vec![crate::te::arith::simplify(&buffer.length())];
    strides.extend(buffer.strides().iter().cloned());
    Buffer::new(buffer.name(), buffer.dtype(), shape, strides, buffer.scope())
}

fn guard(condition: &Expr, then: Stmt) -> Stmt {
    let condition = crate::te::arith::simplify(condition);
    if condition.as_int() == Some(1) { then } else { Stmt::If { condition, then: Box::new(then) } }
}

/// Splits a loop's body into the allocations at its top and the statement inside them.
fn peel(mut body: Stmt) -> (Vec<Buffer>, Stmt) {
    let mut memory = Vec::new();
    while let Stmt::Allocate { buffer, body: inner } = body {
        memory.push(buffer);
        body = *inner;
    }
    (memory, body)
}

fn allocate(buffers: Vec<Buffer>, body: Stmt) -> Stmt {
    buffers.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

/// A buffer that `producers` read and `rest` writes, if there is one.
fn read_before(producers: &[Stmt], rest: &[Stmt]) -> Option<Buffer> {
    let mut read = Vec::new();
    producers.iter().for_each(|statement| loads(statement, &mut read));
    read.into_iter().find(|buffer| rest.iter().any(|statement| stores(statement, buffer)))
}

fn stores(statement: &Stmt, buffer: &Buffer) -> bool {
    let own = match statement {
        Stmt::Store { buffer: other, .. } => other == buffer,
        Stmt::AllReduce(reduce) => reduce.results.contains(buffer),
        _ => false,
    };
    own || statement.children().into_iter().any(|child| stores(child, buffer))
}

fn loads(statement: &Stmt, found: &mut Vec<Buffer>) {
    for x in statement.expressions() {
        x.visit(&mut |x| {
            if let Kind::Load(buffer, _) = x.kind()
                && !found.contains(buffer)
            {
                found.push(buffer.clone());
            }
        });
    }
    statement.children().into_iter().for_each(|child| loads(child, found));
}
