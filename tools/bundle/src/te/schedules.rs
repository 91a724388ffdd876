//! Programs with hand-written schedules, those of the tutorials: they must give the interpreter's bits for any shape.

use epilogue::te::{self, Array, Program, TeError};
use epilogue::{Argument, Device, DeviceTensor, ElementType};
use epilogue_testing::tutorial::{cross_thread, row_sums};
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;

/// The running sums of the rows, with all steps in one launch or each in its own.
fn running_sums(one_launch: bool) -> Result<Program, TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
    let update = te::compute([m, n], "update", |[t, i]| state.at((t - 1, i)) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    let mut s = te::create_schedule(&[&scan]);
    if one_launch {
        s.stage(&scan)?.env_threads(&[te::thread_axis("blockIdx.x"), te::thread_axis("threadIdx.x")])?;
    }
    for part in [&init, &update] {
        let stage = s.stage(part)?;
        let (outer, inner) = stage.split(part.axis(1)?, 64)?;
        stage.bind(outer, te::thread_axis("blockIdx.x"))?;
        stage.bind(inner, te::thread_axis("threadIdx.x"))?;
    }
    te::lower(&s, &[&x, &scan], "main")
}

/// Row sums with `threads` threads and `rows` rows per block, in the tutorial's last schedule.
fn sums_over_threads(threads: i32, rows: i32) -> Result<Program, TeError> {
    let (a, b) = row_sums()?;
    te::lower(&cross_thread(&b, threads, rows)?, &[&a, &b], "main")
}

/// Shapes of every program.
const SHAPES: usize = 2;
/// The number of cases, for four programs.
#[cfg(test)]
pub(super) const CASES: usize = 4 * SHAPES;

/// Every program on random shapes.
pub(super) fn random(machine: &Machine, seed: u64) -> Outcome<Vec<Value>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (cases, largest) = if machine.is_rehearsal() { (1, 40) } else { (SHAPES, 300) };
    let programs = [
        ("row sums, 16 threads, 32 rows", sums_over_threads(16, 32)?, true),
        ("row sums, 32 threads, 8 rows", sums_over_threads(32, 8)?, true),
        ("running sums, one launch", running_sums(true)?, false),
        ("running sums, a launch for every step", running_sums(false)?, false),
    ];
    let (mut right, mut records) = (0, Vec::new());
    for (name, program, reduces) in &programs {
        for _ in 0..cases {
            let shape = [random.usize(1..largest), random.usize(1..largest)];
            // Small integers, so that every order of summation gives the same bits.
            let values: Vec<f64> = (0..shape[0] * shape[1]).map(|_| f64::from(random.i32(-8..=8))).collect();
            let output = if *reduces { vec![shape[0]] } else { shape.to_vec() };
            if same(&machine.device, program, &values, &shape, &output)? {
                right += 1;
            } else {
                let what = format!("{name} of {shape:?}: other bits than the interpreter's");
                records.push(json!({"kind": "wrong", "family": "te/schedules", "seed": seed, "what": what}));
            }
        }
    }
    records.push(json!({"kind": "correct", "family": "te/schedules", "seed": seed, "cases": right}));
    Ok(records)
}

/// Whether the device gives the same bits as the interpreter.
fn same(device: &Device, program: &Program, values: &[f64], shape: &[usize], output: &[usize]) -> Outcome<bool> {
    let mut arrays = [Array::new(ElementType::F32, shape, values)?, Array::unwritten(ElementType::F32, output)];
    program.interpret(&mut arrays)?;
    let kernel = program.build(device)?;
    #[expect(clippy::cast_possible_truncation, reason = "small integers")]
    let given: DeviceTensor = device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape)?;
    let mut made = device.full(output, f32::NAN)?;
    kernel.run(&[Argument::from(&given), Argument::from(&mut made)])?;
    let expected = arrays[1].values();
    Ok(made.to_vec::<f32>()?.into_iter().map(f64::from).eq(expected))
}
