//! A step: one thing to do on a GPU machine, with what decides when.

use serde_json::Value;

use crate::Outcome;
use crate::machine::Machine;

/// What a step does: it gives its records.
type Run = Box<dyn Fn(&Machine) -> Outcome<Vec<Value>>>;

/// One thing to do, whose records are kept or lost together.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) tier: u8,
    /// About how long it takes on a GPU, to begin nothing that can't end in time.
    pub(crate) seconds: u64,
    /// Whether it measures times, so that nothing else may run meanwhile.
    pub(crate) timed: bool,
    /// Of a step that compiles what another one times: how that one's name begins. It has no results of its own, and is
    /// done wherever the other one is.
    pub(crate) prepares: Option<String>,
    /// Whether it compiles kernels.
    pub(crate) needs_nvrtc: bool,
    pub(crate) run: Run,
}

impl Step {
    pub(crate) fn new(
        name: impl Into<String>,
        tier: u8,
        seconds: u64,
        run: impl Fn(&Machine) -> Outcome<Vec<Value>> + 'static,
    ) -> Self {
        Self { name: name.into(), tier, seconds, timed: false, prepares: None, needs_nvrtc: true, run: Box::new(run) }
    }

    /// A step that measures times.
    pub(crate) fn timed(
        name: impl Into<String>,
        tier: u8,
        seconds: u64,
        run: impl Fn(&Machine) -> Outcome<Vec<Value>> + 'static,
    ) -> Self {
        Self { timed: true, ..Self::new(name, tier, seconds, run) }
    }

    /// The same step, as one that compiles what a step whose name begins so measures.
    pub(crate) fn preparing(self, name: impl Into<String>) -> Self {
        Self { prepares: Some(name.into()), ..self }
    }

    /// The same step, as one that compiles no kernels of ours.
    pub(crate) fn without_nvrtc(self) -> Self {
        Self { needs_nvrtc: false, ..self }
    }
}
