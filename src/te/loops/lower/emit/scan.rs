//! Makes scans: the initial steps, then the time loop around all updates.

use super::{Emitter, allocate};
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::loops::ir::stmt::Stmt;
use crate::te::loops::schedule::Attach;

impl Emitter<'_> {
    /// Makes a scan: the initial steps, then the time loop around all updates.
    pub(super) fn scan(&mut self, index: usize) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let Some(scan) = stage.operation.as_scan() else { return Ok(Stmt::Seq(Vec::new())) };
        let mut outer = Vec::new();
        for axis in &stage.env_threads {
            let Some(thread) = axis.thread() else { continue };
            outer.push((thread, axis.var(), self.thread_extent(index, thread)?));
        }
        self.launching(outer, |this| {
            let mut statements = Vec::new();
            for init in &scan.init {
                statements.push(this.nest(schedule.index(init)?)?);
            }
            statements.push(this.steps(index, 0)?);
            Ok(Stmt::sequence(statements))
        })
    }

    /// Makes the time loops from a place on, with the stages computed inside them and the work of one step.
    pub(super) fn steps(&mut self, index: usize, place: usize) -> Result<Stmt, TeError> {
        let schedule = self.schedule;
        let stage = &schedule.stages[index];
        let (mut statements, mut memory) = match place.checked_sub(1) {
            Some(around) => self.attached(index, stage.leaves[around])?,
            None => Default::default(),
        };
        if let Some(leaf) = stage.leaves.get(place) {
            statements.push(self.around(index, *leaf, &mut |this| this.steps(index, place + 1))?);
            return Ok(allocate(memory, Stmt::sequence(statements)));
        }
        let mut step = Vec::new();
        for part in 0..schedule.stages.len() {
            let inner = &schedule.stages[part];
            let same = |scan: &std::sync::Arc<_>| schedule.index_of(scan) == Some(index);
            let intermediate = matches!(inner.attach, Attach::Root) && inner.group.as_ref().is_some_and(same);
            let update = matches!(&inner.attach, Attach::ScanUpdate(scan) if same(scan));
            if intermediate || update {
                if self.plan.internal[part] {
                    memory.extend(self.plan.buffers[part].iter().cloned());
                }
                step.push(self.nest(part)?);
            }
        }
        let bounds = self.split_bounds(index, |_| true)?;
        statements.push(self.guarded(bounds, Stmt::sequence(step)));
        Ok(allocate(memory, Stmt::sequence(statements)))
    }

    /// The extent of a thread index in a scan's parts.
    fn thread_extent(&self, index: usize, thread: Thread) -> Result<Expr, TeError> {
        let schedule = self.schedule;
        let extent = self.extent_among(thread, |part| {
            matches!(&schedule.stages[part].attach, Attach::ScanUpdate(scan) if schedule.index_of(scan) == Some(index))
        })?;
        extent.ok_or_else(|| {
            LoweringError::Bound {
                stage: schedule.stages[index].name().to_owned(),
                axis: thread.name().to_owned(),
                reason: "bind a loop of the scan's update to it",
            }
            .into()
        })
    }
}
