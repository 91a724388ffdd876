//! Reducers of random trees: one rounds, one only chooses, and one has several numbers that depend on each other.

use epilogue_macros::reducer;

use crate::evt::Reducer;

/// The length of a vector.
#[reducer]
mod norm {
    const IDENTITY: f32 = 0.0;

    fn lift(x: f32) -> f32 {
        x * x
    }

    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }

    fn finish(s: f32) -> f32 {
        s.sqrt()
    }
}

/// How far apart the greatest and the least are.
#[reducer]
mod spread {
    const IDENTITY: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    fn lift(x: f32) -> (f32, f32) {
        (x, x)
    }

    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0.max(b.0), a.1.min(b.1))
    }

    fn finish(s: (f32, f32)) -> f32 {
        s.0 - s.1
    }
}

/// How many values are above 1, their sum, and the greatest of the others.
#[reducer]
mod above {
    const IDENTITY: (f32, f32, f32) = (0.0, 0.0, f32::NEG_INFINITY);

    fn lift(x: f32) -> (f32, f32, f32) {
        if x > 1.0 { (1.0, x, f32::NEG_INFINITY) } else { (0.0, 0.0, x) }
    }

    fn combine(a: (f32, f32, f32), b: (f32, f32, f32)) -> (f32, f32, f32) {
        (a.0 + b.0, a.1 + b.1, a.2.max(b.2))
    }

    fn finish((count, sum, most): (f32, f32, f32)) -> f32 {
        if count > 0.0 { sum / count } else { most }
    }
}

/// All of them.
pub(super) fn all() -> [&'static Reducer; 3] {
    [norm::reducer(), spread::reducer(), above::reducer()]
}
