//! Reads the committed results of every GPU, `benches/results/<gpu>/*.jsonl`, as `benches/results/README.md` describes
//! them. It combines what several programs measured for one subject, and neither draws nor judges.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::{Failure, root};

/// One contender's time of one comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Time {
    /// The median, in milliseconds.
    pub(crate) ms: f64,
    /// 10^12 operations per second, and bytes per second, if they have a meaning.
    pub(crate) tflops: f64,
    pub(crate) tb_per_s: f64,
}

/// The subject of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    /// Whether it is a matrix product; otherwise it is a tensor expression.
    pub(crate) gemm: bool,
    pub(crate) element: String,
    /// M, N, K; or the extents in memory.
    pub(crate) shape: Vec<u64>,
    /// The layouts of A and B in BLAS's letters; empty for a tensor expression.
    pub(crate) layout: String,
    /// The epilogue or the operation.
    pub(crate) what: String,
}

/// One subject that was timed, with all contenders. Our own name is `epilogue`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) subject: Subject,
    /// Bytes that have to be read and written at least; NaN if only peers were timed.
    pub(crate) bytes: f64,
    pub(crate) times: BTreeMap<String, Time>,
}

/// Our own name among contenders.
pub(crate) const OWN: &str = "epilogue";

impl Comparison {
    pub(crate) fn own(&self) -> Option<&Time> {
        self.times.get(OWN)
    }

    /// A contender's time as a multiple of ours: above 1 we are faster.
    pub(crate) fn ratio(&self, contender: &str) -> Option<f64> {
        Some(self.times.get(contender)?.ms / self.own()?.ms)
    }

    /// [`ratio`](Self::ratio) to the fastest of the contenders whose names begin with `prefix`.
    pub(crate) fn ratio_to_any(&self, prefix: &str) -> Option<f64> {
        let peers = self.times.keys().filter(|name| name.starts_with(prefix));
        peers.filter_map(|name| self.ratio(name)).min_by(f64::total_cmp)
    }

    /// M, N, K.
    pub(crate) fn mnk(&self) -> [f64; 3] {
        #[expect(clippy::cast_precision_loss, reason = "extents")]
        [0, 1, 2].map(|i| self.subject.shape.get(i).map_or(f64::NAN, |extent| *extent as f64))
    }
}

/// The results of one GPU.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) folder: PathBuf,
    /// Every record, in the order of the files.
    pub(crate) records: Vec<Value>,
    /// Everything that was timed, sorted; for a subject that was timed several times, the last.
    pub(crate) comparisons: Vec<Comparison>,
}

impl Gpu {
    /// Reads one GPU's folder. Lines that are not records, such as one that was cut off, are ignored.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        files.sort();
        let mut records = Vec::new();
        for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
            records.extend(fs::read_to_string(path)?.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()));
        }
        let comparisons = comparisons(&records);
        Ok(Self { folder: folder.to_owned(), records, comparisons })
    }

    /// The results of all GPUs.
    pub(crate) fn all() -> Result<Vec<Self>, Failure> {
        let folder = root().join("benches/results");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        let all = folders.iter().map(|folder| Self::read(folder)).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<Self> = all.into_iter().filter(|gpu| !gpu.comparisons.is_empty()).collect();
        if all.is_empty() {
            let advice = "make them with `cargo xtask gpu-bundle` and its run.sh on a GPU machine";
            return Err(format!("no speeds in {}/*/*.jsonl: {advice}, and copy them there", folder.display()).into());
        }
        Ok(all)
    }

    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.records.iter().filter(move |record| record["kind"] == kind)
    }

    /// 10^12 bytes per second that a copy reads and writes.
    pub(crate) fn copy(&self) -> Option<f64> {
        self.records.iter().filter_map(|record| record["copy_tb_per_s"].as_f64()).max_by(f64::total_cmp)
    }

    /// The time of cuBLASLt's fastest algorithm for the product alone, in milliseconds; from the same race if it took
    /// part.
    pub(crate) fn plain(&self, c: &Comparison) -> Option<f64> {
        let of = |c: &Comparison| c.times.get("cublaslt").map(|time| time.ms);
        let alike = |other: &&Comparison| {
            let (x, y) = (&other.subject, &c.subject);
            x.gemm && (&x.element, &x.shape, &x.layout) == (&y.element, &y.shape, &y.layout)
        };
        of(c).or_else(|| self.comparisons.iter().filter(alike).find_map(of))
    }
}

