//! The published times, as they lie in `benches/published/`: a file for each source.
//!
//! A file begins with lines `# key: value`. A table follows, whose first line names the columns. A key of the head
//! replaces a column that is equal in all rows. Columns are the fields of [`Row`]; a time is given as `us` or as `tflops`.
//! `harnesses.csv` says how each harness measures.
//!
//! Reading refuses what it does not know, so a slip of the pen in a file is an error and not another number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use epilogue::runtime::GpuModel;

/// The purpose of a row. It is written in the file before anything is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Constants of the model may be fitted to it.
    Fit,
    /// The model is judged by it, and nothing is fitted to it.
    Judge,
    /// The library has no kernel of its kind yet.
    Waiting,
    /// Its source does not say which board it is, so nothing follows from it.
    Unknown,
}

/// How close timed launches follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With gaps, in which the board takes little power.
    Burst,
    /// At once: the power limit holds.
    Sustained,
}

/// How a program measures.
#[derive(Clone, Debug)]
pub(crate) struct Harness {
    /// Bytes that it leaves in the L2, which must be written to memory; 0 if operands may lie there.
    pub(crate) dirty: f64,
    pub(crate) pace: Pace,
    /// The time that it adds to each, in microseconds.
    pub(crate) offset: f64,
    /// Shorter times are listed without a verdict.
    pub(crate) resolves: f64,
}

/// The types of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Types {
    F16,
    Bf16,
    Tf32,
    S8,
    /// e4m3, with sums in the tensor cores.
    FastE4m3,
    /// e4m3 with scales of blocks.
    ScaledE4m3,
}

/// The type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Output {
    /// The operands' own, or i32 of integers.
    Same,
    Bf16,
    F16,
    F32,
}

/// The kernel that was timed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timed {
    /// A library's choice: it is judged by the best candidate.
    Chosen(String),
    /// A kernel for sm_80: rows, columns and depth of a tile.
    Sm80 { tile: [usize; 3], split: Split },
    /// A kernel for sm_90a: rows and columns of a tile, and the cluster if it is known.
    Sm90 { tile: [usize; 2], cluster: Option<[usize; 2]> },
}

/// How a timed kernel shares K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Split {
    None,
    Stream,
    Serial(usize),
}

/// A published time.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The file without its ending.
    pub(crate) source: String,
    pub(crate) part: Part,
    pub(crate) harness: Harness,
    pub(crate) gpu: GpuModel,
    /// The board's power limit.
    pub(crate) watts: u32,
    /// M, N, K and the number of batches.
    pub(crate) extents: [usize; 4],
    pub(crate) types: Types,
    /// Whether A, and whether B, is contiguous along K.
    pub(crate) along_k: (bool, bool),
    pub(crate) output: Output,
    pub(crate) kernel: Timed,
    /// The published time in microseconds, without the harness's offset.
    pub(crate) microseconds: f64,
    /// Why the row is left out, for a reason that does not look at the model.
    pub(crate) bad: Option<String>,
}

impl Row {
    /// Floating-point operations, or as many of integers.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * self.extents.iter().map(|extent| *extent as f64).product::<f64>()
    }

    /// Whether it is fitted or judges.
    pub(crate) fn is_judged(&self) -> bool {
        matches!(self.part, Part::Fit | Part::Judge)
    }

    /// Whether the harness resolves so short a time.
    pub(crate) fn is_resolved(&self) -> bool {
        self.microseconds + self.harness.offset >= self.harness.resolves
    }
}

type Outcome<T> = Result<T, String>;

/// The folder of the data.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/published")
}

/// The value among `known` that the text names.
fn one_of<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> Outcome<T> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{what} `{text}`: write one of {}", names.join(", "))
    })
}

/// A number within bounds.
fn number(what: &str, text: &str, (least, most): (f64, f64)) -> Outcome<f64> {
    let read = text.parse::<f64>().map_err(|_| format!("{what} `{text}` is no number"))?;
    match (least..=most).contains(&read) {
        true => Ok(read),
        false => Err(format!("{what} is {read}: from {least} to {most} are possible")),
    }
}

fn extent(what: &str, text: &str) -> Outcome<usize> {
    let read = text.parse::<usize>().map_err(|_| format!("{what} `{text}` is no whole number"))?;
    if (1..=1 << 20).contains(&read) { Ok(read) } else { Err(format!("{what} is {read}: from 1 to 2^20 are possible")) }
}

/// Numbers between `x`: `128x256`.
fn pair<const N: usize>(what: &str, text: &str) -> Outcome<[usize; N]> {
    let numbers: Vec<usize> = text.split('x').map(|part| extent(what, part)).collect::<Outcome<_>>()?;
    numbers.try_into().map_err(|_| format!("{what} `{text}`: write {N} numbers with `x` between"))
}

