//! Instructions that this family's kernels must consist of.

use epilogue::gemm::{Float16, Instruction, Sm80Key};

use crate::gate::expect;
use crate::sass::Sass;

/// Gives the number of accesses of local memory outside the loop of products.
pub(super) fn check(findings: &mut Vec<String>, key: &Sm80Key, sass: &Sass) -> usize {
    let (i, j) = (key.tile.warp_m / 16, key.tile.warp_n / 8);
    // The products of one stage: 16 rows by 8 columns each (for f64 8 rows), of k16, k8 or k4.
    let (name, per_stage) = match key.instruction {
        Instruction::MmaF16 => ("HMMA.16816.F32", i * j * key.tile.k / 16),
        Instruction::MmaBf16 | Instruction::MmaFastBf16 => ("HMMA.16816.F32.BF16", i * j * key.tile.k / 16),
        Instruction::MmaTf32 => ("HMMA.1688.F32.TF32", i * j * key.tile.k / 8),
        Instruction::MmaF64 => ("DMMA", 2 * i * j * key.tile.k / 4),
        Instruction::MmaInt8(_) => ("IMMA.16832", i * j * key.tile.k / 32),
        // With the most accumulators and operands to convert the loop has one step, of k32 (LEAN in `src/device/sm80/mainloop.cuh`).
        Instruction::MmaFp8(_) if i * j * 4 >= 128 => ("HMMA.16816.F32", 2 * i * j),
        Instruction::MmaFp8(_) => ("HMMA.16816.F32", i * j * key.tile.k / 16),
        Instruction::MmaNativeFp8(_) => ("QMMA.16832.F32", i * j * key.tile.k / 32),
        Instruction::MmaMixed(types) => {
            let name = if types.a == Float16::F16 { "HMMA.16816.F32" } else { "HMMA.16816.F32.BF16" };
            (name, if i * j * 4 >= 128 { 2 * i * j } else { i * j * key.tile.k / 16 })
        }
        Instruction::FmaF32 => ("FFMA", key.tile.warp_m * key.tile.warp_n / 32 * key.tile.k),
    };
    let count = sass.count(name);
    let whole = key.instruction == Instruction::FmaF32 && count >= per_stage;
    if count == 0 || !(whole || count.is_multiple_of(per_stage)) {
        findings.push(format!("{count} {name}; {per_stage} make a stage"));
    }
    let (size, of_b) = key.instruction.sizes();
    let copied = [(key.a, size), (key.b, of_b)].iter().any(|(operand, size)| operand.copy_bytes > *size || *size >= 4);
    expect(findings, "LDGSTS (cp.async)", sass.count("LDGSTS"), copied);
    // It also loads TF32 operands that are contiguous along K.
    if size <= 2 {
        expect(findings, "LDSM (ldmatrix)", sass.count("LDSM"), true);
    }
    let product = name.split('.').next().unwrap_or(name);
    let Some((between, kept)) = sass.local_accesses_around(product) else {
        findings.push("no loop of products".to_owned());
        return 0;
    };
    if between > 0 {
        findings.push(format!("{between} accesses of local memory between products"));
    }
    kept
}
