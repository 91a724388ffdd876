//! The epilogue language: what the macros make of functions, what trees print and compute, and the arguments of a run.

mod accuracy;
mod advice;
mod advice_derivatives;
mod advice_memory;
mod arguments;
mod evt;
mod expressions;
mod macros;
mod special;
