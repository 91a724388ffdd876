//! Epilogues that are computed from their own reductions, with all phases in the tiles of a cluster: its blocks
//! exchange their parts of lines. Tests where lines lie in these tiles, and what happens if they don't.

use epilogue::evt::random::Choices;
use epilogue::evt::{Tree, WholeLines};
use epilogue::gemm::sm90::{Cluster, Request, Schedule, Within};
use epilogue::gemm::{
    Arithmetic, Builder, Choice, Error, Finish, KernelKey, Major, OperandLayout, Problem, SplitK, Tile,
};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};
use half::bf16;

use crate::hopper::{BF16, device, tile};
use crate::in_tile::{ColumnSoftmax, check, of_rows, random_trees};
use crate::phases;

const ALONG_K: (Major, Major) = (Major::K, Major::K);

const SPLITS: [SplitK; 3] = [SplitK::None, SplitK::Serial(2), SplitK::Stream];

fn request(rows: usize, columns: usize, schedule: Schedule, cluster: (usize, usize)) -> Request {
    let cluster = Some(Cluster { m: cluster.0, n: cluster.1 });
    Request { tile: Some(tile(rows, columns, schedule)), swap_ab: Some(false), cluster, ..Request::default() }
}

/// One cluster at a time, so that it has tile after tile.
fn builder(device: &Device, tree: Tree, (m, n): (usize, usize), request: Request) -> Builder {
    let blocks = request.cluster.map_or(8, Cluster::blocks);
    Builder::new(device, tree).problem(m, n, 64).multiprocessors(blocks).sm90(request).finish(Finish::Cluster)
}

fn planned(device: &Device, tree: Tree, extents: (usize, usize), request: Request, majors: (Major, Major)) -> Kernel {
    let name = tree.name();
    let kernel = Kernel::planned(builder(device, tree, extents, request), &BF16, majors);
    let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"));
    assert!(kernel.gemm().later_sources().next().is_none(), "{name}: one launch");
    let within = kernel.gemm().choice().kernel().and_then(|kernel| kernel.key.within());
    assert_eq!(within, Some(Within::Cluster), "{name}");
    kernel
}

/// Rows in clusters of 2, 3, 4, 8 and 16 blocks, and of two rows of blocks, by both schedules, with every split. Rows
/// are as wide as the tiles together, wider than one by a column, or in one; empty; of many tiles of M, also where the
/// last row of blocks has none.
#[test]
fn rows() {
    if testing::compiler("in_cluster::rows").is_none() {
        return;
    }
    use Schedule::{Cooperative, PingPong};
    let shapes = [
        (64, 32, Cooperative, (1, 2)),
        (64, 64, PingPong, (1, 4)),
        (64, 16, Cooperative, (1, 8)),
        (192, 128, Cooperative, (1, 3)),
        (64, 32, Cooperative, (2, 2)),
        (128, 64, PingPong, (1, 2)),
        (128, 64, Cooperative, (2, 4)),
        (128, 16, Cooperative, (1, 16)),
    ];
    for (i, tree) in of_rows().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let (rows, columns, schedule, cluster) = shapes[i % shapes.len()];
        // Two accumulators share the tile's columns.
        let of_tile = columns / tree.accumulators().len();
        let most = of_tile * cluster.1;
        let request = Request { split_k: Some(SPLITS[i % 3]), ..request(rows, columns, schedule, cluster) };
        // An A that is contiguous along M is shared in boxes of 64 rows.
        let a = if rows == 128 && cluster.1 == 2 { Major::Mn } else { Major::K };
        let b = if columns == 64 && cluster.0 == 1 { Major::Mn } else { Major::K };
        let kernel = planned(&device, tree.clone(), (64, most), request, (a, b));
        let shapes = [
            (33, most - 7, 65, 2),
            (2 * rows + 22, most, 200, 1),
            (65, of_tile + 1, 64, 1),
            (1, 3, 0, 3),
            (65, of_tile, 9, 1),
            (130, 0, 9, 1),
        ];
        check(&kernel, tree.name(), i as u32, &shapes);
    }
}

