//! `cargo xtask plot`: the committed results of every GPU, drawn for the README.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use serde_json::Value;

use crate::{Failure, root};

/// One contender's time of one comparison.
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
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(214, 39, 40), RGBColor(44, 160, 44), RGBColor(255, 127, 14)];

/// Draws what is under `benches/results`, a folder for each GPU; gives the files.
pub(crate) fn all() -> Result<Vec<PathBuf>, Failure> {
    let folder = root().join("benches/results");
    let mut files = Vec::new();
    for gpu in folders(&folder) {
        files.extend(draw(&gpu)?);
    }
    if files.is_empty() {
        let advice = "make them with `cargo xtask gpu-bundle` and its run.sh on a GPU machine";
        return Err(format!(
            "no GEMM speeds in {}/*/*.jsonl: {advice}, and copy results.jsonl there",
            folder.display()
        )
        .into());
    }
    Ok(files)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Draws one GPU's results beside them.
fn draw(gpu: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut records = Vec::new();
    for entry in fs::read_dir(gpu)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            records
                .extend(fs::read_to_string(path)?.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        }
    }
    let points = points(&records);
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let copy = records.iter().filter_map(|r| r["copy_tb_per_s"].as_f64()).fold(f64::NAN, f64::max);
    let files = ["tflops.svg", "ratio.svg", "roofline.svg"].map(|name| gpu.join(name));
    speeds(&files[0], &points)?;
    ratios(&files[1], &points)?;
    roofline(&files[2], &points, copy)?;
    Ok(files.into())
}

/// The GEMM comparisons; of a comparison that was made several times, the last.
fn points(records: &[Value]) -> Vec<Point> {
    let mut last: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for record in records.iter().filter(|r| r["kind"] == "speed" && r["what"] == "gemm") {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let shape = [0, 1, 2].map(|i| number(&record["shape"][i]));
        let epilogue = record["epilogue"].as_str().unwrap_or_default().to_owned();
        let contenders = record["contenders"].as_array().map_or(&[][..], Vec::as_slice);
        let measured = contenders.iter().filter(|c| c["ms"].is_number()).map(|c| Point {
            shape,
            epilogue: epilogue.clone(),
            contender: c["name"].as_str().unwrap_or_default().to_owned(),
            ms: number(&c["ms"]),
            tflops: number(&c["tflops"]),
            bytes: number(&record["bytes"]),
        });
        let measured: Vec<Point> = measured.collect();
        if !measured.is_empty() {
            last.insert(format!("{} {} {epilogue}", record["element"], record["shape"]), measured);
        }
    }
    last.into_values().flatten().collect()
}

/// What is drawn of each comparison: a label, the epilogue, and whose time.
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

/// cuBLASLt's plain product over our time, for the plain and for a fused epilogue: above 1 we are faster.
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

/// Operations per byte against speed, under the measured copy's bandwidth and the fastest product.
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

    fn record(side: u32, epilogue: &str, ms: f64) -> Value {
        let contender = |name: &str, ms: f64| json!({"name": name, "ms": ms, "tflops": 1e-9 / ms});
        json!({
            "kind": "speed", "what": "gemm", "shape": [side, side, side], "element": "bf16", "epilogue": epilogue,
            "bytes": 6 * side * side,
            "contenders": [contender("epilogue", ms), contender("cublaslt", 1.1 * ms)],
        })
    }

    #[test]
    fn results_become_drawings() {
        let folder = std::env::temp_dir().join(format!("epilogue-plot-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let records = [record(512, "plain", 0.5), record(512, "plain", 0.25), record(4096, "bias_gelu_residual", 2.0)];
        let text: String = records.iter().map(|r| format!("{r}\n")).collect();
        fs::write(folder.join("results.jsonl"), text + "{\"copy_tb_per_s\": 4.2}\n{cut short").expect("written");
        assert_eq!(points(&records).len(), 4, "the second measurement of a comparison replaces the first");
        let files = draw(&folder).expect("drawings");
        assert_eq!(files.len(), 3);
        for file in files {
            let text = fs::read_to_string(&file).expect("a drawing");
            assert!(text.starts_with("<svg") && text.contains("<circle"), "{}", file.display());
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
