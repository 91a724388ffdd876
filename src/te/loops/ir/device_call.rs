//! Functions written in CUDA C++, and calls of them.

use std::sync::Arc;

use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;

/// A device function in CUDA C++ that replaces statements.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceFunction {
    name: String,
    text: String,
}

impl DeviceFunction {
    /// A function and its definition. `text` must define `name` as a `__device__` function that returns nothing. It is
    /// placed once before the kernels, and may hold several definitions.
    ///
    /// Pointers are to elements as they are stored: `float`, `double`, `int`, `long long`, `signed char`,
    /// `unsigned char`, `bool`, and `epilogue::f16` and so on for smaller floats. A thread's private memory stores
    /// smaller floats as `float`. Values are `int`, `long long`, `float`, `double` or `bool`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into() })
    }

    /// The function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The definition.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A call of a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCall {
    /// The function.
    pub function: Arc<DeviceFunction>,
    /// Its arguments.
    pub arguments: Vec<CallArgument>,
}

/// An argument of a device function.
#[derive(Clone, Debug, PartialEq)]
pub enum CallArgument {
    /// A pointer to an element.
    Pointer(Buffer, Vec<Expr>),
    /// A number.
    Value(Expr),
}
