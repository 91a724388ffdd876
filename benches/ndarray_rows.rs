//! Normalisations row by row, as one writes them with ndarray; tensor expressions are compared with them.

use ndarray::Array2;

pub(crate) fn softmax(x: &Array2<f32>) -> Array2<f32> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let most = row.fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        row.mapv_inplace(|x| (x - most).exp());
        let total = row.sum();
        row /= total;
    }
    y
}

pub(crate) fn layer_norm(x: &Array2<f32>) -> Array2<f32> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let mean = row.sum() / row.len() as f32;
        let variance = row.fold(0.0, |sum, x| sum + (x - mean) * (x - mean)) / row.len() as f32;
        let scale = (variance + 1e-5).sqrt().recip();
        row.mapv_inplace(|x| (x - mean) * scale);
    }
    y
}
