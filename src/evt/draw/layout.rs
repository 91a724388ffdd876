//! A layered layout (Sugiyama, Tagawa and Toda 1981): operands above users, long arrows bent around boxes.

use super::{Arrow, Graph};

/// Space between neighbours, in the drawing's units (CSS pixels).
const GAP: f64 = 22.0;
/// Width kept free for an arrow that passes through a layer.
const LANE: f64 = 14.0;
/// Sweeps of ordering and of placing. In trees of the size that people write, more sweeps change nothing visible.
const SWEEPS: usize = 12;

/// A box, or the bend of an arrow that crosses a layer.
struct Slot {
    layer: usize,
    width: f64,
    /// Centre.
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// The positions of all boxes and arrows.
pub(super) struct DrawnLayout {
    /// The layer of every box, from the top.
    pub(super) layers: Vec<usize>,
    /// The centre of every box.
    pub(super) centres: Vec<f64>,
    /// The centres of the bends of every arrow, one in each layer that it crosses.
    pub(super) bends: Vec<Vec<f64>>,
    /// Total width.
    pub(super) width: f64,
    /// Number of layers.
    pub(super) height: usize,
}

impl DrawnLayout {
    pub(super) fn of(graph: &Graph, widths: &[f64]) -> Self {
        let layers = layers(graph);
        let height = layers.iter().max().map_or(0, |last| last + 1);
        let mut slots: Vec<Slot> = layers
            .iter()
            .zip(widths)
            .map(|(&layer, &width)| Slot { layer, width, x: 0.0, above: Vec::new(), below: Vec::new() })
            .collect();
        let bends: Vec<Vec<usize>> = graph.arrows.iter().map(|arrow| bend(arrow, &mut slots)).collect();
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); height];
        for (i, slot) in slots.iter().enumerate() {
            rows[slot.layer].push(i);
        }
        order(&mut rows, &slots);
        place(&rows, &mut slots);
        let left = slots.iter().map(|s| s.x - s.width / 2.0).fold(f64::INFINITY, f64::min);
        let right = slots.iter().map(|s| s.x + s.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
        let left = if left.is_finite() { left } else { 0.0 };
        Self {
            centres: slots[..layers.len()].iter().map(|s| s.x - left).collect(),
            bends: bends.iter().map(|b| b.iter().map(|&s| slots[s].x - left).collect()).collect(),
            layers,
            width: (right - left).max(0.0),
            height,
        }
    }
}

/// Each operation is below its operands. A box without operands is directly above its highest user.
fn layers(graph: &Graph) -> Vec<usize> {
    let mut layers = vec![0usize; graph.boxes.len()];
    let mut has_operands = vec![false; graph.boxes.len()];
    // Operands come before users in the list of boxes, so one pass over the users is enough.
    let mut arrows: Vec<&Arrow> = graph.arrows.iter().collect();
    arrows.sort_by_key(|a| (a.to, a.from));
    for arrow in &arrows {
        layers[arrow.to] = layers[arrow.to].max(layers[arrow.from] + 1);
        has_operands[arrow.to] = true;
    }
    for i in (0..graph.boxes.len()).filter(|&i| !has_operands[i]) {
        let users = arrows.iter().filter(|a| a.from == i).map(|a| layers[a.to]);
        layers[i] = users.min().map_or(0, |user| user.saturating_sub(1));
    }
    layers
}

/// Adds a bend in every layer between an arrow's ends, and links the chain.
fn bend(arrow: &Arrow, slots: &mut Vec<Slot>) -> Vec<usize> {
    let mut chain = vec![arrow.from];
    for layer in slots[arrow.from].layer + 1..slots[arrow.to].layer {
        slots.push(Slot { layer, width: LANE, x: 0.0, above: Vec::new(), below: Vec::new() });
        chain.push(slots.len() - 1);
    }
    chain.push(arrow.to);
    for pair in chain.windows(2) {
        slots[pair[0]].below.push(pair[1]);
        slots[pair[1]].above.push(pair[0]);
    }
    chain[1..chain.len() - 1].to_vec()
}

/// Orders each layer by the mean place of its neighbours in the layer before, down and up in turn.
fn order(rows: &mut [Vec<usize>], slots: &[Slot]) {
    let mut place: Vec<f64> = vec![0.0; slots.len()];
    let number = |row: &[usize], place: &mut [f64]| {
        #[expect(clippy::cast_precision_loss)]
        row.iter().enumerate().for_each(|(i, &slot)| place[slot] = (i as f64 + 0.5) / row.len() as f64);
    };
    rows.iter().for_each(|row| number(row, &mut place));
    for sweep in 0..SWEEPS {
        let downward = sweep % 2 == 0;
        for step in 0..rows.len() {
            let index = if downward { step } else { rows.len() - 1 - step };
            let row = &mut rows[index];
            let key = |slot: usize| {
                let near = if downward { &slots[slot].above } else { &slots[slot].below };
                mean(near.iter().map(|&n| place[n])).unwrap_or(place[slot])
            };
            row.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
            number(row, &mut place);
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Moves boxes towards their neighbours without changing the order or overlapping.
fn place(rows: &[Vec<usize>], slots: &mut [Slot]) {
    for row in rows {
        let mut x = 0.0;
        for &slot in row {
            slots[slot].x = x + slots[slot].width / 2.0;
            x += slots[slot].width + GAP;
        }
        let middle = (x - GAP) / 2.0;
        row.iter().for_each(|&slot| slots[slot].x -= middle);
    }
    for sweep in 0..2 * SWEEPS {
        let indices: Vec<usize> =
            if sweep % 2 == 0 { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for row in indices.into_iter().map(|i| &rows[i]) {
            let wanted: Vec<f64> = row
                .iter()
                .map(|&s| {
                    let near = slots[s].above.iter().chain(&slots[s].below).map(|&n| slots[n].x);
                    mean(near).unwrap_or(slots[s].x)
                })
                .collect();
            spread(row, &wanted, slots);
        }
    }
}

/// The positions nearest to `wanted` that keep the order and the gaps: the mean of pushing right and pushing left.
fn spread(row: &[usize], wanted: &[f64], slots: &mut [Slot]) {
    let distance = |a: usize, b: usize, slots: &[Slot]| (slots[a].width + slots[b].width) / 2.0 + GAP;
    let mut right = wanted.to_vec();
    for i in 1..row.len() {
        right[i] = right[i].max(right[i - 1] + distance(row[i - 1], row[i], slots));
    }
    let mut left = wanted.to_vec();
    for i in (1..row.len()).rev() {
        left[i - 1] = left[i - 1].min(left[i] - distance(row[i - 1], row[i], slots));
    }
    for (i, &slot) in row.iter().enumerate() {
        slots[slot].x = f64::midpoint(right[i], left[i]);
    }
}
