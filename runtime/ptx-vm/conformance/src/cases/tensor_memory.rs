//! Loads, stores and copies of tensor memory, and commits to several blocks (PTX ISA 9.7.16.8, 9.7.16.9, 9.7.16.12).

use ptx_vm::Arch;

use super::tensor_products::{COMMIT, COVERS, allocate, descriptor, free, load_tiles};
use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::template;
use crate::values::Random;

/// A shape: the columns and lanes of a repetition. Each bit of a thread's number, and of a register's, moves the cell by
/// some lanes and columns. The bits beyond the register's are those of the repetitions.
struct Shape {
    name: &'static str,
    columns: usize,
    lanes: usize,
    thread: [(usize, usize); 5],
    register: &'static [(usize, usize)],
}

/// By CUTLASS' layouts of the loads (`cute/atom/copy_traits_sm100.hpp`).
const SHAPES: [Shape; 5] = [
    Shape { name: "32x32b", columns: 1, lanes: 32, thread: [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)], register: &[] },
    Shape { name: "16x64b", columns: 2, lanes: 16, thread: [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)], register: &[] },
    Shape {
        name: "16x128b",
        columns: 4,
        lanes: 16,
        thread: [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)],
        register: &[(8, 0)],
    },
    Shape {
        name: "16x256b",
        columns: 8,
        lanes: 16,
        thread: [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
        register: &[(0, 1), (8, 0)],
    },
    // The upper threads' columns begin after those of the lower ones.
    Shape {
        name: "16x32bx2",
        columns: 1,
        lanes: 16,
        thread: [(1, 0), (2, 0), (4, 0), (8, 0), (0, usize::MAX)],
        register: &[],
    },
];

impl Shape {
    fn registers(&self, count: usize) -> usize {
        count << self.register.len()
    }

    /// The columns that `.x{count}` covers.
    fn width(&self, count: usize) -> usize {
        if self.name == "16x32bx2" { 2 * count } else { self.columns * count }
    }

    fn cell(&self, count: usize, thread: usize, register: usize) -> (usize, usize) {
        let bits = self.register.len();
        let mut cell = (0, (register >> bits) * self.columns);
        let moves = self.thread.iter().enumerate().map(|(bit, by)| (thread >> bit & 1, by));
        for (set, &(lanes, columns)) in
            moves.chain(self.register.iter().enumerate().map(|(bit, by)| (register >> bit & 1, by)))
        {
            cell.0 += set * lanes;
            cell.1 += set * if columns == usize::MAX { count } else { columns };
        }
        cell
    }

    fn opcode(&self, operation: &str, count: usize) -> String {
        format!("tcgen05.{operation}.sync.aligned.{}.x{count}.b32", self.name)
    }

