//! The model: BERT's encoder with 6 layers, normalised after each block, whose token vectors are averaged.

use std::ops::Range;
use std::path::Path;

use epilogue::gemm::{self, Major, OperandLayout, Packed, Right};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, ElementType};
use safetensors::SafeTensors;

use crate::Result;
use crate::epilogues::{Bias, BiasGelu};
use crate::kernels::{Kernels, LinearResidual, Scaled};

pub(crate) const HIDDEN: usize = 384;
pub(crate) const INTERMEDIATE: usize = 1536;
pub(crate) const HEADS: usize = 12;
/// The width of a head.
pub(crate) const WIDTH: usize = HIDDEN / HEADS;
pub(crate) const LAYERS: usize = 6;
/// `layer_norm_eps` of the model's configuration.
pub(crate) const EPSILON: f64 = 1e-12;

/// Several sentences, one after the other.
pub(crate) struct Batch {
    ids: Vec<i32>,
    positions: Vec<i32>,
    lengths: Vec<usize>,
}

impl Batch {
    pub(crate) fn new(sentences: &[Vec<i32>]) -> Self {
        Self {
            ids: sentences.concat(),
            positions: sentences.iter().flat_map(|sentence| 0..sentence.len() as i32).collect(),
            lengths: sentences.iter().map(Vec::len).collect(),
        }
    }

    /// The range of each sentence's tokens.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end - length..*end)
        })
    }

    /// Neighbouring sentences of equal length: the range of their tokens, how many they are, and the tokens of each.
    fn alike(&self) -> impl Iterator<Item = (Range<usize>, usize, usize)> {
        self.lengths.chunk_by(|a, b| a == b).scan(0, |end, alike| {
            let (count, length) = (alike.len(), alike[0]);
            *end += count * length;
            Some((*end - count * length..*end, count, length))
        })
    }
}

/// Memory for the values of layers, which use it one after the other.
pub(crate) struct Memory {
    qkv: DeviceTensor,
    context: DeviceTensor,
    /// Room for the scores of some products, and for as many weights.
    scores: DeviceTensor,
    weights: DeviceTensor,
    sum: DeviceTensor,
    expanded: DeviceTensor,
}

/// A linear layer's parameters: the weights as the B of a product, `[in, out]`.
struct Dense {
    weight: Weight,
    bias: DeviceTensor,
}

/// Weights as a device multiplies them.
enum Weight {
    /// Packed once, on the CPU.
    Packed(Packed),
    /// As they lie, on GPUs.
    Tensor(DeviceTensor),
}

impl Weight {
    fn new(weight: DeviceTensor, gemm: &Gemm<Bias>) -> Result<Self> {
        match gemm.pack(&weight) {
            Ok(packed) => Ok(Self::Packed(packed)),
            Err(gemm::Error::NoPacking { .. }) => Ok(Self::Tensor(weight)),
            Err(error) => Err(error.into()),
        }
    }
}

impl<'a> From<&'a Weight> for Right<'a> {
    fn from(weight: &'a Weight) -> Self {
        match weight {
            Weight::Packed(packed) => packed.into(),
            Weight::Tensor(tensor) => tensor.into(),
        }
    }
}

/// A normalisation's parameters.
struct Norm {
    weight: DeviceTensor,
    bias: DeviceTensor,
}

struct Layer {
    /// Query, key and value as one product.
    attention: Dense,
    joined: Dense,
    attention_norm: Norm,
    expand: Dense,
    contract: Dense,
    norm: Norm,
}

/// The parameters and kernels on a device.
pub(crate) struct Model {
    device: Device,
    kernels: Kernels,
    linear: Gemm<Bias>,
    gelu: Gemm<BiasGelu>,
    residual: Gemm<LinearResidual>,
    scaled: Gemm<Scaled>,
    word: DeviceTensor,
    place: DeviceTensor,
    kind: DeviceTensor,
    embedding_norm: Norm,
    layers: Vec<Layer>,
}

impl Model {
    pub(crate) fn load(device: &Device, folder: &Path) -> Result<Self> {
        let file = std::fs::read(folder.join("model.safetensors"))?;
        // One plan for each epilogue is enough: extents are arguments of a run.
        macro_rules! plan {
            ($epilogue:ident) => {
                Gemm::builder::<$epilogue>(device)
                    .elements(ElementType::F32, ElementType::F32)
                    .problem(64, HIDDEN, HIDDEN)
                    .layouts(OperandLayout::packed(Major::K), OperandLayout::packed(Major::K))
                    .plan()?
            };
        }
        let linear = plan!(Bias);
        let weights = Weights { device, file: SafeTensors::deserialize(&file)?, linear: &linear };
        let words = weights.file.tensor("embeddings.word_embeddings.weight")?.shape()[0];
        let kinds = weights.tensor("embeddings.token_type_embeddings.weight", &[2, HIDDEN])?;
        Ok(Self {
            device: device.clone(),
            kernels: Kernels::new(device, EPSILON)?,
            gelu: plan!(BiasGelu),
            residual: plan!(LinearResidual),
            scaled: plan!(Scaled),
            word: weights.tensor("embeddings.word_embeddings.weight", &[words, HIDDEN])?,
            place: weights.tensor("embeddings.position_embeddings.weight", &[512, HIDDEN])?,
            kind: kinds.slice(0, 0..1)?.reshape([HIDDEN])?,
            embedding_norm: weights.norm("embeddings.LayerNorm")?,
            layers: (0..LAYERS).map(|i| weights.layer(&format!("encoder.layer.{i}"))).collect::<Result<_>>()?,
            linear,
        })
    }

