//! Tensor expressions: reductions on fresh random shapes against exact sums, and their speed in bytes per second.

use epilogue::te::{self, DType, Tensor};
use epilogue::{Device, DeviceTensor, ElementType};
use half::f16;
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;
use crate::steps::Step;
use crate::timing::{Contender, Timer};

pub(crate) fn steps() -> Vec<Step> {
    let mut steps = vec![Step::new("correctness/te/sum", 1, 20, sums)];
    for &(operation, element, ref shape, tier) in SPEEDS {
        let name = format!("speed/te/{operation}/{element}/{shape:?}");
        steps.push(Step::new(name, tier, 10, move |machine| speed(machine, operation, element, shape)));
    }
    steps.push(Step::new("peers/cub", 1, 90, crate::peers::cub));
    steps.push(Step::new("peers/torch/te", 1, 90, |machine| crate::peers::python(machine, "torch_te.py", &[])));
    steps
}

/// What is summed: along the last axis of `shape` ("row sums"), along the first ("column sums").
const SPEEDS: &[(&str, ElementType, &[usize], u8)] = &[
    ("sum", ElementType::F32, &[1, 1 << 28], 1),
    ("sum", ElementType::F32, &[1, 1 << 24], 1),
    ("sum", ElementType::F32, &[1, 1 << 20], 2),
    ("row sums", ElementType::F32, &[8192, 8192], 1),
    ("row sums", ElementType::F16, &[8192, 8192], 1),
    ("column sums", ElementType::F32, &[8192, 8192], 1),
    ("column sums", ElementType::F16, &[8192, 8192], 1),
    ("row sums", ElementType::F32, &[1 << 22, 16], 2),
    ("column sums", ElementType::F32, &[1 << 22, 16], 2),
];

/// `B[i] = sum over k of A[i, k]` (or `A[k, i]`), in f32.
fn sum(element: ElementType, columns: bool) -> Outcome<Tensor> {
    let (n, m) = (te::var("n"), te::var("m"));
    let dtype = DType::Number(element);
    let f32 = DType::Number(ElementType::F32);
    if columns {
        let a = te::placeholder_of(dtype, [m, n], "A");
        let k = te::reduce_axis((0, m), "k");
        Ok(te::compute([n], "B", |[i]| te::sum(a.at([k, i]).cast(f32), [k]))?)
    } else {
        let a = te::placeholder_of(dtype, [n, m], "A");
        let k = te::reduce_axis((0, m), "k");
        Ok(te::compute([n], "B", |[i]| te::sum(a.at([i, k]).cast(f32), [k]))?)
    }
}

/// Sums of small integers, which every order of summation gives exactly.
fn sums(machine: &Machine) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (cases, largest) = if machine.is_rehearsal() { (2, 60) } else { (12, 3000) };
    let (mut right, mut records) = (0, Vec::new());
    for element in [ElementType::F32, ElementType::F16] {
        for columns in [false, true] {
            let kernel = te::auto::reduce(&sum(element, columns)?)?.build(device)?;
            for _ in 0..cases {
                let (n, m) = (random.usize(0..largest), random.usize(0..largest));
                let values: Vec<i32> = (0..n * m).map(|_| random.i32(-4..=4)).collect();
                let shape = if columns { [m, n] } else { [n, m] };
                let a = tensor(device, element, &values, shape)?;
                let mut b = device.full([n], f32::NAN)?;
                kernel.run(&[(&a).into(), (&mut b).into()])?;
                let at = |i: usize, k: usize| if columns { values[k * n + i] } else { values[i * m + k] };
                let expected = (0..n).map(|i| (0..m).map(|k| at(i, k)).sum::<i32>() as f32);
                if expected.eq(b.to_vec::<f32>()?) {
                    right += 1;
                } else {
                    let what = format!("{element} sums of {shape:?}, columns {columns}: {}", kernel.choice());
                    records.push(json!({"kind": "wrong", "family": "te/sum", "seed": seed, "what": what}));
                }
            }
        }
    }
    records.push(json!({"kind": "correct", "family": "te/sum", "seed": seed, "cases": right}));
    Ok(records)
}

fn tensor(device: &Device, element: ElementType, values: &[i32], shape: [usize; 2]) -> Outcome<DeviceTensor> {
    Ok(match element {
        ElementType::F16 => {
            device.tensor(&values.iter().map(|x| f16::from_f32(*x as f32)).collect::<Vec<_>>(), shape)?
        }
        _ => device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape)?,
    })
}

fn speed(machine: &Machine, operation: &str, element: ElementType, shape: &[usize]) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let shape: Vec<usize> = match machine.is_rehearsal() {
        true => shape.iter().map(|extent| (*extent).min(48)).collect(),
        false => shape.to_vec(),
    };
    let columns = operation == "column sums";
    let outputs = if columns { shape[1] } else { shape[0] };
    let bytes = shape.iter().product::<usize>() * element.size() + outputs * 4;
    let count = if machine.is_rehearsal() { 1 } else { (180 << 20) / bytes + 1 };
    let kernel = te::auto::reduce(&sum(element, columns)?)?.build(device)?;
    let mut sets = (0..count)
        .map(|i| Ok((crate::gemm::normal(device, element, &shape, i as u32)?, device.zeros::<f32>([outputs])?)))
        .collect::<Outcome<Vec<_>>>()?;
    let run = Box::new(|i: usize| {
        let (a, b) = &mut sets[i % count];
        Ok(kernel.run(&[(&*a).into(), b.into()])?)
    });
    let times = Timer::new(device)?.race(&mut [Contender { name: "epilogue".into(), run }])?;
    let contender = match machine.is_rehearsal() {
        true => json!({"name": "epilogue"}),
        false => json!({
            "name": "epilogue", "ms": times[0].median, "fastest_ms": times[0].fastest, "slowest_ms": times[0].slowest,
            "tb_per_s": bytes as f64 / (times[0].median * 1e9),
        }),
    };
    Ok(vec![json!({
        "kind": "speed", "what": "te", "operation": operation, "dtype": element.to_string(), "shape": shape,
        "choice": kernel.choice(), "contenders": [contender],
    })])
}
