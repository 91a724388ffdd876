//! Several test programs and tools share this: random products, the layouts of their tensors,
//! programs, shapes, and refusals with advice.
//!
//! It builds on the library, so unit tests of the library cannot use it.

pub mod advice;
pub mod case;
mod divided;
pub mod headline;
mod picking;
pub mod placement;
mod scaling;
mod scattering;
pub mod tutorial;
