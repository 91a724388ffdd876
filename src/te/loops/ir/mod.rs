//! The loop program that a schedule is lowered to: its data, its printers, and rewrites of it.

mod builder;
pub(crate) mod deep;
pub(crate) mod device_call;
pub(crate) mod outside;
pub(crate) mod pragma;
pub(crate) mod print;
pub(crate) mod program;
pub(crate) mod rewrite;
pub(crate) mod stmt;
pub(crate) mod verify;