/// Clusters of more blocks than every GPU can run together: of 16 with the widest tiles, where the last blocks have no columns,
/// too; of small ones with every split of K, of two rows of blocks, and of 12.
#[test]
fn large_clusters() {
    if testing::compiler("in_cluster::large_clusters").is_none() {
        return;
    }
    use Schedule::{Cooperative, PingPong};
    let shapes = [
        (128, 256, Cooperative, (1, 16), SplitK::None),
        (128, 64, PingPong, (1, 16), SplitK::None),
        (128, 16, Cooperative, (1, 16), SplitK::Stream),
        (64, 32, Cooperative, (2, 8), SplitK::Serial(2)),
        (192, 128, Cooperative, (1, 12), SplitK::None),
    ];
    let trees = [phases::Softmax::tree(), phases::LayerNorm::tree(), phases::LogSoftmax::tree()];
    for (i, (rows, columns, schedule, cluster, split_k)) in shapes.into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let (tree, most) = (trees[i % 3].clone(), columns * cluster.1);
        let request = Request { split_k: Some(split_k), ..request(rows, columns, schedule, cluster) };
        let kernel = planned(&device, tree.clone(), (64, most), request, ALONG_K);
        // Two tiles of M only where tiles are small: emulated, each takes seconds.
        let m = if columns <= 32 { rows + 5 } else { 5 };
        let shapes = [(9, most, 72, 1), (m, most - columns - 7, 65, 1), (5, columns + 1, 9, 2), (1, 3, 0, 1)];
        check(&kernel, tree.name(), i as u32, &shapes);
    }
}

/// On all sides of a tile of 256 columns, and of two.
#[test]
fn wide_rows() {
    if testing::compiler("in_cluster::wide_rows").is_none() {
        return;
    }
    for (i, (rows, schedule)) in [(128, Schedule::Cooperative), (64, Schedule::PingPong)].into_iter().enumerate() {
        let device = device(Completion::Random, i as u64);
        let tree = [phases::Softmax::tree(), phases::LayerNorm::tree()][i].clone();
        let kernel = planned(&device, tree.clone(), (64, 512), request(rows, 256, schedule, (1, 2)), ALONG_K);
        check(
            &kernel,
            tree.name(),
            i as u32,
            &[(5, 512, 64, 1), (rows + 1, 257, 65, 1), (3, 256, 9, 1), (2, 511, 8, 1)],
        );
    }
}

/// Accumulators of integers, FP8 whose sums are promoted, and TF32.
#[test]
fn other_operands() {
    if testing::compiler("in_cluster::other_operands").is_none() {
        return;
    }
    use ElementType::{F8E4M3, F32, I8};
    let families = [(I8, Arithmetic::Exact), (F8E4M3, Arithmetic::Exact), (F32, Arithmetic::Tf32)];
    for (i, (element, arithmetic)) in families.into_iter().enumerate() {
        let device = device(Completion::Random, i as u64);
        let request = request(64, 32, Schedule::Cooperative, (1, 2));
        let tree = phases::LogSoftmax::tree();
        let builder = builder(&device, tree.clone(), (64, 64), request);
        let family = Family { elements: (element, element), arithmetic, ..BF16 };
        let kernel = Kernel::planned(builder, &family, ALONG_K).unwrap_or_else(|error| panic!("{element}: {error}"));
        check(&kernel, tree.name(), i as u32, &[(70, 64, 200, 1), (5, 33, 65, 2)]);
    }
}

/// Columns are the rows of kernels whose tile's rows are N.
#[test]
fn columns() {
    if testing::compiler("in_cluster::columns").is_none() {
        return;
    }
    for (rows, along) in [(64, 4), (128, 16)] {
        let (device, most) = (device(Completion::Random, 5), 16 * along);
        let request = Request { swap_ab: Some(true), ..request(rows, 16, Schedule::Cooperative, (along, 1)) };
        let kernel = planned(&device, ColumnSoftmax::tree(), (most, 64), request, ALONG_K);
        check(
            &kernel,
            "column_softmax",
            1,
            &[(most - 7, 33, 65, 2), (most, 150, 72, 1), (17, 9, 64, 1), (3, 1, 0, 3), (0, 65, 9, 1)],
        );
    }
}

