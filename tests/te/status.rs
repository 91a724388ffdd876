//! Data that kernels can't use: an index outside of its tensor, an integer divided by zero. Every device reports the
//! same, none stops, and later runs are correct.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::te::auto::Automatic;
use epilogue::te::{self, TeError, Tensor, placeholder_of, var};
use epilogue::{Arch, Argument, DataError, Device, DeviceTensor, ElementType};
use proptest::prelude::*;

/// Something that reads `A` at rows that `I` names.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Map,
    Guarded,
    Columns,
    Rows,
    Softmax,
    Scan,
    Several,
    Divided,
}

const KINDS: [Kind; 8] =
    [Kind::Map, Kind::Guarded, Kind::Columns, Kind::Rows, Kind::Softmax, Kind::Scan, Kind::Several, Kind::Divided];

/// The kernel, with its `A` and `I`.
fn automatic(kind: Kind, index: ElementType) -> Result<(Automatic, Tensor, Tensor), TeError> {
    let (n, m, rows) = (var("n"), var("m"), var("rows"));
    let a = te::placeholder([rows, m], "A");
    let i = placeholder_of(index, [n], "I");
    let k = te::reduce_axis((0, m), "k");
    let taken = te::compute([n, m], "taken", |[x, y]| a.at([i.at([x]), y.into()]))?;
    let kernel = match kind {
        Kind::Map => te::auto::map(&taken)?,
        Kind::Guarded => te::auto::map(&te::compute([n, m], "guarded", |[x, y]| {
            i.at([x]).greater_equal(0).select(a.at([i.at([x]), y.into()]), -1.0)
        })?)?,
        Kind::Columns => te::auto::map(&te::compute([n], "columns", |[x]| a.at([x.into(), i.at([x])]))?)?,
        Kind::Rows => {
            te::auto::reduce(&te::compute([n], "rows_sum", |[x]| te::sum(a.at([i.at([x]), k.into()]), [k]))?)?
        }
        Kind::Softmax => te::auto::reduce(&te::ops::softmax(&taken, 1)?)?,
        Kind::Scan => te::auto::scan(&te::ops::cumsum(&taken, 1)?)?,
        Kind::Several => {
            let sums = te::compute([n], "sums", |[x]| te::sum(taken.at([x, k]), [k]))?;
            let l = te::reduce_axis((0, n), "l");
            te::auto::reduce(&te::compute((), "total", |[]: [te::Axis; 0]| te::sum(sums.at([l]), [l]))?)?
        }
        Kind::Divided => te::auto::map(&te::compute([n], "divided", |[x]| {
            let quotient = te::Expr::from(60).cast(te::DType::from(index)) / i.at([x]);
            quotient.cast(te::DType::F32) + a.at([0.into(), te::Expr::from(0)])
        })?)?,
    };
    Ok((kernel, a, i))
}

fn devices(test: &str) -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    if epilogue_runtime::testing::compiler(test).is_some() {
        devices.extend([Arch::SM_80, Arch::SM_90A].map(|arch| Device::emulated(arch).unwrap()));
        devices.extend(Device::cuda(0));
    }
    devices
}

fn indices(device: &Device, element: ElementType, values: &[i64]) -> DeviceTensor {
    match element {
        ElementType::I32 => {
            let values: Vec<i32> = values.iter().map(|x| *x as i32).collect();
            device.tensor(&values, [values.len()]).unwrap()
        }
        _ => device.tensor(values, [values.len()]).unwrap(),
    }
}

/// The result of a run: the values, or the failure, from the run itself on the CPU and from reading back on other
/// devices.
fn outcome(device: &Device, run: Result<(), TeError>, result: &DeviceTensor) -> Result<Vec<f32>, DataError> {
    let read = result.to_vec::<f32>().map_err(TeError::from);
    if *device != Device::cpu() {
        assert_eq!(run, Ok(()), "a launch doesn't wait");
    }
    match run.and(read) {
        Ok(values) => Ok(values),
        Err(TeError::Data(failure)) => Err(failure),
        Err(other) => panic!("{device}: {other}"),
    }
}

