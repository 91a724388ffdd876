//! `cache_read`: copies a tensor to nearer memory, from which its readers then read.

use super::Schedule;
use super::stage::Stage;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};

impl Schedule {
    /// Copies a tensor to nearer memory, from which the given readers then read. Gives the copy. Call it before you
    /// schedule the readers' loops. (Their prefetches of the tensor are removed: they read the copy.)
    ///
    /// # Errors
    /// [`ScheduleError::Scope`]; [`ScheduleError::Cache`] when a reader doesn't read the tensor or is already
    /// scheduled.
    pub fn cache_read(&mut self, tensor: &Tensor, scope: &str, readers: &[&Tensor]) -> Result<Tensor, TeError> {
        let scope = Scope::parse(scope).ok_or_else(|| ScheduleError::Scope { name: scope.to_owned() })?;
        let source = self.index(tensor)?;
        let axes: Vec<Axis> = tensor
            .shape()
            .into_iter()
            .enumerate()
            .map(|(d, extent)| Axis::new(&format!("ax{d}"), Some(Domain::up_to(extent)), AxisKind::Data))
            .collect();
        let indices: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        let body = vec![tensor.at(indices)];
        let kind = OperationKind::Compute(Compute { axes, reduce_axes: Vec::new(), body });
        let cache = Tensor::new(Operation::new(format!("{}.{}", tensor.name(), scope.name()), kind), 0);
        let mut rewritten = Vec::new();
        for reader in readers {
            let index = self.index(reader)?;
            let stage = &self.stages[index];
            let refuse = |reason| ScheduleError::Cache { tensor: tensor.name(), reason }.into();
            let compute = stage.operation.as_compute().ok_or_else(|| refuse("a reader is not a computation"))?;
            if !stage.relations.is_empty() || !stage.threads.is_empty() {
                return Err(refuse("a reader's loops are scheduled already; make the cache first"));
            }
            let body: Vec<Expr> = compute.body.iter().map(|x| redirect(x, tensor, &cache)).collect();
            if body == compute.body {
                return Err(refuse("a given reader does not read it"));
            }
            let (axes, reduce_axes) = (compute.axes.clone(), compute.reduce_axes.clone());
            let kind = OperationKind::Compute(Compute { axes, reduce_axes, body });
            rewritten.push((index, Operation::new(stage.name(), kind)));
        }
        for (index, operation) in rewritten {
            self.stages[index].replace_operation(operation);
        }
        let mut stage = Stage::new(cache.operation().clone());
        stage.scope = Some(scope);
        // A copy of a scan's state is computed in the scan's loop, like everything that reads the state.
        let carries = |other: &&Stage| other.operation.as_scan().is_some_and(|scan| scan.state.contains(tensor));
        let scan = self.stages.iter().find(carries).map(|other| other.operation.clone());
        stage.group = scan.or_else(|| self.stages[source].group.clone());
        let time = self.stages[source].time_dimension().unwrap_or(0);
        stage.time = stage.group.as_ref().and(stage.root_axes.get(time).copied());
        stage.member = self.stages[source].member;
        self.stages.insert(source + 1, stage);
        let readers: Vec<String> = readers.iter().map(|reader| reader.name()).collect();
        self.note("cache_read", &format!("{}, \"{}\", [{}]", tensor.name(), scope.name(), readers.join(", ")));
        Ok(cache)
    }
}

/// Replaces every read of `from` by a read of `to`.
fn redirect(x: &Expr, from: &Tensor, to: &Tensor) -> Expr {
    x.rewrite(&mut |inner| match inner.kind() {
        Kind::Read(tensor, indices) if tensor == from => {
            Expr::new(inner.dtype(), Kind::Read(to.clone(), indices.clone()))
        }
        _ => inner,
    })
}
