//! `tcgen05.mma` of one block (PTX ISA 9.7.16.10): two products in a row, the first without the accumulator. Thread 0
//! issues them, and four warps load the sums.
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
    m: usize,
    n: usize,
    a: Type,
    b: Type,
    sum: &'static str,
    /// Whether A is in tensor memory.
    tensor: bool,
    /// Whether 64 rows are in the upper half of each quarter of the lanes.
    upper: bool,
    /// Whether A and B are MN-major.
    transposed: [bool; 2],
    /// Whether A and B are negated.
    negated: [bool; 2],
    /// Number of bytes in a row of the swizzle; 16 without one.
    swizzle: usize,
}

/// The layout of an operand in shared memory, before its swizzle is applied (PTX ISA 9.7.16.3.3).
#[derive(Clone, Copy)]
struct Tile {
    transposed: bool,
    rows: usize,
    swizzle: usize,
    element: usize,
    /// The `k` of one product.
    k: usize,
}

impl Tile {
    /// The place of element `(row, k)`; `k` counts over both products.
    fn offset(&self, row: usize, k: usize) -> usize {
        let Tile { transposed, rows, swizzle, element, k: one } = *self;
        let width = swizzle / element;
        let (step, inner) = (k / one, k % one);
        match (transposed, swizzle) {
            (true, 16) => row / width * (2 * one * 16) + k / 8 * 128 + k % 8 * 16 + row % width * element,
            (true, _) => row / width * (2 * one * swizzle) + k * swizzle + row % width * element,
            // The tiles of both products are side by side in a row.
            (false, 64 | 128) => row * swizzle + k * element,
            (false, 32) => step * rows * 32 + row * 32 + inner * element,
            (false, _) => {
                step * rows * 32 + row / 8 * 256 + inner / width * 128 + row % 8 * 16 + inner % width * element
            }
        }
    }

    fn bytes(&self) -> usize {
        let width = self.swizzle / self.element;
        if self.transposed {
            self.rows.div_ceil(width) * 2 * self.k * self.swizzle
        } else {
            self.rows * self.swizzle.max(64)
        }
    }

    /// A descriptor's fields without the address (PTX ISA 9.7.16.4.1).
    fn fields(&self) -> u64 {
        let (swizzle, k) = (self.swizzle as u64, self.k as u64);
        let (leading, stride) = match (self.transposed, self.swizzle) {
            (true, 16) => (128, 2 * k * 16),
            (true, _) => (2 * k * swizzle, 8 * swizzle),
            (false, 16) => (128, 256),
            (false, _) => (0, 8 * swizzle),
        };
        let code = match self.swizzle {
            128 => 2,
            64 => 4,
            32 => 6,
            _ => 0,
        };
        leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | code << 61
    }
}

impl Product {
    fn k(&self) -> usize {
        256 / self.a.bits()
    }

