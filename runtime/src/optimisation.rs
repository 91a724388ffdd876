//! Whether this library was compiled with optimisation. A library cannot ask for it: the profiles of the program decide.

/// Advice if the library was compiled without optimisation, as a program's `dev` profile does by default. On the CPU it is
/// then slower by hundreds of times.
///
/// [`Device::describe`](crate::Device::describe) and the choice of a product on the CPU say it, too.
///
/// ```
/// if let Some(advice) = epilogue_runtime::without_optimisation() {
///     eprintln!("{advice}");
/// }
/// ```
#[must_use]
pub const fn without_optimisation() -> Option<&'static str> {
    if cfg!(without_optimisation) {
        Some(
            "the library was compiled without optimisation, hundreds of times slower: run with `--release`, or add to \
             Cargo.toml `[profile.dev.package.\"*\"]` with `opt-level = 3` and `debug-assertions = false`",
        )
    } else {
        None
    }
}
