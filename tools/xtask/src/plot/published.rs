//! Draws the model beside published times: a point for each row, by its time and regime.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use super::{COLORS, SIZE, framed};
use crate::workspace::{Failure, root};

/// A row: its regime, whether constants were fitted to it, its time in microseconds, and that over the predicted time.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    regime: String,
    fitted: bool,
    microseconds: f64,
    ratio: f64,
}

fn point(line: &str) -> Option<Point> {
    let cells: Vec<&str> = line.split(',').collect();
    let [regime, part, microseconds, ratio] = cells[..] else { return None };
    let (microseconds, ratio) = (microseconds.parse().ok()?, ratio.parse().ok()?);
    Some(Point { regime: regime.to_owned(), fitted: part == "fitted", microseconds, ratio })
}

/// Draws what `published --chart` wrote into the folder of the data; gives the drawing.
pub(crate) fn draw(file: &Path) -> Result<PathBuf, Failure> {
    let text = std::fs::read_to_string(file)?;
    let points: Option<Vec<Point>> = text.lines().map(point).collect();
    let points = points.ok_or_else(|| format!("{} has a line that is no row", file.display()))?;
    let drawing = root().join("benches/published/ratios.svg");
    chart(&drawing, &points)?;
    Ok(drawing)
}

fn chart(file: &Path, points: &[Point]) -> Result<(), Failure> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    let ranges = ((2.0..20_000.0).log_scale(), (0.4..2.5).log_scale());
    let title = "Published time / predicted time (filled: judged)";
    let mut chart = framed(&area, title, ranges, ("published time, us", "ratio"))?;
    for ratio in [1.0 / 1.2, 1.0, 1.2] {
        let line = [(2.0, ratio), (20_000.0, ratio)];
        chart.draw_series(LineSeries::new(line, BLACK.mix(if ratio == 1.0 { 1.0 } else { 0.3 }).stroke_width(1)))?;
    }
    let mut regimes: Vec<&str> = points.iter().map(|point| point.regime.as_str()).collect();
    regimes.sort_unstable();
    regimes.dedup();
    for (regime, color) in regimes.into_iter().zip(COLORS) {
        let own = points.iter().filter(|point| point.regime == regime);
        let circles = own.map(|point| {
            let style = if point.fitted { color.stroke_width(1) } else { color.filled() };
            Circle::new((point.microseconds, point.ratio.clamp(0.4, 2.5)), 3, style)
        });
        chart.draw_series(circles)?.label(regime).legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    Ok(area.present()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_drawing() {
        let points: Vec<Point> = "large,fitted,100,1.1\nfew rows,judged,9.5,0.9".lines().filter_map(point).collect();
        assert_eq!(points.len(), 2);
        assert!(point("large,fitted,100").is_none());
        let file = std::env::temp_dir().join(format!("epilogue-published-{}.svg", std::process::id()));
        chart(&file, &points).expect("a drawing");
        let drawing = std::fs::read_to_string(&file).expect("a drawing");
        assert_eq!(drawing.matches("<circle").count(), 4, "two points, and two of the legend");
        std::fs::remove_file(file).expect("removed");
    }
}
