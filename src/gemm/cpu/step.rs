//! The steps of a strip program, and the places of their operands.

use crate::ElementType;
use crate::evt::{ParameterId, Position};
use crate::expr::Op;

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

/// One step. Its result goes to a register of the section that it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Load {
        to: usize,
        parameter: ParameterId,
    },
    /// The random numbers of a seed's stream.
    Random {
        to: usize,
        seed: ParameterId,
        stream: u32,
    },
    Unary {
        to: usize,
        op: Op,
        x: Place,
    },
    Binary {
        to: usize,
        op: Op,
        x: Place,
        y: Place,
    },
    Ternary {
        to: usize,
        op: Op,
        x: Place,
        y: Place,
        z: Place,
    },
    Round {
        to: usize,
        element: ElementType,
        x: Place,
    },
    /// Repeats a value of smaller extent.
    Spread {
        to: usize,
        x: Place,
    },
    /// Combines a block into the tile's partial result of a reduction.
    Reduce {
        reduction: usize,
        x: Place,
    },
    Store {
        output: usize,
        x: Place,
    },
    /// Stores the exact sums of a product of integers.
    StoreSums {
        output: usize,
        accumulator: usize,
    },
    /// Reads or computes integers, which have their own registers, with numbers from the same sequence.
    Integer(IntegerStep),
}

impl Step {
    pub(super) fn operands(&self) -> Vec<Place> {
        let mut copy = *self;
        copy.operands_mut().into_iter().flatten().map(|place| *place).collect()
    }

    pub(super) fn to(&self) -> Option<usize> {
        let mut copy = *self;
        copy.to_mut().copied()
    }

    pub(super) fn operands_mut(&mut self) -> [Option<&mut Place>; 3] {
        match self {
            Self::Load { .. } | Self::Random { .. } | Self::StoreSums { .. } => [None, None, None],
            Self::Unary { x, .. }
            | Self::Round { x, .. }
            | Self::Spread { x, .. }
            | Self::Reduce { x, .. }
            | Self::Store { x, .. } => [Some(x), None, None],
            Self::Binary { x, y, .. } => [Some(x), Some(y), None],
            Self::Ternary { x, y, z, .. } => [Some(x), Some(y), Some(z)],
            Self::Integer(step) => step.operands_mut(),
        }
    }

    pub(super) fn to_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Load { to, .. }
            | Self::Random { to, .. }
            | Self::Unary { to, .. }
            | Self::Binary { to, .. }
            | Self::Ternary { to, .. }
            | Self::Round { to, .. }
            | Self::Spread { to, .. } => Some(to),
            Self::Integer(step) => step.to_mut(),
            Self::Reduce { .. } | Self::Store { .. } | Self::StoreSums { .. } => None,
        }
    }
}

/// A step with integers. Places are those of integers, unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IntegerStep {
    Constant {
        to: usize,
        value: i64,
    },
    Position {
        to: usize,
        position: Position,
    },
    Load {
        to: usize,
        parameter: ParameterId,
    },
    Negate {
        to: usize,
        x: Place,
    },
    Binary {
        to: usize,
        op: Op,
        x: Place,
        y: Place,
    },
    /// Its result is the number 0 or 1.
    Compare {
        to: usize,
        op: Op,
        x: Place,
        y: Place,
    },
    /// `c` is the number 0 or 1.
    Select {
        to: usize,
        c: Place,
        x: Place,
        y: Place,
    },
    /// Its result is a number.
    ToReal {
        to: usize,
        x: Place,
    },
    /// Repeats a value of smaller extent.
    Spread {
        to: usize,
        x: Place,
    },
    Store {
        output: usize,
        x: Place,
    },
}

impl IntegerStep {
    pub(super) fn operands_mut(&mut self) -> [Option<&mut Place>; 3] {
        match self {
            Self::Constant { .. } | Self::Position { .. } | Self::Load { .. } => [None, None, None],
            Self::Negate { x, .. } | Self::ToReal { x, .. } | Self::Spread { x, .. } | Self::Store { x, .. } => {
                [Some(x), None, None]
            }
            Self::Binary { x, y, .. } | Self::Compare { x, y, .. } => [Some(x), Some(y), None],
            Self::Select { c, x, y, .. } => [Some(c), Some(x), Some(y)],
        }
    }

    pub(super) fn to_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Constant { to, .. }
            | Self::Position { to, .. }
            | Self::Load { to, .. }
            | Self::Negate { to, .. }
            | Self::Binary { to, .. }
            | Self::Compare { to, .. }
            | Self::Select { to, .. }
            | Self::ToReal { to, .. }
            | Self::Spread { to, .. } => Some(to),
            Self::Store { .. } => None,
        }
    }
}
