//! Checks that `wgmma.fence` is where it must be (PTX ISA §9.7.15.7.1): before a warp's first `wgmma.mma_async`, and
//! between a product and another instruction that writes its registers.
//!
//! Registers are identified by their values: the values that a product reads are compared with those that the last
//! product left, unless a fence was executed since. So a compiler may copy registers freely.

use crate::program::Row;

/// The values that a warp's products left in their registers since its last fence.
#[derive(Debug, Default)]
pub(in crate::exec) struct FencedRegisters {
    /// The number of fences so far.
    fences: u32,
    /// For each register, the number of fences when a product left it, and a digest of its values; 0 fences if none
    /// did.
    left: Vec<(u32, u64)>,
}

impl FencedRegisters {
    /// `wgmma.fence`.
    pub(in crate::exec) fn fence(&mut self) {
        self.fences += 1;
    }

    /// Whether there was a fence at all.
    pub(in crate::exec) fn is_fenced(&self) -> bool {
        self.fences > 0
    }

    /// Whether a product may read these values from a register.
    pub(in crate::exec) fn allow(&self, row: Row, values: &[u32; 32]) -> bool {
        self.left.get(row as usize).is_none_or(|&(fences, left)| fences != self.fences || left == digest(values))
    }

    /// Records that a product leaves these values in a register, or has read them.
    pub(in crate::exec) fn leave(&mut self, row: Row, values: &[u32; 32]) {
        let index = row as usize;
        if self.left.len() <= index {
            self.left.resize(index + 1, (0, 0));
        }
        self.left[index] = (self.fences, digest(values));
    }

    /// A product in flight has completed: its register now holds other values, although no other instruction wrote
    /// them.
    pub(in crate::exec) fn complete(&mut self, row: Row, values: &[u32; 32]) {
        if let Some((fences, left)) = self.left.get_mut(row as usize)
            && *fences == self.fences
        {
            *left = digest(values);
        }
    }
}

/// A linear hash with a random odd factor for every lane. Values that differ in a single lane always have different
/// digests; other values have equal digests only by chance.
fn digest(values: &[u32; 32]) -> u64 {
    const FACTORS: [u64; 32] = factors();
    values.iter().zip(FACTORS).fold(0, |sum, (&value, factor)| sum.wrapping_add(u64::from(value).wrapping_mul(factor)))
}

/// Knuth's generator (The Art of Computer Programming 3.3.4, table 1), which has good high bits.
const fn factors() -> [u64; 32] {
    let (mut factors, mut state, mut lane) = ([0; 32], 1_u64, 0);
    while lane < 32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        factors[lane] = state.rotate_left(32) | 1;
        lane += 1;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_product_needs_a_fence_and_so_do_registers_that_were_written_since() {
        let mut registers = FencedRegisters::default();
        assert!(!registers.is_fenced());
        registers.fence();
        assert!(registers.is_fenced() && registers.allow(3, &[7; 32]), "written before the fence");
        registers.leave(3, &[8; 32]);
        assert!(registers.allow(3, &[8; 32]));
        let mut one_lane = [8; 32];
        one_lane[31] = 9;
        assert!(!registers.allow(3, &one_lane) && !registers.allow(3, &[0x3f80_0008; 32]));
        assert!(registers.allow(4, &one_lane));
        registers.complete(3, &one_lane);
        registers.complete(4, &[0; 32]);
        assert!(registers.allow(3, &one_lane) && registers.allow(4, &[1; 32]));
        registers.leave(3, &[0; 32]);
        registers.fence();
        assert!(registers.allow(3, &[1; 32]));
    }
}
