//! A kernel's origin: the hash of what its text is generated from. Bundles list it, so that a choice needs no text.

use std::fmt::Write as _;

use epilogue_runtime::CacheKey;

use crate::evt::ValidTree;
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::ArgumentViews;

/// The origin of all kernels of an epilogue: what it computes and its names, without places in the user's files.
pub(crate) fn origin_of_tree(tree: &ValidTree) -> CacheKey {
    let names: Vec<&str> = std::iter::once(tree.name()).chain(tree.argument_names()).collect();
    let types = format!("{names:?} {:?} {:?}", tree.accumulators(), tree.types());
    CacheKey::of(&[env!("CARGO_PKG_VERSION").as_bytes(), types.as_bytes(), computed(tree).as_bytes()])
}

/// The origin of a product's kernel, by that of its epilogue.
pub(crate) fn origin_of_kernel(tree: CacheKey, key: &KernelKey, views: ArgumentViews) -> CacheKey {
    CacheKey::of(&[tree.as_bytes(), format!("{key:?} {views:?}").as_bytes()])
}

/// Everything that a tree computes, without names and source locations.
pub(crate) fn computed(tree: &ValidTree) -> String {
    let mut text = String::new();
    for value in tree.values() {
        let _ = writeln!(text, "{:?} {:?} {:?} {}", value.kind, value.ty, value.class, value.significand);
    }
    for parameter in tree.parameters() {
        let _ = writeln!(text, "{:?} {} {:?}", parameter.class, parameter.element, parameter.value);
    }
    for output in tree.outputs() {
        let (value, kind, class, element) = (output.value, output.kind, output.class, output.element);
        let packed = if output.packed { " packed" } else { "" };
        let _ = writeln!(text, "{value:?} {kind:?} {class:?} {element} {:?}{packed}", output.parameter);
    }
    text
}
