//! Reductions over ranges that data or an index give: rows of a compressed matrix, the elements up to the diagonal. Each
//! schedule is right in the interpreter, as native code and on an emulated GPU, or refused by name.

use epilogue::ElementType;
use epilogue::te::{self, Array, LoweringError, Schedule, ScheduleError, TeError, Tensor, placeholder_of};

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

const ROWS: usize = 9;
const WIDTH: usize = 6;

/// A sum over ranges, with its inputs and what it gives.
struct Case {
    name: &'static str,
    inputs: Vec<(Tensor, Numbers)>,
    output: Tensor,
    wanted: Vec<f64>,
}

fn lengths() -> Vec<f64> {
    (0..ROWS).map(|i| [3, 0, 6, 1, 2, 5, 0, 4, 6][i] as f64).collect()
}

/// The first elements of each row, as many as data say.
fn ragged() -> Result<Case, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let x = te::placeholder([n, m], "x");
    let count = placeholder_of(ElementType::I32, [n], "count");
    let output = te::compute([n], "sums", |[i]| {
        let k = te::reduce_axis((0, count.at([i])), "k");
        te::sum(x.at([i, k]), [k])
    })?;
    let values = integers(ROWS * WIDTH, 1);
    let wanted = (0..ROWS).map(|i| values[i * WIDTH..][..lengths()[i] as usize].iter().sum()).collect();
    let inputs = vec![
        (x, Numbers::new(ElementType::F32, &[ROWS, WIDTH], values)),
        (count, Numbers::new(ElementType::I32, &[ROWS], lengths())),
    ];
    Ok(Case { name: "ragged", inputs, output, wanted })
}

/// The rows of a compressed matrix: the elements from one place to another, which data say.
fn compressed() -> Result<Case, TeError> {
    let (n, p, q) = (te::var("n"), te::var("p"), te::var("q"));
    let begin = placeholder_of(ElementType::I32, [p], "begin");
    let (value, at) = (te::placeholder([q], "value"), placeholder_of(ElementType::I32, [q], "at"));
    let x = te::placeholder([n], "x");
    let output = te::compute([ROWS], "product", |[i]| {
        let k = te::reduce_axis((begin.at([i]), begin.at([i + 1])), "k");
        te::sum(value.at([k]) * x.at([at.at([k])]), [k])
    })?;
    let mut begins = vec![0.0];
    lengths().iter().for_each(|length| begins.push(begins[begins.len() - 1] + length));
    let count = begins[ROWS] as usize;
    let (values, xs) = (integers(count, 2), integers(WIDTH, 3));
    let ats: Vec<f64> = (0..count).map(|k| (k * 5 % WIDTH) as f64).collect();
    let product =
        |i: usize| (begins[i] as usize..begins[i + 1] as usize).map(|k| values[k] * xs[ats[k] as usize]).sum();
    let wanted = (0..ROWS).map(product).collect();
    let inputs = vec![
        (begin, Numbers::new(ElementType::I32, &[ROWS + 1], begins.clone())),
        (value, Numbers::new(ElementType::F32, &[count], values.clone())),
        (at, Numbers::new(ElementType::I32, &[count], ats.clone())),
        (x, Numbers::new(ElementType::F32, &[WIDTH], xs.clone())),
    ];
    Ok(Case { name: "compressed", inputs, output, wanted })
}

/// The elements up to the diagonal.
fn triangle() -> Result<Case, TeError> {
    let n = te::var("n");
    let x = te::placeholder([n, n], "x");
    let output = te::compute([n], "sums", |[i]| {
        let k = te::reduce_axis((0, i + 1), "k");
        te::sum(x.at([i, k]), [k])
    })?;
    let values = integers(ROWS * ROWS, 4);
    let wanted = (0..ROWS).map(|i| values[i * ROWS..][..=i].iter().sum()).collect();
    let inputs = vec![(x, Numbers::new(ElementType::F32, &[ROWS, ROWS], values))];
    Ok(Case { name: "triangle", inputs, output, wanted })
}

/// Schedules a case.
type Way = fn(&mut Schedule, &Case) -> Result<(), TeError>;

fn blocks(s: &mut Schedule, tensor: &Tensor) -> Result<(), TeError> {
    let i = s.operation(tensor)?.axis(0)?;
    let stage = s.stage(tensor)?;
    let (block, thread) = stage.split(i, 4)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))
}

/// A copy of a row: memory whose extent a GPU doesn't know.
const NEAR: &str = "an input near";

