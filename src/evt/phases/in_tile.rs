//! All phases in one tile: another way to compute a tree with phases, if whole rows (or columns) lie in a tile.
//!
//! The tile then has all elements of its rows' reductions. It walks over its elements once for each phase, in one
//! launch and without M×N values in memory: one *sweep* for each part. Values cross from sweep to sweep as they cross
//! from part to part, in other places:
//!
//! ```text
//! softmax        sweep 0                     sweep 1                        sweep 2
//! in registers   accum → x                   x → e                          e
//! of each row    m = max x                   m, s = sum e                   m, s
//! stored                                                                    d = e / s
//! ```
//!
//! A reduction's result stays with the lanes that have the row. An M×N value takes the *place* of an accumulator that
//! no later sweep reads, or of a value that is no longer read: registers on sm_90a, the staging in shared memory on
//! sm_80. So there are at most as many of these values as accumulators. An accumulator that is kept stays where it is.
//! A value without a place is computed again, and parameters are read again.
//!
//! Lines may also lie in the tiles of a cluster, whose blocks then exchange their partial reductions after each sweep
//! (`device/sm90/exchange.cuh`).

use super::delivery::deliveries;
use super::{PartBinding, PhasePart, Prices, Slot, parts};
use crate::evt::{
    Axis, BroadcastClass, Cost, OutputKind, ParameterId, Reduction, ValidOutput, ValidTree, ValueId, ValueKind,
};

/// Which lines of the product must lie in one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct WholeLines {
    /// Rows: N is at most the tile's number of columns.
    pub rows: bool,
    /// Columns: M is at most the tile's number of rows.
    pub columns: bool,
}

impl WholeLines {
    /// Whether they do, of a product of M×N and a tile of these rows and columns.
    #[must_use]
    pub const fn fit(self, (tile_m, tile_n): (usize, usize), (m, n): (usize, usize)) -> bool {
        (!self.rows || n <= tile_n) && (!self.columns || m <= tile_m)
    }
}

/// A tree with phases, to be computed by sweeps over a tile.
#[derive(Clone, Debug, PartialEq)]
pub struct InTile {
    tree: ValidTree,
    lines: WholeLines,
    parts: Vec<PhasePart>,
    /// For every slot of the parts.
    places: Vec<SweepPlace>,
}

/// Where what crosses from sweep to sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepPlace {
    /// In the register of this accumulator, by its place among those that a kernel has: an M×N value.
    Register(usize),
    /// Nowhere else: it is an accumulator, by its index in the tree.
    Accumulator(usize),
    /// With the lanes that have the line: the result of a reduction, which is this value of the whole tree.
    Line(ValueId),
}

/// The destination of a sweep's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepTarget {
    /// It is stored, or reduced and stored: an output of the whole tree.
    Output(usize),
    /// It crosses to a later sweep.
    Kept(SweepPlace),
}

/// One walk over the elements of a tile.
#[derive(Clone, Debug)]
pub(crate) struct Sweep<'a> {
    /// The computation, without phases.
    pub(crate) tree: &'a ValidTree,
    /// For every output.
    pub(crate) targets: Vec<SweepTarget>,
    /// Where its parameters behind those of the whole tree are.
    kept: Vec<SweepPlace>,
}

/// The computation of a kernel with a product.
#[derive(Clone, Debug)]
pub(crate) struct Computation<'a> {
    /// Whose arguments a launch takes, and whose outputs it stores.
    pub(crate) tree: &'a ValidTree,
    /// At least one.
    pub(crate) sweeps: Vec<Sweep<'a>>,
    /// The computation of the blocks that complete reductions.
    pub(crate) tail: Option<&'a ValidTree>,
}

impl<'a> Computation<'a> {
    /// One walk over the elements.
    pub(crate) fn of_pass(tree: &'a ValidTree, tail: Option<&'a ValidTree>) -> Self {
        let targets = (0..tree.outputs().len()).map(SweepTarget::Output).collect();
        Self { tree, sweeps: vec![Sweep { tree, targets, kept: Vec::new() }], tail }
    }
}

impl Sweep<'_> {
    /// Where a parameter is that the whole tree doesn't have.
    pub(crate) fn place(&self, parameter: ParameterId) -> Option<SweepPlace> {
        let own = self.tree.parameters().len() - self.kept.len();
        parameter.index().checked_sub(own).and_then(|at| self.kept.get(at)).copied()
    }

    /// Whether an element's M×N values are kept in registers by it.
    pub(crate) fn writes_registers(&self) -> bool {
        self.targets.iter().any(|target| matches!(target, SweepTarget::Kept(SweepPlace::Register(_))))
    }

    /// Whether it has one value for each line only, so that one element of each is enough.
    pub(crate) fn is_of_lines(&self) -> bool {
        let of_line = |output: &ValidOutput| {
            output.kind == OutputKind::Store
                && matches!(output.class, BroadcastClass::RowVector | BroadcastClass::ColumnVector)
        };
        let outputs = self.tree.outputs();
        let stored = self.targets.iter().all(|target| matches!(target, SweepTarget::Output(_)));
        let alike = outputs.windows(2).all(|pair| pair[0].class == pair[1].class);
        !self.kept.is_empty() && stored && alike && outputs.iter().all(of_line)
    }
}