/// Random epilogues of several phases.
#[test]
fn random_epilogues() {
    if testing::compiler("in_cluster::random_epilogues").is_none() {
        return;
    }
    let options = || Options::default().detector(Detector::On).completion(Completion::Random);
    let mut done = 0;
    for (seed, tree, lines) in random_trees(1001..) {
        if done == testing::cases(6) {
            break;
        }
        if lines == (WholeLines { rows: true, columns: true }) {
            continue;
        }
        let device = Device::emulated_with(Arch::SM_90A, options().seed(u64::from(seed))).expect("a device");
        let (across, along) = [(1, 2), (2, 2), (1, 4)][done as usize % 3];
        let (m, n) = if lines.rows { (across, along) } else { (along, across) };
        let request = Request {
            cluster: Some(Cluster { m, n }),
            split_k: Some(SPLITS[done as usize % 3]),
            ..request(64, 32, Schedule::Cooperative, (1, 1))
        };
        let request = Request { swap_ab: Some(lines.columns), ..request };
        let most = 32 / tree.accumulators().len() * along;
        let extents = if lines.rows { (70, most) } else { (most, 70) };
        let kernel = match Kernel::planned(builder(&device, tree.clone(), extents, request), &BF16, ALONG_K) {
            Ok(kernel) => kernel,
            // There is no launch to save, or a tile can't be shared so.
            Err(error) if error.contains("has none that a launch of its own") || error.contains("can't be shared") => {
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        };
        done += 1;
        let (m, n) = extents;
        for (i, (m, n, k)) in [(m, n, 70), (m.min(9), n.min(37), 129), (m.min(35), n, 0)].into_iter().enumerate() {
            let result = kernel.product(Problem::new(m, n, k), &mut Choices::new(&[seed, i as u32, 3, 11, 2, 6, 1]));
            result.unwrap_or_else(|error| panic!("seed {seed}: {m}x{n}x{k}: {error}"));
        }
    }
}

/// A run whose rows are wider than the planned tiles goes on in launches, unless the cluster was asked for.
#[test]
fn rows_beyond_the_tiles() {
    if testing::compiler("in_cluster::rows_beyond_the_tiles").is_none() {
        return;
    }
    let device = device(Completion::Random, 3);
    let request = request(64, 32, Schedule::Cooperative, (1, 2));
    let plan = |builder: Builder| Kernel::planned(builder.sm90(request), &BF16, ALONG_K).expect("a plan");
    let kernel = plan(Builder::new(&device, phases::Softmax::tree()).problem(64, 64, 64).multiprocessors(4));
    let within = kernel.gemm().choice().kernel().and_then(|kernel| kernel.key.within());
    assert_eq!(within, Some(Within::Cluster), "{}", kernel.gemm().choice());
    check(&kernel, "softmax", 1, &[(40, 64, 64, 1), (40, 65, 64, 1), (3, 150, 65, 2), (40, 63, 64, 1)]);

    let asked = plan(builder(&device, phases::Softmax::tree(), (64, 64), request));
    let refused = asked.product(Problem::new(40, 65, 64), &mut Choices::new(&[1, 2, 3])).expect_err("it is refused");
    assert!(
        refused.contains(
            "`softmax` was planned to be computed in a cluster's tiles of 64x64, where a product of 40x65 has no whole rows: \
             plan for these extents, or leave `.finish(…)` out"
        ),
        "{refused}"
    );
}

/// Clusters that not every GPU can run are chosen only for lines that no others hold: of a type whose tiles have fewer columns,
/// earlier.
#[test]
fn large_clusters_are_the_last_resort() {
    let device = Device::emulated(Arch::SM_90A).expect("a device");
    let blocks = |element: ElementType, n: usize| {
        let builder = Builder::<()>::new(&device, phases::Softmax::tree()).elements(element, element);
        let along_k = OperandLayout::packed(Major::K);
        let builder = builder.layouts(along_k, along_k).problem(65536, n, 64).finish(Finish::Cluster);
        let choice = builder.choose().unwrap_or_else(|error| panic!("{element} {n}: {error}"));
        match choice.kernel().map(|kernel| kernel.key) {
            Some(KernelKey::Sm90(key)) => key.cluster.blocks(),
            _ => panic!("{choice}"),
        }
    };
    assert!(blocks(ElementType::BF16, 2048) <= 8);
    assert!([2049, 3072, 4096].map(|n| blocks(ElementType::BF16, n)).iter().all(|blocks| [12, 16].contains(blocks)));
    assert!(blocks(ElementType::F8E4M3, 1024) <= 8 && blocks(ElementType::F8E4M3, 2048) == 16);
}

/// If a device has no room for 16 blocks together, the plan is one of launches, unless the cluster was asked for.
#[test]
fn a_device_without_room_for_large_clusters() {
    if testing::compiler("in_cluster::a_device_without_room_for_large_clusters").is_none() {
        return;
    }
    let options = Options::default().largest_cluster(8);
    let device = Device::emulated_with(Arch::SM_90A, options).expect("an emulated device");
    let builder = || {
        let builder = Builder::<()>::new(&device, phases::Softmax::tree());
        builder.elements(ElementType::BF16, ElementType::BF16).problem(65536, 4096, 64)
    };
    let chosen = builder().choose().expect("a choice");
    let within = |choice: &Choice| choice.kernel().and_then(|kernel| kernel.key.within());
    assert_eq!(within(&chosen), Some(Within::Cluster), "the model knows nothing of it: {chosen}");
    let plan = builder().plan().expect("a plan");
    assert_eq!(within(plan.choice()), None);
    let said = plan.choice().to_string();
    assert!(said.ends_with("has no room for 16 such blocks together") && !said.contains("1x16"), "{said}");
    assert!(plan.later_sources().next().is_some());
    let refused = builder().finish(Finish::Cluster).plan().expect_err("it was asked for").to_string();
    assert!(
        refused.contains("can't be computed in the tiles of a cluster: an emulated sm_90a has no room for 16 such blocks together; leave"),
        "{refused}"
    );
}

/// The bits are the same in any schedule of threads, blocks and copies.
#[test]
fn results_are_the_same_at_every_run() -> Result<(), Box<dyn std::error::Error>> {
    if testing::compiler("in_cluster::results_are_the_same_at_every_run").is_none() {
        return Ok(());
    }
    let (m, n, k) = (150, 90, 200);
    let numbers = |count: usize, step: usize| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(((i * step) % 23) as f32 / 8.0 - 1.3)).collect()
    };
    let mut results = Vec::new();
    for seed in 0..3 {
        let options = Options::default().completion(Completion::Random).seed(seed);
        let device = Device::emulated_with(Arch::SM_90A, options)?;
        let (a, b) = (device.tensor(&numbers(m * k, 7), [m, k])?, device.tensor(&numbers(k * n, 11), [k, n])?);
        let mask = device.zeros::<bf16>([m, n])?;
        let builder = Gemm::builder::<phases::Softmax>(&device).operands(&a, &b)?.finish(Finish::Cluster);
        let gemm = builder.sm90(request(64, 32, Schedule::Cooperative, (1, 4))).split_k(SplitK::Stream).plan()?;
        let (mut d, mut sum) = (device.zeros::<bf16>([m, n])?, device.zeros::<f32>([m])?);
        for _ in 0..2 {
            gemm.run(&a, &b, phases::Softmax { mask: &mask, scale: 0.3, d: &mut d, sum: &mut sum })?;
            results.push((d.to_bytes()?, sum.to_bytes()?));
        }
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}

