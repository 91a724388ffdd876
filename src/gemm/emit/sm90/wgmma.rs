//! The product instruction of a tile as a C++ function.

use std::fmt::Write as _;

use super::super::super::problem::Major;
use super::super::super::sm90::{Sm90Key, Wgmma};

/// Type suffixes: of the accumulators, and of A and B.
const fn types(instruction: Wgmma) -> (&'static str, &'static str) {
    match instruction {
        Wgmma::F16 => ("f32", "f16"),
        Wgmma::Bf16 => ("f32", "bf16"),
        Wgmma::Tf32 => ("f32", "tf32"),
        Wgmma::E4M3 => ("f32", "e4m3"),
        Wgmma::E5M2 => ("f32", "e5m2"),
        Wgmma::S8 => ("s32", "s8"),
        Wgmma::U8 => ("s32", "u8"),
    }
}

/// `struct Multiply`, whose `run` is one `wgmma.mma_async` (PTX ISA 9.7.15.5.2): d = a · b, added to d where
/// `accumulate` is not 0.
pub(super) fn multiply(key: &Sm90Key) -> String {
    let (accumulator, operand) = types(key.instruction);
    let columns = key.tile.columns;
    let registers = columns / 2;
    let k = key.instruction.tile_k() / 4; // 32 bytes
    let c_type = if accumulator == "f32" { "float" } else { "int" };
    let constraint = if accumulator == "f32" { "f" } else { "r" };
    let (a_major, b_major) = key.mma_majors();
    let transposed = |major| u8::from(major == Major::Mn);
    // Floating-point products can be negated; 16-bit ones transposed.
    let immediates = match (accumulator, key.instruction.takes_mn_major()) {
        ("f32", true) => format!(", 1, 1, {}, {}", transposed(a_major), transposed(b_major)),
        ("f32", false) => ", 1, 1".to_owned(),
        _ => String::new(),
    };
    let name = format!("wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{accumulator}.{operand}.{operand}");
    let mut text = format!(
        "// {name}: d = a · b, added to d where `accumulate` is not 0.\nstruct Multiply {{\n    static __device__ \
         __forceinline__ void run({c_type} (&d)[{registers}], u64 a, u64 b, int accumulate) {{\n        asm volatile(\n            \
         \"{{\\n.reg .pred accumulate;\\nsetp.ne.b32 accumulate, %{}, 0;\\n\"\n            \"{name} \"\n",
        registers + 2
    );
    list(
        &mut text,
        registers,
        |i| format!("%{i}"),
        |line, first, last| format!("\"{}{line}{} \"", if first { "{" } else { "" }, if last { "}," } else { "," }),
    );
    let _ = writeln!(text, "            \"%{registers}, %{}, accumulate{immediates};\\n}}\\n\"", registers + 1);
    list(
        &mut text,
        registers,
        |i| format!("\"+{constraint}\"(d[{i}])"),
        |line, first, last| format!("{}{line}{}", if first { ": " } else { "  " }, if last { "" } else { "," }),
    );
    text.push_str("            : \"l\"(a), \"l\"(b), \"r\"(accumulate));\n    }\n};\n");
    text
}

/// Writes `count` items, eight to a line; `line` is given the joined items and whether they are the first, the last.
fn list(text: &mut String, count: usize, item: impl Fn(usize) -> String, line: impl Fn(&str, bool, bool) -> String) {
    for first in (0..count).step_by(8) {
        let end = (first + 8).min(count);
        let items: Vec<String> = (first..end).map(&item).collect();
        let _ = writeln!(text, "            {}", line(&items.join(", "), first == 0, end == count));
    }
}
