//! Rewrites of statements: redirects accesses, replaces variables.

use super::device_call::{CallArgument, DeviceCall};
use super::stmt::{Note, Stmt};
use crate::te::arith::shape::compact_strides;
use crate::te::arith::simplify;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;

/// The new place of an access of a buffer; `None` if it stays.
pub(crate) type NewPlace<'a> = dyn Fn(&Buffer, &[Expr]) -> Option<(Buffer, Vec<Expr>)> + 'a;

/// Moves the accesses of some buffers to another place.
pub(crate) fn redirect(statement: Stmt, place: &NewPlace<'_>) -> Stmt {
    fn loads(x: &Expr, place: &NewPlace<'_>) -> Expr {
        x.rewrite(&mut |inner| match inner.kind() {
            Kind::Load(buffer, indices) => match place(buffer, indices) {
                Some((buffer, indices)) => Expr::new(inner.dtype(), Kind::Load(buffer, indices)),
                None => inner,
            },
            _ => inner,
        })
    }
    let statement = match statement {
        Stmt::Store { buffer, indices, value } => match place(&buffer, &indices) {
            Some((buffer, indices)) => Stmt::Store { buffer, indices, value },
            None => Stmt::Store { buffer, indices, value },
        },
        Stmt::Prefetch { buffer, indices } => match place(&buffer, &indices) {
            Some((buffer, indices)) => Stmt::Prefetch { buffer, indices },
            None => Stmt::Prefetch { buffer, indices },
        },
        Stmt::Note { note, body } => {
            let note = match note {
                Note::Pragma(..) => note,
                Note::DoubleBufferWrite(buffer) => {
                    let other = place(&buffer, &[Expr::int(0)]).map(|(other, _)| other);
                    Note::DoubleBufferWrite(other.unwrap_or(buffer))
                }
                Note::Call(DeviceCall { function, arguments }) => {
                    let arguments = arguments.into_iter().map(|argument| match argument {
                        CallArgument::Pointer(buffer, indices) => match place(&buffer, &indices) {
                            Some((buffer, indices)) => CallArgument::Pointer(buffer, indices),
                            None => CallArgument::Pointer(buffer, indices),
                        },
                        value @ CallArgument::Value(_) => value,
                    });
                    Note::Call(DeviceCall { function, arguments: arguments.collect() })
                }
            };
            Stmt::Note { note, body: Box::new(redirect(*body, place)) }
        }
        Stmt::AllReduce(mut reduce) => {
            let result =
                |buffer: &Buffer| place(buffer, &[Expr::int(0)]).map_or_else(|| buffer.clone(), |(other, _)| other);
            reduce.results = reduce.results.iter().map(result).collect();
            Stmt::AllReduce(reduce)
        }
        other => other.map_children(&mut |child| redirect(child, place)),
    };
    map_own(statement, &mut |x| loads(x, place))
}

/// Replaces the expressions of the statement itself, not those of inner statements.
fn map_own(statement: Stmt, f: &mut dyn FnMut(&Expr) -> Expr) -> Stmt {
    match statement {
        Stmt::For { var, extent, kind, body } => Stmt::For { var, extent: f(&extent), kind, body },
        Stmt::If { condition, then } => Stmt::If { condition: f(&condition), then },
        Stmt::Let { var, value, body } => Stmt::Let { var, value: f(&value), body },
        Stmt::Launch { thread, var, extent, body } => Stmt::Launch { thread, var, extent: f(&extent), body },
        leaf @ (Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Prefetch { .. }) => leaf.map_expressions(f),
        Stmt::Note { note, body } => Stmt::Note { note: note.map_expressions(f), body },
        other @ (Stmt::Seq(_) | Stmt::Allocate { .. } | Stmt::Barrier) => other,
    }
}

/// Replaces variables, also in the extents of memory that the statement allocates.
pub(crate) fn substitute(statement: Stmt, replace: &dyn Fn(Var) -> Option<Expr>) -> Stmt {
    let statement = match statement {
        Stmt::Allocate { buffer, body } => {
            let body = substitute(*body, replace);
            let shape: Vec<Expr> = buffer.shape().iter().map(|extent| extent.substitute(replace)).collect();
            if shape == buffer.shape() {
                return Stmt::Allocate { buffer, body: Box::new(body) };
            }
            let strides = buffer.strides().iter().map(|stride| stride.substitute(replace)).collect();
            let other = if buffer.is_compact() {
                Buffer::compact(buffer.name(), buffer.dtype(), shape, buffer.scope())
                    .with_separators(buffer.separators())
            } else {
                Buffer::new(buffer.name(), buffer.dtype(), shape, strides, buffer.scope())
            };
            let place =
                |accessed: &Buffer, indices: &[Expr]| (*accessed == buffer).then(|| (other.clone(), indices.to_vec()));
            return Stmt::Allocate { buffer: other.clone(), body: Box::new(redirect(body, &place)) };
        }
        other => other.map_children(&mut |child| substitute(child, replace)),
    };
    map_own(statement, &mut |x| x.substitute(replace))
}

/// Gives the memory that a statement allocates fresh buffers. A copy that stands beside its original needs this,
/// because no buffer may be allocated in two places.
pub(crate) fn with_fresh_buffers(statement: Stmt) -> Stmt {
    match statement {
        Stmt::Allocate { buffer, body } => {
            let (shape, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
            let other = Buffer::new(buffer.name(), buffer.dtype(), shape, strides, buffer.scope())
                .with_separators(buffer.separators());
            let place =
                |accessed: &Buffer, indices: &[Expr]| (*accessed == buffer).then(|| (other.clone(), indices.to_vec()));
            let body = redirect(with_fresh_buffers(*body), &place);
            Stmt::Allocate { buffer: other, body: Box::new(body) }
        }
        other => other.map_children(&mut with_fresh_buffers),
    }
}

/// Gives every access one index. Memory with axis separators is row-major over its groups of dimensions.
pub(crate) fn with_one_index(statement: Stmt) -> Stmt {
    let place = |buffer: &Buffer, indices: &[Expr]| {
        if buffer.separators().is_empty() || indices.len() < 2 {
            return None;
        }
        let strides = compact_strides(&buffer.flat_extents());
        let terms = indices.iter().zip(&strides).map(|(index, stride)| index * stride);
        let index = simplify(&terms.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(0)));
        Some((buffer.clone(), vec![index]))
    };
    redirect(statement, &place)
}

/// Replaces names of index arithmetic by their values, so that an index shows how it depends on each loop.
pub(crate) fn inline_indices(statement: Stmt) -> Stmt {
    match statement {
        Stmt::Let { var, value, body } if var.dtype().is_integer() && !value.loads() => {
            let replace = |v: Var| (v == var).then(|| value.clone());
            inline_indices(substitute(*body, &replace))
        }
        other => other.map_children(&mut inline_indices),
    }
}