impl Timed {
    /// `sm90 128x256 2x1`, `sm80 128x128x32 stream-K`, or a library's name.
    fn read(text: &str) -> Outcome<Self> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["sm90", tile] => Ok(Self::Sm90 { tile: pair("a tile", tile)?, cluster: None }),
            ["sm90", tile, cluster] => {
                Ok(Self::Sm90 { tile: pair("a tile", tile)?, cluster: Some(pair("a cluster", cluster)?) })
            }
            ["sm80", tile, ref split @ ..] => {
                let split = match *split {
                    [] => Split::None,
                    ["stream-K"] => Split::Stream,
                    ["serial", n] => Split::Serial(extent("a split", n)?),
                    _ => {
                        return Err(format!("kernel `{text}`: write nothing, `stream-K` or `serial N` after the tile"));
                    }
                };
                Ok(Self::Sm80 { tile: pair("a tile", tile)?, split })
            }
            [] => Err("no kernel is named".to_owned()),
            _ => Ok(Self::Chosen(text.to_owned())),
        }
    }
}

/// A file: its head, and its rows by their columns.
struct Table {
    head: BTreeMap<String, String>,
    rows: Vec<BTreeMap<String, String>>,
}

impl Table {
    fn read(text: &str) -> Outcome<Self> {
        let mut lines = text.lines().peekable();
        let mut head = BTreeMap::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('#')) {
            let (key, value) = line[1..].split_once(':').ok_or_else(|| format!("`{line}`: write `# key: value`"))?;
            head.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        let columns: Vec<&str> = lines.next().ok_or("no line names the columns")?.split(',').collect();
        let mut rows = Vec::new();
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            if cells.len() != columns.len() {
                return Err(format!("`{line}` has {} cells, and {} columns are named", cells.len(), columns.len()));
            }
            rows.push(columns.iter().zip(cells).map(|(c, cell)| ((*c).to_owned(), cell.to_owned())).collect());
        }
        Ok(Self { head, rows })
    }
}

/// The fields of a row, from its cells and the head of its file.
const FIELDS: [&str; 15] = [
    "part", "harness", "gpu", "watts", "m", "n", "k", "l", "types", "layout", "output", "kernel", "us", "tflops", "bad",
];
/// Names that may stand beside them, for readers of the file.
const NOTES: [&str; 3] = ["source", "by", "note"];

fn row(
    source: &str,
    harnesses: &BTreeMap<String, Harness>,
    head: &BTreeMap<String, String>,
    cells: &BTreeMap<String, String>,
) -> Outcome<Row> {
    let given = |name: &str| cells.get(name).or_else(|| head.get(name)).map(String::as_str);
    let of = |name: &'static str| given(name).ok_or_else(|| format!("neither a column nor the head has `{name}`"));
    let harness = of("harness")?;
    let harness = harnesses.get(harness).ok_or_else(|| format!("`harnesses.csv` has no `{harness}`"))?.clone();
    let [m, n, k] = [extent("m", of("m")?)?, extent("n", of("n")?)?, extent("k", of("k")?)?];
    let extents = [m, n, k, given("l").map_or(Ok(1), |l| extent("l", l))?];
    let operations = 2.0 * extents.iter().map(|extent| *extent as f64).product::<f64>();
    let measured = match (given("us"), given("tflops")) {
        (Some(us), None) => number("a time", us, (0.5, 1e6))?,
        (None, Some(tflops)) => operations * 1e-6 / number("a rate", tflops, (0.1, 1e4))?,
        _ => return Err("a time is given as `us` or as `tflops`, not as both".to_owned()),
    };
    let parts = [("fit", Part::Fit), ("judge", Part::Judge), ("waiting", Part::Waiting), ("unknown", Part::Unknown)];
    let types = [
        ("f16", Types::F16),
        ("bf16", Types::Bf16),
        ("tf32", Types::Tf32),
        ("s8", Types::S8),
        ("e4m3 fast", Types::FastE4m3),
        ("e4m3 scaled", Types::ScaledE4m3),
    ];
    let layouts = [("NT", (true, true)), ("NN", (true, false)), ("TN", (false, false)), ("TT", (false, true))];
    let outputs = [("same", Output::Same), ("bf16", Output::Bf16), ("f16", Output::F16), ("f32", Output::F32)];
    Ok(Row {
        source: source.to_owned(),
        part: one_of("part", of("part")?, &parts)?,
        gpu: of("gpu")?.parse().map_err(|error: epilogue::runtime::ParseGpuModelError| error.to_string())?,
        watts: number("watts", of("watts")?, (30.0, 2000.0))? as u32,
        extents,
        types: one_of("types", of("types")?, &types)?,
        along_k: one_of("layout", of("layout")?, &layouts)?,
        output: one_of("output", of("output")?, &outputs)?,
        kernel: Timed::read(of("kernel")?)?,
        microseconds: number(
            "a time without its harness's offset",
            &(measured - harness.offset).to_string(),
            (0.5, 1e6),
        )?,
        bad: given("bad").filter(|reason| !reason.is_empty()).map(str::to_owned),
        harness,
    })
}

