//! Runs random programs against the scalar interpreter, and parses malformed text.

use proptest::prelude::*;
use ptx_vm::{Arch, Argument, Launch, LaunchFailure, Machine, Module, Options};
use ptx_vm_conformance::straight_line::{Instructions, THREADS};
use ptx_vm_conformance::values::Random;
use ptx_vm_conformance::{Case, cases};
use std::sync::LazyLock;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases::all);
static INSTRUCTIONS: LazyLock<Instructions> = LazyLock::new(|| Instructions::of_cases(&CASES));

fn run(module: &str, input: &[u8]) -> Result<Vec<u8>, LaunchFailure> {
    let module = Module::parse(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let machine = Machine::new(Options::default().arch(Arch::Sm90a).workers(1));
    let (source, target) = (
        machine.allocate(input.len() as u64, "input").expect("an allocation"),
        machine.allocate(input.len() as u64, "output").expect("an allocation"),
    );
    machine.write(source, input).expect("inside the allocation");
    let launch = Launch::new([1, 1, 1], [THREADS as u32, 1, 1]);
    machine.launch(&module, "test", &launch, &[Argument::Address(source), Argument::Address(target)])?;
    let mut output = vec![0; input.len()];
    machine.read(target, &mut output).expect("inside the allocation");
    Ok(output)
}

/// The number of cases: `default`, times EPILOGUE_CASES if that is set.
fn count(default: u32) -> u32 {
    let scale = std::env::var("EPILOGUE_CASES").map_or(1.0, |scale| scale.parse::<f64>().expect("a number"));
    (f64::from(default) * scale).ceil() as u32
}

#[test]
fn many_instructions_take_part() {
    assert!(INSTRUCTIONS.count() > 700, "{}", INSTRUCTIONS.count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: count(150), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_run_as_the_scalar_interpreter_says(seed in any::<u64>(), length in 1usize..120) {
        let mut random = Random::new(seed);
        let program = INSTRUCTIONS.program(&mut random, length);
        // From a generator of its own, so that a shorter program sees the same input.
        let input = INSTRUCTIONS.input(&mut Random::new(!seed));
        let module = INSTRUCTIONS.module(&program);
        let found = run(&module, &input).map_err(|error| TestCaseError::fail(format!("{error}\n{module}")))?;
        if let Some(difference) = INSTRUCTIONS.difference(&found, &INSTRUCTIONS.interpret(&program, &input)) {
            let steps: Vec<&str> = module.lines().skip(25 + 52).filter(|line| !line.contains("rd61")).collect();
            return Err(TestCaseError::fail(format!("{difference}\n{}", steps.join("\n"))));
        }
    }

    /// Valid text with a few edits: an error or a module, never a panic.
    #[test]
    fn edited_text_never_panics(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..9, any::<char>()), 1..6),
    ) {
        let mut text = CASES[which.index(CASES.len())].module.clone();
        for (at, other, kind, letter) in edits {
            text = edit(&text, at, other, kind, letter);
        }
        let _ = Module::parse(&text);
    }

    /// Valid text with numbers at the limits of types: errors, never a panic, in parsing and in execution.
    #[test]
    fn extreme_numbers_never_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..EXTREMES.len()), 1..4),
    ) {
        let mut text = CASES[which.index(CASES.len())].module.clone();
        for (at, extreme) in edits {
            text = with_number(&text, at, EXTREMES[extreme]);
        }
        run_anything(&text);
    }

    /// Words of PTX in any order.
    #[test]
    fn token_soup_never_panics(words in prop::collection::vec(0usize..WORDS.len(), 0..200)) {
        let text: Vec<&str> = words.into_iter().map(|i| WORDS[i]).collect();
        let _ = Module::parse(&text.join(" "));
        let _ = Module::parse(&format!(".version 8.0\n.target sm_80\n.address_size 64\n{}", text.join(" ")));
        let body = text.join(" ");
        let _ = Module::parse(&format!(".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) {{ .reg .b32 %r<9>; {body} }}"));
    }

    /// Any characters at all.
    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        let _ = Module::parse(&text);
    }
}

/// Numbers at the edges of 16, 32, 40 and 64 bits, and around the sizes that the machine allows.
const EXTREMES: [&str; 16] = [
    "9223372036854775807",
    "9223372036854775800",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "-1",
    "0",
    "4294967296",
    "4294967295",
    "2147483648",
    "2147483647",
    "-2147483648",
    "1099511627775",
    "68719476736",
    "65536",
    "1048576",
];

/// The text with one of its numbers replaced.
fn with_number(text: &str, at: prop::sample::Index, number: &str) -> String {
    let bytes = text.as_bytes();
    let starts: Vec<usize> = (1..bytes.len())
        .filter(|&i| {
            bytes[i].is_ascii_digit() && !(bytes[i - 1].is_ascii_alphanumeric() || b"_%.$".contains(&bytes[i - 1]))
        })
        .collect();
    let Some(&start) = starts.get(at.index(starts.len().max(1))) else { return text.to_owned() };
    let end = (start..bytes.len()).find(|&i| !bytes[i].is_ascii_alphanumeric()).unwrap_or(bytes.len());
    format!("{}{number}{}", &text[..start], &text[end..])
}

