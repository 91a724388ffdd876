//! Checks that other stages use nothing of a scan but its result.

use std::collections::HashSet;
use std::sync::Arc;

use crate::te::error::{ScanError, TeError};
use crate::te::expr::tensor::Operation;
use crate::te::loops::schedule::{Attach, Schedule};

/// # Errors
/// [`ScanError::Shared`] for a part of two scans; [`ScanError::Outside`] for a stage that reads values of a scan's
/// loop, although the scan's updates don't need it.
pub(crate) fn check_scans(schedule: &Schedule) -> Result<(), TeError> {
    let mut parts: Vec<&Arc<Operation>> = Vec::new();
    for scan in schedule.stages.iter().filter_map(|stage| stage.operation().as_scan()) {
        for tensor in scan.init.iter().chain(&scan.update).chain(&scan.state) {
            if parts.iter().any(|known| Arc::ptr_eq(known, tensor.operation())) {
                return Err(ScanError::Shared { tensor: tensor.name() }.into());
            }
            parts.push(tensor.operation());
        }
    }
    let mut checked: Vec<&Arc<Operation>> = Vec::new();
    for scan in schedule.stages.iter().filter_map(|stage| stage.group.as_ref()) {
        if checked.iter().any(|known| Arc::ptr_eq(known, scan)) {
            continue;
        }
        checked.push(scan);
        let outside = outside(schedule, scan);
        if let Some(stage) = outside.map(|index| schedule.stages[index].name().to_owned()) {
            return Err(ScanError::Outside { stage, scan: scan.name().to_owned() }.into());
        }
    }
    Ok(())
}

/// The first stage of a scan's body on which the updates don't depend. Readers come after what they read.
fn outside(schedule: &Schedule, scan: &Arc<Operation>) -> Option<usize> {
    let mut needed: HashSet<*const Operation> = HashSet::new();
    let mut outside = None;
    for (index, stage) in schedule.stages.iter().enumerate().rev() {
        let updates = matches!(&stage.attach, Attach::ScanUpdate(other) if Arc::ptr_eq(other, scan));
        let own = [Arc::as_ptr(&stage.origin), Arc::as_ptr(&stage.operation)];
        if updates || own.iter().any(|own| needed.contains(own)) {
            if stage.operation.as_compute().is_some() {
                needed.extend(stage.operation.inputs().iter().map(|input| Arc::as_ptr(input.operation())));
            }
        } else if stage.group.as_ref().is_some_and(|other| Arc::ptr_eq(other, scan)) {
            outside = Some(index);
        }
    }
    outside
}
