//! The CPUs that threads run on.
//!
//! Linux often wakes a thread on the CPU of the thread that wakes it: on a virtual machine, it takes a CPU that halts
//! for one that the host has taken away (`available_idle_cpu` and `vcpu_is_preempted` in the kernel's scheduler). Two
//! threads then share a CPU until the load is balanced, for milliseconds. So a thread that is woken to help is kept off
//! the CPU of the thread that it helps. A helper that wakes its caller is kept off in the same way. The system chooses
//! among the other CPUs.

/// A thread that can be kept off CPUs.
#[derive(Debug)]
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) struct Placed {
    thread: libc::pid_t,
    /// The CPUs that it may use.
    allowed: libc::cpu_set_t,
    /// The CPU that it is kept off.
    off: std::sync::atomic::AtomicUsize,
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Placed {
    /// The calling thread; `None` if the system doesn't say what it may use, or if that is one CPU.
    pub(super) fn this() -> Option<Self> {
        // SAFETY: all bits of a set may be 0.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set has the size that is given; 0 is the calling thread.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed) };
        // SAFETY: the set is one.
        let count = unsafe { libc::CPU_COUNT(&allowed) };
        // SAFETY: it has no conditions.
        let thread = unsafe { libc::gettid() };
        (failed == 0 && count > 1).then(|| Self { thread, allowed, off: usize::MAX.into() })
    }

    /// Keeps the thread off the CPU that calls. What the system refuses only takes time.
    pub(super) fn keep_off_this_cpu(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        // SAFETY: it has no conditions.
        let here = unsafe { libc::sched_getcpu() };
        let Ok(here) = usize::try_from(here) else { return };
        if here >= libc::CPU_SETSIZE as usize || self.off.swap(here, Relaxed) == here {
            return;
        }
        let mut others = self.allowed;
        // SAFETY: the set has a bit for this CPU, as was tested; and the size that is given.
        unsafe {
            libc::CPU_CLR(here, &mut others);
            libc::sched_setaffinity(self.thread, size_of_val(&others), &raw const others);
        }
    }
}

/// Other systems choose themselves.
#[derive(Debug)]
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) enum Placed {}

#[cfg(not(all(target_os = "linux", not(miri))))]
impl Placed {
    pub(super) fn this() -> Option<Self> {
        None
    }

    pub(super) fn keep_off_this_cpu(&self) {
        match *self {}
    }
}
