//! Independent definitions of what instructions compute: by search in tables of all values, by error terms of native
//! arithmetic, or bit by bit. Nothing here calls the crate under test.

pub mod bits;
pub mod matrix;
pub mod real;
pub mod reduce;
