//! A whole network: the model of the example `minilm`, if `cargo xtask fetch-minilm` has fetched it.

use std::path::PathBuf;

use epilogue::Device;

use crate::Result;
use crate::contestant::{Contestant, sample};
use crate::model::{Batch, Model};
use crate::program::Program;
use crate::python::tools;

/// The folder with the model's weights.
pub(crate) fn folder() -> PathBuf {
    tools().join("minilm")
}

/// Whether the weights are there.
pub(crate) fn is_there() -> bool {
    folder().join("model.safetensors").is_file()
}

/// Sentences of as many tokens each. All contestants have the same ids.
fn ids(sentences: usize, tokens: usize) -> Vec<Vec<i32>> {
    let id = |i: usize| (i * 37 % 1009 + 1000) as i32;
    (0..sentences).map(|s| (s * tokens..(s + 1) * tokens).map(id).collect()).collect()
}

/// Vectors of sentences, by the model as one program of expressions.
pub(crate) fn fused(device: &Device, sentences: usize, tokens: usize) -> Result<Contestant<'static>> {
    let (program, given) = (Program::load(device, &folder())?, ids(sentences, tokens));
    let run = move || program.embed(&given);
    let sample = sample(&run()?.to_vec::<f32>()?, |x| x);
    Ok(Contestant::here("fuse", sample, move || drop(run().expect("it ran before"))))
}

/// Vectors of sentences, by the model whose products have epilogues by hand.
pub(crate) fn contestant(device: &Device, sentences: usize, tokens: usize) -> Result<Contestant<'static>> {
    let (model, given) = (Model::load(device, &folder())?, ids(sentences, tokens));
    let mut memory = model.memory(&Batch::new(&given))?;
    let mut run = move || model.embed_in(&Batch::new(&given), &mut memory);
    let sample = sample(&run()?.to_vec::<f32>()?, |x| x);
    Ok(Contestant::here("epilogue", sample, move || drop(run().expect("it ran before"))))
}
