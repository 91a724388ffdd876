//! `fit FOLDER`: fits the constants of the library's model to the times that are recorded in a folder.
//!
//! Errors are differences of logarithms, because the ratio of the measured to the predicted time counts. Changes of
//! constants are measured likewise. A constant that the records do not tell stays as it is.

mod search;

use std::collections::BTreeMap;
use std::path::Path;

use epilogue::evt::{Types, ValidTree};
use epilogue::gemm::{
    Arithmetic, Candidate, KernelKey, Machine, Major, Offer, OperandLayout, Parameter, Problem, SplitK,
};
use epilogue::{ElementType, GpuModel};
use serde_json::Value;

use crate::Outcome;
use crate::gemm::{epilogue_of, layouts_of};

/// The kinds of records whose rows are candidates with their times.
const KINDS: [&str; 3] = ["picks", "candidates", "autotune"];

/// Ends of the names of constants that the times do not tell from others: the clock is recorded, and the clock under load
/// always comes with the usable share of the tensor cores.
const KNOWN: [&str; 2] = ["machine.clock", ".busy_clock"];

/// Whether the times tell a constant from others.
fn is_told(parameter: &Parameter) -> bool {
    !KNOWN.iter().any(|end| parameter.name().ends_with(end))
}

/// A constant stays within this factor of what it was.
const FACTOR: f64 = 4.0;

/// A product whose kernels were timed.
struct Product {
    problem: Problem,
    layouts: (OperandLayout, OperandLayout),
    arithmetic: Arithmetic,
    tree: ValidTree,
}

/// A kernel, as the model needs it to predict the time again.
#[derive(Clone, Copy)]
struct Kernel {
    key: KernelKey,
    split_k: SplitK,
}

/// A kernel's measured time in microseconds.
struct Observation {
    product: usize,
    kernel: Kernel,
    measured: f64,
}

/// Everything that was timed on one GPU.
struct Times {
    products: Vec<Product>,
    observations: Vec<Observation>,
    /// Rows that are not fitted to: of kernels that this version does not have, or with copies before them.
    left_out: usize,
}

impl Product {
    fn of(record: &Value) -> Option<Self> {
        let element = ElementType::ALL.into_iter().find(|element| record["element"] == element.to_string())?;
        let extent = |i: usize| usize::try_from(record["shape"][i].as_u64()?).ok();
        let problem = Problem::new(extent(0)?, extent(1)?, extent(2)?);
        let majors = match record["layout"].as_str()? {
            "nt" => (Major::K, Major::K),
            "nn" => (Major::K, Major::Mn),
            "tt" => (Major::Mn, Major::K),
            "tn" => (Major::Mn, Major::Mn),
            _ => return None,
        };
        let layouts = layouts_of([problem.m, problem.n, problem.k], element, majors);
        let tree = epilogue_of(element, record["epilogue"].as_str()?)?;
        let tree = tree.validate(Types::new(element, element)).ok()?;
        let arithmetic = if element == ElementType::F32 { Arithmetic::Tf32 } else { Arithmetic::Exact };
        Some(Self { problem, layouts, arithmetic, tree })
    }

    /// The product, as every family prices it.
    const fn offer(&self) -> Offer<'_> {
        Offer { problem: self.problem, layouts: self.layouts, arithmetic: self.arithmetic, tree: &self.tree }
    }

    /// The predicted time.
    fn predict(&self, machine: &Machine, kernel: &Kernel) -> Option<f64> {
        Some(self.offer().estimate(machine, &kernel.key, kernel.split_k)?.microseconds)
    }
}

impl Kernel {
    const fn of(candidate: &Candidate) -> Self {
        Self { key: candidate.key, split_k: candidate.split_k }
    }
}

impl Times {
    fn of(machine: &Machine, records: &[Value]) -> Self {
        let mut times = Self { products: Vec::new(), observations: Vec::new(), left_out: 0 };
        for record in records.iter().filter(|record| KINDS.iter().any(|kind| record["kind"] == *kind)) {
            let rows = record["rows"].as_array().map_or(&[][..], Vec::as_slice);
            let Some(product) = Product::of(record) else {
                times.left_out += rows.len();
                continue;
            };
            // A candidate's text begins with its key and its split of K.
            let known: BTreeMap<String, Kernel> = product
                .offer()
                .candidates(machine)
                .iter()
                .map(|candidate| (format!("{}; {}; ", candidate.key, candidate.split_k), Kernel::of(candidate)))
                .collect();
            let product_index = times.products.len();
            for row in rows {
                let (text, measured) = (row["candidate"].as_str().unwrap_or_default(), row["measured_us"].as_f64());
                // The text sorts behind all of its beginnings.
                let before = known.range(..=text.to_owned()).rev();
                let found = before.take(4).find(|(begin, _)| text.starts_with(begin.as_str()));
                match (found, measured) {
                    (Some((_, kernel)), Some(measured)) if measured > 0.0 && !text.contains("copied first") => {
                        times.observations.push(Observation { product: product_index, kernel: *kernel, measured });
                    }
                    _ => times.left_out += 1,
                }
            }
            times.products.push(product);
        }
        times
    }

