//! What is allowed: the order of layers, and the circles that are the nature of their data.

use super::graph::Graph;

/// The workspace from the bottom up: what stands in one entry imports only from it and from those before it. A file
/// belongs to the longest name that its own begins with.
const LAYERS: &[&str] = &[
    "runtime/ptx-vm/src",
    "runtime/src",
    "epilogue-macros/src",
    "src/expr",
    "src/simd",
    "src/parallel.rs",
    "src/pool.rs",
    "src/variants.rs",
    "src/device",
    "src/tile",
    "src/ops",
    "src/evt",
    "src/argument.rs",
    "src/gemm",
    "src/te/dtype.rs",
    "src/te/error.rs",
    "src/te/lang",
    "src/te/arith",
    "src/te/text.rs",
    "src/te/build",
    "src/te/ir",
    "src/te/schedule",
    "src/te/lower",
    "src/te/target",
    "src/te/ops",
    "src/te/auto/order.rs",
    "src/te/auto/pattern",
    "src/te/auto/split",
    "src/te/auto/bind",
    "src/te/auto/gpu",
    "src/te/auto/cpu",
    "src/te/auto/kernel.rs",
    "src/te/auto/run",
    "src/te/auto",
    "src/te",
    "src",
    "runtime/ptx-vm/conformance/src",
    "bundle/src",
    "xtask/src",
];

/// Folders that never import each other, whatever the order.
const STRANGERS: &[[&str; 2]] = &[["src/gemm", "src/te"], ["src/evt", "src/tile"], ["src/evt", "src/device"]];

/// Files that come back to each other over their imports, and why that is right.
const CIRCLES: &[(&[&str], &str)] = &[];

/// Everything that is not allowed, for a person to read.
pub(super) fn violations(graph: &Graph) -> Vec<String> {
    [imports(graph), circles(graph)].concat()
}

/// Imports against the order of layers.
pub(super) fn imports(graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for (from, to) in graph.edges() {
        let (from, to) = (graph.files()[*from].as_str(), graph.files()[*to].as_str());
        let (Some(low), Some(high)) = (layer(from), layer(to)) else {
            wrong.push(format!("{from} or {to} is in no layer"));
            continue;
        };
        if low < high {
            wrong.push(format!("{from} ({}) imports {to} ({}), a later layer", LAYERS[low], LAYERS[high]));
        }
        let apart = |[a, b]: &&[&str; 2]| {
            let is = |x: &str, y: &str| from.starts_with(x) && to.starts_with(y);
            is(a, b) || is(b, a)
        };
        if let Some([a, b]) = STRANGERS.iter().find(apart) {
            wrong.push(format!("{from} imports {to}: {a} and {b} never import each other"));
        }
    }
    wrong
}

/// The layer of a file, as a place in the order.
fn layer(file: &str) -> Option<usize> {
    let inside = |layer: &str| file.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let matching = LAYERS.iter().enumerate().filter(|(_, layer)| inside(layer));
    matching.max_by_key(|(_, layer)| layer.len()).map(|(place, _)| place)
}

fn circles(graph: &Graph) -> Vec<String> {
    let found = graph.circles();
    let new = found.iter().filter(|circle| !CIRCLES.iter().any(|(allowed, _)| allowed == circle));
    let gone = CIRCLES.iter().filter(|(allowed, _)| !found.iter().any(|circle| circle == allowed));
    let gone = gone.map(|(allowed, _)| format!("allowed, but there is no such circle: {}", allowed.join(", ")));
    new.map(|circle| format!("a circle of imports: {}", circle.join(", "))).chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_longest_name() {
        let name = |file| layer(file).map(|place| LAYERS[place]);
        assert_eq!(name("src/te/ops/mod.rs"), Some("src/te/ops"));
        assert_eq!(name("src/argument.rs"), Some("src/argument.rs"));
        assert_eq!(name("src/lib.rs"), Some("src"));
        assert_eq!(name("srcs/lib.rs"), None);
    }
}
