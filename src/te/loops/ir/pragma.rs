//! Pragmas: properties of a loop that change how it runs, not what it computes.

/// A pragma of a loop. It holds for the loop and everything inside it.
///
/// The two pragmas of unrolling follow TVM's rules (see [`UnrollConfig`](crate::te::UnrollConfig)). Lowering applies
/// them, and removes a skipped region, so the lowered program has none of these. The three pragmas of parallel loops
/// are kept and printed, and refused where they have no meaning. They don't change how native code runs: it starts its
/// threads at every parallel loop, gives each a contiguous piece of the iterations, and waits at the loop's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pragma {
    /// `auto_unroll_max_step`: loops whose iterations have at most this many statements in all are unrolled.
    AutoUnrollMaxStep(i64),
    /// `unroll_explicit`: whether unrolled loops are written out, or only marked for the target's compiler.
    UnrollExplicit(bool),
    /// `debug_skip_region`: the loop is left out, so what it would compute is missing. For measuring the rest.
    DebugSkipRegion,
    /// `parallel_launch_point`: one team of CPU threads is launched here, and shares the parallel loops inside.
    ParallelLaunchPoint,
    /// `parallel_stride_pattern`: iterations of the parallel loop go to the threads in turn, not in contiguous pieces.
    ParallelStridePattern,
    /// `parallel_barrier_when_finish`: the threads of the team wait for each other at the loop's end.
    ParallelBarrierWhenFinish,
}

/// The value that a pragma is given: none (`()`), a number or truth value, or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PragmaValue {
    /// No value. It means 1 where a number is needed.
    None,
    /// A number; a truth value is 0 or 1.
    Int(i64),
    /// Text. No existing pragma takes it.
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
    /// TVM's key of the pragma.
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

    /// The value; 1 for a pragma without one.
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
