//! Tensor copies in im2col mode: loads, multicast loads, prefetches (PTX ISA 5.5.4, 9.7.9.27).

use super::hopper::{BARRIER, WAIT};
use super::tensors::{MAP, copy, place};
use crate::case::{Case, Compare, Extra};
use crate::images::ImageCase;
use crate::template;
use crate::values::Random;
use ptx_vm::Arch;
use ptx_vm::numerics::swizzle::Swizzle;

pub(super) fn cases() -> Vec<Case> {
    let pair = |corner: (i32, i32)| [corner, corner, (0, 0)];
    // The examples of PTX ISA 5.5.4.1 with fewer images, then that of 5.5.4.2. The images are more than 128 KiB: below
    // this, drivers encode another map.
    let isa = ImageCase {
        rank: 4,
        sizes: [64, 9, 14, 10, 1],
        corners: pair((-1, -1)),
        steps: [1; 3],
        channels: 8,
        pixels: 64,
        swizzle: Swizzle::None,
    };
    let unpadded = ImageCase { corners: pair((0, -2)), ..isa };
    let strided = ImageCase { sizes: [64, 8, 14, 3, 1], steps: [2, 2, 1], channels: 16, pixels: 32, ..isa };
    // Windows with different paddings on both sides, in one to three axes; tails of channels; the end of the images.
    let line = ImageCase {
        rank: 3,
        sizes: [72, 50, 4, 1, 1],
        corners: [(-300, 290), (0, 0), (0, 0)],
        steps: [3, 1, 1],
        channels: 64,
        pixels: 96,
        swizzle: Swizzle::Bytes128,
    };
    let wide = ImageCase {
        rank: 4,
        sizes: [96, 13, 6, 5, 1],
        corners: [(-2, -3), (-1, -2), (0, 0)],
        steps: [2, 1, 1],
        channels: 64,
        pixels: 128,
        swizzle: Swizzle::Bytes128,
    };
    let single = ImageCase { corners: [(-1, -11), (0, -5), (0, 0)], steps: [8, 8, 1], pixels: 8, ..wide };
    let deep = ImageCase {
        rank: 5,
        sizes: [24, 5, 4, 3, 3],
        corners: [(-1, -1), (-2, -1), (0, -2)],
        steps: [1, 2, 1],
        channels: 32,
        pixels: 40,
        swizzle: Swizzle::Bytes64,
    };
    let mut cases = Vec::new();
    for (name, images, start, offsets) in [
        ("the ISA's first example", isa, [0, 4, 7, 7, 0], [0, 0, 0]),
        ("the ISA's second example", unpadded, [0, 4, 7, 7, 0], [2, 2, 0]),
        ("the ISA's example of strides", strided, [0, 5, 7, 1, 0], [1, 1, 0]),
        ("a line", line, [64, -9, 1, 0, 0], [20, 0, 0]),
        ("a far element of a line", line, [0, -300, 0, 0, 0], [301, 0, 0]),
        ("a wide window", wide, [64, 2, 3, 3, 0], [5, 2, 0]),
        ("no channels", wide, [96, -2, -1, 0, 0], [2, 1, 0]),
        ("no images", wide, [0, -2, -1, 5, 0], [2, 1, 0]),
        ("one place of each image", single, [0, -1, 0, 1, 0], [255, 0, 0]),
        ("a deep window", deep, [0, 2, 0, 0, 1], [1, 2, 2]),
        ("the end of deep images", deep, [8, 3, 2, 0, 2], [31, 1, 0]),
    ] {
        cases.push(load(name, images, start, offsets));
        cases.push(multicast(name, images, start, offsets));
    }
    cases
}

const MODE: &str = "shared::cluster.global.im2col.mbarrier::complete_tx::bytes";

/// Registers with the coordinates and the offsets, and their lists.
fn operands(images: &ImageCase, start: &[i64; 5], offsets: &[u16; 3]) -> (String, String, String) {
    let axes = images.rank - 2;
    let set = (0..images.rank).map(|i| format!("    mov.u32 %r{}, {};\n", 20 + i, start[i]));
    let set = set.chain((0..axes).map(|i| format!("    mov.u16 %h{}, {};\n", 4 + i, offsets[i]))).collect();
    let list = |name: &str, first: usize, count: usize| {
        (0..count).map(|i| format!("%{name}{}", first + i)).collect::<Vec<_>>().join(", ")
    };
    (set, list("r", 20, images.rank), list("h", 4, axes))
}

