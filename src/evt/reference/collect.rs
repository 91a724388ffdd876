//! Collects the values of elements into outputs: stores, reductions, partials.

use std::collections::HashMap;

use super::bounds::{Bounds, Slack};
use super::cell::{Cell, stored};
use super::element::round;
use super::extreme::Extreme;
use super::orders;
use super::pair::Pair;
use super::wide::Wide;
use super::{Extent, Groups, Options, Output, ReferenceError};
use crate::ElementType;
use crate::evt::{Axis, BroadcastClass, Form, OutputKind, ReduceOp, Reduction, ValidOutput};
use crate::expr::{Op, Real};

/// Collects one output, or a reduction that others are computed from.
pub(super) struct Sink<'a, W> {
    name: &'static str,
    kind: OutputKind,
    class: BroadcastClass,
    element: ElementType,
    packed: bool,
    extent: Extent,
    tile: (usize, usize),
    shape: Vec<usize>,
    groups: Option<Groups<'a>>,
    /// The errors of a device in a reducer's functions.
    slack: Slack,
    /// The result so far of every stored element.
    elements: HashMap<usize, Running<W>>,
}

/// A stored value, or the intermediate result of a reduction.
struct Running<W> {
    exact: W,
    bounds: Bounds,
    terms: f64,
    /// The sum of the terms' greatest finite magnitudes.
    magnitude: f64,
    /// Products of the magnitudes above and below 1.
    above: f64,
    below: f64,
    /// Where the greatest or the least is, if that is wanted.
    extreme: Option<Extreme<W>>,
    /// All elements, for a reducer of the user's own.
    elements: Vec<Pair<W>>,
    /// The reducer's result, once all elements are there.
    given: Option<Pair<W>>,
}

impl<'a, W: Wide> Sink<'a, W> {
    pub(super) fn new(
        output: &ValidOutput,
        extent: Extent,
        groups: Option<Groups<'a>>,
        options: Options,
        slack: Slack,
    ) -> Result<Self, ReferenceError> {
        let shares = groups.is_some_and(|groups| groups.share(output.class));
        let extent = Extent { l: if shares { 1 } else { extent.l }, ..extent };
        let Extent { m, n, l } = extent;
        let tile = match options.tile {
            Some((tile_m, tile_n)) if tile_m > 0 && tile_n > 0 => (tile_m, tile_n),
            _ if output.is_partial() => return Err(ReferenceError::Tile { name: output.name }),
            _ => (1, 1),
        };
        let (name, kind, class, element) = (output.name, output.kind, output.class, output.element);
        let mut shape = match output.reduction() {
            Some(Reduction { form: Form::Partial, axis: Axis::Row, .. }) => vec![l, n.div_ceil(tile.1), m],
            Some(Reduction { form: Form::Partial, .. }) => vec![l, m.div_ceil(tile.0), n],
            _ => match output.class {
                BroadcastClass::Tensor => vec![l, m, n],
                BroadcastClass::ColumnVector => vec![l, m],
                BroadcastClass::RowVector => vec![l, n],
                BroadcastClass::Scalar => vec![l],
            },
        };
        if output.reduction().is_some_and(|r| r.batch) {
            shape.remove(0);
        }
        let (packed, elements) = (output.packed, HashMap::new());
        Ok(Self { name, kind, class, element, packed, extent, tile, shape, groups, slack, elements })
    }

    /// Collects a complete reduction whose result is a value.
    pub(super) fn of_reduction(reduction: Reduction, element: ElementType, extent: Extent, slack: Slack) -> Self {
        let (kind, class) = (OutputKind::Reduce(reduction), reduction.axis.result_class());
        Self {
            name: "",
            kind,
            class,
            element,
            packed: false,
            extent,
            tile: (1, 1),
            shape: Vec::new(),
            groups: None,
            slack,
            elements: HashMap::new(),
        }
    }

    /// Computes at once what many elements are going to read.
    pub(super) fn completed(mut self) -> Self {
        if let Some(reducer) = self.reduction().and_then(|reduction| reduction.op.user()) {
            for running in self.elements.values_mut() {
                running.given = Some(orders::combined(reducer, &running.elements, self.slack));
            }
        }
        self
    }

