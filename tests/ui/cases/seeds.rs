use epilogue::prelude::*;

#[elementwise]
fn noisy(x: f32) -> f32 {
    x + random(x)
}

#[epilogue]
fn f0(accum: Accum, seed: Seed, other: Seed<i64>) -> Tensor {
    let a = accum + seed;
    let b = seed;
    let c = random(accum);
    let e = random(2.0 * accum);
    let g = random(seed) + random(seed, 1);
    let d = a + b + c + e + g;
    d
}

#[epilogue]
fn f1(accum: Accum, seed: Seed) -> (Tensor, Tensor) {
    let d = random() + random(seed, 1.0) + random(seed, accum) + random(seed, 1, 2);
    let e = random(seed, 5000000000) + random(sead);
    let f = random(seed, -1) + random(seed, 99999999999999999999) + random(accum, 2.0);
    (d, seed)
}

#[epilogue]
fn f2(accum: Accum, seed: Seed, n: DeviceScalar<i64>) -> Seed {
    let d = gelu(seed) + reduction_op(seed, Row, Add);
    let e = if random(seed) { accum } else { 0.0 };
    let f = integer(seed) + random(seed);
    let g = row() * random(seed, 2);
    d
}

fn main() {}
