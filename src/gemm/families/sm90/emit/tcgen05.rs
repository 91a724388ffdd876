//! Writes the product instruction of a tile for tensor memory, and the loads of its sums.

use crate::cuda::Writer;
use crate::gemm::families::sm90::kernel::{Sm90Key, Wgmma};
use crate::gemm::problem::{Fp8, Int8, Major};

/// Writes the traits that configure the headers of `src/device/sm100/`, behind `Config`.
pub(super) fn specialisations(code: &mut Writer, key: &Sm90Key) {
    writeln! { code, "
        template <>
        struct sm90::HasTensorMemory<Config> {{
            static constexpr bool VALUE = true;
        }};
        template <>
        struct sm90::Products<Config> : sm90::TensorProducts<Config> {{}};" }
    if key.cores.rows_are_apart(&key.tile) {
        writeln! { code, "
            template <>
            struct sm90::BlockRows<Config> : sm90::TensorRows<Config> {{}};" }
    }
}

/// The instruction's kind, and the codes of D's, A's and B's types in its descriptor (PTX ISA 9.7.16.4).
fn kind(key: &Sm90Key) -> (&'static str, u32, (u32, u32)) {
    let of_fp8 = |element| match element {
        Fp8::E4M3 => 0,
        Fp8::E5M2 => 1,
    };
    let of_int8 = |element| match element {
        Int8::U8 => 0,
        Int8::S8 => 1,
    };
    match key.instruction {
        Wgmma::F16 => ("f16", 1, (0, 0)),
        Wgmma::Bf16 | Wgmma::Mixed(_) => ("f16", 1, (1, 1)),
        Wgmma::Tf32 => ("tf32", 1, (2, 2)),
        Wgmma::Fp8(pair) => ("f8f6f4", 1, (of_fp8(pair.a), of_fp8(pair.b))),
        Wgmma::Int8(pair) => ("i8", 2, (of_int8(pair.a), of_int8(pair.b))),
    }
}

/// The instruction's descriptor: types, which operands are MN-major, and extents.
fn descriptor(key: &Sm90Key) -> u32 {
    let (_, sum, (a, b)) = kind(key);
    let (first, second) = if key.swap_ab { (b, a) } else { (a, b) };
    let (first_major, second_major) = key.mma_majors();
    let transposed = |major| u32::from(major == Major::Mn);
    let (rows, columns) = (key.cores.rows(&key.tile) as u32, key.tile.columns as u32);
    sum << 4
        | first << 7
        | second << 10
        | transposed(first_major) << 15
        | transposed(second_major) << 16
        | columns >> 3 << 17
        | rows >> 4 << 24
}

/// Writes `struct Multiply`: `run` is one `tcgen05.mma` (PTX ISA 9.7.16.10), `load` brings a warp's 16 rows of sums to registers.
pub(super) fn multiply(code: &mut Writer, key: &Sm90Key) {
    let (kind, ..) = kind(key);
    let (columns, rows, descriptor) = (key.tile.columns, key.cores.rows(&key.tile), descriptor(key));
    let is_integer = matches!(key.instruction, Wgmma::Int8(_));
    let (c_type, constraint) = if is_integer { ("int", "r") } else { ("float", "f") };
    let name = format!("tcgen05.mma.cta_group::1.kind::{kind}");
    writeln! { code, "
        // {name}, {rows} x {columns}: d = a · b, added to d where `accumulate` is not 0.
        struct Multiply {{
            static __device__ __forceinline__ void run(u32 d, u64 a, u64 b, int accumulate) {{
                asm volatile(
                    \"{{\\n.reg .pred accumulate;\\nsetp.ne.b32 accumulate, %4, 0;\\n\"
                    \"{name} [%0], %1, %2, %3, accumulate;\\n}}\\n\" ::\"r\"(d),
                    \"l\"(a), \"l\"(b), \"r\"({descriptor:#x}u), \"r\"(accumulate)
                    : \"memory\");
            }}

            static __device__ __forceinline__ void load({c_type} (&d)[{}], u32 from) {{", columns / 2 }
    // An instruction loads 8 columns, or 2, 4, 8 or 16 times as many: four registers for each 8.
    let mut first = 0;
    while first < columns {
        let left = (columns - first) / 8;
        let times = 1 << left.ilog2().min(4);
        let registers = 4 * times;
        let list: Vec<String> = (0..registers).map(|i| format!("%{i}")).collect();
        let outputs: Vec<String> = (0..registers).map(|i| format!("\"={constraint}\"(d[{}])", first / 2 + i)).collect();
        writeln!(code, "asm volatile(\"tcgen05.ld.sync.aligned.16x256b.x{times}.b32 \"");
        for (i, line) in list.chunks(16).enumerate() {
            let (open, last) = (if i == 0 { "{" } else { "" }, 16 * (i + 1) >= registers);
            writeln!(code, "    \"{open}{}{} \"", line.join(", "), if last { "}," } else { "," });
        }
        writeln!(code, "    \"[%{registers}];\\n\"");
        for (i, line) in outputs.chunks(4).enumerate() {
            let last = 4 * (i + 1) >= registers;
            writeln!(
                code,
                "    {}{}{}",
                if i == 0 { ": " } else { "  " },
                line.join(", "),
                if last { "" } else { "," }
            );
        }
        writeln!(code, "    : \"r\"(from + {first}));");
        first += 8 * times;
    }
    writeln!(code, "}}\n}};");
}
