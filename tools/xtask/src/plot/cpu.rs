//! Draws the tables that `cargo bench --bench peers` prints: the CPU device's time over the fastest peer's.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::COLORS;
use crate::workspace::{Failure, root};

/// A table: its heading, and a ratio for each row.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table {
    heading: String,
    rows: Vec<(String, f64)>,
}

/// Draws `benches/results/cpu/README.md`, if it is there; gives the file.
pub(super) fn all() -> Result<Option<PathBuf>, Failure> {
    let folder = root().join("benches/results/cpu");
    let Ok(text) = std::fs::read_to_string(folder.join("README.md")) else { return Ok(None) };
    let file = folder.join("ratio.svg");
    draw(&file, &tables(&text))?;
    Ok(Some(file))
}

/// The tables under the headings of a Markdown text that name threads, whose last column is a ratio.
fn tables(text: &str) -> Vec<Table> {
    let mut tables = vec![Table::default()];
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            tables.push(Table { heading: heading.to_owned(), rows: Vec::new() });
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let (Some(name), Some(Ok(ratio)), Some(table)) =
            (cells.first(), cells.last().map(|cell| cell.parse()), tables.last_mut())
            && line.starts_with('|')
        {
            table.rows.push(((*name).to_owned(), ratio));
        }
    }
    tables.retain(|table| !table.rows.is_empty() && table.heading.contains("thread"));
    tables
}

const ROW: i32 = 18;
const TOP: i32 = 82;
/// The tables' names: how many stand beside each other, and how far apart.
const NAMES: (i32, i32) = (4, 190);
const LEFT: i32 = 400;
const WIDTH: i32 = 460;
/// The ratios at the left and the right end.
const RANGE: (f64, f64) = (0.1, 10.0);

/// One row for each row of the tables, with a point for each table.
fn draw(file: &Path, tables: &[Table]) -> Result<(), Failure> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in tables.iter().flat_map(|table| &table.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let bottom = TOP + ROW * names.len() as i32;
    let size = ((LEFT + WIDTH + 40) as u32, (bottom + 40) as u32);
    let area = SVGBackend::new(file, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (least, most) = (RANGE.0.ln(), RANGE.1.ln());
    let x = |ratio: f64| LEFT + ((ratio.ln().clamp(least, most) - least) / (most - least) * f64::from(WIDTH)) as i32;
    let small = ("sans-serif", 13).into_font();
    let text = |at: (i32, i32), words: &str, side: HPos| {
        let style = small.clone().color(&BLACK).pos(Pos::new(side, VPos::Center));
        area.draw(&Text::new(words.to_owned(), at, style))
    };
    text((LEFT, 16), "our time / the fastest peer's time: left of 1 we are faster", HPos::Left)?;
    for (number, (table, color)) in tables.iter().zip(COLORS.iter().cycle()).enumerate() {
        let (line, place) = (number as i32 / NAMES.0, number as i32 % NAMES.0);
        let (x, y) = (100 + NAMES.1 * place, 38 + ROW * line);
        area.draw(&Circle::new((x + 6, y), 4, color.filled()))?;
        text((x + 16, y), &table.heading, HPos::Left)?;
    }
    for ratio in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0] {
        let style = if ratio == 1.0 { BLACK.stroke_width(1) } else { BLACK.mix(0.15).stroke_width(1) };
        area.draw(&PathElement::new([(x(ratio), TOP - 8), (x(ratio), bottom)], style))?;
        text((x(ratio), bottom + 14), &ratio.to_string(), HPos::Center)?;
    }
    for (number, name) in names.iter().enumerate() {
        let y = TOP + ROW * number as i32;
        text((LEFT - 12, y), name, HPos::Right)?;
        for (table, color) in tables.iter().zip(COLORS.iter().cycle()) {
            for (_, ratio) in table.rows.iter().filter(|(of, _)| of == name) {
                area.draw(&Circle::new((x(*ratio), y), 4, color.filled()))?;
            }
        }
    }
    Ok(area.present()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The CPU\n\n## 2 threads\n\nA CPU (avx2), threads: 2\n\n\
                        | work | epilogue | numpy | ratio to the best |\n|---|--:|--:|--:|\n\
                        | softmax | 1.00 µs | 2.00 µs | 0.50 |\n| sums | 3.00 µs |  | inf |\n\
                        ## 1 thread\n\n| softmax | 30.00 µs | 2.00 µs | 15.00 |\n";

    #[test]
    fn tables_become_a_drawing() {
        let tables = tables(TEXT);
        let softmax = |heading: &str, ratio| (heading.to_owned(), ("softmax".to_owned(), ratio));
        let first: Vec<_> = tables.iter().map(|table| (table.heading.clone(), table.rows[0].clone())).collect();
        assert_eq!(first, [softmax("2 threads", 0.5), softmax("1 thread", 15.0)]);
        let file = std::env::temp_dir().join(format!("epilogue-cpu-{}.svg", std::process::id()));
        draw(&file, &tables).expect("a drawing");
        let drawing = std::fs::read_to_string(&file).expect("a drawing");
        // Two of the legend, and one for each ratio.
        assert_eq!(drawing.matches("<circle").count(), 5);
        std::fs::remove_file(file).expect("removed");
    }
}
