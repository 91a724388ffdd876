//! `mma.sync` with block scales (PTX ISA 9.7.14.3) on one warp of sm_120. Inputs alternate by seed as in `matrix.rs`: small
//! integers with scales near 1, or numbers and scales of any size.

use ptx_vm::Arch;

use super::operand::Type;
use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::oracle::matrix::c_place;
use crate::oracle::real::E4M3;
use crate::template;
use crate::values::Random;

#[derive(Clone, Copy)]
struct Product {
    kind: &'static str,
    /// Scales of a row of K.
    vector: usize,
    a: Type,
    b: Type,
    /// The name of their type.
    scales: &'static str,
    /// Byte and thread of A's scales, and of B's.
    selectors: [usize; 4],
}

impl Product {
    fn k(&self) -> usize {
        if self.is_packed() { 64 } else { 32 }
    }

    /// Whether two elements are in a byte.
    fn is_packed(&self) -> bool {
        self.kind != "mxf8f6f4"
    }

    fn opcode(&self) -> String {
        let Product { kind, vector, a, b, scales, .. } = *self;
        let (k, a, b) = (self.k(), a.name(), b.name());
        format!(
            "mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vector}X.f32.{a}.{b}.f32.{scales}"
        )
    }
}

pub(super) fn cases() -> Vec<Case> {
    let bytes = |a, b, selectors| Product { kind: "mxf8f6f4", vector: 1, a, b, scales: "ue8m0", selectors };
    let nibbles =
        |kind, vector, scales, selectors| Product { kind, vector, a: Type::E2m1, b: Type::E2m1, scales, selectors };
    let products = [
        bytes(Type::E4m3, Type::E4m3, [0, 0, 0, 0]),
        bytes(Type::E4m3, Type::E5m2, [1, 1, 2, 3]),
        bytes(Type::E5m2, Type::E4m3, [2, 0, 3, 1]),
        bytes(Type::E5m2, Type::E2m3, [3, 1, 1, 2]),
        bytes(Type::E3m2, Type::E2m1, [0, 1, 0, 3]),
        bytes(Type::E2m1, Type::E3m2, [1, 0, 1, 0]),
        nibbles("mxf4", 2, "ue8m0", [0, 0, 2, 1]),
        nibbles("mxf4nvf4", 2, "ue8m0", [2, 1, 0, 2]),
        nibbles("mxf4nvf4", 4, "ue8m0", [0, 1, 0, 3]),
        nibbles("mxf4nvf4", 4, "ue4m3", [0, 0, 0, 2]),
    ];
    products.into_iter().map(case).collect()
}

/// Each lane's row has four registers of A, two of B, four of C, and the scales of A and of B: 8 bytes each.
const REGISTERS: usize = 12;

fn case(product: Product) -> Case {
    let mut body = String::new();
    for i in 0..REGISTERS {
        body += &format!("    ld.global.u32 %r{i}, [%rd60+{}];\n", 8 * i);
    }
    for i in 0..4 {
        body += &format!("    mov.b32 %f{i}, %r{};\n", 6 + i);
    }
    let [a_byte, a_thread, b_byte, b_thread] = product.selectors;
    body += &format!(
        "    {} {{%f4, %f5, %f6, %f7}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}, {{%r10}}, \
         {{{a_byte}, {a_thread}}}, {{%r11}}, {{{b_byte}, {b_thread}}};\n",
        product.opcode()
    );
    for i in 0..4 {
        body +=
            &format!("    mov.b32 %r{}, %f{};\n    st.global.u32 [%rd61+{}], %r{};\n", 20 + i, 4 + i, 8 * i, 20 + i);
    }
    Case {
        name: product.opcode(),
        covers: vec![product.opcode()],
        target: Arch::Sm120a,
        module: template::module(Arch::Sm120a, "", "", 8 * REGISTERS, 32, &body),
        blocks: 1,
        cluster: 1,
        threads: 32,
        extra: Extra::None,
        output_bytes: 32 * 32,
        compare: Compare::Float(32),
        lane: None,
        inputs: Box::new(move |seed| inputs(product, seed)),
        oracle: Box::new(move |input| expected(product, input)),
    }
}

