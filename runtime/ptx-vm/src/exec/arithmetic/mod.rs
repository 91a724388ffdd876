//! Instructions that compute each lane's result from its operands.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod general;
pub(crate) mod integer;
pub(crate) mod moves;
