//! Expressions are graphs: shared parts are walked, computed and printed once, and the depth has a documented limit.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use epilogue::te::{self, Array, Expr, ExpressionError, TeError, Tensor};
use epilogue::{Arch, Device, ElementType};
use epilogue_runtime::testing;

/// Much longer than a linear time on any machine, and much shorter than doubling at every step would take.
const BOUND: Duration = Duration::from_secs(100);
const N: usize = 8;

fn x() -> Tensor {
    te::placeholder([N as i32], "x")
}

/// `x = x * x`, `times` times.
fn squares(x: &Tensor, times: usize) -> Tensor {
    te::compute([N as i32], "y", |[i]| (0..times).fold(x.at([i]), |x, _| &x * &x)).unwrap()
}

/// Stages of `u * 0.5 + u * 0.5` that read each other.
fn stages(x: &Tensor, count: usize) -> Vec<Tensor> {
    let mut all = vec![x.clone()];
    for stage in 0..count {
        let u = all[stage].clone();
        all.push(te::compute([N as i32], &format!("u{stage}"), |[i]| u.at([i]) * 0.5 + u.at([i]) * 0.5).unwrap());
    }
    all
}

/// `x = if x > 0 { x * 0.5 + x * 0.5 } else { x }`: shared parts are under conditions, too.
fn leaky(x: &Tensor, times: usize) -> Tensor {
    let step = |x: Expr, _| x.greater(0.0).select(&x * 0.5 + &x * 0.5, &x);
    te::compute([N as i32], "y", |[i]| (0..times).fold(x.at([i]), step)).unwrap()
}

fn within(what: &str, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    let took = start.elapsed();
    assert!(took < BOUND, "{what} took {took:?}");
}

/// Values whose squares are again 0 or 1.
const VALUES: [f32; N] = [1.0, -1.0, 0.0, 1.0, -1.0, 1.0, 0.0, -1.0];

fn squared() -> Vec<f32> {
    VALUES.iter().map(|x| x * x).collect()
}

/// The output of an automatic map of `VALUES`.
fn mapped(device: &Device, output: &Tensor) -> Vec<f32> {
    let kernel = te::auto::map(output).unwrap().build(device).unwrap();
    let x = device.tensor(&VALUES, [N]).unwrap();
    let mut y = device.full::<f32>([N], f32::NAN).unwrap();
    kernel.run(&[(&x).into(), (&mut y).into()]).unwrap();
    y.to_vec::<f32>().unwrap()
}

fn devices(name: &str) -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler(name).is_some() {
        devices.push(Device::emulated(Arch::SM_80).unwrap());
    }
    devices
}

#[test]
fn automatic_maps_of_shared_expressions() {
    for device in devices("automatic_maps_of_shared_expressions") {
        for size in [20, 200] {
            let x = x();
            within(&format!("{size} squares on {device:?}"), || {
                assert_eq!(mapped(&device, &squares(&x, size)), squared());
            });
            within(&format!("{size} stages on {device:?}"), || {
                assert_eq!(mapped(&device, &stages(&x, size)[size]), VALUES);
            });
            within(&format!("{size} leaky on {device:?}"), || assert_eq!(mapped(&device, &leaky(&x, size)), VALUES));
        }
    }
}

/// Lowers, prints in every form, interprets, runs native code.
fn scheduled(x: &Tensor, y: &Tensor, inlined: &[Tensor], expected: &[f32]) {
    let mut s = te::create_schedule(&[y]);
    for stage in inlined {
        s.compute_inline(stage).unwrap();
    }
    let program = te::lower(&s, &[x, y], "main").unwrap();
    assert!(program.script().len() < 1 << 20);
    let values: Vec<f64> = VALUES.iter().map(|x| f64::from(*x)).collect();
    let f32 = ElementType::F32;
    let mut arguments = [Array::new(f32, &[N], &values).unwrap(), Array::unwritten(f32, &[N])];
    program.interpret(&mut arguments).unwrap();
    let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
    assert_eq!(arguments[1].values(), expected);
    let json = s.to_json(&[x, y]).unwrap();
    assert!(json.len() < 1 << 20);
    for device in devices("scheduled") {
        let x = device.tensor(&VALUES, [N]).unwrap();
        let mut y = device.full::<f32>([N], f32::NAN).unwrap();
        program.build(&device).unwrap().run(&[(&x).into(), (&mut y).into()]).unwrap();
        let y: Vec<f64> = y.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
        assert_eq!(y, expected, "{device:?}");
    }
}

#[test]
fn scheduled_programs_of_shared_expressions() {
    for size in [20, 200] {
        let x = x();
        within("squares", || scheduled(&x, &squares(&x, size), &[], &squared()));
        within("leaky", || scheduled(&x, &leaky(&x, size), &[], &VALUES));
        let all = stages(&x, size);
        within("stages", || scheduled(&x, &all[size], &all[1..size], &VALUES));
    }
}

