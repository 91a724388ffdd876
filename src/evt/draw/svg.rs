//! A graph as an SVG document.

use std::fmt::Write;

use super::layout::DrawnLayout;
use super::{Box, Graph, Kind};
use crate::evt::ValidTree;

const LINE: f64 = 17.0;
const PADDING: f64 = 9.0;
const MARGIN: f64 = 20.0;
/// Space between layers, for arrows and their labels.
const BETWEEN: f64 = 46.0;
/// Mean width of a character of the 13-pixel sans-serif font, rather too large than too small.
const CHARACTER: f64 = 7.6;
const BOX_HEIGHT: f64 = 3.0 * LINE + 2.0 * PADDING - 4.0;
const TITLE: f64 = 30.0;

/// Escapes text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn text_width(text: &str) -> f64 {
    text.chars().map(|_| CHARACTER).sum()
}

fn box_width(graph: &Graph, i: usize) -> f64 {
    let text = graph.boxes[i].lines().into_iter().map(text_width).fold(44.0, f64::max) + 2.0 * PADDING;
    #[expect(clippy::cast_precision_loss)]
    let ends = graph.arrows.iter().filter(|a| a.to == i).count() as f64;
    text.max((ends - 1.0) * end_distance(graph, i) + 4.0 * PADDING)
}

impl ValidTree {
    /// The tree as a complete SVG document, with a legend.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let types = self.types();
        let title = format!("{}: A {}, B {}, {}", self.name(), types.a, types.b, super::accumulators(self));
        Graph::of(self).to_svg(&title, &[])
    }
}

impl Graph {
    /// The graph as a complete SVG document, with a legend; `remarks` are lines of text below it.
    pub(crate) fn to_svg(&self, title: &str, remarks: &[String]) -> String {
        let widths: Vec<f64> = (0..self.boxes.len()).map(|i| box_width(self, i)).collect();
        let layout = DrawnLayout::of(self, &widths);
        let legend = legend(self);
        let text = remarks.iter().map(|remark| text_width(remark)).fold(text_width(title) * 1.2, f64::max);
        let width = layout.width.max(text).max(legend.width) + 2.0 * MARGIN;
        let page = Page { left: (width - layout.width) / 2.0, top: MARGIN + TITLE + legend.height };
        #[expect(clippy::cast_precision_loss)]
        let layers = layout.height as f64;
        let below = page.top + layers * BOX_HEIGHT + (layers - 1.0).max(0.0) * BETWEEN + MARGIN;
        #[expect(clippy::cast_precision_loss)]
        let height = below + remarks.len() as f64 * LINE;

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        );
        svg.push_str(concat!(
            "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" ",
            "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>\n"
        ));
        let _ = writeln!(svg, "<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{:.0}\" font-size=\"15\" font-weight=\"bold\">{}</text>",
            MARGIN + 14.0,
            escaped(title)
        );
        svg.push_str(&legend.svg);
        draw_arrows(&mut svg, self, &layout, page);
        for (i, shown) in self.boxes.iter().enumerate() {
            draw_box(&mut svg, shown, page.left + layout.centres[i], page.layer(layout.layers[i]), widths[i]);
        }
        let mut y = below;
        for remark in remarks {
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y:.1}\" font-size=\"12\">{}</text>", escaped(remark));
            y += LINE;
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The position of the layout on the page.
#[derive(Clone, Copy)]
struct Page {
    left: f64,
    top: f64,
}

impl Page {
    /// The top of a layer's boxes.
    #[expect(clippy::cast_precision_loss)]
    fn layer(self, layer: usize) -> f64 {
        self.top + layer as f64 * (BOX_HEIGHT + BETWEEN)
    }
}

struct Legend {
    svg: String,
    width: f64,
    height: f64,
}

/// The kinds that occur, in rows of at most five.
fn legend(graph: &Graph) -> Legend {
    let present: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| graph.boxes.iter().any(|shown| shown.kind == *kind)).collect();
    let mut legend = Legend { svg: String::new(), width: 0.0, height: 8.0 };
    for row in present.chunks(5) {
        let y = MARGIN + TITLE + legend.height - 8.0;
        let mut x = MARGIN;
        for kind in row {
            let (fill, line) = kind.colours();
            let _ = writeln!(
                legend.svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" rx=\"3\" fill=\"{fill}\" \
                 stroke=\"{line}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\">{}</text>",
                x + 19.0,
                y + 11.5,
                kind.name()
            );
            x += 19.0 + text_width(kind.name()) + 12.0;
        }
        legend.width = legend.width.max(x - MARGIN);
        legend.height += 20.0;
    }
    legend.height += 12.0;
    legend
}