#[test]
fn what_can_t_be_in_a_cluster_s_tiles_is_refused() {
    let of = |arch: Arch, tree: Tree, (m, n): (usize, usize)| {
        let device = Device::emulated(arch).expect("a device");
        Builder::<()>::new(&device, tree).elements(ElementType::BF16, ElementType::BF16).problem(m, n, 64)
    };
    let refused = |builder: Builder<()>| match builder.finish(Finish::Cluster).choose() {
        Err(error @ (Error::NotInCluster { .. } | Error::NothingToFinish { .. } | Error::NoKernel { .. })) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    let softmax = |n| of(Arch::SM_90A, phases::Softmax::tree(), (4096, n));
    assert_eq!(
        refused(softmax(8192)),
        "`softmax` can't be computed in the tiles of a cluster: rows of 8192 columns are wider than a tile of 256, and than \
         16 of these; leave `.finish(…)` out, or ask for `Finish::SecondLaunch`"
    );
    let narrow = refused(softmax(8));
    assert!(narrow.contains("rows so short lie in one tile: ask for `Finish::Tile`"), "{narrow}");
    let two = refused(softmax(129).sm90(request(64, 64, Schedule::PingPong, (1, 2))));
    assert!(two.contains("rows of 129 columns are wider than a tile of 64, and than 2 of these"), "{two}");
    let none = refused(softmax(512).sm90(request(64, 64, Schedule::PingPong, (2, 1))));
    assert!(none.contains("clusters of 2x1 have one block along rows: ask for more"), "{none}");
    let parallel = refused(softmax(512).split_k(SplitK::Parallel(2)));
    assert!(
        parallel
            .contains("parallel split-K finishes each tile in a block of its own, and this epilogue needs whole rows"),
        "{parallel}"
    );
    let three = refused(softmax(150).sm90(request(64, 64, Schedule::PingPong, (1, 3))));
    assert!(three.contains("the tile does not divide among the cluster"), "{three}");
    let of_a_knob = |builder: Builder<()>, schedule, cluster| {
        builder.sm90(request(64, 64, schedule, cluster)).choose().expect_err("it is refused").to_string()
    };
    assert_eq!(
        of_a_knob(softmax(150).finish(Finish::Cluster), Schedule::PingPong, (1, 17)),
        "the cluster is 1x17 blocks; it must be from 1 to 16 blocks in all"
    );
    assert_eq!(
        of_a_knob(softmax(60).finish(Finish::Tile), Schedule::PingPong, (16, 1)),
        "the cluster is 16x1 blocks; it must be from 1 to 8 blocks in all; up to 16 are for whole lines in their tiles, with \
         `Finish::Cluster`"
    );
    for n in [500, 1024] {
        let sixteen = refused(softmax(n).sm90(request(64, 64, Schedule::PingPong, (1, 16))));
        assert!(sixteen.contains("the tile does not divide among the cluster"), "{n}: {sixteen}");
    }
    let across = softmax(2048).layouts(OperandLayout::packed(Major::Mn), OperandLayout::packed(Major::K));
    let across = refused(across);
    assert!(across.contains("or give operands that are contiguous along K"), "{across}");
    let on_sm_80 = refused(of(Arch::SM_80, phases::Softmax::tree(), (4096, 512)));
    assert!(on_sm_80.contains("clusters are of kernels for sm_90a"), "{on_sm_80}");
    let small = *Tile::all(epilogue::gemm::Instruction::MmaBf16).last().expect("a tile");
    let of_sm_80 = refused(softmax(512).tile(small));
    assert!(of_sm_80.contains("clusters are of kernels for sm_90a"), "{of_sm_80}");
    let batches = refused(of(Arch::SM_90A, phases::BatchNorm::tree(), (64, 64)));
    assert!(batches.contains("it reduces over batches"), "{batches}");
    let both = refused(of(Arch::SM_90A, phases::Crossed::tree(), (64, 512)));
    assert!(both.contains("its reductions are along rows and columns"), "{both}");
    let nothing = refused(of(Arch::SM_90A, phases::Factor::tree(), (64, 64)));
    assert!(nothing.contains("`factor` has none"), "{nothing}");

    // A tile has no need of blocks along its lines.
    let in_tile = softmax(64).sm90(request(64, 64, Schedule::PingPong, (1, 2))).finish(Finish::Tile);
    let in_tile = in_tile.choose().expect_err("it is refused").to_string();
    assert!(in_tile.contains("clusters of 1x2 have several blocks along rows: ask for `Finish::Cluster`"), "{in_tile}");
}

/// `choice()` says where phases are computed, and what the other ways would take.
#[test]
fn the_choice_says_why() {
    let choice = |n: usize| {
        let device = Device::emulated(Arch::SM_90A).expect("a device");
        let builder = Builder::<()>::new(&device, phases::Softmax::tree());
        let builder = builder.elements(ElementType::BF16, ElementType::BF16).problem(65536, n, 64);
        builder.choose().expect("a choice").to_string()
    };
    let in_cluster = choice(1024);
    assert!(in_cluster.contains(", all phases in a cluster's tiles"), "{in_cluster}");
    assert!(
        in_cluster.contains(
            "; its 3 phases follow one another in the tiles of a cluster, whose blocks exchange their parts of whole lines; with \
             launches of their own, about "
        ),
        "{in_cluster}"
    );
    let in_tile = choice(192);
    assert!(in_tile.contains(", all phases in the tile"), "{in_tile}");
    assert!(in_tile.contains("; in a cluster's tiles, about "), "{in_tile}");
    let wide = choice(4096);
    assert!(wide.contains(", clusters of 1x16, ") && wide.contains("; with launches of their own, about "), "{wide}");
    let wider = choice(8192);
    assert!(
        wider.ends_with("; not in one tile: rows of 8192 columns are wider than a tile of 256, and than 16 of these"),
        "{wider}"
    );
}
