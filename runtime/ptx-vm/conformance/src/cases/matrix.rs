//! `mma.sync`, `ldmatrix` (PTX ISA 9.7.14.5) on one warp. `stmatrix` and `movmatrix` are with the sm_90 cases.
//!
//! Two kinds of inputs alternate by seed. Small integers have products that are exact in any order, and their places
//! show every layout error; a GPU must give the same bits. Numbers of any size test the order of the sums; they are
//! compared with the chain of the fast arithmetic, from which a GPU differs in the last places.

use ptx_vm::Arch;

use super::operand::Type;
use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::oracle::matrix::{a_place, b_place, c_place, chain};
use crate::oracle::real::{F16, Mode, Pair};
use crate::template;
use crate::values::Random;

/// The accumulator types.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    F16,
    F32,
    S32,
    F64,
}

impl Sum {
    fn name(self) -> &'static str {
        match self {
            Sum::F16 => "f16",
            Sum::F32 => "f32",
            Sum::S32 => "s32",
            Sum::F64 => "f64",
        }
    }
}

#[derive(Clone, Copy)]
struct Product {
    shape: &'static str,
    m: usize,
    k: usize,
    a: Type,
    b: Type,
    sum: Sum,
    saturate: bool,
    /// `.kind::f8f6f4`.
    mixed: bool,
    target: Arch,
}

impl Product {
    fn key(&self) -> String {
        format!("{}.{}", self.shape, self.a.bits())
    }

    fn opcode(&self) -> String {
        let Product { shape, a, b, sum, saturate, .. } = *self;
        let (a, b, s) = (a.name(), b.name(), sum.name());
        let satfinite = if saturate { ".satfinite" } else { "" };
        let kind = if self.mixed { ".kind::f8f6f4" } else { "" };
        format!("mma.sync.aligned.{shape}.row.col{kind}{satfinite}.{s}.{a}.{b}.{s}")
    }

    /// Elements of a lane's fragments of A, B and C.
    fn counts(&self) -> [usize; 3] {
        [self.m * self.k / 32, 8 * self.k / 32, self.m * 8 / 32]
    }

    fn registers(&self) -> [usize; 3] {
        let [a, b, c] = self.counts();
        let per = |bits: usize| if bits == 64 { 1 } else { 32 / bits };
        let half = if self.sum == Sum::F16 { 2 } else { 1 };
        [a / per(self.a.bits()), b / per(self.b.bits()), c / half]
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut products = Vec::new();
    let mut push = |shape, m, k, a: Type, b, sum, saturate| {
        let late = matches!(a, Type::E4m3 | Type::E5m2) || (a == Type::F64 && m == 16);
        let target = if late { Arch::Sm90a } else { Arch::Sm80 };
        products.push(Product { shape, m, k, a, b, sum, saturate, mixed: false, target });
    };
    for (shape, k) in [("m16n8k8", 8), ("m16n8k16", 16)] {
        push(shape, 16, k, Type::F16, Type::F16, Sum::F32, false);
        push(shape, 16, k, Type::F16, Type::F16, Sum::F16, false);
        push(shape, 16, k, Type::Bf16, Type::Bf16, Sum::F32, false);
    }
    push("m16n8k4", 16, 4, Type::Tf32, Type::Tf32, Sum::F32, false);
    push("m16n8k8", 16, 8, Type::Tf32, Type::Tf32, Sum::F32, false);
    push("m8n8k4", 8, 4, Type::F64, Type::F64, Sum::F64, false);
    for (a, b) in [(Type::S8, Type::S8), (Type::U8, Type::U8), (Type::S8, Type::U8), (Type::U8, Type::S8)] {
        for saturate in [false, true] {
            push("m8n8k16", 8, 16, a, b, Sum::S32, saturate);
            push("m16n8k16", 16, 16, a, b, Sum::S32, saturate);
            push("m16n8k32", 16, 32, a, b, Sum::S32, saturate);
        }
    }
    for (shape, k) in [("m16n8k4", 4), ("m16n8k8", 8), ("m16n8k16", 16)] {
        push(shape, 16, k, Type::F64, Type::F64, Sum::F64, false);
    }
    for a in [Type::E4m3, Type::E5m2] {
        for b in [Type::E4m3, Type::E5m2] {
            push("m16n8k32", 16, 32, a, b, Sum::F32, false);
        }
    }
    products.extend(of_later_machines());
    let mut cases: Vec<Case> = products.into_iter().map(product).collect();
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            cases.push(load_matrix(count, transposed));
        }
    }
    cases
}

