//! The knobs of kernels for sm_90a.

use epilogue::gemm::sm90::{Cluster, Hint, Hints, Raster, Request, Sm90Key};
use epilogue::gemm::{Builder, SplitK};

use super::turn::Turn;

/// Every value of every knob, except those that the kernel has.
pub(super) fn turns(key: &Sm90Key, split_k: SplitK) -> Vec<Turn> {
    let pinned = Request {
        tile: Some(key.tile),
        swap_ab: Some(key.swap_ab),
        stages: Some(key.stages),
        cluster: Some(key.cluster),
        raster: Some(key.raster),
        pending: Some(key.pending),
        picked: Some(key.reading.is_picked()),
        hints: Some(key.hints),
        split_k: Some(split_k),
        staging: Some(key.staging),
    };
    let mut turns = Vec::new();
    let mut turn = |knob, value: String, request: Request| {
        if request != pinned {
            turns.push(Turn {
                knob,
                value,
                turned: Box::new(move |builder| builder.sm90(request).dependent_launch(false)),
            });
        }
    };
    for pending in [0, 1] {
        turn("pending", pending.to_string(), Request { pending: Some(pending), ..pinned });
    }
    for (m, n) in [(1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2)] {
        turn("cluster", format!("{m}x{n}"), Request { cluster: Some(Cluster { m, n }), ..pinned });
    }
    for (a, b, outputs) in [
        (Hint::Normal, Hint::Normal, Hint::Normal),
        (Hint::Normal, Hint::Normal, Hint::First),
        (Hint::First, Hint::Last, Hint::Normal),
        (Hint::Last, Hint::First, Hint::Normal),
        (Hint::Last, Hint::Last, Hint::First),
    ] {
        let hints = Hints { a, b, outputs };
        turn("hints", format!("a {a:?}, b {b:?}, outputs {outputs:?}"), Request { hints: Some(hints), ..pinned });
    }
    let splits = [
        SplitK::None,
        SplitK::Stream,
        SplitK::Serial(2),
        SplitK::Parallel(2),
        SplitK::Serial(4),
        SplitK::Parallel(4),
        SplitK::Parallel(8),
    ];
    for split_k in splits {
        turn("split", split_k.to_string(), Request { split_k: Some(split_k), ..pinned });
    }
    for stages in 2..=8 {
        turn("stages", stages.to_string(), Request { stages: Some(stages), ..pinned });
    }
    for along_n in [false, true] {
        for group in [1, 4, 8, 16, 64] {
            let value = format!("groups of {group} along {}", if along_n { "N" } else { "M" });
            turn("raster", value, Request { raster: Some(Raster { group, along_n }), ..pinned });
        }
    }
    let turned = Box::new(move |builder: Builder| builder.sm90(pinned).dependent_launch(true));
    turns.push(Turn { knob: "dependent launch", value: "on".into(), turned });
    turns
}