    /// The text of the offset of the second half, which comes after the address.
    fn split(&self, count: usize) -> String {
        if self.name == "16x32bx2" { format!(", {count}") } else { String::new() }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for shape in &SHAPES {
        for count in (0..8).map(|power| 1 << power).filter(|&count| shape.registers(count) <= 128) {
            cases.push(moves(shape, count, false));
            cases.push(moves(shape, count, true));
        }
    }
    for (shape, rows, bytes, source) in COPIES {
        cases.push(copy(shape, rows, bytes, source, 16));
    }
    let (shape, rows, bytes, source) = COPIES[0];
    cases.push(copy(shape, rows, bytes, source, 128));
    cases.push(multicast());
    cases
}

/// Registers from number `first` on, as a vector.
fn vector(first: usize, count: usize) -> String {
    (first..first + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ")
}

/// One warp fills cells from its input. It loads them by the shape, or stores to them by the shape and loads all. 16 lanes
/// are the upper ones if the count is odd as a power of two.
fn moves(shape: &'static Shape, count: usize, stores: bool) -> Case {
    let columns = shape.width(count).next_multiple_of(32);
    let (allocated, registers) = (columns.next_power_of_two(), shape.registers(count));
    let upper = if shape.lanes == 16 && count.ilog2() % 2 == 1 { 16 } else { 0 };
    let opcode = shape.opcode(if stores { "st" } else { "ld" }, count);
    let mut body = allocate(allocated);
    let chunks = || (0..columns).step_by(32);
    for chunk in chunks() {
        for i in 0..32 {
            body += &format!("    ld.global.u32 %r{}, [%rd60+{}];\n", 100 + i, 4 * (chunk + i));
        }
        body += &format!("    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r7+{chunk}], {{{}}};\n", vector(100, 32));
    }
    body += &format!("    tcgen05.wait::st.sync.aligned;\n    add.u32 %r8, %r7, {};\n", upper << 16);
    let mut row = 4 * columns;
    let output = if stores {
        for i in 0..registers {
            body += &format!("    ld.global.u32 %r{}, [%rd60+{}];\n", 200 + i, row + 4 * i);
        }
        row += 4 * registers;
        let split = shape.split(count);
        body += &format!("    {opcode} [%r8]{split}, {{{}}};\n", vector(200, registers));
        body += "    tcgen05.wait::st.sync.aligned;\n";
        for chunk in chunks() {
            body += &format!("    tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{}}}, [%r7+{chunk}];\n", vector(100, 32));
            body += "    tcgen05.wait::ld.sync.aligned;\n";
            for i in 0..32 {
                body += &format!("    st.global.b32 [%rd61+{}], %r{};\n", 8 * (chunk + i), 100 + i);
            }
        }
        columns
    } else {
        let split = shape.split(count);
        body += &format!("    {opcode} {{{}}}, [%r8]{split};\n", vector(200, registers));
        body += "    tcgen05.wait::ld.sync.aligned;\n";
        for i in 0..registers {
            body += &format!("    st.global.b32 [%rd61+{}], %r{};\n", 8 * i, 200 + i);
        }
        registers
    };
    body += &free(allocated);
    let covers = [&opcode, "tcgen05.st.sync.aligned.32x32b.x32.b32", "tcgen05.wait::st.sync.aligned"];
    case(opcode.clone(), &covers, 32, row, 8 * output, &body, move |input| {
        let inputs: Vec<&[u8]> = input.chunks_exact(row).collect();
        let word = |thread: usize, i: usize| -> u64 {
            inputs[thread][4 * i..4 * i + 4].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
        };
        let mut cells: Vec<Vec<u64>> =
            (0..32).map(|lane| (0..columns).map(|column| word(lane, column)).collect()).collect();
        let place = |thread, register| {
            let (lane, column) = shape.cell(count, thread, register);
            (lane + upper, column)
        };
        let mut result = vec![vec![0; output]; 32];
        for (thread, result) in result.iter_mut().enumerate() {
            let mut move_one = |register: usize| {
                let (lane, column) = place(thread, register);
                if stores {
                    cells[lane][column] = word(thread, columns + register);
                } else {
                    result[register] = cells[lane][column];
                }
            };
            (0..registers).for_each(&mut move_one);
        }
        if stores { cells.concat() } else { result.concat() }
    })
}

fn case(
    name: String,
    covers: &[&str],
    threads: usize,
    row: usize,
    output_row: usize,
    body: &str,
    oracle: impl Fn(&[u8]) -> Vec<u64> + Send + Sync + 'static,
) -> Case {
    Case {
        name,
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target: Arch::Sm100a,
        module: template::module(Arch::Sm100a, "", "", row, output_row, body),
        blocks: 1,
        cluster: 1,
        threads: threads as u32,
        extra: Extra::None,
        output_bytes: threads * output_row,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let mut random = Random::new(seed);
            (0..threads * row / 4).flat_map(|_| (random.bits() as u32).to_le_bytes()).collect()
        }),
        oracle: Box::new(move |input| oracle(input).into_iter().flat_map(u64::to_le_bytes).collect()),
    }
}

/// The source row of a lane.
type Source = fn(usize) -> usize;

