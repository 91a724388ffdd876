//! The whole model on the CPU against its reference, and a layer of it on the emulated device.

#[path = "../folder.rs"]
mod folder;

use std::process::Command;

use epilogue_runtime::testing;

/// Runs the example, if the model is here: `cargo xtask test` fetches it, and then it has to be.
fn run(test: &str, arguments: &[&str]) {
    if let Err(missing) = folder::of_model() {
        assert!(std::env::var_os("EPILOGUE_REQUIRE_NVRTC").is_none(), "test `{test}`: {missing}");
        return;
    }
    let example = Command::new(env!("CARGO_BIN_EXE_minilm")).args(arguments).output().expect("the example");
    let said = [example.stdout, example.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(example.status.success(), "{said}");
}

#[test]
fn sentences_are_where_the_reference_has_them() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/minilm/reference.json");
    run("sentences_are_where_the_reference_has_them", &["--check", reference]);
}

#[test]
fn the_program_of_expressions_has_the_same_vectors() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/minilm/reference.json");
    run("the_program_of_expressions_has_the_same_vectors", &["--program", "--check", reference]);
}

#[test]
fn a_layer_on_the_emulated_device() {
    if testing::compiler("a_layer_on_the_emulated_device").is_some() {
        run("a_layer_on_the_emulated_device", &["--device", "emulated"]);
    }
}