fn draw_box(svg: &mut String, shown: &Box, centre: f64, top: f64, width: f64) {
    let (fill, line) = shown.kind.colours();
    let thick = if matches!(shown.kind, Kind::Store | Kind::Reduce) { 2.0 } else { 1.2 };
    let _ = writeln!(
        svg,
        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX_HEIGHT:.1}\" rx=\"7\" fill=\"{fill}\" \
         stroke=\"{line}\" stroke-width=\"{thick}\"/>",
        centre - width / 2.0
    );
    let lines = shown.lines();
    #[expect(clippy::cast_precision_loss)]
    let mut y = top + BOX_HEIGHT / 2.0 - (lines.len() as f64 - 1.0) * LINE / 2.0 + 4.5;
    for (i, text) in lines.iter().enumerate() {
        let style = match (i, shown.name.is_some()) {
            (0, true) => " font-weight=\"bold\"",
            (i, _) if i + 1 == lines.len() => " fill=\"#555\" font-size=\"11\"",
            _ => "",
        };
        let _ = writeln!(
            svg,
            "<text x=\"{centre:.1}\" y=\"{y:.1}\" text-anchor=\"middle\"{style}>{}</text>",
            escaped(text)
        );
        y += LINE;
    }
}

fn draw_arrows(svg: &mut String, graph: &Graph, layout: &DrawnLayout, page: Page) {
    for (arrow, bends) in graph.arrows.iter().zip(&layout.bends) {
        let (first, last) = (layout.layers[arrow.from], layout.layers[arrow.to]);
        // Arrows that end at one box end side by side, in the order of their starts.
        let spread = end_offset(graph, layout, arrow);
        let (mut x, mut y) = (page.left + layout.centres[arrow.from], page.layer(first) + BOX_HEIGHT);
        let mut path = format!("M{x:.1} {y:.1}");
        let ends = bends.iter().enumerate().map(|(i, &bend)| (page.left + bend, page.layer(first + 1 + i), true));
        let end = (page.left + layout.centres[arrow.to] + spread, page.layer(last) - 1.5, false);
        for (to_x, to_y, passes) in ends.chain([end]) {
            let half = f64::midpoint(y, to_y);
            let _ = write!(path, "C{x:.1} {half:.1} {to_x:.1} {half:.1} {to_x:.1} {to_y:.1}");
            (x, y) = (to_x, to_y);
            if passes {
                y += BOX_HEIGHT;
                let _ = write!(path, "V{y:.1}");
            }
        }
        let dashes = if arrow.dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#555\" stroke-width=\"1.2\"{dashes} marker-end=\"url(#arrow)\"/>"
        );
        if !arrow.label.is_empty() {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10.5\" fill=\"#333\" text-anchor=\"{}\" stroke=\"#fff\" \
                 stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                x + if spread < 0.0 { -6.0 } else { 6.0 },
                page.layer(last) - 10.0,
                if spread < 0.0 { "end" } else { "start" },
                escaped(&arrow.label)
            );
        }
    }
}

/// The distance from the middle of its box at which an arrow ends.
fn end_offset(graph: &Graph, layout: &DrawnLayout, arrow: &super::Arrow) -> f64 {
    let came_from = |a: &super::Arrow, bends: &[f64]| bends.last().copied().unwrap_or(layout.centres[a.from]);
    let mut ends: Vec<(f64, *const super::Arrow)> = graph
        .arrows
        .iter()
        .zip(&layout.bends)
        .filter(|(a, _)| a.to == arrow.to)
        .map(|(a, bends)| (came_from(a, bends), std::ptr::from_ref(a)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = ends.iter().position(|(_, a)| std::ptr::eq(*a, arrow)).unwrap_or(0);
    #[expect(clippy::cast_precision_loss)]
    let offset = (place as f64 - (ends.len() as f64 - 1.0) / 2.0) * end_distance(graph, arrow.to);
    offset
}

/// The distance between arrows that end at one box: labels need room.
fn end_distance(graph: &Graph, to: usize) -> f64 {
    let labelled = graph.arrows.iter().any(|a| a.to == to && !a.label.is_empty() && !a.dashed);
    if labelled { 38.0 } else { 18.0 }
}
