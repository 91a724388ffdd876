//! Infinities, NaN, huge and tiny numbers, at every index: every path follows the same rule. The rule is PyTorch's,
//! computed here in f64 from the definition.

use epilogue::ElementType;
use epilogue::te::{self, Array, TeError, Tensor, ops, var};

use super::{devices, matrix, run, upload};

const LEN: usize = 7;

/// Every special number at every index of a line of ordinary numbers, and lines of special numbers only.
fn lines() -> Vec<[f64; LEN]> {
    let ordinary = [0.5, -1.25, 3.0, 2.0, -0.75, 8.0, 1.0];
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3e38, -3e38, 1e30, -1e30, 1e-30, 1e-44, -1e-20];
    let mut lines = vec![ordinary];
    for x in special {
        lines.push([x; LEN]);
        for place in 0..LEN {
            let mut line = ordinary;
            line[place] = x;
            lines.push(line);
            // Two of them, with opposite signs, and among small numbers.
            line[(place + 3) % LEN] = -x;
            lines.push(line);
            lines.push(std::array::from_fn(|i| if i == place { x } else { 1e-30 * ordinary[i] }));
        }
    }
    for place in 0..LEN {
        let huge = [1e30, -1e30, 1e38, 3e38, -3e38, 2e38, 1e19];
        lines.push(std::array::from_fn(|i| huge[(i + place) % LEN]));
        lines.push(std::array::from_fn(|i| [1e19, -1e19, 3e18, 9e18, 1e18, -4e18, 2e18][(i + place) % LEN]));
        lines.push(std::array::from_fn(|i| [1e-18, -1e-18, 3e-18, 9e-19, 1e-19, -4e-19, 0.0][(i + place) % LEN]));
    }
    lines.iter().map(|line| line.map(|x| f64::from(x as f32))).collect()
}

