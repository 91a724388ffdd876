//! Draws the timeline of one block of a kernel, as `cargo xtask predict` has it: a row for the producer and one for each
//! team of consumers.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use serde_json::Value;

use super::framed;
use crate::workspace::Failure;

/// A stretch of time: its row, what it is spent on, and its beginning and end in microseconds.
#[derive(Clone, Debug, PartialEq)]
struct Stretch {
    row: usize,
    phase: String,
    begin: f64,
    end: f64,
}

/// The phases with their colors.
const PHASES: [(&str, RGBColor); 6] = [
    ("launch", RGBColor(160, 160, 160)),
    ("prologue", RGBColor(120, 120, 120)),
    ("loads", RGBColor(31, 119, 180)),
    ("products", RGBColor(44, 160, 44)),
    ("epilogue", RGBColor(255, 127, 14)),
    ("drain", RGBColor(214, 39, 40)),
];

fn stretches(document: &Value) -> Option<Vec<Stretch>> {
    let of = |event: &Value| {
        Some(Stretch {
            row: usize::try_from(event[0].as_u64()?).ok()?,
            phase: event[1].as_str()?.to_owned(),
            begin: event[2].as_f64()?,
            end: event[3].as_f64()?,
        })
    };
    document["events"].as_array()?.iter().map(of).collect()
}

/// Draws the timeline in a file beside it; gives the drawing.
pub(crate) fn draw(file: &Path) -> Result<PathBuf, Failure> {
    let document: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let stretches = stretches(&document).ok_or_else(|| format!("{} is no timeline", file.display()))?;
    let drawing = file.with_extension("svg");
    let rows = stretches.iter().map(|stretch| stretch.row + 1).max().unwrap_or(1);
    let end = stretches.iter().map(|stretch| stretch.end).fold(1e-3, f64::max);
    let area = SVGBackend::new(&drawing, (1100, 110 + 60 * rows as u32)).into_drawing_area();
    let title = format!("One block of {}", document["title"].as_str().unwrap_or_default());
    // Rows from the top down; above them, room for the legend.
    let below = |row: usize| (rows - row) as f64;
    let mut chart = framed(&area, &title, (0.0..end, 0.0..rows as f64 + 0.8), ("us", ""))?;
    for (phase, color) in PHASES {
        let own = stretches.iter().filter(|stretch| stretch.phase == phase);
        let corners = own.map(|s| [(s.begin, below(s.row) - 0.8), (s.end, below(s.row) - 0.1)]);
        chart
            .draw_series(corners.map(|corners| Rectangle::new(corners, color.filled())))?
            .label(phase)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    for row in 0..rows {
        let name = if row == 0 { "producer".to_owned() } else { format!("consumers {row}") };
        let at = (0.0, below(row) + 0.05);
        chart.draw_series([Text::new(name, at, ("sans-serif", 12))])?;
    }
    let position = SeriesLabelPosition::UpperRight;
    chart.configure_series_labels().position(position).border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_becomes_a_drawing() {
        let file = std::env::temp_dir().join(format!("epilogue-timeline-{}.json", std::process::id()));
        let text = r#"{"title": "a product", "events": [[0, "loads", 0.5, 2.0], [1, "products", 1.0, 2.5], [2, "epilogue", 2.5, 3.0]]}"#;
        std::fs::write(&file, text).expect("written");
        let drawing = draw(&file).expect("a drawing");
        let svg = std::fs::read_to_string(&drawing).expect("a drawing");
        for word in ["One block of a product", "producer", "consumers 2", "products", "<rect"] {
            assert!(svg.contains(word), "{word}");
        }
        std::fs::write(&file, "{}").expect("written");
        let refused = draw(&file).expect_err("no timeline").to_string();
        assert!(refused.contains("is no timeline"), "{refused}");
        for file in [file, drawing] {
            std::fs::remove_file(file).expect("removed");
        }
    }
}
