//! What users read when they make a mistake. `TRYBUILD=overwrite cargo test --test ui` rewrites the expected messages.

// Only failing cases: with a passing one, every dependency would be compiled a second time, not only checked.
#[test]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
