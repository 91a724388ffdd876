//! The program `epilogue` on good and on bad input: what it prints, where, and with which status.
#![allow(missing_docs)]

use std::path::PathBuf;
use std::process::{Command, Output};

use expect_test::{Expect, expect};

/// Runs the program; words are separated by blanks, but for what stands after `-e`.
fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_epilogue")).args(words).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[track_caller]
fn prints(words: &[&str], expected: &Expect) {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    expected.assert_eq(&text(&output.stdout));
}

/// A refusal is on standard error, with status 2.
#[track_caller]
fn refuses(words: &[&str], expected: &Expect) {
    let output = run(words);
    assert_eq!(output.status.code(), Some(2), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    expected.assert_eq(&text(&output.stderr));
}

/// A file of this test's own.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("epilogue-command-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("layer.rs");
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

const BIAS_RELU: &str = "|accum, bias: RowVector, alpha: Scalar| { let d = relu(alpha * accum + bias); d }";

#[test]
fn a_tree() {
    prints(
        &["tree", "-e", BIAS_RELU, "--types", "bf16"],
        &expect![[r#"
        epilogue: A bf16, B bf16, accumulator f32, computed in f32
        d = store: Tensor bf16
        └─ d = relu: Tensor f32
           └─ +: Tensor f32
              ├─ *: Tensor f32
              │  ├─ alpha = host scalar: Scalar f32
              │  └─ accum = accumulator: Tensor f32
              └─ bias = load: RowVector bf16
    "#]],
    );
}

#[test]
fn a_choice() {
    let words = ["choose", "-e", BIAS_RELU, "--arch", "sm_90a", "--shape", "4096,4096,1024", "--candidates", "2"];
    let output = run(&words);
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 5, "{printed}{}", text(&output.stderr));
    assert_eq!(lines[0], "`epilogue` of 4096x4096x1024 on sm_90a:");
    assert!(lines[1].starts_with("wgmma f16: ") && lines[1].contains("bound by"), "{printed}");
    assert!(lines[2].starts_with("behind it, of ") && lines[3].starts_with("  wgmma f16: "), "{printed}");
}

/// Compares the output of a run, without how large the errors are: CPUs add in different orders.
fn prints_but_errors(words: &[&str], expected: &Expect) {
    const ERROR: &str = "the largest error is ";
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut printed = String::new();
    for line in text(&output.stdout).lines() {
        // What a build without optimisation says of itself depends on who builds the tests.
        let line = line.split_once("; the library was compiled").map_or(line, |(before, _)| before);
        let line = line.split_once(ERROR).map_or_else(
            || line.to_owned(),
            |(before, error)| {
                assert!(error.parse::<f64>().is_ok_and(|error| error < 1e-5), "{line}");
                format!("{before}{ERROR}…")
            },
        );
        printed += &line;
        printed.push('\n');
    }
    expected.assert_eq(&printed);
}

#[test]
fn a_run_on_the_cpu() {
    prints_but_errors(
        &["run", "-e", BIAS_RELU, "--shape", "5,7,9", "--types", "f32", "--set", "alpha=0.5"],
        &expect![[r#"
        `epilogue` of 5x7x9 on the CPU: CPU, tiles of 64x64
        alpha = 0.5
        d: all 35 elements within the reference's bounds, the largest error is …
    "#]],
    );
    let gated = "fn swiglu(gate: Accum, up: Accum) -> (Tensor, ColumnVector) {
        let d = silu(gate) * up;
        let sums = reduction_op(d, Row, Add);
        (d, sums)
    }";
    prints_but_errors(
        &["run", "-e", gated, "--shape", "33,20,16", "--types", "bf16", "--batch", "2", "--b", "column", "--seed", "3"],
        &expect![[r#"
            `swiglu` of 33x20x16 on the CPU: CPU, tiles of 64x32
            d: all 1320 elements within the reference's bounds, the largest error is …
            sums: all 66 elements within the reference's bounds, the largest error is …
        "#]],
    );
    let noisy = "fn noisy(accum: Accum, seed: Seed, mask: Bits) -> (Tensor, Bits) {
        let u = random(seed);
        let keep = mask && u >= 0.5;
        let d = if keep { accum + random(seed, 1) } else { u };
        (d, keep)
    }";
    prints_but_errors(
        &["run", "-e", noisy, "--shape", "9,10,4", "--types", "f32"],
        &expect![[r#"
            `noisy` of 9x10x4 on the CPU: CPU, tiles of 64x64
            d: all 90 elements within the reference's bounds, the largest error is …
            keep: all 90 elements within the reference's bounds, the largest error is …
        "#]],
    );
}

#[test]
fn a_run_on_an_emulated_gpu() {
    if epilogue::runtime::testing::compiler("a_run_on_an_emulated_gpu").is_none() {
        return;
    }
    let output = run(&["run", "-e", BIAS_RELU, "--on", "sm_80", "--shape", "40,24,32"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("d: all 960 elements within the reference's bounds"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_check() {
    let file = File::new(
        "check",
        "#[epilogue] fn one(accum: Accum) -> Tensor { let d = accum; d }
        mod inner { #[epilogue] fn two(accum: Accum) -> Tensor { let d = -accum; d } }",
    );
    let output = run(&["check", file.path(), "--arch", "sm_90a", "--no-compile"]);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.starts_with("one: sm_90a ") && said.contains("\ntwo: sm_90a "),
        "{output:?}"
    );
    assert!(said.ends_with("; not compiled\n"), "{said}");
    if epilogue::runtime::testing::compiler("a_check").is_some() {
        let output = run(&["check", file.path(), "--name", "two"]);
        let said = text(&output.stdout);
        assert!(
            output.status.success() && said.contains("two: sm_80") && said.contains("0 bytes spilled"),
            "{output:?}"
        );
    }
}

const SOFTMAX: &str = "|accum, bias: RowVector| {
    let x = accum + bias;
    let e = exp(x - reduction_op(x, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}";

/// If rows lie in a tile it has one kernel, else one for the product and one for what comes after it; what exports one
/// launch says so.
#[test]
fn an_epilogue_of_its_own_reductions() {
    let output = run(&["run", "-e", SOFTMAX, "--shape", "5,70,9", "--types", "f32"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("d: all 350 elements within the reference's bounds"), "{said}");
    refuses(
        &["emit", "-e", SOFTMAX, "--arch", "sm_90a", "--shape", "64,64,64", "--cuda", "-"],
        &expect![[r#"
            error: `epilogue` is computed from its own reductions, for which a plan keeps memory of its own and may launch several kernels, and one launch is exported: return the reductions, and go on in another epilogue
        "#]],
    );
    if epilogue::runtime::testing::compiler("an_epilogue_of_its_own_reductions").is_none() {
        return;
    }
    let output = run(&["run", "-e", SOFTMAX, "--on", "sm_80", "--shape", "20,140,32"]);
    let said = text(&output.stdout);
    assert!(said.contains("d: all 2800 elements within the reference's bounds"), "{output:?}");
    let output = run(&["check", "-e", SOFTMAX]);
    let said = text(&output.stdout);
    assert!(said.lines().count() == 1 && said.contains("all phases in the tile"), "{said}{}", text(&output.stderr));
    let output = run(&["check", "-e", SOFTMAX, "--shape", "512,4096,64"]);
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}{}", text(&output.stderr));
    assert!(lines[1].starts_with("  then ") && lines[1].ends_with(" 0 bytes spilled"), "{said}");
}

#[test]
fn a_measurement() {
    let output = run(&["bench", "-e", BIAS_RELU, "--types", "f32", "--shape", "16,16,16", "--seconds", "0"]);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("the bare product") && said.contains("the epilogue adds"),
        "{said}"
    );
}

#[test]
fn all_mistakes_are_shown_where_they_are() {
    let file = File::new(
        "mistakes",
        "use epilogue::prelude::*;

#[elementwise]
fn own(x: f32) -> f32 {
    other(x)
}

#[elementwise]
fn other(x: f32) -> f32 {
\town(x) + x
}

#[elementwise]
fn third(x: f32) -> f32 {
\tmissing(x) + maximum(x, 1.0)
}

const COUNT: usize = 3;

#[epilogue]
fn layer(accum: Accum, c: Tensr) -> Tensor {
    let d = 2 * accum;
    d
}

#[epilogue]
fn second(accum: Accum, c: Tensor<half>) -> Tensor {
    let d = tanh(accum, 1.0) + COUNT + LIMIT;
    d
}
",
    );
    let output = run(&["tree", file.path()]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
    let shown = text(&output.stderr).replace(file.path(), "layer.rs");
    expect![[r#"
        error: `other` calls itself over this: an elementwise function has no recursion
         --> layer.rs:5:5
          |
        5 |     other(x)
          |     ^^^^^

        error: there is no operation `missing`; a function of your own stands under `#[elementwise]`; there are `abs`, `atan2`, `ceil`, `clamp`, `cos`, `erf`, `exp`, `exp2`, `floor`, `fma`, `gelu`, `gelu_tanh`, `hardswish`, `leaky_relu`, `log`, `log1p`, `log2`, `max`, `min`, `neg`, `pow`, `recip`, `relu`, `round`, `rsqrt`, `select`, `sigmoid`, `silu`, `sin`, `softplus`, `sqrt`, `square`, `tan`, `tanh`, `own`, `other`, `third`
          --> layer.rs:15:2
           |
        15 | 	missing(x) + maximum(x, 1.0)
           | 	^^^^^^^

        error: there is no operation `maximum`; the larger of two values is `max(x, y)`
          --> layer.rs:15:15
           |
        15 | 	missing(x) + maximum(x, 1.0)
           | 	             ^^^^^^^

        error: a constant that an epilogue names is an `f32`: write `const COUNT: f32`
          --> layer.rs:18:14
           |
        18 | const COUNT: usize = 3;
           |              ^^^^^

        error: a parameter has one of the classes `Tensor`, `TensorMut`, `RowVector`, `ColumnVector`, `Scalar`, `DeviceScalar`, `Seed` or `Bits`, not `Tensr`; did you mean `Tensor`?
          --> layer.rs:21:27
           |
        21 | fn layer(accum: Accum, c: Tensr) -> Tensor {
           |                           ^^^^^

        error: values are floating-point numbers: write `2.0` (beside an integer such as `row()` it is one)
          --> layer.rs:22:13
           |
        22 |     let d = 2 * accum;
           |             ^

        error: `half` is not an element type; there are f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8, bool
          --> layer.rs:27:35
           |
        27 | fn second(accum: Accum, c: Tensor<half>) -> Tensor {
           |                                   ^^^^

        error: `tanh` takes 1 argument, 2 are given
          --> layer.rs:28:13
           |
        28 |     let d = tanh(accum, 1.0) + COUNT + LIMIT;
           |             ^^^^

        error: there is no constant `LIMIT` in this file: write `const LIMIT: f32 = …;` there, or the number
          --> layer.rs:28:40
           |
        28 |     let d = tanh(accum, 1.0) + COUNT + LIMIT;
           |                                        ^^^^^
    "#]].assert_eq(&shown);
}

#[test]
fn a_tree_that_does_not_fit_the_types() {
    let own = "|accum, labels: ColumnVector<f32>| { let d = if integer(labels) == column() { accum } else { 0.0 }; d }";
    refuses(
        &["tree", "-e", own],
        &expect![[r#"
        error: `integer` reads exact integers, but `labels` is f32 here
         --> the command line:1:49
          |
        1 | |accum, labels: ColumnVector<f32>| { let d = if integer(labels) == column() { accum } else { 0.0 }; d }
          |                                                 ^^^^^^^
    "#]],
    );
    let unwritten =
        "|accum, labels: ColumnVector| { let d = if integer(labels) == column() { accum } else { 0.0 }; d }";
    refuses(
        &["tree", "-e", unwritten],
        &expect![[r#"
        error: in the epilogue `epilogue`: `integer` reads exact integers, but `labels` is f16 here; declare it of i64, i32, i8, u8 or bool
         --> the command line:1:44
          |
        1 | |accum, labels: ColumnVector| { let d = if integer(labels) == column() { accum } else { 0.0 }; d }
          |                                            ^
    "#]],
    );
}

#[test]
fn what_is_refused() {
    refuses(
        &["tree", "/no/such/file.rs"],
        &expect![[r#"
        error: /no/such/file.rs: No such file or directory (os error 2)
    "#]],
    );
    refuses(
        &["tree", "-e", "fn f(x: f32) -> f32 { x }"],
        &expect![[r#"
        error: there is no function under `#[epilogue]` in the command line: write that line above one
    "#]],
    );
    refuses(
        &["tree", "-e", "fn"],
        &expect![[r#"
        error: unexpected end of input, expected identifier
         --> the command line:1:1
          |
        1 | fn
          | ^
    "#]],
    );
    refuses(
        &["tree", "-e", BIAS_RELU, "--name", "other"],
        &expect![[r#"
        error: no epilogue is named `other` in the command line; there are epilogue
    "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--arch", "sm_70"],
        &expect![[r#"
        error: no GPU of sm_70 is known: give `--gpu`, or one of sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a
    "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--types", "f16,bf16"],
        &expect![[r#"
        error: A of f16 and B of bf16 can't be multiplied on a bundle's target sm_80: give both the same type, both FP8 or both 8-bit integers, or an f16 or bf16 A and a B of 8 bits, or use the CPU device
    "#]],
    );
    refuses(
        &["run", "-e", BIAS_RELU, "--set", "beta=1"],
        &expect![[r#"
        error: `beta` is no `Scalar` of `epilogue`; those are: alpha
    "#]],
    );
    refuses(
        &["run", "-e", BIAS_RELU, "--shape", "4096,4096,4096"],
        &expect![[r#"
        error: the reference does M·N·K steps, one after the other: 68719476736 here, at most 1073741824; give a smaller `--shape`
    "#]],
    );
    refuses(
        &["run", "-e", BIAS_RELU, "--on", "sm_120"],
        &expect![[r#"
        error: an emulated sm_120 can't run kernels: use one of `Arch::EMULATED`: sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100a, sm_120a, sm_121a
    "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--arch", "sm_120"],
        &expect![[r#"
        error: sm_120 is not what RTX PRO 6000 has: kernels are compiled for exactly sm_120a, so give `--arch sm_120a`
    "#]],
    );
    refuses(
        &["bench", "-e", BIAS_RELU, "--on", "sm_80"],
        &expect![[r#"
        error: an emulated sm_80 executes instruction by instruction and has no speed: measure on cpu or cuda
    "#]],
    );
    refuses(
        &["emit", "-e", BIAS_RELU],
        &expect![[r#"
        error: say what is written: `--cuda FILE`, `--ptx FILE`, `--cubin FILE`, `--header FILE`, `--all FOLDER` or `--sass`
    "#]],
    );
    refuses(
        &["emit", "-e", BIAS_RELU, "--header", "-", "--shape", "0,1,1"],
        &expect![[r#"
        error: a kernel is exported for a product that has elements: extents of 1 and more
    "#]],
    );
}

#[test]
fn a_mistaken_command_line() {
    refuses(
        &["tree"],
        &expect![[r#"
        error: the following required arguments were not provided:
          <FILE|--expression <TEXT>>

        Usage: epilogue tree <FILE|--expression <TEXT>>

        For more information, try '--help'.
    "#]],
    );
    refuses(
        &["tree", "-e", BIAS_RELU, "--types", "f17"],
        &expect![[r#"
        error: invalid value 'f17' for '--types <TYPE[,TYPE]>': `f17` is not an element type; there are f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8, bool

        For more information, try '--help'.
    "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--shape", "1,2"],
        &expect![[r#"
        error: invalid value '1,2' for '--shape <M,N,K>': three extents are wanted: M,N,K

        For more information, try '--help'.
    "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--shape", "-1,2,3"],
        &expect![[r#"
        error: invalid value '-1,2,3' for '--shape <M,N,K>': an extent is a number from 0 to 2147482624, not `-1`

        For more information, try '--help'.
    "#]],
    );
    refuses(
        &["tree", "-e", "relu(accum)"],
        &expect![[r#"
            error: this is not an epilogue: write a closure, `|accum, bias: RowVector| { let d = relu(accum + bias); d }`, or a function, `fn layer(accum: Accum) -> Tensor { … }`; a file stands without `-e`
             --> the command line
        "#]],
    );
    refuses(
        &["choose", "-e", BIAS_RELU, "--arch", "ampere"],
        &expect![[r#"
        error: invalid value 'ampere' for '--arch <ARCH>': `ampere` names no GPU architecture: write `sm_80`, `sm_90a` and the like

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn a_text_that_is_too_deep_is_refused() {
    for (deep, word) in [
        ("(".repeat(100_000), "cannot parse"),
        ("(".repeat(2000) + "accum" + &")".repeat(2000) + "; ", "nested too deep"),
        ("-".repeat(100_000), "nested too deep"),
        ("x+".repeat(50_000), "nested too deep"),
        ("x = {-(".repeat(300) + "accum" + &")}".repeat(300) + "; ", "nested too deep"),
    ] {
        let file =
            File::new("deep", &format!("#[epilogue]\nfn f(accum: Accum) -> Tensor {{\nlet d = {deep}accum; d }}"));
        let output = run(&["tree", file.path()]);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(word) && said.len() < 1500, "{said}");
    }
    // The part with the mistake is shown of a long line.
    let long = format!("|accum| {{ let d = {}akkum + {}accum; d }}", "accum + ".repeat(400), "accum + ".repeat(400));
    let said = text(&run(&["tree", "-e", &long]).stderr);
    let lines: Vec<&str> = said.lines().collect();
    let marked = lines.iter().position(|line| line.contains('^')).expect("a mark");
    assert!(lines.iter().all(|line| line.chars().count() < 200), "{said}");
    let at = lines[marked].chars().position(|c| c == '^').expect("a mark");
    assert_eq!(lines[marked - 1].chars().skip(at).take(5).collect::<String>(), "akkum", "{said}");
    // The longest that is read.
    let file = File::new(
        "long",
        &format!("#[epilogue]\nfn f(accum: Accum) -> Tensor {{\nlet d = {}accum; d }}", "accum + ".repeat(980)),
    );
    assert_eq!(run(&["tree", file.path()]).status.code(), Some(0));
    let file = File::new(
        "minus",
        &format!("#[epilogue]\nfn f(accum: Accum) -> Tensor {{\nlet d = {}accum; d }}", "-".repeat(980)),
    );
    assert_eq!(run(&["tree", file.path()]).status.code(), Some(0));
}

#[test]
fn drawings_are_written() {
    let file = File::new(
        "drawn",
        &format!("use epilogue::prelude::*;\n#[epilogue]\nfn f{}", "(accum: Accum) -> Tensor { let d = accum; d }"),
    );
    let svg = file.0.with_file_name("tree.svg");
    let output = run(&["tree", file.path(), "--svg", svg.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(std::fs::read_to_string(svg).expect("a drawing").starts_with("<svg"));
}

#[test]
fn help_teaches() {
    let output = run(&["--help"]);
    let help = text(&output.stdout);
    for said in ["#[epilogue]", "epilogue check", "epilogue emit", "The status is 0"] {
        assert!(help.contains(said), "{help}");
    }
    for task in ["tree", "choose", "emit", "check", "run", "bench"] {
        assert_eq!(run(&[task, "--help"]).status.code(), Some(0));
    }
}

/// A text that takes twice the time with each line, or that is never read to its end, is refused or done at once.
#[test]
fn no_text_takes_long() {
    let begun = std::time::Instant::now();
    refuses(
        &["tree", "/dev/zero"],
        &expect![[r#"
        error: /dev/zero has more than 1048576 bytes, and at most that many are read
    "#]],
    );
    let layer = "#[epilogue]\nfn layer(accum: Accum) -> Tensor {\n    let d = LAST;\n    d\n}\n";
    let constants: String = (1..60).map(|i| format!("const C{i}: f32 = C{0} + C{0};\n", i - 1)).collect();
    let text = format!("const C0: f32 = 1.0;\n{constants}{}", layer.replace("LAST", "accum * C59"));
    let file = File::new("constants", &text);
    let output = run(&["tree", file.path()]);
    assert!(output.status.success() && self::text(&output.stdout).contains("576460752303423500: f32"), "{output:?}");
    let functions: String =
        (1..24).map(|i| format!("#[elementwise]\nfn g{i}(x: f32) -> f32 {{\n    g{0}(g{0}(x))\n}}\n", i - 1)).collect();
    let first = "#[elementwise]\nfn g0(x: f32) -> f32 {\n    x + 1.0\n}\n";
    let file = File::new("functions", &format!("{first}{functions}{}", layer.replace("LAST", "g23(accum)")));
    let output = run(&["tree", file.path()]);
    let said = self::text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("operations, and at most 16384 are allowed"), "{said}");
    let digits = layer.replace("LAST", &format!("accum + {}.0", "1".repeat(100_000)));
    let file = File::new("digits", &digits);
    let output = run(&["tree", file.path()]);
    let said = self::text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("this number has 100002 characters"), "{said}");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
