//! Draws rows of one table that `cargo bench --bench peers` printed: the CPU device's time over the fastest peer's.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::workspace::{Failure, root};

/// The table, by its heading in `benches/results/cpu/README.md`, and the chart's words for it.
const TABLE: &str = "2 threads, Zen 4";
const MACHINE: &str = "AMD Zen 4, 2 threads";

/// The rows: some of every kind of work.
const ROWS: [&str; 14] = [
    "f32 256×256×256",
    "f32 1024×1024×1024",
    "f32 1024×1024×1024, bias + GELU + residual",
    "f32 8×3072×768, weights [N, K]",
    "bf16 1024×1024×1024",
    "bf16 32×3072×768, weights [N, K]",
    "3×3 convolution 4×28×28×128, bias + ReLU",
    "argmax along rows, 4096×1024",
    "softmax along 4096×1024",
    "layer norm 4096×1024",
    "cumsum along 4096×1024",
    "sum along 4096×4096",
    "MiniLM, 1×12 tokens",
    "MiniLM, 8×256 tokens",
];

/// Draws `benches/results/cpu/README.md`, if it is there; gives the file.
pub(super) fn all() -> Result<Option<PathBuf>, Failure> {
    let folder = root().join("benches/results/cpu");
    let Ok(text) = std::fs::read_to_string(folder.join("README.md")) else { return Ok(None) };
    let file = folder.join("ratio.svg");
    std::fs::write(&file, drawing(&rows(&text, TABLE, &ROWS)?))?;
    Ok(Some(file))
}

/// The ratios of some rows of the table under a heading.
fn rows<'a>(text: &str, heading: &str, names: &[&'a str]) -> Result<Vec<(&'a str, f64)>, Failure> {
    let table = text.split("\n## ").find(|part| part.lines().next() == Some(heading));
    let table = table.ok_or_else(|| format!("no table has the heading `{heading}`"))?;
    let ratio = |name: &str| {
        let cells = table.lines().filter(|line| line.starts_with('|')).map(|line| line.trim_matches('|').split('|'));
        let row = cells.map(|cells| cells.map(str::trim).collect::<Vec<_>>()).find(|cells| cells[0] == name)?;
        row.last()?.parse::<f64>().ok().filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    };
    names.iter().map(|name| Ok((*name, ratio(name).ok_or_else(|| format!("no row `{name}` has a ratio"))?))).collect()
}

const ROW: f64 = 22.0;
const TOP: f64 = 56.0;
const LEFT: f64 = 330.0;
const WIDTH: f64 = 360.0;
/// The ratios at the left and the right end.
const RANGE: (f64, f64) = (0.25, 2.0);

/// A bar for each row, from 1 to the ratio. Its colours can be read on white and on black.
fn drawing(rows: &[(&str, f64)]) -> String {
    let (least, most) = (RANGE.0.ln(), RANGE.1.ln());
    let x = |ratio: f64| LEFT + (ratio.ln().clamp(least, most) - least) / (most - least) * WIDTH;
    let bottom = TOP + ROW * rows.len() as f64;
    let (width, height) = (LEFT + WIDTH + 30.0, bottom + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>text {{ fill: #59636e }} .axis {{ stroke: #59636e }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #b1bac4 }} .axis {{ stroke: #b1bac4 }} }}</style>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
    };
    text(LEFT + WIDTH, 18.0, "end", &format!("this library's time ÷ the fastest peer's: {MACHINE}"));
    text(x(1.0) - 8.0, 40.0, "end", "← faster");
    text(x(1.0) + 8.0, 40.0, "start", "slower →");
    for (ratio, words) in [(0.25, "¼"), (0.5, "½"), (1.0, "1"), (2.0, "2")] {
        text(x(ratio), bottom + 20.0, "middle", words);
    }
    for (number, (name, ratio)) in rows.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 0.5) + 4.5;
        text(LEFT - 12.0, y, "end", name);
        let (end, anchor) = if *ratio < 1.0 { (x(*ratio) - 6.0, "end") } else { (x(*ratio) + 6.0, "start") };
        text(end, y, anchor, &format!("{ratio:.2}"));
    }
    for ratio in [0.25, 0.5, 1.0, 2.0] {
        let (x, opacity) = (x(ratio), if ratio == 1.0 { 1.0 } else { 0.25 });
        let from = TOP - 4.0;
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{from}\" x2=\"{x:.1}\" y2=\"{bottom}\" opacity=\"{opacity}\"/>"
        );
    }
    for (number, (_, ratio)) in rows.iter().enumerate() {
        let (from, to) = (x(ratio.min(1.0)), x(ratio.max(1.0)));
        let (y, color) = (TOP + ROW * number as f64 + 4.0, if *ratio < 1.0 { "#3b82d0" } else { "#d97b29" });
        let (bar, thickness) = (to - from, ROW - 8.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{bar:.1}\" height=\"{thickness}\" fill=\"{color}\"/>"
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The CPU\n\n## 2 threads\n\nA CPU (avx2), threads: 2\n\n\
                        | work | epilogue | numpy | ratio to the best |\n|---|--:|--:|--:|\n\
                        | softmax | 1.00 µs | 2.00 µs | 0.50 |\n| sums | 3.00 µs |  | inf |\n\
                        ## 1 thread\n\n| softmax | 30.00 µs | 2.00 µs | 15.00 |\n";

    #[test]
    fn rows_become_bars() {
        let one = rows(TEXT, "2 threads", &["softmax"]).expect("a row");
        assert_eq!(one, [("softmax", 0.5)]);
        assert!(rows(TEXT, "2 threads", &["sums"]).is_err() && rows(TEXT, "4 threads", &["softmax"]).is_err());
        let drawing = drawing(&[one[0], ("sums", 15.0)]);
        assert_eq!(drawing.matches("<rect").count(), 2);
        assert!(drawing.contains(">0.50<") && drawing.contains(">15.00<") && drawing.contains(">½<"));
    }

    /// The committed drawing is that of the committed table.
    #[test]
    fn the_drawing_is_of_the_table() {
        let folder = root().join("benches/results/cpu");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a committed file");
        assert_eq!(read("ratio.svg"), drawing(&rows(&read("README.md"), TABLE, &ROWS).expect("all rows")));
    }
}
