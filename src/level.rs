//! The level of vector instructions at which code on a thread runs: the level of the device that it works for.
//!
//! Entries that compute for a device do it [for](on) that device. The library's threads take the level over from the
//! thread whose job they do (`parallel`). Whoever chooses among instructions asks for the [`current`] level. A choice may be
//! kept in a plan or kernel only, which belongs to one device.

use std::cell::Cell;

use epilogue_float_mode::in_default_mode;
use epilogue_runtime::{CpuLevel, Device};

thread_local! {
    /// Outside of any work for a device: the highest that the CPU has.
    static LEVEL: Cell<Option<CpuLevel>> = const { Cell::new(None) };
}

/// The level at which this thread runs.
pub(crate) fn current() -> CpuLevel {
    LEVEL.get().unwrap_or_else(CpuLevel::highest)
}

/// Does work for a device: at its level, and in the default floating-point mode.
pub(crate) fn on<R>(device: &Device, work: impl FnOnce() -> R) -> R {
    within(device.cpu_level().unwrap_or_else(CpuLevel::highest), || in_default_mode(work))
}

/// Does work at a level that this CPU has. The thread has its own level again afterwards, also after a panic.
pub(crate) fn within<R>(level: CpuLevel, work: impl FnOnce() -> R) -> R {
    struct Before(Option<CpuLevel>);
    impl Drop for Before {
        fn drop(&mut self) {
            LEVEL.set(self.0);
        }
    }
    debug_assert!(CpuLevel::available().contains(&level), "this CPU has no {level}");
    let _before = Before(LEVEL.replace(Some(level)));
    work()
}

/// Computes the same at each level that this CPU has, the lowest first.
#[cfg(test)]
pub(crate) fn at_every_level<T>(mut of: impl FnMut() -> T) -> Vec<T> {
    CpuLevel::available().iter().map(|level| within(*level, &mut of)).collect()
}
