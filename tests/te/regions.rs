//! The part of its stages that a program computes: one value of several, and the part of a stage that others read.

use epilogue::ElementType;
use epilogue::te::{self, Expr, ScheduleError, TeError, Tensor, placeholder_of, var};
use expect_test::expect;

use crate::native::both::{agree, input, output};

const F32: ElementType = ElementType::F32;
const I32: ElementType = ElementType::I32;

/// The values of `made`, interpreted and as native code, where `given` are the inputs.
fn values(
    schedule: &te::Schedule,
    given: &[(&Tensor, &[usize], Vec<f64>)],
    made: &Tensor,
    shape: &[usize],
) -> Vec<f64> {
    let arguments: Vec<&Tensor> = given.iter().map(|(tensor, ..)| *tensor).chain([made]).collect();
    let program = te::lower(schedule, &arguments, "main").unwrap_or_else(|error| panic!("{error}"));
    let mut all: Vec<_> = given.iter().map(|(tensor, shape, values)| input(tensor.dtype(), shape, values)).collect();
    all.push(output(made.dtype(), shape));
    agree(&program, &all).swap_remove(given.len())
}

fn script(schedule: &te::Schedule, arguments: &[&Tensor]) -> String {
    te::lower(schedule, arguments, "main").unwrap_or_else(|error| panic!("{error}")).script()
}

