//! A whole transformer, all-MiniLM-L6-v2, with only this library's fused GEMMs and tensor-expression kernels:
//! embeddings of sentences, and how similar they are.
//!
//! ```text
//! cargo xtask fetch-minilm
//! cargo run --release -p epilogue-minilm -- "A cat sat on the mat." "A kitten was sitting on a rug."
//! ```
//!
//! It has two forms: products with epilogues by hand (`model.rs`), and one program of tensor expressions (`program.rs`) that
//! `epilogue::fuse` cuts into the same products. `--program` runs the second one and tells what each of its kernels is;
//! `--svg FILE` draws them.
//!
//! `--device cuda` runs on the first GPU; `--device emulated` runs the embeddings and the first layer of the first sentence
//! in ptx-vm and compares them with the CPU's; `--check FILE` runs the sentences of a reference
//! (`tests/golden/minilm/reference.json`, made by the numpy script beside it) and compares with its embeddings.

#![allow(clippy::print_stdout)]

#[path = "../common/epilogues.rs"]
mod epilogues;
mod folder;
mod kernels;
mod model;
mod program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use epilogue::{Arch, Device, DeviceTensor, Gemm};
use tokenizers::Tokenizer;

use self::epilogues::Plain;
use self::model::{Batch, Model};
use self::program::Program;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// `max_seq_length` of the model's `sentence_bert_config.json`.
const LONGEST: usize = 256;

/// The largest difference from the reference that counts as equal.
const TOLERANCE: f64 = 1e-4;

const SENTENCES: [&str; 4] = [
    "A matrix product is only as fast as the memory traffic around it.",
    "GEMM speed is limited by how often data moves.",
    "The cat sat on the mat.",
    "A kitten was sitting on a rug!",
];

enum On {
    Cpu,
    Cuda,
    Emulated,
}

struct Arguments {
    on: On,
    program: bool,
    svg: Option<PathBuf>,
    check: Option<PathBuf>,
    sentences: Vec<String>,
}

const USAGE: &str = "minilm [--device cpu|cuda|emulated] [--program [--svg FILE]] [--check FILE] [SENTENCE…]
    After `--`, everything is a sentence.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let folder = folder::of_model()?;
    let tokenizer = tokenizer(&folder)?;
    if let Some(reference) = &arguments.check {
        return check(&arguments, &folder, &tokenizer, reference);
    }
    let sentences = match arguments.sentences.is_empty() {
        true => SENTENCES.map(str::to_owned).to_vec(),
        false => arguments.sentences.clone(),
    };
    let tokens = sentences.iter().map(|sentence| encode(&tokenizer, sentence)).collect::<Result<Vec<_>>>()?;
    if matches!(arguments.on, On::Emulated) {
        if arguments.program {
            return Err(
                "--program computes all layers, which take too long on the emulated device; leave one out".into()
            );
        }
        return one_layer(&folder, &tokens[0]);
    }
    let device = arguments.device()?;
    println!("device: {device}");
    let embeddings = embeddings(&arguments, &device, &folder, &tokens)?;
    let similarity = similarity(&embeddings)?;
    for (i, sentence) in sentences.iter().enumerate() {
        let cut = if tokens[i].len() == LONGEST { ", cut there, where the model ends" } else { "" };
        println!("{}. {sentence} ({} tokens{cut})", i + 1, tokens[i].len());
    }
    println!("\ncosine similarity");
    for row in similarity.chunks(sentences.len()) {
        println!("{}", row.iter().map(|x| format!("{x:8.4}")).collect::<String>());
    }
    Ok(())
}

