//! Registers of `wgmma` products in flight (PTX ISA §9.7.15.7). The accumulators of a product may not be read or
//! written until `wgmma.wait_group` has waited for its committed group. The registers that hold its A may not be
//! written until then. Only another product of the same shape may continue with the same accumulators.
//!
//! Registers are tracked by row, in every completion mode. A `mov` of an accumulator does not count as a use, because
//! compilers make these copies. The copy is stale, even after the wait, and a use of it is reported.
//!
//! While products are in flight, it is also known which registers were written since the last `wgmma.fence`: none of them
//! may be A of the next product. Copies don't count here, either.

use crate::program::Row;

/// The products in flight that use one register.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// The product that has it as an accumulator.
    accumulator: Option<Product>,
    /// The product that has its A in it.
    operand: Option<Product>,
    /// The product of whose accumulator it is a copy that was made too early.
    stale: Option<u32>,
}

/// A product in flight.
#[derive(Clone, Copy, Debug)]
struct Product {
    /// The warp's group that it belongs to.
    group: u32,
    pc: u32,
    /// The number of the accumulator register, and how many there are.
    place: (u32, u32),
}

impl Register {
    fn is_free(&self) -> bool {
        self.accumulator.is_none() && self.operand.is_none() && self.stale.is_none()
    }
}

/// The registers of a warp that products in flight use.
#[derive(Debug, Default)]
pub(in crate::exec) struct InFlight {
    registers: Vec<Register>,
    /// The rows with an entry.
    rows: Vec<Row>,
    /// The number of fences so far, from 1 on.
    fences: Fences,
    /// For each row, the number of fences when it was last written while products were in flight; 0 if it was not.
    written: Vec<u32>,
}

/// A number of fences.
#[derive(Debug)]
struct Fences(u32);

impl Default for Fences {
    fn default() -> Self {
        Self(1)
    }
}

impl InFlight {
    #[inline(always)]
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn get(&self, row: Row) -> Register {
        self.registers.get(row as usize).copied().unwrap_or_default()
    }

    fn change(&mut self, row: Row, change: impl FnOnce(&mut Register)) {
        let index = row as usize;
        if self.registers.len() <= index {
            self.registers.resize(index + 1, Register::default());
        }
        let register = &mut self.registers[index];
        let was_free = register.is_free();
        change(register);
        if was_free && !register.is_free() {
            self.rows.push(row);
        }
    }

    /// A product of this group is issued. Gives the earlier product whose registers it may not use, and whether it
    /// writes them.
    pub(in crate::exec) fn issue(
        &mut self,
        group: u32,
        pc: u32,
        accumulators: &[Row],
        a: &[Row],
        reads: bool,
    ) -> Option<(u32, bool)> {
        let count = accumulators.len() as u32;
        let mut wrong = None;
        for &row in a {
            let before = self.get(row);
            wrong = wrong.or(before.accumulator.map(|p| (p.pc, false))).or(before.stale.map(|pc| (pc, false)));
            self.change(row, |register| register.operand = Some(Product { group, pc, place: (0, 0) }));
        }
        for (n, &row) in accumulators.iter().enumerate() {
            let place = (n as u32, count);
            let before = self.get(row);
            let other = before.accumulator.filter(|p| p.place != place);
            let operand = before.operand.filter(|p| p.pc != pc);
            wrong = wrong.or(other.or(operand).map(|p| (p.pc, true)));
            wrong = wrong.or(before.stale.filter(|_| reads).map(|pc| (pc, false)));
            self.change(row, |register| {
                register.accumulator = Some(Product { group, pc, place });
                register.stale = None;
            });
        }
        wrong
    }

    /// `wgmma.fence`.
    pub(in crate::exec) fn fence(&mut self) {
        self.fences.0 += 1;
    }

    /// Whether a register of A was written since the last fence.
    pub(in crate::exec) fn wrote(&self, a: &[Row]) -> bool {
        a.iter().any(|&row| self.written.get(row as usize) == Some(&self.fences.0))
    }

