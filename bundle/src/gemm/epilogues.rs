//! The epilogues that are timed, and how each peer does the same.

use epilogue::Epilogue as _;
use epilogue::evt::Tree;

use super::cublaslt::Fused;
use super::separate::Text;

#[path = "../../../examples/common/epilogues.rs"]
mod common;

/// The second product of a gated feed-forward block, whose first product made `gate`.
#[epilogue::prelude::epilogue]
fn swiglu(accum: Accum, gate: Tensor) -> Tensor {
    let d = silu(gate) * accum;
    d
}

#[epilogue::prelude::epilogue]
fn residual(accum: Accum, residual: Tensor) -> Tensor {
    let d = accum + residual;
    d
}

/// A whole residual branch, with the row sums that a normalisation needs.
#[epilogue::prelude::epilogue]
fn bias_gelu_residual_sums(accum: Accum, bias: RowVector, residual: Tensor) -> (Tensor, ColumnVector) {
    let d = gelu(accum + bias) + residual;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

use epilogue::prelude::{gelu, silu};

/// An epilogue with its peers.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) tree: fn() -> Tree,
    /// cuBLASLt's own epilogue that computes the same.
    pub(crate) cublaslt: Option<Fused>,
    /// The same as one kernel over the product.
    pub(crate) separate: Option<Text>,
    /// Whether it belongs to tier 1.
    pub(crate) headline: bool,
}

pub(crate) fn all() -> Vec<Named> {
    let named = |name, tree, headline| Named { name, tree, cublaslt: None, separate: None, headline };
    vec![
        named("plain", common::Plain::tree as fn() -> Tree, true),
        Named {
            cublaslt: Some(Fused::Bias),
            separate: Some(Text { expression: "x + bias", reads: false }),
            ..named("bias", common::Bias::tree, false)
        },
        Named {
            cublaslt: Some(Fused::GeluBias),
            separate: Some(Text { expression: "gelu(x + bias)", reads: false }),
            ..named("bias_gelu", common::BiasGelu::tree, true)
        },
        Named {
            separate: Some(Text { expression: "x + other", reads: true }),
            ..named("residual", Residual::tree, false)
        },
        Named {
            separate: Some(Text { expression: "gelu(x + bias) + other", reads: true }),
            ..named("bias_gelu_residual", common::BiasGeluResidual::tree, true)
        },
        named("bias_gelu_residual_sums", BiasGeluResidualSums::tree, false),
        Named {
            separate: Some(Text { expression: "other / (1.0f + __expf(-other)) * x", reads: true }),
            ..named("swiglu", Swiglu::tree, false)
        },
        named("gelu_backward", common::GeluBackward::tree, false),
        named("amax", common::Amax::tree, false),
    ]
}
