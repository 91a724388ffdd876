//! Tiles: what one element of each of some outputs, in rows and columns, is combined with.
//!
//! A [`Body`] computes the combination of one output's totals with one element. Its operands are those of the output's
//! row, those of its column, and the totals. The kernel holds the totals of a whole tile of outputs in registers, and
//! takes one element of each after the other: so an operand that is loaded once serves a whole row or column.
//!
//! Operands are packed. Operands of rows lie by element, by operand, by row; those of columns by element, by operand, by
//! column; totals by total, by row, by column.

use super::body::{Argument, Body, JitNode, JitTarget, JitValue, TileOperand};

/// The outputs of a tile: rows, and vectors of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileShape {
    pub(super) rows: usize,
    pub(super) vectors: usize,
}

impl TileShape {
    /// The number of vectors of a total.
    pub(super) const fn count(self) -> usize {
        self.rows * self.vectors
    }
}

impl Body {
    fn tile_operand(&mut self, of: impl Fn(usize) -> TileOperand) -> (usize, JitValue) {
        let is_own = |argument: &&Argument| {
            matches!(argument, Argument::Tile(own)
                if std::mem::discriminant(own) == std::mem::discriminant(&of(0)))
        };
        let count = self.arguments.iter().filter(is_own).count();
        self.arguments.push(Argument::Tile(of(count)));
        let number = self.arguments.len() - 1;
        (number, self.node(JitNode::Load(number)))
    }

    /// A value for each row of a tile.
    pub(crate) fn of_row(&mut self) -> JitValue {
        self.tile_operand(TileOperand::Row).1
    }

    /// A lane for each column of a tile.
    pub(crate) fn of_column(&mut self) -> JitValue {
        self.tile_operand(TileOperand::Column).1
    }

    /// A total of each output of a tile, and the number of its argument, by which it is [set](Self::set).
    pub(crate) fn total(&mut self) -> (usize, JitValue) {
        self.tile_operand(TileOperand::Total)
    }

    /// The numbers of operands of rows and of columns, and of totals.
    pub(super) fn tile_operands(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for argument in &self.arguments {
            match argument {
                Argument::Tile(TileOperand::Row(_)) => counts[0] += 1,
                Argument::Tile(TileOperand::Column(_)) => counts[1] += 1,
                Argument::Tile(TileOperand::Total(_)) => counts[2] += 1,
                _ => {}
            }
        }
        counts
    }

    /// The operand of a tile that a node loads.
    pub(super) fn tile_operand_of(&self, node: JitNode) -> Option<TileOperand> {
        match node {
            JitNode::Load(number) => match self.arguments[number] {
                Argument::Tile(operand) => Some(operand),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether every total is set, and none to the old value of another.
    pub(super) fn is_tile(&self) -> bool {
        let own = |operand: Option<TileOperand>| match operand {
            Some(TileOperand::Total(number)) => Some(number),
            _ => None,
        };
        let sets = |(target, value): &(JitTarget, JitValue)| {
            let JitTarget::Argument(argument) = target else { return None };
            let total = own(self.tile_operand_of(JitNode::Load(*argument)))?;
            own(self.tile_operand_of(self.nodes[value.index()])).is_none_or(|from| from == total).then_some(())
        };
        self.stores.len() == self.tile_operands()[2] && self.stores.iter().all(|store| sets(store).is_some())
    }

    /// For each node, whether it differs from row to row, and from column to column.
    pub(super) fn varies(&self) -> Vec<[bool; 2]> {
        let mut varies: Vec<[bool; 2]> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let (operands, arity) = node.operands();
            let mut own = match self.tile_operand_of(*node) {
                Some(TileOperand::Row(_)) => [true, false],
                Some(TileOperand::Column(_)) => [false, true],
                Some(TileOperand::Total(_)) => [true, true],
                None => [false, false],
            };
            for operand in &operands[..arity] {
                let [row, column] = varies[operand.index()];
                own = [own[0] || row, own[1] || column];
            }
            varies.push(own);
        }
        varies
    }
}
