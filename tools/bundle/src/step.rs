//! A step: one thing to do on a GPU machine, and what decides when it runs.

use serde_json::Value;

use crate::Outcome;
use crate::machine::Machine;

/// Runs a step; gives its records.
type Run = Box<dyn Fn(&Machine) -> Outcome<Vec<Value>>>;

/// One thing to do, whose records are kept or lost together.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) tier: u8,
    /// About how many seconds it takes on a GPU, so that nothing is begun that can't end in time.
    pub(crate) seconds: u64,
    /// Whether it measures times, so that nothing else may run meanwhile.
    pub(crate) timed: bool,
    /// For a step that only compiles for timed ones: how the names of those begin. It has no results, and is done
    /// whenever they are.
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

    /// This step, as one that compiles for steps whose names begin like this.
    pub(crate) fn preparing(self, name: impl Into<String>) -> Self {
        Self { prepares: Some(name.into()), ..self }
    }

    /// This step, as one that compiles none of our kernels.
    pub(crate) fn without_nvrtc(self) -> Self {
        Self { needs_nvrtc: false, ..self }
    }
}
