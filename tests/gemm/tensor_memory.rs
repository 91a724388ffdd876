//! The kernels for sm_100a on the emulated device, with the race detector on.

use epilogue::evt::random::Choices;
use epilogue::evt::{BroadcastClass, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{Builder, Finish, Major, OperandLayout, Problem, SplitK};
use epilogue::{Device, ElementType};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::Kernel;

use crate::hopper::{BF16, plain, tile, tree};
use crate::in_tile::{check, of_rows};

fn device(completion: Completion, seed: u64) -> Device {
    let options = Options::default().detector(Detector::On).completion(completion).seed(seed);
    Device::emulated_with(Arch::SM_100A, options).expect("an emulated device")
}

fn planned(device: &Device, tree: Tree, request: Request, majors: (Major, Major)) -> Kernel {
    let name = tree.name();
    let builder = Builder::new(device, tree).problem(64, 64, 64).multiprocessors(4).sm100(request);
    let kernel = Kernel::planned(builder, &BF16, majors);
    kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"))
}

/// Every kind of tile, with A and B swapped and not, of every layout.
#[test]
fn tiles_of_every_kind() {
    if testing::compiler("tensor_memory::tiles_of_every_kind").is_none() {
        return;
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let tiles = [
        (64, 64, together, false),
        (128, 64, together, false),
        (128, 96, in_turns, false),
        (128, 64, together, true),
        (256, 64, together, false),
        (64, 64, in_turns, true),
    ];
    for (i, (rows, columns, schedule, swap_ab)) in tiles.into_iter().enumerate() {
        let completion = [Completion::Lazy, Completion::Random, Completion::Eager][i % 3];
        let device = device(completion, i as u64);
        let majors =
            [(Major::K, Major::K), (Major::Mn, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::Mn)][i % 4];
        let cluster = Some(if i % 2 == 0 { Cluster::NONE } else { Cluster { m: 2, n: 1 } });
        let request = Request {
            tile: Some(tile(rows, columns, schedule)),
            swap_ab: Some(swap_ab),
            cluster,
            ..Request::default()
        };
        for tree in [plain(), tree()] {
            let kernel = planned(&device, tree, request, majors);
            for (j, (m, n, k)) in [(rows + 33, columns + 40, 200), (5, 8, 0), (300, 260, 65)].into_iter().enumerate() {
                let result = kernel.product(Problem::new(m, n, k), &mut Choices::new(&[i as u32, j as u32, 4]));
                result.unwrap_or_else(|error| panic!("{request}: {m}x{n}x{k}: {error}"));
            }
        }
    }
}

/// Phases in a tile, and in a cluster's tiles of either schedule, with every split of K; the next launch begins before the last has
/// ended.
#[test]
fn phases_in_tiles_and_in_clusters() {
    if testing::compiler("tensor_memory::phases_in_tiles_and_in_clusters").is_none() {
        return;
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let kernels = [
        (128, 64, together, 1, SplitK::None),
        (128, 64, in_turns, 2, SplitK::Stream),
        (128, 32, together, 4, SplitK::Serial(2)),
        (64, 64, in_turns, 1, SplitK::None),
    ];
    for (i, ((rows, columns, schedule, blocks, split_k), tree)) in kernels.into_iter().zip(of_rows()).enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let name = tree.name();
        let request = Request {
            tile: Some(tile(rows, columns, schedule)),
            swap_ab: Some(false),
            cluster: Some(Cluster { m: 1, n: blocks }),
            split_k: Some(split_k),
            ..Request::default()
        };
        let (width, finish) =
            if blocks > 1 { (columns * blocks - 5, Finish::Cluster) } else { (columns - 3, Finish::Tile) };
        let builder = Builder::new(&device, tree).problem(300, width, 64).multiprocessors(2 * blocks);
        let builder = builder.sm100(request).finish(finish).dependent_launch(true);
        let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"));
        assert!(kernel.gemm().later_sources().next().is_none(), "{name}: one launch");
        check(&kernel, name, i as u32, &[(300, width, 130, 1), (rows + 1, width, 0, 2), (1, width, 700, 1)]);
    }
}

/// The model takes these kernels, and those for sm_80 for everything else, with the reason where one was asked for.
#[test]
fn what_they_do_not_have() {
    let device = Device::emulated(Arch::SM_100A).expect("a device");
    let k_major = OperandLayout::packed(Major::K);
    let of =
        |a, b| Builder::<()>::new(&device, plain()).elements(a, b).problem(512, 512, 512).layouts(k_major, k_major);
    let family = |builder: Builder| {
        let choice = builder.choose().expect("a plan");
        choice.kernel().expect("a kernel").key.family()
    };
    for element in [ElementType::F16, ElementType::BF16, ElementType::F8E5M2, ElementType::I8] {
        assert_eq!(family(of(element, element).problem(4096, 4096, 4096)), Arch::SM_100A, "{element}");
    }
    assert_eq!(family(of(ElementType::F64, ElementType::F64)), Arch::SM_80);
    assert_eq!(family(of(ElementType::BF16, ElementType::I8)), Arch::SM_80);
    assert_eq!(family(of(ElementType::F8E4M3, ElementType::F8E4M3).block_scales()), Arch::SM_80);
    let any = Request::default();
    let text = |builder: Builder| builder.choose().expect_err("no such kernel").to_string();
    let halves = || of(ElementType::F16, ElementType::F16);
    for (refused, reason) in [
        (text(of(ElementType::BF16, ElementType::I8).sm100(any)), "operands of one size"),
        (text(of(ElementType::F64, ElementType::F64).sm100(any)), "16 bits, 8 bits or TF32"),
        (text(of(ElementType::F8E4M3, ElementType::F8E4M3).block_scales().sm100(any)), "leave the request for one out"),
        (text(halves().sm90(any)), "take `.sm100(…)`"),
        (text(halves().picked_rows().sm100(Request { picked: Some(true), ..any })), "`picked: Some(false)`"),
        (
            text(halves().sm100(Request { tile: Some(tile(192, 128, Schedule::Cooperative)), ..any })),
            "128x128 by 2 warpgroups",
        ),
        (
            text(
                Builder::new(&device, two())
                    .elements(ElementType::F16, ElementType::F16)
                    .problem(512, 512, 512)
                    .sm100(Request { swap_ab: Some(true), ..any }),
            ),
            "`swap_ab: Some(false)`",
        ),
    ] {
        assert!(refused.contains(reason), "{refused}");
    }
}

/// The product of two accumulators.
fn two() -> Tree {
    let mut b = TreeBuilder::new("two", file!());
    let (x, y) = (b.accum("x"), b.accum("y"));
    let d = b.apply(Op::Mul, &[x, y]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}
