//! Circular memory: a stage whose elements move with the surrounding loop keeps those of the previous iteration.
//!
//! Along one dimension, the stage's elements are a window of width `w`, which each iteration moves by `s < w`. Element
//! `x` is stored at `x % w`, so the elements of a window have different places. After the first iteration only the last
//! `s` elements are new; they overwrite those that left the window.

use crate::te::arith::Linear;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::LoopKind;
use crate::te::loops::schedule::loops::LoopNest;
use crate::te::loops::schedule::{Attach, Schedule, Stage};

/// How a stage's window moves.
#[derive(Clone, Debug)]
pub(crate) struct Rolling {
    /// The dimension along which it moves.
    pub(crate) dimension: usize,
    /// Its width.
    pub(crate) window: i64,
    /// The distance that it moves in each iteration.
    step: i64,
    /// The counter of the loop that moves it.
    counter: Var,
}

impl Rolling {
    /// How the window of a stage moves; `None` if no loop around moves it, because the loop in which the stage is
    /// computed has one iteration.
    pub(crate) fn of(
        schedule: &Schedule,
        stage: &Stage,
        nests: &[Option<LoopNest>],
        own: &LoopNest,
    ) -> Result<Option<Self>, TeError> {
        let place = match &stage.attach {
            Attach::At(parent, axis) => schedule.index_of(parent).map(|parent| (parent, *axis)),
            _ => None,
        };
        let Some((parent, axis)) = place else {
            let reason = "it is computed in no loop of its consumer; place it with `compute_at`".to_owned();
            return Err(refuse(stage, reason));
        };
        let consumer = &schedule.stages[parent];
        let Some(nest) = &nests[parent] else { return Ok(None) };
        let runs = |leaf: &Axis| nest.extent(*leaf).as_int() != Some(1) || consumer.threads.contains_key(leaf);
        if runs(&axis) {
            return Self::along(consumer, stage, axis, own).map(Some);
        }
        // A loop of one iteration doesn't count: the one around it may move a window.
        let around = &consumer.leaves[..consumer.leaf(axis)?];
        Ok(around.iter().rev().find(|leaf| runs(leaf)).and_then(|axis| Self::along(consumer, stage, *axis, own).ok()))
    }

    /// How a loop of the consumer moves the window of a stage.
    fn along(consumer: &Stage, stage: &Stage, axis: Axis, own: &LoopNest) -> Result<Self, TeError> {
        let refuse = |reason: String| Err(refuse(stage, reason));
        let axes = stage.operation.as_compute().map(|compute| compute.axes.as_slice()).unwrap_or_default();
        let kind = consumer.kinds.get(&axis).copied().unwrap_or(LoopKind::Serial);
        if consumer.threads.contains_key(&axis) || !matches!(kind, LoopKind::Serial | LoopKind::Unrolled) {
            return refuse(format!("the loop over {} around it does not run in order", axis.name()));
        }
        let mut found: Option<Self> = None;
        for (dimension, own_axis) in axes.iter().enumerate() {
            let domain = own.domain(*own_axis);
            let step = moved(&domain.min, axis);
            if step == Some(0) && !domain.extent.uses(axis.var()) {
                continue;
            }
            let (Some(step), Some(window)) = (step, domain.extent.as_int()) else {
                return refuse(format!(
                    "what one iteration of {} needs of {} is not a window of a constant width that moves by a constant",
                    axis.name(),
                    own_axis.name()
                ));
            };
            if let Some(other) = &found {
                return refuse(format!(
                    "{} moves the window along {} and along {}; a window rolls along one dimension",
                    axis.name(),
                    axes[other.dimension].name(),
                    own_axis.name()
                ));
            }
            if step < 1 || step >= window {
                return refuse(format!(
                    "{} moves the window of {} elements along {} by {step}: nothing that an iteration computed is used by \
                     the next",
                    axis.name(),
                    window,
                    own_axis.name()
                ));
            }
            found = Some(Self { dimension, window, step, counter: axis.var() });
        }
        let none =
            || self::refuse(stage, format!("{} moves no window of it; compute it outside that loop", axis.name()));
        found.ok_or_else(none)
    }

    /// The place of an element.
    pub(crate) fn place(&self, index: &Expr) -> Expr {
        index.clone().floor_mod(self.window)
    }

    /// Whether the previous iteration did not compute an element, given by its distance from the window's beginning.
    pub(crate) fn is_new(&self, from_beginning: &Expr) -> Expr {
        self.counter.equal(0).or(from_beginning.greater_equal(self.window - self.step))
    }
}

fn refuse(stage: &Stage, reason: String) -> TeError {
    ScheduleError::Primitive { primitive: "rolling_buffer", stage: stage.name().to_owned(), reason }.into()
}

/// By how much the least index grows from one iteration to the next; `None` if that is not a constant.
fn moved(min: &Expr, axis: Axis) -> Option<i64> {
    let linear = Linear::of(min);
    let mut step = 0;
    for (atom, coefficient) in &linear.terms {
        if atom.as_var() == Some(axis.var()) {
            step = *coefficient;
        } else if atom.uses(axis.var()) {
            return None;
        }
    }
    Some(step)
}
