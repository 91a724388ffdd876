//! Writes the product instruction of a tile as a C++ function.

use crate::cuda::Writer;
use crate::gemm::families::sm90::kernel::{Sm90Key, Wgmma};
use crate::gemm::problem::Major;

/// Type suffixes of the accumulators and of the instruction's first and second operand.
const fn types(key: &Sm90Key) -> (&'static str, &'static str, &'static str) {
    let accumulator = if matches!(key.instruction, Wgmma::Int8(_)) { "s32" } else { "f32" };
    let (a, b) = key.instruction.ptx();
    if key.swap_ab { (accumulator, b, a) } else { (accumulator, a, b) }
}

/// Writes `struct Multiply`, whose `run` is one `wgmma.mma_async` (PTX ISA 9.7.15.5.2): d = a · b, added to d if `accumulate`
/// is not 0. Converted operands are in registers, the others in shared memory.
pub(super) fn multiply(code: &mut Writer, key: &Sm90Key) {
    let (accumulator, first, second) = types(key);
    let columns = key.tile.columns;
    let registers = columns / 2;
    let k = key.instruction.tile_k() / 4; // 32 bytes
    let in_registers = key.instruction.converts_b();
    let c_type = if accumulator == "f32" { "float" } else { "int" };
    let constraint = if accumulator == "f32" { "f" } else { "r" };
    let (a_major, b_major) = key.mma_majors();
    let transposed = |major| u8::from(major == Major::Mn);
    // Floating-point products can be negated, and 16-bit operands transposed.
    let immediates = match (accumulator, key.mma_sizes().1) {
        ("f32", 2) if in_registers => format!(", 1, 1, {}", transposed(b_major)),
        ("f32", 2) => format!(", 1, 1, {}, {}", transposed(a_major), transposed(b_major)),
        ("f32", _) => ", 1, 1".to_owned(),
        _ => String::new(),
    };
    let (a_type, a_operands) = if in_registers { ("const u32 (&a)[4]", 4) } else { ("u64 a", 1) };
    let (b, last) = (registers + a_operands, registers + a_operands + 1);
    let name = format!("wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{accumulator}.{first}.{second}");
    writeln! { code, "
        // {name}: d = a · b, added to d where `accumulate` is not 0.
        struct Multiply {{
            static __device__ __forceinline__ void run({c_type} (&d)[{registers}], {a_type}, u64 b, int accumulate) {{
                asm volatile(
                    \"{{\\n.reg .pred accumulate;\\nsetp.ne.b32 accumulate, %{last}, 0;\\n\"
                    \"{name} \"" }
    list(
        code,
        registers,
        |i| format!("%{i}"),
        |line, first, last| format!("\"{}{line}{} \"", if first { "{" } else { "" }, if last { "}," } else { "," }),
    );
    let a: Vec<String> = (registers..b).map(|i| format!("%{i}")).collect();
    let a = if in_registers { format!("{{{}}}", a.join(", ")) } else { a.concat() };
    writeln!(code, "    \"{a}, %{b}, accumulate{immediates};\\n}}\\n\"");
    list(
        code,
        registers,
        |i| format!("\"+{constraint}\"(d[{i}])"),
        |line, first, last| format!("{}{line}{}", if first { ": " } else { "  " }, if last { "" } else { "," }),
    );
    let a = if in_registers { "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" } else { "\"l\"(a)" };
    writeln!(code, "    : {a}, \"l\"(b), \"r\"(accumulate));\n}}\n}};");
}

/// Writes `count` items, eight per line. `line` gets the joined items, and whether they are the first and the last.
fn list(code: &mut Writer, count: usize, item: impl Fn(usize) -> String, line: impl Fn(&str, bool, bool) -> String) {
    for first in (0..count).step_by(8) {
        let end = (first + 8).min(count);
        let items: Vec<String> = (first..end).map(&item).collect();
        writeln!(code, "    {}", line(&items.join(", "), first == 0, end == count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::sm90::{Cluster, Hints, Raster, Staging, TensorCores, Tile};
    use crate::gemm::{Byte, Float16, Formats, Fp8, Int8, MixedInput, Pair, ReadingShape, SplitKind};

    fn key(instruction: Wgmma, columns: usize, a: Major, b: Major) -> Sm90Key {
        let found = Tile::all().iter().find(|tile| tile.columns == columns);
        Sm90Key {
            cores: TensorCores::Wgmma,
            instruction,
            tile: *found.expect("a tile of this many columns"),
            swap_ab: instruction.converts_b(),
            accumulators: 1,
            stages: 4,
            cluster: Cluster::NONE,
            raster: Raster { group: 8, along_n: false },
            split_k: SplitKind::None,
            a,
            b,
            staging: Staging { step: 8, output_stages: 2, input_stages: 2 },
            direct: 0,
            hints: Hints::default(),
            promoted: false,
            pending: 1,
            dependent_launch: false,
            reading: ReadingShape::Rows,
            formats: Formats::PLAIN,
            in_tile: false,
            fast_math: false,
        }
    }

    const S8: Wgmma = Wgmma::Int8(Pair { a: Int8::S8, b: Int8::S8 });
    const E4M3: Wgmma = Wgmma::Fp8(Pair { a: Fp8::E4M3, b: Fp8::E4M3 });
    const WEIGHTS: Wgmma = Wgmma::Mixed(MixedInput { a: Float16::Bf16, b: Byte::Int(Int8::S8) });

    /// The instruction refers to the registers of its operand list, and to the operands after them.
    #[test]
    fn registers_and_immediates_are_the_instructions() {
        for (instruction, columns, a, b, expected) in [
            (Wgmma::Bf16, 8, Major::K, Major::K, "m64n8k16.f32.bf16.bf16 | %4, %5, accumulate, 1, 1, 0, 0;"),
            (Wgmma::F16, 256, Major::Mn, Major::K, "m64n256k16.f32.f16.f16 | %128, %129, accumulate, 1, 1, 1, 0;"),
            (Wgmma::F16, 24, Major::K, Major::Mn, "m64n24k16.f32.f16.f16 | %12, %13, accumulate, 1, 1, 0, 1;"),
            (Wgmma::Tf32, 64, Major::K, Major::K, "m64n64k8.f32.tf32.tf32 | %32, %33, accumulate, 1, 1;"),
            (E4M3, 128, Major::K, Major::K, "m64n128k32.f32.e4m3.e4m3 | %64, %65, accumulate, 1, 1;"),
            (
                WEIGHTS,
                16,
                Major::K,
                Major::K,
                "m64n16k16.f32.bf16.bf16 | {%8, %9, %10, %11}, %12, accumulate, 1, 1, 0;",
            ),
            (
                WEIGHTS,
                64,
                Major::Mn,
                Major::K,
                "m64n64k16.f32.bf16.bf16 | {%32, %33, %34, %35}, %36, accumulate, 1, 1, 1;",
            ),
            (S8, 96, Major::K, Major::K, "m64n96k32.s32.s8.s8 | %48, %49, accumulate;"),
        ] {
            let mut code = Writer::new();
            multiply(&mut code, &key(instruction, columns, a, b));
            let text = code.text();
            let (name, operands) = expected.split_once(" | ").expect("two parts");
            assert!(text.contains(&format!("wgmma.mma_async.sync.aligned.{name} \"")), "{text}");
            assert!(text.contains(&format!("\"{operands}\\n}}\\n\"")), "{text}");
            let constraint = if instruction == S8 { "\"+r\"(d[" } else { "\"+f\"(d[" };
            assert_eq!(text.matches(constraint).count(), columns / 2, "{text}");
            let list = text.split_once("{%0").and_then(|(_, rest)| rest.split_once('}')).map(|(list, _)| list);
            assert_eq!(list.expect("a list of registers").matches('%').count() + 1, columns / 2, "{text}");
        }
    }
}