    fn write(&mut self, row: Row) {
        let index = row as usize;
        if self.written.len() <= index {
            self.written.resize(index + 1, 0);
        }
        self.written[index] = self.fences.0;
    }

    /// All groups before number `group` are complete.
    pub(in crate::exec) fn wait(&mut self, group: u32) {
        let registers = &mut self.registers;
        self.rows.retain(|&row| {
            let register = &mut registers[row as usize];
            register.accumulator = register.accumulator.filter(|p| p.group >= group);
            register.operand = register.operand.filter(|p| p.group >= group);
            !register.is_free()
        });
    }

    /// Another instruction reads and writes these rows. Gives the product whose registers it uses too early, and
    /// whether it writes them.
    pub(in crate::exec) fn touch(&mut self, uses: &[Row], defs: &[Row], copies: bool) -> Option<(u32, bool)> {
        let read = |register: Register| register.stale.or(register.accumulator.map(|p| p.pc));
        let taken = uses.iter().find_map(|&row| read(self.get(row)));
        let written = |register: Register| register.accumulator.or(register.operand).map(|p| (p.pc, true));
        let overwritten = defs.iter().find_map(|&row| written(self.get(row)));
        let stale = taken.filter(|_| copies);
        let mut freed = false;
        for &row in defs {
            if !copies {
                self.write(row);
            }
            if stale.is_some() || self.get(row).stale.is_some() {
                self.change(row, |register| {
                    register.stale = stale;
                    freed |= register.is_free();
                });
            }
        }
        if freed {
            let registers = &self.registers;
            self.rows.retain(|&row| !registers[row as usize].is_free());
        }
        overwritten.or(taken.filter(|_| !copies).map(|pc| (pc, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulators_are_free_after_the_wait_for_their_group_only() {
        let mut flight = InFlight::default();
        assert_eq!(flight.issue(0, 10, &[1, 2], &[5], true), None);
        assert_eq!(flight.issue(0, 11, &[1, 2], &[5], true), None, "the same shape goes on");
        assert_eq!(flight.issue(1, 12, &[3, 4], &[], true), None);
        assert_eq!(flight.touch(&[5], &[], false), None, "A may be read");
        assert_eq!(flight.touch(&[2], &[], false), Some((11, false)));
        assert_eq!(flight.touch(&[], &[5], false), Some((11, true)));
        flight.wait(1);
        assert_eq!(flight.touch(&[1, 2], &[5], false), None);
        assert_eq!(flight.touch(&[3], &[], false), Some((12, false)));
        flight.wait(2);
        assert!(flight.is_empty());
    }

    #[test]
    fn a_copy_that_was_made_too_early_stays_stale() {
        let mut flight = InFlight::default();
        flight.issue(0, 10, &[1, 2], &[], true);
        assert_eq!(flight.touch(&[1], &[7], true), None);
        flight.wait(1);
        assert_eq!(flight.touch(&[7], &[8], true), None);
        assert_eq!(flight.touch(&[8], &[], false), Some((10, false)));
        assert_eq!(flight.touch(&[], &[8], false), None);
        assert_eq!(flight.touch(&[8], &[], false), None);
        assert_eq!(flight.issue(1, 12, &[7, 8], &[], true), Some((10, false)));
    }

    #[test]
    fn a_register_of_a_is_written_before_the_fence() {
        let mut flight = InFlight::default();
        assert!(!flight.wrote(&[5]));
        flight.issue(0, 10, &[1, 2], &[5], true);
        flight.touch(&[], &[6], false);
        flight.touch(&[6], &[7], true);
        assert!(flight.wrote(&[8, 6]) && !flight.wrote(&[7]));
        flight.fence();
        assert!(!flight.wrote(&[6]));
    }

    #[test]
    fn other_shapes_may_not_share_accumulators() {
        let mut flight = InFlight::default();
        flight.issue(0, 10, &[1, 2], &[], true);
        assert_eq!(flight.issue(0, 11, &[2, 3], &[], true), Some((10, true)));
        assert_eq!(flight.issue(0, 12, &[8, 9], &[1], true), Some((10, false)));
    }
}
