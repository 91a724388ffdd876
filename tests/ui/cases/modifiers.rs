use epilogue::prelude::*;

#[epilogue]
async fn asynchronous(accum: Accum) -> Tensor {
    accum
}

#[epilogue]
unsafe fn unsound(accum: Accum) -> Tensor {
    accum
}

#[epilogue]
const fn constant(accum: Accum) -> Tensor {
    accum
}

#[epilogue]
extern "C" fn foreign(accum: Accum) -> Tensor {
    accum
}

fn main() {}
