//! The project's targets on an H200, compared with the measurements.

use std::fmt::Write as _;

use crate::results::{Comparison, Gpu};

/// How a figure is compared with its target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure; `None` if it was not measured.
struct Figure {
    what: &'static str,
    target: Target,
    unit: &'static str,
    measured: Option<f64>,
}

/// The figures as Markdown, reached or not.
pub(crate) fn table(gpu: &Gpu) -> String {
    let mut text = "### Targets\n\n| figure | target | measured | |\n|---|--:|--:|---|\n".to_owned();
    for Figure { what, target, unit, measured } in figures(gpu) {
        let (sign, bound) = match target {
            Target::AtLeast(bound) => ("≥", bound),
            Target::AtMost(bound) => ("≤", bound),
        };
        let reached = |x: f64| match target {
            Target::AtLeast(bound) => x >= bound,
            Target::AtMost(bound) => x <= bound,
        };
        let (shown, verdict) = match measured {
            None => ("not measured".to_owned(), ""),
            Some(x) => (number(x, unit), if reached(x) { "reached" } else { "**missed**" }),
        };
        let _ = writeln!(text, "| {what} | {sign} {} | {shown} | {verdict} |", number(bound, unit));
    }
    text + "\n"
}

fn number(x: f64, unit: &str) -> String {
    if x >= 100.0 { format!("{x:.0}{unit}") } else { format!("{x:.2}{unit}") }
}

/// The geometric mean of ratios; `None` if there are none.
#[expect(clippy::cast_precision_loss, reason = "a count")]
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|x| x.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn least(ratios: &[f64]) -> Option<f64> {
    ratios.iter().copied().min_by(f64::total_cmp)
}

fn figures(gpu: &Gpu) -> Vec<Figure> {
    let mut figures = products(gpu);
    figures.extend(expressions(gpu));
    figures
}

/// The products of 16-bit types, with the weights stored as in a linear layer.
fn of_16_bits<'a>(gpu: &'a Gpu, epilogue: &'a str) -> impl Iterator<Item = &'a Comparison> {
    gpu.comparisons.iter().filter(move |c| {
        c.subject.gemm && c.subject.what == epilogue && ["bf16", "f16"].contains(&c.subject.element.as_str())
    })
}

/// The time of cuBLASLt's plain product divided by ours.
fn over_plain(gpu: &Gpu, c: &Comparison) -> Option<f64> {
    Some(gpu.plain(c)? / c.own()?.ms)
}

fn tflops(gpu: &Gpu, element: &str, epilogue: &str) -> Option<f64> {
    let cube = |c: &&Comparison| {
        c.subject.gemm && c.subject.element == element && c.subject.what == epilogue && c.subject.shape == [8192; 3]
    };
    let c = gpu.comparisons.iter().filter(cube).find(|c| c.subject.layout == "nt")?;
    // FP8 may be summed in as few bits as the tensor cores keep, as in the peers' figures.
    Some(c.times.get("epilogue, fast sums").or_else(|| c.own())?.tflops)
}

fn products(gpu: &Gpu) -> Vec<Figure> {
    let large = |c: &&Comparison| c.mnk().iter().all(|extent| *extent >= 2048.0);
    let plain: Vec<f64> = of_16_bits(gpu, "plain").filter(large).filter_map(|c| over_plain(gpu, c)).collect();
    let wide = |c: &&Comparison| c.mnk()[..2].iter().all(|extent| *extent >= 2048.0);
    let fused = || of_16_bits(gpu, "bias_gelu_residual");
    let over: Vec<f64> = fused().filter(wide).filter_map(|c| Some(1.0 / over_plain(gpu, c)?)).collect();
    let short = |c: &&Comparison| c.mnk()[2] <= 2048.0 && wide(c);
    let separate: Vec<f64> = fused().filter(short).filter_map(|c| c.ratio("cublaslt, then one kernel")).collect();
    let compiled: Vec<f64> =
        gpu.comparisons.iter().filter(|c| c.subject.gemm).filter_map(|c| c.ratio_to_any("torch.compile")).collect();
    let few = |c: &&Comparison| c.mnk()[0] <= 64.0;
    let small: Vec<f64> = of_16_bits(gpu, "plain").filter(few).filter_map(|c| over_plain(gpu, c)).collect();
    let heavy = |c: &&Comparison| few(c) && c.mnk()[1] * c.mnk()[2] * 2.0 >= 1e8;
    let shares = of_16_bits(gpu, "plain").filter(heavy).filter_map(|c| Some(100.0 * c.own()?.tb_per_s / gpu.copy()?));
    let shares: Vec<f64> = shares.collect();
    let at_least = |what, bound, unit, measured| Figure { what, target: Target::AtLeast(bound), unit, measured };
    vec![
        at_least(
            "16 bits, M, N, K ≥ 2048, plain: over cuBLASLt's fastest, geometric mean",
            1.0,
            " ×",
            geometric_mean(&plain),
        ),
        at_least("the same, least", 0.95, " ×", least(&plain)),
        at_least("bf16, 8192³, plain", 780.0, " TFLOP/s", tflops(gpu, "bf16", "plain")),
        Figure {
            what: "bias+GELU+residual, M, N ≥ 2048: time over that of cuBLASLt's plain product, most",
            target: Target::AtMost(1.03),
            unit: " ×",
            measured: over.iter().copied().max_by(f64::total_cmp),
        },
        at_least("bias+GELU+residual, K ≤ 2048: over cuBLASLt and one kernel, least", 1.15, " ×", least(&separate)),
        at_least("over torch.compile, least", 0.98, " ×", least(&compiled)),
        at_least("over torch.compile, geometric mean", 1.0, " ×", geometric_mean(&compiled)),
        at_least("M ≤ 64, plain: over cuBLASLt's fastest, least", 1.0, " ×", least(&small)),
        at_least("M ≤ 64, weights ≥ 100 MB: share of a copy's bytes per second, least", 85.0, " %", least(&shares)),
        at_least("FP8, 8192³, fast sums", 1300.0, " TFLOP/s", tflops(gpu, "f8e4m3", "scaled")),
    ]
}

