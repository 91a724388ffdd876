//! Reductions: over rows, over everything, of several values at once, and of only a part.

use epilogue::ElementType;
use epilogue::te::{self, Expr, TeError};

use super::{Dice, Grid};
use crate::schedule::trial::Case;

pub(super) fn sums(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let (r, c) = (te::reduce_axis((0, n.text.clone()), "r"), te::reduce_axis((0, m.text.clone()), "c"));
    let k = te::reduce_axis((0, m.text.clone()), "k");
    let rows = te::compute([n.text.clone()], "rows", |[i]| te::sum(a.at([i, k]), [k]))?;
    let total = te::compute((), "total", |[]| te::sum(a.at([r, c]), [r, c]))?;
    let d = te::compute([n.text, m.text], "D", |[i, j]| a.at([i, j]) * 2 - rows.at([i]) + total.at(()))?;
    let row = |i: usize| (0..m.is).map(|j| a.grid.at([i, j])).sum::<f64>();
    let all: f64 = (0..n.is).map(row).sum();
    let mut outputs = vec![(d.clone(), Grid::of([n.is, m.is], |[i, j]| a.grid.at([i, j]) * 2.0 - row(i) + all))];
    if dice.random.u32(..4) == 0 {
        outputs.push((total.clone(), Grid::of([], |[]| all)));
    }
    Ok(dice.case(vec![rows, total, d], outputs))
}

pub(super) fn shifted(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 1));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let (k, c) = (te::reduce_axis((0, m.text.clone()), "k"), te::reduce_axis((0, m.text.clone()), "c"));
    let shape = [n.text.clone(), m.text];
    let largest = te::compute([n.text.clone()], "largest", |[i]| te::max(a.at([i, k]), [k]))?;
    let less = te::compute(shape.clone(), "less", |[i, j]| a.at([i, j]) - largest.at([i]))?;
    let total = te::compute([n.text], "total", |[i]| te::sum(less.at([i, c]), [c]))?;
    let d = te::compute(shape, "D", |[i, j]| less.at([i, j]) * 4 - total.at([i]))?;
    let most = |i: usize| (0..m.is).map(|j| a.grid.at([i, j])).fold(f64::NEG_INFINITY, f64::max);
    let below = |i: usize, j: usize| a.grid.at([i, j]) - most(i);
    let wanted = Grid::of([n.is, m.is], |[i, j]| below(i, j) * 4.0 - (0..m.is).map(|c| below(i, c)).sum::<f64>());
    Ok(dice.case(vec![largest, less, total, d.clone()], vec![(d, wanted)]))
}

/// Sums of values and of squares as one reduction of two values.
pub(super) fn moments(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let k = te::reduce_axis((0, m.text.clone()), "k");
    let both = te::tuple_reducer(
        |x, y| vec![&x[0] + &y[0], &x[1] + &y[1]],
        |types| types.iter().map(|dtype| Expr::constant(0.0, *dtype)).collect(),
        "both",
    );
    let x = te::compute([n.text.clone(), m.text.clone()], "X", |[i, j]| a.at([i, j]) + 1)?;
    let made = te::compute_all([n.text.clone()], "moments", |[i]| {
        both.over_all(&[x.at([i, k]), x.at([i, k]) * x.at([i, k])], [k])
    })?;
    let d = te::compute([n.text, m.text], "D", |[i, j]| x.at([i, j]) * made[0].at([i]) - made[1].at([i]))?;
    let value = |i: usize, j: usize| a.grid.at([i, j]) + 1.0;
    let sum = |i: usize| (0..m.is).map(|j| value(i, j)).sum::<f64>();
    let squares = |i: usize| (0..m.is).map(|j| value(i, j) * value(i, j)).sum::<f64>();
    let wanted = Grid::of([n.is, m.is], |[i, j]| value(i, j) * sum(i) - squares(i));
    Ok(dice.case([vec![x], made, vec![d.clone()]].concat(), vec![(d, wanted)]))
}

