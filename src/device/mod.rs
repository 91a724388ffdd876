//! The device headers: CUDA C++ files, and a function that joins them into one text without `#include`s. Both `gemm`
//! and `te` emit kernels on top of them. No generated text belongs here.
//!
//! Structs that the host fills have a name, a base and methods in their header. `#include "NAME.fields"` stands for their
//! fields, which their description gives (`gemm/kernel/device_struct.rs`).

use std::collections::BTreeSet;

/// The path below `src/device/` and the text of every header.
const HEADERS: &[(&str, &str)] = &[
    ("ptx.cuh", include_str!("ptx.cuh")),
    ("convert.cuh", include_str!("convert.cuh")),
    ("convert_8bit.cuh", include_str!("convert_8bit.cuh")),
    ("math.cuh", include_str!("math.cuh")),
    ("arrival.cuh", include_str!("arrival.cuh")),
    ("collective.cuh", include_str!("collective.cuh")),
    ("status.cuh", include_str!("status.cuh")),
    ("te/arithmetic.cuh", include_str!("te/arithmetic.cuh")),
    ("te/status.cuh", include_str!("te/status.cuh")),
    ("te/lanes.cuh", include_str!("te/lanes.cuh")),
    ("pack.cuh", include_str!("pack.cuh")),
    ("views.cuh", include_str!("views.cuh")),
    ("sweep.cuh", include_str!("sweep.cuh")),
    ("random.cuh", include_str!("random.cuh")),
    ("sm90/random.cuh", include_str!("sm90/random.cuh")),
    ("bits.cuh", include_str!("bits.cuh")),
    ("digits.cuh", include_str!("digits.cuh")),
    ("batches.cuh", include_str!("batches.cuh")),
    ("row_index.cuh", include_str!("row_index.cuh")),
    ("scattered.cuh", include_str!("scattered.cuh")),
    ("sm90/bits.cuh", include_str!("sm90/bits.cuh")),
    ("sm90/digits.cuh", include_str!("sm90/digits.cuh")),
    ("needed.cuh", include_str!("needed.cuh")),
    ("group_rows.cuh", include_str!("group_rows.cuh")),
    ("groups.cuh", include_str!("groups.cuh")),
    ("block_scales.cuh", include_str!("block_scales.cuh")),
    ("repack.cuh", include_str!("repack.cuh")),
    ("repack_rows.cuh", include_str!("repack_rows.cuh")),
    ("reduction.cuh", include_str!("reduction.cuh")),
    ("indexed.cuh", include_str!("indexed.cuh")),
    ("state.cuh", include_str!("state.cuh")),
    ("exponentials.cuh", include_str!("exponentials.cuh")),
    ("te/walk.cuh", include_str!("te/walk.cuh")),
    ("te/reduce.cuh", include_str!("te/reduce.cuh")),
    ("te/scan.cuh", include_str!("te/scan.cuh")),
    ("te/cell.cuh", include_str!("te/cell.cuh")),
    ("sm80/operand_tile.cuh", include_str!("sm80/operand_tile.cuh")),
    ("sm80/loader.cuh", include_str!("sm80/loader.cuh")),
    ("sm80/picked.cuh", include_str!("sm80/picked.cuh")),
    ("sm80/fragments.cuh", include_str!("sm80/fragments.cuh")),
    ("sm80/fragments_8bit.cuh", include_str!("sm80/fragments_8bit.cuh")),
    ("sm80/fragments_mixed.cuh", include_str!("sm80/fragments_mixed.cuh")),
    ("sm80/mainloop.cuh", include_str!("sm80/mainloop.cuh")),
    ("sm80/scheduler.cuh", include_str!("sm80/scheduler.cuh")),
    ("sm80/stream.cuh", include_str!("sm80/stream.cuh")),
    ("sm80/split_k.cuh", include_str!("sm80/split_k.cuh")),
    ("sm80/reduce.cuh", include_str!("sm80/reduce.cuh")),
    ("sm80/epilogue.cuh", include_str!("sm80/epilogue.cuh")),
    ("sm80/later.cuh", include_str!("sm80/later.cuh")),
    ("sm80/gemm.cuh", include_str!("sm80/gemm.cuh")),
    ("sm80/groups.cuh", include_str!("sm80/groups.cuh")),
    ("sm80/patches.cuh", include_str!("sm80/patches.cuh")),
    ("sm80/fragments_fp8.cuh", include_str!("sm80/fragments_fp8.cuh")),
    ("sm80/scaled.cuh", include_str!("sm80/scaled.cuh")),
    ("sm80/gradient_patches.cuh", include_str!("sm80/gradient_patches.cuh")),
    ("sm80/transposed_patches.cuh", include_str!("sm80/transposed_patches.cuh")),
    ("sm90/config.cuh", include_str!("sm90/config.cuh")),
    ("sm90/pipeline.cuh", include_str!("sm90/pipeline.cuh")),
    ("sm90/tma.cuh", include_str!("sm90/tma.cuh")),
    ("sm90/wgmma.cuh", include_str!("sm90/wgmma.cuh")),
    ("sm90/scheduler.cuh", include_str!("sm90/scheduler.cuh")),
    ("sm90/mainloop.cuh", include_str!("sm90/mainloop.cuh")),
    ("sm90/split_k.cuh", include_str!("sm90/split_k.cuh")),
    ("sm90/fragments.cuh", include_str!("sm90/fragments.cuh")),
    ("sm90/reduce.cuh", include_str!("sm90/reduce.cuh")),
    ("sm90/exchange.cuh", include_str!("sm90/exchange.cuh")),
    ("sm90/epilogue.cuh", include_str!("sm90/epilogue.cuh")),
    ("sm90/gemm.cuh", include_str!("sm90/gemm.cuh")),
    ("sm90/groups.cuh", include_str!("sm90/groups.cuh")),
    ("sm90/depth.cuh", include_str!("sm90/depth.cuh")),
    ("sm90/patches.cuh", include_str!("sm90/patches.cuh")),
    ("sm90/transposed_patches.cuh", include_str!("sm90/transposed_patches.cuh")),
    ("sm90/picked.cuh", include_str!("sm90/picked.cuh")),
    ("sm90/mixed.cuh", include_str!("sm90/mixed.cuh")),
    ("sm90/scaled.cuh", include_str!("sm90/scaled.cuh")),
    ("sm100/tensor_memory.cuh", include_str!("sm100/tensor_memory.cuh")),
    ("sm100/products.cuh", include_str!("sm100/products.cuh")),
];