    /// The logarithms of measured over predicted times.
    fn errors(&self, machine: &Machine) -> Vec<f64> {
        let of = |o: &Observation| Some((o.measured / self.products[o.product].predict(machine, &o.kernel)?).ln());
        self.observations.iter().map(|o| of(o).unwrap_or(f64::INFINITY)).collect()
    }

    /// The machine whose constants predict the times best.
    fn fit(&self, start: &Machine) -> Machine {
        // Those on which no predicted time depends are left alone.
        let unchanged = self.errors(start);
        let depends = |p: &Parameter| {
            [0.5, 1.5].into_iter().any(|factor| self.errors(&p.with(start, factor * p.of(start))) != unchanged)
        };
        let parameters: Vec<Parameter> = Parameter::all().filter(|p| is_told(p) && depends(p)).collect();
        let with = |changes: &[f64]| {
            let changed = parameters.iter().zip(changes).filter(|(_, change)| **change != 0.0);
            changed.fold(start.clone(), |machine, (p, change)| p.with(&machine, p.of(start) * change.exp()))
        };
        let range = |p: &Parameter| {
            // No share is more than all.
            let most = if p.unit().starts_with("of the") { (1.0 / p.of(start)).min(FACTOR) } else { FACTOR };
            (-FACTOR.ln(), most.max(1.0).ln())
        };
        let errors = |changes: &[f64]| self.errors(&with(changes));
        let ranges = parameters.iter().map(range).collect();
        with(&search::Problem { errors: &errors, ranges }.minimise())
    }

    /// The median, the ninth of ten, and the largest of the errors, in percent.
    fn summary(&self, machine: &Machine) -> [f64; 3] {
        let mut errors: Vec<f64> = self.errors(machine).iter().map(|e| 100.0 * (e.abs().exp() - 1.0)).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors.get((share * errors.len() as f64) as usize).or(errors.last()).copied();
        [0.5, 0.9, 1.0].map(|share| at(share).unwrap_or(0.0))
    }
}

/// The GPU that the records are of, with its recorded clock and number of multiprocessors.
fn machine_of(records: &[Value]) -> Outcome<Machine> {
    let record = records.iter().find(|record| record["kind"] == "machine");
    let record = record.ok_or("no record of kind `machine` is there: it names the GPU; run the step `machine`")?;
    let name = record["name"].as_str().unwrap_or_default();
    let mut machine = GpuModel::of_driver(name).map(Machine::of_model).ok_or_else(|| {
        format!("the records are of `{name}`, which is no known GPU: add a row to runtime/src/device/gpu_model.rs")
    })?;
    if let Some(count) = record["multiprocessors"].as_u64().and_then(|count| usize::try_from(count).ok()) {
        machine.multiprocessors = count;
    }
    if let Some(clock) = record["peak_clock_khz"].as_f64().filter(|clock| *clock > 0.0) {
        machine.clock = clock * 1e-6;
    }
    Ok(machine)
}

/// Reads every record of a folder's files, as they are described in `benches/results/README.md`.
fn records(folder: &Path) -> Outcome<Vec<Value>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut records = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
        records.extend(std::fs::read_to_string(path)?.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    Ok(records)
}

/// `fit FOLDER`: prints the constants before and after, and the errors.
pub(crate) fn print(words: &[String]) -> Outcome<()> {
    let [folder] = words else { return Err("usage: epilogue-gpu fit FOLDER".into()) };
    print!("{}", report(&records(Path::new(folder))?)?);
    Ok(())
}