const RIGHT: [(&str, Way); 10] = [
    ("plain", |_, _| Ok(())),
    ("rows split", |s, case| s.stage(&case.output)?.split(case.output.axis(0)?, 4).map(drop)),
    ("the range split", |s, case| s.stage(&case.output)?.split(case.output.reduce_axis(0)?, 4).map(drop)),
    ("both split", |s, case| {
        s.stage(&case.output)?.split(case.output.reduce_axis(0)?, 4)?;
        s.stage(&case.output)?.split(case.output.axis(0)?, 2).map(drop)
    }),
    ("in blocks of threads", |s, case| blocks(s, &case.output)),
    ("a cache", |s, case| s.cache_write(&case.output, "global").map(drop)),
    ("a cache of split rows", |s, case| {
        s.stage(&case.output)?.split(case.output.axis(0)?, 4)?;
        s.cache_write(&case.output, "global").map(drop)
    }),
    ("a cache of each thread", |s, case| {
        let cache = s.cache_write(&case.output, "local")?;
        blocks(s, &case.output)?;
        let thread = s.stage(&case.output)?.loops()[1];
        s.compute_at(&cache, &case.output, thread)
    }),
    ("a copy of an input", |s, case| s.cache_read(&case.inputs[0].0, "global", &[&case.output]).map(drop)),
    (NEAR, |s, case| {
        let near = s.cache_read(&case.inputs[0].0, "global", &[&case.output])?;
        let i = case.output.axis(0)?;
        s.compute_at(&near, &case.output, i)
    }),
];

#[test]
fn sums_over_ranges_that_data_give() -> Result<(), TeError> {
    if lacks_nvrtc("ranges::sums_over_ranges_that_data_give") {
        return Ok(());
    }
    for case in [ragged()?, compressed()?, triangle()?] {
        for (name, way) in RIGHT {
            let what = format!("{}, {name}", case.name);
            let mut s = te::create_schedule(&[&case.output]);
            match way(&mut s, &case) {
                // A tensor that only the range reads can't be read from a copy.
                Err(TeError::Schedule(ScheduleError::Cache { .. })) if name.contains("input") => continue,
                other => other.unwrap_or_else(|error| panic!("{what}: {error}")),
            }
            let mut arguments: Vec<&Tensor> = case.inputs.iter().map(|(tensor, _)| tensor).collect();
            arguments.push(&case.output);
            let program = te::lower(&s, &arguments, "main").unwrap_or_else(|error| panic!("{what}: {error}"));
            let inputs: Vec<Numbers> = case.inputs.iter().map(|(_, numbers)| numbers.clone()).collect();
            if name == NEAR {
                let mut arrays: Vec<Array> = Vec::new();
                for given in &inputs {
                    arrays.push(Array::new(given.element, &given.shape, &given.values)?);
                }
                arrays.push(Array::unwritten(ElementType::F32, &[ROWS]));
                program.interpret(&mut arrays).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(arrays.pop().map(|array| array.values()), Some(case.wanted.clone()), "{what}");
                continue;
            }
            let results = run(&program, &inputs, &[(ElementType::F32, vec![ROWS])]);
            results.assert_equal();
            assert_eq!(results.interpreted[0], case.wanted, "{what}");
        }
    }
    Ok(())
}

#[test]
fn what_a_range_of_data_does_not_allow() -> Result<(), TeError> {
    let arguments = |case: &Case| -> Vec<Tensor> {
        case.inputs.iter().map(|(tensor, _)| tensor.clone()).chain([case.output.clone()]).collect()
    };
    for case in [ragged()?, triangle()?] {
        let (i, k) = (case.output.axis(0)?, case.output.reduce_axis(0)?);
        let lowered = |s: &Schedule| {
            let all = arguments(&case);
            te::lower(s, &all.iter().collect::<Vec<_>>(), "main").expect_err("refused")
        };
        // The range before the row that gives it.
        let mut s = te::create_schedule(&[&case.output]);
        s.stage(&case.output)?.reorder(&[k, i])?;
        assert!(matches!(lowered(&s), TeError::Lowering(LoweringError::Bound { .. })), "{}", lowered(&s));
        // One loop of both.
        let mut s = te::create_schedule(&[&case.output]);
        s.stage(&case.output)?.fuse(i, k)?;
        assert!(matches!(lowered(&s), TeError::Lowering(LoweringError::Bound { .. })), "{}", lowered(&s));
        // A dimension of it.
        let mut s = te::create_schedule(&[&case.output]);
        let error = s.rfactor(&case.output, k).expect_err("refused");
        assert!(matches!(error, TeError::Schedule(ScheduleError::Rfactor { .. })), "{error}");
        // Text of it.
        let s = te::create_schedule(&[&case.output]);
        let error = s.to_json(&[&case.output]).expect_err("refused");
        assert!(matches!(error, TeError::Schedule(ScheduleError::Json { .. })), "{error}");
    }
    // The tensor that gives a range, in place.
    let (n, m) = (te::var("n"), te::var("m"));
    let (x, count) = (te::placeholder([n, m], "x"), placeholder_of(ElementType::I32, [n], "count"));
    let fewer = te::compute([n], "fewer", |[i]| count.at([i]) - 1)?;
    let sums = te::compute([n], "sums", |[i]| {
        let k = te::reduce_axis((0, fewer.at([i])), "k");
        te::sum(x.at([i, k]), [k])
    })?;
    let mut s = te::create_schedule(&[&sums]);
    s.compute_inline(&fewer)?;
    let error = te::lower(&s, &[&x, &count, &sums], "main").expect_err("refused");
    assert!(matches!(error, TeError::Schedule(ScheduleError::Primitive { .. })), "{error}");
    let mut s = te::create_schedule(&[&sums]);
    s.auto_inline_elem_wise();
    te::lower(&s, &[&x, &count, &sums], "main")?;
    Ok(())
}
