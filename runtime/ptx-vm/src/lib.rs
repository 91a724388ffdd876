//! Executes PTX on the CPU exactly as the compiler made it, and reports data races, missing barriers and asynchronous
//! hazards.
//!
//! This crate knows PTX. It must never know what a kernel computes.

pub mod mutate;
pub mod numerics;
pub mod race;
