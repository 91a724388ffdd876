//! `tcgen05` (PTX ISA §9.7.16) for one CTA: tensor memory, its allocation, and the products and copies into it.
//!
//! Products, copies and commits go through the block's pipe and take effect in order, at once or later. Loads and stores
//! take effect when they are issued; the detector knows that they need a wait.

pub(crate) mod allocation;
pub(crate) mod moves;
pub(crate) mod pipe;
pub(crate) mod products;

use std::ops::Range;

use crate::exec::context::{Context, Flow, lanes_of};
use crate::numerics::tensor_memory::TensorAddress;
use crate::program::Row;

impl Context<'_> {
    /// Refuses an instruction that several lanes execute.
    fn one_lane(&mut self, mask: u32) -> Result<usize, Flow> {
        if mask.is_power_of_two() {
            return Ok(mask.trailing_zeros() as usize);
        }
        let message = format!(
            "{} lanes execute it ({mask:#010x}), and each would issue the whole operation: let one thread issue it, by elect.sync",
            mask.count_ones()
        );
        Err(self.invalid(None, message))
    }

    /// The value of a row, which all lanes must have in common.
    fn uniform(&mut self, row: Row, what: &str) -> Result<u32, Flow> {
        let values = *self.lanes::<u32>(row);
        match lanes_of(u32::MAX).find(|&lane| values[lane] != values[0]) {
            None => Ok(values[0]),
            Some(lane) => {
                let message = format!(
                    "{what} is {:#x} in lane 0 and {:#x} here: all lanes must give the same",
                    values[0], values[lane]
                );
                Err(self.invalid(Some(lane), message))
            }
        }
    }

    /// Refuses columns that the block has not allocated.
    fn allocated(&mut self, columns: Range<u32>, what: &str) -> Result<(), Flow> {
        let tensor = &self.cluster.blocks[self.block].tensor;
        if tensor.holds(columns.clone()) {
            return Ok(());
        }
        let held: Vec<_> =
            tensor.allocations().iter().map(|(first, n)| format!("{first} to {}", first + n - 1)).collect();
        let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
        let (first, last) = (columns.start, columns.end.saturating_sub(1));
        Err(self.invalid(
            None,
            format!("{what} is columns {first} to {last} of tensor memory; the block has allocated {held}"),
        ))
    }

    /// The place of a product's operand in tensor memory: 128 rows begin in lane 0, 64 in lane 0 or 16.
    fn operand_place(&mut self, bits: u32, rows: usize, columns: u32, what: &str) -> Result<TensorAddress, Flow> {
        let at = TensorAddress::of(bits);
        if at.lane != 0 && !(rows == 64 && at.lane == 16) {
            let allowed = if rows == 64 { "0 or 16" } else { "0" };
            let message = format!(
                "{what} at {bits:#010x} begins in lane {}; with {rows} rows it begins in lane {allowed} (PTX ISA 9.7.16.10.5)",
                at.lane
            );
            return Err(self.invalid(None, message));
        }
        self.allocated(at.column..at.column + columns, what)?;
        Ok(at)
    }
}
