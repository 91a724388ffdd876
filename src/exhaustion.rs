//! Memory that a run needs in its middle, in proportion to its tensors. If there is none, the run ends with an error.
//!
//! Threads allocate this memory deep in loops over tiles. From there the stack is unwound, without a message, to where
//! the run began, as with a panic; [`caught`] makes an error of it. Results that the run has written until then stay.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use epilogue_runtime::{Error, HostBytes};

/// The payload of the unwinding.
struct Exhausted(Error);

/// Ends the run that [`caught`] has begun.
pub(crate) fn ended(error: Error) -> ! {
    resume_unwind(Box::new(Exhausted(error)))
}

/// Gives the vector this length, if it is shorter.
pub(crate) fn grow<T: Clone>(all: &mut Vec<T>, length: usize, value: T) {
    if all.len() < length {
        resize(all, length, value);
    }
}

/// Gives the vector this length.
pub(crate) fn resize<T: Clone>(all: &mut Vec<T>, length: usize, value: T) {
    try_resize(all, length, value).unwrap_or_else(|error| ended(error));
}

fn try_resize<T: Clone>(all: &mut Vec<T>, length: usize, value: T) -> Result<(), Error> {
    let missing = length.saturating_sub(all.len());
    let bytes = missing.saturating_mul(size_of::<T>());
    if !HostBytes::have_room(bytes) || all.try_reserve(missing).is_err() {
        return Err(Error::OutOfMemory { device: "the CPU".to_owned(), bytes });
    }
    all.resize(length, value);
    Ok(())
}

/// A vector that repeats a value.
pub(crate) fn repeated<T: Clone>(value: T, length: usize) -> Vec<T> {
    try_repeated(value, length).unwrap_or_else(|error| ended(error))
}

/// Makes the vector before a run.
///
/// # Errors
/// There is not enough memory.
pub(crate) fn try_repeated<T: Clone>(value: T, length: usize) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    try_resize(&mut all, length, value)?;
    Ok(all)
}

/// Does work that may need more memory than there is.
///
/// # Errors
/// The errors of the work; [`Error::OutOfMemory`].
pub(crate) fn caught<R, E: From<Error>>(work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    // Work that ends in its middle has changed only the run's own memory and its results. That memory is cleared before its
    // next use; results are not promised.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| match payload.downcast::<Exhausted>() {
        Ok(exhausted) => Err(exhausted.0.into()),
        Err(panic) => resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel;

    #[test]
    fn where_there_is_no_memory_there_is_an_error() {
        let most = isize::MAX as usize / 8;
        let ended = |work: &dyn Fn()| {
            caught::<(), Error>(|| {
                work();
                Ok(())
            })
        };
        assert!(
            matches!(ended(&|| drop(repeated(0f64, most))), Err(Error::OutOfMemory { bytes, .. }) if bytes == 8 * most)
        );
        assert!(matches!(ended(&|| grow(&mut vec![0u8; 3], usize::MAX, 0)), Err(Error::OutOfMemory { .. })));
        let of_threads = || parallel::for_each(parallel::pieces(100, 1), |_| drop(repeated(0f64, most)));
        assert!(matches!(ended(&of_threads), Err(Error::OutOfMemory { .. })));
        assert!(ended(&|| drop(repeated(0u8, 100))).is_ok());
        let panicked = catch_unwind(|| caught::<(), Error>(|| resume_unwind(Box::new(7))));
        assert_eq!(panicked.unwrap_err().downcast_ref::<i32>(), Some(&7), "a panic stays one");
    }

    /// Runs in processes that may have hardly more memory than they have: each product is done, or says that there was none.
    #[cfg(target_os = "linux")]
    #[test]
    fn runs_that_find_no_memory_end_with_an_error() {
        use std::process::Command;

        const NAME: &str = "exhaustion::tests::runs_that_find_no_memory_end_with_an_error";
        const CHILD: &str = "EPILOGUE_TEST_MEMORY_LEFT";
        if let Ok(left) = std::env::var(CHILD) {
            return products_with(left.parse().expect("a number"));
        }
        let this = std::env::current_exe().expect("this program");
        let mut refused = 0;
        for left in [0usize, 1 << 18, 1 << 20, 3 << 20] {
            let mut child = Command::new(&this);
            child.args(["--exact", NAME, "--nocapture"]).env(CHILD, left.to_string());
            // Large memory comes from the system, not from memory that earlier work has freed.
            child.envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TOP_PAD_", "0")]);
            let output = child.output().expect("a process");
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{left} bytes left: {said}");
            refused += said.matches("no room for").count();
        }
        assert!(refused > 0, "some of them find none");
    }

    #[cfg(target_os = "linux")]
    fn products_with(left: usize) {
        use epilogue_runtime::{Device, ElementType};

        use crate::evt::{BroadcastClass, TreeBuilder};
        use crate::gemm::Builder;
        use crate::{Argument, Gemm};

        let cpu = Device::cpu();
        let plan = |element: ElementType, [m, n, k]: [usize; 3]| -> Gemm<()> {
            let mut tree = TreeBuilder::new("summed", "exhaustion.rs");
            let accum = tree.accum("accum");
            tree.output("d", accum, BroadcastClass::Tensor, Some(ElementType::F64));
            let builder = Builder::<()>::new(&cpu, tree.finish()).elements(element, element).problem(m, n, k);
            builder.plan().expect("a plan")
        };
        let shapes = [[130, 200, 1100], [20, 300, 1000]];
        let elements = [ElementType::F32, ElementType::F64, ElementType::BF16, ElementType::I8, ElementType::F8E4M3];
        let all: Vec<_> = elements
            .iter()
            .flat_map(|element| shapes.map(|shape| (*element, shape)))
            .map(|(element, [m, n, k])| {
                let a = cpu.zeros_of(element, [m, k]).expect("memory");
                let b = cpu.zeros_of(element, [k, n]).expect("memory");
                (plan(element, [m, n, k]), a, b, cpu.zeros::<f64>([m, n]).expect("memory"))
            })
            .collect();
        // The threads are there before, each with its own heap.
        let warm = plan(ElementType::F32, [64, 64, 64]);
        let square = cpu.zeros::<f32>([64, 64]).expect("memory");
        let mut d = cpu.zeros::<f64>([64, 64]).expect("memory");
        for _ in 0..20 {
            warm.run_bound(&cpu.default_stream(), &square, &square, [("d", Argument::Output(&mut d))]).expect("warm");
        }
        // Small memory comes from memory that was freed here.
        let small = (0..4000).map(|i| vec![1u8; if i % 20 == 0 { 32 << 10 } else { 512 }]);
        let (kept, freed): (Vec<_>, Vec<_>) = small.enumerate().partition(|(i, _)| i % 8 == 7);
        drop(freed);
        limit_memory(left);
        for (plan, a, b, mut d) in all {
            match plan.run_bound(&cpu.default_stream(), &a, &b, [("d", Argument::Output(&mut d))]) {
                Ok(()) => {}
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("no room for"), "{said}");
                    // It is the output of a child.
                    #[allow(clippy::print_stdout, reason = "the parent counts it")]
                    {
                        println!("{said}");
                    }
                }
            }
        }
        drop(kept);
    }

    /// Lets the process have this many bytes of addresses more than it has.
    #[cfg(target_os = "linux")]
    fn limit_memory(left: usize) {
        let has = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
        let pages: usize = has.split(' ').next().and_then(|pages| pages.parse().ok()).expect("pages");
        let most = (pages * 4096 + left) as libc::rlim_t;
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: a valid place to read from.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    }
}
