//! Functions written in CUDA C++, and calls of them.

use std::sync::Arc;

use crate::te::lang::buffer::Buffer;
use crate::te::lang::expr::Expr;

/// A device function in CUDA C++ that can stand for statements.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceFunction {
    name: String,
    text: String,
}

impl DeviceFunction {
    /// A function and its definition, in which `name` must be a `__device__` function that returns nothing. The text goes
    /// before the kernels, once; it may hold several definitions.
    ///
    /// Pointers are to elements as they lie in memory (`float`, `double`, `int`, `long long`, `signed char`,
    /// `unsigned char`, `bool`; `epilogue::f16` and so on for smaller floats, of which a thread's own memory holds
    /// `float`s); values are `int`, `long long`, `float`, `double` or `bool`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into() })
    }

    /// What it is called as.
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
    /// What is called.
    pub function: Arc<DeviceFunction>,
    /// With what.
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