    /// The result that an element of the product reads: a number in the arithmetic's type, or an index.
    pub(super) fn result(&self, index: [usize; 3], real: Real) -> Cell<W> {
        let op = self.reduction().map_or(ReduceOp::Add, |reduction| reduction.op);
        let nothing = Running::identity(op);
        let running = self.elements.get(&self.place(index)).unwrap_or(&nothing);
        if let Some(extreme) = &running.extreme {
            return Cell::Integer(extreme.index());
        }
        let in_real = |x: f64| round(real.element(), x);
        let Pair { exact, bounds } = running.reduced(op, self.slack);
        Cell::Number(Pair { exact, bounds: bounds.monotone(in_real) })
    }

    const fn reduction(&self) -> Option<Reduction> {
        match self.kind {
            OutputKind::Store => None,
            OutputKind::Reduce(reduction) => Some(reduction),
        }
    }

    /// The index in the output for an element of the product.
    fn place(&self, [l, m, n]: [usize; 3]) -> usize {
        let Extent { m: rows, n: columns, .. } = self.extent;
        let reduced = self.reduction().is_some_and(|r| r.batch);
        let l = if reduced { 0 } else { l.min(self.extent.l.saturating_sub(1)) };
        match self.reduction() {
            Some(Reduction { form: Form::Partial, axis: Axis::Row, .. }) => {
                (l * columns.div_ceil(self.tile.1) + n / self.tile.1) * rows + m
            }
            Some(Reduction { form: Form::Partial, .. }) => {
                (l * rows.div_ceil(self.tile.0) + m / self.tile.0) * columns + n
            }
            _ => match self.class {
                BroadcastClass::Tensor => (l * rows + m) * columns + n,
                BroadcastClass::ColumnVector => l * rows + m,
                BroadcastClass::RowVector => l * columns + n,
                BroadcastClass::Scalar => l,
            },
        }
    }

    pub(super) fn take(&mut self, index: [usize; 3], value: Pair<W>) {
        let place = self.place(index);
        match self.kind {
            OutputKind::Store => {
                let running = Running { exact: value.exact, bounds: value.bounds, ..Running::identity(ReduceOp::Add) };
                self.elements.entry(place).or_insert(running);
            }
            OutputKind::Reduce(reduction) => {
                let at = self.index_of(reduction.axis, index);
                let running = self.elements.entry(place).or_insert_with(|| Running::identity(reduction.op));
                match (&mut running.extreme, reduction.op.user()) {
                    (Some(extreme), _) => extreme.add(at, value),
                    (None, Some(_)) => running.elements.push(value),
                    (None, None) => running.add(reduction.op, value),
                }
            }
        }
    }

    /// An element's index along an axis.
    fn index_of(&self, axis: Axis, [_, m, n]: [usize; 3]) -> i64 {
        let index = match axis {
            Axis::Row => n,
            Axis::Column => m,
            Axis::All => m * self.extent.n + n,
        };
        i64::try_from(index).unwrap_or(i64::MAX)
    }

    /// Whether an element of the output is of a row that no group has.
    fn is_untouched(&self, place: usize) -> bool {
        let (Some(groups), Extent { m, n, .. }) = (self.groups, self.extent) else { return false };
        let per_row = match self.class {
            BroadcastClass::Tensor => n,
            BroadcastClass::ColumnVector => 1,
            BroadcastClass::RowVector | BroadcastClass::Scalar => return false,
        };
        let partial = self.reduction().is_some_and(|reduction| reduction.form == Form::Partial);
        let matrices = if partial { n.div_ceil(self.tile.1) } else { 1 };
        let row = place / per_row;
        !groups.have(row / (m * matrices), row % m)
    }

    pub(super) fn finish(mut self) -> Output {
        let shape = std::mem::take(&mut self.shape);
        let (values, bounds) = (Vec::new(), Vec::new());
        let mut output = Output { name: self.name, shape, packed: self.packed, values, bounds };
        let element = self.element;
        // The result of a reduction is in the arithmetic type before it is stored.
        let store = |x: f64| round(element, x);
        for place in 0..output.shape.iter().product() {
            if self.is_untouched(place) {
                output.values.push(f64::NAN);
                output.bounds.push(Bounds::ANYTHING);
                continue;
            }
            let op = self.reduction().map_or(ReduceOp::Add, |r| r.op);
            let running = self.elements.remove(&place).unwrap_or_else(|| Running::identity(op));
            if let Some(extreme) = &running.extreme {
                let Pair { exact, bounds } = stored::<W>(&Cell::Integer(extreme.index()));
                output.values.push(store(exact.to_f64()));
                output.bounds.push(bounds.monotone(store));
                continue;
            }
            let Pair { exact, bounds } = match self.kind {
                OutputKind::Store => Pair { exact: running.exact, bounds: running.bounds },
                OutputKind::Reduce(reduction) => running.reduced(reduction.op, self.slack),
            };
            output.values.push(store(exact.to_f64()));
            output.bounds.push(bounds.monotone(store));
        }
        output
    }
}

