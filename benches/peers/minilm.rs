//! A whole network: the model of the example `minilm`, if `cargo xtask fetch-minilm` has fetched it.

use std::path::PathBuf;

use epilogue::Device;

use crate::Result;
use crate::contestant::{Contestant, sample};
use crate::model::{Batch, Model};
use crate::python::tools;

/// The folder with the model's weights.
pub(crate) fn folder() -> PathBuf {
    tools().join("minilm")
}

/// Whether the weights are there.
pub(crate) fn is_there() -> bool {
    folder().join("model.safetensors").is_file()
}

/// Vectors of sentences of as many tokens each. The other contestants have the same ids.
pub(crate) fn contestant(device: &Device, sentences: usize, tokens: usize) -> Result<Contestant<'static>> {
    let model = Model::load(device, &folder())?;
    let id = |i: usize| (i * 37 % 1009 + 1000) as i32;
    let given: Vec<Vec<i32>> = (0..sentences).map(|s| (s * tokens..(s + 1) * tokens).map(id).collect()).collect();
    let mut memory = model.memory(&Batch::new(&given))?;
    let mut run = move || model.embed_in(&Batch::new(&given), &mut memory);
    let sample = sample(&run()?.to_vec::<f32>()?, |x| x);
    Ok(Contestant::here("epilogue", sample, move || drop(run().expect("it ran before"))))
}
