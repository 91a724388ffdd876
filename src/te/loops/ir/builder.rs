//! Builds statements by hand, for the implementation of a tensor intrinsic.

use std::sync::Arc;

use super::device_call::{CallArgument, DeviceCall, DeviceFunction};
use super::stmt::{LoopKind, Note, Stmt};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind, retyped};
use crate::te::expr::tensor::Indices;
use crate::te::expr::var::Var;

impl Buffer {
    /// The element at the given indices; one index for each dimension.
    pub fn load(&self, indices: impl Indices) -> Expr {
        match self.indices(indices.expressions()) {
            Ok(indices) => Expr::new(self.dtype(), Kind::Load(self.clone(), indices)),
            Err(error) => Expr::invalid(error),
        }
    }

    /// `self[indices] = value`. A constant is converted to the buffer's type. A mistake is reported where the statement
    /// is used.
    pub fn store(&self, indices: impl Indices, value: impl Into<Expr>) -> Stmt {
        let value = value.into();
        let value = match retyped(&value, self.dtype()) {
            Ok(Some(number)) => number,
            _ if value.error().is_some() || value.dtype() == self.dtype() => value,
            Ok(None) => Expr::invalid(ExpressionError::MixedTypes { left: self.dtype(), right: value.dtype() }.into()),
            Err(error) => Expr::invalid(error),
        };
        let (indices, value) = match self.indices(indices.expressions()) {
            Ok(indices) => (indices, value),
            Err(error) => (vec![Expr::int(0); self.shape().len()], Expr::invalid(error)),
        };
        Stmt::Store { buffer: self.clone(), indices, value }
    }

    fn indices(&self, indices: Vec<Expr>) -> Result<Vec<Expr>, TeError> {
        if let Some(error) = indices.iter().find_map(Expr::error) {
            return Err(error);
        }
        if indices.len() != self.shape().len() {
            let (needed, given) = (self.shape().len(), indices.len());
            return Err(ExpressionError::Rank { tensor: self.name().to_owned(), needed, given }.into());
        }
        match indices.iter().find(|x| !x.dtype().is_integer()) {
            Some(index) => {
                Err(ExpressionError::IndexType { tensor: self.name().to_owned(), given: index.dtype() }.into())
            }
            None => Ok(indices),
        }
    }
}

impl Stmt {
    /// `for name in 0..extent { body }`
    pub fn for_range(name: &str, extent: impl Into<Expr>, body: impl FnOnce(Var) -> Self) -> Self {
        Self::for_kind(LoopKind::Serial, name, extent, body)
    }

    /// [`Stmt::for_range`] for a loop of another kind.
    pub fn for_kind(kind: LoopKind, name: &str, extent: impl Into<Expr>, body: impl FnOnce(Var) -> Self) -> Self {
        let var = Var::counter(name);
        Self::For { var, extent: extent.into(), kind, body: Box::new(body(var)) }
    }

    /// `if condition { then }`
    #[must_use]
    pub fn when(condition: Expr, then: Self) -> Self {
        Self::If { condition, then: Box::new(then) }
    }

    /// One statement after the other.
    pub fn in_order(statements: impl IntoIterator<Item = Self>) -> Self {
        Self::sequence(statements)
    }

    /// Private row-major memory of a thread, which exists while `body` runs.
    pub fn with_local(
        name: &str,
        dtype: impl Into<DType>,
        shape: impl Indices,
        body: impl FnOnce(&Buffer) -> Self,
    ) -> Self {
        let buffer = Buffer::compact(name, DType::of(dtype), shape.expressions(), Scope::Local);
        let body = Box::new(body(&buffer));
        Self::Allocate { buffer, body }
    }
}

impl DeviceFunction {
    /// A call of a device function on CUDA, and `portable` everywhere else. The caller must make sure that both do the
    /// same. Reads, writes and the places of barriers are taken from `portable`.
    pub fn call(self: &Arc<Self>, arguments: Vec<CallArgument>, portable: Stmt) -> Stmt {
        let call = DeviceCall { function: Arc::clone(self), arguments };
        Stmt::Note { note: Note::Call(call), body: Box::new(portable) }
    }
}
