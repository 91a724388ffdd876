//! Random passes over random expressions in exact order: the interpreter's bits on every device.

use epilogue::te::auto::Order;
use epilogue::te::{self, Axis, Expr, TeError, Tensor};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::testing;
use proptest::prelude::*;

use crate::auto::chain::Rows;
use crate::auto::shared::emulated;

/// A random expression of an element and results of earlier passes.
fn random_value(random: &mut fastrand::Rng, x: &Expr, totals: &[Expr], depth: usize) -> Expr {
    if depth == 0 || random.u8(0..5) == 0 {
        return match random.usize(0..totals.len() + 3) {
            0 | 1 => x.clone(),
            2 => Expr::constant(f64::from(random.i32(-6..=6)) / 4.0, te::DType::F32),
            place => totals[place - 3].clone(),
        };
    }
    let (a, b) = (random_value(random, x, totals, depth - 1), random_value(random, x, totals, depth - 1));
    match random.u8(0..7) {
        0 | 1 => a + b,
        2 => a - b,
        3 => a * b,
        4 => a.max(b),
        5 => a.min(b),
        _ => a.greater(&b).select(a, b * 0.5),
    }
}

/// Random passes over random expressions, and random outputs of them.
fn random_chain(rows: &Rows, seed: u64) -> Result<Vec<Tensor>, TeError> {
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut totals: Vec<Tensor> = Vec::new();
    for pass in 0..random.usize(1..=3) {
        let reducer = random.u8(0..4);
        let name = format!("t{pass}");
        let total = rows.reduced(
            &name,
            |x, axes| match reducer {
                0 | 1 => te::sum(x, axes),
                2 => te::max(x, axes),
                _ => te::min(x, axes),
            },
            |x, i| {
                let known: Vec<Expr> = totals.iter().map(|total| total.at([i])).collect();
                random_value(random, &x, &known, 3)
            },
        )?;
        totals.push(total);
    }
    let known = |i: Axis| -> Vec<Expr> { totals.iter().map(|total| total.at([i])).collect() };
    let of_total = te::compute([rows.n], "of_total", |[i]| {
        let known = known(i);
        random_value(random, &known[0], &known, 3)
    })?;
    let of_point = rows.points("of_point", |x, i, _| {
        let known = known(i);
        random_value(random, &x, &known, 3) + &known[0] + &x
    })?;
    Ok(vec![totals[totals.len() - 1].clone(), of_total, of_point])
}

/// Runs random passes in exact order; they give what the interpreter gives, bit by bit.
fn check_exact(device: &Device, seed: u64, n: usize, m: usize) -> Result<(), TeError> {
    let rows = Rows::new(ElementType::F32, 2);
    let tensors = random_chain(&rows, seed)?;
    let all: Vec<&Tensor> = tensors.iter().collect();
    let mut random = fastrand::Rng::with_seed(seed ^ 7);
    let values: Vec<f32> = (0..n * m).map(|_| random.f32() * 3.0 - 1.4).collect();
    let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    let shapes = [vec![n], vec![n], vec![n, m]];
    let mut arrays = vec![te::Array::new(ElementType::F32, &[n, m], &wide)?];
    arrays.extend(shapes.iter().map(|shape| te::Array::unwritten(ElementType::F32, shape)));
    let parameters: Vec<&Tensor> = std::iter::once(&rows.a).chain(all.iter().copied()).collect();
    te::lower(&te::create_schedule(&all), &parameters, "main")?.interpret(&mut arrays)?;
    let kernel = te::auto::reduce_all(&all)?.order(Order::Exact).build(device)?;
    let a = device.tensor(&values, [n, m])?;
    let mut outputs = Vec::new();
    for shape in &shapes {
        outputs.push(device.zeros::<f32>(shape.as_slice())?);
    }
    let mut arguments = vec![Argument::from(&a)];
    arguments.extend(outputs.iter_mut().map(Argument::from));
    kernel.run(&arguments)?;
    drop(arguments);
    for (place, (output, array)) in outputs.iter().zip(&arrays[1..]).enumerate() {
        let got: Vec<u32> = output.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect();
        let wanted: Vec<u32> = array.values().iter().map(|x| (*x as f32).to_bits()).collect();
        let wrong = got
            .iter()
            .zip(&wanted)
            .position(|(a, b)| a != b && !(f32::from_bits(*a).is_nan() && f32::from_bits(*b).is_nan()));
        assert_eq!(wrong, None, "output {place} of seed {seed}, {n} x {m}: {}\n{}", kernel.choice(), kernel.source());
    }
    Ok(())
}

#[test]
fn exact_order_has_the_interpreters_bits() {
    if testing::compiler("exact_order_has_the_interpreters_bits").is_none() {
        return;
    }
    let device = emulated(Arch::SM_80);
    let config = ProptestConfig { cases: testing::cases(12), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(seed: u64, n in 0usize..5, m in 0usize..40)| {
        if let Err(error) = check_exact(&device, seed, n, m) {
            panic!("seed {seed}, {n} x {m}: {error}");
        }
    });
}

#[test]
fn exact_order_has_the_interpreters_bits_on_the_cpu() {
    let device = Device::cpu();
    let config = ProptestConfig { cases: testing::cases(150), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(seed: u64, n in 0usize..90, m in 0usize..70)| {
        if let Err(error) = check_exact(&device, seed, n, m) {
            panic!("seed {seed}, {n} x {m}: {error}");
        }
    });
}
