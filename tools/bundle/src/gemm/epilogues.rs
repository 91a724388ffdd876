//! The epilogues that are timed, and how each peer does the same.

use epilogue::Epilogue as _;
use epilogue::evt::Tree;

use super::cublaslt::Fused;
use super::separate::Text;

#[path = "../../../../examples/common/epilogues.rs"]
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

/// FP8's scales, in bf16.
#[epilogue::prelude::epilogue]
fn scaled(accum: Accum, scale_a: DeviceScalar, scale_b: DeviceScalar) -> Tensor<bf16> {
    let d = accum * (scale_a * scale_b);
    d
}

/// FP8 in and out: the next layer's input with its scale, and the largest magnitude, from which the next scale follows.
#[epilogue::prelude::epilogue]
fn scaled_bias_gelu_amax(
    accum: Accum,
    scale_a: DeviceScalar,
    scale_b: DeviceScalar,
    bias: RowVector<bf16>,
    scale_d: DeviceScalar,
) -> (Tensor, DeviceScalar) {
    let y = gelu(accum * (scale_a * scale_b) + bias);
    let d = y * scale_d;
    let amax = reduction_op(y, All, AbsMax);
    (d, amax)
}

/// Sums of 8-bit integers as they are.
#[epilogue::prelude::epilogue]
fn sums(accum: Accum) -> Tensor<i32> {
    let d = accum;
    d
}

/// Sums of 8-bit integers with a scale for every column, as quantised weights have.
#[epilogue::prelude::epilogue]
fn dequantised(accum: Accum, scale: RowVector<f32>, bias: RowVector<bf16>) -> Tensor<bf16> {
    let d = accum * scale + bias;
    d
}

use epilogue::ElementType;
use epilogue::prelude::{bf16, gelu, silu};

/// An epilogue with its peers.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) tree: fn() -> Tree,
    /// cuBLASLt's own epilogue that computes the same.
    pub(crate) cublaslt: Option<Fused>,
    /// The epilogue as one kernel over the GEMM's result.
    pub(crate) separate: Option<Text>,
    /// Whether it belongs to tier 1.
    pub(crate) headline: bool,
}

/// The epilogues of products of a type.
pub(crate) fn of(element: ElementType) -> Vec<Named> {
    match element {
        ElementType::F8E4M3 | ElementType::F8E5M2 => {
            vec![named("scaled", Scaled::tree, true), named("scaled_bias_gelu_amax", ScaledBiasGeluAmax::tree, false)]
        }
        ElementType::I8 | ElementType::U8 => {
            vec![named("sums", Sums::tree, true), named("dequantised", Dequantised::tree, false)]
        }
        ElementType::F32 => vec![named("plain", common::Plain::tree, true)],
        _ => of_16_bits(),
    }
}

const fn named(name: &'static str, tree: fn() -> Tree, headline: bool) -> Named {
    Named { name, tree, cublaslt: None, separate: None, headline }
}

fn of_16_bits() -> Vec<Named> {
    vec![
        named("plain", common::Plain::tree, true),
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