const ROWS: usize = 5;
const COLUMNS: usize = 7;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(epilogue_runtime::testing::cases(12)))]

    /// One bad index among good ones.
    #[test]
    fn automatic_kernels_report_what_the_cpu_reports(
        kind in proptest::sample::select(KINDS.to_vec()),
        long: bool,
        mut good in proptest::collection::vec(1..5i64, 1..6),
        place: prop::sample::Index,
        bad in prop_oneof![Just(-1i64), Just(5), Just(7), Just(i64::from(i32::MAX)), Just(i64::from(i32::MIN)), -1000..-1i64, 8..100_000i64],
    ) {
        let element = if long { ElementType::I64 } else { ElementType::I32 };
        let mut wrong = good.clone();
        let place = place.index(wrong.len());
        wrong[place] = if matches!(kind, Kind::Divided) { 0 } else { bad };
        let mut wanted: Option<[Result<Vec<f32>, DataError>; 2]> = None;
        for device in devices("automatic_kernels_report_what_the_cpu_reports") {
            let (kernel, a, _) = automatic(kind, element).unwrap();
            let kernel = kernel.build(&device).unwrap();
            let values: Vec<f32> = (0..ROWS * COLUMNS).map(|x| (x % 11) as f32).collect();
            let matrix = device.tensor(&values, [ROWS, COLUMNS]).unwrap();
            let other = device.tensor(&[1f32], [1]).unwrap();
            let shape: Vec<usize> = match kind {
                Kind::Columns | Kind::Rows | Kind::Divided => vec![good.len()],
                Kind::Several => vec![],
                _ => vec![good.len(), COLUMNS],
            };
            let mut result = device.zeros::<f32>(&shape).unwrap();
            let mut outcomes = Vec::new();
            for chosen in [&wrong, &good] {
                let rows = indices(&device, element, chosen);
                let mut arguments: Vec<Argument<'_>> = kernel.parameters()[..2]
                    .iter()
                    .map(|p| Argument::from(if *p == a { &matrix } else { &rows }))
                    .collect();
                arguments.push((&mut result).into());
                let run = kernel.run(&arguments);
                drop(arguments);
                outcomes.push(outcome(&device, run, &result));
            }
            // A tensor that existed when it failed reports it, too, once; later tensors, and the device, don't.
            if device != Device::cpu() && outcomes[0].is_err() {
                assert_eq!(other.to_vec::<f32>().map_err(TeError::from), Err(TeError::Data(outcomes[0].clone().unwrap_err())));
                assert_eq!(other.to_vec::<f32>().unwrap(), [1.0]);
                assert!(device.check().is_err() && device.check().is_ok());
                assert!(device.default_stream().synchronize().is_err());
                assert!(device.default_stream().synchronize().is_ok());
                assert!(device.new_stream().unwrap().synchronize().is_ok());
            }
            prop_assert!(outcomes[1].is_ok(), "{device}: {:?}", outcomes[1]);
            let outcomes: [_; 2] = outcomes.try_into().unwrap();
            match &wanted {
                None => wanted = Some(outcomes),
                Some(wanted) => {
                    // The CPU's code doesn't know which tensor a divisor came from.
                    let nameless = |failure: DataError| match failure {
                        DataError::DivisionByZero { .. } => DataError::DivisionByZero { divisor: None },
                        other => other,
                    };
                    let failures = |all: &[Result<Vec<f32>, DataError>; 2]| all.clone().map(|it| it.err().map(nameless));
                    prop_assert_eq!(failures(&outcomes), failures(wanted), "{}\n{}", device, kernel.source());
                    if !matches!(kind, Kind::Softmax) {
                        prop_assert_eq!(&outcomes[1], &wanted[1]);
                    }
                }
            }
        }
        let failed = wanted.unwrap()[0].clone().err();
        match kind {
            Kind::Divided => prop_assert_eq!(failed, Some(DataError::DivisionByZero { divisor: None })),
            Kind::Columns => prop_assert_eq!(
                failed,
                (!(0..COLUMNS as i64).contains(&bad)).then(|| DataError::Index {
                    tensor: "A".to_owned(), dimension: 1, index: bad, extent: COLUMNS as i64
                })
            ),
            Kind::Guarded if bad < 0 => prop_assert_eq!(failed, None),
            _ => prop_assert_eq!(failed, Some(DataError::Index {
                tensor: "A".to_owned(), dimension: 0, index: bad, extent: ROWS as i64
            })),
        }
        good.clear();
    }

    /// Programs with hand-written schedules: rows and columns by index, quotients.
    #[test]
    fn programs_report_what_the_cpu_reports(
        columns: bool,
        good in proptest::collection::vec(1..5i64, 1..6),
        place: prop::sample::Index,
        bad in prop_oneof![Just(-1i64), Just(5), Just(7), Just(i64::from(i32::MAX)), -1000..-1i64, 8..100_000i64],
        divides: bool,
    ) {
        let (n, rows, m) = (var("n"), var("rows"), var("m"));
        let a = te::placeholder([rows, m], "A");
        let i = placeholder_of(ElementType::I32, [n], "I");
        let b = te::compute([n], "B", |[x]| {
            let element = if columns { a.at([x.into(), i.at([x])]) } else { a.at([i.at([x]), te::Expr::from(x)]) };
            if divides { (te::Expr::from(60) / i.at([x])).cast(te::DType::F32) } else { element }
        }).unwrap();
        let build = |device: &Device| {
            let mut s = te::create_schedule(&[&b]);
            if *device != Device::cpu() {
                let stage = s.stage(&b).unwrap();
                let (outer, inner) = stage.split(b.axis(0).unwrap(), 4).unwrap();
                stage.bind(outer, te::thread_axis("blockIdx.x")).unwrap();
                stage.bind(inner, te::thread_axis("threadIdx.x")).unwrap();
            }
            let arguments: &[&Tensor] = if divides { &[&i, &b] } else { &[&a, &i, &b] };
            te::lower(&s, arguments, "main").unwrap().build(device).unwrap()
        };
        let mut wrong = good.clone();
        wrong[place.index(good.len())] = if divides { 0 } else { bad };
        let mut wanted = None;
        for device in devices("programs_report_what_the_cpu_reports") {
            let kernel = build(&device);
            let values: Vec<f32> = (0..ROWS * COLUMNS).map(|x| x as f32).collect();
            let matrix = device.tensor(&values, [ROWS, COLUMNS]).unwrap();
            let mut result = device.zeros::<f32>([good.len()]).unwrap();
            let mut outcomes = Vec::new();
            for chosen in [&wrong, &good] {
                let read = indices(&device, ElementType::I32, chosen);
                let mut arguments: Vec<Argument<'_>> = vec![(&matrix).into(), (&read).into(), (&mut result).into()];
                if divides {
                    arguments.remove(0);
                }
                let run = kernel.run(&arguments);
                drop(arguments);
                outcomes.push(outcome(&device, run, &result));
            }
            match &wanted {
                None => wanted = Some(outcomes),
                Some(wanted) => {
                    let said = |failure: &DataError| match failure {
                        DataError::Element { element, count, .. } => (Some((*element, *count)), failure.to_string().starts_with("A[")),
                        DataError::DivisionByZero { divisor } => {
                            // A lowered program knows the element only by its index in memory.
                            (None, divisor.as_ref().is_none_or(|divisor| divisor.starts_with("I[")))
                        }
                        _ => (None, false),
                    };
                    for (mine, wanted) in outcomes.iter().zip(wanted) {
                        match (mine, wanted) {
                            (Err(mine), Err(wanted)) => {
                                prop_assert_eq!(said(mine), said(wanted));
                                prop_assert!(said(mine).1, "{}\n{}", mine, kernel.source());
                            }
                            _ => prop_assert_eq!(mine, wanted, "{}\n{}", device, kernel.source()),
                        }
                    }
                }
            }
        }
        let failed = wanted.unwrap()[0].is_err();
        prop_assert_eq!(failed, divides || bad < 0 || bad >= if columns { COLUMNS } else { ROWS } as i64);
    }
}

