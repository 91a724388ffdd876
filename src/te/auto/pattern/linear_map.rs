//! Linear maps of a scan's state: they represent steps, and are composed before the state is known.
//!
//! A zero that is written in the update is not a number but the absence of a term. `if reset { x } else { s + x }`
//! doesn't multiply the state by 0, which would turn an infinite state into NaN. If the composition of several steps
//! may have a term or not, it therefore carries a gate, which tells whether the term exists.

use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr};

/// A pair of operations over which maps are linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum Semiring {
    /// (+, ·)
    SumProduct,
    /// (max, +)
    MaxPlus,
    /// (min, +)
    MinPlus,
}

/// An entry of a map: the zero or one of its semiring, or a value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::te::auto) enum MapEntry {
    Zero,
    One,
    Value(Expr),
    /// A value that counts where a condition holds; elsewhere the value equals the semiring's zero, too.
    Gated(Expr, Expr),
}

/// The value of an entry in every composition of steps, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum EntryShape {
    Zero,
    One,
    /// A value.
    Any,
    /// A value or the semiring's zero.
    Gated,
}

/// A linear map of the state: `rows[i]` has the coefficients and the constant of the new component `i`.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct LinearMap {
    pub(in crate::te::auto) ring: Semiring,
    pub(in crate::te::auto) dtype: DType,
    pub(in crate::te::auto) rows: Vec<MapRow>,
}

/// One component: a coefficient for every old component, and a constant.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::te::auto) struct MapRow {
    pub(in crate::te::auto) coefficients: Vec<MapEntry>,
    pub(in crate::te::auto) constant: MapEntry,
}

/// A number that represents a part of a map at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) struct MapNumber {
    pub(in crate::te::auto) row: usize,
    pub(in crate::te::auto) column: usize,
    /// Whether it is a gate: 1 where the value counts, and 0 where it doesn't.
    pub(in crate::te::auto) gate: bool,
}

impl MapEntry {
    /// The condition under which it is not zero; `None` if it is never zero.
    fn gate(&self) -> Option<Expr> {
        match self {
            Self::Zero => Some(Expr::truth(false)),
            Self::One | Self::Value(_) => None,
            Self::Gated(_, gate) => Some(gate.clone()),
        }
    }

    fn dtype(&self) -> Option<DType> {
        match self {
            Self::Value(x) | Self::Gated(x, _) => Some(x.dtype()),
            Self::Zero | Self::One => None,
        }
    }
}

impl Semiring {
    /// The semiring's addition.
    pub(in crate::te::auto) fn add(self, a: MapEntry, b: MapEntry) -> MapEntry {
        match (a, b) {
            (MapEntry::Zero, x) | (x, MapEntry::Zero) => x,
            (a, b) => {
                let dtype = a.dtype().or_else(|| b.dtype()).unwrap_or(DType::F32);
                let gate = a.gate().zip(b.gate()).map(|(a, b)| a.or(b));
                let (a, b) = (self.value(a, dtype), self.value(b, dtype));
                let op = match self {
                    Self::SumProduct => Binary::Add,
                    Self::MaxPlus => Binary::Max,
                    Self::MinPlus => Binary::Min,
                };
                Self::gated(Expr::binary(op, a, b), gate)
            }
        }
    }

    /// The semiring's multiplication.
    pub(in crate::te::auto) fn multiply(self, a: MapEntry, b: MapEntry) -> MapEntry {
        match (a, b) {
            (MapEntry::Zero, _) | (_, MapEntry::Zero) => MapEntry::Zero,
            (MapEntry::One, x) | (x, MapEntry::One) => x,
            (a, b) => {
                let gate = match (a.gate(), b.gate()) {
                    (Some(a), Some(b)) => Some(a.and(b)),
                    (a, b) => a.or(b),
                };
                let dtype = a.dtype().or_else(|| b.dtype()).unwrap_or(DType::F32);
                let op = if self == Self::SumProduct { Binary::Mul } else { Binary::Add };
                let product = Expr::binary(op, self.value(a, dtype), self.value(b, dtype));
                self.only_where(product, gate)
            }
        }
    }

    /// A value that counts where a condition holds; elsewhere it may be anything.
    pub(in crate::te::auto) fn only_where(self, value: Expr, gate: Option<Expr>) -> MapEntry {
        let Some(gate) = gate else { return MapEntry::Value(value) };
        let zero = self.value(MapEntry::Zero, value.dtype());
        MapEntry::Gated(gate.select(value, zero), gate)
    }

    /// A value that is already the semiring's zero where the condition does not hold.
    fn gated(value: Expr, gate: Option<Expr>) -> MapEntry {
        match gate {
            Some(gate) => MapEntry::Gated(value, gate),
            None => MapEntry::Value(value),
        }
    }

