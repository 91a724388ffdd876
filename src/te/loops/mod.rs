//! Scheduled programs: a user schedules the loops by hand, lowering makes a program, and back ends run it.
//!
//! `te::auto` is apart from this room: it makes kernels without a schedule. Both share expressions ([`te::expr`]) and the
//! binding of arguments ([`te::bind`]).
//!
//! [`te::expr`]: crate::te::expr
//! [`te::bind`]: crate::te::bind

pub(super) mod backend;
pub(super) mod ir;
pub(super) mod lower;
pub(super) mod schedule;
