//! Tensors that are computed element by element and lie in memory anyway: outputs, and factors of products.
//!
//! Whoever else reads them takes them from there. Without that, a residual would write out all layers below it. A tensor
//! is kept if its stored elements are its values: they have the type in which they are computed, or a cast has rounded
//! them. So what is read from memory equals what is written out.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ElementType;
use crate::te::DType;
use crate::te::auto::{computed, inlined_except, parts};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Operation, Tensor};

/// Operations whose results are read from memory.
#[derive(Debug, Default)]
pub(super) struct Kept(HashSet<*const Operation>);

impl Kept {
    /// Adds a tensor that is in memory, if its stored elements are its values.
    pub(super) fn add(&mut self, tensor: &Tensor) {
        let operation = tensor.operation();
        let Some(compute) = operation.as_compute().filter(|_| parts(operation).is_none()) else { return };
        let [body] = compute.body.as_slice() else { return };
        let dtype = tensor.dtype();
        let is_number =
            matches!(dtype, DType::Number(ElementType::F64 | ElementType::F32 | ElementType::F16 | ElementType::BF16));
        if is_number && (computed(dtype) == dtype || matches!(body.kind(), Kind::Cast(_))) {
            self.0.insert(Arc::as_ptr(operation));
        }
    }

    pub(super) fn has(&self, operation: &Operation) -> bool {
        self.0.contains(&std::ptr::from_ref(operation))
    }

    /// An expression in which everything is written out that is neither kept nor a reduction.
    pub(super) fn inlined(&self, x: &Expr) -> Expr {
        inlined_except(x, &|operation| self.has(operation))
    }
}
