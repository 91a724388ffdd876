//! Reads of scheduled programs that leave one dimension: reported on every executor, however the program is scheduled.

use epilogue::te::{self, TeError, Tensor, var};
use epilogue::{Arch, DataError, Device, ElementType};

/// A way to schedule the result.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Blocks,
    Cached(&'static str),
    /// A cache of what one tile reads, for threads with virtual threads, in two halves.
    Halves,
    CacheWrite,
}

const WAYS: [Way; 6] =
    [Way::Plain, Way::Blocks, Way::Cached("shared"), Way::Cached("local"), Way::Halves, Way::CacheWrite];

fn devices(test: &str) -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    if epilogue_runtime::testing::compiler(test).is_some() {
        devices.extend(Device::emulated(Arch::SM_80));
        devices.extend(Device::cuda(0));
    }
    devices
}

/// The program of a result over two axes that reads `a`.
fn scheduled(a: &Tensor, c: &Tensor, way: Way, on_device: bool) -> Result<te::Program, TeError> {
    let mut s = te::create_schedule(&[c]);
    let cached = match way {
        Way::Cached(scope) => Some(s.cache_read(a, scope, &[c])?),
        Way::Halves => Some(s.cache_read(a, "shared", &[c])?),
        _ => None,
    };
    let kept = if matches!(way, Way::CacheWrite) { Some(s.cache_write(c, "local")?) } else { None };
    let stage = s.stage(c)?;
    let axes = stage.loops().to_vec();
    let (row, rows) = stage.split(axes[0], 2)?;
    let (tile, columns) = stage.split(axes[1], 4)?;
    stage.reorder(&[row, tile, rows, columns])?;
    if on_device {
        stage.bind(row, te::thread_axis("blockIdx.x"))?;
        stage.bind(rows, te::thread_axis(if matches!(way, Way::Halves) { "vthread" } else { "threadIdx.y" }))?;
        if !matches!(way, Way::Plain) {
            stage.bind(columns, te::thread_axis("threadIdx.x"))?;
        }
    }
    if let Some(kept) = kept {
        s.compute_at(&kept, c, columns)?;
    }
    if let Some(cached) = cached {
        let at = if matches!(way, Way::Cached("local")) { columns } else { tile };
        s.compute_at(&cached, c, at)?;
        if matches!(way, Way::Halves) {
            s.stage(&cached)?.double_buffer()?;
        }
    }
    te::lower(&s, &[a, c], "main")
}

/// The distance from an element of the result to the element that it reads: rows, columns, and widths of the matrix.
#[derive(Clone, Copy, Debug)]
struct Away {
    rows: i32,
    columns: i32,
    widths: i32,
}

impl Away {
    const fn is_inside(self) -> bool {
        matches!(self, Self { rows: 0, columns: 0, widths: 0 })
    }

    /// The element of `matrix` that is read for (i, j); `None` outside.
    fn of(self, (i, j): (usize, usize), matrix: &[f32], [n, m]: [usize; 2]) -> Option<f32> {
        let row = usize::try_from(i as i32 + self.rows).ok().filter(|row| *row < n)?;
        let column = usize::try_from(j as i32 + self.columns + self.widths * m as i32).ok().filter(|j| *j < m)?;
        Some(matrix[row * m + column])
    }
}

const READS: [Away; 6] = [
    Away { rows: 0, columns: 0, widths: 0 },
    Away { rows: 0, columns: 1, widths: 0 },
    Away { rows: 0, columns: -1, widths: 0 },
    Away { rows: 1, columns: 0, widths: 0 },
    Away { rows: -1, columns: 0, widths: 0 },
    // This is the same place in memory.
    Away { rows: 1, columns: 0, widths: -1 },
];

/// The matrix and the result that reads it.
fn reading(away: Away, guarded: bool, [n, m]: &[te::Expr; 2]) -> Result<(Tensor, Tensor), TeError> {
    let a = te::placeholder([n.clone(), m.clone()], "A");
    let c = te::compute([n.clone(), m.clone()], "C", |[i, j]| {
        let (row, column) = (i + away.rows, j + away.columns + m * away.widths);
        let read = a.at([row.clone(), column.clone()]);
        let inside = row.greater_equal(0).and(row.less(n)).and(column.greater_equal(0)).and(column.less(m));
        if guarded { inside.select(read, -1.0) } else { read }
    })?;
    Ok((a, c))
}

#[test]
fn reads_outside_one_dimension_are_reported() -> Result<(), TeError> {
    let devices = devices("reads_outside_one_dimension_are_reported");
    let sizes = [5usize, 6];
    let values: Vec<f32> = (1..=30).map(|x| x as f32).collect();
    let exact: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    for (place, away) in READS.into_iter().enumerate() {
        // Every way with symbolic sizes; with constants or guards, one that differs between the reads.
        let ways = WAYS.map(|way| (way, false, false)).into_iter();
        for (way, constant, guarded) in ways.chain([(WAYS[place], true, false), (WAYS[place], false, true)]) {
            let extents =
                if constant { sizes.map(|x| te::Expr::from(x as i32)) } else { ["n", "m"].map(|x| var(x).into()) };
            let (a, c) = reading(away, guarded, &extents)?;
            let wanted: Option<Vec<f32>> =
                (0..30).map(|x| away.of((x / 6, x % 6), &values, sizes).or(guarded.then_some(-1.0))).collect();
            let what = format!("{away:?}, {way:?}, constant: {constant}, guarded: {guarded}");
            let program = scheduled(&a, &c, way, false)?;
            let mut arrays = vec![te::Array::new(ElementType::F32, &sizes, &exact)?];
            arrays.push(te::Array::unwritten(ElementType::F32, &sizes));
            let ran = program.interpret(&mut arrays).map(|()| arrays[1].values().iter().map(|x| *x as f32).collect());
            assert(ran, wanted.as_ref(), &format!("{what}, interpreted"));
            for device in &devices {
                let program = scheduled(&a, &c, way, *device != Device::cpu())?;
                if guarded || away.is_inside() {
                    assert!(!program.script().contains("2147483648"), "{what}: {}", program.script());
                }
                let kernel = program.build(device)?;
                let input = device.tensor(&values, sizes)?;
                let mut result = device.zeros::<f32>(sizes)?;
                let ran = kernel.run(&[(&input).into(), (&mut result).into()]);
                let ran = ran.and_then(|()| Ok(result.to_vec::<f32>()?));
                assert(ran, wanted.as_ref(), &format!("{what}, on {device}"));
            }
        }
    }
    Ok(())
}

fn assert(ran: Result<Vec<f32>, TeError>, wanted: Option<&Vec<f32>>, what: &str) {
    match (ran, wanted) {
        (Ok(got), Some(wanted)) => assert_eq!(got, *wanted, "{what}"),
        (Err(TeError::Data(DataError::Element { .. })), None) => {}
        other => panic!("{what}: {other:?}"),
    }
}
