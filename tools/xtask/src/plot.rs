//! `cargo xtask plot`: draws the committed results of every GPU, and of the CPU device.

mod cpu;
pub(crate) mod published;
pub(crate) mod timeline;

use std::path::{Path, PathBuf};

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::results::{Comparison, Gpu, Time};
use crate::workspace::Failure;

/// One contender's time for one product of 16-bit operands in the layout of a linear layer.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    shape: [f64; 3],
    epilogue: String,
    contender: String,
    ms: f64,
    tflops: f64,
    bytes: f64,
}

const SIZE: (u32, u32) = (900, 540);
const COLORS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
    RGBColor(127, 127, 127),
];

/// Draws what is in `benches/results`, a folder for each GPU and one for CPUs; gives the files.
pub(crate) fn all() -> Result<Vec<PathBuf>, Failure> {
    let mut files: Vec<PathBuf> = cpu::all()?.into_iter().collect();
    let gpus = Gpu::all();
    // Without results of a GPU there are those of the CPU.
    if files.is_empty() || gpus.is_ok() {
        for gpu in gpus? {
            files.extend(draw(&gpu)?);
        }
    }
    Ok(files)
}

/// Draws one GPU's results, in its folder.
fn draw(gpu: &Gpu) -> Result<Vec<PathBuf>, Failure> {
    let points = points(gpu);
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let files = ["tflops.svg", "ratio.svg", "roofline.svg"].map(|name| gpu.folder.join(name));
    speeds(&files[0], &points)?;
    ratios(&files[1], &points)?;
    roofline(&files[2], &points, gpu.copy().unwrap_or(f64::NAN))?;
    Ok(files.into())
}

/// The products in bf16 with operands in the layout of a linear layer.
fn points(gpu: &Gpu) -> Vec<Point> {
    let drawn = |c: &&Comparison| c.subject.gemm && c.subject.element == "bf16" && c.subject.layout == "nt";
    let of = |c: &Comparison| {
        let point = |(contender, time): (&String, &Time)| Point {
            shape: c.mnk(),
            epilogue: c.subject.what.clone(),
            contender: contender.clone(),
            ms: time.ms,
            tflops: time.tflops,
            bytes: c.bytes,
        };
        c.times.iter().map(point).collect::<Vec<_>>()
    };
    gpu.comparisons.iter().filter(drawn).flat_map(of).collect()
}

/// The series of each comparison: a label, the epilogue, and the contender.
const SERIES: [(&str, &str, &str); 4] = [
    ("epilogue: plain", "plain", "epilogue"),
    ("cuBLASLt, fastest algorithm: plain", "plain", "cublaslt"),
    ("epilogue: bias + GELU + residual", "bias_gelu_residual", "epilogue"),
    ("cuBLASLt, then one kernel", "bias_gelu_residual", "cublaslt, then one kernel"),
];

