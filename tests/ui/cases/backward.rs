use epilogue::prelude::*;

#[epilogue(backward(saved(w), gradients(seed, bias, gain), given(y), through = z))]
fn wrong_names(accum: Accum, bias: RowVector, seed: Seed) -> (Tensor, Tensor) {
    let z = accum + bias * random(seed);
    let y = gelu(z);
    (y, z)
}

#[epilogue(backward(through = keep, saved(sum), gradients(labels, labels)))]
fn wrong_classes(accum: Accum, labels: ColumnVector<i64>) -> (Tensor<bool>, ColumnVector) {
    let keep = accum > real(integer(labels));
    let sum = reduction_op(accum, Row, Add);
    (keep, sum)
}

#[epilogue(backward)]
fn nothing_to_go_through(accum: Accum) -> ColumnVector {
    let sum = reduction_op(accum, Row, Add);
    sum
}

#[epilogue(backward(of = y), backward)]
fn wrong_words(accum: Accum) -> Tensor {
    let y = accum * 2.0;
    y
}

#[epilogue(backward(saved = z, through(y), gradients("bias"), name = 3))]
fn wrong_forms(accum: Accum, bias: RowVector) -> (Tensor, Tensor) {
    let z = accum + bias;
    let y = gelu(z);
    (y, z)
}

#[epilogue(backward(saved(z, z), gradients(scale), gradients_of_all(residual, scale)))]
fn twice(accum: Accum, scale: DeviceScalar, residual: Tensor) -> (Tensor, Tensor) {
    let z = accum * scale;
    let y = gelu(z) + residual;
    (y, z)
}

#[epilogue(backward)]
fn overwritten(accum: Accum, state: TensorMut, d_accum: RowVector) -> (TensorMut, Tensor) {
    state = state + accum;
    let y = state * d_accum;
    (state, y)
}

fn main() {}
