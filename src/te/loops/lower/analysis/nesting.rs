//! Limits how deeply a program's statements nest: walks descend by recursion, on a stack that is made for it (`ir/deep.rs`).

use crate::te::error::{LoweringError, TeError};
use crate::te::loops::schedule::{Attach, Schedule, Stage};

/// The most loops, splits and pragmas of a stage together with those around it. Splits count because each makes a test.
const MOST_LOOPS: usize = 256;

/// The most of these and of tensors together: the memory of each tensor is a statement around all its uses.
const MOST_STATEMENTS: usize = 640;

/// Gives the number of statements that nest at most.
///
/// # Errors
/// [`LoweringError::NestedLoops`].
pub(crate) fn check_nesting(schedule: &Schedule) -> Result<usize, TeError> {
    let own = |stage: &Stage| match stage.attach {
        Attach::Inline => 0,
        _ => stage.leaves.len() + stage.relations.len() + stage.pragmas.len() + stage.env_threads.len(),
    };
    let around: Vec<Option<usize>> = (0..schedule.stages.len()).map(|index| schedule.around(index)).collect();
    let (mut tensors, mut most_nested) = (0, 0);
    for (index, stage) in schedule.stages.iter().enumerate() {
        // At most as many steps as there are stages, even if they form a circle.
        let outward = std::iter::successors(Some(index), |at| around[*at]).take(around.len());
        let nested: usize = outward.map(|at| own(&schedule.stages[at])).sum();
        tensors += stage.operation.values();
        most_nested = most_nested.max(nested);
        let checks = [
            ("loops, splits and pragmas", nested, MOST_LOOPS),
            ("loops and tensors of a program", nested + tensors, MOST_STATEMENTS),
        ];
        for (what, given, most) in checks {
            if given > most {
                return Err(LoweringError::NestedLoops { stage: stage.name().to_owned(), what, given, most }.into());
            }
        }
    }
    Ok(most_nested + tensors)
}
