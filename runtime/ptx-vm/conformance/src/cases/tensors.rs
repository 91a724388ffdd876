//! Tensor copies: loads, multicast loads, stores, reductions (PTX ISA 9.7.9.27).

use super::asynchronous::element;
use super::hopper::{BARRIER, WAIT};
use crate::case::{Case, Compare, Extra};
use crate::oracle::reduce::reduce;
use crate::template;
use crate::tensor::TensorCase;
use crate::values::Random;
use ptx_vm::Arch;
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::MapElement;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let maps = [
        (TensorCase::new(&[300], &[64], Swizzle::None), [-5i64, 0, 0, 0, 0]),
        (TensorCase::new(&[100, 9], &[64, 8], Swizzle::None), [60, 3, 0, 0, 0]),
        (TensorCase::new(&[100, 40], &[64, 16], Swizzle::Bytes128), [-8, 30, 0, 0, 0]),
        (TensorCase::new(&[100, 40], &[32, 24], Swizzle::Bytes64), [80, -2, 0, 0, 0]),
        (TensorCase::new(&[100, 40], &[16, 32], Swizzle::Bytes32), [3, 4, 0, 0, 0]),
        (TensorCase::new(&[24, 5, 6], &[16, 4, 3], Swizzle::None), [12, -1, 4, 0, 0]),
        (TensorCase::new(&[24, 5, 6, 3], &[8, 4, 3, 2], Swizzle::None), [0, 2, 1, 2, 0]),
        (TensorCase::new(&[24, 5, 6, 3, 4], &[8, 2, 3, 2, 2], Swizzle::None), [-3, 4, 5, 0, 3]),
    ];
    for (tensor, corner) in maps {
        cases.push(tensor_load(tensor, corner));
        cases.push(tensor_store(tensor, corner));
        cases.push(tensor_multicast(tensor, corner));
        cases.push(tensor_map_made(tensor, corner));
    }
    for (operation, elements) in [
        ("add", &[MapElement::U32, MapElement::U64, MapElement::F16, MapElement::Bf16, MapElement::F32][..]),
        ("min", &[MapElement::S32, MapElement::U64, MapElement::F16]),
        ("max", &[MapElement::S64, MapElement::U32, MapElement::Bf16]),
        ("inc", &[MapElement::U32]),
        ("dec", &[MapElement::U32]),
        ("and", &[MapElement::U32]),
        ("or", &[MapElement::U64]),
        ("xor", &[MapElement::U32]),
    ] {
        for &element in elements {
            let row = 64 / element.bytes() as u32;
            let narrow = [60, 9].map(|n| n as u64);
            let tensor = TensorCase::of(element, &narrow, &[row, 8], Swizzle::Bytes64);
            cases.push(tensor_reduction(operation, tensor, [-3, 4, 0, 0, 0]));
        }
    }
    for rank in [1, 3, 4, 5] {
        let sizes = &[24, 5, 6, 3, 4][..rank];
        let boxes = &[8, 2, 3, 2, 2][..rank];
        let tensor = TensorCase::of(MapElement::U32, sizes, boxes, Swizzle::None);
        cases.push(tensor_reduction("add", tensor, [-3, 4, 5, 0, 3]));
    }
    cases
}

fn coordinates(tensor: &TensorCase, corner: &[i64; 5]) -> (String, String) {
    let set = (0..tensor.rank).map(|i| format!("    mov.u32 %r{}, {};\n", 20 + i, corner[i])).collect();
    let list = (0..tensor.rank).map(|i| format!("%r{}", 20 + i)).collect::<Vec<_>>().join(", ");
    (set, list)
}

pub(super) const MAP: &str =
    "    mov.b64 %rd40, map;\n    cvta.param.u64 %rd41, %rd40;\n    prefetch.tensormap [%rd41];\n";

fn tensor_case(name: String, covers: &[&str], tensor: TensorCase, output_bytes: usize, body: &str) -> Case {
    Case {
        name,
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target: Arch::Sm90a,
        module: template::module(Arch::Sm90a, "", ", .param .align 64 .b8 map[128]", 0, 0, body),
        blocks: 1,
        cluster: 1,
        threads: 128,
        extra: Extra::TensorMap(tensor),
        output_bytes,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let flip = Random::new(seed).bits() as u16;
            (0..(tensor.bytes() / 2) as u16).flat_map(|i| (i ^ flip).to_le_bytes()).collect()
        }),
        oracle: Box::new(|_| Vec::new()),
    }
}

