//! Products that other libraries have no single launch for: several accumulators, groups, block scales, convolutions, weights of 8
//! bits, tiles that positions leave out, chance, and results in other layouts.

use epilogue::gemm::{Window, filter, patches, rows, scaled};
use epilogue::prelude::*;

use super::{Plain, Subject, Way, operands, product, way, weights};
use crate::Outcome;
use crate::gemm::normal;

#[epilogue]
fn swiglu(gate: Accum, up: Accum) -> Tensor {
    let d = silu(gate) * up;
    d
}

#[epilogue]
fn to_bf16(accum: Accum) -> Tensor<bf16> {
    let d = accum;
    d
}

/// Scores before a softmax, which a causal mask hides.
#[epilogue]
fn causal(accum: Accum) -> Tensor {
    let d = if column() > row() { f32::NEG_INFINITY } else { accum };
    d
}

#[elementwise]
fn kept(x: f32, u: f32, p: f32) -> f32 {
    if u < p { 0.0 } else { x / (1.0 - p) }
}

#[epilogue]
fn dropout(accum: Accum, p: Scalar, seed: Seed) -> Tensor {
    let d = kept(accum, random(seed), p);
    d
}

const BF16: ElementType = ElementType::BF16;

pub(super) fn subjects() -> Vec<Subject> {
    let of = |name, small, timed, ways| Subject { name, element: BF16, small, timed, ways };
    vec![
        of("swiglu", [70, 72, 40], &[[4096, 14336, 4096], [16, 14336, 4096]], ways_of_swiglu),
        // N is that of an expert; its rows are M / 8, and M / 256.
        of("8_experts", [150, 72, 40], &[[8192, 4096, 4096], [2048, 4096, 4096]], |d, shape| experts(d, shape, 8)),
        of("256_experts", [60, 24, 40], &[[1024, 2048, 1024]], |d, shape| experts(d, shape, 256)),
        Subject {
            element: ElementType::F8E4M3,
            ..of("block_scales", [70, 256, 256], &[[4096, 7168, 16384], [64, 7168, 2048]], ways_of_block_scales)
        },
        // M is the pixels of 56², 28² and 14² images, N and K / 9 their channels.
        of("convolution", [98, 64, 576], &[[100_352, 128, 1152], [25_088, 256, 2304], [6272, 512, 4608]], convolutions),
        of("weights_of_8_bits", [16, 128, 128], &[[16, 8192, 8192], [256, 8192, 8192]], ways_of_weights),
        of("causal", [150, 200, 40], &[[8192, 8192, 128], [4096, 4096, 512]], ways_of_causal),
        of("dropout", [70, 72, 40], &[[8192, 8192, 2048], [4096, 4096, 4096]], ways_of_dropout),
        of("heads_apart", [128, 128, 40], &[[8192, 8192, 2048], [8192, 4096, 512]], ways_of_heads),
    ]
}

/// The plain product of these extents.
fn dense(name: &str, device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Way> {
    let ((a, b), d) = (operands(device, [m, n, k])?, device.zeros_of(BF16, [m, n])?);
    product(name, device, (&a, &b), &d)
}

fn ways_of_swiglu(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, gate), up) = (operands(device, [m, n, k])?, weights(device, BF16, [n, k], 3)?);
    let d = device.zeros_of(BF16, [m, n])?;
    let plan = Gemm::plan::<Swiglu>(device, &a, [&gate, &up])?;
    let own = way!("epilogue", plan, (&a, [&gate, &up]), [a, gate, up], Swiglu { ;; d });
    Ok(vec![own, dense("the dense product of twice the columns", device, [m, 2 * n, k])?])
}

/// Rows in groups of equal numbers, but for the last.
fn experts(device: &Device, [m, n, k]: [usize; 3], groups: usize) -> Outcome<Vec<Way>> {
    let each = m / groups;
    let ends: Vec<i32> =
        (1..=groups).map(|group| if group == groups { m as i32 } else { (group * each) as i32 }).collect();
    let (a, ends) = (normal(device, BF16, &[m, k], 1)?, device.tensor(&ends, [groups])?);
    let b = normal(device, BF16, &[groups, n, k], 2)?.permute(&[0, 2, 1])?;
    let d = device.zeros_of(BF16, [m, n])?;
    let plan = Gemm::plan::<Plain>(device, rows(&a).in_groups_to(&ends), &b)?;
    let own = way!("epilogue", plan, (rows(&a).in_groups_to(&ends), &b), [a, b, ends], Plain { ;; d });
    Ok(vec![own, dense("the dense product of all rows", device, [m, n, k])?])
}