/// FP8 with the accumulators and depths that sm_89 has too, and floats of 8, 6 and 4 bits, mixed on sm_120.
fn of_later_machines() -> Vec<Product> {
    const FP8: [Type; 2] = [Type::E4m3, Type::E5m2];
    const ALL: [Type; 5] = [Type::E4m3, Type::E5m2, Type::E3m2, Type::E2m3, Type::E2m1];
    let of =
        |shape, k, a, b, sum, mixed, target| Product { shape, m: 16, k, a, b, sum, saturate: false, mixed, target };
    let pairs = |types: &'static [Type]| types.iter().flat_map(move |a| types.iter().map(move |b| (*a, *b)));
    let mut products = Vec::new();
    for (a, b) in pairs(&FP8) {
        products.push(of("m16n8k32", 32, a, b, Sum::F16, false, Arch::Sm89));
        products.push(of("m16n8k16", 16, a, b, Sum::F32, false, Arch::Sm89));
        products.push(of("m16n8k16", 16, a, b, Sum::F16, false, Arch::Sm89));
    }
    for (a, b) in pairs(&ALL) {
        products.push(of("m16n8k32", 32, a, b, Sum::F32, true, Arch::Sm120a));
    }
    for (i, a) in ALL.into_iter().enumerate() {
        products.push(of("m16n8k32", 32, a, ALL[(i + 2) % ALL.len()], Sum::F16, true, Arch::Sm120a));
    }
    products
}

/// Each lane's row has its registers of A, B and C, 8 bytes each.
fn product(product: Product) -> Case {
    let [a_registers, b_registers, c_registers] = product.registers();
    let row = 8 * (a_registers + b_registers + c_registers);
    let wide = product.a == Type::F64;
    let (prefix, load, store) = if wide { ("%fd", "f64", "f64") } else { ("%r", "u32", "u32") };
    let mut body = String::new();
    let mut index = 0;
    let mut list = |count: usize, body: &mut String| {
        let names: Vec<String> = (index..index + count).map(|i| format!("{prefix}{i}")).collect();
        for i in index..index + count {
            *body += &format!("    ld.global.{load} {prefix}{i}, [%rd60+{}];\n", 8 * i);
        }
        index += count;
        format!("{{{}}}", names.join(", "))
    };
    let (a, b, c) = (list(a_registers, &mut body), list(b_registers, &mut body), list(c_registers, &mut body));
    let d: Vec<String> = (0..c_registers).map(|i| format!("{prefix}{}", 40 + i)).collect();
    // f32 accumulators are in .f32 registers, so the bits are moved there and back.
    let single = product.sum == Sum::F32;
    let (c, d_list) = if single {
        for i in 0..c_registers {
            body += &format!("    mov.b32 %f{}, %r{};\n", 10 + i, a_registers + b_registers + i);
        }
        let names = |from: usize| (0..c_registers).map(|i| format!("%f{}", from + i)).collect::<Vec<_>>().join(", ");
        (format!("{{{}}}", names(10)), format!("{{{}}}", names(20)))
    } else {
        (c, format!("{{{}}}", d.join(", ")))
    };
    body += &format!("    {} {d_list}, {a}, {b}, {c};\n", product.opcode());
    for (i, d) in d.iter().enumerate() {
        if single {
            body += &format!("    mov.b32 {d}, %f{};\n", 20 + i);
        }
        body += &format!("    st.global.{store} [%rd61+{}], {d};\n", 8 * i);
    }
    let compare = match product.sum {
        Sum::F16 => Compare::HalfPair,
        Sum::F32 => Compare::Float(32),
        Sum::S32 => Compare::Exact,
        Sum::F64 => Compare::Float(64),
    };
    Case {
        name: product.opcode(),
        covers: vec![product.opcode()],
        target: product.target,
        module: template::module(product.target, "", "", row, 8 * c_registers, &body),
        blocks: 1,
        cluster: 1,
        threads: 32,
        extra: Extra::None,
        output_bytes: 32 * 8 * c_registers,
        compare,
        lane: None,
        inputs: Box::new(move |seed| fragments(&product, seed)),
        oracle: Box::new(move |input| expected(&product, input)),
    }
}

