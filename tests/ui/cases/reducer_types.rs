use epilogue::prelude::*;

mod elsewhere {}

#[reducer]
mod scaled {
    const SCALE: f64 = 2.0;
    const IDENTITY: (f32, f32) = (0.0, 1);
    fn lift(x: f32) -> (f32, f32) {
        (x * SCALE, max(x))
    }
    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0 + b.0, if a.1 { b.1 } else { a.1 })
    }
    fn finish(s: (f32, f32)) -> f32 {
        s.0 > s.1
    }
}

#[epilogue]
fn no_reducer(accum: Accum) -> (ColumnVector, ColumnVector) {
    let sums = reduction_op(accum, Row, elsewhere::total);
    let others = reduction_op(accum, Row, self::elsewhere);
    (sums, others)
}

fn main() {}
