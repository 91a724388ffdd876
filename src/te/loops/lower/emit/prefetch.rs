//! Prefetches the elements that a later iteration reads, one cache line at a time.

use super::Emitter;
use crate::te::arith::interval::Interval;
use crate::te::arith::{ceil_div, simplify, simplify_in};
use crate::te::dtype::DType;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};
use crate::te::loops::lower::analysis::readers::reads;
use crate::te::loops::schedule::properties::Prefetch;

/// Bytes of a cache line; TVM assumes the same.
const CACHE_LINE: i64 = 64;

impl Emitter<'_> {
    /// The prefetches of a stage inside the loop before `place`.
    pub(crate) fn prefetches(&self, index: usize, place: usize) -> Result<Vec<Stmt>, TeError> {
        let stage = &self.schedule.stages[index];
        let here = stage.prefetches.iter().filter(|prefetch| stage.leaves[place - 1] == prefetch.axis);
        here.map(|prefetch| self.prefetch(index, place, prefetch)).collect()
    }

    fn prefetch(&self, index: usize, place: usize, prefetch: &Prefetch) -> Result<Stmt, TeError> {
        let stage = &self.schedule.stages[index];
        let Some(nest) = &self.plan.nests[index] else { return Ok(Stmt::Seq(Vec::new())) };
        let producer = self.schedule.index(&prefetch.tensor)?;
        let refuse = |reason: String| {
            ScheduleError::Primitive { primitive: "prefetch", stage: stage.name().to_owned(), reason }.into()
        };
        let Some(buffer) = self.plan.buffers[producer].get(prefetch.tensor.value()).cloned() else {
            return Err(refuse(format!(
                "{} has no memory to fetch from: it is computed inline",
                prefetch.tensor.name()
            )));
        };
        let relaxed: Vec<(Var, Expr)> = stage.leaves[place..]
            .iter()
            .map(|leaf| (stage.threads.get(leaf).unwrap_or(leaf).var(), nest.extent(*leaf)))
            .collect();
        let mut region: Vec<Option<Interval>> = vec![None; buffer.shape().len()];
        for indices in reads(self.schedule, index, producer) {
            for (d, read) in indices.iter().enumerate() {
                let over_loops = read.substitute(&|var| {
                    let axis = stage.root_axes.iter().find(|axis| axis.var() == var)?;
                    Some(nest.value(*axis))
                });
                let found = Interval::of(&simplify_in(&over_loops, &self.context), &relaxed).ok_or_else(|| {
                    refuse(format!("no range holds the elements of {} that one iteration reads", buffer.name()))
                })?;
                region[d] = Some(match region[d].take() {
                    Some(known) => known.or(found),
                    None => found,
                });
            }
        }
        if region.iter().any(Option::is_none) {
            return Err(refuse(format!(
                "it doesn't read {} any more; prefetch what it reads now",
                prefetch.tensor.name()
            )));
        }
        let value = nest.value(prefetch.axis);
        let ahead = |x: Expr| {
            let later = |var: Var| (var == prefetch.axis.var()).then(|| &value + &prefetch.offset);
            simplify(&x.substitute(&later))
        };
        let region: Vec<(Expr, Expr)> =
            region.into_iter().flatten().map(|range| (ahead(range.extent()), ahead(range.low))).collect();
        let condition = value.less(nest.extent(prefetch.axis) - &prefetch.offset);
        let fetches = self.lines(producer, buffer, &region);
        Ok(Stmt::If { condition: simplify_in(&condition, &self.context).likely(), then: Box::new(fetches) })
    }

    /// Loops over a region, given by extents and least indices. Along the last dimension it goes by cache lines.
    fn lines(&self, producer: usize, buffer: crate::te::expr::buffer::Buffer, region: &[(Expr, Expr)]) -> Stmt {
        let bytes = match buffer.dtype() {
            DType::Bool => 1,
            DType::Number(element) => i64::try_from(element.size()).unwrap_or(1),
        };
        let line = (CACHE_LINE / bytes).max(1);
        let (mut indices, mut loops) = (Vec::new(), Vec::new());
        for (d, (extent, low)) in region.iter().enumerate() {
            let var = Var::counter(&format!("prefetch.{d}"));
            let last = d + 1 == region.len();
            let (count, step) = if last { (ceil_div(extent, &Expr::int(line)), line) } else { (extent.clone(), 1) };
            if count.as_int() == Some(1) {
                indices.push(low.clone());
            } else {
                indices.push(simplify(&(low + var * step)));
                loops.push((var, count));
            }
        }
        let fetch = Stmt::Prefetch { buffer, indices: self.relative(producer, indices) };
        loops.into_iter().rev().fold(fetch, |body, (var, extent)| Stmt::For {
            var,
            extent,
            kind: LoopKind::Serial,
            body: Box::new(body),
        })
    }
}
