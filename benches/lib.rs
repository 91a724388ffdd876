//! The benchmarks: one program each, which `cargo bench --bench NAME` runs.
