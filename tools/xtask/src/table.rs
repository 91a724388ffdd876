//! `cargo xtask table`: the committed results as Markdown, with losses as visible as wins.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::results::{Comparison, Gpu};
use crate::targets;
use crate::workspace::Failure;

/// All GPUs' tables.
pub(crate) fn all() -> Result<String, Failure> {
    Ok(Gpu::all()?.iter().map(of).collect())
}

fn of(gpu: &Gpu) -> String {
    let mut text = heading(gpu);
    text.push_str(&targets::table(gpu));
    text.push_str(&gemms(gpu));
    text.push_str(&fused(gpu));
    text.push_str(&expressions(gpu));
    text.push_str(&knobs(gpu));
    text.push_str(&model(gpu));
    text
}

fn heading(gpu: &Gpu) -> String {
    let mut text = String::new();
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(machine) = gpu.of_kind("machine").last() {
        let (name, commit, date) = (plain(&machine["name"]), plain(&machine["commit"]), plain(&machine["date"]));
        let _ = writeln!(text, "## {name}\n\nCommit {commit}, {date}; {}.", plain(&machine["nvidia_smi"]));
    } else {
        let _ = writeln!(text, "## {}\n", gpu.folder.display());
    }
    let cases: u64 = gpu.of_kind("correct").filter_map(|record| record["cases"].as_u64()).sum();
    let (wrong, clean) = (gpu.of_kind("wrong").count(), gpu.of_kind("clean").count());
    let _ = writeln!(
        text,
        "{cases} random cases were right, {wrong} checks found something wrong; compute-sanitizer was \
                            clean {clean} times."
    );
    if let Some(copy) = gpu.copy() {
        let _ = writeln!(text, "A copy reads and writes {copy:.2} TB/s.");
    }
    text.push_str("Ratios are a peer's time over ours, in one run: **below 1** the peer is faster.\n\n");
    text
}

/// A ratio; losses are highlighted.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    match ratio {
        None => "–".to_owned(),
        Some(x) if x < 0.995 => format!("**{x:.2}**"),
        Some(x) => format!("{x:.2}"),
    }
}

fn gemms(gpu: &Gpu) -> String {
    let own: Vec<&Comparison> = gpu.comparisons.iter().filter(|c| c.subject.gemm && c.own().is_some()).collect();
    if own.is_empty() {
        return String::new();
    }
    let mut text = "### Matrix products\n\n| type | M×N×K | epilogue | µs | TFLOP/s | cuBLASLt, plain product | cuBLASLt with its \
                    own epilogue | cuBLASLt, then one kernel | torch.compile | Triton |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for c in own {
        let Some(time) = c.own() else { continue };
        let plain = gpu.plain(c).map(|peer| peer / time.ms);
        let subject = &c.subject;
        let shape: Vec<String> = subject.shape.iter().map(u64::to_string).collect();
        let layout = if subject.layout == "nt" { String::new() } else { format!(" {}", subject.layout) };
        let _ = writeln!(
            text,
            "| {} | {}{layout} | {} | {:.1} | {:.0} | {} | {} | {} | {} | {} |",
            subject.element,
            shape.join("×"),
            subject.what,
            time.ms * 1e3,
            time.tflops,
            ratio(plain),
            ratio(c.ratio("cublaslt with its own epilogue")),
            ratio(c.ratio("cublaslt, then one kernel")),
            ratio(c.ratio_to_any("torch.compile")),
            ratio(c.ratio_to_any("triton")),
        );
    }
    text + "\n"
}

/// Epilogues that are fused nowhere else: our time, and those of other ways to compute it, of later records rather than
/// earlier ones.
fn fused(gpu: &Gpu) -> String {
    let mut rows: BTreeMap<[String; 3], String> = BTreeMap::new();
    for record in gpu.of_kind("fused") {
        let contenders = record["contenders"].as_array().map_or(&[][..], Vec::as_slice);
        let Some((own, others)) = contenders.split_first() else { continue };
        let Some(ms) = own["ms"].as_f64() else { continue };
        let others: Vec<String> = others
            .iter()
            .filter_map(|other| {
                Some(format!("{} {}", other["name"].as_str()?, ratio(Some(other["ms"].as_f64()? / ms))))
            })
            .collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let extents = record["shape"].as_array().map_or(&[][..], Vec::as_slice);
        let shape: Vec<String> = extents.iter().map(Value::to_string).collect();
        let row = format!("{:.1} | {}", ms * 1e3, others.join(", "));
        rows.insert([text(&record["epilogue"]), text(&record["element"]), shape.join("×")], row);
    }
    if rows.is_empty() {
        return String::new();
    }
    let head =
        "### Fused nowhere else\n\n| what | type | M×N×K | µs | other ways |\n|---|---|---|--:|---|\n".to_owned();
    rows.iter().fold(head, |text, (subject, row)| text + &format!("| {} | {row} |\n", subject.join(" | "))) + "\n"
}