fn speeds(file: &Path, points: &[Point]) -> Result<(), Failure> {
    let side = |p: &Point| (p.shape[0] * p.shape[1] * p.shape[2]).cbrt();
    let most = points.iter().map(|p| p.tflops).fold(0.0, f64::max);
    let (least, largest) = range(points.iter().map(side));
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    let chart = ((least / 1.2..largest * 1.2).log_scale(), 0.0..most * 1.1);
    let mut chart = framed(&area, "Speed of fused matrix products", chart, ("cube root of M·N·K", "TFLOP/s"))?;
    for ((label, epilogue, contender), color) in SERIES.into_iter().zip(COLORS) {
        let own = points.iter().filter(|p| p.epilogue == epilogue && p.contender == contender);
        let own: Vec<(f64, f64)> = own.map(|p| (side(p), p.tflops)).collect();
        chart
            .draw_series(own.iter().map(|&at| Circle::new(at, 4, color.filled())))?
            .label(label)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    Ok(area.present()?)
}

/// The time of cuBLASLt's plain product divided by ours, for the plain and for a fused epilogue: above 1 we are faster.
fn ratios(file: &Path, points: &[Point]) -> Result<(), Failure> {
    let time = |shape: &[f64; 3], epilogue: &str, contender: &str| {
        points.iter().find(|p| p.shape == *shape && p.epilogue == epilogue && p.contender == contender).map(|p| p.ms)
    };
    let plain = points.iter().filter(|p| p.epilogue == "plain" && p.contender == "epilogue");
    let mut shapes: Vec<[f64; 3]> = plain.map(|p| p.shape).collect();
    shapes.sort_by(|a, b| (a[0] * a[1] * a[2]).total_cmp(&(b[0] * b[1] * b[2])));
    let mut series = vec![Vec::new(); 2];
    for (i, shape) in shapes.iter().enumerate() {
        let Some(peer) = time(shape, "plain", "cublaslt") else { continue };
        for (series, epilogue) in series.iter_mut().zip(["plain", "bias_gelu_residual"]) {
            series.extend(time(shape, epilogue, "epilogue").map(|own| (i as f64, peer / own)));
        }
    }
    let most = series.iter().flatten().map(|at| at.1).fold(1.1, f64::max);
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    let axes = ("product, from the smallest to the largest", "cuBLASLt's plain product = 1");
    let title = "Speed relative to cuBLASLt's plain product";
    let mut chart = framed(&area, title, (-1.0..shapes.len() as f64, 0.0..most * 1.1), axes)?;
    chart.draw_series(LineSeries::new([(-1.0, 1.0), (shapes.len() as f64, 1.0)], BLACK.stroke_width(1)))?;
    for ((label, own), color) in ["plain", "bias + GELU + residual, fused"].into_iter().zip(series).zip(COLORS) {
        chart
            .draw_series(own.into_iter().map(|at| Circle::new(at, 4, color.filled())))?
            .label(label)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    Ok(area.present()?)
}

/// Operations per byte and speed, with the bounds by the measured copy's bandwidth and the fastest product.
fn roofline(file: &Path, points: &[Point], copy: f64) -> Result<(), Failure> {
    let own: Vec<&Point> = points.iter().filter(|p| p.contender == "epilogue" && p.bytes > 0.0).collect();
    let intensity = |p: &Point| 2.0 * p.shape[0] * p.shape[1] * p.shape[2] / p.bytes;
    let (least, largest) = range(own.iter().map(|p| intensity(p)));
    let (slowest, fastest) = range(points.iter().map(|p| p.tflops));
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    let chart = ((least / 2.0..largest * 2.0).log_scale(), (slowest / 2.0..fastest * 2.0).log_scale());
    let mut chart = framed(&area, "Roofline", chart, ("operations per byte of memory", "TFLOP/s"))?;
    let mut at = vec![(least / 2.0, fastest), (largest * 2.0, fastest)];
    if copy.is_finite() {
        let ridge = fastest / copy;
        let from = (slowest / 2.0 / copy).max(least / 2.0);
        at = vec![(from, from * copy), (ridge, fastest), (largest.max(ridge) * 2.0, fastest)];
    }
    chart
        .draw_series(LineSeries::new(at, BLACK.stroke_width(1)))?
        .label("measured: a copy's bytes, the fastest product")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK));
    chart
        .draw_series(own.iter().map(|p| Circle::new((intensity(p), p.tflops), 4, COLORS[0].filled())))?
        .label("epilogue, all epilogues")
        .legend(|(x, y)| Circle::new((x + 8, y), 4, COLORS[0].filled()));
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    Ok(area.present()?)
}

type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

/// An empty chart with a title and named axes.
fn framed<'a, X, Y>(
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    title: &str,
    (x, y): (X, Y),
    (x_name, y_name): (&str, &str),
) -> Result<Chart<'a, X::CoordDescType, Y::CoordDescType>, Failure>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    area.fill(&WHITE).map_err(|e| e.to_string())?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .map_err(|e| e.to_string())?;
    chart.configure_mesh().x_desc(x_name).y_desc(y_name).light_line_style(WHITE).draw().map_err(|e| e.to_string())?;
    Ok(chart)
}

/// The least and largest.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 1e-9), |(least, most), x| (least.min(x).max(1e-9), most.max(x)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::made_up;

    #[test]
    fn results_become_drawings() {
        let times = |ms: f64| [("epilogue", ms), ("cublaslt", 1.1 * ms)];
        let gpu = made_up::gpu(
            "plot",
            &[
                made_up::gemm([512; 3], "bf16", "plain", &times(0.5)),
                made_up::gemm([512; 3], "bf16", "plain", &times(0.25)),
                made_up::gemm([4096; 3], "bf16", "bias_gelu_residual", &times(2.0)),
                made_up::gemm([4096; 3], "f8e4m3", "scaled", &times(1.0)),
                json!({"copy_tb_per_s": 4.2}),
            ],
        );
        assert_eq!(points(&gpu).len(), 4, "the second measurement of a comparison replaces the first");
        let files = draw(&gpu).expect("drawings");
        assert_eq!(files.len(), 3);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a drawing");
            assert!(text.starts_with("<svg") && text.contains("<circle"), "{}", file.display());
        }
        std::fs::remove_dir_all(gpu.folder).expect("removed");
    }
}
