//! The feed-forward blocks of all-MiniLM-L6-v2 in candle, with fused GEMMs and with candle's own operations: equal results,
//! and the time of both.
//!
//! `cargo xtask fetch-minilm` gets the weights; then, in `examples/candle/`,
//! `cargo run --release --example feed_forward -- ../../.tools/minilm/model.safetensors`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use candle_core::{D, Device, Result, Tensor};
use epilogue_candle::Fused;

use self::epilogues::{BiasGelu, BiasResidual};

/// In a module of its own: `Tensor` is a word of the epilogues' language, and candle's type.
mod epilogues {
    use epilogue::prelude::*;

    #[epilogue]
    pub fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
        let d = gelu(accum + bias);
        d
    }

    #[epilogue]
    pub fn bias_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
        let d = accum + bias + residual;
        d
    }
}

const LAYERS: usize = 6;
const ROWS: [usize; 3] = [1, 32, 256];
/// Runs of all layers that are timed, after one that isn't.
const RUNS: usize = 15;

/// One block: `gelu(x·W1ᵀ + b1)·W2ᵀ + b2 + x`.
struct Block {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
}

impl Block {
    fn of(weights: &HashMap<String, Tensor>, layer: usize) -> Result<Self> {
        let tensor = |name: &str| {
            let name = format!("encoder.layer.{layer}.{name}");
            weights.get(&name).cloned().ok_or_else(|| candle_core::Error::Msg(format!("the model has no {name}")))
        };
        Ok(Self {
            w1: tensor("intermediate.dense.weight")?.t()?,
            b1: tensor("intermediate.dense.bias")?,
            w2: tensor("output.dense.weight")?.t()?,
            b2: tensor("output.dense.bias")?,
        })
    }

    fn fused(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = Fused::<BiasGelu>::new().input("bias", &self.b1).apply(x, &self.w1)?;
        Fused::<BiasResidual>::new().input("bias", &self.b2).input("residual", x).apply(&hidden, &self.w2)
    }

    fn candles(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = x.matmul(&self.w1)?.broadcast_add(&self.b1)?.gelu_erf()?;
        hidden.matmul(&self.w2)?.broadcast_add(&self.b2)? + x
    }
}

/// All blocks, each on a normalised input.
fn all(blocks: &[Block], x: &Tensor, block: impl Fn(&Block, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut x = x.clone();
    for one in blocks {
        let y = block(one, &x)?;
        let centred = y.broadcast_sub(&y.mean_keepdim(D::Minus1)?)?;
        x = centred.broadcast_div(&(centred.sqr()?.mean_keepdim(D::Minus1)? + 1e-12)?.sqrt()?)?;
    }
    Ok(x)
}

/// The median time of `work`.
fn median(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times[RUNS / 2])
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "../../.tools/minilm/model.safetensors".to_owned());
    let weights = candle_core::safetensors::load(&path, &Device::Cpu)?;
    let blocks = (0..LAYERS).map(|layer| Block::of(&weights, layer)).collect::<Result<Vec<_>>>()?;
    for rows in ROWS {
        let x = Tensor::randn(0f32, 1.0, (rows, blocks[0].w1.dim(0)?), &Device::Cpu)?;
        let (ours, theirs) = (all(&blocks, &x, Block::fused)?, all(&blocks, &x, Block::candles)?);
        let difference = (ours - theirs)?.abs()?.max_all()?.to_scalar::<f32>()?;
        if difference > 1e-4 {
            return Err(candle_core::Error::Msg(format!("{rows} rows: results differ by {difference}")));
        }
        let fused = median(|| all(&blocks, &x, Block::fused).map(drop))?;
        let candles = median(|| all(&blocks, &x, Block::candles).map(drop))?;
        println!(
            "{rows} rows, {LAYERS} blocks: fused {:.2} ms, candle's own {:.2} ms; the largest difference is {difference:.1e}",
            fused.as_secs_f64() * 1e3,
            candles.as_secs_f64() * 1e3
        );
    }
    Ok(())
}
