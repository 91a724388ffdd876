//! What is measured: a program each, which `cargo bench --bench NAME` runs.
