//! What users read when they make a mistake. `TRYBUILD=overwrite cargo test --test ui` rewrites the expected messages.

#[test]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
