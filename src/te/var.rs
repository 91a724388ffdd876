//! Variables: sizes, and counters of loops and threads.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::dtype::DType;

/// A variable: a size given at run time, or a loop's counter. Two variables of one name are different.
#[derive(Clone, Copy)]
pub struct Var {
    id: u64,
    name: &'static str,
    dtype: DType,
    counts: bool,
}

/// A 32-bit integer variable: a size that is known when the kernel runs.
#[must_use]
pub fn var(name: &str) -> Var {
    Var::new(name, DType::I32)
}

impl Var {
    /// A fresh variable.
    #[must_use]
    pub fn new(name: &str, dtype: DType) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), name: intern(name), dtype, counts: false }
    }

    /// A fresh variable that counts a loop or a thread.
    pub(crate) fn counter(name: &str) -> Self {
        Self { counts: true, ..Self::new(name, DType::I32) }
    }

    /// A fresh variable that stands for a value computed inside a kernel.
    pub(crate) fn local(name: &str, dtype: DType) -> Self {
        Self { counts: true, ..Self::new(name, dtype) }
    }

    /// Whether it has a value only inside: it counts a loop or a thread, or stands for what is computed there.
    pub(crate) fn is_counter(self) -> bool {
        self.counts
    }

    /// The name it was made with.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its type.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.dtype
    }
}

/// Names live as long as the process; each different one is kept once.
pub(crate) fn intern(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

impl PartialEq for Var {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Var {}

impl std::hash::Hash for Var {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.id)
    }
}
