//! Stops the launch because of an instruction's fault.

use crate::exec::context::{Context, Flow};
use crate::exec::state::fault::{Fault, FaultKind};

impl Context<'_> {
    /// Stops the launch.
    #[cold]
    pub(in crate::exec) fn fail(&mut self, lane: Option<usize>, kind: FaultKind) -> Flow {
        self.fault = Some(Box::new(Fault { lane: lane.map(|l| l as u32), kind }));
        Flow::Fault
    }

    /// Stops the launch because an instruction is used in a way that PTX leaves undefined.
    #[cold]
    pub(in crate::exec) fn invalid(&mut self, lane: Option<usize>, message: impl Into<String>) -> Flow {
        self.fail(lane, FaultKind::Invalid(message.into()))
    }
}
