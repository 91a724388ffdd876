//! Reductions of tiles: the emitted statements are executed and compared with a loop on the host. Values are small
//! integers, for which every element type is exact in any order.

mod case;
mod random;

use std::slice::from_ref;

use self::case::Case;
use epilogue::ElementType;
use epilogue::ElementType::{BF16, F16, F32, F64, I32, I64};
use epilogue::tile::ExecutionScope::{Cta, Thread, Warp, Warpgroup};
use epilogue::tile::MemoryScope::{Local, Shared};
use epilogue::tile::TileAxis::{Lane, Memory, Warp as WarpId};
use epilogue::tile::{TileBuffer, TileLayout};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

fn check_all(test: &str, cases: &[Case]) {
    let Some(device) = crate::device(test) else { return };
    cases.par_iter().for_each(|case| case.check(&device));
}

#[test]
fn registers_of_a_thread() {
    let shapes: [(&[usize], &[isize], &[usize]); 13] = [
        (&[1], &[0], &[1]),
        (&[4], &[-1], &[1]),
        (&[7], &[0], &[1]),
        (&[16], &[0], &[]),
        (&[32], &[0], &[1]),
        (&[4, 8], &[0], &[8]),
        (&[4, 8], &[1], &[4, 1]),
        (&[3, 4, 5], &[0, 2], &[4]),
        (&[3, 4, 5], &[2, 0], &[1, 4, 1]),
        (&[2, 3, 4], &[-1], &[2, 3]),
        (&[2, 3, 4], &[0], &[3, 4]),
        (&[2, 3, 4], &[0, 1, 2], &[]),
        (&[5], &[], &[5]),
    ];
    let cases: Vec<Case> = shapes
        .iter()
        .zip([F32, F16, F64, BF16, I32, I64].into_iter().cycle())
        .map(|((shape, axes, to), element)| Case {
            scope: Thread,
            source: TileBuffer::local("A", element, shape).expect("valid"),
            destination: TileBuffer::local("B", element, to).expect("valid"),
            axes: axes.to_vec(),
            thread_reduce: false,
            block: [3, 1, 1],
            who: 0,
            variant: "local",
        })
        .collect();
    check_all("reduction::registers_of_a_thread", &cases);
}

fn shared_case(shape: &[usize], axes: &[isize], to: &[usize]) -> Case {
    Case {
        scope: Cta,
        source: TileBuffer::shared("A", F32, shape).expect("valid"),
        destination: TileBuffer::shared("B", F32, to).expect("valid"),
        axes: axes.to_vec(),
        thread_reduce: false,
        block: [64, 1, 1],
        who: 0,
        variant: "shared",
    }
}

#[test]
fn shared_memory() {
    let of = |element: ElementType, case: Case| {
        let again = |buffer: &TileBuffer| {
            TileBuffer::new(buffer.name(), element, Shared, buffer.shape(), buffer.layout().clone()).expect("valid")
        };
        Case { source: again(&case.source), destination: again(&case.destination), ..case }
    };
    let mut cases = vec![
        shared_case(&[32, 32], &[-1], &[32]),
        shared_case(&[32, 32], &[0], &[32]),
        of(F16, shared_case(&[8, 16, 2, 22], &[-2, -1], &[8, 16])),
        shared_case(&[4, 8, 6], &[1], &[4, 1, 6]),
        of(F16, shared_case(&[32, 7], &[-1], &[32])),
        of(I64, shared_case(&[3, 5, 7], &[0, 2], &[5])),
        of(F64, shared_case(&[100], &[0], &[1])),
        of(BF16, shared_case(&[9, 1], &[1], &[9])),
        of(I32, shared_case(&[2, 3, 4, 5], &[1, 3], &[2, 4])),
    ];
    // Parts of larger buffers.
    let (a, b) =
        (TileBuffer::shared("A", F32, &[32, 32]).expect("valid"), TileBuffer::shared("B", F32, &[32]).expect("valid"));
    let (source, destination) = (a.slice(&[1..6, 1..9]).expect("valid"), b.slice(from_ref(&(2..7))).expect("valid"));
    cases.push(Case { source, destination, ..shared_case(&[1], &[1], &[1]) });
    // Blocks of any number of threads, and of any shape.
    for block in [[1, 1, 1], [2, 1, 1], [31, 1, 1], [33, 1, 1], [100, 1, 1], [7, 3, 2], [256, 1, 1], [16, 2, 4]] {
        cases.push(Case { block, ..shared_case(&[6, 40], &[1], &[6]) });
        cases.push(Case { block, ..shared_case(&[70, 3], &[1], &[70]) });
    }

    // Parts of a block.
    for (scope, who) in [(Warp, 5), (Warpgroup, 0), (Warpgroup, 1), (Thread, 65)] {
        cases.push(Case { block: [256, 1, 1], scope, who, ..shared_case(&[4, 8], &[1], &[4]) });
        cases.push(Case { block: [32, 4, 2], scope, who, ..of(F16, shared_case(&[50, 9], &[0], &[9])) });
    }

    // The whole block for each of few outputs.
    for (block, shape, element) in [
        ([64, 1, 1], [1, 1000], F32),
        ([33, 2, 3], [3, 500], F16),
        ([256, 1, 1], [2, 600], F64),
        ([128, 1, 1], [2, 256], I32),
    ] {
        let to = [shape[0]];
        cases.push(Case { block, variant: "shared.block", ..of(element, shared_case(&shape, &[1], &to)) });
        let turned = [shape[1], shape[0]];
        cases.push(Case { block, variant: "shared.block", ..of(element, shared_case(&turned, &[0], &to)) });
    }
    check_all("reduction::shared_memory", &cases);
}

