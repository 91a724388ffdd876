//! How long a thread waits without sleeping.

use std::time::{Duration, Instant};

/// For how long a thread looks for work, or for the end of others' work, before it sleeps. A thread that sleeps takes 50 µs
/// to wake up, on a virtual machine (Zen 5, Linux 6.18).
const PATIENCE: Duration = Duration::from_micros(100);
/// How often it looks before it lets other threads have the core.
const LOOKS: usize = 32;

/// Looks until `found` gives something; `None` after a while.
pub(super) fn look<T>(found: impl Fn() -> Option<T>) -> Option<T> {
    let mut begin = None;
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = found() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        if begin.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return None;
        }
        std::thread::yield_now();
    }
}
