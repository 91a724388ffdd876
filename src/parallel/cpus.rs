//! The CPUs that threads run on.
//!
//! Linux often wakes a thread on the CPU of the thread that wakes it: on a virtual machine, it takes a CPU that halts
//! for one that the host has taken away. (See `available_idle_cpu` and `vcpu_is_preempted` in the kernel's scheduler.)
//! Two threads then share a CPU until the load is balanced, for milliseconds. So a thread that is woken to help is kept
//! off the CPU of the thread that it helps. A helper that wakes its caller is kept off in the same way. The system
//! chooses among the other CPUs.

/// A thread that can be kept off CPUs.
#[derive(Debug)]
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) struct Placed {
    thread: libc::pid_t,
    /// The CPU that it is kept off.
    off: std::sync::atomic::AtomicUsize,
    masks: std::sync::Mutex<Masks>,
}

/// CPUs that a thread may use.
#[derive(Debug)]
#[cfg(all(target_os = "linux", not(miri)))]
struct Masks {
    /// According to whoever says so: the system, an administrator.
    allowed: libc::cpu_set_t,
    /// The set that was set here last.
    set: libc::cpu_set_t,
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Placed {
    /// The calling thread; `None` if the system doesn't say what it may use.
    pub(super) fn this() -> Option<Self> {
        // SAFETY: it has no conditions.
        let thread = unsafe { libc::gettid() };
        let allowed = mask(thread)?;
        Some(Self { thread, off: usize::MAX.into(), masks: Masks { allowed, set: allowed }.into() })
    }

    /// Keeps the thread off the CPU that calls, if it may use others. A refusal of the system only takes time.
    ///
    /// Others may say at any time which CPUs a process uses (`taskset -a -p`), and are not contradicted. If a thread's
    /// set is not the one that was set here last, they have set it. The caller's set is theirs, too: nobody here keeps
    /// the caller off a CPU.
    pub(super) fn keep_off_this_cpu(&self) {
        // SAFETY: it has no conditions.
        let here = unsafe { libc::sched_getcpu() };
        if let Ok(here) = usize::try_from(here) {
            self.keep_off(here);
        }
    }

    fn keep_off(&self, here: usize) {
        use std::sync::atomic::Ordering::Relaxed;
        if here >= libc::CPU_SETSIZE as usize || self.off.swap(here, Relaxed) == here {
            return;
        }
        // Another caller is about to do the same.
        let Ok(mut masks) = self.masks.try_lock() else { return };
        let (Some(now), Some(callers)) = (mask(self.thread), mask(0)) else { return };
        if !is_same(&now, &masks.set) || is_same(&now, &callers) {
            masks.allowed = now;
        }
        let mut others = masks.allowed;
        // SAFETY: the set has a bit for this CPU, as was tested.
        unsafe { libc::CPU_CLR(here, &mut others) };
        // SAFETY: the set is one.
        if unsafe { libc::CPU_COUNT(&others) } == 0 || is_same(&others, &now) {
            return;
        }
        // SAFETY: the set has the size that is given.
        if unsafe { libc::sched_setaffinity(self.thread, size_of_val(&others), &raw const others) } == 0 {
            masks.set = others;
        }
    }
}

/// The CPUs that a thread may use now; 0 is the caller.
#[cfg(all(target_os = "linux", not(miri)))]
fn mask(thread: libc::pid_t) -> Option<libc::cpu_set_t> {
    // SAFETY: all bits of a set may be 0.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the size that is given.
    let failed = unsafe { libc::sched_getaffinity(thread, size_of_val(&mask), &raw mut mask) };
    (failed == 0).then_some(mask)
}

#[cfg(all(target_os = "linux", not(miri)))]
fn is_same(a: &libc::cpu_set_t, b: &libc::cpu_set_t) -> bool {
    // SAFETY: both are sets.
    unsafe { libc::CPU_EQUAL(a, b) }
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn only(cpu: usize) -> libc::cpu_set_t {
        // SAFETY: all bits of a set may be 0, and the set has a bit for the CPU.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            set
        }
    }

    fn set(thread: libc::pid_t, mask: &libc::cpu_set_t) {
        // SAFETY: the set has the size that is given.
        assert_eq!(unsafe { libc::sched_setaffinity(thread, size_of_val(mask), mask) }, 0);
    }

    /// As `taskset -a -p` does for all threads, which nothing changes again; and when it is over, threads are apart again.
    #[test]
    fn what_others_say_of_cpus_is_not_contradicted() {
        let (placed, is_placed) = channel();
        let (end, may_end) = channel::<()>();
        let thread = std::thread::spawn(move || {
            placed.send(Placed::this().expect("this is Linux")).expect("somebody listens");
            let _ = may_end.recv();
        });
        let other = is_placed.recv().expect("it is there");
        let all = mask(0).expect("this is Linux");
        // SAFETY: the set has a bit for each of these CPUs.
        let cpus: Vec<usize> =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &all) }).collect();
        let [first, second, ..] = cpus[..] else { return };
        let now = || mask(other.thread).expect("it lives");
        let mut but_first = all;
        // SAFETY: the set has a bit for it.
        unsafe { libc::CPU_CLR(first, &mut but_first) };
        other.keep_off(first);
        assert!(is_same(&now(), &but_first));
        for allowed in [first, second] {
            // Whatever was set here last.
            for before in [first, second] {
                set(other.thread, &all);
                other.keep_off(if before == first { second } else { first });
                other.keep_off(before);
                set(0, &only(allowed));
                set(other.thread, &only(allowed));
                [first, second, first].into_iter().for_each(|cpu| other.keep_off(cpu));
                assert!(is_same(&now(), &only(allowed)), "{allowed}, {before}");
                set(0, &all);
            }
        }
        set(other.thread, &all);
        other.keep_off(second);
        other.keep_off(first);
        assert!(is_same(&now(), &but_first));
        drop(end);
        thread.join().expect("no panic");
    }
}
