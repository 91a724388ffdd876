//! The contestants that take turns.

use std::time::Instant;

/// An implementation of a work.
pub(crate) struct Contestant<'a> {
    pub(crate) name: &'static str,
    /// Runs it once, to warm up, then the given number of times, and gives the seconds of these runs together.
    pub(crate) run: Box<dyn FnMut(usize) -> f64 + 'a>,
    /// The first, middle and last element of the result.
    pub(crate) sample: Vec<f32>,
}

impl<'a> Contestant<'a> {
    /// A contestant in this process.
    pub(crate) fn here(name: &'static str, sample: Vec<f32>, mut call: impl FnMut() + 'a) -> Self {
        let run = move |count| {
            call();
            let start = Instant::now();
            (0..count).for_each(|_| call());
            start.elapsed().as_secs_f64()
        };
        Self { name, run: Box::new(run), sample }
    }
}

/// The elements by which contestants' results are compared.
pub(crate) fn sample<T: Copy>(values: &[T], number: impl Fn(T) -> f32) -> Vec<f32> {
    [0, values.len() / 2, values.len() - 1].map(|i| number(values[i])).into()
}

/// Element `i` of every contestant's inputs, before scaling.
pub(crate) fn value(i: usize) -> f32 {
    (i * 37 % 101) as f32 - 50.0
}

/// An input.
pub(crate) fn values(count: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|i| (f64::from(value(i)) * f64::from(scale)) as f32).collect()
}
