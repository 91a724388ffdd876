//! The benchmarks: one program each, which `cargo bench --bench NAME` runs.

/// The median of measured times: of an even number of them, the larger one in the middle.
///
/// # Panics
/// If there are none.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