/// The place of byte `at` of a box in its swizzled image.
pub(super) fn place(swizzle: Swizzle, at: usize) -> usize {
    let (row, chunk, byte) = match swizzle {
        Swizzle::None => return at,
        Swizzle::Bytes32 => (at / 32, (at / 16 % 2) ^ (at / 128 % 2), at % 16),
        Swizzle::Bytes64 => (at / 64, (at / 16 % 4) ^ (at / 128 % 4), at % 16),
        Swizzle::Bytes128 => (at / 128, (at / 16 % 8) ^ (at / 128 % 8), at % 16),
    };
    let width = match swizzle {
        Swizzle::None | Swizzle::Bytes32 => 32,
        Swizzle::Bytes64 => 64,
        Swizzle::Bytes128 => 128,
    };
    row * width + chunk * 16 + byte
}

/// Text that copies `bytes` bytes from one address to another, 8 at a time over the block's threads.
pub(super) fn copy(from: &str, space: &str, to: &str, to_space: &str, bytes: usize, label: &str) -> String {
    format!(
        "    mul.wide.u32 %rd50, %r391, 8;\n{label}:\n    setp.ge.u64 %p3, %rd50, {bytes};\n    @%p3 bra {label}_done;\n\
         \x20   add.s64 %rd51, {from}, %rd50;\n    add.s64 %rd52, {to}, %rd50;\n    ld.{space}.u64 %rd53, [%rd51];\n\
         \x20   st.{to_space}.u64 [%rd52], %rd53;\n    add.s64 %rd50, %rd50, 1024;\n    bra {label};\n{label}_done:\n"
    )
}

/// Loads a box to shared memory. The output is its image, swizzled as it is there.
fn tensor_load(tensor: TensorCase, corner: [i64; 5]) -> Case {
    let opcode =
        format!("cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", tensor.rank);
    let (set, list) = coordinates(&tensor, &corner);
    let bytes = tensor.box_bytes();
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{BARRIER}{MAP}{set}    mov.u64 %rd42, image;\n\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], {bytes};\n\
         \x20   @%p1 {opcode} [%rd42], [%rd41, {{{list}}}], [%rd30];\n{WAIT}{}",
        copy("%rd42", "shared", "%rd59", "global", bytes, "image_out")
    );
    let name = format!("tensor load {}d {:?} {:?}", tensor.rank, tensor.swizzle, &tensor.box_sizes[..tensor.rank]);
    let covers = [opcode.as_str(), "cvta.param.u64", "prefetch.tensormap"];
    let mut case = tensor_case(name, &covers, tensor, bytes, &body);
    case.oracle = Box::new(move |input| box_image(&tensor, &corner, input));
    case
}