    /// One of two entries, chosen by a condition.
    pub(in crate::te::auto) fn select(self, condition: &Expr, a: MapEntry, b: MapEntry, dtype: DType) -> MapEntry {
        if a == b {
            return a;
        }
        let gates = (a.gate(), b.gate());
        let value = condition.select(self.value(a, dtype), self.value(b, dtype));
        // With integers, 0 times any value is 0.
        if !dtype.is_float() {
            return MapEntry::Value(value);
        }
        let other = || !condition.clone();
        let either = |a: Expr, b: Expr| match (a.as_int(), b.as_int()) {
            (Some(0), Some(1)) => other(),
            (Some(1), Some(0)) => condition.clone(),
            (Some(0), _) => other().and(b),
            (_, Some(0)) => condition.and(a),
            (Some(_), _) => condition.or(b),
            (_, Some(_)) => other().or(a),
            (None, None) => condition.and(a).or(other().and(b)),
        };
        let gate = match gates {
            (None, None) => None,
            (a, b) => Some(either(a.unwrap_or_else(|| Expr::truth(true)), b.unwrap_or_else(|| Expr::truth(true)))),
        };
        Self::gated(value, gate)
    }

    /// An entry as a number.
    pub(in crate::te::auto) fn value(self, entry: MapEntry, dtype: DType) -> Expr {
        match (entry, self) {
            (MapEntry::Value(x) | MapEntry::Gated(x, _), _) => x,
            (MapEntry::Zero, Self::SumProduct) | (MapEntry::One, Self::MaxPlus | Self::MinPlus) => {
                Expr::constant(0.0, dtype)
            }
            (MapEntry::One, Self::SumProduct) => Expr::constant(1.0, dtype),
            (MapEntry::Zero, Self::MaxPlus) => Expr::constant(dtype.least(), dtype),
            (MapEntry::Zero, Self::MinPlus) => Expr::constant(dtype.greatest(), dtype),
        }
    }
}

impl MapRow {
    pub(in crate::te::auto) fn map(self, f: impl Fn(MapEntry) -> MapEntry) -> Self {
        Self { coefficients: self.coefficients.into_iter().map(&f).collect(), constant: f(self.constant) }
    }

    fn entries(&self) -> impl Iterator<Item = &MapEntry> {
        self.coefficients.iter().chain([&self.constant])
    }
}

