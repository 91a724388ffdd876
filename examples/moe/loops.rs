//! The block as plain loops in f64, token by token: no rows, no order, no groups. It shares nothing with the block but the
//! data and the choice of experts, which [`check`](crate::check) judges.

use crate::data::{Data, Sizes};

/// The results that the block should give.
pub(crate) struct Exact {
    pub(crate) probabilities: Vec<f64>,
    pub(crate) out: Vec<f64>,
    pub(crate) d_x: Vec<f64>,
    pub(crate) d_router: Vec<f64>,
    pub(crate) d_gate_up: Vec<f64>,
    pub(crate) d_down: Vec<f64>,
}

/// `experts` are those that each token takes, `[top, tokens]`.
pub(crate) fn exact(data: &Data, experts: &[i32]) -> Exact {
    let Sizes { tokens, columns, hidden, experts: all, top } = data.sizes;
    let mut exact = Exact {
        probabilities: Vec::new(),
        out: vec![0.0; tokens * columns],
        d_x: vec![0.0; tokens * columns],
        d_router: vec![0.0; data.router.len()],
        d_gate_up: vec![0.0; data.gate_up.len()],
        d_down: vec![0.0; data.down.len()],
    };
    for token in 0..tokens {
        let own = token * columns..(token + 1) * columns;
        let (x, d_out) = (&data.x[own.clone()], &data.d_out[own.clone()]);
        let (out, d_x) = (&mut exact.out[own.clone()], &mut exact.d_x[own]);
        let p = softmax(&times(x, &data.router));
        let mut d_p = vec![0.0; all];
        for rank in 0..top {
            let expert = experts[rank * tokens + token] as usize;
            let of = |size: usize| expert * size..(expert + 1) * size;
            let (gate_up, down) = (of(columns * 2 * hidden), of(hidden * columns));

            let gates_and_ups = times(x, &data.gate_up[gate_up.clone()]);
            let (gates, ups) = gates_and_ups.split_at(hidden);
            let h: Vec<f64> = gates.iter().zip(ups).map(|(gate, up)| silu(*gate) * up).collect();
            let y = times(&h, &data.down[down.clone()]);
            add(out, p[expert], &y);

            d_p[expert] = dot(d_out, &y);
            let d_y: Vec<f64> = d_out.iter().map(|d| d * p[expert]).collect();
            let d_h = times_transposed(&d_y, &data.down[down.clone()]);
            let pairs = || gates.iter().zip(ups).zip(&d_h);
            let d_gates = pairs().map(|((gate, up), d_h)| d_h * up * silu_slope(*gate));
            let d_ups = pairs().map(|((gate, _), d_h)| d_h * silu(*gate));
            let d_gates_and_ups: Vec<f64> = d_gates.chain(d_ups).collect();
            add(d_x, 1.0, &times_transposed(&d_gates_and_ups, &data.gate_up[gate_up.clone()]));
            add_outer(&mut exact.d_gate_up[gate_up], x, &d_gates_and_ups);
            add_outer(&mut exact.d_down[down], &h, &d_y);
        }
        let mean = dot(&p, &d_p);
        let d_scores: Vec<f64> = p.iter().zip(&d_p).map(|(p, d_p)| p * (d_p - mean)).collect();
        add(d_x, 1.0, &times_transposed(&d_scores, &data.router));
        add_outer(&mut exact.d_router, x, &d_scores);
        exact.probabilities.extend(p);
    }
    exact
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn silu_slope(x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    sigmoid * (1.0 + x * (1.0 - sigmoid))
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// `to += scale · x`
fn add(to: &mut [f64], scale: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += scale * x);
}

/// A row times a matrix, `[row.len(), n]`.
fn times(row: &[f64], matrix: &[f64]) -> Vec<f64> {
    let n = matrix.len() / row.len();
    let mut result = vec![0.0; n];
    row.iter().zip(matrix.chunks(n)).for_each(|(x, weights)| add(&mut result, *x, weights));
    result
}

/// A row times the transpose of a matrix, `[n, row.len()]`.
fn times_transposed(row: &[f64], matrix: &[f64]) -> Vec<f64> {
    matrix.chunks(row.len()).map(|weights| dot(row, weights)).collect()
}

/// `to += xᵀ·y`
fn add_outer(to: &mut [f64], x: &[f64], y: &[f64]) {
    x.iter().zip(to.chunks_mut(y.len())).for_each(|(x, to)| add(to, *x, y));
}
