//! Elementwise computations: with different indices and conditions.

use epilogue::ElementType;
use epilogue::te::{self, Expr, TeError};

use super::{Dice, Grid};
use crate::schedule::trial::Case;

pub(super) fn broadcasts(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m, l) = (dice.size("n", 0), dice.size("m", 0), dice.size("l", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m, &l]);
    let (bias, scale) = (dice.input("bias", element, [&m]), dice.input("scale", element, [&n, &l]));
    let shape = [n.text, m.text, l.text];
    let b = te::compute(shape.clone(), "B", |[i, j, k]| a.at([i, j, k]) * 2 + 1)?;
    let c = te::compute(shape.clone(), "C", |[i, j, k]| b.at([i, j, k]) + bias.at([j]))?;
    let d = te::compute(shape, "D", |[i, j, k]| c.at([i, j, k]) * scale.at([i, k]))?;
    let wanted = Grid::of([n.is, m.is, l.is], |[i, j, k]| {
        (a.grid.at([i, j, k]) * 2.0 + 1.0 + bias.grid.at([j])) * scale.grid.at([i, k])
    });
    Ok(dice.case(vec![b, c, d.clone()], vec![(d, wanted)]))
}

pub(super) fn diamond(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let shape = [n.text.clone(), m.text.clone()];
    let b = te::compute(shape.clone(), "B", |[i, j]| a.at([i, j]) * 3)?;
    let c = te::compute(shape.clone(), "C", |[i, j]| b.at([i, j]) + 1)?;
    // Reads the other one in reverse.
    let last = &m.text - 1;
    let d = te::compute(shape.clone(), "D", |[i, j]| b.at([i.into(), &last - j]) - 2)?;
    let e = te::compute(shape.clone(), "E", |[i, j]| c.at([i, j]) * d.at([i, j]) + b.at([i, j]))?;
    let b_wanted = |i, j| a.grid.at([i, j]) * 3.0;
    let wanted =
        Grid::of([n.is, m.is], |[i, j]| (b_wanted(i, j) + 1.0) * (b_wanted(i, m.is - 1 - j) - 2.0) + b_wanted(i, j));
    let mut outputs = vec![(e.clone(), wanted)];
    if dice.random.u32(..4) == 0 {
        outputs.push((c.clone(), Grid::of([n.is, m.is], |[i, j]| b_wanted(i, j) + 1.0)));
    }
    Ok(dice.case(vec![b, c, d, e], outputs))
}

pub(super) fn reshaped(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 1));
    let (part, by) = dice.number(1, 4);
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let flat = te::compute([&n.text * &m.text], "flat", |[x]| a.at([x.floor_div(&m.text), x.floor_mod(&m.text)]) * 2)?;
    let turned = te::compute([m.text.clone(), n.text.clone()], "turned", |[j, i]| flat.at([i * &m.text + j]) - 1)?;
    // Rows in parts; the last one may be shorter.
    let parts = (&n.text + (part - 1)).floor_div(part);
    let cut = te::compute([parts, m.text.clone(), part.into()], "cut", |[p, j, r]| {
        let row = p * part + r;
        row.less(&n.text).select(turned.at([j.into(), row.clone()]), -7)
    })?;
    let value = |i, j| a.grid.at([i, j]) * 2.0 - 1.0;
    let wanted = Grid::of([n.is.div_ceil(by), m.is, by], |[p, j, r]| {
        let row = p * by + r;
        if row < n.is { value(row, j) } else { -7.0 }
    });
    Ok(dice.case(vec![flat, turned, cut.clone()], vec![(cut, wanted)]))
}

pub(super) fn joined(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, p, m) = (dice.size("n", 1), dice.size("p", 1), dice.size("m", 1));
    let ((step, by), (pad, wide)) = (dice.number(1, 3), dice.number(0, 3));
    let element = dice.element();
    let (a, b) = (dice.input("A", element, [&n, &m]), dice.input("B", element, [&p, &m]));
    let rows = &n.text + &p.text;
    let both = te::compute([rows.clone(), m.text.clone()], "both", |[i, j]| {
        i.less(&n.text).select(a.at([i, j]), b.at([i - &n.text, j.into()]) * 2)
    })?;
    let padded = te::compute([rows.clone(), &m.text + 2 * pad], "padded", |[i, j]| {
        let inside = j.greater_equal(pad).and(j.less(&m.text + pad));
        inside.select(both.at([i.into(), j - pad]) + 1, 0)
    })?;
    let count = (rows - 1).floor_div(step) + 1;
    let taken =
        te::compute([count, &m.text + 2 * pad], "taken", |[i, j]| padded.at([i * step, j.into()]) + i.cast(element))?;
    let row = |i, j| if i < n.is { a.grid.at([i, j]) } else { b.grid.at([i - n.is, j]) * 2.0 };
    let wanted = Grid::of([(n.is + p.is - 1) / by + 1, m.is + 2 * wide], |[i, j]| {
        let value = if (wide..m.is + wide).contains(&j) { row(i * by, j - wide) + 1.0 } else { 0.0 };
        value + i as f64
    });
    Ok(dice.case(vec![both, padded, taken.clone()], vec![(taken, wanted)]))
}

