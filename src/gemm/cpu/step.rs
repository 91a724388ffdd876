//! The steps of a strip program, and the places of its registers.

use std::slice::from_mut;

use smallvec::SmallVec;

use crate::evt::{ParameterId, Position};
use crate::lane;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StripPlace {
    /// One value.
    Single(usize),
    /// A value for every column of the tile.
    Row(usize),
    /// A value for every row of the tile.
    Column(usize),
    /// A value for every element of the block.
    Block(usize),
    /// The block's values of an accumulator.
    Accum(usize),
}

/// A place, and the class of its values: the arithmetic type, also for truth values, or 64-bit integers.
pub(super) type Register = lane::Register<StripPlace>;

/// One step. Its result goes to a register of the section that it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StripStep {
    Load {
        to: Register,
        parameter: ParameterId,
    },
    /// The random numbers of a seed's stream.
    Random {
        to: Register,
        seed: ParameterId,
        stream: u32,
    },
    Integer {
        to: Register,
        value: i64,
    },
    Position {
        to: Register,
        position: Position,
    },
    Compute(lane::LaneStep<StripPlace>),
    /// Repeats a value of smaller extent.
    Spread {
        to: Register,
        x: Register,
    },
    /// Combines a block into the tile's partial result of a reduction.
    Reduce {
        reduction: usize,
        x: Register,
    },
    Store {
        output: usize,
        x: Register,
    },
    /// Stores the exact sums of a product of integers.
    StoreSums {
        output: usize,
        accumulator: usize,
    },
}

impl StripStep {
    /// The written register and the read ones, to rename them.
    pub(super) fn registers_mut(&mut self) -> (Option<&mut Register>, &mut [Register]) {
        match self {
            Self::Load { to, .. } | Self::Random { to, .. } | Self::Integer { to, .. } | Self::Position { to, .. } => {
                (Some(to), &mut [])
            }
            Self::Compute(step) => {
                let (to, operands) = step.registers_mut();
                (Some(to), operands)
            }
            Self::Spread { to, x } => (Some(to), from_mut(x)),
            Self::Reduce { x, .. } | Self::Store { x, .. } => (None, from_mut(x)),
            Self::StoreSums { .. } => (None, &mut []),
        }
    }

    /// The registers that it reads.
    pub(super) fn operands(mut self) -> SmallVec<[Register; 3]> {
        SmallVec::from_slice(self.registers_mut().1)
    }

    /// The register that it writes.
    pub(super) fn to(mut self) -> Option<Register> {
        self.registers_mut().0.copied()
    }
}