impl<W: Wide> Running<W> {
    /// The result of a reduction without elements.
    fn identity(op: ReduceOp) -> Self {
        let x = match op {
            ReduceOp::Add | ReduceOp::SumSquares | ReduceOp::AbsMax => 0.0,
            ReduceOp::Mul => 1.0,
            ReduceOp::Max => f64::NEG_INFINITY,
            ReduceOp::Min => f64::INFINITY,
            ReduceOp::ArgMax | ReduceOp::ArgMin => -1.0,
            // The result of its functions is known at the end.
            ReduceOp::User(_) => f64::NAN,
        };
        let extreme = op.gives_index().then(|| Extreme::new(op));
        let exact = W::from_f64(x);
        Self {
            exact,
            bounds: Bounds::exact(x),
            terms: 0.0,
            magnitude: 0.0,
            above: 1.0,
            below: 1.0,
            extreme,
            elements: Vec::new(),
            given: None,
        }
    }

    fn add(&mut self, op: ReduceOp, value: Pair<W>) {
        let term = match op {
            ReduceOp::SumSquares => Pair {
                exact: W::apply(Op::Mul, &[value.exact, value.exact]),
                bounds: Bounds::unrounded(Op::Mul, value.bounds.absolute(), value.bounds.absolute()),
            },
            ReduceOp::AbsMax => Pair { exact: W::apply(Op::Abs, &[value.exact]), bounds: value.bounds.absolute() },
            _ => value,
        };
        let step = match op {
            ReduceOp::Add | ReduceOp::SumSquares => Op::Add,
            ReduceOp::Mul => Op::Mul,
            ReduceOp::Max | ReduceOp::AbsMax | ReduceOp::ArgMax => Op::Max,
            ReduceOp::Min | ReduceOp::ArgMin => Op::Min,
            // Its elements are combined at the end.
            ReduceOp::User(_) => return,
        };
        self.exact = W::apply(step, &[self.exact, term.exact]);
        self.bounds = Bounds::unrounded(step, self.bounds, term.bounds);
        self.terms += 1.0;
        let magnitude = term.bounds.magnitude();
        if magnitude.is_finite() {
            self.magnitude += magnitude;
            self.above *= magnitude.max(1.0);
            self.below *= if magnitude > 0.0 { magnitude.min(1.0) } else { 1.0 };
        }
    }

    /// The result, with what a device may give, with any order and a rounding at every step.
    fn reduced(&self, op: ReduceOp, slack: Slack) -> Pair<W> {
        match op {
            ReduceOp::User(reducer) => self.given.unwrap_or_else(|| orders::combined(reducer, &self.elements, slack)),
            _ => Pair { exact: self.exact, bounds: self.bounds_of(op, slack.real) },
        }
    }

    fn bounds_of(&self, op: ReduceOp, real: Real) -> Bounds {
        let (unit, largest, smallest) = match real {
            Real::F32 => (f64::from(f32::EPSILON), f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE)),
            Real::F64 => (f64::EPSILON, f64::MAX, f64::MIN_POSITIVE),
        };
        let steps = self.terms * unit;
        match op {
            ReduceOp::Max | ReduceOp::Min | ReduceOp::AbsMax | ReduceOp::ArgMax | ReduceOp::ArgMin => self.bounds,
            // Never: of its elements.
            ReduceOp::User(_) => Bounds::ANYTHING,
            ReduceOp::Add | ReduceOp::SumSquares if self.magnitude > largest => Bounds::ANYTHING,
            ReduceOp::Add => self.bounds.widened(0.0, self.magnitude * steps, real),
            ReduceOp::SumSquares => {
                self.bounds.widened(0.0, self.magnitude * (steps + unit) + self.terms * smallest, real)
            }
            ReduceOp::Mul if self.above > largest || self.below < smallest => Bounds::ANYTHING,
            ReduceOp::Mul => self.bounds.widened(1.01 * steps, 0.0, real),
        }
    }
}