    /// The sentences' vectors, `[sentences, 384]`, each with length 1.
    pub(crate) fn embed(&self, batch: &Batch) -> Result<DeviceTensor> {
        self.embed_in(batch, &mut self.memory(batch)?)
    }

    /// Computes the vectors in memory for the batch. The memory may be used again for the next batch of that shape.
    pub(crate) fn embed_in(&self, batch: &Batch, memory: &mut Memory) -> Result<DeviceTensor> {
        let mut x = self.tokens(batch)?;
        for layer in 0..LAYERS {
            self.layer(layer, &mut x, batch, memory)?;
        }
        let (kernels, inputs) = (&self.kernels, &self.kernels.inputs);
        let means = self.device.zeros::<f32>([batch.lengths.len(), HIDDEN])?;
        for (i, range) in batch.ranges().enumerate() {
            let mut mean = means.slice(0, i..i + 1)?.reshape([HIDDEN])?;
            let rows = x.slice(0, range)?;
            kernels.mean.run_bound(&[(&inputs.x, (&rows).into()), (&kernels.mean.outputs()[0], (&mut mean).into())])?;
        }
        let mut unit = self.device.zeros::<f32>(means.shape())?;
        kernels.unit.run_bound(&[(&inputs.x, (&means).into()), (&kernels.unit.outputs()[0], (&mut unit).into())])?;
        Ok(unit)
    }

    /// The tokens' first vectors.
    pub(crate) fn tokens(&self, batch: &Batch) -> Result<DeviceTensor> {
        let count = batch.ids.len();
        let ids = self.device.tensor(&batch.ids, [count])?;
        let positions = self.device.tensor(&batch.positions, [count])?;
        let mut x = self.device.zeros::<f32>([count, HIDDEN])?;
        let Norm { weight, bias } = &self.embedding_norm;
        let (kernel, inputs) = (&self.kernels.embed, &self.kernels.inputs);
        kernel.run_bound(&[
            (&inputs.ids, (&ids).into()),
            (&inputs.positions, (&positions).into()),
            (&inputs.word, (&self.word).into()),
            (&inputs.place, (&self.place).into()),
            (&inputs.kind, (&self.kind).into()),
            (&inputs.weight, weight.into()),
            (&inputs.bias, bias.into()),
            (&kernel.outputs()[0], (&mut x).into()),
        ])?;
        Ok(x)
    }

    /// Memory for all layers.
    pub(crate) fn memory(&self, batch: &Batch) -> Result<Memory> {
        let rows = batch.ids.len();
        let most = batch.alike().map(|(_, count, tokens)| count.max(HEADS) * tokens * tokens).max().unwrap_or(0);
        let zeros = |width: usize| self.device.zeros::<f32>([rows, width]);
        Ok(Memory {
            qkv: zeros(3 * HIDDEN)?,
            context: zeros(HIDDEN)?,
            scores: self.device.zeros::<f32>([most])?,
            weights: self.device.zeros::<f32>([most])?,
            sum: zeros(HIDDEN)?,
            expanded: zeros(INTERMEDIATE)?,
        })
    }

    /// One layer of the encoder, in place.
    pub(crate) fn layer(&self, layer: usize, x: &mut DeviceTensor, batch: &Batch, memory: &mut Memory) -> Result<()> {
        let layer = &self.layers[layer];
        self.attention(layer, x, batch, memory)?;
        self.residual(&layer.joined, &memory.context, &mut memory.sum, x, &layer.attention_norm)?;
        let Dense { weight, bias } = &layer.expand;
        self.gelu.run(&*x, weight, BiasGelu { bias, d: &mut memory.expanded })?;
        self.residual(&layer.contract, &memory.expanded, &mut memory.sum, x, &layer.norm)
    }

    /// `x = norm(input · weight + bias + x)`
    fn residual(
        &self,
        dense: &Dense,
        input: &DeviceTensor,
        sum: &mut DeviceTensor,
        x: &mut DeviceTensor,
        norm: &Norm,
    ) -> Result<()> {
        self.residual.run(input, &dense.weight, LinearResidual { bias: &dense.bias, residual: &*x, d: &mut *sum })?;
        let (kernel, inputs) = (&self.kernels.layer_norm, &self.kernels.inputs);
        kernel.run_bound(&[
            (&inputs.x, (&*sum).into()),
            (&inputs.weight, (&norm.weight).into()),
            (&inputs.bias, (&norm.bias).into()),
            (&kernel.outputs()[0], x.into()),
        ])?;
        Ok(())
    }

