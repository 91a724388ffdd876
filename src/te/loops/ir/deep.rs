//! A stack that is deep enough for a program. Code that walks statements descends by recursion; how deep they nest has
//! a limit (`lower/analysis/nesting.rs`), but a build without optimisation takes some thousand bytes for a level.

use std::{panic, thread};

use epilogue_runtime::Error;

use super::stmt::Stmt;
use crate::level;

/// Levels that any thread has a stack for.
const SHALLOW: usize = 32;

/// More than a walk takes for a level: at most 16 KiB in a build without optimisation. Untouched stack costs nothing.
const LEVEL_BYTES: usize = 32 << 10;

/// Runs a function that descends through at most `levels` nested statements, on a stack that is deep enough.
///
/// # Errors
/// The system gives no thread with a stack of this size.
pub(crate) fn descend<T: Send>(levels: usize, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    if levels <= SHALLOW {
        return Ok(work());
    }
    let stack = (2 << 20) + levels * LEVEL_BYTES;
    thread::scope(|scope| {
        let level = level::current();
        let thread = thread::Builder::new().stack_size(stack);
        let thread = thread.spawn_scoped(scope, move || level::within(level, work));
        let thread = thread.map_err(|error| Error::Thread { stack, reason: error.to_string() })?;
        Ok(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

impl Stmt {
    /// How deep statements nest in this one, itself included.
    pub(crate) fn depth(&self) -> usize {
        let (mut most, mut pending) = (0, vec![(self, 1)]);
        while let Some((statement, depth)) = pending.pop() {
            most = most.max(depth);
            pending.extend(statement.children().into_iter().map(|child| (child, depth + 1)));
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the stack of a test's thread has room for.
    #[test]
    fn as_deep_as_it_is_said_to_be() {
        fn down(levels: usize) -> usize {
            let held = std::hint::black_box([levels; 1024]);
            if levels == 0 { 0 } else { 1 + down(levels - 1) + (held[0] - levels) }
        }
        assert_eq!(descend(SHALLOW, || down(SHALLOW)).unwrap(), SHALLOW);
        assert_eq!(descend(1000, || down(1000)).unwrap(), 1000);
        // No process has an address like this.
        let refused = descend(1 << 32, || ()).unwrap_err();
        assert!(matches!(refused, Error::Thread { .. }), "{refused}");
    }

    #[test]
    fn depth_counts_the_longest_way() {
        let leaf = Stmt::Barrier;
        let inner = Stmt::Seq(vec![leaf.clone(), Stmt::Seq(vec![leaf.clone()])]);
        assert_eq!((leaf.depth(), inner.depth()), (1, 3));
    }
}
