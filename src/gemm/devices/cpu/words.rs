//! Describes what the CPU device computes for a plan, since it has no kernel whose text could be shown.

use std::fmt::Write as _;

use crate::evt::Phases;

/// Comment lines like the head of a kernel: the code that runs, the extents of its tiles, and the tree.
pub(crate) fn cpu_words(phases: &Phases, (rows, columns): (usize, usize)) -> String {
    let tree = &phases.tree;
    let mut words = format!(
        "// The epilogue `{}` ({}) on the CPU: no CUDA C++ runs here, and there is no kernel.\n// The library's threads \
         take the tiles of {rows}x{columns} in turn. Of each they compute the product into a cache, if it is needed; then\n\
         // the epilogue over it in strips, as vector code for this CPU, compiled with the library:\n//\n",
        tree.name(),
        tree.file(),
    );
    if phases.parts.len() > 1 {
        let _ = writeln!(
            words,
            "//     {} phases, one after another: row by row of tiles where rows have nothing to do with each other and are\n\
             //     enough for all threads, else over the whole product\n//",
            phases.parts.len()
        );
    }
    for line in tree.to_string().lines() {
        let _ = writeln!(words, "//     {line}");
    }
    words
}
