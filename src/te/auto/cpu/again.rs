//! What a reduction computes of every point and its outputs would compute again, such as the exponentials of a softmax, is
//! kept from the one to the other, for as many outputs as are done together.

use super::registers::Registers;
use crate::te::auto::cpu::program::{Class, Register};
use crate::te::auto::pattern::fused::{Pass, Reduction};
use crate::te::lang::expr::{Expr, Kind};
use crate::te::lang::var::Var;

/// Bytes of values that are kept at once: they stay in a near cache.
const KEPT: i64 = 128 << 10;

/// A value of a point that its outputs are computed from.
pub(super) struct Again {
    /// Which of the values that are reduced.
    pub(super) source: usize,
    /// What the outputs call it.
    pub(super) var: Var,
    /// The outputs of points, by their numbers, as computed from it.
    pub(super) values: Vec<(usize, Expr)>,
    /// What these still read.
    pub(super) reads: Vec<usize>,
}

impl Again {
    /// The first value that is worth it, if there is one.
    pub(super) fn of(reduction: &Reduction, pass: &Pass) -> Option<Self> {
        let list = &reduction.reads.list;
        // The same elements are called otherwise where outputs read them.
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
            costs && Class::of(x.dtype()) == Class::F32
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
        // What else they read is what they read before, or what the reduction does.
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

/// Where a value is kept: the register that has it where points are reduced, and the one that outputs are computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    pub(super) from: Register,
    pub(super) to: Register,
}

impl Keeping {
    /// Whether as many values of `rows` outputs of so many elements stay near.
    pub(super) const fn is_near(rows: i64, count: i64) -> bool {
        rows > 1 && rows.saturating_mul(count) * size_of::<f32>() as i64 <= KEPT
    }

    /// Keeps the elements from `first` on, `filled` of each of some rows of `lanes` lanes.
    pub(super) fn put(
        self,
        registers: &mut Registers,
        (rows, lanes): (usize, usize),
        count: usize,
        first: usize,
        filled: usize,
    ) {
        let Registers { f32s, kept, .. } = registers;
        kept.resize(kept.len().max(rows * count), 0.0);
        let from = f32s[self.from.number].chunks(lanes);
        for (from, kept) in from.zip(kept.chunks_mut(count)).take(rows) {
            kept[first..first + filled].copy_from_slice(&from[..filled]);
        }
    }

    /// Gives the first lanes the elements of a row from `first` on.
    pub(super) fn take(self, registers: &mut Registers, row: usize, count: usize, first: usize, lanes: usize) {
        let Registers { f32s, kept, .. } = registers;
        f32s[self.to.number][..lanes].copy_from_slice(&kept[row * count + first..][..lanes]);
    }
}
