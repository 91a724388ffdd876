//! The floating-point mode of the processor: how it rounds, and whether it takes subnormal numbers for 0.
//!
//! The mode belongs to a thread, and a new thread has that of the one that started it. So a program that has set
//! another one, as audio programs do, would get other results from everything that it calls. They would differ from
//! thread to thread. Code that computes for others does it [in the default mode](in_default_mode): rounding to nearest
//! even, subnormal numbers as they are, no traps.
//!
//! ```
//! use epilogue_float_mode::in_default_mode;
//!
//! let smallest = in_default_mode(|| f32::MIN_POSITIVE * 0.5);
//! assert!(smallest > 0.0);
//! ```

mod control;
#[doc(hidden)]
pub mod testing;

use control::Control;

/// Does some work in the default mode, on the caller's thread, and gives the caller back its own mode, also if the work
/// panics. If the mode is the default one already, that takes a few nanoseconds.
///
/// Threads that the work starts have the default mode, too, for as long as they live.
pub fn in_default_mode<R>(work: impl FnOnce() -> R) -> R {
    let _mode = DefaultMode::enter();
    outlined(work)
}

/// A function of its own, so that the compiler, which knows of no modes, moves no arithmetic past a change of the mode.
#[inline(never)]
fn outlined<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// The default mode, until it is dropped.
struct DefaultMode {
    /// The caller's mode, if it is not the default.
    callers: Option<Control>,
}

impl DefaultMode {
    fn enter() -> Self {
        let callers = Control::read();
        if callers.is_default() {
            return Self { callers: None };
        }
        Control::DEFAULT.write();
        Self { callers: Some(callers) }
    }
}

impl Drop for DefaultMode {
    fn drop(&mut self) {
        if let Some(callers) = self.callers.take() {
            callers.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::testing::{Strange, in_strange_mode};
    use super::*;

    /// Half of the smallest normal number, and a third as it is rounded.
    fn computed() -> [u32; 2] {
        [black_box(f32::MIN_POSITIVE) * black_box(0.5), black_box(1.0f32) / black_box(3.0)].map(f32::to_bits)
    }

    #[test]
    fn work_has_the_default_mode_and_the_caller_its_own() {
        let right = computed();
        assert_eq!(right, [1 << 22, 0x3eaa_aaab]);
        for strange in Strange::ALL {
            in_strange_mode(*strange, || {
                let callers = Control::read();
                let before = computed();
                assert_ne!(before, right, "{strange:?} is no other mode");
                assert_eq!(in_default_mode(|| (computed(), in_default_mode(computed))), (right, right));
                assert_eq!(in_default_mode(|| std::thread::spawn(computed).join().ok()), Some(right));
                assert_eq!((computed(), Control::read()), (before, callers), "the caller's mode has changed");
                assert!(std::panic::catch_unwind(|| in_default_mode(|| panic!("as it was said"))).is_err());
                assert_eq!(Control::read(), callers, "a panic has changed the caller's mode");
            });
        }
        assert!(Control::read().is_default());
    }
}
