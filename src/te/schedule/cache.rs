//! `cache_read` and `cache_write`: copies of a tensor in nearer memory.

use std::sync::Arc;

use super::Schedule;
use super::stage::{Attach, Stage};
use crate::te::axis::{Axis, AxisKind, Domain};
use crate::te::error::TeError;
use crate::te::expr::{Expr, Kind, Var};
use crate::te::ir::Scope;
use crate::te::tensor::{Compute, Operation, OperationKind, Tensor};

impl Schedule {
    /// Copies a tensor into nearer memory, from which the given readers then read. To be called before the readers'
    /// loops are scheduled.
    ///
    /// # Errors
    /// [`TeError::Scope`]; [`TeError::Cache`] when a reader doesn't read the tensor or is scheduled already.
    pub fn cache_read(&mut self, tensor: &Tensor, scope: &str, readers: &[&Tensor]) -> Result<Tensor, TeError> {
        let scope = Scope::parse(scope).ok_or_else(|| TeError::Scope { name: scope.to_owned() })?;
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
            let refuse = |reason| TeError::Cache { tensor: tensor.name(), reason };
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
            self.stages[index].operation = operation;
        }
        let mut stage = Stage::new(cache.operation().clone());
        stage.scope = Some(scope);
        stage.group = self.stages[source].group.clone();
        self.stages.insert(source + 1, stage);
        Ok(cache)
    }

    /// Computes a tensor in nearer memory, then copies it out. To be called before the stage's loops are scheduled; the
    /// cache is what is scheduled then.
    ///
    /// # Errors
    /// [`TeError::Scope`]; [`TeError::Cache`] for what is no computation of one tensor, or scheduled already.
    pub fn cache_write(&mut self, tensor: &Tensor, scope: &str) -> Result<Tensor, TeError> {
        let scope = Scope::parse(scope).ok_or_else(|| TeError::Scope { name: scope.to_owned() })?;
        let index = self.index(tensor)?;
        let stage = &self.stages[index];
        let refuse = |reason| TeError::Cache { tensor: tensor.name(), reason };
        let compute = stage.operation.as_compute().ok_or_else(|| refuse("it is not computed"))?;
        if compute.body.len() != 1 {
            return Err(refuse("it is one of several tensors computed together"));
        }
        if !stage.relations.is_empty() || !stage.threads.is_empty() {
            return Err(refuse("its loops are scheduled already; make the cache first"));
        }
        if matches!(stage.attach, Attach::ScanInit(_) | Attach::ScanUpdate(_)) {
            return Err(refuse("it is a scan's init or update"));
        }
        let name = format!("{}.{}", stage.name(), scope.name());
        let axes = compute.axes.clone();
        let cache = Tensor::new(copy_with_fresh_axes(compute, &name), 0);
        let indices: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        let body = vec![cache.at(indices)];
        let kind = OperationKind::Compute(Compute { axes, reduce_axes: Vec::new(), body });
        let copy = Operation::new(stage.name(), kind);
        let group = stage.group.clone();
        self.stages[index].replace(copy);
        let mut stage = Stage::new(cache.operation().clone());
        stage.scope = Some(scope);
        stage.group = group;
        self.stages.insert(index, stage);
        Ok(cache)
    }
}

/// The same expression reading `to` wherever it reads `from`.
fn redirect(x: &Expr, from: &Tensor, to: &Tensor) -> Expr {
    let inner = x.map_operands(&mut |operand| redirect(operand, from, to));
    match inner.kind() {
        Kind::Read(tensor, indices) if tensor == from => {
            Expr::new(inner.dtype(), Kind::Read(to.clone(), indices.clone()))
        }
        _ => inner,
    }
}

/// The computation under another name, with data axes of its own. The reduction axes move with it; the data axes stay
/// with the copy, so that both are still named by the axes that the caller knows.
fn copy_with_fresh_axes(compute: &Compute, name: &str) -> Arc<Operation> {
    let fresh = |axis: &Axis| Axis::new(&format!("{}.c", axis.name()), axis.domain().cloned(), axis.kind());
    let axes: Vec<Axis> = compute.axes.iter().map(fresh).collect();
    let pairs: Vec<(Axis, Axis)> = compute.axes.iter().copied().zip(axes.iter().copied()).collect();
    let rename = |var: Var| pairs.iter().find(|(old, _)| old.var() == var).map(|(_, new)| Expr::from(*new));
    let body = compute.body.iter().map(|x| x.substitute(&rename)).collect();
    let reduce_axes = compute.reduce_axes.clone();
    Operation::new(name, OperationKind::Compute(Compute { axes, reduce_axes, body }))
}
