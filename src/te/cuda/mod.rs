//! CUDA C++ of tensor expressions, for scheduled programs and automatic kernels alike.
//!
//! An expression's text is printed by [`Printer`], with the names that its user has for variables and elements
//! ([`Names`]). A [`Library`] collects what the text calls.

mod expr;
mod library;
mod names;

pub(crate) use expr::{Printer, access, bare};
pub(crate) use library::{Library, bytes, register};
pub(crate) use names::Names;