    /// Every sentence attends to itself, in batched products: of a sentence's heads or, where many sentences are equally long,
    /// of a head's sentences.
    fn attention(&self, layer: &Layer, x: &DeviceTensor, batch: &Batch, memory: &mut Memory) -> Result<()> {
        let Dense { weight, bias } = &layer.attention;
        self.linear.run(x, weight, Bias { bias, d: &mut memory.qkv })?;
        for (range, count, tokens) in batch.alike() {
            let of = |x: &DeviceTensor| x.slice(0, range.clone())?.reshape([count, tokens, x.shape()[1]]);
            let (qkv, context) = (of(&memory.qkv)?, of(&memory.context)?);
            let parts = |of: &dyn Fn(&DeviceTensor, usize) -> Result<DeviceTensor>| -> Result<[DeviceTensor; 4]> {
                Ok([of(&qkv, 0)?, of(&qkv, 1)?, of(&qkv, 2)?, of(&context, 0)?])
            };
            if count > HEADS {
                for head in 0..HEADS {
                    let of_head = |x: &DeviceTensor, i: usize| -> Result<DeviceTensor> {
                        let first = i * HIDDEN + head * WIDTH;
                        Ok(x.slice(2, first..first + WIDTH)?)
                    };
                    self.attend(parts(&of_head)?, memory)?;
                }
            } else {
                for sentence in 0..count {
                    let of_sentence = |x: &DeviceTensor, i: usize| {
                        let own = x.slice(0, sentence..sentence + 1)?.reshape([tokens, x.shape()[2]])?;
                        heads(&own.slice(1, i * HIDDEN..(i + 1) * HIDDEN)?)
                    };
                    self.attend(parts(&of_sentence)?, memory)?;
                }
            }
        }
        Ok(())
    }

    /// Some heads of some sentences, each `[tokens, width]`: query, key, value and what becomes of them.
    fn attend(&self, [query, key, value, mut d]: [DeviceTensor; 4], memory: &Memory) -> Result<()> {
        let shape = [query.shape()[0], query.shape()[1], query.shape()[1]];
        let of = |x: &DeviceTensor| x.slice(0, 0..shape.iter().product::<usize>())?.reshape(shape);
        let (mut scores, mut weights) = (of(&memory.scores)?, of(&memory.weights)?);
        let scale = 1.0 / (WIDTH as f64).sqrt();
        self.scaled.run(&query, &key.permute(&[0, 2, 1])?, Scaled { scale, d: &mut scores })?;
        let softmax = &self.kernels.softmax;
        softmax.run_bound(&[
            (&self.kernels.inputs.scores, (&scores).into()),
            (&softmax.outputs()[0], (&mut weights).into()),
        ])?;
        self.scaled.run(&weights, &value, Scaled { scale: 1.0, d: &mut d })?;
        Ok(())
    }
}

/// `[tokens, heads · width]` seen as `[heads, tokens, width]`.
fn heads(x: &DeviceTensor) -> Result<DeviceTensor> {
    Ok(x.reshape([x.shape()[0], HEADS, WIDTH])?.permute(&[1, 0, 2])?)
}

struct Weights<'a> {
    device: &'a Device,
    file: SafeTensors<'a>,
    /// A plan that packs weights for all.
    linear: &'a Gemm<Bias>,
}

impl Weights<'_> {
    /// A tensor's values; its shape must be the one given.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let view = self.file.tensor(name)?;
        if view.shape() != shape {
            return Err(format!("{name} has shape {:?}, this model needs {shape:?}", view.shape()).into());
        }
        Ok(view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<DeviceTensor> {
        Ok(self.device.tensor(&self.values(name, shape)?, shape)?)
    }

    fn norm(&self, name: &str) -> Result<Norm> {
        let part = |part| self.tensor(&format!("{name}.{part}"), &[HIDDEN]);
        Ok(Norm { weight: part("weight")?, bias: part("bias")? })
    }

    /// Several linear layers of the same input, side by side. Their weights are stored `[out, in]`.
    fn dense(&self, names: &[String], outputs: usize, inputs: usize) -> Result<Dense> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            weight.extend(self.values(&format!("{name}.weight"), &[outputs, inputs])?);
            bias.extend(self.values(&format!("{name}.bias"), &[outputs])?);
        }
        let all = names.len() * outputs;
        let weight = self.device.tensor(&weight, [all, inputs])?.transpose()?;
        Ok(Dense { weight: Weight::new(weight, self.linear)?, bias: self.device.tensor(&bias, [all])? })
    }

    fn layer(&self, prefix: &str) -> Result<Layer> {
        let name = |rest: &str| format!("{prefix}.{rest}");
        let attention = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        Ok(Layer {
            attention: self.dense(&attention, HIDDEN, HIDDEN)?,
            joined: self.dense(&[name("attention.output.dense")], HIDDEN, HIDDEN)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            expand: self.dense(&[name("intermediate.dense")], INTERMEDIATE, HIDDEN)?,
            contract: self.dense(&[name("output.dense")], HIDDEN, INTERMEDIATE)?,
            norm: self.norm(&name("output.LayerNorm"))?,
        })
    }
}
