//! Preconditions on the sizes of a run. A split without predication needs an extent that is a multiple; this is checked
//! when the schedule is lowered, or in every run. And a scan must have its first steps.

use super::bounds::Plan;
use crate::te::arith::simplify;
use crate::te::error::{LoweringError, ScanError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Scan;
use crate::te::expr::var::Var;
use crate::te::loops::ir::program::Requirement;
use crate::te::loops::schedule::Schedule;
use crate::te::text::expression;

/// The preconditions on the sizes of a run.
///
/// # Errors
/// [`LoweringError::SplitRemainder`] for a condition that no sizes fulfil, or that depends on loops around the stage.
pub(crate) fn requirements(schedule: &Schedule, plan: &Plan) -> Result<Vec<Requirement>, TeError> {
    let mut all: Vec<Requirement> = Vec::new();
    for (stage, nest) in schedule.stages.iter().zip(&plan.nests) {
        all.extend(stage.operation().as_scan().and_then(has_its_first_steps));
        let Some(nest) = nest else { continue };
        for (axis, extent, condition) in nest.preconditions() {
            let broken = LoweringError::SplitRemainder {
                stage: stage.operation().name().to_owned(),
                axis: axis.name().to_owned(),
                extent: expression(&extent),
                condition: expression(condition),
            }
            .into();
            let condition = simplify(condition);
            match condition.as_int() {
                Some(0) => return Err(broken),
                Some(_) => {}
                None if depends_on_counter(&condition) => return Err(broken),
                None if all.iter().any(|known| known.condition == condition) => {}
                None => all.push(Requirement { condition, broken }),
            }
        }
    }
    Ok(all)
}

/// A scan must have at least the steps that its init gives. A run without any output elements doesn't need this.
fn has_its_first_steps(scan: &Scan) -> Option<Requirement> {
    let (init, state) = (scan.init.first()?, scan.state.first()?);
    let (steps, total) = (init.shape().swap_remove(0), state.shape().swap_remove(0));
    let condition = simplify(&total.greater_equal(&steps));
    let broken = ScanError::Shape {
        what: "state",
        tensor: state.name(),
        dimension: 0,
        needed: format!("{} or more", expression(&steps)),
        given: expression(&total),
    }
    .into();
    (condition.as_int() != Some(1)).then_some(Requirement { condition, broken })
}

fn depends_on_counter(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |x| found |= x.as_var().is_some_and(Var::is_counter));
    found
}
