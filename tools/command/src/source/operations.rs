//! The library's operations by name.

use epilogue::expr::Function;

/// A function from names to definitions.
macro_rules! operations {
    ($($name:ident),* $(,)?) => {
        /// The operation of a name.
        pub(super) fn operation(name: &str) -> Option<&'static Function> {
            match name {
                $(stringify!($name) => Some(epilogue::ops::$name::function()),)*
                _ => None,
            }
        }
    };
}

operations! {
    abs, abs_grad, atan2, ceil, clamp, cos, cos_grad, erf, erf_grad, exp, exp2, exp_grad, floor, fma, gelu, gelu_grad,
    gelu_tanh, gelu_tanh_grad, hardswish, hardswish_grad, leaky_relu, leaky_relu_grad, log, log1p, log2, max, min, neg, pow,
    recip, relu, relu_grad, round, rsqrt, select, sigmoid, sigmoid_grad, silu, silu_grad, sin, sin_grad, softplus,
    softplus_grad, sqrt, square,
    tan, tanh, tanh_grad,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_language_is_there() {
        for name in epilogue_syntax::operations::OPERATIONS {
            assert_eq!(operation(name).map(Function::name), Some(name));
        }
        assert!(operation("mish").is_none());
    }
}
