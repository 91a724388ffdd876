//! Tensor expressions: what they mean, what is refused, and that every executor gives the same results.

mod advice;
#[cfg(feature = "native")]
mod auto;
#[cfg(feature = "native")]
mod bound;
#[cfg(feature = "native")]
mod case;
#[cfg(feature = "native")]
mod cuda;
#[cfg(feature = "native")]
mod dimensions;
#[cfg(feature = "native")]
mod element_types;
#[cfg(feature = "native")]
mod graphs;
mod interpret;
#[cfg(feature = "native")]
mod kernel_table;
mod legality;
mod legality_memory;
mod levels;
mod listings;
#[cfg(feature = "native")]
mod modes;
#[cfg(feature = "native")]
mod native;
#[cfg(feature = "native")]
mod ops;
#[cfg(feature = "native")]
mod regions;
#[cfg(feature = "native")]
mod schedule;
#[cfg(feature = "native")]
mod status;
#[cfg(feature = "native")]
mod topi;
mod values;