fn local(name: &str, element: ElementType, shape: &[usize], layout: TileLayout) -> TileBuffer {
    TileBuffer::new(name, element, Local, shape, layout).expect("valid")
}

fn warp_case(source: TileBuffer, destination: TileBuffer, axes: &[isize], variant: &'static str) -> Case {
    let axes = axes.to_vec();
    Case { scope: Warp, source, destination, axes, thread_reduce: false, block: [64, 1, 1], who: 0, variant }
}

#[test]
fn lanes_with_replicas_of_the_result() {
    let one = |extent| TileLayout::shards([(1, 1, Memory)]).replicas([(extent, 1, Lane)]);
    let mut cases = vec![
        // A whole warp, with one and four elements per lane (T10: a lane's own elements first, and the old value once).
        warp_case(
            local("A", F32, &[32], TileLayout::shards([(32, 1, Lane)])),
            local("B", F32, &[1], one(32)),
            &[0],
            "local.warp",
        ),
        warp_case(
            local("A", F16, &[32, 4], TileLayout::shards([(32, 1, Lane), (4, 1, Memory)])),
            local("B", F16, &[1], one(32)),
            &[0, 1],
            "local.warp",
        ),
        // Registers with gaps and in another order.
        warp_case(
            local(
                "A",
                F32,
                &[3, 32, 2],
                TileLayout::shards([(3, 2, Memory), (32, 1, Lane), (2, 9, Memory)]).offset(1, Memory),
            ),
            local("B", F32, &[3, 1, 1], TileLayout::shards([(3, 5, Memory)]).replicas([(32, 1, Lane)])),
            &[1, 2],
            "local.warp",
        ),
        // The rows of an accumulator.
        warp_case(
            local("A", F32, &[16, 8], TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)])),
            local("B", F32, &[16], TileLayout::shards([(2, 1, Memory), (8, 4, Lane)]).replicas([(4, 1, Lane)])),
            &[1],
            "local.warp",
        ),
        // Its columns.
        warp_case(
            local(
                "A",
                BF16,
                &[16, 8],
                TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)]),
            ),
            local("B", BF16, &[8], TileLayout::shards([(4, 1, Lane), (2, 1, Memory)]).replicas([(8, 4, Lane)])),
            &[0],
            "local.warp",
        ),
    ];
    for width in [2, 4, 8, 16] {
        let (rows, element) = (32 / width, if width == 4 { I32 } else { F64 });
        let source = TileLayout::shards([(rows, width, Lane), (width, 1, Lane)]);
        let result = TileLayout::shards([(rows, width, Lane)]).replicas([(width, 1, Lane)]);
        cases.push(warp_case(
            local("A", element, &[rows, width], source),
            local("B", element, &[rows], result),
            &[1],
            "local.warp",
        ));
    }
    check_all("reduction::lanes_with_replicas_of_the_result", &cases);
}