/// The sentences' vectors, by the form of the model that is asked for.
fn embeddings(arguments: &Arguments, device: &Device, folder: &Path, tokens: &[Vec<i32>]) -> Result<DeviceTensor> {
    if !arguments.program {
        return Model::load(device, folder)?.embed(&Batch::new(tokens));
    }
    let program = Program::load(device, folder)?;
    if let Some(file) = &arguments.svg {
        let written = std::fs::write(file, program.regions.to_svg());
        written.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let vectors = program.embed(tokens)?;
    println!("{}\n", program.choice());
    Ok(vectors)
}

/// The dot products of all vectors with all vectors.
fn similarity(vectors: &DeviceTensor) -> Result<Vec<f32>> {
    let (count, columns) = (vectors.shape()[0], vectors.transpose()?);
    let mut d = vectors.device().zeros::<f32>([count, count])?;
    Gemm::plan::<Plain>(vectors.device(), vectors, &columns)?.run(vectors, &columns, Plain { d: &mut d })?;
    Ok(d.to_vec()?)
}

/// The embeddings of a reference's sentences, against the reference.
fn check(arguments: &Arguments, folder: &Path, tokenizer: &Tokenizer, reference: &Path) -> Result<()> {
    let device = arguments.device()?;
    let unread = |error: &dyn std::fmt::Display| format!("{}: {error}", reference.display());
    let text = std::fs::read_to_string(reference).map_err(|error| unread(&error))?;
    let reference: serde_json::Value = serde_json::from_str(&text).map_err(|error| unread(&error))?;
    let list = |name: &str| reference[name].as_array().cloned().ok_or(format!("the reference has no {name}"));
    let mut tokens = Vec::new();
    for (sentence, expected) in list("sentences")?.iter().zip(list("tokens")?) {
        let sentence = sentence.as_str().ok_or("a sentence that is not text")?;
        let ids = encode(tokenizer, sentence)?;
        if serde_json::json!(ids) != expected {
            return Err(format!("the tokens of {sentence:?} are {ids:?}, the reference has {expected}").into());
        }
        tokens.push(ids);
    }
    let embeddings = embeddings(arguments, &device, folder, &tokens)?;
    let similarity = similarity(&embeddings)?;
    let worst = |name: &str, found: &[f32]| -> Result<f64> {
        let expected: Vec<f64> = list(name)?
            .iter()
            .flat_map(|row| row.as_array().cloned().unwrap_or_default())
            .filter_map(|x| x.as_f64())
            .collect();
        if expected.len() != found.len() {
            return Err(format!("{name}: {} values, the reference has {}", found.len(), expected.len()).into());
        }
        // A NaN counts as the worst difference.
        let difference = |(x, y): (&f32, &f64)| (f64::from(*x) - y).abs();
        Ok(found.iter().zip(&expected).map(difference).fold(0.0, |a, b| if b <= a { a } else { b }))
    };
    for (name, found) in [("embeddings", embeddings.to_vec::<f32>()?), ("similarity", similarity)] {
        let worst = worst(name, &found)?;
        println!("{name} on {device}: within {worst:.2e} of the reference");
        if worst.is_nan() || worst > TOLERANCE {
            return Err(format!("{name} differ by {worst:e}, more than {TOLERANCE:e}").into());
        }
    }
    Ok(())
}

/// The embeddings and the first layer in ptx-vm, against the CPU.
fn one_layer(folder: &Path, tokens: &[i32]) -> Result<()> {
    let batch = Batch::new(&[tokens.to_vec()]);
    let run = |device: &Device| -> Result<Vec<f32>> {
        let model = Model::load(device, folder)?;
        let (mut x, mut memory) = (model.tokens(&batch)?, model.memory(&batch)?);
        model.layer(0, &mut x, &batch, &mut memory)?;
        Ok(x.to_vec::<f32>()?)
    };
    let device = Device::emulated(Arch::SM_80)?;
    let (emulated, expected) = (run(&device)?, run(&Device::cpu())?);
    let worst = emulated.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    println!("{} tokens through the first layer on {device}: within {worst:.2e} of the CPU", tokens.len());
    if emulated.iter().all(|x| x.is_finite()) && f64::from(worst) <= TOLERANCE {
        Ok(())
    } else {
        Err(format!("the first layer differs by {worst:e}, more than {TOLERANCE:e}").into())
    }
}

impl Arguments {
    /// The arguments; `None` if only help is wanted.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut arguments = Self { on: On::Cpu, program: false, svg: None, check: None, sentences: Vec::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--device" => {
                    arguments.on = match words.next().as_deref() {
                        Some("cpu") => On::Cpu,
                        Some("cuda") => On::Cuda,
                        Some("emulated") => On::Emulated,
                        other => {
                            let given = other.unwrap_or("nothing");
                            return Err(format!("--device {given}: it must be cpu, cuda or emulated").into());
                        }
                    }
                }
                "--program" => arguments.program = true,
                "--svg" => arguments.svg = Some(words.next().ok_or("--svg needs a file")?.into()),
                "-h" | "--help" => return Ok(None),
                "--" => arguments.sentences.extend(words.by_ref()),
                "--check" => arguments.check = Some(words.next().ok_or("--check needs a file")?.into()),
                option if option.starts_with("--") => {
                    return Err(format!("unknown option {option}\n{USAGE}").into());
                }
                _ => arguments.sentences.push(word),
            }
        }
        if arguments.svg.is_some() && !arguments.program {
            return Err("--svg draws what --program is cut into; give both".into());
        }
        Ok(Some(arguments))
    }

    fn device(&self) -> Result<Device> {
        Ok(match self.on {
            On::Cpu => Device::cpu(),
            On::Cuda => Device::cuda(0)?,
            On::Emulated => Device::emulated(Arch::SM_80)?,
        })
    }
}

fn tokenizer(folder: &Path) -> Result<Tokenizer> {
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    let truncation = tokenizers::TruncationParams { max_length: LONGEST, ..Default::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

fn encode(tokenizer: &Tokenizer, sentence: &str) -> Result<Vec<i32>> {
    let encoding = tokenizer.encode(sentence, true).map_err(|error| error.to_string())?;
    Ok(encoding.get_ids().iter().map(|id| *id as i32).collect())
}
