//! Keeps the ranges of axes that are computed from sizes. An axis is copied freely, so its range is kept here.
//!
//! Everything that has an axis holds its range ([`RangeGuard`]). A range that nothing holds is idle: its axis is new,
//! or what had the axis was dropped. The most recent idle ranges are kept, so that their axes can still be used; older
//! ones are dropped. So memory is bounded by what is in use.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{LazyLock, Mutex, MutexGuard};

use super::axis::{Axis, Domain};
use super::var::Var;
use crate::sync::lock;

/// How many idle ranges are kept.
pub(crate) const MOST_IDLE: usize = 1 << 13;

struct RangeEntry {
    domain: Domain,
    holders: usize,
    /// When it last became idle.
    idle_since: u64,
}

#[derive(Default)]
struct Ranges {
    all: HashMap<Var, RangeEntry>,
    /// The ranges that became idle, and when. Some of them may be held again.
    idle: VecDeque<(Var, u64)>,
    now: u64,
}

impl Ranges {
    /// Marks a range as idle. Gives the ranges that are removed to make room; the caller drops them outside the lock.
    fn rest(&mut self, var: Var) -> Vec<Domain> {
        self.now += 1;
        if let Some(entry) = self.all.get_mut(&var) {
            entry.idle_since = self.now;
            self.idle.push_back((var, self.now));
        }
        let mut given_up = Vec::new();
        while self.idle.len() > MOST_IDLE {
            let Some((var, since)) = self.idle.pop_front() else { break };
            let is_idle = |entry: &RangeEntry| entry.holders == 0 && entry.idle_since == since;
            if self.all.get(&var).is_some_and(is_idle) {
                given_up.extend(self.all.remove(&var).map(|entry| entry.domain));
            }
        }
        given_up
    }
}

fn ranges() -> MutexGuard<'static, Ranges> {
    static RANGES: LazyLock<Mutex<Ranges>> = LazyLock::new(Mutex::default);
    lock(&RANGES)
}

/// Keeps the range of a new axis.
pub(crate) fn add(var: Var, domain: Domain) {
    let mut ranges = ranges();
    ranges.all.insert(var, RangeEntry { domain, holders: 0, idle_since: 0 });
    let given_up = ranges.rest(var);
    drop(ranges);
    drop(given_up);
}

/// The range of an axis, unless it has been dropped.
pub(crate) fn of(var: Var) -> Option<Domain> {
    ranges().all.get(&var).map(|entry| entry.domain.clone())
}

/// Holds the ranges of axes while it lives.
#[derive(Debug)]
pub(crate) struct RangeGuard(Vec<Var>);

impl RangeGuard {
    pub(crate) fn of<'a>(axes: impl IntoIterator<Item = &'a Axis>) -> Self {
        let vars: Vec<Var> = axes.into_iter().filter(|axis| axis.has_computed_range()).map(|axis| axis.var()).collect();
        if !vars.is_empty() {
            let mut ranges = ranges();
            for var in &vars {
                if let Some(entry) = ranges.all.get_mut(var) {
                    entry.holders += 1;
                }
            }
        }
        Self(vars)
    }
}

/// Axes in order, with their ranges.
#[derive(Debug)]
pub(crate) struct Axes {
    axes: Vec<Axis>,
    _ranges: RangeGuard,
}

impl From<Vec<Axis>> for Axes {
    fn from(axes: Vec<Axis>) -> Self {
        Self { _ranges: RangeGuard::of(&axes), axes }
    }
}

impl FromIterator<Axis> for Axes {
    fn from_iter<I: IntoIterator<Item = Axis>>(axes: I) -> Self {
        axes.into_iter().collect::<Vec<_>>().into()
    }
}

impl Clone for Axes {
    fn clone(&self) -> Self {
        self.axes.clone().into()
    }
}

impl PartialEq for Axes {
    fn eq(&self, other: &Self) -> bool {
        self.axes == other.axes
    }
}

impl<'a> IntoIterator for &'a Axes {
    type Item = &'a Axis;
    type IntoIter = std::slice::Iter<'a, Axis>;

    fn into_iter(self) -> Self::IntoIter {
        self.axes.iter()
    }
}

impl Deref for Axes {
    type Target = [Axis];

    fn deref(&self) -> &[Axis] {
        &self.axes
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        let mut given_up = Vec::new();
        for var in &self.0 {
            let mut ranges = ranges();
            let Some(entry) = ranges.all.get_mut(var) else { continue };
            entry.holders = entry.holders.saturating_sub(1);
            if entry.holders == 0 {
                given_up.extend(ranges.rest(*var));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_IDLE, ranges};
    use crate::te;
    use crate::te::expr::var::var;
    use crate::te::{ExpressionError, TeError};

    /// A service that makes expressions for ever.
    #[test]
    fn what_is_gone_is_given_up() -> Result<(), TeError> {
        let n = var("n");
        let a = te::placeholder([n * 2], "A");
        let total = |name: &str| {
            let k = te::reduce_axis((0, n * 2), "k");
            te::compute((), name, |[]| te::sum(a.at([k]), [k]))
        };
        let (kept, forgotten) = (total("kept")?, te::reduce_axis((0, n * 2), "k"));
        let j = te::reduce_axis((1, n * 2), "j");
        let expression = te::sum(a.at([j]), [j]);
        for _ in 0..2 * MOST_IDLE {
            total("of a request")?;
        }
        assert!(ranges().all.len() < 2 * MOST_IDLE);
        let error = te::compute((), "late", |[]| te::sum(a.at([forgotten]), [forgotten])).expect_err("it is given up");
        assert!(matches!(error, TeError::Expression(ExpressionError::AxisGivenUp { .. })), "{error}");
        // Ranges in use are all there.
        te::compute((), "of an old expression", |[]| expression)?;
        let axis = kept.reduce_axis(0)?;
        assert!(axis.domain().is_some());
        te::lower(&te::create_schedule(&[&kept]), &[&a, &kept], "main").map(drop)
    }
}
