//! Arguments of several axes. Kernels for sm_90a copy them by boxes of five dimensions, or lanes access them because a
//! box would go beyond an axis. The bits are those of matrices that lie in order.

use epilogue::Argument;
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{Builder, Error, SplitK};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::Completion;
use epilogue_runtime::testing;
use epilogue_testing::placement::{Digits, Placement};

use crate::hopper::{device, small_tiles, tile};
use crate::layouts::{K, check_order, ranks_of_maps};

/// Two matrices that are read, one of them written in place, and two results, of elements of 2 and of 4 bytes.
#[epilogue]
fn attention(
    accum: Accum,
    bias: RowVector<f32>,
    mask: Tensor<f32>,
    mut state: TensorMut,
) -> (Tensor, TensorMut, Tensor<f32>) {
    let x = accum + bias + mask;
    state = state + 0.5 * x;
    let twice = 2.0 * x;
    (x, state, twice)
}

/// The arguments of it that are matrices, and how many maps each has.
const MATRICES: [(usize, usize); 4] = [(1, 1), (2, 2), (3, 1), (4, 1)];

/// Rows, columns, the extents of their faster axes, and batches (0 for none), where boxes go beyond no axis: heads of whole
/// boxes, beside several sequences that are, and one that isn't; and no whole tiles.
const WHOLE: [(usize, usize, [usize; 2], usize); 3] =
    [(128, 128, [64, 64], 0), (74, 128, [74, 64], 2), (192, 192, [64, 64], 2)];

/// Where they would: sequences, and heads, that have no whole boxes.
const RAGGED: [(usize, usize, [usize; 2], usize); 2] = [(74, 128, [37, 64], 0), (128, 60, [64, 20], 2)];

fn builder(device: &Device, request: Request) -> Builder {
    let builder = Builder::new(device, Attention::tree()).elements(ElementType::F16, ElementType::F16);
    builder.problem(128, 128, K).multiprocessors(4).sm90(request)
}

/// How many matrices have maps of five dimensions, in this order of their axes in memory.
fn boxes_of_digits(gemm: &Gemm, (m, n, lower, batch): (usize, usize, [usize; 2], usize), order: usize) -> usize {
    let digits = Some(Digits { lower, order });
    let placement = Placement { multiple: 16, padding: 16, digits, ..Placement::PLAIN };
    let ranks = ranks_of_maps(gemm, (m, n, batch), placement).unwrap_or_else(|error| panic!("{error}"));
    ranks.iter().filter(|rank| **rank == 5).count()
}

fn requests() -> Vec<Request> {
    let (cooperative, in_turns) = (tile(128, 128, Schedule::Cooperative), tile(64, 128, Schedule::PingPong));
    let in_clusters = [(cooperative, false, (2, 1)), (in_turns, true, (1, 2))].map(|(tile, swap_ab, (m, n))| Request {
        tile: Some(tile),
        cluster: Some(Cluster { m, n }),
        swap_ab: Some(swap_ab),
        ..Request::default()
    });
    small_tiles().into_iter().chain(in_clusters).collect()
}

#[test]
fn heads_are_copied_by_boxes() {
    if testing::compiler("layout_boxes::heads_are_copied_by_boxes").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::None, SplitK::Stream];
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let request = Request { split_k: Some(splits[i % splits.len()]), ..request };
        let gemm = builder(&device, request).plan().unwrap_or_else(|error| panic!("{request}: {error}"));
        // In two orders rows in memory are columns of one head, and in one of them all sequences follow one another.
        let order = i % 4;
        let maps_of = |copied: &[usize]| -> usize {
            let by_boxes = MATRICES.iter().filter(|(argument, _)| copied.contains(&((order + argument) % 4)));
            by_boxes.map(|(_, maps)| maps).sum()
        };
        for shape in WHOLE {
            assert_eq!(boxes_of_digits(&gemm, shape, order), maps_of(&[0, 1]), "{request}: {shape:?}");
        }
        let [sequences, heads] = RAGGED;
        assert_eq!(boxes_of_digits(&gemm, sequences, order), maps_of(&[1]), "{request}");
        assert_eq!(boxes_of_digits(&gemm, heads, order), 0, "{request}");
        check_order(&gemm, WHOLE[i % WHOLE.len()], order, true);
        check_order(&gemm, RAGGED[i % RAGGED.len()], order, true);
    }
}

#[epilogue]
fn scores(accum: Accum, mask: Tensor<f32>) -> Tensor<f32> {
    let d = accum + mask;
    d
}

/// One mask `[S, T]` for all batches and heads: boxes of an axis without a stride.
#[test]
fn a_mask_of_all_heads_is_copied_by_boxes() -> Result<(), Error> {
    if testing::compiler("layout_boxes::a_mask_of_all_heads_is_copied_by_boxes").is_none() {
        return Ok(());
    }
    let ([b, h, s, t], k) = ([2, 2, 64, 96], 16);
    let device = device(Completion::Random, 3);
    let numbers = |count: usize, step: usize| (0..count).map(move |i| ((i * step) % 61) as f32 / 8.0 - 3.0);
    let half = |shape: [usize; 2], step: usize| {
        let values: Vec<f16> = numbers(shape[0] * shape[1], step).map(f16::from_f32).collect();
        device.tensor(&values, shape)
    };
    let (left, right) = (half([b * h * s, k], 7)?, half([t, k], 11)?.transpose()?);
    let mask = device.tensor(&numbers(s * t, 5).collect::<Vec<_>>(), [s, t])?;
    let mask = mask.broadcast_to([b, h, s, t])?.as_matrix(&[0, 1, 2], &[3])?;
    let mut d = device.zeros::<f32>([b * h * s, t])?;
    let builder = Gemm::builder::<Scores>(&device).elements(ElementType::F16, ElementType::F16);
    let gemm = builder.problem(b * h * s, t, k).multiprocessors(4).sm90(small_tiles()[0]).plan()?;
    let expected = gemm.reference(&left, &right, Scores { mask: &mask, d: &mut d })?;
    let launch = gemm.describe_launch(&left, &right, &[Argument::Input(&mask), Argument::Output(&mut d)])?;
    assert_eq!(launch.maps[2].extents, [96, 1, 64, 4, 1]);
    assert_eq!(launch.maps[2].strides[1..], [4 * 96, 0, 16]);
    gemm.run(&left, &right, Scores { mask: &mask, d: &mut d })?;
    expected.compare("d", &d)?.check()?;
    Ok(())
}