/// The paths of all headers.
#[cfg(test)]
pub(crate) fn paths() -> Vec<&'static str> {
    HEADERS.iter().map(|(path, _)| *path).collect()
}

/// Gives the fields of a struct by its name below this folder: lines of C++.
pub(crate) type Fields<'f> = &'f dyn Fn(&str) -> Option<String>;

/// The headers, with everything that they include, each once and before its first use. They have no structs that the host
/// fills.
pub(crate) fn inlined(paths: &[&str]) -> String {
    inlined_with(paths, &|_| None)
}

/// The headers, likewise, with the fields of their structs.
pub(crate) fn inlined_with(paths: &[&str], fields: Fields<'_>) -> String {
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    for path in paths {
        append(path, fields, &mut seen, &mut text);
    }
    text
}

fn append(path: &str, fields: Fields<'_>, seen: &mut BTreeSet<&'static str>, text: &mut String) {
    let Some((path, header)) = HEADERS.iter().find(|(name, _)| *name == path) else { return };
    if !seen.insert(path) {
        return;
    }
    for included in header.lines().filter_map(included) {
        append(&resolve(path, included), fields, seen, text);
    }
    text.push_str(&format!("// ==== {path} ====\n"));
    text.push_str(&with_fields(header, path, fields));
}

/// The text of the header at a path, without the headers that it includes and with the fields of its structs. A struct
/// that nobody describes stays an `#include`, which no compiler finds.
pub(crate) fn with_fields(header: &str, path: &str, fields: Fields<'_>) -> String {
    let mut text = String::new();
    for line in header.lines() {
        let name = included(line).and_then(|included| included.strip_suffix(".fields"));
        let described = name.and_then(|name| fields(&resolve(path, name)));
        match described {
            Some(lines) => text.push_str(&lines),
            None if line == "#pragma once" || (line.starts_with("#include") && name.is_none()) => {}
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The path that a line includes.
fn included(line: &str) -> Option<&str> {
    line.strip_prefix("#include \"")?.strip_suffix('"')
}

/// The path of `included`, as included by the header at `path`.
fn resolve(path: &str, included: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match included.strip_prefix("../") {
        Some(above) => above.to_owned(),
        None if folder.is_empty() => included.to_owned(),
        None => format!("{folder}/{included}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_include_is_a_header() {
        for (path, text) in HEADERS {
            for line in text.lines().filter(|line| line.starts_with("#include")) {
                let name = included(line).expect("quoted");
                if name.ends_with(".fields") {
                    continue;
                }
                let resolved = resolve(path, name);
                assert!(HEADERS.iter().any(|(p, _)| *p == resolved), "{path}: {line}");
            }
        }
    }

    #[test]
    fn headers_come_once_and_in_order() {
        let text = inlined_with(&["math.cuh", "sm80/gemm.cuh"], &|_| Some(String::new()));
        let place = |path: &str| text.find(&format!("// ==== {path} ====")).expect(path);
        for path in ["ptx.cuh", "convert.cuh", "math.cuh", "views.cuh", "sm80/epilogue.cuh", "sm80/gemm.cuh"] {
            assert_eq!(text.matches(&format!("// ==== {path} ====")).count(), 1, "{path}");
        }
        assert!(place("ptx.cuh") < place("views.cuh") && place("views.cuh") < place("sm80/epilogue.cuh"));
        assert!(!text.contains("#include"));
    }
}
