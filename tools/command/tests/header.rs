//! Files of `epilogue emit`: sources that compile, and a C header whose parameter and launch are the library's own.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use epilogue::evt::{BroadcastClass, ParameterClass};
use epilogue::gemm::Builder;
use epilogue::gemm::launch::{LaunchDescription, MapDescription, Memory};
use epilogue::runtime::testing;
use epilogue::{Arch, Argument, DeviceTensor, ElementType, GpuModel};
use epilogue_command::source::{Text, read};

const LAYER: &str = include_str!("../example/layer.rs");
const M: usize = 96;
const N: usize = 128;
const K: usize = 64;

fn emit(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_epilogue")).arg("emit").args(words).output().expect("the program")
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("epilogue-header-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The compiler of a language, for the test of a name; the test says so if there is none.
fn compiler(language: &str, test: &str) -> Option<&'static str> {
    let programs: &[&str] = if language == "c" { &["cc", "clang", "gcc"] } else { &["c++", "clang++", "g++"] };
    let found = programs.iter().find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        let message = format!("SKIPPED in part: test `{test}` compiles {language}, and there is no compiler of it\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
    }
    found.copied()
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The library's description of the launch that the program was asked to export.
fn described(gpu: GpuModel) -> LaunchDescription {
    let text = Text { name: "layer.rs".into(), text: LAYER.into() };
    let tree = read(&text).expect("an epilogue").swap_remove(0).tree;
    let device = epilogue::bundle::Builder::new().target(gpu);
    let made = |shape: &[usize], element| device.without_memory(element, shape).expect("a tensor");
    let (a, b) = (made(&[M, K], ElementType::F16), made(&[N, K], ElementType::F16).transpose().expect("a matrix"));
    let gemm = Builder::<()>::new(&device, tree).operands(&a, &b).expect("operands").plan().expect("a plan");
    let extents = |class| match class {
        BroadcastClass::Scalar => vec![],
        BroadcastClass::RowVector => vec![N],
        BroadcastClass::ColumnVector => vec![M],
        BroadcastClass::Tensor => vec![M, N],
    };
    let tree = gemm.tree();
    let mut inputs: Vec<Option<DeviceTensor>> = Vec::new();
    for parameter in tree.parameters() {
        let tensor = made(&extents(parameter.class.broadcast_class()), parameter.element);
        inputs.push((parameter.class != ParameterClass::Scalar).then_some(tensor));
    }
    let mut outputs: Vec<DeviceTensor> =
        tree.outputs().iter().map(|output| made(&extents(output.class), output.element)).collect();
    let arguments: Vec<Argument<'_>> = inputs
        .iter()
        .map(|input| input.as_ref().map_or(Argument::Scalar(0.0), Argument::Input))
        .chain(outputs.iter_mut().map(Argument::Output))
        .collect();
    gemm.describe_launch(&a, &b, &arguments).expect("a launch")
}

/// The addresses that `header/launch.c` gives.
fn address(of: Memory) -> u64 {
    match of {
        Memory::A => 0x1_0000_0000,
        Memory::B(_) => 0x2_0000_0000,
        Memory::Bounds => 0x5_0000_0000,
        Memory::Index => 0x6_0000_0000,
        Memory::ScalesOfA => 0x7_0000_0000,
        Memory::ScalesOfB(_) => 0x8_0000_0000,
        Memory::Places => 0x9_0000_0000,
        Memory::Argument(i) => 0x10_0000_0000 + 0x1_0000_0000 * i as u64,
        Memory::Counters => 0x3_0000_0000,
        Memory::Scratch => 0x4_0000_0000,
    }
}

/// A tensor map as the driver of `header/launch.c` encodes it: the numbers that it was given.
fn encoded(map: &MapDescription) -> [u8; 128] {
    use epilogue::runtime::Swizzle;
    let data_type = match map.element {
        ElementType::F16 => 6,
        ElementType::F32 => 7,
        other => panic!("{other}"),
    };
    let swizzle = match map.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    };
    let mut words = vec![data_type, map.extents.len() as u64, address(map.of)];
    words.extend(&map.extents);
    words.extend(&map.strides);
    words.extend(map.box_extents.iter().copied().map(u64::from));
    words.extend([swizzle, 3]);
    let mut bytes = [0; 128];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn exported_is_what_the_library_launches(arch: Arch, test: &str) {
    if testing::compiler(test).is_none() {
        return;
    }
    let folder = folder(test);
    let own = folder.join("layer.rs");
    std::fs::write(&own, LAYER).expect("a file");
    let name = arch.to_string();
    let (shape, to) = (format!("{M},{N},{K}"), folder.to_str().expect("text"));
    let source = own.to_str().expect("text");
    let output = emit(&[source, "--arch", &name, "--shape", &shape, "--b", "column", "--all", to]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in ["layer.cu", "layer.ptx", "layer.cubin", "layer.h"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    assert_eq!(&std::fs::read(folder.join("layer.cubin")).expect("machine code")[..4], b"\x7fELF");

    let launch = described(GpuModel::of_capability(arch.capability()).expect("a GPU"));
    let Some(c) = compiler("c", test) else { return };
    let program = folder.join("launch");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/header");
    let strict = ["-Wall", "-Wextra", "-Werror", "-I"];
    let own = "-DEPILOGUE_OWN_DRIVER_DECLARATIONS";
    // With the header's own declarations, and with a driver's.
    let driver = format!("-I{}", tests.join("driver_13").display());
    let [printed, with_driver] = [own, &driver].map(|declarations| {
        let mut command = Command::new(c);
        command.args(["-std=c11", declarations]).args(strict).arg(&folder).arg(tests.join("launch.c"));
        succeeds(command.arg("-o").arg(&program));
        succeeds(&mut Command::new(&program))
    });
    assert_eq!(with_driver, printed);
    let mut lines = printed.lines();
    let shape = launch.launch;
    let expected = format!(
        "{} grid {} block {} shared {} {} attributes{}",
        launch.entry,
        shape.grid[0],
        shape.block[0],
        shape.shared_bytes,
        u32::from(shape.cluster != [1; 3]),
        if shape.cluster == [1; 3] { String::new() } else { format!(" cluster {}", shape.cluster[0]) },
    );
    assert_eq!(lines.next(), Some(expected.as_str()));
    assert_eq!(lines.next(), Some(format!("{} {}", launch.counter_bytes, launch.scratch_bytes).as_str()));
    let bytes = launch.parameter(address, |_| 0.375, |map| Ok::<_, ()>(encoded(map))).expect("bytes");
    let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(lines.next(), Some(bytes.as_str()));
    // An address that is no multiple of 16 is refused.
    assert_eq!(lines.next(), Some("misaligned: 1"));

    let Some(cpp) = compiler("c++", test) else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("example/main.cpp");
    succeeds(Command::new(cpp).args(["-std=c++17", "-fsyntax-only", own]).args(strict).arg(&folder).arg(&example));
    let header = ["-std=c++11", "-fsyntax-only", &driver, "-x", "c++"];
    succeeds(Command::new(cpp).args(header).args(strict).arg(&folder).arg(folder.join("layer.h")));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_kernel_for_sm_80_is_launched_as_the_library_does() {
    exported_is_what_the_library_launches(Arch::SM_80, "a_kernel_for_sm_80_is_launched_as_the_library_does");
}

#[test]
fn a_kernel_for_sm_90a_is_launched_as_the_library_does() {
    exported_is_what_the_library_launches(Arch::SM_90A, "a_kernel_for_sm_90a_is_launched_as_the_library_does");
}

/// Two headers of one epilogue stand in one program, under two prefixes; each may be read twice.
#[test]
fn two_headers_of_one_epilogue() {
    const TEST: &str = "two_headers_of_one_epilogue";
    let Some(c) = compiler("c", TEST).filter(|_| testing::compiler(TEST).is_some()) else { return };
    let folder = folder(TEST);
    let own = folder.join("layer.rs");
    std::fs::write(&own, LAYER).expect("a file");
    let (source, to) = (own.to_str().expect("text"), folder.to_str().expect("text"));
    for (prefix, shape) in [("small", "96,128,64"), ("large", "192,128,64")] {
        let output = emit(&[source, "--shape", shape, "--b", "column", "--all", to, "--prefix", prefix]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(folder.join(format!("{prefix}.h")).is_file() && folder.join(format!("{prefix}.cubin")).is_file());
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/header");
    let strict = ["-std=c11", "-DEPILOGUE_OWN_DRIVER_DECLARATIONS", "-Wall", "-Wextra", "-Werror", "-I"];
    let program = folder.join("two");
    succeeds(Command::new(c).args(strict).arg(&folder).arg(tests.join("two.c")).arg("-o").arg(&program));
    assert_eq!(succeeds(&mut Command::new(&program)), "96 192, 0 0\n");

    // Under one prefix the compiler refuses the second: it isn't left out silently.
    let text = std::fs::read_to_string(folder.join("large.h")).expect("a header");
    std::fs::write(folder.join("other.h"), text.replace("large", "small").replace("LARGE", "SMALL")).expect("a file");
    let both = folder.join("both.c");
    std::fs::write(&both, "#include \"small.h\"\n#include \"other.h\"\n").expect("a file");
    let refused = Command::new(c).args(strict).arg(&folder).arg("-fsyntax-only").arg(&both).output();
    assert!(!refused.expect("a compiler").status.success(), "two headers of one prefix");

    let refused = emit(&[source, "--header", "-", "--prefix", "2d"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("letters, digits and underscores"), "{said}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn the_cuda_text_stands_alone() {
    let Some(compiler) = testing::compiler("the_cuda_text_stands_alone") else { return };
    let closure = "|accum, bias: RowVector| { let d = relu(accum + bias); d }";
    let output = emit(&["-e", closure, "--cuda", "-", "--types", "bf16"]);
    let code = String::from_utf8(output.stdout).expect("text");
    assert!(!code.contains("#include"), "it needs no other file");
    let (_, entry) = code.rsplit_once(", 1) ").expect("the entry's bounds");
    let entry = entry.split('(').next().unwrap_or_default().to_owned();
    let source = epilogue::Source::new("exported.cu", entry, code);
    let made = compiler.compile(&source, Arch::SM_80, epilogue::runtime::Output::Ptx).expect("PTX");
    assert!(made.ptx.contains(".entry"));
}