fn case(name: String, covers: &[&str], images: ImageCase, output_bytes: usize, body: &str) -> Case {
    Case {
        name,
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target: Arch::Sm90a,
        module: template::module(Arch::Sm90a, "", ", .param .align 64 .b8 map[128]", 0, 0, body),
        blocks: 1,
        cluster: 1,
        threads: 128,
        extra: Extra::Images(images),
        output_bytes,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let flip = Random::new(seed).bits() as u16;
            (0..images.bytes() / 2).flat_map(|i| ((i as u16).wrapping_mul(0x9e37) ^ flip).to_le_bytes()).collect()
        }),
        oracle: Box::new(|_| Vec::new()),
    }
}

/// The bytes of a copy as they are stored in shared memory.
fn image(images: &ImageCase, start: &[i64; 5], offsets: &[u16; 3], input: &[u8]) -> Vec<u8> {
    let mut image = vec![0; images.box_bytes()];
    for (element, from) in images.elements(start, offsets).into_iter().enumerate() {
        for byte in 0..2 {
            image[place(images.swizzle, 2 * element + byte)] = from.map_or(0, |from| input[from + byte]);
        }
    }
    image
}

/// Prefetches, then loads pixels to shared memory. The output is their image, swizzled as it is there.
fn load(name: &str, images: ImageCase, start: [i64; 5], offsets: [u16; 3]) -> Case {
    let opcode = format!("cp.async.bulk.tensor.{}d.{MODE}", images.rank);
    let prefetch = format!("cp.async.bulk.prefetch.tensor.{}d.L2.global.im2col", images.rank);
    let (set, list, offset_list) = operands(&images, &start, &offsets);
    let bytes = images.box_bytes();
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{BARRIER}{MAP}{set}    mov.u64 %rd42, image;\n\
         \x20   @%p1 {prefetch} [%rd41, {{{list}}}], {{{offset_list}}};\n\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], {bytes};\n\
         \x20   @%p1 {opcode} [%rd42], [%rd41, {{{list}}}], [%rd30], {{{offset_list}}};\n{WAIT}{}",
        copy("%rd42", "shared", "%rd59", "global", bytes, "image_out")
    );
    let name = format!("im2col load {}d: {name}", images.rank);
    let mut case = case(name, &[opcode.as_str(), prefetch.as_str()], images, bytes, &body);
    case.oracle = Box::new(move |input| image(&images, &start, &offsets, input));
    case
}

/// Block 0 loads pixels to both blocks. The output is both images.
fn multicast(name: &str, images: ImageCase, start: [i64; 5], offsets: [u16; 3]) -> Case {
    let opcode = format!("cp.async.bulk.tensor.{}d.{MODE}.multicast::cluster", images.rank);
    let (set, list, offset_list) = operands(&images, &start, &offsets);
    let bytes = images.box_bytes();
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{BARRIER}{MAP}{set}    mov.u64 %rd42, image;\n    mov.u16 %h1, 3;\n\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], {bytes};\n    barrier.cluster.arrive.aligned;\n\
         \x20   barrier.cluster.wait.aligned;\n    mov.u32 %r1, %cluster_ctarank;\n    setp.eq.and.u32 %p4, %r1, 0, %p1;\n\
         \x20   @%p4 {opcode} [%rd42], [%rd41, {{{list}}}], [%rd30], {{{offset_list}}}, %h1;\n{WAIT}\
         \x20   mul.wide.u32 %rd43, %r1, {bytes};\n\
         \x20   add.s64 %rd43, %rd43, %rd59;\n{}    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n",
        copy("%rd42", "shared", "%rd43", "global", bytes, "image_out")
    );
    let name = format!("im2col multicast {}d: {name}", images.rank);
    let mut case = case(name, &[opcode.as_str()], images, 2 * bytes, &body);
    (case.blocks, case.cluster) = (2, 2);
    case.oracle = Box::new(move |input| {
        let image = image(&images, &start, &offsets, input);
        [image.as_slice(), &image].concat()
    });
    case
}
