//! The program `ptx-vm`: what it prints, and its status.
#![cfg(feature = "command")]

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptx-vm")).args(words).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each thread writes its number, and all threads their block's last word.
const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry numbers(.param .u64 to, .param .u32 last) {
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r2, [last];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    st.global.u32 [%rd1+256], %r1;
    ret;
}
";

#[test]
fn what_is_asked_for_is_run() {
    let file = std::env::temp_dir().join(format!("ptx-vm-command-{}.ptx", std::process::id()));
    std::fs::write(&file, KERNEL).expect("a file");
    let path = file.to_str().expect("text");
    let listed = run(&["list", path]);
    assert!(text(&listed.stdout).contains("numbers (0 bytes of static shared memory)"), "{listed:?}");

    let words = ["run", path, "--block", "40", "--arg", "zeros:260", "--arg", "u32:7", "--print", "0:u32:4"];
    let raced = run(&words);
    assert_eq!(raced.status.code(), Some(3), "{raced:?}");
    assert!(text(&raced.stdout).contains("argument 0: 0 1 2 3") && text(&raced.stdout).contains("race"), "{raced:?}");
    let quiet = run(&[&words[..], &["--no-detector", "--statistics"]].concat());
    assert_eq!(quiet.status.code(), Some(0), "{quiet:?}");
    assert!(text(&quiet.stdout).contains("bank conflicts"), "{quiet:?}");
    let explored = run(&[&words[..8], &["--explore", "2"]].concat());
    assert_eq!(explored.status.code(), Some(3), "{explored:?}");
    assert!(text(&explored.stdout).contains("2 schedules"), "{explored:?}");

    for (words, status, said) in [
        (vec!["run", path, "--arg", "zeros:4"], 1, "argument"),
        (vec!["run", path, "--grid", "1,2,3,4"], 2, "more than three dimensions"),
        (vec!["run", path, "--completion", "never"], 2, "never"),
        (vec!["run", "/no/such/file.ptx"], 1, "/no/such/file.ptx"),
        (vec!["walk", path], 2, "walk"),
    ] {
        let output = run(&words);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
    let _ = std::fs::remove_file(file);
}
