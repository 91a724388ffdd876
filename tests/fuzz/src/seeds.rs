//! Inputs that the readers accept, to be edited.

use std::slice;

use epilogue::te::{self, Expr, Schedule, TeError, Tensor};
use epilogue_runtime::bundle::Builder;
use epilogue_runtime::{Arch, CacheKey, Source, testing};
use ptx_vm_conformance::cases;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

/// One kernel of each instruction that ptx-vm is tested on.
pub(crate) fn ptx() -> Vec<Vec<u8>> {
    cases::all().into_iter().map(|case| case.module.into_bytes()).collect()
}

pub(crate) fn schedules() -> Vec<Vec<u8>> {
    let made = [row_maximum(), threads(), running_sum()];
    made.map(|made| made.expect("a valid schedule").into_bytes()).into()
}

fn saved(schedule: &Schedule, tensors: &[&Tensor]) -> Result<String, TeError> {
    schedule.to_json(tensors)
}

/// A reduction with a condition, split and factored.
fn row_maximum() -> Result<String, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let largest = te::max_reducer();
    let b = te::compute([n], "B", |[i]| largest.over_where(a.at([i, k]), [k], Expr::from(k).not_equal(3)))?;
    let mut s = te::create_schedule(&[&b]);
    let (_, inner) = s.stage(&b)?.split(k, 16)?;
    s.rfactor(&b, inner)?;
    saved(&s, &[&a, &b])
}

/// Two stages in the threads of a GPU, the first computed where the second needs it.
fn threads() -> Result<String, TeError> {
    let a = te::placeholder([8, 24], "A");
    let twice = te::compute([8, 24], "twice", |[i, j]| a.at([i, j]) * 2.0)?;
    let shifted = te::compute([8, 24], "shifted", |[i, j]| twice.at([i, j]) + 1.0)?;
    let mut s = te::create_schedule(&[&shifted]);
    let (outer, inner) = s.stage(&shifted)?.split(shifted.axis(1)?, 8)?;
    s.stage(&shifted)?.bind(shifted.axis(0)?, te::thread_axis("blockIdx.x"))?;
    s.stage(&shifted)?.bind(inner, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&twice, &shifted, outer)?;
    saved(&s, &[&a, &shifted])
}

fn running_sum() -> Result<String, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let start = te::compute([Expr::from(1), n.into()], "start", |[_, i]| x.at([Expr::from(0), i.into()]))?;
    let update = te::compute([m, n], "update", |[t, i]| state.at([t - 1, i.into()]) + x.at([t, i]))?;
    let sums = te::scan(&start, &update, &state, slice::from_ref(&x))?;
    saved(&te::create_schedule(&[&sums]), &[&x, &sums])
}

pub(crate) fn bundles() -> Vec<Vec<u8>> {
    let mut made = vec![Builder::new().to_bytes()];
    if testing::compiler("the seeds of bundles").is_some() {
        let builder = Builder::new();
        let source = |name: &str| Source {
            origin: Some(CacheKey::of(&[name.as_bytes()])),
            ..Source::new("seed.cu", name, format!("extern \"C\" __global__ void {name}() {{}}"))
        };
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let device = builder.emulated_target(arch).expect("an emulated target");
            for name in ["first", "second"] {
                device.compile(&source(name)).expect("a kernel");
            }
        }
        made.push(builder.to_bytes());
    }
    made
}

pub(crate) fn macros() -> Vec<Vec<u8>> {
    FUNCTIONS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Items that the three macros are written over.
const FUNCTIONS: [&str; 7] = [
    "fn bias_gelu(accum: Accum, bias: RowVector, residual: Tensor<bf16>) -> Tensor {
        let d = gelu(accum + bias) + residual;
        d
    }",
    "/// D and its rows' sums.
    #[must_use]
    pub(crate) fn row_sums(accum: Accum, c: Tensor<f16>, alpha: Scalar) -> (Tensor, ColumnVector) {
        let mut d = alpha * accum;
        d += if c > 0.5 && !(c == 1.0) { c.max(-0.5) } else { exp(c) };
        let sums = reduction_op(d, (Row, Batch), Add);
        (d, sums)
    }",
    "fn causal(accum: Accum, mask: Tensor<bool>) -> Tensor {
        let d = if row() < column() || mask { 0.0 } else { accum * real(row()) };
        d
    }",
    "fn softmax(accum: Accum) -> Tensor {
        let e = exp(accum - reduction_op(accum, Row, Max));
        let weights = e / reduction_op(e, Row, Add);
        weights
    }",
    "pub fn leaky(x: f32, slope: f32) -> f32 { let y = x * slope; if x < 0.0 { y } else { x } }",
    "|accum, bias: RowVector| { let d = relu(accum + bias); d }",
    "|accum: Accum, scale: Scalar| { let d = accum * scale; let most = reduction_op(abs(d), Row, Max); (d, most) }",
];

/// A file of pip's `gguf`, and a short one, in which most edits meet the header.
pub(crate) fn gguf() -> Vec<Vec<u8>> {
    let small = include_bytes!("../../golden/formats/small.gguf");
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let longs = |longs: &[u64]| longs.iter().flat_map(|long| long.to_le_bytes()).collect::<Vec<u8>>();
    let mut short = [
        &b"GGUF"[..],
        &words(&[3]),
        &longs(&[3, 5]),
        // Text, an alignment, an array of numbers, one of text, and arrays in one.
        &text("general.architecture"),
        &words(&[8]),
        &text("llama"),
        &text("general.alignment"),
        &words(&[4, 32]),
        &text("a"),
        &words(&[9, 0]),
        &longs(&[2]),
        &[1, 2],
        &text("b"),
        &words(&[9, 8]),
        &longs(&[2]),
        &text("x"),
        &text(""),
        &text("c"),
        &words(&[9, 9]),
        &longs(&[1]),
        &words(&[7]),
        &longs(&[1]),
        &[1],
        // Tensors of f32, Q8_0 and Q4_K.
        &text("p"),
        &words(&[2]),
        &longs(&[2, 2]),
        &words(&[0]),
        &longs(&[0]),
        &text("q"),
        &words(&[1]),
        &longs(&[32]),
        &words(&[8]),
        &longs(&[32]),
        &text("r"),
        &words(&[1]),
        &longs(&[256]),
        &words(&[12]),
        &longs(&[96]),
    ]
    .concat();
    short.resize(short.len().next_multiple_of(32) + 240, 7);
    vec![short.clone(), short, small.to_vec()]
}

/// Each layer of `checkpoints.safetensors` in a file of its own.
pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let bytes = include_bytes!("../../golden/formats/checkpoints.safetensors");
    let file = SafeTensors::deserialize(bytes).expect("a safetensors file");
    let names = file.names();
    let layers = names.iter().filter_map(|name| name.strip_suffix("values"));
    let of_layer = |layer: &str| -> Vec<(String, TensorView<'_>)> {
        let own = file.iter().filter(|(name, _)| name.starts_with(layer) && !name.ends_with("values"));
        own.map(|(name, view)| (name.to_owned(), view)).collect()
    };
    layers.map(|layer| safetensors::serialize(of_layer(layer), None).expect("a safetensors file")).collect()
}
