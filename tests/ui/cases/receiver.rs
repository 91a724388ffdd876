use epilogue::prelude::*;

struct Layer;

impl Layer {
    #[epilogue]
    fn f(&self, accum: Accum) -> Tensor {
        accum
    }
}

fn main() {}
