//! `wgmma` (PTX ISA 9.7.15) on one warpgroup: two products in a row, the first without the accumulator.
//!
//! Inputs alternate by seed, like those of `mma.sync`.

use ptx_vm::Arch;

use super::operand::{Type, compare_sums, elements};
use crate::case::{Case, Extra};
use crate::oracle::matrix::chain;
use crate::oracle::real::{F16, Mode, Pair};
use crate::template;

#[derive(Clone, Copy)]
struct Product {
    n: usize,
    a: Type,
    b: Type,
    sum: &'static str,
    /// Whether A is in registers.
    registers: bool,
    /// Whether A and B are MN-major.
    transposed: [bool; 2],
    /// Factors of A and B.
    scale: [i32; 2],
    /// Number of bytes in a row of the swizzle; 16 without one.
    swizzle: usize,
}

impl Product {
    fn k(&self) -> usize {
        256 / self.a.bits()
    }

    fn opcode(&self) -> String {
        let (n, k, a, b) = (self.n, self.k(), self.a.name(), self.b.name());
        format!("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{}.{a}.{b}", self.sum)
    }

    fn d_registers(&self) -> usize {
        if self.sum == "f16" { self.n / 4 } else { self.n / 2 }
    }

    fn a_bytes(&self) -> usize {
        self.a.bits() / 8
    }

    /// Number of bytes of an operand with this many rows, over both products: 64 for each row, but at least those of
    /// the swizzle.
    fn tile_bytes(&self, transposed: bool, rows: usize) -> usize {
        let tile = self.tile(transposed, rows);
        if transposed { rows.div_ceil(tile.row_elements()) * 32 * tile.swizzle } else { rows * tile.swizzle.max(64) }
    }

    fn tile(&self, transposed: bool, rows: usize) -> Tile {
        Tile { transposed, rows, swizzle: self.swizzle, element: self.a_bytes(), k: self.k() }
    }
}

/// The layout of an operand in shared memory, before its swizzle is applied (PTX ISA 9.7.15.5.1).
#[derive(Clone, Copy)]
struct Tile {
    transposed: bool,
    rows: usize,
    /// Number of bytes in a row of the swizzle: 128, 64, 32, or 16 without one.
    swizzle: usize,
    element: usize,
    /// The `k` of one product.
    k: usize,
}

impl Tile {
    fn row_elements(&self) -> usize {
        self.swizzle / self.element
    }

    /// The place of element `(row, k)`; `k` counts over both products.
    fn offset(&self, row: usize, k: usize) -> usize {
        let Tile { swizzle, element, .. } = *self;
        if self.transposed {
            let n = self.row_elements();
            return match swizzle {
                16 => row / 8 * 512 + k / 8 * 128 + k % 8 * 16 + row % 8 * element,
                _ => row / n * 32 * swizzle + k * swizzle + row % n * element,
            };
        }
        let (step, inner) = (k / self.k, k % self.k);
        match swizzle {
            // The tiles of both products are side by side in a row.
            64 | 128 => row * swizzle + k * element,
            32 => step * self.rows * 32 + row * 32 + inner * element,
            _ => {
                let chunk = 16 / element;
                step * self.rows * 32 + row / 8 * 256 + inner / chunk * 128 + row % 8 * 16 + inner % chunk * element
            }
        }
    }

    /// Leading and stride byte offsets.
    fn strides(&self) -> (u64, u64) {
        let swizzle = self.swizzle as u64;
        match (self.transposed, self.swizzle) {
            (true, 16) => (128, 512),
            (true, _) => (32 * swizzle, 8 * swizzle),
            (false, 16) => (128, 256),
            (false, _) => (16, 8 * swizzle),
        }
    }