/// Combines the records of each subject.
fn comparisons(records: &[Value]) -> Vec<Comparison> {
    let mut all: BTreeMap<Subject, Comparison> = BTreeMap::new();
    for record in records.iter().filter(|record| record["kind"] == "speed") {
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        let Some(what) = text("epilogue").or_else(|| text("operation")) else { continue };
        let gemm = record["epilogue"].is_string();
        let subject = Subject {
            gemm,
            element: text("element").or_else(|| text("dtype")).unwrap_or_default(),
            shape: record["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect(),
            layout: text("layout").unwrap_or_else(|| if gemm { "nt".to_owned() } else { String::new() }),
            what,
        };
        let entry = all.entry(subject.clone()).or_insert_with(|| Comparison {
            subject,
            bytes: f64::NAN,
            times: BTreeMap::new(),
        });
        entry.bytes = record["bytes"].as_f64().unwrap_or(entry.bytes);
        for contender in record["contenders"].as_array().into_iter().flatten() {
            let number = |name: &str| contender[name].as_f64();
            if let (Some(name), Some(ms)) = (contender["name"].as_str(), number("ms")) {
                let [tflops, tb_per_s] = ["tflops", "tb_per_s"].map(|name| number(name).unwrap_or(f64::NAN));
                entry.times.insert(name.to_owned(), Time { ms, tflops, tb_per_s });
            }
        }
    }
    all.into_values().filter(|comparison| !comparison.times.is_empty()).collect()
}

/// Made-up results, for tests.
#[cfg(test)]
pub(crate) mod made_up {
    use serde_json::json;

    use super::*;

    pub(crate) fn gemm(mnk: [u32; 3], element: &str, epilogue: &str, times: &[(&str, f64)]) -> Value {
        let operations = 2.0 * mnk.iter().map(|x| f64::from(*x)).product::<f64>();
        let contenders: Vec<Value> = times
            .iter()
            .map(|(name, ms)| json!({"name": name, "ms": ms, "tflops": operations / ms * 1e-9, "tb_per_s": 1.0 / ms}))
            .collect();
        json!({
            "kind": "speed", "what": "gemm", "shape": mnk, "layout": "nt", "element": element, "epilogue": epilogue,
            "bytes": 1e9, "contenders": contenders,
        })
    }

    pub(crate) fn te(shape: &[u32], operation: &str, times: &[(&str, f64)]) -> Value {
        let contenders: Vec<Value> =
            times.iter().map(|(name, ms)| json!({"name": name, "ms": ms, "tb_per_s": 4.0 / ms})).collect();
        json!({
            "kind": "speed", "what": "te", "shape": shape, "dtype": "f32", "operation": operation, "bytes": 4e9,
            "contenders": contenders,
        })
    }

    /// Results as they are read from a folder.
    pub(crate) fn gpu(name: &str, records: &[Value]) -> Gpu {
        let folder = std::env::temp_dir().join(format!("epilogue-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        fs::write(folder.join("results.jsonl"), text + "{cut short").expect("written");
        Gpu::read(&folder).expect("results")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_measured_of_one_thing_stands_together() {
        let mut torch = made_up::gemm([8, 8, 8], "bf16", "plain", &[("torch eager", 3.0), ("torch linear", 4.0)]);
        torch["what"] = "torch".into();
        torch["layout"] = Value::Null;
        let gpu = made_up::gpu(
            "together",
            &[
                made_up::gemm([8, 8, 8], "bf16", "plain", &[(OWN, 9.0)]),
                torch,
                made_up::gemm([8, 8, 8], "bf16", "plain", &[(OWN, 2.0), ("cublaslt", 1.0)]),
                made_up::gemm([8, 8, 8], "f16", "plain", &[(OWN, 5.0)]),
                serde_json::json!({"kind": "copy", "copy_tb_per_s": 4.2}),
            ],
        );
        assert_eq!(gpu.comparisons.len(), 2);
        let first = &gpu.comparisons[0];
        assert_eq!(first.own().map(|own| own.ms), Some(2.0), "of two measurements the last");
        assert_eq!((first.ratio("cublaslt"), first.ratio_to_any("torch")), (Some(0.5), Some(1.5)));
        assert_eq!((gpu.copy(), first.ratio("triton")), (Some(4.2), None));
        fs::remove_dir_all(gpu.folder).expect("removed");
    }
}
