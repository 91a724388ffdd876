//! Products of matrices, with operations on their operands and results.

use epilogue::te::{self, Expr, IntrinBody, RunError, Stmt, TeError};

use super::{Dice, Grid, Size};
use crate::schedule::trial::Case;

fn sum(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    (0..count).map(term).sum()
}

pub(super) fn dense(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m, l) = (dice.size("n", 0), dice.size("m", 0), dice.size("l", 0));
    let element = dice.element();
    let [turn_a, turn_b] = [dice.random.bool(), dice.random.bool()];
    let a = dice.input("A", element, if turn_a { [&l, &n] } else { [&n, &l] });
    let b = dice.input("B", element, if turn_b { [&m, &l] } else { [&l, &m] });
    let bias = dice.input("bias", element, [&m]);
    let k = te::reduce_axis((0, l.text), "k");
    let c = te::compute([n.text.clone(), m.text.clone()], "C", |[i, j]| {
        te::sum(a.at(if turn_a { [k, i] } else { [i, k] }) * b.at(if turn_b { [j, k] } else { [k, j] }), [k])
    })?;
    let d = te::compute([n.text, m.text], "D", |[i, j]| (c.at([i, j]) + bias.at([j])).max(0))?;
    let product = |i: usize, j: usize| {
        sum(l.is, |k| a.grid.at(if turn_a { [k, i] } else { [i, k] }) * b.grid.at(if turn_b { [j, k] } else { [k, j] }))
    };
    let wanted = Grid::of([n.is, m.is], |[i, j]| (product(i, j) + bias.grid.at([j])).max(0.0));
    Ok(dice.case(vec![c, d.clone()], vec![(d, wanted)]))
}

pub(super) fn batched(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (b, n, l) = (dice.fixed(0, 4), dice.size("n", 0), dice.size("l", 0));
    let m = dice.fixed(1, 9);
    let element = dice.element();
    let x = dice.input("X", element, [&b, &n, &l]);
    let w = dice.input("W", element, [&l, &m]);
    let k = te::reduce_axis((0, l.text.clone()), "k");
    // A factor is computed into one of the operands, as a scheduler would inline it.
    let scaled = te::compute([b.text.clone(), n.text.clone(), l.text], "scaled", |[b, i, k]| {
        x.at([b, i, k]) * (b + 1).cast(element)
    })?;
    let c = te::compute([b.text, n.text, m.text], "C", |[b, i, j]| te::sum(scaled.at([b, i, k]) * w.at([k, j]), [k]))?;
    let wanted = Grid::of([b.is, n.is, m.is], |[b, i, j]| {
        sum(l.is, |k| x.grid.at([b, i, k]) * (b + 1) as f64 * w.grid.at([k, j]))
    });
    Ok(dice.case(vec![scaled, c.clone()], vec![(c, wanted)]))
}

pub(super) fn chained(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, p, l) = (dice.size("n", 0), dice.size("p", 0), dice.fixed(1, 8));
    let element = dice.element();
    let (q, k) = (dice.input("Q", element, [&n, &l]), dice.input("K", element, [&p, &l]));
    let v = dice.input("V", element, [&p, &l]);
    let (d, t) = (te::reduce_axis((0, l.text.clone()), "d"), te::reduce_axis((0, p.text.clone()), "t"));
    let scores =
        te::compute([n.text.clone(), p.text.clone()], "scores", |[i, j]| te::sum(q.at([i, d]) * k.at([j, d]), [d]))?;
    let masked =
        te::compute([n.text.clone(), p.text], "masked", |[i, j]| j.less_equal(i).select(scores.at([i, j]), 0))?;
    let out = te::compute([n.text, l.text], "out", |[i, c]| te::sum(masked.at([i, t]) * v.at([t, c]), [t]))?;
    let score = Grid::of(
        [n.is, p.is],
        |[i, j]| {
            if j <= i { sum(l.is, |d| q.grid.at([i, d]) * k.grid.at([j, d])) } else { 0.0 }
        },
    );
    let wanted = Grid::of([n.is, l.is], |[i, c]| sum(p.is, |t| score.at([i, t]) * v.grid.at([t, c])));
    Ok(dice.case(vec![scores, masked, out.clone()], vec![(out, wanted)]))
}

/// Extents that are mostly multiples of a random size.
fn divisible(dice: &mut Dice<'_>) -> Size {
    let is = [1, 2, 3, 4, 6, 8, 12, 16][dice.random.usize(..8)];
    Size { text: is.into(), is }
}

pub(super) fn tensorized(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m, l) = (dice.size("n", 0), divisible(dice), divisible(dice));
    let element = dice.element();
    let (a, b) = (dice.input("A", element, [&n, &l]), dice.input("B", element, [&m, &l]));
    let k = te::reduce_axis((0, l.text.clone()), "k");
    let c = te::compute([n.text, m.text], "C", |[i, j]| te::sum(a.at([i, k]) * b.at([j, k]), [k]))?;
    let wanted = Grid::of([n.is, m.is], |[i, j]| sum(l.is, |k| a.grid.at([i, k]) * b.grid.at([j, k])));
    let resets = dice.random.bool();
    // Columns of the product, and the number of terms of the sum.
    let intrinsic = move |extents: &[i32]| {
        let &[columns, terms] = extents else { return Err(RunError::IntegerRange.into()) };
        let (a, b) = (te::placeholder_of(element, [terms], "a"), te::placeholder_of(element, [columns, terms], "b"));
        let k = te::reduce_axis((0, terms), "k");
        let c = te::compute([columns], "gemv", |[i]| te::sum(a.at([k]) * b.at([i, k]), [k]))?;
        te::decl_tensor_intrin(&c, &[], |ins, outs| {
            let out = &outs[0];
            let zero = || Stmt::for_range("i", columns, |i| out.store([i], Expr::constant(0.0, element.into())));
            let add = Stmt::for_range("i", columns, |i| {
                Stmt::for_range("k", terms, |k| out.store([i], out.load([i]) + ins[0].load([k]) * ins[1].load([i, k])))
            });
            let whole = Stmt::in_order([zero(), add.clone()]);
            Ok(IntrinBody { body: Some(whole), reset: resets.then(zero), update: Some(add) })
        })
    };
    Ok(dice.case_with(vec![c.clone()], vec![(c, wanted)], Box::new(intrinsic)))
}

pub(super) fn elementwise(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 0), divisible(dice));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let shape = [n.text, m.text];
    let b = te::compute(shape.clone(), "B", |[i, j]| a.at([i, j]) - 1)?;
    let c = te::compute(shape, "C", |[i, j]| b.at([i, j]) * 3)?;
    let wanted = Grid::of([n.is, m.is], |[i, j]| (a.grid.at([i, j]) - 1.0) * 3.0);
    let intrinsic = move |extents: &[i32]| {
        let &[_, columns] = extents else { return Err(RunError::IntegerRange.into()) };
        let x = te::placeholder_of(element, [columns], "x");
        let y = te::compute([columns], "thrice", |[i]| x.at([i]) * 3)?;
        te::decl_tensor_intrin(&y, &[], |ins, outs| {
            let body = Stmt::for_range("i", columns, |i| outs[0].store([i], ins[0].load([i]) * 3));
            Ok(IntrinBody { body: Some(body), ..IntrinBody::default() })
        })
    };
    Ok(dice.case_with(vec![b, c.clone()], vec![(c, wanted)], Box::new(intrinsic)))
}