impl InTile {
    /// How a tree is computed so; `None` if it has no phases, or none that can be computed so: it reduces over batches
    /// too, or more values cross than there are accumulators.
    #[must_use]
    pub fn of(tree: &ValidTree) -> Option<Self> {
        if tree.phases() == 1 {
            return None;
        }
        let lines = lines(tree)?;
        // Dear values are kept if there is room, else as few values as can be.
        [Prices::REGISTERS, Prices::FEWEST].into_iter().find_map(|prices| {
            let (parts, slots) = parts(tree, prices);
            let places = places(tree, &parts, &slots)?;
            let delivered = deliveries(tree);
            let output = |(output, delivery): (&ValidOutput, &super::delivery::Delivery)| ValidOutput {
                value: delivery.value,
                kind: delivery.kind,
                ..output.clone()
            };
            let outputs: Vec<ValidOutput> = tree.outputs().iter().zip(&delivered).map(output).collect();
            let whole = Cost::of(tree.types(), &tree.values, &tree.parameters, &outputs);
            let cost = whole.of_sweeps(&parts.iter().map(|part| part.tree.cost()).collect::<Vec<_>>());
            Some(Self { tree: ValidTree { outputs, cost, ..tree.clone() }, lines, parts, places })
        })
    }

    /// The tree, whose [`cost`](ValidTree::cost) is that of all sweeps. A reduction that is returned and used is stored like
    /// any value.
    #[must_use]
    pub const fn tree(&self) -> &ValidTree {
        &self.tree
    }

    /// The lines that must lie in one tile.
    #[must_use]
    pub const fn lines(&self) -> WholeLines {
        self.lines
    }

    /// The number of sweeps.
    #[must_use]
    pub const fn sweeps(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn computation(&self) -> Computation<'_> {
        Computation { tree: &self.tree, sweeps: self.parts.iter().map(|part| self.sweep(part)).collect(), tail: None }
    }

    fn sweep<'a>(&'a self, part: &'a PhasePart) -> Sweep<'a> {
        let tree = &part.tree;
        let place = |binding: &PartBinding| match binding {
            PartBinding::Slot(slot) => Some(self.places[*slot]),
            PartBinding::Argument(_) => None,
        };
        let target = |output| match part.bindings[tree.output_argument(output)] {
            PartBinding::Slot(slot) => SweepTarget::Kept(self.places[slot]),
            PartBinding::Argument(argument) => {
                let all = 0..self.tree.outputs().len();
                let same = all.into_iter().find(|output| self.tree.output_argument(*output) == argument);
                SweepTarget::Output(same.unwrap_or_default())
            }
        };
        let kept = part.bindings[..tree.parameters().len()].iter().filter_map(place).collect();
        Sweep { tree, targets: (0..tree.outputs().len()).map(target).collect(), kept }
    }
}

/// The lines that the tree's used reductions are of; `None` if one is of all batches.
fn lines(tree: &ValidTree) -> Option<WholeLines> {
    let mut lines = WholeLines::default();
    for Reduction { axis, batch, .. } in tree.used_reductions() {
        if batch {
            return None;
        }
        lines.rows |= matches!(axis, Axis::Row | Axis::All);
        lines.columns |= matches!(axis, Axis::Column | Axis::All);
    }
    Some(lines)
}

/// The place of every slot; `None` if there are not enough registers.
fn places(tree: &ValidTree, parts: &[PhasePart], slots: &[Slot]) -> Option<Vec<SweepPlace>> {
    let last_reader = |slot: usize| {
        let reads = |part: &PhasePart| part.bindings[..part.tree.parameters().len()].contains(&PartBinding::Slot(slot));
        parts.iter().rposition(reads).unwrap_or(0)
    };
    let live: Vec<usize> = tree.live_accumulators().collect();
    // The last sweep that reads what a register holds.
    let mut until = vec![0; live.len().max(1)];
    let mut places = vec![None; slots.len()];
    for (slot, of) in slots.iter().enumerate() {
        match tree.value(of.value).kind {
            ValueKind::Reduce(..) => places[slot] = Some(SweepPlace::Line(of.value)),
            ValueKind::Accum(i) => {
                until[live.iter().position(|accumulator| *accumulator == i)?] = last_reader(slot);
                places[slot] = Some(SweepPlace::Accumulator(i));
            }
            _ if of.element.size() > tree.types().accumulator.size() => return None,
            _ => {}
        }
    }
    for phase in 0..parts.len() {
        for (slot, of) in slots.iter().enumerate() {
            if places[slot].is_some() || tree.value(of.value).phase != phase {
                continue;
            }
            let free = until.iter().position(|until| *until <= phase)?;
            // Taken also where this is the last sweep of all.
            until[free] = last_reader(slot).max(phase + 1);
            places[slot] = Some(SweepPlace::Register(free));
        }
    }
    places.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::softmax;
    use super::*;

    /// The exponential takes the place of what it is of.
    #[test]
    fn a_softmax_keeps_one_value_at_a_time() {
        let tree = softmax(true);
        let in_tile = InTile::of(&tree).expect("a way");
        assert_eq!((in_tile.lines(), in_tile.sweeps()), (WholeLines { rows: true, columns: false }, 3));
        let computation = in_tile.computation();
        let targets: Vec<_> = computation.sweeps.iter().map(|sweep| sweep.targets.clone()).collect();
        let line = |name: &str| {
            let (id, _) = tree.enumerate().find(|(_, value)| value.name == name).expect("a value");
            SweepTarget::Kept(SweepPlace::Line(id))
        };
        let register = SweepTarget::Kept(SweepPlace::Register(0));
        assert_eq!(
            targets,
            [
                vec![line("m"), register],
                vec![SweepTarget::Output(1), line("s"), register],
                vec![SweepTarget::Output(0), SweepTarget::Output(2)]
            ]
        );
        // No reduction is left to be completed in memory.
        assert!(in_tile.tree().reductions().next().is_none());
        assert_eq!(in_tile.tree().cost().costly_operations, 2);
    }
}
