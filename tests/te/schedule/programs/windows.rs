//! Windows over images: convolutions, pools, stencils.

use epilogue::te::{self, Expr, TeError};

use super::{Dice, Grid};
use crate::schedule::trial::Case;

fn signed(value: usize) -> i64 {
    i64::try_from(value).expect("a small number")
}

pub(super) fn convolution(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, c, o) = (dice.fixed(0, 3), dice.fixed(1, 4), dice.fixed(1, 5));
    let (h, w) = (dice.size("h", 3), dice.size("w", 3));
    let ((f, kernel), (s, stride), (p, pad)) = (dice.number(1, 3), dice.number(1, 3), dice.number(0, 2));
    let element = dice.element();
    let side = super::Size { text: f.into(), is: kernel };
    let x = dice.input("X", element, [&n, &c, &h, &w]);
    let filter = dice.input("F", element, [&o, &c, &side, &side]);
    let padded =
        te::compute([n.text.clone(), c.text.clone(), &h.text + 2 * p, &w.text + 2 * p], "pad", |[b, c, y, x_]| {
            let rows = y.greater_equal(p).and(y.less(&h.text + p));
            let inside = rows.and(x_.greater_equal(p)).and(x_.less(&w.text + p));
            inside.select(x.at([b.into(), c.into(), y - p, x_ - p]), 0)
        })?;
    let (rc, ry, rx) =
        (te::reduce_axis((0, c.text), "rc"), te::reduce_axis((0, f), "ry"), te::reduce_axis((0, f), "rx"));
    let out = |size: &super::Size| (&size.text + (2 * p - f)).floor_div(s) + 1;
    let shape = [n.text, o.text, out(&h), out(&w)];
    let conv = te::compute(shape.clone(), "conv", |[b, o, y, x]| {
        te::sum(padded.at([b.into(), rc.into(), y * s + ry, x * s + rx]) * filter.at([o, rc, ry, rx]), [rc, ry, rx])
    })?;
    let relu = te::compute(shape, "relu", |[b, o, y, x]| conv.at([b, o, y, x]).max(0))?;
    let out = |size: usize| (size + 2 * pad - kernel) / stride + 1;
    let wanted = Grid::of([n.is, o.is, out(h.is), out(w.is)], |[b, o, y, x_]| {
        let mut sum = 0.0;
        for (c, ry, rx) in grid([c.is, kernel, kernel]) {
            let at = [b, c, y * stride + ry, x_ * stride + rx].map(signed);
            let from = [at[0], at[1], at[2] - signed(pad), at[3] - signed(pad)];
            sum += x.grid.or_zero(from) * filter.grid.at([o, c, ry, rx]);
        }
        sum.max(0.0)
    });
    Ok(dice.case(vec![padded, conv, relu.clone()], vec![(relu, wanted)]))
}

