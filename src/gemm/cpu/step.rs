//! The steps of a strip program, and the places of its registers.

use std::slice::{from_mut, from_ref};

use crate::evt::{ParameterId, Position};
use crate::lane;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
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
pub(super) type Register = lane::Register<Place>;

/// One step. Its result goes to a register of the section that it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
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
    Compute(lane::Step<Place>),
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

impl Step {
    /// The registers that it reads.
    pub(super) fn operands(&self) -> &[Register] {
        match self {
            Self::Load { .. }
            | Self::Random { .. }
            | Self::Integer { .. }
            | Self::Position { .. }
            | Self::StoreSums { .. } => &[],
            Self::Compute(step) => step.operands(),
            Self::Spread { x, .. } | Self::Reduce { x, .. } | Self::Store { x, .. } => from_ref(x),
        }
    }

    /// The registers that it reads, to rename them.
    pub(super) fn operands_mut(&mut self) -> &mut [Register] {
        match self {
            Self::Load { .. }
            | Self::Random { .. }
            | Self::Integer { .. }
            | Self::Position { .. }
            | Self::StoreSums { .. } => &mut [],
            Self::Compute(step) => step.operands_mut(),
            Self::Spread { x, .. } | Self::Reduce { x, .. } | Self::Store { x, .. } => from_mut(x),
        }
    }

    /// The register that it writes.
    pub(super) fn to(&self) -> Option<Register> {
        let mut copy = *self;
        copy.to_mut().copied()
    }

    pub(super) fn to_mut(&mut self) -> Option<&mut Register> {
        match self {
            Self::Load { to, .. }
            | Self::Random { to, .. }
            | Self::Integer { to, .. }
            | Self::Position { to, .. }
            | Self::Spread { to, .. } => Some(to),
            Self::Compute(step) => Some(&mut step.to),
            Self::Reduce { .. } | Self::Store { .. } | Self::StoreSums { .. } => None,
        }
    }
}