pub(super) fn place_of_largest(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 1));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let k = te::reduce_axis((0, m.text), "k");
    // The first of equal ones, for any order of comparisons.
    let argmax = te::tuple_reducer(
        |x, y| {
            let left = x[1].greater(&y[1]).or(x[1].equal(&y[1]).and(x[0].less_equal(&y[0])));
            vec![left.select(&x[0], &y[0]), left.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(f64::from(i32::MAX), types[0]), Expr::constant(types[1].least(), types[1])],
        "argmax",
    );
    let found = te::compute_all([n.text.clone()], "found", |[i]| argmax.over_all(&[k.into(), a.at([i, k])], [k]))?;
    let d = te::compute([n.text], "D", |[i]| a.at([i.into(), found[0].at([i])]) * 10 + found[1].at([i]))?;
    let largest = |i: usize| (0..m.is).map(|j| a.grid.at([i, j])).fold(f64::NEG_INFINITY, f64::max);
    let place = |i: usize| (0..m.is).position(|j| a.grid.at([i, j]) == largest(i)).map_or(0.0, |j| j as f64);
    let outputs = vec![
        (d.clone(), Grid::of([n.is], |[i]| largest(i) * 11.0)),
        (found[0].clone(), Grid::of([n.is], |[i]| place(i))),
        (found[1].clone(), Grid::of([n.is], |[i]| largest(i))),
    ];
    // Either all are outputs, or only the one that looks its element up at the index that was found.
    let kept = if dice.random.bool() { 3 } else { 1 };
    Ok(dice.case([found, vec![d]].concat(), outputs.into_iter().take(kept).collect()))
}

pub(super) fn triangle(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.size("m", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let (k, first) = (te::reduce_axis((0, m.text.clone()), "k"), dice.number(0, 2));
    let c = te::reduce_axis((first.0, m.text.max(first.0)), "c");
    let shape = [n.text, m.text];
    let b = te::compute(shape.clone(), "B", |[i, j]| a.at([i, j]) + i.cast(element))?;
    let prefix = te::compute(shape.clone(), "prefix", |[i, j]| {
        te::sum_reducer().over_where(b.at([i, k]), [k], k.less_equal(j))
    })?;
    let least = te::compute(shape.clone(), "least", |[i, j]| {
        te::min_reducer().over_from(prefix.at([i, c]) * 2, [c], b.at([i, j]))
    })?;
    let d = te::compute(shape, "D", |[i, j]| least.at([i, j]) + prefix.at([i, j]))?;
    let value = |i: usize, j: usize| a.grid.at([i, j]) + i as f64;
    let before = |i: usize, j: usize| (0..=j).map(|k| value(i, k)).sum::<f64>();
    let wanted = Grid::of([n.is, m.is], |[i, j]| {
        (first.1..m.is).map(|c| before(i, c) * 2.0).fold(value(i, j), f64::min) + before(i, j)
    });
    Ok(dice.case(vec![b, prefix, least, d.clone()], vec![(d, wanted)]))
}

pub(super) fn counts(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m, classes) = (dice.size("n", 0), dice.size("m", 0), dice.fixed(1, 6));
    let most = classes.is;
    let label = dice.input_of("label", ElementType::U8, [&n, &m], |random| random.usize(..most) as f64);
    let (r, c) = (te::reduce_axis((0, n.text.clone()), "r"), te::reduce_axis((0, m.text.clone()), "c"));
    let class = te::compute([n.text, m.text], "class", |[i, j]| label.at([i, j]).cast(ElementType::I32))?;
    let count = te::compute([classes.text.clone()], "count", |[b]| {
        te::sum(class.at([r, c]).equal(b).select(Expr::constant(1.0, ElementType::I64.into()), 0), [r, c])
    })?;
    let share = te::compute([classes.text.clone(), classes.text], "share", |[x, y]| count.at([x]) - count.at([y]))?;
    let counted = |b: usize| label.grid.0.values.iter().filter(|label| **label == b as f64).count() as f64;
    let wanted = Grid::of([classes.is, classes.is], |[x, y]| counted(x) - counted(y));
    Ok(dice.case(vec![class, count, share.clone()], vec![(share, wanted)]))
}

/// `y = a x + b` after each other, which is associative and keeps its order.
pub(super) fn composition(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), dice.fixed(0, 9));
    let element = dice.integer();
    let a = dice.input_of("A", element, [&n, &m], |random| f64::from(random.i32(-1..=2)));
    let b = dice.input("B", element, [&n, &m]);
    let k = te::reduce_axis((0, m.text), "k");
    let affine = te::tuple_reducer(
        |x, y| vec![&x[0] * &y[0], &x[1] * &y[0] + &y[1]],
        |types| vec![Expr::constant(1.0, types[0]), Expr::constant(0.0, types[1])],
        "affine",
    );
    let affine = affine.associative_only();
    let made = te::compute_all([n.text.clone()], "map", |[i]| affine.over_all(&[a.at([i, k]), b.at([i, k])], [k]))?;
    let d = te::compute([n.text, 3.into()], "D", |[i, x]| made[0].at([i]) * x.cast(element) + made[1].at([i]))?;
    let wanted =
        Grid::of([n.is, 3], |[i, x]| (0..m.is).fold(x as f64, |x, k| a.grid.at([i, k]) * x + b.grid.at([i, k])));
    Ok(dice.case([made, vec![d.clone()]].concat(), vec![(d, wanted)]))
}
