//! Ladders: kernels of one author for one product, each with a description, its counts and its published rate.
//!
//! A file begins with `key: value` for all of its kernels. Each `[kernel]` is followed by the keys of its own. Reading
//! refuses an unknown key, a missing one, and a number out of bounds.

use std::collections::BTreeMap;
use std::str::FromStr;

use epilogue::runtime::GpuModel;

use super::counts::{Counts, Part};

/// How operands come to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
    /// Tensor copies by a warp of their own, or before the products.
    Tma,
    /// `cp.async` by the warps that multiply.
    Async,
    /// Loads to registers and stores.
    Registers,
}

/// Facts that machine code doesn't tell, written by hand after the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    /// Rows, columns and depth of a block's stage.
    pub(super) tile: [usize; 3],
    /// Warps of a block that multiply.
    pub(super) warps: usize,
    pub(super) stages: usize,
    pub(super) loads: Loads,
    /// Blocks that share loads, along M and along N.
    pub(super) cluster: [usize; 2],
    /// Blocks that a multiprocessor holds.
    pub(super) together: usize,
    /// Blocks of a persistent grid; a block for each tile if it is 0.
    pub(super) grid: usize,
    /// Arrivals of a warp's lanes at barriers, for each k-tile.
    pub(super) arrivals: usize,
    /// Bank conflicts: accesses to shared memory that one matrix load becomes, and one of the epilogue.
    pub(super) conflicts: [usize; 2],
    /// Lines of 128 bytes that one store to global memory touches.
    pub(super) lines: usize,
}

/// A kernel of a ladder.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) what: String,
    /// Why the prediction is known to be off, if it is.
    pub(super) why: String,
    pub(super) description: Description,
    pub(super) counts: Counts,
    /// The published rate in TFLOP/s.
    pub(super) tflops: f64,
}

/// The kernels of one author on one board.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    pub(super) gpu: GpuModel,
    /// M, N and K.
    pub(super) product: [usize; 3],
    /// The file of published times that has cuBLAS's on the same board.
    pub(super) published: String,
    pub(super) steps: Vec<Step>,
}

type Outcome<T> = Result<T, String>;
type Keys<'t> = BTreeMap<&'t str, &'t str>;

/// Keys of the head; the first four are for readers of the file.
const HEAD: [&str; 7] = ["source", "licence", "compiled", "by", "gpu", "product", "published"];
/// Keys of a kernel.
const KERNEL: [&str; 18] = [
    "what",
    "why",
    "tile",
    "warps",
    "stages",
    "loads",
    "cluster",
    "together",
    "grid",
    "arrivals",
    "conflicts",
    "lines",
    "tflops",
    "prologue",
    "product",
    "tile_code",
    "end",
    "producer",
];

fn keys<'t>(lines: &[&'t str], known: &[&str]) -> Outcome<Keys<'t>> {
    let mut keys = Keys::new();
    for line in lines.iter().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(':').ok_or_else(|| format!("`{line}`: write KEY: VALUE"))?;
        if !known.contains(&key) {
            return Err(format!("`{key}` is no key here: there are {}", known.join(", ")));
        }
        if keys.insert(key, value.trim()).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    match known.iter().find(|key| !keys.contains_key(*key)) {
        Some(missing) => Err(format!("`{missing}` is missing")),
        None => Ok(keys),
    }
}

/// Numbers with `x` between them, from `least` to 2^20.
fn numbers<const N: usize>(key: &str, text: &str, least: usize) -> Outcome<[usize; N]> {
    let bounded = |word: &str| usize::from_str(word).ok().filter(|n| (least..=1 << 20).contains(n));
    let read: Option<Vec<usize>> = text.split('x').map(bounded).collect();
    let read = read.and_then(|read| read.try_into().ok());
    read.ok_or_else(|| format!("{key} `{text}`: write {N} numbers from {least} to 2^20, with `x` between"))
}

fn number(key: &str, text: &str, least: usize) -> Outcome<usize> {
    numbers::<1>(key, text, least).map(|[number]| number)
}

