//! The names of variables and elements of memory in CUDA C++ text.

use std::collections::HashMap;

use crate::te::error::{LoweringError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;

/// Gives the names of an expression's variables and elements of memory.
pub(crate) trait Names {
    /// The name of a variable.
    fn var(&self, var: Var) -> Result<String, TeError>;

    /// An element of a buffer, as text that can be assigned to: `A[index]`.
    fn element(&self, buffer: &Buffer, index: &str) -> Result<String, TeError> {
        let _ = index;
        Err(TeError::Internal { what: format!("{} is not memory of this kernel", buffer.name()) })
    }

    /// An element of a tensor that is not lowered to a buffer.
    fn read(&self, tensor: &Tensor, indices: &[String]) -> Result<String, TeError> {
        let _ = indices;
        Err(LoweringError::NotLowered { what: tensor.name() }.into())
    }

    /// Whether an access is tested although its index doesn't depend on memory.
    fn tests(&self, buffer: &Buffer, index: &Expr) -> bool {
        let _ = (buffer, index);
        false
    }

    /// Whether variables of [`DType::I32`] are `long long` here, for memory of 2^31 elements and more.
    fn wide_indices(&self) -> bool {
        false
    }

    /// How many expressions with named parts are around this one.
    fn depth(&self) -> usize {
        0
    }
}

/// The names of a kernel, plus those of an expression's own parts.
pub(super) struct WithParts<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) parts: HashMap<Var, String>,
}

impl Names for WithParts<'_> {
    fn var(&self, var: Var) -> Result<String, TeError> {
        self.parts.get(&var).map_or_else(|| self.names.var(var), |name| Ok(name.clone()))
    }

    fn element(&self, buffer: &Buffer, index: &str) -> Result<String, TeError> {
        self.names.element(buffer, index)
    }

    fn read(&self, tensor: &Tensor, indices: &[String]) -> Result<String, TeError> {
        self.names.read(tensor, indices)
    }

    fn tests(&self, buffer: &Buffer, index: &Expr) -> bool {
        self.names.tests(buffer, index)
    }

    fn wide_indices(&self) -> bool {
        self.names.wide_indices()
    }

    fn depth(&self) -> usize {
        self.names.depth() + 1
    }
}
