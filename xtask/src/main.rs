//! The project's chores. Run `cargo xtask` for the list.

fn main() {}
