//! A graph in Graphviz's language.

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
        Graph::of(self).to_dot(self.name())
    }
}

impl Graph {
    /// The graph in Graphviz's language.
    pub(crate) fn to_dot(&self, name: &str) -> String {
        let mut text = format!("digraph \"{}\" {{\n", escaped(name));
        text.push_str("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n");
        text.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        for (i, shown) in self.boxes.iter().enumerate() {
            let (fill, line) = shown.kind.colours();
            let label = escaped(&shown.lines().join("\n")).replace('\n', "\\n");
            let _ = writeln!(text, "  n{i} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{line}\"];");
        }
        for arrow in &self.arrows {
            let style = if arrow.dashed { ", style=dashed" } else { "" };
            let label = escaped(&arrow.label);
            let _ = writeln!(text, "  n{} -> n{} [label=\"{label}\"{style}];", arrow.from, arrow.to);
        }
        text.push_str("}\n");
        text
    }
}
