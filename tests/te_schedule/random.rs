//! Primitives drawn at random, whether they make sense or not: each is refused by a typed error, or what comes out
//! computes what the default schedule does, in the interpreter, as native code and on an emulated GPU.

use std::cell::Cell;

use epilogue::ElementType;
use epilogue::te::{self, Array, Axis, Expr, Program, ScriptStyle, TeError, Tensor, var};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, device, integers, lacks_nvrtc, read};

const I32: ElementType = ElementType::I32;

/// A computation: what a schedule may change, consumers last, the outputs among them.
struct Work {
    inputs: Vec<Tensor>,
    stages: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

fn work(kind: usize, [n, m]: [&Expr; 2]) -> Result<Work, TeError> {
    let shape = || [n.clone(), m.clone()];
    let [a, w] = ["A", "W"].map(|name| te::placeholder_of(I32, shape(), name));
    let k = te::reduce_axis((0, m.clone()), "k");
    let inputs = vec![a.clone(), w.clone()];
    Ok(match kind {
        // A map, a row's sum of it, and both.
        0 => {
            let b = te::compute(shape(), "B", |[i, j]| a.at([i, j]) * 2 + w.at([i, j]))?;
            let s = te::compute([n.clone()], "S", |[i]| te::sum(b.at([i, k]), [k]))?;
            let d = te::compute(shape(), "D", |[i, j]| b.at([i, j]) - s.at([i]))?;
            Work { inputs, stages: vec![b, s, d.clone()], outputs: vec![d] }
        }
        // A tuple that keeps its order, where a condition holds.
        1 => {
            let affine = te::tuple_reducer(
                |x, y| vec![&x[0] * &y[0], &x[1] * &y[0] + &y[1]],
                |types| vec![Expr::constant(1.0, types[0]), Expr::constant(0.0, types[1])],
                "affine",
            );
            let condition = Some(Expr::from(k).not_equal(2));
            let t = te::compute_all([n.clone()], "T", |[i]| {
                affine.clone().associative_only().build(&[a.at([i, k]), w.at([i, k])], &[k], condition, Vec::new())
            })?;
            Work { inputs, stages: vec![t[0].clone()], outputs: t }
        }
        // A scan of several stages, and what is made of it.
        2 => {
            let state = te::placeholder_of(I32, shape(), "state");
            let init = te::compute((1, m.clone()), "init", |[t, i]| a.at([t, i]))?;
            let s1 = te::compute(shape(), "s1", |[t, i]| state.at((t - 1, i)) * 2)?;
            let s2 = te::compute(shape(), "s2", |[t, i]| s1.at([t, i]) + a.at([t, i]))?;
            let update = te::compute(shape(), "update", |[t, i]| s2.at([t, i]) - w.at([t, i]))?;
            let scan = te::scan(&init, &update, &state, &inputs)?;
            let d = te::compute(shape(), "D", |[t, i]| scan.at([t, i]) + 1)?;
            Work { inputs, stages: vec![init, s1, s2, update, scan, d.clone()], outputs: vec![d] }
        }
        // Reductions over different axes.
        _ => {
            let largest = te::compute([n.clone()], "largest", |[i]| te::max(a.at([i, k]), [k]))?;
            let (c, r) = (te::reduce_axis((0, m.clone()), "c"), te::reduce_axis((0, n.clone()), "r"));
            let sum = te::compute([n.clone()], "sum", |[i]| te::sum(a.at([i, c]) - largest.at([i]), [c]))?;
            let d = te::compute([m.clone()], "D", |[j]| te::sum(w.at([r, j]) * sum.at([r]), [r]))?;
            Work { inputs, stages: vec![largest, sum, d.clone()], outputs: vec![d] }
        }
    })
}

/// Applies a primitive to a stage; gives the stage that it makes, if it makes one.
fn primitive(
    s: &mut te::Schedule,
    work: &Work,
    stages: &[Tensor],
    random: &mut fastrand::Rng,
) -> Result<Option<Tensor>, TeError> {
    let tensor = &stages[random.usize(..stages.len())];
    let other = &stages[random.usize(..stages.len())];
    let factor = [1, 2, 3, 4, 8, 32, 50][random.usize(..7)];
    let scope = ["global", "shared", "local"][random.usize(..3)];
    let mut place = s.stage(other)?.loops().to_vec();
    random.shuffle(&mut place);
    let stage = s.stage(tensor)?;
    let mut loops: Vec<Axis> = stage.loops().to_vec();
    let at = random.usize(..loops.len().max(1));
    let Some(axis) = loops.get(at).copied() else { return Ok(None) };
    match random.usize(..12) {
        0 | 1 => stage.split(axis, factor).map(|_| None),
        2 => stage.split_parts(axis, factor).map(|_| None),
        3 => stage.fuse(axis, loops[(at + 1) % loops.len()]).map(|_| None),
        4 => {
            random.shuffle(&mut loops);
            stage.reorder(&loops).map(|()| None)
        }
        5 | 6 => {
            let thread = ["blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread"][random.usize(..4)];
            stage.bind(axis, te::thread_axis(thread)).map(|()| None)
        }
        7 => (if random.bool() { stage.vectorize(axis) } else { stage.unroll(axis) }).map(|()| None),
        8 => place.first().map_or(Ok(None), |axis| s.compute_at(tensor, other, *axis).map(|()| None)),
        9 => s.compute_inline(tensor).map(|()| None),
        10 => s.rfactor_at(tensor, axis, random.isize(-1..2)).map(|made| made.into_iter().next()),
        _ if random.bool() => s.cache_write(tensor, scope).map(Some),
        _ => {
            let source = if random.bool() { &work.inputs[random.usize(..work.inputs.len())] } else { tensor };
            s.cache_read(source, scope, &[other]).map(Some)
        }
    }
}

fn interpreted(program: &Program, given: &[Numbers], shapes: &[Vec<usize>]) -> Result<Vec<Vec<f64>>, TeError> {
    let mut arrays = given.iter().map(|x| Array::new(I32, &x.shape, &x.values)).collect::<Result<Vec<_>, TeError>>()?;
    arrays.extend(shapes.iter().map(|shape| Array::unwritten(I32, shape)));
    program.interpret(&mut arrays)?;
    Ok(arrays[given.len()..].iter().map(Array::values).collect())
}

/// A random schedule of a computation; whether it was lowered.
fn check(kind: usize, sizes: [usize; 2], symbolic: bool, seed: u64, emulate: bool) -> Result<bool, TeError> {
    let [n, m] = ["n", "m"].map(|name| var(name).into());
    let extents = if symbolic { [n, m] } else { sizes.map(Expr::from) };
    let work = work(kind, [&extents[0], &extents[1]])?;
    let outputs: Vec<&Tensor> = work.outputs.iter().collect();
    let arguments: Vec<&Tensor> = work.inputs.iter().chain(&work.outputs).collect();
    let given: Vec<Numbers> =
        (0..2).map(|place| Numbers::new(I32, &sizes, integers(sizes[0] * sizes[1], seed ^ place))).collect();
    let shape = |tensor: &&Tensor| match (tensor.rank(), kind) {
        (2, _) => sizes.to_vec(),
        (_, 3) => vec![sizes[1]],
        _ => vec![sizes[0]],
    };
    let shapes: Vec<Vec<usize>> = outputs.iter().map(shape).collect();
    let wanted = interpreted(&te::lower(&te::create_schedule(&outputs), &arguments, "main")?, &given, &shapes)?;

    let mut random = fastrand::Rng::with_seed(seed);
    let mut s = te::create_schedule(&outputs);
    let mut stages = work.stages.clone();
    for _ in 0..random.usize(1..9) {
        // A refused primitive leaves the schedule as it was.
        if let Ok(Some(made)) = primitive(&mut s, &work, &stages, &mut random) {
            stages.push(made);
        }
    }
    let Ok(program) = te::lower(&s, &arguments, "main") else { return Ok(false) };
    let text = || format!("{sizes:?}\n{}\n{}", s.primitive_record().join("\n"), program.script(ScriptStyle::LATER));
    match interpreted(&program, &given, &shapes) {
        Ok(got) => assert_eq!(got, wanted, "{}", text()),
        // A thread's or block's own memory that others read.
        Err(error) => {
            let threads = program.script(ScriptStyle::LATER).contains("launch_thread");
            assert!(threads && error.to_string().contains("which was not written"), "{error}\n{}", text());
            return Ok(false);
        }
    }
    for device in [Some(epilogue::Device::cpu()), emulate.then(|| device().clone())].into_iter().flatten() {
        let Ok(kernel) = program.build(&device) else { continue };
        let read_from: Vec<_> = given.iter().map(|x| x.on(&device)).collect();
        let mut made = Vec::new();
        for shape in &shapes {
            made.push(device.zeros_of(I32, shape)?);
        }
        let mut arguments: Vec<epilogue::Argument<'_>> = read_from.iter().map(Into::into).collect();
        arguments.extend(made.iter_mut().map(epilogue::Argument::from));
        if let Err(error) = kernel.run(&arguments) {
            panic!("{error} on {device}\n{}", text());
        }
        drop(arguments);
        assert_eq!(made.iter().map(read).collect::<Vec<_>>(), wanted, "{device}\n{}", text());
    }
    Ok(true)
}

fn check_all(count: u32, emulate: bool) {
    let config = ProptestConfig { cases: cases(count), failure_persistence: None, ..ProptestConfig::default() };
    let extent = || prop_oneof![1 => Just(0usize), 1 => Just(1), 6 => 2usize..40];
    let lowered = Cell::new(0);
    proptest!(config, |(kind in 0usize..4, n in extent(), m in extent(), symbolic: bool, seed: u64)| {
        // A scan has the steps that it is given.
        let n = if kind == 2 { n.max(1) } else { n };
        match check(kind, [n, m], symbolic, seed, emulate) {
            Ok(done) => lowered.set(lowered.get() + u32::from(done)),
            Err(error) => panic!("{kind} {n} {m}: {error}"),
        }
    });
    assert!(lowered.get() > cases(count) / 2, "only {} schedules were lowered", lowered.get());
}

#[test]
fn any_primitives() {
    check_all(1000, false);
}

#[test]
fn any_primitives_on_an_emulated_gpu() {
    if !lacks_nvrtc("any_primitives_on_an_emulated_gpu") {
        check_all(60, true);
    }
}
