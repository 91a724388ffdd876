//! The record of a schedule: which primitives were applied, in order.

use super::Schedule;
use super::properties::AppliedPrimitive;
use super::stage::Stage;
use crate::te::expr::axis::Axis;

impl Stage {
    /// Records a primitive that was applied to this stage.
    pub(crate) fn note(&mut self, primitive: &str, arguments: &str) {
        let text = format!("s[{}].{primitive}({arguments})", self.name());
        self.record.push(AppliedPrimitive::new(text));
    }
}

impl Schedule {
    /// The applied primitives in order, as they are written: `s[B].split(i, factor=16)`. Refused primitives are not
    /// included. A copy of a schedule starts with the record of the original and continues separately.
    #[must_use]
    pub fn primitive_record(&self) -> Vec<&str> {
        let mut steps: Vec<&AppliedPrimitive> =
            self.record.iter().chain(self.stages.iter().flat_map(|stage| &stage.record)).collect();
        steps.sort_by_key(|step| step.order);
        steps.into_iter().map(|step| step.text.as_str()).collect()
    }

    /// Records a primitive that was applied to several stages.
    pub(crate) fn note(&mut self, primitive: &str, arguments: &str) {
        self.record.push(AppliedPrimitive::new(format!("s.{primitive}({arguments})")));
    }
}

/// The names of axes, as arguments.
pub(crate) fn names(axes: &[Axis]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name()).collect();
    names.join(", ")
}