/// A scheduled program reports its own reads outside of a tensor, for some sizes, and never performs them. For the
/// others it is right.
#[test]
fn scheduled_programs_report_what_they_read_outside() -> Result<(), TeError> {
    let n = var("n");
    let a = te::placeholder([n], "A");
    let next = te::compute([n], "C", |[i]| a.at([i + 1]))?;
    let guarded = te::compute([n], "C", |[i]| (i + 1).less(n).select(a.at([i + 1]), 0.5))?;
    let half = te::compute([n], "C", |[i]| a.at([i * 2 % 8]))?;
    let k = te::reduce_axis((0, 3), "k");
    let window = te::compute([n], "C", |[i]| te::sum(a.at([i + k]), [k]))?;
    type Read = fn(usize, usize) -> Option<f32>;
    // Of the values 1, 2, … what an element is; `None` where it reads outside.
    let cases: [(&Tensor, Read); 4] = [
        (&next, |i, n| (i + 1 < n).then_some((i + 2) as f32)),
        (&guarded, |i, n| Some(if i + 1 < n { (i + 2) as f32 } else { 0.5 })),
        (&half, |i, n| (i * 2 % 8 < n).then_some((i * 2 % 8 + 1) as f32)),
        (&window, |i, n| (i + 2 < n).then_some((3 * i + 6) as f32)),
    ];
    for device in devices("scheduled_programs_report_what_they_read_outside") {
        for (c, read) in &cases {
            for (way, name) in ["plain", "in blocks", "in vectors"].into_iter().enumerate() {
                let mut s = te::create_schedule(&[c]);
                if way > 0 {
                    let stage = s.stage(c)?;
                    let (block, thread) = stage.split(c.axis(0)?, if way == 2 { 32 } else { 4 })?;
                    stage.bind(block, te::thread_axis("blockIdx.x"))?;
                    if way == 2 {
                        let (thread, lanes) = stage.split(thread, 4)?;
                        stage.bind(thread, te::thread_axis("threadIdx.x"))?;
                        // The window's sum is no loop of lanes.
                        if *c != &window {
                            stage.vectorize(lanes)?;
                        }
                    } else {
                        stage.bind(thread, te::thread_axis("threadIdx.x"))?;
                    }
                }
                let kernel = te::lower(&s, &[&a, c], "main")?.build(&device)?;
                for size in [1, 4, 5, 8, 64] {
                    let values: Vec<f32> = (1..=size).map(|x| x as f32).collect();
                    let input = device.tensor(&values, [size])?;
                    let wanted: Option<Vec<f32>> = (0..size).map(|i| read(i, size)).collect();
                    let mut result = device.zeros::<f32>([size])?;
                    let run = kernel.run(&[(&input).into(), (&mut result).into()]);
                    let got = outcome(&device, run, &result);
                    let what = format!("{} of {size}, {name}, on {device}", c.name());
                    match (got, wanted) {
                        (Ok(got), Some(wanted)) => assert_eq!(got, wanted, "{what}"),
                        (Err(DataError::Element { .. }), None) => {}
                        other => panic!("{what}: {other:?}"),
                    }
                }
            }
        }
    }
    Ok(())
}
