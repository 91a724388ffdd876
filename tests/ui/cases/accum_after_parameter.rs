use epilogue::prelude::*;

#[epilogue]
fn f(gate: Accum, bias: RowVector, up: Accum) -> Tensor {
    let d = (gate + bias) * up;
    d
}

#[epilogue]
fn g(gate: Accum, gate: Accum) -> Tensor {
    let d = gate * gate;
    d
}

fn main() {
    let _ = epilogue::closure!(|gate: Accum, bias: RowVector, up: Accum| {
        let d: Tensor = (gate + bias) * up;
        d
    });
}
