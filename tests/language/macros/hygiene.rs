//! The expansion needs nothing from a user's module, and causes no warnings in it.
#![deny(missing_docs, unused, clippy::pedantic, clippy::all, unreachable_pub, unused_qualifications)]
#![deny(unsafe_code)]

/// Names of the prelude, of the library and of the language, all with other meanings here.
mod shadowed {
    #![allow(non_camel_case_types, dead_code, missing_docs)]
    pub(crate) struct Option;
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) struct Vec;
    pub(crate) struct String;
    pub(crate) struct f32;
    pub(crate) struct f64;
    pub(crate) struct Epilogue;
    pub(crate) struct Arguments;
    pub(crate) struct Tensor;
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod epilogue {}
    pub(crate) struct Debug;
    pub(crate) fn builder() {}
    pub(crate) fn v0() {}
}

/// An epilogue where every name is taken.
mod taken {
    #[allow(unused_imports)]
    use super::shadowed::*;
    use ::epilogue::prelude::{bf16, epilogue, tanh};

    /// Documented.
    #[epilogue]
    pub(crate) fn everything(
        accum: Accum,
        builder: Tensor<bf16>,
        v0: RowVector,
        v1: ColumnVector,
        alpha: Scalar,
        c: TensorMut,
    ) -> (Tensor, Tensor<bf16>, ColumnVector, RowPartials) {
        let v2 = alpha * accum + tanh(builder) + v0 * v1;
        c += if v2 > 0.0 { v2.max(1.0) } else { -v2 };
        let sums = reduction_op(v2, Row, Add);
        let partials = reduction_op(v2, Row, Max, threadblock_shape.n);
        (v2, c, sums, partials)
    }
}

/// An operation where every name is taken.
mod operation {
    #![allow(unused_imports)]
    use super::shadowed::{Option, Some, Vec};
    use ::epilogue::prelude::elementwise;

    /// Documented.
    #[elementwise]
    #[must_use]
    pub(crate) fn builder(v0: f32, v1: f32) -> f32 {
        let v2 = v0.max(v1);
        v2 * v2
    }
}

#[test]
fn names_that_are_taken() {
    let tree = <taken::Everything as ::epilogue::Epilogue>::tree();
    assert_eq!(tree.outputs().len(), 4);
    assert_eq!(operation::builder(2.0, 3.0).to_bits(), 9.0_f32.to_bits());
    let arguments = |e: taken::Everything<::epilogue::Borrowed<'_>>| ::epilogue::Arguments::arguments(e).len();
    let _ = arguments;
    let value = ::epilogue::closure!(|accum, c: Tensor, alpha: Scalar| {
        let d = alpha * accum + c;
        d
    });
    let _ = value.alpha(1.0);
    assert_eq!(operation::builder::function().parameters(), ["v0", "v1"]);
}

/// The macros by path, where nothing at all is imported, the language's own prelude neither.
#[no_implicit_prelude]
mod nothing_imported {
    /// Documented.
    #[::epilogue::elementwise]
    pub(crate) fn halved(x: f32) -> f32 {
        x.max(0.0) / 2.0
    }

    /// The sum.
    #[::epilogue::reducer]
    pub(crate) mod total {
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

    /// Documented.
    #[::epilogue::epilogue(backward(gradients(c)))]
    pub(crate) fn scaled(accum: Accum, c: Tensor<f32>, alpha: Scalar) -> Tensor<f32> {
        let d = alpha * accum + c.abs();
        d
    }

    /// Documented.
    #[::epilogue::epilogue]
    pub(crate) fn reduced(accum: Accum, seed: Seed) -> (Tensor<f32>, ColumnVector) {
        let d = if random(seed) < 0.5 && column() < 4 { halved(accum) } else { accum.cast::<f32>() };
        let sums = reduction_op(d, Row, total);
        (d, sums)
    }

    #[::core::prelude::v1::test]
    fn they_expand() {
        fn outputs_of<E: ::epilogue::Epilogue>(_: &E) -> usize {
            E::tree().outputs().len()
        }
        let outputs = |tree: ::epilogue::evt::Tree| tree.outputs().len();
        ::core::assert_eq!(outputs(<Scaled as ::epilogue::Epilogue>::tree()), 1);
        ::core::assert_eq!(outputs(<ScaledBackward as ::epilogue::Epilogue>::tree()), 2);
        ::core::assert_eq!(outputs(<Reduced as ::epilogue::Epilogue>::tree()), 2);
        ::core::assert_eq!(total::reduce([1.0, 2.0]).to_bits(), 3.0_f32.to_bits());
        ::core::assert_eq!(Scaled::element(2.0, -1.0, 0.5).to_bits(), 2.0_f32.to_bits());
        let value = ::epilogue::closure!(|accum, c: Tensor| {
            let d = halved(accum) + c;
            d
        });
        ::core::assert_eq!(outputs_of(&value), 1);
    }
}