/// Parses a text and, if it is a module, runs its kernels for a while.
fn run_anything(text: &str) {
    let Ok(module) = Module::parse(text) else { return };
    let machine = Machine::new(Options::default().arch(Arch::Sm90a).workers(1).instruction_limit(10_000));
    let buffer = machine.allocate(1 << 16, "buffer").expect("an allocation");
    for kernel in module.kernels() {
        let blocks: Vec<Vec<u8>> = kernel.parameters().iter().map(|p| vec![0; p.size]).collect();
        let arguments: Vec<Argument<'_>> = blocks
            .iter()
            .map(|bytes| if bytes.len() == 8 { Argument::Address(buffer) } else { Argument::Bytes(bytes) })
            .collect();
        for (block, cluster, shared) in [(THREADS as u32, 1, 0), (128, 2, 1024)] {
            let launch = Launch::new([2, 1, 1], [block, 1, 1]).cluster([cluster, 1, 1]).shared_bytes(shared);
            let _ = machine.launch(&module, kernel.name(), &launch, &arguments);
        }
    }
}

#[test]
fn an_offset_near_the_largest_number_is_refused() {
    let text = |load: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p, .param .u64 q) {{ .reg .b64 %rd<9>; {load} ret; }}"
        )
    };
    for offset in
        ["9223372036854775807", "9223372036854775800", "-9223372036854775808", "8", "-8", "18446744073709551608"]
    {
        assert!(Module::parse(&text(&format!("ld.param.u64 %rd1, [p+{offset}];"))).is_err(), "{offset}");
    }
    for offset in ["9223372036854775807", "-9223372036854775808", "-1"] {
        let _ = Module::parse(&text(&format!("mov.u64 %rd1, p+{offset}; ld.param.u64 %rd1, [q+{offset}];")));
    }
}

#[test]
fn a_variable_of_4_gib_takes_no_memory_before_it_is_touched() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.global .b8 large[4294967296];\n.entry k() { .reg .b32 %r<2>; ld.global.u32 %r1, [large+4294967292]; ret; }";
    let module = Module::parse(text).expect("4 GiB are the most");
    let machine = Machine::new(Options::default().workers(1));
    machine.launch(&module, "k", &Launch::new([1; 3], [32, 1, 1]), &[]).expect("a launch");
    let error = Module::parse(&text.replace("[4294967296]", "[4294967297]")).err().expect("too large");
    assert!(error.to_string().contains("at most"), "{error}");
}

#[test]
fn a_variable_that_the_host_has_no_memory_for_is_an_error() {
    let machine = Machine::new(Options::default());
    let error = machine.allocate(1 << 37, "large").expect_err("more than the limit");
    assert!(error.to_string().contains("limit"), "{error}");
    let launch = Launch::new([1; 3], [u32::MAX; 3]);
    let module = Module::parse(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }").expect("a module");
    assert!(machine.launch(&module, "k", &launch, &[]).is_err());
    let launch = Launch::new([1; 3], [32, 1, 1]).cluster([u32::MAX; 3]);
    assert!(machine.launch(&module, "k", &launch, &[]).is_err());
}

const WORDS: [&str; 60] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "+",
    "-",
    "=",
    "@",
    "@!",
    "|",
    "!",
    "_",
    "0",
    "1",
    "-1",
    "0x7fffffffffffffffff",
    "0f3F800000",
    "0d3FF0000000000000",
    "0f",
    "1e400",
    "\"x\"",
    "//",
    "/*",
    "*/",
    "\n",
    ".reg",
    ".b32",
    ".f32",
    ".pred",
    ".param",
    ".shared",
    ".align",
    "3",
    ".b8",
    "x",
    "%r1",
    "%r<",
    "%tid.x",
    "%tid.q",
    ".entry",
    ".func",
    ".visible",
    ".loc",
    ".file",
    ".target",
    ".maxntid",
    "add.s32",
    "ld.global.v4.u32",
    "bra",
    "ret",
    "setp.lt.s32",
    "call.uni",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
];

fn edit(text: &str, at: prop::sample::Index, other: prop::sample::Index, kind: u8, letter: char) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut characters: Vec<char> = text.chars().collect();
    if characters.is_empty() || lines.is_empty() {
        return letter.to_string();
    }
    let (i, j) = (at.index(characters.len()), other.index(characters.len()));
    match kind {
        0 => {
            characters.remove(i);
        }
        1 => characters.insert(i, letter),
        2 => characters[i] = letter,
        3 => characters.truncate(i),
        4 => characters.swap(i, j),
        5 => {
            characters.drain(i.min(j)..i.max(j).min(i.min(j) + 20));
        }
        // A word of the text in place of another one.
        6 => {
            let words: Vec<&str> = text.split(' ').collect();
            let mut words: Vec<&str> = words;
            let word = words[other.index(words.len())];
            let place = at.index(words.len());
            words[place] = word;
            return words.join(" ");
        }
        7 => {
            let mut lines = lines;
            let line = lines[other.index(lines.len())];
            lines.insert(at.index(lines.len()), line);
            return lines.join("\n");
        }
        _ => {
            let mut lines = lines;
            lines.remove(at.index(lines.len()));
            return lines.join("\n");
        }
    }
    characters.into_iter().collect()
}