/// All places of a small grid.
fn grid([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

pub(super) fn depthwise(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (c, h, w) = (dice.fixed(1, 5), dice.size("h", 5), dice.size("w", 5));
    let ((d, dilation), (times, multiplier)) = (dice.number(1, 2), dice.number(1, 2));
    let element = dice.element();
    let x = dice.input("X", element, [&c, &h, &w]);
    let (three, m) = (super::Size { text: 3.into(), is: 3 }, super::Size { text: times.into(), is: multiplier });
    let filter = dice.input("F", element, [&c, &m, &three, &three]);
    let (ry, rx) = (te::reduce_axis((0, 3), "ry"), te::reduce_axis((0, 3), "rx"));
    let shape = [&c.text * times, &h.text - 2 * d, &w.text - 2 * d];
    let conv = te::compute(shape.clone(), "conv", |[c, y, x_]| {
        let (channel, part) = (c.floor_div(times), c % times);
        let weight = filter.at([channel.clone(), part, ry.into(), rx.into()]);
        te::sum(x.at([channel, y + ry * d, x_ + rx * d]) * weight, [ry, rx])
    })?;
    let scaled = te::compute(shape, "scaled", |[c, y, x]| conv.at([c, y, x]) * 2 + c.cast(element))?;
    let wanted = Grid::of([c.is * multiplier, h.is - 2 * dilation, w.is - 2 * dilation], |[c, y, x_]| {
        let mut sum = 0.0;
        for (_, ry, rx) in grid([1, 3, 3]) {
            let at = [c / multiplier, y + ry * dilation, x_ + rx * dilation];
            sum += x.grid.at(at) * filter.grid.at([at[0], c % multiplier, ry, rx]);
        }
        sum * 2.0 + c as f64
    });
    Ok(dice.case(vec![conv, scaled.clone()], vec![(scaled, wanted)]))
}

pub(super) fn pools(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (c, h, w) = (dice.size("c", 0), dice.size("h", 3), dice.size("w", 3));
    let ((f, window), (s, stride)) = (dice.number(1, 3), dice.number(1, 3));
    let element = dice.element();
    let a = dice.input("A", element, [&c, &h, &w]);
    let axes = [te::reduce_axis((0, f), "wy"), te::reduce_axis((-1, f - 1), "wx")];
    let b = te::compute([c.text.clone(), h.text.clone(), w.text.clone()], "B", |[c, y, x]| {
        a.at([c, y, x]) - c.cast(element)
    })?;
    let rows = (&h.text - f).floor_div(s) + 1;
    let best = te::compute([c.text.clone(), rows.clone(), w.text.clone()], "best", |[c, y, x]| {
        let column = x + axes[1];
        let inside = column.greater_equal(0).and(column.less(&w.text));
        te::max_reducer().over_where(b.at([c.into(), y * s + axes[0], column]), axes, inside)
    })?;
    let (ry, rx) = (te::reduce_axis((0, rows.clone()), "ry"), te::reduce_axis((0, w.text.clone()), "rx"));
    let total = te::compute([c.text.clone()], "total", |[c]| te::sum(best.at([c, ry, rx]).max(-50), [ry, rx]))?;
    let d = te::compute([c.text, rows, w.text], "D", |[c, y, x]| best.at([c, y, x]).max(-50) * 3 - total.at([c]))?;
    let value = |c: usize, y: usize, x: usize| {
        let columns = (0..window).filter_map(|dx| (x + dx).checked_sub(1)).filter(|x| *x < w.is);
        let all = columns.flat_map(|x| (0..window).map(move |dy| (y * stride + dy, x)));
        all.map(|(y, x)| a.grid.at([c, y, x]) - c as f64).fold(-50.0, f64::max)
    };
    let count = (h.is - window) / stride + 1;
    let sum = |c: usize| grid([1, count, w.is]).map(|(_, y, x)| value(c, y, x)).sum::<f64>();
    let wanted = Grid::of([c.is, count, w.is], |[c, y, x]| value(c, y, x) * 3.0 - sum(c));
    Ok(dice.case(vec![b, best, total, d.clone()], vec![(d, wanted)]))
}

pub(super) fn stencils(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 6), dice.size("m", 2));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let rows = |less: i32| [&n.text - less, m.text.clone()];
    let b = te::compute(rows(2), "B", |[i, j]| a.at([i, j]) + a.at([i + 1, j.into()]) * 2 - a.at([i + 2, j.into()]))?;
    let last = &m.text - 1;
    let c = te::compute(rows(3), "C", |[i, j]| b.at([i, j]) - b.at([i + 1, (j + 1).min(&last)]))?;
    let r = te::reduce_axis((0, 3), "r");
    let d = te::compute(rows(5), "D", |[i, j]| te::sum(c.at([i + r, j.into()]), [r]))?;
    let e = te::compute(rows(5), "E", |[i, j]| d.at([i, j]) + b.at([i + 2, (j - 1).max(0)]))?;
    let b_is = |i: usize, j: usize| a.grid.at([i, j]) + a.grid.at([i + 1, j]) * 2.0 - a.grid.at([i + 2, j]);
    let c_is = |i: usize, j: usize| b_is(i, j) - b_is(i + 1, (j + 1).min(m.is - 1));
    let wanted = Grid::of([n.is - 5, m.is], |[i, j]| {
        c_is(i, j) + c_is(i + 1, j) + c_is(i + 2, j) + b_is(i + 2, j.saturating_sub(1))
    });
    Ok(dice.case(vec![b, c, d, e.clone()], vec![(e, wanted)]))
}

/// Elements with zeros between them, filtered.
pub(super) fn transposed(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, c, f) = (dice.size("n", 1), dice.fixed(1, 3), dice.fixed(1, 4));
    let (s, step) = dice.number(1, 3);
    let element = dice.element();
    let (x, w) = (dice.input("X", element, [&c, &n]), dice.input("W", element, [&c, &f]));
    let (edge, taps) = (&f.text - 1, f.is);
    let apart = (&n.text - 1) * s + 1;
    let spread = te::compute([c.text.clone(), &apart + &edge * 2], "spread", |[c, i]| {
        let at = i - &edge;
        let there = at.greater_equal(0).and(at.less(&apart)).and(at.floor_mod(s).equal(0));
        there.select(x.at([c.into(), at.floor_div(s)]), 0)
    })?;
    let (rc, k) = (te::reduce_axis((0, c.text), "rc"), te::reduce_axis((0, f.text.clone()), "k"));
    let out = te::compute([&apart + &edge], "out", |[i]| {
        te::sum(spread.at([rc.into(), i + k]) * w.at([rc.into(), &f.text - 1 - k]), [rc, k])
    })?;
    let mut wanted = Grid::of([(n.is - 1) * step + taps], |[_]| 0.0);
    for (c, i, k) in grid([c.is, n.is, taps]) {
        let at = [i * step + k];
        let sum = wanted.at(at) + x.grid.at([c, i]) * w.grid.at([c, k]);
        wanted.set(at, sum);
    }
    let d = te::compute([apart + edge], "D", |[i]| out.at([i]) - Expr::from(i).cast(element))?;
    let wanted = Grid::of([(n.is - 1) * step + taps], |[i]| wanted.at([i]) - i as f64);
    Ok(dice.case(vec![spread, out, d.clone()], vec![(d, wanted)]))
}
