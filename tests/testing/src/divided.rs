//! How random cases divide their rows, or K, into groups.

use std::ops::Range;

use epilogue::evt::random::Choices;
use epilogue::evt::reference;
use epilogue::evt::{Axis, BroadcastClass, Form, OutputKind, Reduction, ValidTree};
use epilogue::gemm::{Divided, Left, Problem, Rows, depth};
use epilogue::{Device, DeviceTensor, Error};

/// The meaning of the bounds of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    Offsets,
    Ends,
    Counts,
}

/// The groups of a random case.
#[derive(Debug)]
pub(crate) struct Groups {
    what: Bounds,
    divided: Divided,
    tensor: DeviceTensor,
    /// The rows of each, or its part of K.
    parts: Vec<Range<usize>>,
}

impl Groups {
    /// Divides the rows of a product, or its K, at random: some groups are empty, and some rows in none.
    pub(crate) fn random(
        device: &Device,
        problem: Problem,
        divided: Divided,
        choices: &mut Choices<'_>,
    ) -> Result<Self, Error> {
        let of_depth = divided == Divided::Depth;
        let what = choices.pick(&[Bounds::Offsets, Bounds::Ends, Bounds::Counts, Bounds::Offsets]);
        // Rows are picked from one matrix, and those of one matrix are placed.
        let of_one = of_depth || problem.reading.is_picked() || problem.placing.is_scattered();
        let what = if of_one && what == Bounds::Counts { Bounds::Ends } else { what };
        let extent = if of_depth { problem.k } else { problem.m };
        let groups = choices.pick(&[3, 1, 2, 5, 9, 0]);
        let mut cuts: Vec<usize> = (0..=groups).map(|_| choices.below(extent + 1)).collect();
        let parts: Vec<Range<usize>> = if what == Bounds::Counts {
            cuts[..groups].iter().map(|count| 0..*count).collect()
        } else {
            if what == Bounds::Ends || choices.once_in(2) {
                cuts[0] = 0;
            }
            if choices.once_in(2) {
                cuts[groups] = extent;
            }
            cuts.sort_unstable();
            if what == Bounds::Ends {
                cuts[0] = 0;
            }
            cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
        };
        let mut bounds: Vec<i32> = parts.iter().map(|part| i32::try_from(part.end).unwrap_or(0)).collect();
        if what == Bounds::Offsets {
            bounds.insert(0, i32::try_from(cuts[0]).unwrap_or(0));
        }
        let tensor = if choices.once_in(3) {
            // Every second element.
            let apart: Vec<i32> = bounds.iter().flat_map(|bound| [*bound, -7]).collect();
            device.tensor(&apart, [bounds.len(), 2])?.slice(1, 0..1)?.reshape([bounds.len()])?
        } else {
            device.tensor(&bounds, [bounds.len()])?
        };
        Ok(Self { what, divided, tensor, parts })
    }

    /// The product whose rows are divided so.
    pub(crate) fn of(&self, problem: Problem) -> Problem {
        match self.what {
            _ if self.of_depth() => problem.in_depth_groups(self.parts.len()),
            Bounds::Offsets | Bounds::Ends => problem.in_groups(self.parts.len()),
            Bounds::Counts => problem.in_padded_groups(self.parts.len()),
        }
    }

    /// A with its K divided, or these rows of it.
    pub(crate) fn left<'a>(&'a self, a: &'a DeviceTensor, rows: Rows<'a>) -> Left<'a> {
        match self.what {
            Bounds::Offsets if self.of_depth() => depth(a).in_groups(&self.tensor),
            Bounds::Ends if self.of_depth() => depth(a).in_groups_to(&self.tensor),
            Bounds::Offsets => rows.in_groups(&self.tensor),
            Bounds::Ends => rows.in_groups_to(&self.tensor),
            Bounds::Counts => rows.in_groups_of(&self.tensor),
        }
    }

    fn has_matrices(&self) -> bool {
        self.what == Bounds::Counts
    }

    fn of_depth(&self) -> bool {
        self.divided == Divided::Depth
    }

    /// Bit 0 is set if all groups share A, bit 1 if they share B. They may share B if bit 1 of `shared` is set.
    pub(crate) fn share(&self, shared: usize) -> usize {
        match self.what {
            _ if self.of_depth() => 3,
            Bounds::Offsets | Bounds::Ends => 1 | shared & 2,
            Bounds::Counts => shared & 2,
        }
    }

    /// The groups of rows, for the reference.
    pub(crate) fn of_rows(&self) -> Option<reference::Groups<'_>> {
        let groups = reference::Groups { rows: &self.parts, of_one_matrix: !self.has_matrices() };
        (!self.of_depth()).then_some(groups)
    }

    /// Whether a row of one matrix is of a group.
    pub(crate) fn have(&self, row: usize) -> bool {
        self.parts.iter().any(|rows| rows.contains(&row))
    }

    /// The parts of K.
    pub(crate) fn of_k(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Whether the outputs of a tree are those of products with groups of rows.
    pub(crate) fn take(tree: &ValidTree) -> bool {
        tree.outputs().iter().all(|output| match output.kind {
            OutputKind::Store => true,
            OutputKind::Reduce(Reduction { axis, batch, form, .. }) => {
                (axis, batch) != (Axis::Row, true) && (axis, form) != (Axis::Column, Form::Partial)
            }
        })
    }

    /// The elements of an output, of this class and shape, that are of rows which no group has.
    pub(crate) fn untouched(&self, class: BroadcastClass, shape: &[usize], is_partial: bool) -> Vec<usize> {
        if self.of_depth() {
            return Vec::new();
        }
        // In whose shape the row is the last axis, or the one before it.
        let columns = match class {
            BroadcastClass::ColumnVector => 1,
            BroadcastClass::Tensor => shape[shape.len() - 1],
            BroadcastClass::RowVector | BroadcastClass::Scalar => return Vec::new(),
        };
        let m = shape[shape.len() - if class == BroadcastClass::Tensor { 2 } else { 1 }];
        let matrices = if is_partial { shape[shape.len() - 2] } else { 1 };
        let has = |place: &usize| {
            let (row, batch) = (place / columns % m, place / columns / m / matrices);
            let of =
                |(group, rows): (usize, &Range<usize>)| (!self.has_matrices() || group == batch) && rows.contains(&row);
            self.parts.iter().enumerate().any(of)
        };
        (0..shape.iter().product()).filter(|place| !has(place)).collect()
    }
}
