//! Keeps values of points that both a reduction and its outputs need, for the outputs that are computed together. The
//! exponentials of a softmax, for example, are not computed again.

use super::registers::Registers;
use crate::exhaustion::grow;
use crate::lane::{Class, Register};
use crate::te::auto::cpu::program::class_of;
use crate::te::auto::pattern::fused::{Pass, Reduction};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;

/// The most bytes of values that are kept at once; they stay in a near cache.
const KEPT: i64 = 128 << 10;

/// A value of each point that a reduction computes and that its outputs need again.
pub(super) struct ReusedValue {
    /// Its number among the values that are reduced.
    pub(super) source: usize,
    /// The variable that stands for it in the outputs.
    pub(super) var: Var,
    /// The outputs of points, by their numbers, in terms of it.
    pub(super) values: Vec<(usize, Expr)>,
    /// The reads that these outputs still need.
    pub(super) reads: Vec<usize>,
}

impl ReusedValue {
    /// The first value that is worth keeping, if there is one.
    pub(super) fn of(reduction: &Reduction, pass: &Pass) -> Option<Self> {
        let list = &reduction.reads.list;
        // Outputs use other variables for the same elements.
        let same = |var: Var| {
            let read = list[reduction.point_reads..].iter().find(|read| read.var == var && read.guard.is_none())?;
            let first = list[pass.reads.clone()]
                .iter()
                .find(|first| first.tensor == read.tensor && first.indices == read.indices && first.guard.is_none())?;
            Some(Expr::from(first.var))
        };
        let of_points = || reduction.outputs.iter().enumerate().filter(|(_, output)| output.of_point);
        let outputs: Vec<(usize, Expr)> =
            of_points().map(|(place, output)| (place, output.value.substitute(&same))).collect();
        let costs = |(_, x): &(usize, &Expr)| {
            let mut costs = false;
            x.visit(&mut |part| costs |= matches!(part.kind(), Kind::Apply(..) | Kind::Call(..)));
            costs && class_of(x.dtype()) == Class::F32
        };
        let (source, value) = pass.source.iter().enumerate().find(costs)?;
        let (var, mut found) = (Var::local("again", value.dtype()), false);
        let mut values = Vec::with_capacity(outputs.len());
        for (place, output) in outputs {
            let output = output.replaced(&mut |x| {
                let is = x == value;
                found |= is;
                is.then(|| Expr::from(var))
            });
            values.push((place, output));
        }
        if !found {
            return None;
        }
        // Reads of the reduction are replaced by the outputs' own reads of the same elements.
        let mut reads = Vec::new();
        for (_, output) in &mut values {
            let back = |var: Var| {
                let first = list[pass.reads.clone()].iter().find(|first| first.var == var)?;
                let mut own = list[reduction.point_reads..].iter();
                let own = own.find(|read| read.tensor == first.tensor && read.indices == first.indices)?;
                Some(Expr::from(own.var))
            };
            *output = output.substitute(&back);
            output.visit(&mut |x| {
                if let Kind::Var(var) = x.kind()
                    && let Some(place) = (reduction.point_reads..list.len()).find(|place| list[*place].var == *var)
                    && !reads.contains(&place)
                {
                    reads.push(place);
                }
            });
        }
        reads.sort_unstable();
        let affine = reads.iter().all(|place| list[*place].affine.is_some() && list[*place].guard.is_none());
        affine.then_some(Self { source, var, values, reads })
    }
}

/// The registers of a kept value: `from` has it during the reduction, and outputs are computed from `to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReuseRegisters {
    pub(super) from: Register,
    pub(super) to: Register,
}

impl ReuseRegisters {
    /// Whether the values of `rows` outputs of `count` elements each stay in a near cache.
    pub(super) const fn is_near(rows: i64, count: i64) -> bool {
        rows > 1 && rows.saturating_mul(count) * size_of::<f32>() as i64 <= KEPT
    }

    /// Keeps elements from `first` on: `filled` elements for each of some rows of `lanes` lanes.
    pub(super) fn put(
        self,
        registers: &mut Registers,
        (rows, lanes): (usize, usize),
        count: usize,
        first: usize,
        filled: usize,
    ) {
        let Registers { f32s, kept, .. } = registers;
        grow(kept, rows * count, 0.0);
        let from = f32s[self.from.number].chunks(lanes);
        for (from, kept) in from.zip(kept.chunks_mut(count)).take(rows) {
            kept[first..first + filled].copy_from_slice(&from[..filled]);
        }
    }

    /// Loads the elements of a row from `first` on into the first lanes.
    pub(super) fn take(self, registers: &mut Registers, row: usize, count: usize, first: usize, lanes: usize) {
        let Registers { f32s, kept, .. } = registers;
        f32s[self.to.number][..lanes].copy_from_slice(&kept[row * count + first..][..lanes]);
    }
}
