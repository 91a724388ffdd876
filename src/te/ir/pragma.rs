//! What is said of a loop that changes how it runs, not what it computes.

/// What a pragma says of a loop and all that is inside it.
///
/// The two of unrolling follow TVM's rules (see [`UnrollConfig`](crate::te::UnrollConfig)) and are gone from the lowered
/// program, as is a skipped region. The three of parallel loops are kept and printed, and refused where they mean
/// nothing. Native code launches its threads at every parallel loop, deals iterations to them in pieces and waits at its
/// end: what it computes is the same with them and without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pragma {
    /// `auto_unroll_max_step`: loops whose iterations make at most so many statements in all are unrolled.
    AutoUnrollMaxStep(i64),
    /// `unroll_explicit`: whether loops that are unrolled are written out, or only marked for the target's compiler.
    UnrollExplicit(bool),
    /// `debug_skip_region`: nothing of it is done. What it would have computed is not computed: for measuring the rest.
    DebugSkipRegion,
    /// `parallel_launch_point`: one team of CPU threads is launched here, which shares the parallel loops inside.
    ParallelLaunchPoint,
    /// `parallel_stride_pattern`: iterations of the parallel loop are dealt to the threads in turn, not in pieces.
    ParallelStridePattern,
    /// `parallel_barrier_when_finish`: the team's threads wait for each other at its end.
    ParallelBarrierWhenFinish,
}

/// The value that a pragma is given: none (`()`), a number or truth value, or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PragmaValue {
    /// None, which means 1 where there is a number.
    None,
    /// A number; a truth value is 0 or 1.
    Int(i64),
    /// Text. No pragma that there is takes it.
    Text(String),
}

impl From<()> for PragmaValue {
    fn from((): ()) -> Self {
        Self::None
    }
}

impl From<i32> for PragmaValue {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for PragmaValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for PragmaValue {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for PragmaValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Pragma {
    /// The key, as TVM has it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::AutoUnrollMaxStep(_) => "auto_unroll_max_step",
            Self::UnrollExplicit(_) => "unroll_explicit",
            Self::DebugSkipRegion => "debug_skip_region",
            Self::ParallelLaunchPoint => "parallel_launch_point",
            Self::ParallelStridePattern => "parallel_stride_pattern",
            Self::ParallelBarrierWhenFinish => "parallel_barrier_when_finish",
        }
    }

    /// The value, 1 where there is nothing to be said.
    #[must_use]
    pub fn value(self) -> i64 {
        match self {
            Self::AutoUnrollMaxStep(value) => value,
            Self::UnrollExplicit(value) => value.into(),
            _ => 1,
        }
    }

    pub(crate) fn parse(key: &str, value: &PragmaValue) -> Result<Self, String> {
        let number = match value {
            PragmaValue::None => 1,
            PragmaValue::Int(number) => *number,
            PragmaValue::Text(text) => {
                return Err(match key {
                    "import_c" | "import_llvm" => Self::imported(key),
                    _ => format!("the value \"{text}\" was given; it takes a number, or none"),
                });
            }
        };
        let switch = || match number {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(format!("the value {number} was given; it takes 0 or 1")),
        };
        let plain = |pragma: Self| match number {
            1 => Ok(pragma),
            _ => Err(format!("the value {number} was given; it takes none (or 1)")),
        };
        match key {
            "auto_unroll_max_step" if number >= 0 => Ok(Self::AutoUnrollMaxStep(number)),
            "auto_unroll_max_step" => {
                Err(format!("the value {number} was given; it takes a number of steps, 0 or more"))
            }
            "unroll_explicit" => switch().map(Self::UnrollExplicit),
            "debug_skip_region" => plain(Self::DebugSkipRegion),
            "parallel_launch_point" => plain(Self::ParallelLaunchPoint),
            "parallel_stride_pattern" => plain(Self::ParallelStridePattern),
            "parallel_barrier_when_finish" => plain(Self::ParallelBarrierWhenFinish),
            "import_c" | "import_llvm" => Err(Self::imported(key)),
            _ => Err("there are auto_unroll_max_step, unroll_explicit, debug_skip_region, parallel_launch_point, \
                 parallel_stride_pattern and parallel_barrier_when_finish"
                .to_owned()),
        }
    }

    fn imported(key: &str) -> String {
        format!(
            "`{key}` brings code of another language, which not every target could run; write an elementwise function \
             with a CUDA body, or tensor expressions"
        )
    }
}