#[test]
fn one_value_of_several() -> Result<(), TeError> {
    let (n, m) = (var("n"), var("m"));
    let (a, k) = (te::placeholder([n, m], "A"), te::reduce_axis((0, m), "k"));
    let spread = te::tuple_reducer(
        |x, y| vec![x[0].min(&y[0]), x[1].max(&y[1])],
        |types| vec![Expr::constant(f64::INFINITY, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
        "spread",
    );
    let both = te::compute_all([n], "both", |[i]| spread.over_all(&[a.at([i, k]), a.at([i, k])], [k]))?;
    let matrix = vec![3.0, 1.0, 2.0, 4.0, 9.0, 5.0];
    for (value, wanted) in [(0, [1.0, 4.0]), (1, [3.0, 9.0])] {
        let schedule = te::create_schedule(&[&both[value]]);
        assert_eq!(values(&schedule, &[(&a, &[2, 3], matrix.clone())], &both[value], &[2]), wanted);
    }
    // Two states of a scan, and with threads on a GPU.
    let states = [0, 1].map(|place| te::placeholder([n, m], ["s", "t"][place]));
    let init = [1, 2].map(|times| te::compute((1, m), "init", |[t, i]| a.at([t, i]) * times));
    let update = [0, 1].map(|place| {
        te::compute([n, m], "update", |[t, i]| {
            let [s, u] = [0, 1].map(|place| states[place].at((t - 1, i)));
            if place == 0 { s + a.at([t, i]) } else { u + s }
        })
    });
    let ([init, twice], [update, sum]) = (init, update);
    let scan = te::scan_all(&[init?, twice?], &[update?, sum?], &states, &[])?;
    let wanted = [[3.0, 1.0, 2.0, 7.0, 10.0, 7.0], [6.0, 2.0, 4.0, 9.0, 3.0, 6.0]];
    for value in [0, 1] {
        let schedule = te::create_schedule(&[&scan[value]]);
        assert_eq!(values(&schedule, &[(&a, &[2, 3], matrix.clone())], &scan[value], &[2, 3]), wanted[value]);
    }
    if epilogue_runtime::testing::compiler("one_value_of_several").is_some() {
        let mut schedule = te::create_schedule(&[&both[1]]);
        let (blocks, threads) = schedule.stage(&both[1])?.split(both[1].axis(0)?, 32)?;
        schedule.stage(&both[1])?.bind(blocks, te::thread_axis("blockIdx.x"))?;
        schedule.stage(&both[1])?.bind(threads, te::thread_axis("threadIdx.x"))?;
        let device = crate::auto::shared::emulated(epilogue::Arch::SM_80);
        let kernel = te::lower(&schedule, &[&a, &both[1]], "main")?.build(&device)?;
        let (given, mut made) = (device.tensor(&[3f32, 1.0, 2.0, 4.0, 9.0, 5.0], [2, 3])?, device.zeros::<f32>([2])?);
        kernel.run(&[(&given).into(), (&mut made).into()])?;
        assert_eq!(made.to_vec::<f32>()?, [3.0, 9.0]);
    }
    let refused = te::lower(&te::create_schedule(&[&both[1]]), &[&a], "main").expect_err("nothing is asked for");
    expect!["both.v0 is an output of the schedule but not among the arguments; add it to them"]
        .assert_eq(&refused.to_string());
    Ok(())
}

/// Elements that nobody reads are not computed: here they would read outside of the table.
#[test]
fn only_what_is_read_is_computed() -> Result<(), TeError> {
    let (n, m) = (var("n"), var("m"));
    let (table, places) = (te::placeholder([var("p")], "table"), placeholder_of(I32, [n, m], "places"));
    let chosen = te::compute([n, m], "chosen", |[i, j]| table.at([places.at([i, j])]))?;
    let first = te::compute([n], "first", |[i]| chosen.at((i, 0)) + 1)?;
    let schedule = te::create_schedule(&[&first]);
    let given = [(&table, &[2][..], vec![5.0, 6.0]), (&places, &[3, 2][..], vec![0.0, 99.0, 1.0, -7.0, 0.0, 99.0])];
    assert_eq!(values(&schedule, &given, &first, &[3]), [6.0, 7.0, 6.0]);
    // As an argument it is computed whole, and its indices are checked.
    let program = te::lower(&schedule, &[&table, &places, &chosen, &first], "main")?;
    let mut all: Vec<te::Array> = given
        .iter()
        .map(|(tensor, shape, values)| te::Array::new(tensor.dtype(), shape, values))
        .collect::<Result<_, _>>()?;
    all.extend([te::Array::unwritten(F32, &[3, 2]), te::Array::unwritten(F32, &[3])]);
    assert!(program.interpret(&mut all).is_err());
    Ok(())
}

#[test]
fn parts_that_sizes_give() -> Result<(), TeError> {
    let x = te::placeholder([16], "x");
    let twice = te::compute([16], "twice", |[i]| x.at([i]) * 2)?;
    let odd = te::compute([7], "odd", |[i]| twice.at([i * 2 + 1]))?;
    let elements: Vec<f64> = (0..16).map(f64::from).collect();
    let schedule = te::create_schedule(&[&odd]);
    let wanted: Vec<f64> = (0..7).map(|i| f64::from(2 * (2 * i + 1))).collect();
    assert_eq!(values(&schedule, &[(&x, &[16], elements.clone())], &odd, &[7]), wanted);
    let text = script(&schedule, &[&x, &odd]);
    assert!(text.contains("range(13)") && !text.contains("range(16)"), "{text}");
    // Two readers need what both of them need.
    let last = te::compute([3], "last", |[i]| twice.at([i + 13]) - odd.at([i]))?;
    let text = script(&te::create_schedule(&[&last]), &[&x, &last]);
    assert!(text.contains("range(15)"), "{text}");

    // An uneven split reads no more than its axis has; a split without tests keeps all of the stage.
    let mut split = te::create_schedule(&[&odd]);
    split.stage(&odd)?.split(odd.axis(0)?, 4)?;
    split.stage(&twice)?.split(twice.axis(0)?, 4)?;
    let text = script(&split, &[&x, &odd]);
    assert!(text.contains("twice = T.allocate([13]"), "{text}");
    assert_eq!(values(&split, &[(&x, &[16], elements.clone())], &odd, &[7]), wanted);
    let mut exact = te::create_schedule(&[&odd]);
    exact.stage(&twice)?.split_by(twice.axis(0)?, te::SplitBy::Factor(4.into()), true)?;
    assert_eq!(values(&exact, &[(&x, &[16], elements)], &odd, &[7]), wanted);

    // A part that sizes give may be of no elements.
    let n = var("n");
    let y = te::placeholder([n], "y");
    let squares = te::compute([n], "squares", |[i]| y.at([i]) * y.at([i]))?;
    let steps = te::compute((Expr::from(n) - 1,), "steps", |[i]| squares.at([i + 1]) - y.at([i]))?;
    let schedule = te::create_schedule(&[&steps]);
    assert_eq!(values(&schedule, &[(&y, &[4], vec![1.0, 2.0, 3.0, 4.0])], &steps, &[3]), [3.0, 7.0, 13.0]);
    assert_eq!(values(&schedule, &[(&y, &[1], vec![1.0])], &steps, &[0]), [0.0; 0]);
    Ok(())
}

/// A part that is no range of sizes is not inferred: the stage is computed whole.
#[test]
fn parts_that_data_or_conditions_give() -> Result<(), TeError> {
    let n = var("n");
    let (x, places) = (te::placeholder([n], "x"), placeholder_of(I32, [n], "places"));
    let more = te::compute([n], "more", |[i]| x.at([i]) + 1)?;
    let picked = te::compute([n], "picked", |[i]| more.at([places.at([i])]))?;
    let given = [(&x, &[3][..], vec![1.0, 2.0, 3.0]), (&places, &[3][..], vec![2.0, 2.0, 0.0])];
    assert_eq!(values(&te::create_schedule(&[&picked]), &given, &picked, &[3]), [4.0, 4.0, 2.0]);
    let shifted = te::compute([n], "shifted", |[i]| i.greater(0).select(more.at([i - 1]), -1.0))?;
    assert_eq!(values(&te::create_schedule(&[&shifted]), &given[..1], &shifted, &[3]), [-1.0, 2.0, 3.0]);
    // Inside a loop of its reader, it is a part as before.
    let mut schedule = te::create_schedule(&[&shifted]);
    let loops = schedule.stage(&shifted)?.loops()[0];
    schedule.compute_at(&more, &shifted, loops)?;
    assert_eq!(values(&schedule, &given[..1], &shifted, &[3]), [-1.0, 2.0, 3.0]);
    let missing = te::create_schedule(&[&picked]).stage(&shifted).map(drop);
    assert!(matches!(missing, Err(TeError::Schedule(ScheduleError::NotScheduled { .. }))));
    Ok(())
}