/// Shapes of copies: rows, bytes of each, and where a lane's row comes from (PTX ISA 9.7.16.9.2).
const COPIES: [(&str, usize, usize, Source); 5] = [
    ("128x256b", 128, 32, |lane| lane),
    ("128x128b", 128, 16, |lane| lane),
    ("64x128b.warpx2::02_13", 64, 16, |lane| lane % 64),
    ("64x128b.warpx2::01_23", 64, 16, |lane| lane / 64 * 32 + lane % 32),
    ("32x128b.warpx4", 32, 16, |lane| lane % 32),
];

/// Thread 0 copies a tile from shared memory, without a swizzle or with that of 128 bytes; each thread loads its lane.
fn copy(shape: &str, rows: usize, bytes: usize, source: Source, swizzle: usize) -> Case {
    let opcode = format!("tcgen05.cp.cta_group::1.{shape}");
    let tile = if swizzle == 16 { rows * bytes } else { rows * 128 };
    // Without a swizzle, groups of eight rows follow each other, and columns of 16 bytes within a group.
    let (leading, stride, code) = if swizzle == 16 { (128, 8 * bytes, 0) } else { (0, 1024, 2) };
    let fields = (leading as u64) >> 4 << 16 | (stride as u64) >> 4 << 32 | 1 << 46 | code << 61;
    let count = bytes / 4;
    let load = format!("tcgen05.ld.sync.aligned.32x32b.x{count}.b32");
    let mut body = load_tiles(tile, swizzle - 16) + &allocate(32) + &descriptor(10, 0, fields);
    body += &format!("    @%p1 {opcode} [%r6], %rd10;\n{COMMIT}    {load} {{{}}}, [%r7];\n", vector(100, count));
    body += "    tcgen05.wait::ld.sync.aligned;\n";
    for i in 0..count {
        body += &format!("    st.global.b32 [%rd61+{}], %r{};\n", 8 * i, 100 + i);
    }
    body += &free(32);
    let name = format!("{opcode}{}", if swizzle == 16 { "" } else { " swizzled" });
    let mut covers = COVERS.to_vec();
    covers.extend([opcode.as_str(), load.as_str(), "tcgen05.wait::ld.sync.aligned"]);
    // The input is the tile; each of the 128 threads counts as the reader of a part of it.
    case(name, &covers, 128, tile.div_ceil(128), 8 * count, &body, move |input| {
        (0..128)
            .flat_map(|lane| (0..count).map(move |word| (source(lane), word)))
            .map(|(row, word)| {
                let at = if swizzle == 16 {
                    row / 8 * stride + word / 4 * leading + row % 8 * 16 + word % 4 * 4
                } else {
                    row * 128 + word * 4
                };
                input[at..at + 4].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
            })
            .collect()
    })
}

/// Two blocks of a cluster each copy a tile, and commit to both; each waits for both commits.
fn multicast() -> Case {
    let opcode = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64";
    let mut body = load_tiles(2048, 0) + &allocate(32) + &descriptor(10, 0, 8 << 16 | 8 << 32 | 1 << 46);
    body = body.replace("[%r4], 1;", "[%r4], 2;");
    body += &format!(
        "    fence.mbarrier_init.release.cluster;\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n\
         \x20   mov.u16 %h1, 3;\n    @%p1 tcgen05.cp.cta_group::1.128x128b [%r6], %rd10;\n    @%p1 {opcode} [%r4], %h1;\n"
    );
    body += COMMIT.split_once(";\n").map_or("", |(_, wait)| wait);
    body += &format!("    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{{}}}, [%r7];\n", vector(100, 4));
    body += "    tcgen05.wait::ld.sync.aligned;\n    st.global.v4.b32 [%rd61], {%r100, %r101, %r102, %r103};\n";
    body += &free(32);
    body += "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n";
    let covers = [opcode, "tcgen05.cp.cta_group::1.128x128b", "fence.mbarrier_init.release.cluster"];
    let mut case = case("commit to two blocks".into(), &covers, 256, 8, 16, &body, |input| {
        // Both blocks have the same tile.
        let row = |thread: usize| thread % 128 * 16;
        (0..256).flat_map(|thread| words(&input[row(thread)..row(thread) + 16])).collect()
    });
    (case.blocks, case.cluster, case.threads) = (2, 2, 128);
    case
}