/// Like [`tensor_load`], with a map that the kernel makes: field by field from zeros in shared memory, then published
/// at the place to which the image is written afterwards.
fn tensor_map_made(tensor: TensorCase, corner: [i64; 5]) -> Case {
    let opcode =
        format!("cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", tensor.rank);
    let (set, list) = coordinates(&tensor, &corner);
    let bytes = tensor.box_bytes();
    let replace = |field: &str, ty: &str, operands: &str| {
        format!("    @%p1 tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [%rd43], {operands};\n")
    };
    let swizzle = match tensor.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    };
    let mut fields = vec![
        replace("global_address", "b64", "%rd58"),
        replace("rank", "b32", &(tensor.rank - 1).to_string()),
        // 16-bit unsigned integers.
        replace("elemtype", "b32", "1"),
        replace("interleave_layout", "b32", "0"),
        replace("swizzle_mode", "b32", &swizzle.to_string()),
        replace("fill_mode", "b32", "0"),
    ];
    for dimension in 0..tensor.rank {
        let size = u32::try_from(tensor.sizes[dimension]).unwrap_or(u32::MAX);
        for (field, value) in [("box_dim", tensor.box_sizes[dimension]), ("global_dim", size), ("element_stride", 1)] {
            fields.push(format!("    mov.u32 %r30, {value};\n"));
            fields.push(replace(field, "b32", &format!("{dimension}, %r30")));
        }
    }
    for (dimension, stride) in tensor.strides[..tensor.rank - 1].iter().enumerate() {
        // Units of 16 bytes, up to PTX ISA 8.4.
        fields.push(format!("    mov.u64 %rd44, {};\n", stride / 16));
        fields.push(replace("global_stride", "b64", &format!("{dimension}, %rd44")));
    }
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n    .shared .align 128 .b8 made[128];\n{BARRIER}{set}\
         \x20   mov.u64 %rd42, image;\n    mov.u64 %rd43, made;\n    mov.b32 %r30, 0;\n    setp.ge.u32 %p4, %r391, 32;\n\
         \x20   @%p4 bra made_done;\n    mul.wide.u32 %rd44, %r391, 4;\n    add.s64 %rd44, %rd43, %rd44;\n\
         \x20   st.shared.u32 [%rd44], %r30;\n    bar.warp.sync -1;\n{}    bar.warp.sync -1;\n\
         \x20   tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd59], [%rd43], 128;\n\
         \x20   fence.proxy.tensormap::generic.acquire.gpu [%rd59], 128;\nmade_done:\n    bar.sync 0;\n\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], {bytes};\n\
         \x20   @%p1 {opcode} [%rd42], [%rd59, {{{list}}}], [%rd30];\n{WAIT}{}",
        fields.concat(),
        copy("%rd42", "shared", "%rd59", "global", bytes, "image_out")
    );
    let name = format!("tensor map made {}d {:?} {:?}", tensor.rank, tensor.swizzle, &tensor.box_sizes[..tensor.rank]);
    let covers: Vec<String> =
        [
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
            "fence.proxy.tensormap::generic.acquire.gpu",
        ]
        .map(String::from)
        .into_iter()
        .chain((0..2 - usize::from(tensor.rank == 1)).map(|n| {
            format!("tensormap.replace.tile.{}.shared::cta.b1024.b64", ["global_address", "global_stride"][n])
        }))
        .chain(
            [
                "rank",
                "box_dim",
                "global_dim",
                "element_stride",
                "elemtype",
                "interleave_layout",
                "swizzle_mode",
                "fill_mode",
            ]
            .map(|field| format!("tensormap.replace.tile.{field}.shared::cta.b1024.b32")),
        )
        .collect();
    let covers: Vec<&str> = covers.iter().map(String::as_str).collect();
    let mut case = tensor_case(name, &covers, tensor, bytes, &body);
    case.oracle = Box::new(move |input| box_image(&tensor, &corner, input));
    case
}

/// The bytes of a box as they are stored in shared memory.
fn box_image(tensor: &TensorCase, corner: &[i64; 5], input: &[u8]) -> Vec<u8> {
    let mut image = vec![0; tensor.box_bytes()];
    for (element, from) in tensor.elements(corner).into_iter().enumerate() {
        for byte in 0..2 {
            image[place(tensor.swizzle, 2 * element + byte)] = from.map_or(0, |from| input[from + byte]);
        }
    }
    image
}

