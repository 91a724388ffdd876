//! What a scan's stages have to do with others: nothing but the scan's inputs and result.

use std::sync::Arc;

use crate::te::error::TeError;
use crate::te::lang::tensor::Operation;
use crate::te::schedule::{Attach, Schedule};

/// # Errors
/// [`TeError::ScanShared`] for a part of two scans; [`TeError::ScanOutside`] for a stage that reads what exists only
/// inside a scan's loop, and that the scan's updates don't need.
pub(crate) fn check_scans(schedule: &Schedule) -> Result<(), TeError> {
    let mut parts: Vec<&Arc<Operation>> = Vec::new();
    for scan in schedule.stages.iter().filter_map(|stage| stage.operation().as_scan()) {
        for tensor in scan.init.iter().chain(&scan.update).chain(&scan.state) {
            if parts.iter().any(|known| Arc::ptr_eq(known, tensor.operation())) {
                return Err(TeError::ScanShared { tensor: tensor.name() });
            }
            parts.push(tensor.operation());
        }
    }
    for (index, stage) in schedule.stages.iter().enumerate() {
        let Some(scan) = &stage.group else { continue };
        // Through which the stage's elements get to the updates.
        let (mut pending, mut seen, mut needed) = (vec![index], vec![index], false);
        while let Some(index) = pending.pop() {
            needed |= matches!(&schedule.stages[index].attach, Attach::ScanUpdate(other) if Arc::ptr_eq(other, scan));
            for reader in schedule.readers(index) {
                if !seen.contains(&reader) {
                    seen.push(reader);
                    pending.push(reader);
                }
            }
        }
        if !needed {
            return Err(TeError::ScanOutside { stage: stage.name().to_owned(), scan: scan.name().to_owned() });
        }
    }
    Ok(())
}