/// As DeepSeek-V3's checkpoints have them.
fn ways_of_block_scales(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Vec<Way>> {
    let of = ElementType::F8E4M3;
    let (a, b) = (normal(device, of, &[m, k], 1)?, weights(device, of, [n, k], 2)?);
    let of_a = normal(device, ElementType::F32, &[m, k.div_ceil(128)], 3)?;
    let of_b = normal(device, ElementType::F32, &[k.div_ceil(128), n.div_ceil(128)], 4)?;
    let d = device.zeros_of(BF16, [m, n])?;
    let plan = Gemm::plan::<ToBf16>(device, scaled(&a, &of_a), scaled(&b, &of_b))?;
    let own = way!("epilogue", plan, (scaled(&a, &of_a), scaled(&b, &of_b)), [a, b, of_a, of_b], ToBf16 { ;; d });
    let whole = way!("without scales", Gemm::plan::<ToBf16>(device, &a, &b)?, (&a, &b), [a, b], ToBf16 { ;; d });
    Ok(vec![own, whole])
}

const WINDOW: Window<2> = Window::of([3, 3]).padding([1, 1]);

/// 3×3, of square images.
fn convolutions(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Vec<Way>> {
    let channels = k / 9;
    let side = [56, 28, 14, 7].into_iter().find(|side| m.is_multiple_of(side * side)).ok_or("no image is so large")?;
    let x = normal(device, BF16, &[m / (side * side), side, side, channels], 1)?;
    let w = normal(device, BF16, &[n, 3, 3, channels], 2)?;
    let d = device.zeros_of(BF16, [m, n])?;
    let plan = Gemm::plan::<Plain>(device, patches(&x, WINDOW), &filter(&w)?)?;
    let own = way!("epilogue", plan, (patches(&x, WINDOW), &filter(&w)?), [x, w], Plain { ;; d });
    Ok(vec![own, dense("the equal product", device, [m, n, k])?])
}

fn ways_of_weights(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Vec<Way>> {
    let (a, b) = (normal(device, BF16, &[m, k], 1)?, weights(device, ElementType::I8, [n, k], 2)?);
    let d = device.zeros_of(BF16, [m, n])?;
    let own = way!("epilogue", Gemm::plan::<Plain>(device, &a, &b)?, (&a, &b), [a, b], Plain { ;; d });
    Ok(vec![own, dense("with 16-bit weights", device, [m, n, k])?])
}

fn ways_of_causal(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), d) = (operands(device, shape)?, device.zeros_of(BF16, [shape[0], shape[1]])?);
    let own = way!("epilogue", Gemm::plan::<Causal>(device, &a, &b)?, (&a, &b), [a, b], Causal { ;; d });
    Ok(vec![own, dense("the whole product", device, shape)?])
}

fn ways_of_dropout(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), d) = (operands(device, shape)?, device.zeros_of(BF16, [shape[0], shape[1]])?);
    let plan = Gemm::plan::<Dropout>(device, &a, &b)?;
    let own = way!("epilogue", plan, (&a, &b), [a, b], Dropout { ; p = 0.1, seed = Seed::with_offset(2024, 7); d });
    Ok(vec![own, dense("without dropout", device, shape)?])
}

/// A projection whose heads of 64 columns are written apart: `[B, H, S, D]`.
fn ways_of_heads(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), [m, n, _]) = (operands(device, shape)?, shape);
    let d = device.zeros_of(BF16, [2, n / 64, m / 2, 64])?.as_matrix(&[0, 2], &[1, 3])?;
    let plan = Gemm::plan::<Plain>(device, &a, &b)?;
    let own = way!("epilogue", plan, (&a, &b), [a, b], Plain { ;; d });
    Ok(vec![own, dense("the heads side by side", device, shape)?])
}
