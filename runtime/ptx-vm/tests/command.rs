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

    let explored = run(&[&words[..], &["--explore", "2"]].concat());
    assert!(text(&explored.stdout).contains("after 2 of 2: argument 0: 0 1 2 3"), "{explored:?}");

    for (words, status, said) in [
        (vec!["run", path, "--arg", "zeros:4"], 1, "argument"),
        (vec!["run", path, "--grid", "1,2,3,4"], 2, "more than three dimensions"),
        (vec!["run", path, "--completion", "never"], 2, "never"),
        (vec!["run", path, "--explore", "2", "--no-detector"], 2, "cannot be used with"),
        (vec!["run", path, "--explore", "2", "--save", "0:file"], 2, "cannot be used with"),
        (vec!["run", "/no/such/file.ptx"], 1, "/no/such/file.ptx"),
        (vec!["walk", path], 2, "walk"),
    ] {
        let output = run(&words);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
    let _ = std::fs::remove_file(file);
}

/// Two blocks that each announce themselves and look for the other, without a fence and with one. A third kernel has an
/// instruction that is not supported.
const STORE_BUFFERING: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry alone(.param .u64 flags, .param .u64 seen) { BODY st.volatile.global.u32 [%rd3], 1; LOOK }
.visible .entry fenced(.param .u64 flags, .param .u64 seen) {
    BODY st.volatile.global.u32 [%rd3], 1; fence.sc.gpu; LOOK
}
.visible .entry strange() { alloca.u64 %rd1, 8; ret; }
";

#[test]
fn what_only_some_schedules_give_is_shown_in_the_default_mode() {
    let body = ".reg .b64 %rd<6>; .reg .b32 %r<3>; ld.param.u64 %rd1, [flags]; ld.param.u64 %rd2, [seen];
        mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd3, %rd1, %rd4; add.s64 %rd5, %rd2, %rd4;";
    let look = "xor.b32 %r1, %r1, 1; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd3, %rd1, %rd4;
        ld.volatile.global.u32 %r2, [%rd3]; st.global.u32 [%rd5], %r2; ret;";
    let file = std::env::temp_dir().join(format!("ptx-vm-buffering-{}.ptx", std::process::id()));
    std::fs::write(&file, STORE_BUFFERING.replace("BODY", body).replace("LOOK", look)).expect("a file");
    let path = file.to_str().expect("text");
    let both_missed = |kernel: &str| {
        let words = ["--grid", "2", "--arg", "zeros:8", "--arg", "zeros:8", "--print", "1:u32", "--explore", "24"];
        let explored = run(&[&["run", path, "--kernel", kernel], &words[..]].concat());
        assert_eq!(explored.status.code(), Some(0), "{explored:?}");
        text(&explored.stdout).contains("argument 1: 0 0")
    };
    assert!(both_missed("alone"));
    assert!(!both_missed("fenced"));
    let seeds = (0..24).map(|seed| {
        let words = ["run", path, "--kernel", "alone", "--grid", "2", "--arg", "zeros:8", "--arg", "zeros:8"];
        text(&run(&[&words[..], &["--print", "1:u32", "--seed", &seed.to_string()]].concat()).stdout)
    });
    assert!(seeds.into_iter().any(|said| said.contains("argument 1: 0 0")));

    let listed = text(&run(&["list", path]).stdout);
    assert!(listed.contains("alone (") && listed.contains("strange can't be run: PTX line"), "{listed}");
    let refused = run(&["run", path, "--kernel", "strange"]);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("`.local` array"), "{refused:?}");
    let _ = std::fs::remove_file(file);
}
