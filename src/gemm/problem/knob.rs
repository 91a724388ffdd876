//! The knobs of a plan, by name.

use std::fmt;

/// A method of [`Builder`](crate::gemm::Builder) that changes how a GEMM is computed, but not its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Knob {
    /// [`tile`](crate::gemm::Builder::tile).
    Tile,
    /// [`stages`](crate::gemm::Builder::stages).
    Stages,
    /// [`split_k`](crate::gemm::Builder::split_k), serial or parallel.
    SplitK,
    /// [`split_k`](crate::gemm::Builder::split_k) with [`SplitK::Stream`](crate::gemm::SplitK::Stream).
    StreamK,
    /// [`sm90`](crate::gemm::Builder::sm90).
    Sm90,
    /// [`sm100`](crate::gemm::Builder::sm100).
    Sm100,
    /// [`candidate`](crate::gemm::Builder::candidate).
    Candidate,
    /// [`multiprocessors`](crate::gemm::Builder::multiprocessors).
    Multiprocessors,
    /// [`fast_math`](crate::gemm::Builder::fast_math).
    FastMath,
    /// [`dependent_launch`](crate::gemm::Builder::dependent_launch).
    DependentLaunch,
    /// [`finish`](crate::gemm::Builder::finish).
    Finish,
    /// [`tuning`](crate::gemm::Builder::tuning).
    Tuning,
}

impl Knob {
    /// Every knob.
    pub const ALL: [Self; 12] = [
        Self::Tile,
        Self::Stages,
        Self::SplitK,
        Self::StreamK,
        Self::Sm90,
        Self::Sm100,
        Self::Candidate,
        Self::Multiprocessors,
        Self::FastMath,
        Self::DependentLaunch,
        Self::Finish,
        Self::Tuning,
    ];
}

impl fmt::Display for Knob {
    /// The name of the method.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tile => ".tile(…)",
            Self::Stages => ".stages(…)",
            Self::SplitK => ".split_k(…)",
            Self::StreamK => ".split_k(SplitK::Stream)",
            Self::Sm90 => ".sm90(…)",
            Self::Sm100 => ".sm100(…)",
            Self::Candidate => ".candidate(…)",
            Self::Multiprocessors => ".multiprocessors(…)",
            Self::FastMath => ".fast_math(true)",
            Self::DependentLaunch => ".dependent_launch(true)",
            Self::Finish => ".finish(…)",
            Self::Tuning => ".tuning(…)",
        })
    }
}