#[test]
fn parts_of_each_lane() {
    let rows = |n: usize| TileLayout::shards([(32, 1, Lane), (n, 1, Memory)]);
    let lanes = TileLayout::shards([(32, 1, Lane)]);
    let mut cases = vec![
        warp_case(local("A", F32, &[32, 64], rows(64)), local("B", F32, &[32], lanes.clone()), &[1], "local.view"),
        warp_case(
            local("A", F16, &[32, 64], rows(64)).slice(&[0..32, 7..40]).expect("valid"),
            local("B", F16, &[32, 1], lanes),
            &[1],
            "local.view",
        ),
    ];
    let three = TileLayout::shards([(32, 1, Lane), (4, 8, Memory), (8, 1, Memory)]);
    for (axes, to, layout) in
        [(&[1][..], &[32, 8][..], rows(8)), (&[2], &[32, 4], rows(4)), (&[1, 2], &[32, 1, 1], rows(1))]
    {
        cases.push(warp_case(
            local("A", F32, &[32, 4, 8], three.clone()),
            local("B", F32, to, layout),
            axes,
            "local.view",
        ));
    }

    // Accumulators of wgmma, 16 × 128 per warp: each lane's part of a row, or the whole row.
    let wgmma = TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (16, 4, Memory), (4, 1, Lane), (2, 1, Memory)]);
    let row = TileLayout::shards([(2, 1, Memory), (8, 4, Lane), (4, 1, Lane)]);
    for element in [F32, F16] {
        for thread_reduce in [false, true] {
            let (source, destination) =
                (local("A", element, &[16, 128], wgmma.clone()), local("B", element, &[16, 4], row.clone()));
            cases.push(Case { thread_reduce, ..warp_case(source, destination, &[1], "local.view") });
        }
        let four = TileLayout::shards([
            (4, 1, WarpId),
            (2, 2, Memory),
            (8, 4, Lane),
            (16, 4, Memory),
            (4, 1, Lane),
            (2, 1, Memory),
        ]);
        let rows = TileLayout::shards([(4, 1, WarpId), (2, 1, Memory), (8, 4, Lane), (4, 1, Lane)]);
        let (source, destination) = (local("A", element, &[64, 128], four), local("B", element, &[64, 4], rows));
        let case = warp_case(source, destination, &[1], "local.view");
        cases.push(Case { scope: Warpgroup, block: [256, 1, 1], ..case });
    }

    // A warpgroup's 128 × 16: one row per thread.
    let rows = |n: usize| TileLayout::shards([(4, 1, WarpId), (32, 1, Lane), (n, 1, Memory)]);
    let case = warp_case(local("A", F32, &[128, 16], rows(16)), local("B", F32, &[128], rows(1)), &[1], "local.view");
    cases.push(Case { scope: Warpgroup, block: [128, 2, 1], ..case });
    check_all("reduction::parts_of_each_lane", &cases);
}

/// A 16-bit sum is rounded once: accumulated in its own type, 4096 ones would give 2048.
#[test]
fn sixteen_bits_accumulate_in_thirty_two() {
    let Some(device) = crate::device("reduction::sixteen_bits_accumulate_in_thirty_two") else { return };
    let case = Case {
        scope: Cta,
        source: TileBuffer::shared("A", F16, &[1, 4096]).expect("valid"),
        destination: TileBuffer::shared("B", F16, &[1]).expect("valid"),
        axes: vec![1],
        thread_reduce: false,
        block: [1, 1, 1],
        who: 0,
        variant: "shared",
    };
    assert_eq!(case.run(&device, &[1.0; 4096], &[0.0])[0], 4096.0);
}

#[test]
fn nan_and_zeros() {
    let Some(device) = crate::device("reduction::nan_and_zeros") else { return };
    let source = local("A", F32, &[32], TileLayout::shards([(32, 1, Lane)]));
    let destination = local("B", F32, &[1], TileLayout::row_major(&[1]).replicas([(32, 1, Lane)]));
    let case = Case { block: [32, 1, 1], ..warp_case(source, destination, &[0], "local.warp") };
    let mut input = vec![1.0; 32];
    input[13] = f64::NAN;
    let out = case.run(&device, &input, &[0.0; 32]);
    assert!(out.iter().all(|x| x.is_nan()), "{out:?}");
    // All lanes agree on the sign: +0 is the larger, -0 the smaller.
    let input: Vec<f64> = (0..32).map(|i| if i % 3 == 0 { 0.0 } else { -0.0 }).collect();
    let out = case.run(&device, &input, &[0.0; 32]);
    assert!(out[64..96].iter().all(|x| *x == 0.0 && x.is_sign_positive()), "{out:?}");
    assert!(out[128..160].iter().all(|x| *x == 0.0 && x.is_sign_negative()), "{out:?}");
}
