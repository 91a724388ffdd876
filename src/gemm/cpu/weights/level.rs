//! The instructions that a CPU has for products with codes.

use super::lanes::{OnLanes, Portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// The instructions that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// With VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best of them.
    pub(super) fn of_this_cpu() -> Self {
        Self::all().last().unwrap_or(Self::Portable)
    }

    /// All that this CPU has, the best at the end.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let others = {
            macro_rules! has {
                ($($name:tt)*) => { true $(&& is_x86_feature_detected!($name))* };
            }
            let avx2 = has!("avx2" "fma" "f16c");
            let avx512 = avx2 && has!("avx512f" "avx512bw" "avx512vl" "avx512dq" "avx512vnni");
            [avx2.then_some(Self::Avx2), avx512.then_some(Self::Avx512)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let others: [Option<Self>; 0] = [];
        std::iter::once(Self::Portable).chain(others.into_iter().flatten())
    }
}

/// Runs work with the instructions of a level.
///
/// # Safety
/// The CPU must have them; the conditions of the work.
pub(super) unsafe fn at<W: OnLanes>(level: Level, work: W) {
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            Level::Portable => work.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::run(work),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::run(work),
        }
    }
}