fn fragments(product: &Product, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let small = seed.is_multiple_of(2);
    let [a_registers, b_registers, c_registers] = product.registers();
    let mut bytes = Vec::new();
    for _ in 0..32 {
        for (registers, operand) in [(a_registers, product.a), (b_registers, product.b)] {
            for _ in 0..registers {
                let width = operand.bits();
                let word =
                    (0..(32 / width).max(1)).fold(0, |w, p| w | operand.element(&mut random, small) << (width * p));
                bytes.extend(word.to_le_bytes());
            }
        }
        for _ in 0..c_registers {
            let integer = (random.bits() % 17) as i64 - 8;
            let x = if small { integer as f64 } else { (random.bits() % 20_001) as f64 / 1e4 - 1.0 };
            let word = match product.sum {
                Sum::F16 => F16.round(Pair::of(x), Mode::Rn) * 0x1_0001,
                Sum::F32 => (x as f32).to_bits().into(),
                Sum::S32 if small => u64::from(integer as i32 as u32),
                // Values near the ends of the range, so that sums wrap or saturate.
                Sum::S32 => u64::from((integer as i32).wrapping_add(i32::MAX) as u32),
                Sum::F64 => x.to_bits(),
            };
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

fn expected(product: &Product, input: &[u8]) -> Vec<u8> {
    let [a_registers, b_registers, c_registers] = product.registers();
    let [a_count, b_count, _] = product.counts();
    let rows: Vec<Vec<u64>> = input.chunks_exact(8 * (a_registers + b_registers + c_registers)).map(words).collect();
    let key = product.key();
    let part =
        |word: u64, bits: usize, i: usize| if bits == 64 { word } else { word >> (bits * i) & ((1 << bits) - 1) };
    let mut a = vec![vec![0f64; product.k]; product.m];
    let mut b = vec![vec![0f64; product.k]; 8];
    for (lane, row) in rows.iter().enumerate() {
        for i in 0..a_count {
            let bits = product.a.bits();
            let per = if bits == 64 { 1 } else { 32 / bits };
            let (r, c) = a_place(&key, lane, i);
            a[r][c] = product.a.value(part(row[i / per], bits, i % per));
        }
        for i in 0..b_count {
            let bits = product.b.bits();
            let per = if bits == 64 { 1 } else { 32 / bits };
            let (r, c) = b_place(&key, lane, i);
            b[c][r] = product.b.value(part(row[a_registers + i / per], bits, i % per));
        }
    }
    let singles =
        |m: &[Vec<f64>]| -> Vec<Vec<f32>> { m.iter().map(|r| r.iter().map(|x| *x as f32).collect()).collect() };
    let (a32, b32) = (singles(&a), singles(&b));
    let mut bytes = Vec::new();
    for (lane, row) in rows.iter().enumerate() {
        let c = &row[a_registers + b_registers..];
        for (register, start) in c.iter().enumerate().take(c_registers) {
            let one = |i: usize, bits: u64| -> u64 {
                let (r, n) = c_place(lane, i);
                match product.sum {
                    Sum::F16 => {
                        let sum = chain(&a32[r], &b32[n], F16.value(bits) as f32);
                        F16.round(Pair::of(sum.into()), Mode::Rn)
                    }
                    Sum::F32 => chain(&a32[r], &b32[n], f32::from_bits(bits as u32)).to_bits().into(),
                    Sum::S32 => {
                        let dot: i64 = a[r].iter().zip(&b[n]).map(|(x, y)| *x as i64 * *y as i64).sum();
                        let sum = i64::from(bits as i32) + dot;
                        let kept = if product.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                        u64::from(kept as u32)
                    }
                    Sum::F64 => {
                        let chain = a[r].iter().zip(&b[n]).fold(f64::from_bits(bits), |s, (x, y)| x.mul_add(*y, s));
                        chain.to_bits()
                    }
                }
            };
            let word = if product.sum == Sum::F16 {
                one(2 * register, start & 0xffff) | one(2 * register + 1, start >> 16 & 0xffff) << 16
            } else {
                one(register, *start)
            };
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// `ldmatrix`: 16 bytes of each lane's input are written to a row of shared memory, in an order that the addresses
/// undo.
fn load_matrix(count: usize, transposed: bool) -> Case {
    let opcode = format!("ldmatrix.sync.aligned.m8n8.x{count}{}.shared.b16", if transposed { ".trans" } else { "" });
    let registers: Vec<String> = (0..count).map(|i| format!("%r{}", 10 + i)).collect();
    let mut body = String::from(
        "    mov.u32 %r1, tile;\n    xor.b32 %r2, %r391, 5;\n    shl.b32 %r2, %r2, 4;\n    add.s32 %r3, %r1, %r2;\n\
         \x20   ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd60];\n    st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};\n\
         \x20   bar.sync 0;\n",
    );
    body += &format!("    {opcode} {{{}}}, [%r3];\n", registers.join(", "));
    for (i, register) in registers.iter().enumerate() {
        body += &format!("    st.global.u32 [%rd61+{}], {register};\n", 8 * i);
    }
    let body = format!("    .shared .align 16 .b8 tile[512];\n{body}");
    Case {
        name: opcode.clone(),
        covers: vec![opcode, "ld.global.v4.u32".into(), "st.shared.v4.u32".into(), "bar.sync".into()],
        target: Arch::Sm80,
        module: template::module(Arch::Sm80, "", "", 16, 8 * count, &body),
        blocks: 1,
        cluster: 1,
        threads: 32,
        extra: Extra::None,
        output_bytes: 32 * 8 * count,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(|seed| {
            let mut random = Random::new(seed);
            // Halves that encode their row and column, in a random order.
            let flip = random.bits() as u16;
            (0..256u16).flat_map(|i| (i ^ flip).to_le_bytes()).collect()
        }),
        oracle: Box::new(move |input| {
            let half = |row: usize, column: usize| {
                u64::from(input[16 * row + 2 * column]) | u64::from(input[16 * row + 2 * column + 1]) << 8
            };
            let mut bytes = Vec::new();
            for lane in 0..32 {
                for tile in 0..count {
                    let (r, c) = (lane / 4, 2 * (lane % 4));
                    // Lane 8·tile + row gives the address of its own input.
                    let word = if transposed {
                        half(8 * tile + c, r) | half(8 * tile + c + 1, r) << 16
                    } else {
                        half(8 * tile + r, c) | half(8 * tile + r, c + 1) << 16
                    };
                    bytes.extend(word.to_le_bytes());
                }
            }
            bytes
        }),
    }
}
