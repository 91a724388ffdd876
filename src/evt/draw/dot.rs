//! The tree in Graphviz's language.

use std::fmt::Write;

use super::Graph;
use crate::evt::ValidTree;

/// Text inside a quoted DOT string.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

impl ValidTree {
    /// The tree in Graphviz's language: `dot -Tsvg`. [`to_svg`](Self::to_svg) needs no Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let graph = Graph::of(self);
        let mut text = format!("digraph \"{}\" {{\n", escaped(self.name()));
        text.push_str("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n");
        text.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        for (i, shown) in graph.boxes.iter().enumerate() {
            let (fill, line) = shown.kind.colours();
            let label = escaped(&shown.lines().join("\n")).replace('\n', "\\n");
            let _ = writeln!(text, "  n{i} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{line}\"];");
        }
        for arrow in &graph.arrows {
            let style = if arrow.dashed { ", style=dashed" } else { "" };
            let label = escaped(&arrow.label);
            let _ = writeln!(text, "  n{} -> n{} [label=\"{label}\"{style}];", arrow.from, arrow.to);
        }
        text.push_str("}\n");
        text
    }
}
