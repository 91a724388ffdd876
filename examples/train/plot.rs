//! The curve of the losses: as text, and as SVG.

use std::fmt::Write;

/// One character for each of up to 60 groups of neighbouring steps, as high as their mean.
pub(crate) fn text(losses: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let group = losses.len().div_ceil(60).max(1);
    let means: Vec<f64> = losses.chunks(group).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    // A loss that is not a number is drawn as high as can be.
    let height = |mean: &f64| HEIGHTS.get((mean / most * 7.0).round() as usize).copied().unwrap_or('█');
    means.iter().map(height).collect()
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Around the axes.
const MARGIN: f64 = 44.0;

/// The curve over the steps; `expected`, if there is one, is a wide pale line behind it.
pub(crate) fn svg(losses: &[f64], expected: Option<&[f64]>) -> String {
    let expected = expected.map(|expected| &expected[..expected.len().min(losses.len())]);
    let most = losses.iter().copied().filter(|loss| loss.is_finite()).fold(0.5, f64::max);
    let ticks = (most / 0.5).ceil() as usize;
    let top = ticks as f64 * 0.5;
    let last = losses.len().saturating_sub(1).max(1) as f64;
    let x = |step: f64| MARGIN + step / last * (WIDTH - 2.0 * MARGIN);
    let y = |loss: f64| HEIGHT - MARGIN - loss / top * (HEIGHT - 2.0 * MARGIN);
    let line = |losses: &[f64]| {
        let points = losses.iter().enumerate().filter(|(_, loss)| loss.is_finite());
        points.map(|(step, loss)| format!("{:.1},{:.1}", x(step as f64), y(*loss))).collect::<Vec<_>>().join(" ")
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    for tick in 0..=ticks {
        let loss = tick as f64 * 0.5;
        let (left, right, at) = (x(0.0), x(last), y(loss));
        let _ = writeln!(svg, "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>");
        let (left, at) = (left - 8.0, at + 4.0);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{at:.1}\" text-anchor=\"end\">{loss:.1}</text>");
    }
    let (middle, below) = (WIDTH / 2.0, HEIGHT - 14.0);
    let steps = losses.len();
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">loss of {steps} steps</text>");
    if let Some(expected) = expected {
        let points = line(expected);
        let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"#f2c14e\" stroke-width=\"5\"/>");
    }
    let points = line(losses);
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"1.2\"/>");
    for (name, colour, row, there) in
        [("this library, f32", "#1f4e79", 0.0, true), ("numpy, f64", "#f2c14e", 1.0, expected.is_some())]
    {
        if there {
            let (x, y) = (WIDTH - MARGIN, MARGIN + 16.0 * row);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>");
        }
    }
    svg.push_str("</svg>\n");
    svg
}
