//! Tensor memory: its size, its addresses, and the cells that `tcgen05.ld` and `tcgen05.st` move (PTX ISA 9.7.16.1,
//! 9.7.16.2.3). The figures of the ISA leave the narrow shapes open; they are as in CUTLASS
//! (`cute/atom/copy_traits_sm100.hpp`).

/// Number of lanes.
pub const LANES: u32 = 128;
/// Number of columns.
pub const COLUMNS: u32 = 512;

/// A cell's lane and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorAddress {
    /// The lane, from the address' upper half.
    pub lane: u32,
    /// The column, from its lower half.
    pub column: u32,
}

impl TensorAddress {
    /// The parts of an address.
    pub const fn of(bits: u32) -> Self {
        Self { lane: bits >> 16, column: bits & 0xffff }
    }
}

/// The `.shape` of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveShape {
    /// `.32x32b`: each thread has its own lane.
    Lanes32,
    /// `.16x64b`
    Bits64,
    /// `.16x128b`
    Bits128,
    /// `.16x256b`: the C fragment of `mma.sync`.
    Bits256,
    /// `.16x32bx2`: the upper 16 threads take the same lanes, this many columns further.
    Twice {
        /// `immHalfSplitoff`
        split: u32,
    },
}

impl MoveShape {
    /// Number of lanes that a warp accesses.
    pub const fn lanes(self) -> u32 {
        if matches!(self, MoveShape::Lanes32) { 32 } else { 16 }
    }

    /// Number of registers of a thread, `.x1` or `.x{count}`.
    pub const fn registers(self, count: u32) -> u32 {
        match self {
            MoveShape::Lanes32 | MoveShape::Bits64 | MoveShape::Twice { .. } => count,
            MoveShape::Bits128 => 2 * count,
            MoveShape::Bits256 => 4 * count,
        }
    }

    /// The columns of each lane, as first column and number, relative to the address. Only `.16x32bx2` has two parts.
    pub fn columns(self, count: u32) -> impl Iterator<Item = (u32, u32)> {
        let (width, second) = match self {
            MoveShape::Lanes32 => (count, None),
            MoveShape::Bits64 => (2 * count, None),
            MoveShape::Bits128 => (4 * count, None),
            MoveShape::Bits256 => (8 * count, None),
            MoveShape::Twice { split } => (count, Some(split)),
        };
        std::iter::once((0, width)).chain(second.map(|split| (split, width)))
    }

    /// The cell of a thread's register, relative to the address.
    pub const fn cell(self, thread: u32, register: u32) -> TensorAddress {
        let (lane, column) = match self {
            MoveShape::Lanes32 => (thread, register),
            MoveShape::Bits64 => (thread / 4 + 8 * (thread % 2), thread / 2 % 2 + 2 * register),
            MoveShape::Bits128 => (thread / 4 + 8 * (register % 2), thread % 4 + 4 * (register / 2)),
            MoveShape::Bits256 => {
                (thread / 4 + 8 * (register / 2 % 2), 2 * (thread % 4) + register % 2 + 8 * (register / 4))
            }
            MoveShape::Twice { split } => (thread % 16, register + if thread < 16 { 0 } else { split }),
        };
        TensorAddress { lane, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_shape_moves_each_of_its_cells_once() {
        for shape in [
            MoveShape::Lanes32,
            MoveShape::Bits64,
            MoveShape::Bits128,
            MoveShape::Bits256,
            MoveShape::Twice { split: 40 },
        ] {
            for count in [1, 2, 32] {
                let mut cells = HashSet::new();
                for thread in 0..32 {
                    for register in 0..shape.registers(count) {
                        assert!(cells.insert(shape.cell(thread, register)), "{shape:?}");
                    }
                }
                let expected: HashSet<_> = shape
                    .columns(count)
                    .flat_map(|(first, width)| {
                        (first..first + width)
                            .flat_map(move |column| (0..shape.lanes()).map(move |lane| TensorAddress { lane, column }))
                    })
                    .collect();
                assert_eq!(cells, expected, "{shape:?} x{count}");
            }
        }
    }

    #[test]
    fn the_widest_shape_is_the_fragment_of_mma() {
        for thread in 0..32 {
            for register in 0..4 {
                let at = super::super::fragment::c_element(thread, register);
                let cell = MoveShape::Bits256.cell(thread as u32, register as u32);
                assert_eq!((cell.lane as usize, cell.column as usize), (at.row, at.column));
            }
        }
    }
}
