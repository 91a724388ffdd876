use epilogue::prelude::*;

#[reducer]
mod no_parts {
    const START: f32 = 0.0;
    fn identity() -> f32 {
        0.0
    }
}

#[reducer]
mod five_numbers {
    const IDENTITY: (f32, f32, f32, f32, f32) = (0.0, 0.0, 0.0, 0.0, 0.0);
    fn lift(x: f32) -> f32 {
        x
    }
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
    fn finish(s: f32) -> f32 {
        s
    }
}

#[reducer]
mod wrong_types {
    const IDENTITY: (f32, f64) = (0.0, 0.0);
    fn lift(x: f32) -> (f32, f64) {
        (x, x)
    }
    fn combine(a: (f32, f64), b: (f32, f64)) -> (f32, f64) {
        a
    }
    fn finish(s: (f32, f64)) -> f32 {
        s.0
    }
}

#[reducer]
mod wrong_signatures {
    const IDENTITY: (f32, f32) = (0.0, 0.0);
    fn lift(x: f32, row: i64) -> (f32, f32) {
        (x, 1.0)
    }
    fn combine(a: (f32, f32)) -> (f32, f32) {
        a
    }
    fn finish(s: (f32, f32)) -> (f32, f32) {
        s
    }
}

#[reducer]
mod wrong_bodies {
    const IDENTITY: (f32, f32) = (0.0, 0.0);
    fn lift(x: f32) -> (f32, f32) {
        (x, x.1)
    }
    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        let (p, q, r) = a;
        for i in 0..2 {}
        (a + b.0, b.2, p)
    }
    fn finish(s: (f32, f32)) -> f32 {
        let (x, y) = s.0;
        s
    }
}

#[reducer(ordered)]
mod in_order {
    const IDENTITY: f32 = 0.0;
    fn lift(x: f32) -> f32 {
        x
    }
    fn combine(a: f32, b: f32) -> f32 {
        a * 10.0 + tahn(b)
    }
    fn finish(s: f32) -> f32 {
        s > 1.0
    }
}

#[reducer]
fn no_module(a: f32, b: f32) -> f32 {
    a + b
}

/// Right, so that what follows is wrong by itself.
#[reducer]
mod total {
    const IDENTITY: f32 = 0.0;
    fn lift(x: f32) -> f32 {
        x
    }
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
    fn finish(s: f32) -> f32 {
        s
    }
}

#[epilogue]
fn partials(accum: Accum) -> RowPartials {
    let sums = reduction_op(accum, Row, total, threadblock_shape.n);
    sums
}

#[epilogue]
fn truths(accum: Accum) -> ColumnVector {
    let sums = reduction_op(accum > 0.0, Row, total);
    sums
}

#[epilogue]
fn unknown(accum: Accum) -> (ColumnVector, ColumnVector) {
    let sums = reduction_op(accum, Row, sum);
    let totals = reduction_op(accum, Row, kahan);
    (sums, totals)
}

fn main() {}
