//! Tensor expressions: what they mean, what is refused, and how the interpreter and the other executors run them.

#[cfg(feature = "native")]
mod bound;
#[cfg(feature = "native")]
mod graphs;
mod interpret;
#[cfg(feature = "native")]
mod kernel_table;
mod legality;
mod listings;
#[cfg(feature = "native")]
mod status;
#[path = "../tutorial/mod.rs"]
mod tutorial;
