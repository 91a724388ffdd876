//! Other modes, for tests.

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
use crate::control::Control;

/// A mode that is not the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strange {
    /// Subnormal numbers are 0.
    Flushing,
    /// Results are rounded down.
    Down,
    /// Results are rounded up, and subnormal numbers are 0.
    UpAndFlushing,
    /// Results are rounded towards zero.
    TowardsZero,
}

impl Strange {
    /// All of them; none if this crate knows no modes.
    pub const ALL: &[Self] = if cfg!(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))) {
        &[Self::Flushing, Self::Down, Self::UpAndFlushing, Self::TowardsZero]
    } else {
        &[]
    };
}

/// Does some work in another mode.
pub fn in_strange_mode<R>(strange: Strange, work: impl FnOnce() -> R) -> R {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        let (flush, rounding) = match strange {
            Strange::Flushing => (true, 0),
            Strange::Down => (false, 1),
            Strange::UpAndFlushing => (true, 2),
            Strange::TowardsZero => (false, 3),
        };
        let _back = Back(Control::read());
        Control::with(flush, rounding).write();
        crate::outlined(work)
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        _ = strange;
        work()
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
struct Back(Control);

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
impl Drop for Back {
    fn drop(&mut self) {
        self.0.write();
    }
}