/// Stores a box of consecutive numbers from shared memory to the tensor. The output is the bytes of the tensor
/// afterwards.
fn tensor_store(tensor: TensorCase, corner: [i64; 5]) -> Case {
    let opcode = format!("cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group", tensor.rank);
    let (set, list) = coordinates(&tensor, &corner);
    let (bytes, whole) = (tensor.box_bytes(), tensor.bytes());
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{MAP}{set}    mov.u64 %rd42, image;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   mul.wide.u32 %rd50, %r391, 2;\nfill:\n    setp.ge.u64 %p3, %rd50, {bytes};\n    @%p3 bra fill_done;\n\
         \x20   add.s64 %rd51, %rd42, %rd50;\n    cvt.u16.u64 %h1, %rd50;\n    add.u16 %h1, %h1, 12345;\n\
         \x20   st.shared.u16 [%rd51], %h1;\n    add.s64 %rd50, %rd50, 256;\n    bra fill;\nfill_done:\n\
         \x20   fence.proxy.async.shared::cta;\n    bar.sync 0;\n    @!%p1 bra stored;\n    {opcode} [%rd41, {{{list}}}], [%rd42];\n\
         \x20   cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\nstored:\n    bar.sync 0;\n{}",
        copy("%rd58", "global", "%rd59", "global", whole, "tensor_out")
    );
    let name = format!("tensor store {}d {:?} {:?}", tensor.rank, tensor.swizzle, &tensor.box_sizes[..tensor.rank]);
    let mut case = tensor_case(name, &[opcode.as_str()], tensor, whole, &body);
    case.oracle = Box::new(move |input| {
        let mut result = input.to_vec();
        for (element, to) in tensor.elements(&corner).into_iter().enumerate() {
            if let Some(to) = to {
                let value = (place(tensor.swizzle, 2 * element) as u16).wrapping_add(12345);
                result[to..to + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
        result
    });
    case
}

/// Block 0 loads a box to both blocks. The output is both images.
fn tensor_multicast(tensor: TensorCase, corner: [i64; 5]) -> Case {
    let opcode = format!(
        "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
        tensor.rank
    );
    let (set, list) = coordinates(&tensor, &corner);
    let bytes = tensor.box_bytes();
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{BARRIER}{MAP}{set}    mov.u64 %rd42, image;\n    mov.u16 %h1, 3;\n\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], {bytes};\n    barrier.cluster.arrive.aligned;\n\
         \x20   barrier.cluster.wait.aligned;\n    mov.u32 %r1, %cluster_ctarank;\n    setp.eq.and.u32 %p4, %r1, 0, %p1;\n\
         \x20   @%p4 {opcode} [%rd42], [%rd41, {{{list}}}], [%rd30], %h1;\n{WAIT}    mul.wide.u32 %rd43, %r1, {bytes};\n\
         \x20   add.s64 %rd43, %rd43, %rd59;\n{}    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n",
        copy("%rd42", "shared", "%rd43", "global", bytes, "image_out")
    );
    let name = format!("tensor multicast {}d {:?} {:?}", tensor.rank, tensor.swizzle, &tensor.box_sizes[..tensor.rank]);
    let mut case = tensor_case(name, &[opcode.as_str()], tensor, 2 * bytes, &body);
    (case.blocks, case.cluster) = (2, 2);
    case.oracle = Box::new(move |input| {
        let image = box_image(&tensor, &corner, input);
        [image.as_slice(), &image].concat()
    });
    case
}

/// Combines a box made of the first bytes of the input with the tensor, a copy of the whole input. The output is the
/// result.
fn tensor_reduction(operation: &'static str, tensor: TensorCase, corner: [i64; 5]) -> Case {
    let tensor = TensorCase { over_output: true, ..tensor };
    let ty = match tensor.element {
        MapElement::U32 => "u32",
        MapElement::S32 => "s32",
        MapElement::U64 => "u64",
        MapElement::S64 => "s64",
        MapElement::F16 => "f16",
        MapElement::Bf16 => "bf16",
        _ => "f32",
    };
    let opcode = format!("cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{operation}.tile.bulk_group", tensor.rank);
    let (set, list) = coordinates(&tensor, &corner);
    let (bytes, whole) = (tensor.box_bytes(), tensor.bytes());
    let body = format!(
        "    .shared .align 1024 .b8 image[{bytes}];\n{MAP}{set}    mov.u64 %rd42, image;\n    setp.eq.u32 %p1, %r391, 0;\n{}{}\
         \x20   fence.proxy.async;\n    bar.sync 0;\n    @!%p1 bra stored;\n    {opcode} [%rd41, {{{list}}}], [%rd42];\n\
         \x20   cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\nstored:\n",
        copy("%rd58", "global", "%rd59", "global", whole, "tensor_in"),
        copy("%rd58", "global", "%rd42", "shared", bytes, "box_in"),
    );
    let name = format!("tensor reduction {operation} {ty} {}d", tensor.rank);
    let mut case = tensor_case(name, &[opcode.as_str()], tensor, whole, &body);
    let size = tensor.element.bytes();
    case.inputs = Box::new(move |seed| {
        let mut random = Random::new(seed);
        (0..whole.max(bytes) / size)
            .flat_map(|_| element(ty, operation, &mut random).to_le_bytes()[..size].to_vec())
            .collect()
    });
    case.oracle = Box::new(move |input| {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
        let mut result = input[..whole].to_vec();
        for (index, to) in tensor.elements(&corner).into_iter().enumerate() {
            let Some(to) = to else { continue };
            // A chunk of 16 bytes stays together.
            let from = place(tensor.swizzle, size * index);
            let new = reduce(operation, ty, number(&input[to..to + size]), number(&input[from..from + size]), false);
            result[to..to + size].copy_from_slice(&new.to_le_bytes()[..size]);
        }
        result
    });
    case
}