fn expressions(gpu: &Gpu) -> Vec<Figure> {
    let find = |what: &str, element: &str, shape: &[u64]| {
        let same = |c: &&Comparison| c.subject.what == what && c.subject.element == element && c.subject.shape == shape;
        gpu.comparisons.iter().filter(|c| !c.subject.gemm).find(same)
    };
    let ratio = |what: &'static str, bound, c: Option<&Comparison>, peer: &str| {
        let measured = c.and_then(|c| c.ratio_to_any(peer));
        Figure { what, target: Target::AtLeast(bound), unit: " ×", measured }
    };
    let share = |c: Option<&Comparison>| Some(100.0 * c?.own()?.tb_per_s / gpu.copy()?);
    let sides = [8192, 8192];
    let sums = ["row sums", "column sums"].into_iter().flat_map(|what| ["f32", "f16"].map(|element| (what, element)));
    let sums: Vec<f64> = sums.filter_map(|(what, element)| share(find(what, element, &sides))).collect();
    let recurrences: Vec<f64> = [[4096, 8192], [1, 1 << 24]]
        .iter()
        .filter_map(|shape| find("linear recurrence", "f32", shape)?.ratio_to_any("triton"))
        .collect();
    let at_least = |what, bound, unit, measured| Figure { what, target: Target::AtLeast(bound), unit, measured };
    let long = find("sum", "f32", &[1 << 28]);
    let cumsum = find("cumsum over the first axis", "f32", &[1 << 20, 2]);
    vec![
        ratio("f32 sum of 2^28: over CUB", 1.0, long, "cub"),
        at_least("f32 sum of 2^28: share of a copy's bytes per second", 100.0, " %", share(long)),
        ratio("f32 sum of 2^24: over CUB", 1.3, find("sum", "f32", &[1 << 24]), "cub"),
        at_least("row and column sums of 8192², share of a copy's bytes per second, least", 90.0, " %", least(&sums)),
        ratio("softmax of 8192² bf16: over torch.compile", 1.0, find("softmax", "bf16", &sides), "torch.compile"),
        ratio("layer_norm of 8192² bf16: over torch.compile", 1.0, find("layer_norm", "bf16", &sides), "torch.compile"),
        ratio("inclusive sum of 2^28 f32: over CUB", 1.0, find("inclusive sum", "f32", &[1 << 28]), "cub"),
        ratio("inclusive sum of 2^28 f16: over CUB", 1.3, find("inclusive sum", "f16", &[1 << 28]), "cub"),
        Figure {
            what: "cumsum over the first axis of (2^20, 2): time over a copy's",
            target: Target::AtMost(4.0),
            unit: " ×",
            measured: cumsum.and_then(|c| Some(1.0 / c.ratio("torch copy")?)),
        },
        at_least("linear recurrence: over Triton's associative scan, least", 1.0, " ×", least(&recurrences)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up::{self, gemm, te};

    #[test]
    fn every_figure_is_reached_missed_or_not_measured() {
        let gpu = made_up::gpu(
            "targets",
            &[
                serde_json::json!({"kind": "copy", "copy_tb_per_s": 4.0}),
                gemm([8192; 3], "bf16", "plain", &[("epilogue", 1.4), ("cublaslt", 1.4)]),
                gemm([4096; 3], "bf16", "plain", &[("epilogue", 1.0), ("cublaslt", 0.9)]),
                gemm([8192; 3], "bf16", "bias_gelu_residual", &[("epilogue", 1.5), ("cublaslt", 1.4)]),
                te(&[1 << 28], "sum", &[("epilogue", 1.0), ("cub", 1.1)]),
                te(&[1 << 20, 2], "cumsum over the first axis", &[("epilogue", 3.0), ("torch copy", 1.0)]),
            ],
        );
        let text = table(&gpu);
        for line in [
            "plain: over cuBLASLt's fastest, geometric mean | ≥ 1.00 × | 0.95 × | **missed** |",
            "| the same, least | ≥ 0.95 × | 0.90 × | **missed** |",
            "| bf16, 8192³, plain | ≥ 780 TFLOP/s | 785 TFLOP/s | reached |",
            "cuBLASLt's plain product, most | ≤ 1.03 × | 1.07 × | **missed** |",
            "| FP8, 8192³, fast sums | ≥ 1300 TFLOP/s | not measured |  |",
            "| f32 sum of 2^28: over CUB | ≥ 1.00 × | 1.10 × | reached |",
            "share of a copy's bytes per second | ≥ 100 % | 100 % | reached |",
            "time over a copy's | ≤ 4.00 × | 3.00 × | reached |",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        std::fs::remove_dir_all(gpu.folder).expect("removed");
    }
}
