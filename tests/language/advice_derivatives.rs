//! Every refusal of a derivative that says what to do, beside that: who follows the advice has a valid tree.

use epilogue::evt::derive::{Backward, DeriveError};
use epilogue::evt::{Tree, Types};
use epilogue::prelude::*;

#[epilogue]
fn noisy(accum: Accum, c: Tensor, seed: Seed) -> Tensor {
    let y = accum * c + random(seed);
    y
}

/// A refusal with this advice, and a tree for who follows it.
#[track_caller]
fn advised(refused: Result<Tree, DeriveError>, advice: &str, followed: Result<Tree, DeriveError>) {
    let tree = epilogue_testing::advice::advised(refused, advice, followed);
    tree.validate(Types::new(ElementType::F32, ElementType::F32)).unwrap_or_else(|error| panic!("{advice}: {error}"));
}

#[test]
fn what_is_asked_for() {
    let forward = Noisy::tree();
    let of = || Backward::of(&forward, "y");
    advised(of().gradient("seed").tree(), "leave it out", of().tree());
    advised(
        of().gradient("c").gradient("c").tree(),
        "`c` is named twice: leave one out",
        of().gradient("c").saved("y").tree(),
    );
    let each = of().gradient("c").tree();
    advised(of().gradient_of_all("c").tree(), "take a gradient for each batch, and add them up", each);
}

#[test]
fn values_that_are_gone() {
    #[epilogue]
    fn active(accum: Accum) -> Tensor {
        let y = gelu(accum);
        y
    }
    #[epilogue]
    fn saved(accum: Accum) -> (Tensor, Tensor) {
        let z = accum;
        let y = gelu(z);
        (y, z)
    }
    let (active, saved) = (Active::tree(), Saved::tree());
    let followed = Backward::of(&saved, "y").saved("z").all_parameters().tree();
    advised(Backward::of(&active, "y").all_parameters().tree(), "return it, `let z = accum;`", followed);

    #[epilogue]
    fn in_place(accum: Accum, d: TensorMut) -> Tensor {
        d *= accum;
        d
    }
    #[epilogue]
    fn renewed(accum: Accum, c: Tensor) -> Tensor {
        let d = c * accum;
        d
    }
    let (in_place, renewed) = (InPlace::tree(), Renewed::tree());
    advised(
        Backward::of(&in_place, "d").tree(),
        "declare it `Tensor`, and return the new values under another name",
        Backward::of(&renewed, "d").tree(),
    );
}

#[test]
fn names_of_gradients() {
    #[epilogue]
    fn taken(accum: Accum, bias: RowVector, d_bias: Scalar) -> Tensor {
        let y = d_bias * (accum + bias);
        y
    }
    #[epilogue]
    fn free(accum: Accum, bias: RowVector, factor: Scalar) -> Tensor {
        let y = factor * (accum + bias);
        y
    }
    let (taken, free) = (Taken::tree(), Free::tree());
    advised(
        Backward::of(&taken, "y").gradient("bias").tree(),
        "there is a `d_bias` already: rename that",
        Backward::of(&free, "y").gradient("bias").tree(),
    );
}

#[test]
fn reductions() {
    #[epilogue]
    fn products(accum: Accum, c: Tensor) -> (Tensor, ColumnVector) {
        let y = accum * c;
        let product = reduction_op(y, Row, Mul);
        (y, product)
    }
    #[epilogue]
    fn products_of_positive(accum: Accum, c: Tensor) -> (Tensor, ColumnVector) {
        let y = accum * c;
        let logarithms = reduction_op(log(y), Row, Add);
        let product = exp(logarithms);
        (y, product)
    }
    let (products, of_positive) = (Products::tree(), ProductsOfPositive::tree());
    advised(
        Backward::of(&products, "y").given("product").saved("y").tree(),
        "of positive values use `exp(reduction_op(log(x), …, Add))`",
        Backward::of(&of_positive, "y").given("product").saved("y").tree(),
    );
    advised(
        Backward::of(&products, "product").tree(),
        "an accumulator is the gradient of one",
        Backward::of(&products, "y").tree(),
    );
    advised(
        Backward::of(&of_positive, "y").saved("product").tree(),
        "others are computed again: leave it out",
        Backward::of(&of_positive, "y").tree(),
    );
}
