//! Automatic reductions and scans of integers, whose results are exact in every order.

use epilogue::te::{self, Expr, TeError, Tensor, auto, placeholder_of, var};
use epilogue::{Argument, Device, ElementType};
use epilogue_runtime::Source;

use crate::trial::{Kill, Subject, Text, stopped};

/// Sums of `[rows, columns]` along one of the axes.
struct Sums {
    rows: usize,
    columns: usize,
    /// A sum for every row, not for every column.
    of_rows: bool,
}

/// Running sums along the first axis of `[steps, columns]`.
struct RunningSums {
    steps: usize,
    columns: usize,
}

/// Shapes whose reductions lie in a block and in several blocks; scans of blocks that own their columns, and of blocks
/// that share them, with one tile at a time to look back to and with several.
pub(crate) fn all() -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for (rows, columns, of_rows) in
        [(3, 3000, true), (2, 60_000, true), (70, 90, false), (3000, 3, false), (60_000, 2, false)]
    {
        subjects.push(Box::new(Sums { rows, columns, of_rows }));
    }
    for (steps, columns) in [(130, 7000), (700, 40), (6000, 12)] {
        subjects.push(Box::new(RunningSums { steps, columns }));
    }
    subjects
}

fn integers(count: usize) -> Vec<i32> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    (0..count).map(|_| random.i32(-99..=99)).collect()
}

/// The text of the kernel that a run has chosen, which has this symbol.
fn text(device: &Device, kernel: &auto::Kernel, symbol: &str) -> Result<Text, String> {
    const FILE: &str = "kernel.cu";
    let source = kernel.source();
    let compiled = device.compile(&Source::new(FILE, symbol, source.as_str())).map_err(|error| error.to_string())?;
    Ok(Text { kernel: symbol.into(), ptx: compiled.ptx().to_owned(), source, file: FILE.into() })
}

/// Runs twice and compares.
fn check(
    device: &Device,
    kernel: &auto::Kernel,
    input: &[i32],
    shape: [usize; 2],
    expected: &[i32],
    output: &[usize],
) -> Result<(), (Kill, String)> {
    let x = device.tensor(input, shape).map_err(stopped)?;
    for _ in 0..2 {
        let mut y = device.tensor(&vec![-77; expected.len()], output).map_err(stopped)?;
        kernel.run(&[Argument::Input(&x), Argument::Output(&mut y)]).map_err(stopped)?;
        let found = y.to_vec::<i32>().map_err(stopped)?;
        if let Some(place) = found.iter().zip(expected).position(|(a, b)| a != b) {
            let (found, right) = (found[place], expected[place]);
            return Err((Kill::Wrong, format!("element {place} is {found}, not {right}")));
        }
    }
    Ok(())
}

impl Sums {
    fn kernel(&self, device: &Device) -> Result<auto::Kernel, TeError> {
        let (n, m) = (var("n"), var("m"));
        let a = placeholder_of(ElementType::I32, [n, m], "A");
        let (kept, summed) = if self.of_rows { (n, m) } else { (m, n) };
        let k = te::reduce_axis((0, summed), "k");
        let sums: Tensor =
            te::compute([kept], "B", |[i]| te::sum(if self.of_rows { a.at([i, k]) } else { a.at([k, i]) }, [k]))?;
        auto::reduce(&sums)?.build(device)
    }

    fn try_on(&self, device: &Device, kernel: &auto::Kernel) -> Result<(), (Kill, String)> {
        let input = integers(self.rows * self.columns);
        let mut expected = vec![0; if self.of_rows { self.rows } else { self.columns }];
        for (place, x) in input.iter().enumerate() {
            expected[if self.of_rows { place / self.columns } else { place % self.columns }] += x;
        }
        check(device, kernel, &input, [self.rows, self.columns], &expected, &[expected.len()])
    }
}

impl Subject for Sums {
    fn name(&self) -> String {
        let of = if self.of_rows { "rows" } else { "columns" };
        format!("te::auto::reduce, {of} of {} x {}", self.rows, self.columns)
    }

    fn text(&self, device: &Device) -> Result<Text, String> {
        let kernel = self.kernel(device).map_err(|error| error.to_string())?;
        self.try_on(device, &kernel).map_err(|(_, error)| error)?;
        text(device, &kernel, "te_reduce")
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        self.try_on(device, &self.kernel(device).map_err(stopped)?)
    }
}

impl RunningSums {
    fn kernel(&self, device: &Device) -> Result<auto::Kernel, TeError> {
        let (m, n) = (var("m"), var("n"));
        let x = placeholder_of(ElementType::I32, [m, n], "X");
        let state = placeholder_of(ElementType::I32, [m, n], "y");
        let init = te::compute([Expr::from(1), n.into()], "init", |[t, i]| x.at([t, i]))?;
        let update = te::compute([m, n], "update", |[t, i]| state.at([t - 1, i.into()]) + x.at([t, i]))?;
        auto::scan(&te::scan(&init, &update, &state, &[x])?)?.build(device)
    }

    fn try_on(&self, device: &Device, kernel: &auto::Kernel) -> Result<(), (Kill, String)> {
        let input = integers(self.steps * self.columns);
        let mut expected = input.clone();
        for place in self.columns..expected.len() {
            expected[place] += expected[place - self.columns];
        }
        let shape = [self.steps, self.columns];
        check(device, kernel, &input, shape, &expected, &shape)
    }
}

impl Subject for RunningSums {
    fn name(&self) -> String {
        format!("te::auto::scan of {} x {}", self.steps, self.columns)
    }

    fn text(&self, device: &Device) -> Result<Text, String> {
        let kernel = self.kernel(device).map_err(|error| error.to_string())?;
        self.try_on(device, &kernel).map_err(|(_, error)| error)?;
        text(device, &kernel, "te_scan")
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        self.try_on(device, &self.kernel(device).map_err(stopped)?)
    }
}
