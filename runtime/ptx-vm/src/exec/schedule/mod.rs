//! Launches, workers, resident clusters and the turns of their warps; branches and ends.

pub(crate) mod control;
pub(in crate::exec) mod launch;
pub(in crate::exec) mod run;
pub(in crate::exec) mod unit;
pub(in crate::exec) mod worker;