impl Step {
    fn read(name: &str, lines: &[&str]) -> Outcome<Self> {
        let keys = keys(lines, &KERNEL)?;
        let loads = match keys["loads"] {
            "TMA" => Loads::Tma,
            "cp.async" => Loads::Async,
            "registers" => Loads::Registers,
            other => return Err(format!("loads `{other}`: write TMA, cp.async or registers")),
        };
        let part = |key: &str| Part::read(keys[key]).map_err(|why| format!("{key}: {why}"));
        let counts = Counts {
            prologue: part("prologue")?,
            product: part("product")?,
            tile: part("tile_code")?,
            end: part("end")?,
            producer: part("producer")?,
        };
        if counts.product.work.multiply_adds < 1.0 {
            return Err("product: no multiply_adds: count the kernel again".to_owned());
        }
        let tflops = f64::from_str(keys["tflops"]).ok().filter(|rate| (0.1..1e4).contains(rate));
        Ok(Self {
            name: name.to_owned(),
            what: keys["what"].to_owned(),
            why: keys["why"].to_owned(),
            description: Description {
                tile: numbers("tile", keys["tile"], 1)?,
                warps: number("warps", keys["warps"], 1)?,
                stages: number("stages", keys["stages"], 1)?,
                loads,
                cluster: numbers("cluster", keys["cluster"], 1)?,
                together: number("together", keys["together"], 1)?,
                grid: number("grid", keys["grid"], 0)?,
                arrivals: number("arrivals", keys["arrivals"], 0)?,
                conflicts: numbers("conflicts", keys["conflicts"], 1)?,
                lines: number("lines", keys["lines"], 1)?,
            },
            counts,
            tflops: tflops.ok_or_else(|| format!("tflops `{}`: write a rate from 0.1 to 10^4", keys["tflops"]))?,
        })
    }
}

/// Whether a line begins a kernel.
fn is_title(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']')
}

impl Ladder {
    /// Reads a file's text.
    pub(super) fn read(text: &str) -> Outcome<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| is_title(line)).ok_or("no line `[kernel]`")?;
        let head = keys(&lines[..first], &HEAD)?;
        let mut steps = Vec::new();
        for of_kernel in lines[first..].chunk_by(|_, next| !is_title(next)) {
            let name = of_kernel[0].trim_matches(['[', ']']);
            steps.push(Step::read(name, &of_kernel[1..]).map_err(|why| format!("[{name}] {why}"))?);
        }
        Ok(Self {
            gpu: head["gpu"].parse().map_err(|error: epilogue::runtime::ParseGpuModelError| error.to_string())?,
            product: numbers("product", head["product"], 1)?,
            published: head["published"].to_owned(),
            steps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "source: a page\nlicence: MIT\ncompiled: by a compiler\nby: hand\ngpu: L4\nproduct: 64x64x64\n\
                        published: a_file\n[one]\nwhat: first\nwhy:\ntile: 64x64x32\nwarps: 4\nstages: 2\nloads: cp.async\n\
                        cluster: 1x1\ntogether: 2\ngrid: 0\narrivals: 0\nconflicts: 8x1\nlines: 8\ntflops: 60.5\n\
                        prologue: integer=2 alone=9\nproduct: tensor=8 multiply_adds=4096 alone=80\ntile_code:\nend:\n\
                        producer:\n";

    #[test]
    fn a_ladder_is_read() {
        let ladder = Ladder::read(TEXT).expect("a ladder");
        let step = &ladder.steps[0];
        assert_eq!((ladder.product, step.name.as_str(), step.tflops), ([64; 3], "one", 60.5));
        assert_eq!((step.description.conflicts, step.description.loads), ([8, 1], Loads::Async));
        assert_eq!(step.counts.product.to_string(), "tensor=8 multiply_adds=4096 alone=80");
    }

    #[test]
    fn slips_of_the_pen_are_errors() {
        let refused = |from: &str, to: &str| Ladder::read(&TEXT.replace(from, to)).expect_err("refused");
        assert_eq!(
            refused("tile: 64x64x32", "tile: 64x64"),
            "[one] tile `64x64`: write 3 numbers from 1 to 2^20, with `x` between"
        );
        assert!(refused("warps: 4", "warps: 0").contains("from 1 to 2^20"));
        assert!(refused("lines: 8\n", "").contains("`lines` is missing"));
        assert!(refused("lines: 8", "line: 8").contains("`line` is no key here"));
        assert!(refused("cp.async", "copies").contains("write TMA, cp.async or registers"));
        assert!(refused("tensor=8", "tensors=8").contains("`tensors` is no count"));
        assert!(refused("alone=9", "alone=-9").contains("from 0 to 10^9"));
        assert!(refused("multiply_adds=4096 ", "").contains("count the kernel again"));
        assert!(refused("[one]", "one").contains("no line `[kernel]`"));
    }
}
