//! The model as one program of tensor expressions, from token ids to sentences' vectors. [`fuse`] finds its products, and
//! what is computed with each of them.

use std::path::Path;

use epilogue::fuse::{self, Regions};
use epilogue::te::auto::Kernel;
use epilogue::te::{self, Axis, Expr, Tensor, ops};
use epilogue::{Device, DeviceTensor, ElementType};
use safetensors::SafeTensors;

use crate::Result;
use crate::model::{EPSILON, HEADS, HIDDEN, INTERMEDIATE, LAYERS, WIDTH};

/// The program on a device, with the model's weights.
pub(crate) struct Program {
    device: Device,
    /// `ids[sentences, tokens]`, `lengths[sentences]` and `vectors[sentences, 384]`.
    ids: Tensor,
    lengths: Tensor,
    vectors: Tensor,
    kernel: Kernel,
    /// The products and other kernels that it is cut into.
    pub(crate) regions: Regions,
}

impl Program {
    pub(crate) fn load(device: &Device, folder: &Path) -> Result<Self> {
        let file = std::fs::read(folder.join("model.safetensors"))?;
        let mut weights = Weights { device, file: SafeTensors::deserialize(&file)?, known: Vec::new() };
        let (sentences, tokens) = (te::var("sentences"), te::var("tokens"));
        let ids = te::placeholder_of(ElementType::I32, [sentences, tokens], "ids");
        let lengths = te::placeholder_of(ElementType::I32, [sentences], "lengths");
        let embeddings = ["word", "position", "token_type"].map(|of| format!("embeddings.{of}_embeddings"));
        let [word, place, kind] = embeddings.map(|name| weights.of(&name, &[]));
        let (word, place, kind) = (word?, place?, kind?);
        let x = te::compute([sentences.into(), tokens.into(), Expr::from(HIDDEN)], "embedded", |[s, t, c]| {
            word.at([ids.at([s, t]), c.into()]) + place.at([t, c]) + kind.at([Expr::int(0), c.into()])
        })?;
        let mut x = weights.norm(&x, "embeddings.LayerNorm")?;
        for layer in 0..LAYERS {
            x = weights.layer(&x, &lengths, &format!("encoder.layer.{layer}"))?;
        }
        let t = te::reduce_axis((0, tokens), "t");
        let pooled = te::compute([sentences.into(), Expr::from(HIDDEN)], "pooled", |[s, c]| {
            te::sum(t.less(lengths.at([s])).select(x.at([s.into(), Expr::from(t), c.into()]), 0.0), [t])
        })?;
        // The mean has another length, and the same direction.
        let norm = ops::norm(&pooled, -1)?;
        let vectors = te::compute(pooled.shape(), "vectors", |[s, c]| pooled.at([s, c]) / norm.at([s]))?;
        let known = weights.known.iter().map(|(weight, values)| (weight, values));
        let fused = fuse::build(&[&vectors])?.weights(known);
        let regions = fused.regions(device)?;
        Ok(Self { device: device.clone(), ids, lengths, vectors, kernel: fused.build(device)?, regions })
    }

    /// The sentences' vectors, `[sentences, 384]`, each with length 1.
    pub(crate) fn embed(&self, sentences: &[Vec<i32>]) -> Result<DeviceTensor> {
        let lengths: Vec<i32> = sentences.iter().map(|ids| ids.len() as i32).collect();
        let longest = sentences.iter().map(Vec::len).max().unwrap_or(0);
        let padded = sentences.iter().flat_map(|ids| ids.iter().copied().chain([0].repeat(longest - ids.len())));
        let ids = self.device.tensor(&padded.collect::<Vec<i32>>(), [sentences.len(), longest])?;
        let lengths = self.device.tensor(&lengths, [sentences.len()])?;
        let mut vectors = self.device.zeros::<f32>([sentences.len(), HIDDEN])?;
        let [ids, lengths] = [(&self.ids, (&ids).into()), (&self.lengths, (&lengths).into())];
        self.kernel.run_bound(&[ids, lengths, (&self.vectors, (&mut vectors).into())])?;
        Ok(vectors)
    }

