//! The messages that users read when they make a mistake. `TRYBUILD=overwrite cargo test --test ui` rewrites the
//! expected ones.

// Only failing cases: with a passing one, every dependency would be compiled a second time instead of only checked.
#[test]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("cases/*.rs");
}

/// Users see no internal name of the expansion.
#[test]
fn messages_name_nothing_internal() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            let message = std::fs::read_to_string(&path).unwrap();
            for name in ["__private", "__EPILOGUE", "TreeBuilder", "FunctionBuilder", "NodeId", "error: error"] {
                assert!(!message.contains(name), "{} in {}", name, path.display());
            }
            read += 1;
        }
    }
    assert!(read > 60, "{read}");
}