    /// The code of the swizzle in a descriptor.
    fn code(&self) -> u64 {
        match self.swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let plain =
        |n, a, b, sum| Product { n, a, b, sum, registers: false, transposed: [false; 2], scale: [1; 2], swizzle: 128 };
    let mut products = vec![
        plain(8, Type::F16, Type::F16, "f16"),
        plain(64, Type::F16, Type::F16, "f16"),
        plain(128, Type::F16, Type::F16, "f16"),
    ];
    for ty in [Type::F16, Type::Bf16] {
        for n in (8..=256).step_by(8) {
            products.push(plain(n, ty, ty, "f32"));
        }
        for n in [64, 128] {
            for transposed in [[true, false], [false, true], [true, true]] {
                products.push(Product { transposed, ..plain(n, ty, ty, "f32") });
            }
            products.push(Product { registers: true, ..plain(n, ty, ty, "f32") });
            products.push(Product { scale: [-1, 1], ..plain(n, ty, ty, "f32") });
        }
        products.push(Product { scale: [-1, -1], transposed: [false, true], ..plain(64, ty, ty, "f32") });
    }
    for n in (8..=256).step_by(8) {
        for ty in [Type::Tf32, Type::E4m3, Type::E5m2] {
            products.push(plain(n, ty, ty, "f32"));
        }
        // Integers have 8, 16, 24 and the multiples of 16 from 32 on (PTX ISA 9.7.15.2).
        if n <= 24 || n % 16 == 0 {
            products.push(plain(n, Type::S8, Type::S8, "s32"));
            products.push(plain(n, Type::U8, Type::U8, "s32"));
        }
    }
    for n in [8, 64, 128, 256] {
        products.push(plain(n, Type::E4m3, Type::E5m2, "f32"));
        products.push(plain(n, Type::E5m2, Type::E4m3, "f32"));
        products.push(plain(n, Type::U8, Type::S8, "s32"));
        products.push(plain(n, Type::S8, Type::U8, "s32"));
    }
    for swizzle in [64, 32, 16] {
        for transposed in [[false, false], [true, false], [false, true], [true, true]] {
            products.push(Product { swizzle, transposed, ..plain(64, Type::F16, Type::F16, "f32") });
            products.push(Product { swizzle, transposed, ..plain(192, Type::Bf16, Type::Bf16, "f32") });
        }
        products.push(Product { swizzle, ..plain(16, Type::Tf32, Type::Tf32, "f32") });
        products.push(Product { swizzle, ..plain(48, Type::E4m3, Type::E5m2, "f32") });
        products.push(Product { swizzle, ..plain(32, Type::S8, Type::S8, "s32") });
    }
    products.push(Product { registers: true, ..plain(64, Type::Tf32, Type::Tf32, "f32") });
    products.push(Product { registers: true, ..plain(64, Type::E4m3, Type::E4m3, "f32") });
    products.push(Product { registers: true, ..plain(64, Type::S8, Type::S8, "s32") });
    products.into_iter().map(case).collect()
}

/// Text that builds a descriptor in `%rd{to}`, for a tile at byte `offset` of the tiles and for one of the two
/// products.
fn descriptor(to: usize, offset: usize, tile: &Tile, step: usize) -> String {
    let (leading, stride) = tile.strides();
    let fields = (leading >> 4) << 16 | (stride >> 4) << 32 | tile.code() << 62;
    format!(
        "    add.s64 %rd{to}, %rd22, {};\n    shr.u64 %rd{to}, %rd{to}, 4;\n    and.b64 %rd{to}, %rd{to}, 16383;\n\
         \x20   or.b64 %rd{to}, %rd{to}, {};\n",
        offset + tile.offset(0, step * tile.k),
        fields.cast_signed(),
    )
}

fn case(product: Product) -> Case {
    let [a_bytes, b_bytes] =
        [(product.transposed[0], 64), (product.transposed[1], product.n)].map(|(t, rows)| product.tile_bytes(t, rows));
    let (a_tile, b_tile) = (product.tile(product.transposed[0], 64), product.tile(product.transposed[1], product.n));
    // 16-byte chunks are permuted by the number of their 128-byte row.
    let chunks = product.swizzle - 16;
    let bytes = a_bytes + b_bytes;
    let mut body = format!(
        "    .shared .align 1024 .b8 tiles[{bytes}];\n    mov.u64 %rd22, tiles;\n    shl.b32 %r1, %r391, 4;\nload:\n\
         \x20   setp.ge.u32 %p3, %r1, {bytes};\n    @%p3 bra loaded;\n    cvt.u64.u32 %rd1, %r1;\n    add.s64 %rd2, %rd58, %rd1;\n\
         \x20   ld.global.v2.u64 {{%rd3, %rd4}}, [%rd2];\n    shr.u32 %r2, %r1, 3;\n    and.b32 %r2, %r2, {chunks};\n\
         \x20   xor.b32 %r2, %r2, %r1;\n    cvt.u64.u32 %rd1, %r2;\n    add.s64 %rd2, %rd22, %rd1;\n\
         \x20   st.shared.v2.u64 [%rd2], {{%rd3, %rd4}};\n    add.u32 %r1, %r1, 2048;\n    bra load;\nloaded:\n\
         \x20   fence.proxy.async.shared::cta;\n    bar.sync 0;\n"
    );
    let (register, load) = if product.sum == "f32" { ("%f", "f32") } else { ("%r", "b32") };
    let d: Vec<String> = (0..product.d_registers()).map(|i| format!("{register}{}", 100 + i)).collect();
    // The accumulator starts as NaN or a large number, which the first product must ignore.
    for d in &d {
        body += &format!("    mov.b32 {d}, 0x7fc07fc0;\n");
    }
    body += "    setp.ne.u32 %p4, 0, 0;\n    setp.eq.u32 %p5, 0, 0;\n";
    for step in 0..2 {
        if product.registers {
            body += &fragment(&product, step);
        }
    }
    body += "    wgmma.fence.sync.aligned;\n";
    for step in 0..2 {
        body += &descriptor(10, 0, &a_tile, step);
        body += &descriptor(11, a_bytes, &b_tile, step);
        let a = if product.registers {
            format!("{{{}}}", (0..4).map(|i| format!("%r{}", 40 + 4 * step + i)).collect::<Vec<_>>().join(", "))
        } else {
            "%rd10".into()
        };
        let [sa, sb] = product.scale;
        let [ta, tb] = product.transposed.map(u8::from);
        let immediates = match (product.sum, product.a_bytes(), product.registers) {
            ("s32", ..) => String::new(),
            (_, 2, false) => format!(", {sa}, {sb}, {ta}, {tb}"),
            (_, 2, true) => format!(", {sa}, {sb}, {tb}"),
            _ => format!(", {sa}, {sb}"),
        };
        body += &format!("    {} {{{}}}, {a}, %rd11, %p{}{immediates};\n", product.opcode(), d.join(", "), 4 + step);
    }
    body += "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;\n";
    for (i, d) in d.iter().enumerate() {
        body += &format!("    st.global.{load} [%rd61+{}], {d};\n", 8 * i);
    }
    let [ta, tb] = product.transposed;
    let name = format!(
        "{}{}{}{}{}{}",
        product.opcode(),
        if product.registers { " A in registers" } else { "" },
        if ta { " A transposed" } else { "" },
        if tb { " B transposed" } else { "" },
        if product.scale == [1, 1] { String::new() } else { format!(" scale {:?}", product.scale) },
        if product.swizzle == 128 { String::new() } else { format!(" swizzle of {} bytes", product.swizzle) },
    );
    Case {
        name,
        covers: vec![
            product.opcode(),
            "wgmma.fence.sync.aligned".into(),
            "wgmma.commit_group.sync.aligned".into(),
            "wgmma.wait_group.sync.aligned".into(),
        ],
        target: Arch::Sm90a,
        module: template::module(Arch::Sm90a, "", "", 0, 8 * product.d_registers(), &body),
        blocks: 1,
        cluster: 1,
        threads: 128,
        extra: Extra::None,
        output_bytes: 128 * 8 * product.d_registers(),
        compare: compare_sums(product.sum),
        lane: None,
        inputs: Box::new(move |seed| elements([(product.a, a_bytes), (product.b, b_bytes)], seed)),
        oracle: Box::new(move |input| expected(&product, &input[..a_bytes], &input[a_bytes..])),
    }
}

/// Text that loads a thread's fragment of A from the input into `%r40` and up: rows of its group, four bytes at column
/// 4·thread of each 16-byte half.
fn fragment(product: &Product, step: usize) -> String {
    debug_assert!(!product.transposed[0]);
    let mut text = String::from(
        "    shr.u32 %r30, %r391, 5;\n    and.b32 %r31, %r391, 31;\n    shr.u32 %r32, %r31, 2;\n    and.b32 %r33, %r31, 3;\n\
         \x20   shl.b32 %r34, %r30, 4;\n    add.u32 %r34, %r34, %r32;\n    shl.b32 %r34, %r34, 7;\n    shl.b32 %r33, %r33, 2;\n\
         \x20   add.u32 %r34, %r34, %r33;\n    cvt.u64.u32 %rd15, %r34;\n    add.s64 %rd15, %rd58, %rd15;\n",
    );
    for register in 0..4 {
        let offset = 32 * step + 8 * 128 * (register % 2) + 16 * (register / 2);
        text += &format!("    ld.global.u32 %r{}, [%rd15+{offset}];\n", 40 + 4 * step + register);
    }
    text
}

fn expected(product: &Product, a: &[u8], b: &[u8]) -> Vec<u8> {
    let matrix = |bytes: &[u8], ty: Type, which: usize, rows: usize| -> Vec<Vec<f32>> {
        let tile = product.tile(product.transposed[which], rows);
        (0..rows)
            .map(|row| {
                (0..2 * product.k())
                    .map(|k| {
                        let at = tile.offset(row, k);
                        let bits = bytes[at..at + (ty.bits() / 8)].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
                        ty.value(bits) as f32 * product.scale[which] as f32
                    })
                    .collect()
            })
            .collect()
    };
    let (a, b) = (matrix(a, product.a, 0, 64), matrix(b, product.b, 1, product.n));
    let k = product.k();
    let element = |thread: usize, i: usize| -> u64 {
        let (warp, lane) = (thread / 32, thread % 32);
        let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
        let column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        let (x, y) = (&a[row], &b[column]);
        match product.sum {
            "s32" => {
                let sum: i64 = x.iter().zip(y).map(|(x, y)| *x as i64 * *y as i64).sum();
                u64::from(sum as u32)
            }
            "f16" => {
                let round = |sum: f32| F16.round(Pair::of(sum.into()), Mode::Rn);
                let first = F16.value(round(chain(&x[..k], &y[..k], 0.0))) as f32;
                round(chain(&x[k..], &y[k..], first))
            }
            _ => chain(x, y, 0.0).to_bits().into(),
        }
    };
    (0..128)
        .flat_map(|thread| (0..product.d_registers()).map(move |register| (thread, register)).collect::<Vec<_>>())
        .flat_map(|(thread, register)| {
            let word = if product.sum == "f16" {
                element(thread, 2 * register) | element(thread, 2 * register + 1) << 16
            } else {
                element(thread, register)
            };
            word.to_le_bytes()
        })
        .collect()
}