    /// The kernels of the last run.
    pub(crate) fn choice(&self) -> String {
        self.kernel.choice()
    }
}

/// The model's weights: their names in the program, and the values of those that it has asked for.
struct Weights<'a> {
    device: &'a Device,
    file: SafeTensors<'a>,
    known: Vec<(Tensor, DeviceTensor)>,
}

impl Weights<'_> {
    /// The weight of a part of the model, seen in another shape if one is given.
    fn of(&mut self, part: &str, shape: &[usize]) -> Result<Tensor> {
        self.named(&format!("{part}.weight"), shape)
    }

    fn named(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let view = self.file.tensor(name)?;
        let values: Vec<f32> =
            view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let shape = if shape.is_empty() { view.shape() } else { shape };
        let tensor = te::placeholder(shape.iter().map(|extent| Expr::from(*extent)).collect::<Vec<_>>(), name);
        self.known.push((tensor.clone(), self.device.tensor(&values, shape)?));
        Ok(tensor)
    }

    fn norm(&mut self, x: &Tensor, name: &str) -> Result<Tensor> {
        let (weight, bias) = (self.of(name, &[])?, self.named(&format!("{name}.bias"), &[])?);
        Ok(ops::layer_norm(x, -1, Some(&weight), Some(&bias), EPSILON)?)
    }

    /// A linear layer as a sum of products of `x` and the weight. Its bias has the axes that the result has from the weight.
    fn linear(
        &mut self,
        x: &Tensor,
        name: &str,
        [of_x, of_weight, result]: [&str; 3],
        shape: &[usize],
    ) -> Result<Tensor> {
        let own: Vec<usize> = of_weight.chars().filter_map(|axis| result.find(axis)).collect();
        let (weight, bias) = (self.of(name, shape)?, self.named(&format!("{name}.bias"), &shape[..own.len()])?);
        let z = ops::einsum(&format!("{of_x},{of_weight}->{result}"), &[x, &weight])?;
        let of_bias = |at: &[Axis]| bias.at(own.iter().map(|d| at[*d].into()).collect::<Vec<Expr>>());
        Ok(te::compute_over(z.shape(), name, |at| vec![z.at(at) + of_bias(at)])?.swap_remove(0))
    }

    fn layer(&mut self, x: &Tensor, lengths: &Tensor, prefix: &str) -> Result<Tensor> {
        let name = |part: &str| format!("{prefix}.{part}");
        let [query, key, value] = ["query", "key", "value"].map(|part| {
            self.linear(x, &name(&format!("attention.self.{part}")), ["stc", "hdc", "shtd"], &[HEADS, WIDTH, HIDDEN])
        });
        let scores = ops::einsum("shid,shjd->shij", &[&query?, &key?])?;
        let masked = te::compute(scores.shape(), "masked", |[s, h, i, j]| {
            j.less(lengths.at([s])).select(scores.at([s, h, i, j]) / (WIDTH as f64).sqrt(), f64::NEG_INFINITY)
        })?;
        let context = ops::einsum("shij,shjd->sihd", &[&ops::softmax(&masked, -1)?, &value?])?;
        let joined =
            self.linear(&context, &name("attention.output.dense"), ["sthd", "ohd", "sto"], &[HIDDEN, HEADS, WIDTH])?;
        let x = self.norm(&sum(&joined, x)?, &name("attention.output.LayerNorm"))?;
        let z = self.linear(&x, &name("intermediate.dense"), ["stc", "oc", "sto"], &[INTERMEDIATE, HIDDEN])?;
        let expanded = te::compute(z.shape(), "expanded", |[s, t, c]| te::gelu(z.at([s, t, c])))?;
        let y = self.linear(&expanded, &name("output.dense"), ["stc", "oc", "sto"], &[HIDDEN, INTERMEDIATE])?;
        self.norm(&sum(&y, &x)?, &name("output.LayerNorm"))
    }
}

fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(te::compute(a.shape(), "sum", |[s, t, c]| a.at([s, t, c]) + b.at([s, t, c]))?)
}
