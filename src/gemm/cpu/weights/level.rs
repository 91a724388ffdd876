//! The instructions that a CPU has for products with codes.

#[cfg(target_arch = "x86_64")]
use epilogue_runtime::CpuLevel;

use super::lanes::{OnLanes, Portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
#[cfg(target_arch = "x86_64")]
use crate::level;

/// The instructions that a thread's [level](crate::level) has.
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
    pub(super) fn of_this_thread() -> Self {
        Self::all().last().unwrap_or(Self::Portable)
    }

    /// All that the thread's level has, the best at the end.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let others = {
            let level = level::current();
            let avx512 = level >= CpuLevel::Avx512 && is_x86_feature_detected!("avx512vnni");
            [(level >= CpuLevel::Avx2).then_some(Self::Avx2), avx512.then_some(Self::Avx512)]
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