fn report(records: &[Value]) -> Outcome<String> {
    use std::fmt::Write as _;

    let start = machine_of(records)?;
    let times = Times::of(&start, records);
    if times.observations.is_empty() {
        return Err("no measured candidates are there: run `./run.sh --only picks` and, better, `--tier 3 --only \
                    candidates` on the GPU"
            .into());
    }
    let fitted = times.fit(&start);
    let mut text = String::new();
    let (count, products) = (times.observations.len(), times.products.len());
    writeln!(text, "{count} times of {products} products; {} rows are left out", times.left_out)?;
    for (when, machine) in [("before", &start), ("after", &fitted)] {
        let [median, most, worst] = times.summary(machine);
        writeln!(
            text,
            "{when}: half are within {median:.1} %, nine of ten within {most:.1} %, the worst {worst:.1} %"
        )?;
    }
    for parameter in Parameter::all() {
        let (before, after) = (parameter.of(&start), parameter.of(&fitted));
        if before != after {
            writeln!(text, "{}: {before:.4} -> {after:.4} {}", parameter.name(), parameter.unit())?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Records as the bundle writes them: of every product the six best candidates, and every 97th from `first` on. The
    /// times are `truth`'s, times what `noise` says of each.
    fn made_up(truth: &Machine, first: usize, mut noise: impl FnMut() -> f64) -> Vec<Value> {
        let mut all = vec![json!({"kind": "machine", "name": "NVIDIA H200", "multiprocessors": 132})];
        let shapes =
            [[8192, 8192, 8192], [4096, 4096, 4096], [2048, 2048, 2048], [1024, 1024, 1024], [64, 28672, 8192]];
        for (shape, epilogue) in shapes.into_iter().flat_map(|s| ["plain", "bias_gelu_residual"].map(|e| (s, e))) {
            let mut record =
                json!({"kind": "candidates", "shape": shape, "layout": "nt", "element": "bf16", "epilogue": epilogue});
            let product = Product::of(&record).expect("a product");
            let candidates = product.offer().candidates(&Machine::h200());
            let some = candidates.iter().take(6).chain(candidates.iter().skip(first).step_by(97));
            let rows = some.map(|candidate| {
                let us = product.predict(truth, &Kernel::of(candidate)).expect("a time") * noise();
                json!({"candidate": candidate.to_string(), "predicted_us": candidate.microseconds, "measured_us": us})
            });
            record["rows"] = rows.collect();
            all.push(record);
        }
        all
    }

    /// Every 11th time is half as long again.
    fn outliers() -> impl FnMut() -> f64 {
        let mut number = 0;
        move || {
            number += 1;
            if number % 11 == 0 { 1.5 } else { 1.0 }
        }
    }

    fn parameter(name: &str) -> Parameter {
        Parameter::all().find(|parameter| parameter.name() == name).expect("a parameter")
    }

    /// The constants that made the times are found again, in spite of outliers.
    #[test]
    fn perturbed_constants_are_recovered() {
        let changes = [("machine.l2", 0.8), ("machine.memory", 0.9), ("sm90.start", 1.5), ("machine.power_clock", 0.9)];
        let mut truth = Machine::h200();
        for (name, factor) in changes {
            let parameter = parameter(name);
            truth = parameter.with(&truth, factor * parameter.of(&truth));
        }
        let records = made_up(&truth, 0, outliers());
        let start = machine_of(&records).expect("an H200");
        let times = Times::of(&start, &records);
        assert!(times.observations.len() >= 80, "{}", times.observations.len());
        assert_eq!(times.left_out, 0);
        let fitted = times.fit(&start);
        assert!(times.summary(&start)[0] > 5.0 && times.summary(&fitted)[0] < 0.5, "{:?}", times.summary(&fitted));
        for (name, _) in changes {
            let (found, meant) = (parameter(name).of(&fitted), parameter(name).of(&truth));
            assert!((found / meant).ln().abs() < 0.05, "{name}: {found}, {meant} made the times");
        }
    }

    /// With other constants at random, times that differ by some percent from run to run, and outliers: kernels that were
    /// not timed are predicted as well as those that were.
    #[test]
    fn what_was_not_timed_is_predicted() {
        for seed in 1..=6_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let start = Machine::h200();
            let mut truth = start.clone();
            for parameter in Parameter::all().filter(is_told) {
                let value = parameter.of(&start) * (0.8 * (random.f64() - 0.5)).exp();
                let value = if parameter.unit().starts_with("of the") { value.min(1.0) } else { value };
                truth = parameter.with(&truth, value);
            }
            let mut out = outliers();
            let records = made_up(&truth, 0, || (0.02 * (random.f64() + random.f64() - 1.0)).exp() * out());
            let fitted = Times::of(&start, &records).fit(&start);
            let others = Times::of(&start, &made_up(&truth, 48, || 1.0));
            let (before, after) = (others.summary(&start), others.summary(&fitted));
            assert!(before[0] > 5.0 && after[0] < 0.6 && after[1] < 3.0, "{seed}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn times_that_fit_change_nothing() {
        let start = Machine::h200();
        let records = made_up(&start, 0, || 1.0);
        let times = Times::of(&start, &records);
        assert_eq!(times.fit(&start), start);
        let text = report(&records).expect("a report");
        assert!(text.contains("after: half are within 0.0 %") && !text.contains("->"), "{text}");
    }

    #[test]
    fn what_can_t_be_fitted_is_said() {
        let error = |records: &[Value]| report(records).expect_err("nothing to fit").to_string();
        assert!(error(&[]).contains("no record of kind `machine`"));
        assert!(error(&[json!({"kind": "machine", "name": "Tesla T4"})]).contains("of `Tesla T4`"));
        let machine = json!({"kind": "machine", "name": "NVIDIA H200"});
        assert!(error(std::slice::from_ref(&machine)).contains("no measured candidates"));
        let mut records = made_up(&Machine::h200(), 0, || 1.0);
        records[1]["rows"][0]["candidate"] = json!("wgmma bf16: 1x1; no split-K; 1 blocks");
        records[2]["epilogue"] = json!("unknown");
        let rows = records[2]["rows"].as_array().map_or(0, Vec::len);
        assert_eq!(Times::of(&Machine::h200(), &records).left_out, 1 + rows);
    }
}