#[test]
fn comparing_and_showing_shared_expressions() {
    let square = |x: Expr| (0..200).fold(x, |x, _| &x * &x);
    let leaf = te::var("n");
    let (a, b) = (square(leaf.into()), square(leaf.into()));
    within("equality", || assert!(a == b && a != &b * 1));
    within("text", || assert!(format!("{a:?}").len() < 10_000));
    assert_ne!(Expr::from(0.0), Expr::from(-0.0));
}

#[test]
fn virtual_threads_by_parts() {
    for parts in 2..=16 {
        within(&format!("{parts} virtual threads"), || {
            let n = te::var("n");
            let x = te::placeholder([n, n], "x");
            let y = te::compute([n, n], "y", |[i, j]| x.at([i, j]) * 2.0).unwrap();
            let mut s = te::create_schedule(&[&y]);
            let j = y.axis(1).unwrap();
            let stage = s.stage(&y).unwrap();
            let (outer, inner) = stage.split_parts(j, parts).unwrap();
            stage.bind(outer, te::thread_axis("vthread")).unwrap();
            stage.split(inner, 4).unwrap();
            let program = te::lower(&s, &[&x, &y], "main").unwrap();
            assert!(program.script().len() < 1 << 20);
            te::native::compile(&program).unwrap();
        });
    }
}

/// `count` stages in a row, each a copy of the one before.
fn copies(x: &Tensor, count: usize) -> Result<Tensor, TeError> {
    (0..count).try_fold(x.clone(), |before, _| te::compute([N as i32], "copy", |[i]| before.at([i])))
}

#[test]
fn chains_have_a_limit_that_a_thread_of_2_mib_reaches() {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(|| {
            let x = x();
            let y = copies(&x, 499).unwrap();
            for device in devices("chains") {
                assert_eq!(mapped(&device, &y), VALUES);
            }
            scheduled(&x, &y, &[], &VALUES);
            for count in [500, 10_000] {
                assert!(matches!(
                    copies(&x, count),
                    Err(TeError::Expression(ExpressionError::Chained { most: 500, .. }))
                ));
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

/// A sum of `depth` terms, one inside the other.
fn nested(x: &Tensor, depth: usize) -> Result<Tensor, TeError> {
    te::compute([N as i32], "y", |[i]| (0..depth).fold(x.at([i]), |sum, _| sum * 1.0 + 0.0))
}

#[test]
fn depth_has_a_limit_that_a_thread_of_2_mib_reaches() {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(|| {
            let x = x();
            let y = nested(&x, 316).unwrap();
            for device in devices("depth") {
                assert_eq!(mapped(&device, &y), VALUES);
            }
            scheduled(&x, &y, &[], &VALUES);
            for depth in [1_000, 100_000] {
                assert!(matches!(nested(&x, depth), Err(TeError::Expression(ExpressionError::Nested { .. }))));
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

/// The length of the text for a chain of stages: the program with all stages inlined and, with a device, the kernel.
fn text_of_stages(device: Option<&Device>, count: usize) -> usize {
    let x = x();
    let all = stages(&x, count);
    let mut s = te::create_schedule(&[&all[count]]);
    all[1..count].iter().for_each(|stage| s.compute_inline(stage).unwrap());
    let program = te::lower(&s, &[&x, &all[count]], "main").unwrap();
    let map = te::auto::map(&all[count]).unwrap();
    let source = device.map_or(0, |device| map.build(device).unwrap().source().len());
    program.script().len() + source
}

/// The length of the program for `count` virtual threads with a separate split each.
fn text_of_virtual_threads(count: i32) -> usize {
    let n = te::var("n");
    let x = te::placeholder([n, n], "x");
    let y = te::compute([n, n], "y", |[i, j]| x.at([i, j]) * 2.0).unwrap();
    let mut s = te::create_schedule(&[&y]);
    let stage = s.stage(&y).unwrap();
    let (outer, inner) = stage.split_parts(y.axis(1).unwrap(), count).unwrap();
    stage.bind(outer, te::thread_axis("vthread")).unwrap();
    stage.split(inner, 4).unwrap();
    te::lower(&s, &[&x, &y], "main").unwrap().script().len()
}

/// With twice the stages, the text that passes and compilers walk is at most about twice as long.
#[test]
fn programs_grow_as_what_they_are_made_of() {
    let device = devices("programs_grow_as_what_they_are_made_of").pop().filter(|device| *device != Device::cpu());
    let stages: Vec<usize> = [25, 50, 100, 200].map(|count| text_of_stages(device.as_ref(), count)).into();
    assert!(stages.windows(2).all(|pair| pair[1] * 10 < pair[0] * 23), "{stages:?}");
    let threads: Vec<usize> = [2, 4, 8, 15].map(text_of_virtual_threads).into();
    assert!(threads.windows(2).all(|pair| pair[1] * 10 < pair[0] * 23), "{threads:?}");
    // From 16 on they become a loop.
    assert!(text_of_virtual_threads(16) < threads[0] * 2, "{threads:?}");
}
