//! The product of a tile with quantised weights.
//!
//! Codes lie in panels of 16 columns, in words that a vector holds for all columns
//! ([`weight_values`](crate::gemm::problem::weight_values)). For few rows, codes become numbers in registers, once for
//! eight rows: a group is summed, and its sum is multiplied by the scale ([`floats`]). For many rows, a part of K is
//! unpacked into a matrix of floats once for the tile, and multiplied like any B ([`unpack`]). If A is quantised, too,
//! any number of rows is multiplied as integers, step by step of K ([`integers`]). [`lanes`] are the instructions.
//!
//! A group's sum can't overflow if A's elements are below a limit ([`multiply`]). A finite scale then gives the same
//! infinities and NaNs as weights would. Otherwise weights are unpacked, however few the rows are.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod floats;
mod integers;
mod lanes;
mod level;
pub(super) mod memory;
mod multiply;
pub(super) mod pack;
mod row_products;
mod rows;
#[cfg(test)]
mod tests;
mod unpack;
pub(super) mod view;
