//! Recurrences along the first dimension.

use epilogue::te::{self, TeError};

use super::{Dice, Grid};
use crate::schedule::trial::Case;

pub(super) fn running_sums(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 1), dice.size("m", 0));
    let element = dice.element();
    let a = dice.input("A", element, [&n, &m]);
    let shape = [n.text, m.text.clone()];
    let b = te::compute(shape.clone(), "B", |[t, i]| a.at([t, i]) * 2)?;
    let state = te::placeholder_of(element, shape.clone(), "state");
    let init = te::compute([1.into(), m.text.clone()], "init", |[t, i]| b.at([t, i]))?;
    let update = te::compute(shape.clone(), "update", |[t, i]| state.at([t - 1, i.into()]) + b.at([t, i]))?;
    let sums = te::scan(&init, &update, &state, std::slice::from_ref(&b))?;
    let last = &m.text - 1;
    let d = te::compute(shape, "D", |[t, i]| sums.at([t, i]) - a.at([t.into(), &last - i]))?;
    let sum = |t: usize, i: usize| (0..=t).map(|t| a.grid.at([t, i]) * 2.0).sum::<f64>();
    let wanted = Grid::of([n.is, m.is], |[t, i]| sum(t, i) - a.grid.at([t, m.is - 1 - i]));
    let mut outputs = vec![(d.clone(), wanted)];
    if dice.random.bool() {
        outputs.push((sums.clone(), Grid::of([n.is, m.is], |[t, i]| sum(t, i))));
    }
    Ok(dice.case(vec![b, init, update, sums, d], outputs))
}

/// A cell with several stages in its step. Its gate is a product with the whole previous state.
pub(super) fn cell(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (t, b, h) = (dice.size("t", 1), dice.fixed(1, 4), dice.fixed(1, 6));
    let element = dice.integer();
    let (x, w) = (dice.input("X", element, [&t, &b, &h]), dice.input("W", element, [&h, &h]));
    let shape = [t.text, b.text.clone(), h.text.clone()];
    let state = te::placeholder_of(element, shape.clone(), "state");
    let init = te::compute([1.into(), b.text, h.text.clone()], "init", |[_, b, i]| x.at((0, b, i)))?;
    let k = te::reduce_axis((0, h.text), "k");
    let product = te::compute(shape.clone(), "product", |[t, b, i]| {
        te::sum(state.at([t - 1, b.into(), k.into()]) * w.at([i, k]), [k])
    })?;
    let gate = te::compute(shape.clone(), "gate", |[t, b, i]| product.at([t, b, i]) + x.at([t, b, i]) * 2)?;
    let update = te::compute(shape.clone(), "update", |[t, b, i]| {
        gate.at([t, b, i]) % 13 - state.at([t - 1, b.into(), i.into()])
    })?;
    let inputs = [x.tensor.clone(), w.tensor.clone()];
    let scan = te::scan(&init, &update, &state, &inputs)?;
    let d = te::compute(shape, "D", |[t, b, i]| scan.at([t, b, i]) * 3)?;
    let mut states = Grid::of([t.is, b.is, h.is], |at| x.grid.at(at));
    for t in 1..t.is {
        for (b, i) in (0..b.is).flat_map(|b| (0..h.is).map(move |i| (b, i))) {
            let sum: f64 = (0..h.is).map(|k| states.at([t - 1, b, k]) * w.grid.at([i, k])).sum();
            let gate = sum + x.grid.at([t, b, i]) * 2.0;
            states.set([t, b, i], gate.rem_euclid(13.0) - states.at([t - 1, b, i]));
        }
    }
    let wanted = Grid::of([t.is, b.is, h.is], |at| states.at(at) * 3.0);
    Ok(dice.case(vec![init, product, gate, update, scan, d.clone()], vec![(d, wanted)]))
}

/// The first two steps are given, and one state reads the state two steps before.
pub(super) fn two_states(dice: &mut Dice<'_>) -> Result<Case, TeError> {
    let (n, m) = (dice.size("n", 2), dice.size("m", 1));
    let element = dice.integer();
    let (a, b) = (dice.input("A", element, [&n, &m]), dice.input("B", element, [&n, &m]));
    let shape = [n.text.clone(), m.text.clone()];
    let states = ["fast", "slow"].map(|name| te::placeholder_of(element, shape.clone(), name));
    let first =
        |name: &str, from: &super::Input| te::compute([2.into(), m.text.clone()], name, |[t, i]| from.at([t, i]));
    let init = [first("init.fast", &a)?, first("init.slow", &b)?];
    let last = &m.text - 1;
    let mixed = te::compute(shape.clone(), "mixed", |[t, i]| {
        states[0].at([t - 1, &last - i]) + states[1].at([t - 2, i.into()])
    })?;
    let update = [
        te::compute(shape.clone(), "update.fast", |[t, i]| (mixed.at([t, i]) + a.at([t, i])) % 11)?,
        te::compute(shape.clone(), "update.slow", |[t, i]| {
            states[1].at([t - 1, i.into()]).max(mixed.at([t, i])) - b.at([t, i])
        })?,
    ];
    let scan = te::scan_all(&init, &update, &states, &[a.tensor.clone(), b.tensor.clone()])?;
    // Reads from the end.
    let end = &n.text - 1;
    let d = te::compute(shape, "D", |[t, i]| scan[0].at([&end - t, i.into()]) - scan[1].at([t, i]))?;
    let (mut fast, mut slow) = (a.grid.clone(), b.grid.clone());
    for t in 2..n.is {
        for i in 0..m.is {
            let mixed = fast.at([t - 1, m.is - 1 - i]) + slow.at([t - 2, i]);
            fast.set([t, i], (mixed + a.grid.at([t, i])).rem_euclid(11.0));
            slow.set([t, i], slow.at([t - 1, i]).max(mixed) - b.grid.at([t, i]));
        }
    }
    let wanted = Grid::of([n.is, m.is], |[t, i]| fast.at([n.is - 1 - t, i]) - slow.at([t, i]));
    let outputs = match dice.random.u32(..3) {
        0 => scan.iter().cloned().zip([fast, slow]).collect(),
        1 => vec![(d.clone(), wanted), (scan[1].clone(), slow)],
        _ => vec![(d.clone(), wanted)],
    };
    let unread = outputs.iter().all(|(tensor, _)| *tensor != d);
    let made = if unread { Vec::new() } else { vec![d] };
    Ok(dice.case([init.to_vec(), vec![mixed], update.to_vec(), scan, made].concat(), outputs))
}