pub(super) fn looked_up(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, v, m) = (dice.size("n", 0), dice.size("v", 1), dice.size("m", 0));
    let element = dice.element();
    let (table, rows) = (dice.input("table", element, [&v, &m]), v.is);
    let tokens = dice.input_of("tokens", ElementType::I32, [&n], |random| random.usize(..rows) as f64);
    let doubled = te::compute([v.text, m.text.clone()], "doubled", |[i, j]| table.at([i, j]) * 2 + 1)?;
    let found =
        te::compute([n.text.clone(), m.text.clone()], "found", |[i, j]| doubled.at([tokens.at([i]), j.into()]))?;
    let d = te::compute([n.text, m.text], "D", |[i, j]| found.at([i, j]) - 3)?;
    let wanted = Grid::of([n.is, m.is], |[i, j]| table.grid.at([tokens.grid.at([i]) as usize, j]) * 2.0 + 1.0 - 3.0);
    Ok(dice.case(vec![doubled, found, d.clone()], vec![(d, wanted)]))
}

pub(super) fn several(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 0));
    let element = dice.element();
    let (a, b) = (dice.input("A", element, [&n, &m]), dice.input("B", element, [&n, &m]));
    let shape = [n.text, m.text];
    let both = te::compute_all(shape.clone(), "both", |[i, j]| {
        vec![a.at([i, j]) + b.at([i, j]), a.at([i, j]) * b.at([i, j])]
    })?;
    let c = te::compute(shape.clone(), "C", |[i, j]| both[0].at([i, j]) * 2)?;
    let last = te::compute_all(shape, "last", |[i, j]| {
        vec![c.at([i, j]) - both[1].at([i, j]), (both[0].at([i, j]).cast(ElementType::I32) + j).cast(element)]
    })?;
    let (x, y) = (|i, j| a.grid.at([i, j]), |i, j| b.grid.at([i, j]));
    let wanted = [
        Grid::of([n.is, m.is], |[i, j]| (x(i, j) + y(i, j)) * 2.0 - x(i, j) * y(i, j)),
        Grid::of([n.is, m.is], |[i, j]| x(i, j) + y(i, j) + j as f64),
    ];
    let outputs = last.iter().cloned().zip(wanted).collect();
    Ok(dice.case([both, vec![c], last].concat(), outputs))
}

pub(super) fn masks(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 1));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let mask = dice.input_of("mask", ElementType::U8, [&n, &m], |random| f64::from(random.u8(..3)));
    let shape = [n.text.clone(), m.text.clone()];
    let keeps = te::compute(shape.clone(), "keeps", |[i, j]| mask.at([i, j]).greater(0).or(i.equal(j)))?;
    let last = &m.text - 1;
    let all = te::comm_reducer(|x, y| x.and(y), |_| Expr::truth(true), "all");
    let k = te::reduce_axis((0, m.text.clone()), "k");
    let full = te::compute([n.text], "full", |[i]| all.over(keeps.at([i, k]), [k]))?;
    let d = te::compute(shape, "D", |[i, j]| {
        // A value behind a condition is read only where the condition holds.
        let next = j.less(&last).and(keeps.at([i.into(), (j + 1).min(&last)]));
        let value = next.select(a.at([i.into(), (j + 1).min(&last)]), a.at([i, j]) * 2);
        (!keeps.at([i, j])).select(-9, value) + full.at([i]).cast(element)
    })?;
    let keep = |i: usize, j: usize| mask.grid.at([i, j]) > 0.0 || i == j;
    let wanted = Grid::of([n.is, m.is], |[i, j]| {
        let next = j + 1 < m.is && keep(i, j + 1);
        let value = if next { a.grid.at([i, j + 1]) } else { a.grid.at([i, j]) * 2.0 };
        (if keep(i, j) { value } else { -9.0 }) + f64::from(u8::from((0..m.is).all(|j| keep(i, j))))
    });
    Ok(dice.case(vec![keeps, full, d.clone()], vec![(d, wanted)]))
}

pub(super) fn enlarged(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, h, w) = (dice.size("n", 0), dice.size("h", 0), dice.size("w", 1));
    let (by, times) = dice.number(1, 3);
    let element = dice.element();
    let a = dice.input("A", element, [&n, &h, &w]);
    let large = [n.text, &h.text * by, &w.text * by];
    let b = te::compute([large[0].clone(), h.text, w.text.clone()], "B", |[c, y, x]| {
        a.at([c, y, x]) * 2 - x.cast(element)
    })?;
    let nearest = te::compute(large.clone(), "nearest", |[c, y, x]| {
        b.at([c.into(), y.floor_div(by), x.floor_div(by)]) + (y % by).cast(element)
    })?;
    // Permutes the columns in each row's blocks.
    let shuffled = te::compute(large, "shuffled", |[c, y, x]| {
        nearest.at([c.into(), y.into(), (x % &w.text) * by + x.floor_div(&w.text)])
    })?;
    let wanted = Grid::of([n.is, h.is * times, w.is * times], |[c, y, x]| {
        let from = (x % w.is) * times + x / w.is;
        a.grid.at([c, y / times, from / times]) * 2.0 - (from / times) as f64 + (y % times) as f64
    });
    Ok(dice.case(vec![b, nearest, shuffled.clone()], vec![(shuffled, wanted)]))
}