fn harnesses(text: &str) -> Outcome<BTreeMap<String, Harness>> {
    let of = |cells: &BTreeMap<String, String>| {
        let cell = |name: &str| cells.get(name).map(String::as_str).ok_or_else(|| format!("no column `{name}`"));
        let harness = Harness {
            dirty: 1e6 * number("dirty_mb", cell("dirty_mb")?, (0.0, 200.0))?,
            pace: one_of("pace", cell("pace")?, &[("burst", Pace::Burst), ("sustained", Pace::Sustained)])?,
            offset: number("offset_us", cell("offset_us")?, (0.0, 20.0))?,
            resolves: number("resolves_us", cell("resolves_us")?, (0.0, 100.0))?,
        };
        Ok((cell("name")?.to_owned(), harness))
    };
    Table::read(text)?.rows.iter().map(of).collect()
}

/// The rows of one file's text.
fn rows(source: &str, harnesses: &BTreeMap<String, Harness>, text: &str) -> Outcome<Vec<Row>> {
    let table = Table::read(text)?;
    let known: BTreeSet<&str> = FIELDS.into_iter().chain(NOTES).collect();
    let names = table.head.keys().chain(table.rows.iter().flat_map(BTreeMap::keys));
    if let Some(name) = names.into_iter().find(|name| !known.contains(name.as_str())) {
        return Err(format!("`{name}` is no field: the fields are {}", FIELDS.join(", ")));
    }
    if !table.head.contains_key("source") || !table.head.contains_key("by") {
        return Err("the head says neither `source` nor `by`, or one of them".to_owned());
    }
    let one = |(line, cells): (usize, &BTreeMap<String, String>)| {
        row(source, harnesses, &table.head, cells).map_err(|why| format!("row {}: {why}", line + 1))
    };
    table.rows.iter().enumerate().map(one).collect()
}

/// All rows of the folder.
pub(crate) fn all() -> Outcome<Vec<Row>> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let harnesses = harnesses(&read(&folder().join("harnesses.csv"))?)?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "csv") && !path.ends_with("harnesses.csv"));
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let source = path.file_stem().unwrap_or_default().to_string_lossy();
        all.extend(rows(&source, &harnesses, &read(&path)?).map_err(|why| format!("{}: {why}", path.display()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# source: a page\n# by: somebody\n# harness: loop\n# part: fit\n# gpu: L4\n# watts: 72\n\
                        # types: f16\n# layout: NT\n# output: same\n";

    fn read(rest: &str) -> Outcome<Vec<Row>> {
        let harness = Harness { dirty: 0.0, pace: Pace::Sustained, offset: 2.0, resolves: 10.0 };
        rows("test", &BTreeMap::from([("loop".to_owned(), harness)]), &format!("{HEAD}{rest}"))
    }

    #[test]
    fn rows_are_read() {
        let rows = read("m,n,k,kernel,us,bad\n64,128,256,cuBLAS,12.5,\n64,128,256,sm80 64x64x32 serial 2,9,noisy\n");
        let rows = rows.expect("rows");
        assert_eq!((rows[0].extents, rows[0].microseconds, rows[0].is_resolved()), ([64, 128, 256, 1], 10.5, true));
        assert_eq!(rows[1].kernel, Timed::Sm80 { tile: [64, 64, 32], split: Split::Serial(2) });
        assert!(!rows[1].is_resolved() && rows[1].bad.as_deref() == Some("noisy"));
        let by_rate = read("m,n,k,kernel,tflops\n1024,1024,1024,sm90 128x256 2x1,100\n").expect("rows");
        assert!((by_rate[0].microseconds - 19.47).abs() < 0.01);
        assert_eq!(by_rate[0].kernel, Timed::Sm90 { tile: [128, 256], cluster: Some([2, 1]) });
    }

    #[test]
    fn slips_of_the_pen_are_errors() {
        let refused = |rest: &str| read(rest).expect_err("refused");
        assert!(refused("m,n,k,kernel,us\n0,1,1,cuBLAS,5\n").contains("m is 0"));
        assert!(refused("m,n,k,kernel,us\n8,8,8,cuBLAS,-5\n").contains("a time is -5"));
        assert!(refused("m,n,k,kernel,us\n8,8,8,cuBLAS,1\n").contains("without its harness's offset"));
        assert!(refused("m,n,k,kernel\n8,8,8,cuBLAS\n").contains("`us` or as `tflops`"));
        assert!(refused("m,n,k,kernel,us\n8,8,8\n").contains("3 cells, and 5 columns"));
        assert!(refused("m,n,k,kernel,us,colour\n8,8,8,cuBLAS,9,red\n").contains("`colour` is no field"));
        assert!(refused("m,n,k,kernel,us\n8,8,8,sm80 64x64,9\n").contains("3 numbers"));
    }
}
