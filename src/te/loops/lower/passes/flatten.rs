//! Flattens accesses: gives each one index, the sum of the indices times the strides. Memory whose layout has axis
//! separators gets an index for each group of dimensions between them.

use crate::te::arith::shape::compact_strides;
use crate::te::arith::simplify;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::loops::ir::device_call::{CallArgument, DeviceCall};
use crate::te::loops::ir::outside::{is_nowhere, outside};
use crate::te::loops::ir::stmt::{Note, Stmt};

pub(crate) fn flatten(statement: Stmt) -> Stmt {
    let statement = match statement {
        Stmt::Store { buffer, indices, value } => {
            let indices = offsets(&buffer, &indices);
            Stmt::Store { buffer, indices, value }
        }
        Stmt::Prefetch { buffer, indices } => {
            let indices = offsets(&buffer, &indices);
            Stmt::Prefetch { buffer, indices }
        }
        Stmt::Note { note: Note::Call(DeviceCall { function, arguments }), body } => {
            let flat = |argument| match argument {
                CallArgument::Pointer(buffer, indices) => {
                    let indices = offsets(&buffer, &indices);
                    CallArgument::Pointer(buffer, indices)
                }
                value @ CallArgument::Value(_) => value,
            };
            let arguments = arguments.into_iter().map(flat).collect();
            Stmt::Note { note: Note::Call(DeviceCall { function, arguments }), body: Box::new(flatten(*body)) }
        }
        other => other.map_children(&mut flatten),
    };
    let own = |x: &Expr| loads(x);
    match statement {
        Stmt::For { .. } | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Launch { .. } => map_own(statement, &own),
        Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Prefetch { .. } => statement.map_expressions(&mut |x| own(x)),
        Stmt::Note { note, body } => Stmt::Note { note: note.map_expressions(&mut |x| own(x)), body },
        Stmt::Seq(_) | Stmt::Allocate { .. } | Stmt::Barrier => statement,
    }
}

fn map_own(statement: Stmt, f: &dyn Fn(&Expr) -> Expr) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind, body } => Stmt::For { var, extent: f(&extent), kind, body },
        Stmt::If { condition, then } => Stmt::If { condition: f(&condition), then },
        Stmt::Let { var, value, body } => Stmt::Let { var, value: f(&value), body },
        Stmt::Launch { thread, var, extent, body } => Stmt::Launch { thread, var, extent: f(&extent), body },
        other => other,
    }
}

fn loads(x: &Expr) -> Expr {
    x.rewrite(&mut |inner| match inner.kind() {
        Kind::Load(buffer, indices) if is_nowhere(indices) => {
            let indices = vec![outside(&Expr::int(0)); buffer.groups().len()];
            Expr::new(inner.dtype(), Kind::Load(buffer.clone(), indices))
        }
        Kind::Load(buffer, indices) => Expr::new(inner.dtype(), Kind::Load(buffer.clone(), offsets(buffer, indices))),
        Kind::Select(inside, read, other) => match (read.kind(), other.kind()) {
            (Kind::Load(buffer, indices), Kind::Load(same, others)) if buffer == same && is_nowhere(others) => {
                let indices = indices.iter().map(|index| tested(inside, buffer, index)).collect();
                Expr::new(inner.dtype(), Kind::Load(buffer.clone(), indices))
            }
            _ => inner,
        },
        _ => inner,
    })
}

/// An index with the tests of the [dimensions](crate::te::loops::lower). If one fails, it is a place that every target
/// recognises as outside, and one that tells the index if the test does.
fn tested(inside: &Expr, buffer: &Buffer, index: &Expr) -> Expr {
    let several = buffer.groups().len() > 1;
    inside.conjuncts().into_iter().rev().fold(index.clone(), |place, test| {
        let outside = match test.kind() {
            Kind::Binary(Binary::Ge, x, _) if !several => x.clone(),
            Kind::Binary(Binary::Lt, x, _) if !several => x.max(buffer.reach()),
            _ => outside(index),
        };
        test.select(place, outside)
    })
}

fn offsets(buffer: &Buffer, indices: &[Expr]) -> Vec<Expr> {
    if buffer.separators().is_empty() {
        return vec![within(buffer, indices, offset(indices, buffer.strides()))];
    }
    let groups = buffer.groups().into_iter();
    groups.map(|group| offset(&indices[group.clone()], &compact_strides(&buffer.shape()[group]))).collect()
}

/// Tests indices that are read from memory. An index may be outside of its own dimension although the sum of all is a
/// place in the tensor; or it may wrap. It is then replaced by a place that every target recognises as outside.
fn within(buffer: &Buffer, indices: &[Expr], offset: Expr) -> Expr {
    if buffer.scope() != Scope::Global || (indices.len() == 1 && buffer.strides()[0].as_int() == Some(1)) {
        return offset;
    }
    let read = indices.iter().zip(buffer.shape()).rev().filter(|(index, _)| index.loads());
    read.fold(offset, |place, (index, extent)| {
        let outside = index.less(0).select(index.clone(), index.max(buffer.reach()));
        index.greater_equal(0).and(index.less(extent)).select(place, outside)
    })
}

fn offset(indices: &[Expr], strides: &[Expr]) -> Expr {
    let terms = indices.iter().zip(strides).map(|(index, stride)| index * stride);
    simplify(&terms.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(0)))
}