fn inputs(product: Product, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let small = seed.is_multiple_of(2);
    let mut bytes = Vec::new();
    for _ in 0..32 {
        for (registers, operand) in [(4, product.a), (2, product.b)] {
            for _ in 0..registers {
                let byte = |random: &mut Random| {
                    if product.is_packed() {
                        let nibble = |random: &mut Random| operand.element(random, small) >> 2 & 0xf;
                        nibble(random) | nibble(random) << 4
                    } else {
                        operand.element(random, small)
                    }
                };
                let word = (0..4).fold(0, |word, i| word | byte(&mut random) << (8 * i));
                bytes.extend(word.to_le_bytes());
            }
        }
        for _ in 0..4 {
            let x = if small { random.below(17) as f32 - 8.0 } else { random.below(20_001) as f32 / 1e4 - 1.0 };
            bytes.extend(u64::from(x.to_bits()).to_le_bytes());
        }
        for _ in 0..2 {
            let scale = |random: &mut Random| match (product.scales, small) {
                ("ue8m0", true) => 126 + random.below(3) as u64,
                ("ue8m0", false) => 107 + random.below(40) as u64,
                // 1/2, 1 and 2; the upper bit does not count.
                (_, true) => [0x30, 0x38, 0xc0][random.below(3)],
                (_, false) => random.below(0x7f) as u64 | (random.bits() & 0x80),
            };
            let word = (0..4).fold(0, |word, i| word | scale(&mut random) << (8 * i));
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// Row and k of element `i` of a lane's registers of A, by the formulas of the ISA's figures.
fn a_place(packed: bool, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread, part) = (lane >> 2, lane % 4, if packed { 8 } else { 4 });
    let register = i / part;
    let row = if register.is_multiple_of(2) { group } else { group + 8 };
    (row, thread * part + i % part + if register >= 2 { 4 * part } else { 0 })
}

fn expected(product: Product, input: &[u8]) -> Vec<u8> {
    let rows: Vec<Vec<u64>> = input.chunks_exact(8 * REGISTERS).map(words).collect();
    let (packed, k) = (product.is_packed(), product.k());
    let part = if packed { 8 } else { 4 };
    let value = |operand: Type, word: u64, i: usize| {
        let code = if packed { (word >> (4 * i) & 0xf) << 2 } else { word >> (8 * i) & 0xff };
        operand.value(code)
    };
    let mut a = vec![vec![0f64; k]; 16];
    let mut b = vec![vec![0f64; k]; 8];
    for (lane, row) in rows.iter().enumerate() {
        for i in 0..4 * part {
            let (m, depth) = a_place(packed, lane, i);
            a[m][depth] = value(product.a, row[i / part], i % part);
        }
        for i in 0..2 * part {
            let depth = lane % 4 * part + i % part + if i >= part { 4 * part } else { 0 };
            b[lane >> 2][depth] = value(product.b, row[4 + i / part], i % part);
        }
    }
    let [a_byte, a_thread, b_byte, b_thread] = product.selectors;
    let scale = |word: u64, byte: usize| {
        let code = word >> (8 * byte) & 0xff;
        if product.scales == "ue8m0" { 2f64.powi(code as i32 - 127) } else { E4M3.value(code & 0x7f) }
    };
    let length = k / product.vector;
    // The even lanes of a quad have the scales of the upper rows, the odd ones those of the lower.
    let of_row = |m: usize, at: usize| scale(rows[m % 8 * 4 + a_thread * 2 + m / 8][10], a_byte + at / length);
    let of_column = |n: usize, at: usize| scale(rows[n * 4 + b_thread][11], b_byte + at / length);
    let mut bytes = Vec::new();
    for (lane, row) in rows.iter().enumerate() {
        for i in 0..4 {
            let (m, n) = c_place(lane, i);
            let start = f64::from(f32::from_bits(row[6 + i] as u32));
            let sum = (0..k).fold(start, |sum, at| sum + a[m][at] * b[n][at] * (of_row(m, at) * of_column(n, at)));
            bytes.extend(u64::from((sum as f32).to_bits()).to_le_bytes());
        }
    }
    bytes
}
