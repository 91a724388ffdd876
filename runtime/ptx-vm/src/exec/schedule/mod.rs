//! Runs launches: workers, resident clusters, and the turns of their warps; also branches and exits.

pub(crate) mod control;
pub(in crate::exec) mod launch;
pub(in crate::exec) mod run;
pub(in crate::exec) mod unit;
pub(in crate::exec) mod worker;