impl LinearMap {
    /// Whether some coefficient is neither zero nor one.
    pub(in crate::te::auto) fn scales(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.coefficients).any(|entry| !matches!(entry, MapEntry::Zero | MapEntry::One))
    }

    /// The known values of entries in every composition of steps, by rows; a row's constant comes last. Entries that
    /// are always zero or one need not be kept.
    pub(in crate::te::auto) fn shapes(&self) -> Vec<Vec<EntryShape>> {
        let step = self.step_shapes();
        let count = self.rows.len();
        // The empty composition counts, too.
        let unit = |i: usize, j: usize| if i == j { EntryShape::One } else { EntryShape::Zero };
        let join = |a: EntryShape, b: EntryShape| if a == b { a } else { EntryShape::Any };
        let mut known: Vec<Vec<EntryShape>> =
            (0..count).map(|i| (0..=count).map(|j| join(step[i][j], unit(i, j))).collect()).collect();
        loop {
            let after = after(&known, &known);
            let joined: Vec<Vec<EntryShape>> =
                (0..count).map(|i| (0..=count).map(|j| join(known[i][j], after[i][j])).collect()).collect();
            if joined == known {
                break;
            }
            known = joined;
        }
        for (i, row) in known.iter_mut().enumerate() {
            for (j, shape) in row.iter_mut().enumerate() {
                let varies =
                    *shape == EntryShape::Gated || *shape == EntryShape::Any && self.comes_and_goes(&step, i, j);
                *shape = if varies { EntryShape::Gated } else { *shape };
            }
        }
        known
    }

    fn step_shapes(&self) -> Vec<Vec<EntryShape>> {
        let shape = |entry: &MapEntry| match entry {
            MapEntry::Zero => EntryShape::Zero,
            MapEntry::One => EntryShape::One,
            MapEntry::Value(_) => EntryShape::Any,
            MapEntry::Gated(..) => EntryShape::Gated,
        };
        self.rows.iter().map(|row| row.entries().map(shape).collect()).collect()
    }

    /// Whether an entry is zero for infinitely many numbers of steps, but not for all. The first few numbers don't
    /// count: there a zero is treated as a value.
    fn comes_and_goes(&self, step: &[Vec<EntryShape>], i: usize, j: usize) -> bool {
        if !self.dtype.is_float() {
            return false;
        }
        let mut all = vec![step.to_vec()];
        let cycle = loop {
            let next = after(step, &all[all.len() - 1]);
            if let Some(first) = all.iter().position(|known| *known == next) {
                break first;
            }
            if all.len() == MOST_IN_CYCLE {
                break 0;
            }
            all.push(next);
        };
        let shapes = || all[cycle..].iter().map(|known| known[i][j]);
        shapes().any(|s| s == EntryShape::Gated)
            || shapes().any(|s| s == EntryShape::Zero) && shapes().any(|s| s != EntryShape::Zero)
    }

    /// The entries of `second` applied after `first`, by rows; a row's constant comes last.
    pub(in crate::te::auto) fn compose(&self, first: &[Vec<MapEntry>], second: &[Vec<MapEntry>]) -> Vec<Vec<MapEntry>> {
        let count = self.rows.len();
        let entry = |i: usize, j: usize| {
            let own = if j == count { second[i][count].clone() } else { MapEntry::Zero };
            let through = (0..count).map(|k| self.ring.multiply(second[i][k].clone(), first[k][j].clone()));
            through.fold(own, |sum, x| self.ring.add(x, sum))
        };
        (0..count).map(|i| (0..=count).map(|j| entry(i, j)).collect()).collect()
    }

    /// The new components, from a map's entries and the old components.
    pub(in crate::te::auto) fn apply(&self, map: &[Vec<MapEntry>], state: &[Expr]) -> Vec<Expr> {
        let count = self.rows.len();
        let component = |i: usize| {
            let terms = (0..count).map(|k| self.ring.multiply(map[i][k].clone(), MapEntry::Value(state[k].clone())));
            self.ring.value(terms.fold(map[i][count].clone(), |sum, x| self.ring.add(x, sum)), self.dtype)
        };
        (0..count).map(component).collect()
    }

    /// The entries of one step, by rows; a row's constant comes last.
    pub(in crate::te::auto) fn step(&self) -> Vec<Vec<MapEntry>> {
        self.rows.iter().map(|row| row.entries().cloned().collect()).collect()
    }

    /// The entries of the identity map.
    pub(in crate::te::auto) fn unit(&self) -> Vec<Vec<MapEntry>> {
        let count = self.rows.len();
        (0..count).map(|i| (0..=count).map(|j| if i == j { MapEntry::One } else { MapEntry::Zero }).collect()).collect()
    }

    /// The numbers that represent a map at run time, in order.
    pub(in crate::te::auto) fn map_numbers(&self) -> Vec<MapNumber> {
        let mut numbers = Vec::new();
        for (row, shapes) in self.shapes().into_iter().enumerate() {
            for (column, shape) in shapes.into_iter().enumerate() {
                if matches!(shape, EntryShape::Any | EntryShape::Gated) {
                    numbers.push(MapNumber { row, column, gate: false });
                }
                if shape == EntryShape::Gated {
                    numbers.push(MapNumber { row, column, gate: true });
                }
            }
        }
        numbers
    }

    /// The entries of a map, given a number for each of [`LinearMap::map_numbers`].
    pub(in crate::te::auto) fn entries(&self, numbers: &[Expr]) -> Vec<Vec<MapEntry>> {
        let mut numbers = numbers.iter();
        let mut next = || numbers.next().cloned().unwrap_or_else(|| Expr::constant(0.0, self.dtype));
        let mut entry = |shape: EntryShape| match shape {
            EntryShape::Zero => MapEntry::Zero,
            EntryShape::One => MapEntry::One,
            EntryShape::Any => MapEntry::Value(next()),
            EntryShape::Gated => {
                let value = next();
                MapEntry::Gated(value, next().not_equal(0))
            }
        };
        self.shapes().into_iter().map(|row| row.into_iter().map(&mut entry).collect()).collect()
    }

    /// The numbers that represent a map with these entries.
    pub(in crate::te::auto) fn numbers(&self, entries: &[Vec<MapEntry>]) -> Vec<Expr> {
        let value = |number: MapNumber| {
            let entry = entries[number.row][number.column].clone();
            if !number.gate {
                return self.ring.value(entry, self.dtype);
            }
            let (there, absent) = (Expr::constant(1.0, self.dtype), Expr::constant(0.0, self.dtype));
            match entry.gate() {
                None => there,
                Some(gate) if gate.as_int() == Some(0) => absent,
                Some(gate) => gate.select(there, absent),
            }
        };
        self.map_numbers().into_iter().map(value).collect()
    }
}

/// The longest cycle of zero patterns that is looked for. Only contrived updates have longer ones; they then have more
/// gates.
const MOST_IN_CYCLE: usize = 32;

/// The shapes of `second` applied after `first`.
fn after(second: &[Vec<EntryShape>], first: &[Vec<EntryShape>]) -> Vec<Vec<EntryShape>> {
    let count = second.len();
    let entry = |i: usize, j: usize| {
        let own = if j == count { second[i][count] } else { EntryShape::Zero };
        (0..count).map(|k| times(second[i][k], first[k][j])).fold(own, plus)
    };
    (0..count).map(|i| (0..=count).map(|j| entry(i, j)).collect()).collect()
}

fn times(a: EntryShape, b: EntryShape) -> EntryShape {
    match (a, b) {
        (EntryShape::Zero, _) | (_, EntryShape::Zero) => EntryShape::Zero,
        (EntryShape::One, x) | (x, EntryShape::One) => x,
        (EntryShape::Gated, _) | (_, EntryShape::Gated) => EntryShape::Gated,
        (EntryShape::Any, EntryShape::Any) => EntryShape::Any,
    }
}

fn plus(a: EntryShape, b: EntryShape) -> EntryShape {
    match (a, b) {
        (EntryShape::Zero, x) | (x, EntryShape::Zero) => x,
        (EntryShape::Gated, EntryShape::Gated) => EntryShape::Gated,
        _ => EntryShape::Any,
    }
}
