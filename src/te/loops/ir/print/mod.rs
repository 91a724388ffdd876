//! The printer of programs, as TVMScript.

mod accesses;
pub(crate) mod script;
