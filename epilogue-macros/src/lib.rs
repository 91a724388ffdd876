//! The macros of the crate `epilogue`: a thin proc-macro shell over ordinary functions on tokens.
//!
//! This crate knows syntax. It must never know CUDA, and holds no table of functions.
