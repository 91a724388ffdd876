//! Tensor expressions: what they say, what is refused, and what the interpreter and the other executors make of them.

mod bound;
#[cfg(feature = "native")]
mod graphs;
mod interpret;
#[cfg(feature = "native")]
mod kernel_table;
mod legality;
mod listings;
mod status;
#[path = "../tutorial/mod.rs"]
mod tutorial;