fn expressions(gpu: &Gpu) -> String {
    let own: Vec<&Comparison> = gpu.comparisons.iter().filter(|c| !c.subject.gemm && c.own().is_some()).collect();
    if own.is_empty() {
        return String::new();
    }
    let mut text = "### Reductions, normalisations and scans\n\n| operation | type | shape | µs | TB/s | of a copy | CUB | torch | \
                    torch.compile | Triton |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for c in own {
        let Some(time) = c.own() else { continue };
        let shape: Vec<String> = c.subject.shape.iter().map(u64::to_string).collect();
        let share = gpu.copy().map_or_else(|| "–".to_owned(), |copy| format!("{:.0} %", 100.0 * time.tb_per_s / copy));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.2} | {share} | {} | {} | {} | {} |",
            c.subject.what,
            c.subject.element,
            shape.join("×"),
            time.ms * 1e3,
            time.tb_per_s,
            ratio(c.ratio("cub")),
            ratio(c.ratio("torch")),
            ratio(c.ratio_to_any("torch.compile")),
            ratio(c.ratio_to_any("triton")),
        );
    }
    text + "\n"
}

/// The cost of a turned knob: its time divided by that of the model's choice.
fn knobs(gpu: &Gpu) -> String {
    let mut effects: Vec<(String, Vec<f64>)> = Vec::new();
    for record in gpu.of_kind("knobs") {
        let rows = record["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(base) = rows.iter().find(|row| row["knob"] == "none").and_then(|row| row["measured_us"].as_f64())
        else {
            continue;
        };
        for row in rows.iter().filter(|row| row["knob"] != "none") {
            let (Some(knob), Some(value)) = (row["knob"].as_str(), row["value"].as_str()) else { continue };
            let Some(time) = row["measured_us"].as_f64() else { continue };
            let name = format!("{knob} | {value}");
            match effects.iter_mut().find(|(other, _)| *other == name) {
                Some((_, times)) => times.push(time / base),
                None => effects.push((name, vec![time / base])),
            }
        }
    }
    if effects.is_empty() {
        return String::new();
    }
    let mut text = "### Knobs\n\nTime with one knob turned over that of the model's choice: **below 1** the model chose \
                    wrongly.\n\n| knob | value | products | geometric mean | least | most |\n|---|---|--:|--:|--:|--:|\n"
        .to_owned();
    for (name, times) in effects {
        let (least, most) = times.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), x| (l.min(*x), m.max(*x)));
        let mean = targets::geometric_mean(&times).map(|mean| ratio(Some(mean))).unwrap_or_default();
        let _ = writeln!(text, "| {name} | {} | {mean} | {least:.2} | {most:.2} |", times.len());
    }
    text + "\n"
}

/// How well the model ranks: the time of its choice divided by that of the fastest candidate, and by that of
/// autotuning's.
fn model(gpu: &Gpu) -> String {
    let chosen_over_best = |record: &Value| {
        let rows = record["rows"].as_array()?;
        let time = |row: &Value| row["measured_us"].as_f64();
        let best = rows.iter().filter_map(time).min_by(f64::total_cmp)?;
        Some(time(rows.first()?)? / best)
    };
    let mut text = String::new();
    for (kind, of) in [
        ("picks", "the fastest of its first six candidates"),
        ("candidates", "the fastest of its first candidates"),
        ("autotune", "what autotuning chose"),
    ] {
        let ratios: Vec<f64> = gpu.of_kind(kind).filter_map(chosen_over_best).collect();
        if let Some(mean) = targets::geometric_mean(&ratios) {
            let most = ratios.iter().copied().fold(1.0, f64::max);
            let _ = writeln!(
                text,
                "The model's choice takes {mean:.3} × the time of {of} (geometric mean of {}; at most {most:.2} ×).",
                ratios.len()
            );
        }
    }
    if text.is_empty() { text } else { format!("### The cost model\n\n{text}\n") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::made_up;

    #[test]
    fn losses_stand_as_plainly_as_wins() {
        let fused = [("epilogue", 1.0), ("cublaslt", 0.9), ("cublaslt, then one kernel", 1.2)];
        let row = |knob: &str, us: f64| json!({"knob": knob, "value": "0", "measured_us": us});
        let gpu = made_up::gpu(
            "table",
            &[
                json!({"kind": "machine", "name": "A GPU", "commit": "abc", "date": "today", "nvidia_smi": "driver 1"}),
                json!({"kind": "copy", "copy_tb_per_s": 4.0}),
                made_up::gemm([4096, 4096, 4096], "bf16", "bias_gelu_residual", &fused),
                made_up::te(&[8192, 8192], "softmax", &[("epilogue", 1.25), ("torch.compile", 1.0)]),
                json!({"kind": "fused", "shape": [8192, 4096, 512], "element": "bf16", "epilogue": "softmax", "contenders": [
                    {"name": "epilogue", "ms": 0.5}, {"name": "in launches of their own", "ms": 0.45}, {"name": "ran", "ms": null}
                ]}),
                json!({"kind": "knobs", "rows": [row("none", 10.0), row("pending", 9.0)]}),
                json!({"kind": "candidates", "rows": [row("", 11.0), row("", 10.0)]}),
            ],
        );
        let text = of(&gpu);
        for line in [
            "## A GPU\n\nCommit abc, today; driver 1.",
            "| bf16 | 4096×4096×4096 | bias_gelu_residual | 1000.0 | 137 | **0.90** | – | 1.20 | – | – |",
            "| softmax | bf16 | 8192×4096×512 | 500.0 | in launches of their own **0.90** |",
            "| softmax | f32 | 8192×8192 | 1250.0 | 3.20 | 80 % | – | – | **0.80** | – |",
            "| pending | 0 | 1 | **0.90** | 0.90 | 0.90 |",
            "takes 1.100 × the time of the fastest of its first candidates",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        std::fs::remove_dir_all(gpu.folder).expect("removed");
    }
}