fn moments(line: &[f64]) -> (f64, f64) {
    let n = line.len() as f64;
    let mean = line.iter().sum::<f64>() / n;
    (mean, line.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}

fn single(x: f64) -> f64 {
    f64::from(x as f32)
}

fn variance(line: &[f64]) -> Vec<f64> {
    vec![single(moments(line).1 * LEN as f64 / (LEN as f64 - 1.0))]
}

fn deviation(line: &[f64]) -> Vec<f64> {
    vec![single((moments(line).1 * LEN as f64 / (LEN as f64 - 1.0)).sqrt())]
}

fn layer_norm(line: &[f64]) -> Vec<f64> {
    let (mean, var) = moments(line);
    line.iter().map(|x| if single(var).is_infinite() { 0.0 } else { (x - mean) / (var + 1e-5).sqrt() }).collect()
}

fn rms_norm(line: &[f64]) -> Vec<f64> {
    let squares = single(line.iter().map(|x| x * x).sum::<f64>());
    line.iter().map(|x| x / (squares / LEN as f64 + 1e-5).sqrt()).collect()
}

fn norm(line: &[f64]) -> Vec<f64> {
    vec![single(line.iter().map(|x| x * x).sum::<f64>()).sqrt()]
}

/// The sum in f32, for lines in which its order doesn't matter.
fn mean(line: &[f64]) -> Vec<f64> {
    let least = line.iter().copied().fold(0.0, f64::min);
    let magnitudes: f64 = line.iter().map(|x| x.abs()).sum();
    if line.iter().all(|x| x.is_finite()) && least < 0.0 && single(magnitudes).is_infinite() {
        return Vec::new();
    }
    vec![single(line.iter().sum::<f64>()) / LEN as f64]
}

type Operation = (&'static str, fn(&Tensor, usize) -> Result<Tensor, TeError>, fn(&[f64]) -> Vec<f64>);

const OPERATIONS: [Operation; 6] = [
    ("var", |a, d| ops::var(a, d, 1.0), variance),
    ("std", |a, d| ops::std(a, d, 1.0), deviation),
    ("mean", |a, d| ops::mean(a, d), mean),
    ("norm", |a, d| ops::norm(a, d), norm),
    ("layer_norm", |a, d| ops::layer_norm(a, d, None, None, 1e-5), layer_norm),
    ("rms_norm", |a, d| ops::rms_norm(a, d, None, 1e-5), rms_norm),
];

/// `got` has one result for each line, or the layout of the input.
fn check(name: &str, got: &[f64], lines: &[[f64; LEN]], dimension: usize, rule: fn(&[f64]) -> Vec<f64>, path: &str) {
    let count = lines.len();
    for (at, line) in lines.iter().enumerate() {
        for (k, wanted) in rule(line).into_iter().enumerate() {
            let place = match (got.len() == count, dimension) {
                (true, _) => at,
                (false, 1) => at * LEN + k,
                (false, _) => k * count + at,
            };
            let got = got[place];
            let size = line.iter().filter(|x| x.is_finite()).fold(0.0, |a: f64, x| a.max(x.abs()));
            let normalised = name.ends_with("_norm");
            // A mean may cancel; normalised values are about 1.
            let scale = if normalised {
                1.0
            } else if name == "mean" {
                size
            } else {
                wanted.abs()
            };
            let near = (got - wanted).abs() <= 1e-5 * scale + 1e-44;
            let same = got == wanted || (got.is_nan() && wanted.is_nan()) || near;
            assert!(same, "{name} over {dimension} {path}: {got}, not {wanted}, for {line:?}");
        }
    }
}

#[test]
fn special_numbers_at_every_place() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("special_numbers_at_every_place").is_none() {
        return Ok(());
    }
    let lines = lines();
    for dimension in [0, 1] {
        let shape = if dimension == 1 { [lines.len(), LEN] } else { [LEN, lines.len()] };
        let place =
            |at: usize| if dimension == 1 { (at / LEN, at % LEN) } else { (at % lines.len(), at / lines.len()) };
        let values: Vec<f64> = (0..lines.len() * LEN).map(|at| lines[place(at).0][place(at).1]).collect();
        for (name, operation, rule) in OPERATIONS {
            let a = matrix(ElementType::F32);
            let result = operation(&a, dimension)?;
            let shape_of_result = if name.ends_with("_norm") { shape.to_vec() } else { vec![lines.len()] };
            for device in devices() {
                let input = upload(&device, ElementType::F32, &values, &shape)?;
                let kernel = te::auto::reduce(&result)?.build(&device)?;
                let got = run(&kernel, &[&input], &shape_of_result)?;
                check(name, &got, &lines, dimension, rule, &format!("on {device}, {}", kernel.choice()));
            }
            let program = te::lower(&te::create_schedule(&[&result]), &[&a, &result], "main")?;
            let mut arrays =
                [Array::new(ElementType::F32, &shape, &values)?, Array::unwritten(ElementType::F32, &shape_of_result)];
            program.interpret(&mut arrays)?;
            check(name, &arrays[1].values(), &lines, dimension, rule, "in the interpreter");
            let device = epilogue::Device::cpu();
            let (input, mut output) =
                (upload(&device, ElementType::F32, &values, &shape)?, device.zeros::<f32>(&shape_of_result)?);
            program.build(&device)?.run(&[(&input).into(), (&mut output).into()])?;
            check(name, &super::download(&output)?, &lines, dimension, rule, "scheduled, on the CPU");
        }
    }
    Ok(())
}

/// There is no wider type than f64: differences are halved before they can overflow.
#[test]
fn huge_doubles() -> Result<(), TeError> {
    let device = epilogue::Device::cpu();
    let lines: [[f64; 4]; 4] =
        [[1e200, -1e200, 1e200, 0.0], [1.7e308; 4], [1e-170, -1e-170, 0.0, 0.0], [1e150, 1e150, -1e150, 0.0]];
    for line in lines {
        let scale = line.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
        let unit: Vec<f64> = line.iter().map(|x| x / scale).collect();
        let wanted = moments(&unit).1 * scale * scale;
        for (dimension, shape) in [(1, [1, 4]), (0, [4, 1])] {
            let a = te::placeholder_of(ElementType::F64, [var("n"), var("m")], "A");
            let kernel = te::auto::reduce(&ops::var(&a, dimension, 0.0)?)?.build(&device)?;
            let got = run(&kernel, &[&upload(&device, ElementType::F64, &line, &shape)?], &[1])?[0];
            let near = (got - wanted).abs() <= 1e-14 * wanted;
            assert!(got == wanted || near, "{line:?} over {dimension}: {got}, not {wanted}");
        }
    }
    Ok(())
}
