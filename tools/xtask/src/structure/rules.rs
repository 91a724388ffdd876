//! The rules: the order of layers, and the circles that follow from the nature of the data.

use super::graph::Graph;

/// The workspace from the bottom up: an entry imports only from itself and from those before it. A file belongs to the
/// longest entry with which its own name begins.
const LAYERS: &[&str] = &[
    "runtime/float-mode/src",
    "runtime/ptx-vm/src/message.rs",
    "runtime/ptx-vm/src/numerics",
    "runtime/ptx-vm/src/race",
    "runtime/ptx-vm/src/arch.rs",
    "runtime/ptx-vm/src/options.rs",
    "runtime/ptx-vm/src/error.rs",
    "runtime/ptx-vm/src/statistics.rs",
    "runtime/ptx-vm/src/syntax",
    "runtime/ptx-vm/src/memory",
    "runtime/ptx-vm/src/program",
    "runtime/ptx-vm/src/launch.rs",
    "runtime/ptx-vm/src/module.rs",
    "runtime/ptx-vm/src/exec/state",
    "runtime/ptx-vm/src/exec/lane.rs",
    "runtime/ptx-vm/src/exec/context.rs",
    "runtime/ptx-vm/src/exec",
    "runtime/ptx-vm/src/decode",
    "runtime/ptx-vm/src/parse.rs",
    "runtime/ptx-vm/src/machine.rs",
    "runtime/ptx-vm/src/explore.rs",
    "runtime/ptx-vm/src/mutate",
    "runtime/ptx-vm/src",
    "runtime/src",
    "runtime/src/layout/float8.rs",
    "runtime/src/layout/element.rs",
    "runtime/src/compile/compile_log.rs",
    "runtime/src/device/cpu_level.rs",
    "runtime/src/error",
    "runtime/src/layout",
    "runtime/src/formats",
    "runtime/src/compile",
    "runtime/src/testing.rs",
    "runtime/src/device/properties.rs",
    "runtime/src/device/rates.rs",
    "runtime/src/device/gpu_model.rs",
    "runtime/src/device/launch.rs",
    "runtime/src/memory/control_groups.rs",
    "runtime/src/device/host.rs",
    "runtime/src/ranks/collective.rs",
    "runtime/src/device/cuda",
    "runtime/src/device/no_cuda",
    "runtime/src/memory/host_bytes.rs",
    "runtime/src/memory/host_lock.rs",
    "runtime/src/memory/host_memory.rs",
    "runtime/src/device",
    "runtime/src/memory",
    "runtime/src/launch/recording.rs",
    "runtime/src/launch/stream.rs",
    "runtime/src/tensor",
    "runtime/src/exchange",
    "runtime/src/ranks",
    "runtime/src/launch",
    "runtime/src/compile/bundle/install.rs",
    "runtime/src/compile/bundle/builder.rs",
    "runtime/src/compile/bundle/mod.rs",
    "runtime/src/compile/bundle/tests.rs",
    "runtime/src/tensor/copy",
    "runtime/src/tensor/tensor_map/tiled.rs",
    "runtime/src/tensor/tensor_map/im2col.rs",
    "runtime/src/device/cuda/tensor_map.rs",
    "runtime/src/device/no_cuda/tensor_map.rs",
    "runtime/src/tensor/tensor_map",
    "runtime/src/lib.rs",
    "epilogue-macros/syntax/src",
    "epilogue-macros/src",
    "src/cuda",
    "src/expr",
    "src/exhaustion.rs",
    "src/tuning.rs",
    "src/level.rs",
    "src/simd",
    "src/jit",
    "src/lane",
    "src/sync.rs",
    "src/parallel/cpus.rs",
    "src/parallel/forks.rs",
    "src/parallel/patience.rs",
    "src/parallel/jobs.rs",
    "src/parallel/workers.rs",
    "src/parallel.rs",
    "src/pool.rs",
    "src/variants.rs",
    "src/device",
    "src/tile",
    "src/ops",
    "src/evt",
    "src/argument.rs",
    "src/gemm",
    "src/distributed",
    "src/te/dtype.rs",
    "src/te/error",
    "src/te/expr",
    "src/te/arith",
    "src/te/text.rs",
    "src/te/expr/define",
    "src/te/loops/ir",
    "src/te/cuda",
    "src/te/loops/schedule",
    "src/te/loops/lower",
    "src/te/bind",
    "src/te/loops/backend",
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
    "src/fuse",
    "src",
    "runtime/ptx-vm/conformance/src",
    "tools/bundle/src",
    "tools/command/src/source",
    "tools/command/src",
    "tools/xtask/src",
];

/// Folders that never import each other, whatever the order.
const STRANGERS: &[[&str; 2]] =
    &[["src/gemm", "src/te"], ["src/gemm/run", "src/gemm/cpu"], ["src/evt", "src/tile"], ["src/evt", "src/device"]];

/// Files that import each other in a circle, and why that is right. Each is also explained on its folder's page.
const CIRCLES: &[(&[&str], &str)] = &[
    (
        &[
            "src/te/expr/axis.rs",
            "src/te/expr/buffer.rs",
            "src/te/expr/expression.rs",
            "src/te/expr/node.rs",
            "src/te/expr/ranges.rs",
            "src/te/expr/reduce.rs",
            "src/te/expr/tensor.rs",
            "src/te/expr/unsigned.rs",
        ],
        "an expression reads tensors, a tensor's operation has expressions and axes, an axis has a range of expressions",
    ),
    (
        &[
            "epilogue-macros/syntax/src/parse/body.rs",
            "epilogue-macros/syntax/src/parse/expression.rs",
            "epilogue-macros/syntax/src/parse/reduction.rs",
        ],
        "the grammar's recursion: blocks are made of expressions, which may be blocks or reductions of expressions",
    ),
];

/// Everything that is not allowed, for a person to read.
pub(super) fn violations(graph: &Graph) -> Vec<String> {
    [imports(graph), circles(graph)].concat()
}

/// Imports that violate the order of layers.
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

/// The layer of a file, as an index in the order.
fn layer(file: &str) -> Option<usize> {
    let inside = |layer: &str| file.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let matching = LAYERS.iter().enumerate().filter(|(_, layer)| inside(layer));
    matching.max_by_key(|(_, layer)| layer.len()).map(|(place, _)| place)
}

/// Circles that are not allowed, and allowed ones that no longer exist.
pub(super) fn circles(graph: &Graph) -> Vec<String> {
    unexpected(&graph.circles(), CIRCLES)
}

fn unexpected(found: &[Vec<&str>], allowed: &[(&[&str], &str)]) -> Vec<String> {
    let new = found.iter().filter(|circle| !allowed.iter().any(|(files, _)| files == circle));
    let gone = allowed.iter().filter(|(files, _)| !found.iter().any(|circle| circle == files));
    let gone = gone.map(|(files, _)| format!("allowed, but there is no such circle: {}", files.join(", ")));
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

    #[test]
    fn circles_are_those_that_are_allowed() {
        let allowed: &[(&[&str], &str)] = &[(&["a.rs", "b.rs"], "they are one thing")];
        assert!(unexpected(&[vec!["a.rs", "b.rs"]], allowed).is_empty());
        assert_eq!(
            unexpected(&[vec!["a.rs", "b.rs", "c.rs"]], allowed),
            ["a circle of imports: a.rs, b.rs, c.rs", "allowed, but there is no such circle: a.rs, b.rs"]
        );
    }
}