    fn kind(&self) -> &'static str {
        match self.a {
            Type::F16 | Type::Bf16 => "f16",
            Type::Tf32 => "tf32",
            Type::E4m3 | Type::E5m2 => "f8f6f4",
            _ => "i8",
        }
    }

    fn opcode(&self) -> String {
        format!("tcgen05.mma.cta_group::1.kind::{}", self.kind())
    }

    fn tile(&self, which: usize) -> Tile {
        let (ty, rows) = if which == 0 { (self.a, self.m) } else { (self.b, self.n) };
        // A in tensor memory is loaded row by row from the input.
        let swizzle = if which == 0 && self.tensor { 64 } else { self.swizzle };
        Tile { transposed: self.transposed[which], rows, swizzle, element: ty.bits() / 8, k: self.k() }
    }

    /// The instruction descriptor (PTX ISA 9.7.16.4.2).
    fn descriptor(&self) -> u32 {
        let code = |ty| match ty {
            Type::Bf16 | Type::E5m2 | Type::S8 => 1,
            Type::Tf32 => 2,
            _ => 0,
        };
        let sum = match self.sum {
            "f16" => 0,
            "f32" => 1,
            _ => 2,
        };
        let bits = |values: [bool; 2], at: u32| u32::from(values[0]) << at | u32::from(values[1]) << (at + 1);
        sum << 4
            | code(self.a) << 7
            | code(self.b) << 10
            | bits(self.negated, 13)
            | bits(self.transposed, 15)
            | (self.n as u32 / 8) << 17
            | (self.m as u32 / 16) << 24
    }

    /// The row of D that a thread holds.
    fn row(&self, thread: usize) -> Option<usize> {
        let (warp, lane) = (thread / 32, thread % 32);
        match (self.m, self.upper) {
            (128, _) => Some(thread),
            (_, upper) => (lane / 16 == usize::from(upper)).then_some(16 * warp + lane % 16),
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let plain = |m, n, a, b, sum| Product {
        m,
        n,
        a,
        b,
        sum,
        tensor: false,
        upper: false,
        transposed: [false; 2],
        negated: [false; 2],
        swizzle: 128,
    };
    let mut products = vec![
        plain(128, 256, Type::Bf16, Type::Bf16, "f32"),
        plain(128, 144, Type::F16, Type::F16, "f32"),
        plain(128, 64, Type::F16, Type::F16, "f16"),
        plain(64, 24, Type::F16, Type::F16, "f16"),
        plain(64, 8, Type::F16, Type::F16, "f32"),
        plain(128, 32, Type::Tf32, Type::Tf32, "f32"),
        plain(64, 40, Type::Tf32, Type::Tf32, "f32"),
        plain(128, 48, Type::E4m3, Type::E5m2, "f32"),
        plain(128, 16, Type::E5m2, Type::E4m3, "f16"),
        plain(64, 72, Type::E4m3, Type::E4m3, "f32"),
        plain(128, 32, Type::S8, Type::S8, "s32"),
        plain(128, 16, Type::U8, Type::S8, "s32"),
        plain(64, 24, Type::S8, Type::U8, "s32"),
        plain(64, 64, Type::U8, Type::U8, "s32"),
        Product { upper: true, ..plain(64, 32, Type::Bf16, Type::Bf16, "f32") },
        Product { tensor: true, upper: true, ..plain(64, 16, Type::F16, Type::F16, "f32") },
        Product { negated: [true, false], ..plain(128, 16, Type::F16, Type::F16, "f32") },
        Product { negated: [true, true], ..plain(64, 16, Type::E4m3, Type::E4m3, "f32") },
        Product { negated: [false, true], ..plain(64, 16, Type::Tf32, Type::Tf32, "f32") },
    ];
    for ty in [Type::F16, Type::Tf32, Type::E4m3, Type::S8] {
        let sum = if ty == Type::S8 { "s32" } else { "f32" };
        products.push(Product { tensor: true, ..plain(128, 32, ty, ty, sum) });
    }
    for swizzle in [128, 64, 32, 16] {
        for transposed in [[true, false], [false, true], [true, true]] {
            products.push(Product { swizzle, transposed, ..plain(128, 64, Type::Bf16, Type::Bf16, "f32") });
        }
        products.push(Product { swizzle, transposed: [true, true], ..plain(64, 32, Type::E4m3, Type::E5m2, "f32") });
        products.push(Product { swizzle, transposed: [false, true], ..plain(128, 48, Type::U8, Type::S8, "s32") });
        if swizzle != 128 {
            products.push(Product { swizzle, ..plain(128, 64, Type::F16, Type::F16, "f32") });
            products.push(Product { swizzle, ..plain(64, 16, Type::Tf32, Type::Tf32, "f32") });
            products.push(Product { swizzle, ..plain(64, 16, Type::S8, Type::S8, "s32") });
        }
    }
    products.into_iter().map(case).collect()
}

/// Text that allocates columns of tensor memory. `%r6` is the block's base, `%r7` the warp's own lanes, `%r4` the
/// mbarrier. `%p1` is thread 0, `%p2` warp 0.
pub(super) fn allocate(columns: usize) -> String {
    format!(
        "    .shared .align 8 .b64 barrier;\n    .shared .align 4 .b32 place;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   setp.lt.u32 %p2, %r391, 32;\n    mov.u32 %r4, barrier;\n    mov.u32 %r5, place;\n\
         \x20   @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;\n    @!%p2 bra allocated;\n\
         \x20   tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], {columns};\n\
         \x20   tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nallocated:\n    bar.sync 0;\n\
         \x20   ld.shared.u32 %r6, [%r5];\n    shr.u32 %r7, %r391, 5;\n    shl.b32 %r7, %r7, 21;\n\
         \x20   add.u32 %r7, %r7, %r6;\n"
    )
}

/// Text that frees them.
pub(super) fn free(columns: usize) -> String {
    format!(
        "    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    @!%p2 bra freed;\n\
         \x20   tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, {columns};\nfreed:\n"
    )
}

/// Text that commits what thread 0 has issued, and waits for it.
pub(super) const COMMIT: &str = "    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];\n\
     complete:\n    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r4], 0;\n    @!%p6 bra complete;\n\
     \x20   tcgen05.fence::after_thread_sync;\n";

/// The opcodes of these texts.
pub(super) const COVERS: [&str; 7] = [
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
    "mbarrier.try_wait.parity.shared::cta.b64",
];

/// Text that copies the input's first bytes to shared memory, by 128 threads, and permutes 16-byte chunks by the number of
/// their 128-byte row: by the bits of this mask.
pub(super) fn load_tiles(bytes: usize, chunks: usize) -> String {
    format!(
        "    .shared .align 1024 .b8 tiles[{bytes}];\n    mov.u64 %rd22, tiles;\n    shl.b32 %r1, %r391, 4;\nload:\n\
         \x20   setp.ge.u32 %p3, %r1, {bytes};\n    @%p3 bra loaded;\n    cvt.u64.u32 %rd1, %r1;\n    add.s64 %rd2, %rd58, %rd1;\n\
         \x20   ld.global.v2.u64 {{%rd3, %rd4}}, [%rd2];\n    shr.u32 %r2, %r1, 3;\n    and.b32 %r2, %r2, {chunks};\n\
         \x20   xor.b32 %r2, %r2, %r1;\n    cvt.u64.u32 %rd1, %r2;\n    add.s64 %rd2, %rd22, %rd1;\n\
         \x20   st.shared.v2.u64 [%rd2], {{%rd3, %rd4}};\n    add.u32 %r1, %r1, 2048;\n    bra load;\nloaded:\n\
         \x20   fence.proxy.async.shared::cta;\n"
    )
}

/// Text that builds a descriptor in `%rd{to}` for a tile at a byte offset of the tiles.
pub(super) fn descriptor(to: usize, offset: usize, fields: u64) -> String {
    format!(
        "    add.s64 %rd{to}, %rd22, {offset};\n    shr.u64 %rd{to}, %rd{to}, 4;\n    and.b64 %rd{to}, %rd{to}, 16383;\n\
         \x20   or.b64 %rd{to}, %rd{to}, {};\n",
        fields.cast_signed(),
    )
}

fn case(product: Product) -> Case {
    let tiles = [product.tile(0), product.tile(1)];
    let [a_bytes, b_bytes] = tiles.map(|tile| tile.bytes());
    let columns = (product.n + 16).next_power_of_two().max(32);
    let mut body = load_tiles(a_bytes + b_bytes, product.swizzle - 16);
    body += &allocate(columns);
    let upper = if product.upper { 16 << 16 } else { 0 };
    if product.tensor {
        body += &operand(&product, upper);
    }
    body += &format!(
        "    add.u32 %r8, %r6, {upper};\n    add.u32 %r9, %r8, {};\n    mov.u32 %r10, {};\n\
         \x20   setp.ne.u32 %p4, 0, 0;\n    setp.eq.u32 %p5, 0, 0;\n",
        product.n,
        product.descriptor()
    );
    for step in 0..2 {
        for (which, tile) in tiles.iter().enumerate() {
            let base = if which == 0 { 0 } else { a_bytes };
            body += &descriptor(10 + which, base + tile.offset(0, step * tile.k), tile.fields());
        }
        let a = if product.tensor { format!("[%r9+{}]", 8 * step) } else { "%rd10".into() };
        body += &format!("    @%p1 {} [%r8], {a}, %rd11, %r10, %p{};\n", product.opcode(), 4 + step);
    }
    body += COMMIT;
    body += "    and.b32 %r11, %r391, 16;\n    setp.eq.u32 %p7, %r11, 0;\n";
    let guard = match (product.m, product.upper) {
        (128, _) => "",
        (_, false) => "@%p7 ",
        (_, true) => "@!%p7 ",
    };
    for chunk in (0..product.n).step_by(8) {
        let registers: Vec<String> = (0..8).map(|i| format!("%r{}", 100 + i)).collect();
        body += &format!(
            "    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{}}}, [%r7+{chunk}];\n    tcgen05.wait::ld.sync.aligned;\n",
            registers.join(", ")
        );
        for (i, register) in registers.iter().enumerate() {
            body += &format!("    {guard}st.global.b32 [%rd61+{}], {register};\n", 8 * (chunk + i));
        }
    }
    body += &free(columns);
    let [ta, tb] = product.transposed;
    let [na, nb] = product.negated;
    let name = format!(
        "{} m{}n{} {} {} {}{}{}{}{}{}{}{}",
        product.opcode(),
        product.m,
        product.n,
        product.sum,
        product.a.name(),
        product.b.name(),
        if product.tensor { " A in tensor memory" } else { "" },
        if product.upper { " upper lanes" } else { "" },
        if ta { " A transposed" } else { "" },
        if tb { " B transposed" } else { "" },
        if na { " -A" } else { "" },
        if nb { " -B" } else { "" },
        if product.swizzle == 128 { String::new() } else { format!(" swizzle of {} bytes", product.swizzle) },
    );
    let mut covers: Vec<String> = COVERS.map(String::from).to_vec();
    covers.extend([
        product.opcode(),
        "tcgen05.ld.sync.aligned.32x32b.x8.b32".into(),
        "tcgen05.wait::ld.sync.aligned".into(),
    ]);
    Case {
        name,
        covers,
        target: Arch::Sm100a,
        module: template::module(Arch::Sm100a, "", "", 0, 8 * product.n, &body),
        blocks: 1,
        cluster: 1,
        threads: 128,
        extra: Extra::None,
        output_bytes: 128 * 8 * product.n,
        compare: compare_sums(product.sum),
        lane: None,
        inputs: Box::new(move |seed| elements([(product.a, a_bytes), (product.b, b_bytes)], seed)),
        oracle: Box::new(move |input| expected(&product, &input[..a_bytes], &input[a_bytes..])),
    }
}

/// Text by which each thread stores its row of A, 64 bytes of the input, to tensor memory after D. Threads without a row
/// store row 0.
fn operand(product: &Product, upper: usize) -> String {
    let mut text = String::from("    mov.u32 %r12, %r391;\n");
    if product.m == 64 {
        text = format!(
            "    shr.u32 %r12, %r391, 5;\n    shl.b32 %r12, %r12, 4;\n    and.b32 %r13, %r391, 15;\n    add.u32 %r12, %r12, %r13;\n\
             \x20   and.b32 %r13, %r391, 16;\n    setp.eq.u32 %p7, %r13, {};\n    selp.b32 %r12, %r12, 0, %p7;\n",
            if upper == 0 { 0 } else { 16 }
        );
    }
    text += "    mul.wide.u32 %rd15, %r12, 64;\n    add.s64 %rd15, %rd58, %rd15;\n";
    let registers: Vec<String> = (0..16).map(|i| format!("%r{}", 40 + i)).collect();
    for (i, register) in registers.iter().enumerate() {
        text += &format!("    ld.global.u32 {register}, [%rd15+{}];\n", 4 * i);
    }
    text + &format!(
        "    tcgen05.st.sync.aligned.32x32b.x16.b32 [%r7+{}], {{{}}};\n    tcgen05.wait::st.sync.aligned;\n\
         \x20   tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n",
        product.n,
        registers.join(", ")
    )
}

fn expected(product: &Product, a: &[u8], b: &[u8]) -> Vec<u8> {
    let matrix = |bytes: &[u8], which: usize| -> Vec<Vec<f32>> {
        let (tile, ty) = (product.tile(which), [product.a, product.b][which]);
        let sign = if product.negated[which] { -1.0 } else { 1.0 };
        let element = |row, k| {
            let at = tile.offset(row, k);
            let bits = bytes[at..at + (ty.bits() / 8)].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
            ty.value(bits) as f32 * sign
        };
        (0..tile.rows).map(|row| (0..2 * product.k()).map(|k| element(row, k)).collect()).collect()
    };
    let (a, b) = (matrix(a, 0), matrix(b, 1));
    let k = product.k();
    let element = |row: usize, column: usize| -> u64 {
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
        .flat_map(|thread| (0..product.n).map(move |column| (thread, column)))
        .flat_map(|(thread, column)| product.row(thread).map_or(0, |row| element(row, column)).to_le_bytes())
        .collect()
}
