//! Random layouts and shapes.

use super::case::Case;
use super::{local, warp_case};
use epilogue::ElementType::{F16, F32, I32, I64};
use epilogue::tile::ExecutionScope::{Cta, Warp, Warpgroup};
use epilogue::tile::MemoryScope::Shared;
use epilogue::tile::TileAxis::{Lane, Memory};
use epilogue::tile::{TileBuffer, TileLayout};
use epilogue_runtime::testing;
use proptest::prelude::*;

/// Random shards: their extents, what they run over, how they are grouped into dimensions, and which of these are
/// reduced.
fn random_case() -> impl Strategy<Value = Case> {
    let shard = (prop::sample::select(vec![2usize, 2, 4, 3, 5]), any::<bool>(), any::<bool>(), any::<bool>());
    let shards = prop::collection::vec(shard, 1..6);
    (shards, any::<u64>(), prop::sample::select(vec![F32, F16, I32])).prop_map(|(shards, seed, element)| {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut lanes, mut registers) = (1, 1);
        // Strides are given in a random order, so that neither lanes nor registers are in the elements' order.
        let mut order: Vec<usize> = (0..shards.len()).collect();
        random.shuffle(&mut order);
        let mut iters = vec![(1, 1, Memory); shards.len()];
        for &i in &order {
            let (extent, along_lanes, ..) = shards[i];
            if along_lanes && extent.is_power_of_two() && lanes * extent <= 32 {
                iters[i] = (extent, lanes, Lane);
                lanes *= extent;
            } else {
                iters[i] = (extent, registers, Memory);
                registers *= extent + random.usize(0..2);
            }
        }
        let (mut shape, mut reduced): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
        for (extent, _, joins, is_reduced) in &shards {
            match shape.last_mut() {
                Some(last) if *joins => *last *= extent,
                _ => {
                    shape.push(*extent);
                    reduced.push(*is_reduced);
                }
            }
        }
        // The destination has the shards of the dimensions that are kept, with its own registers.
        let (mut kept, mut replicas, mut own, mut dimension) = (Vec::new(), Vec::new(), 1, 0);
        let mut covered = 1;
        for iter in &iters {
            if covered == shape[dimension] {
                dimension += 1;
                covered = 1;
            }
            covered *= iter.0;
            match (reduced[dimension], iter.2) {
                (true, Lane) => replicas.push(*iter),
                (true, _) => {}
                (false, Lane) => kept.push(*iter),
                (false, _) => {
                    kept.push((iter.0, own, Memory));
                    own *= iter.0;
                }
            }
        }
        let to: Vec<usize> = shape.iter().zip(&reduced).map(|(n, reduced)| if *reduced { 1 } else { *n }).collect();
        let axes: Vec<isize> = (0..shape.len()).filter(|&d| reduced[d]).map(|d| d as isize).collect();
        let variant = if replicas.is_empty() { "local.view" } else { "local.warp" };
        let offset = random.usize(0..3);
        let source = TileLayout::shards(iters).offset(offset, Memory);
        let destination = TileLayout::shards(kept).replicas(replicas);
        warp_case(local("A", element, &shape, source), local("B", element, &to, destination), &axes, variant)
    })
}

/// Shared memory of any shape with gaps between rows, reduced over any axes by any block.
fn random_shared_case() -> impl Strategy<Value = Case> {
    let dimension = (1..12usize, any::<bool>(), 0..3usize);
    let block = prop_oneof![
        (1..200u32).prop_map(|x| [x, 1, 1]),
        [1..12u32, 1..9u32, 1..4u32],
        Just([32, 4, 1]),
        Just([64, 4, 1]),
    ];
    (prop::collection::vec(dimension, 1..5), block, prop::sample::select(vec![F32, F16, I64])).prop_map(
        |(dimensions, block, element)| {
            let layout = |shape: &[usize], gaps: &[usize]| {
                let mut stride = 1;
                let mut shards: Vec<_> = shape
                    .iter()
                    .zip(gaps)
                    .rev()
                    .map(|(&extent, gap)| {
                        let shard = (extent, stride, Memory);
                        stride *= extent + gap;
                        shard
                    })
                    .collect();
                shards.reverse();
                TileLayout::shards(shards)
            };
            let (shape, gaps): (Vec<usize>, Vec<usize>) = dimensions.iter().map(|(n, _, gap)| (*n, *gap)).unzip();
            let to: Vec<usize> = dimensions.iter().map(|(n, reduced, _)| if *reduced { 1 } else { *n }).collect();
            let buffer = |name, shape: &[usize], gaps: &[usize]| {
                TileBuffer::new(name, element, Shared, shape, layout(shape, gaps)).expect("valid")
            };
            let axes: Vec<isize> = (0..shape.len()).filter(|&d| dimensions[d].1).map(|d| d as isize).collect();
            let threads: u32 = block.iter().product();
            let elements: usize = axes.iter().map(|&d| shape[d as usize]).product();
            let outputs: usize = to.iter().product();
            let whole = 64 * outputs <= threads as usize && elements >= 2 * threads as usize;
            let (scope, who) = match threads % 128 {
                0 if threads > 128 => (Warpgroup, 1),
                0 => (Warp, 2),
                _ => (Cta, 0),
            };
            let variant = if whole && scope == Cta { "shared.block" } else { "shared" };
            let (source, destination) = (buffer("A", &shape, &gaps), buffer("B", &to, &[gaps, vec![1]].concat()[1..]));
            Case { scope, source, destination, axes, thread_reduce: false, block, who, variant }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(16), max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_layouts(case in random_case()) {
        if let Some(device) = crate::device("reduction::random_layouts") {
            case.check(&device);
        }
    }

    #[test]
    fn random_shared_memory(case in random_shared_case()) {
        if let Some(device) = crate::device("reduction::random_shared_memory") {
            case.check(&device);
        }
    }
}
