//! Variables: sizes, and counters of loops and threads.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use super::thread::Thread;
use crate::sync::lock;
use crate::te::dtype::DType;

/// A variable: a size given at run time, or a loop counter. Two variables with the same name are different variables.
#[derive(Clone, Copy)]
pub struct Var {
    id: u64,
    name: &'static str,
    dtype: DType,
    role: Role,
}

/// The role of a variable.
#[derive(Clone, Copy)]
enum Role {
    /// A size, known when the kernel runs.
    Size,
    /// A loop's counter, or a value computed inside.
    Counter,
    /// An index of threads or blocks.
    Thread(Option<Thread>),
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
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), name: intern(name), dtype, role: Role::Size }
    }

    /// A fresh variable that counts a loop or a thread.
    pub(crate) fn counter(name: &str) -> Self {
        Self { role: Role::Counter, ..Self::new(name, DType::I32) }
    }

    /// A fresh variable that stands for a value computed inside a kernel.
    pub(crate) fn local(name: &str, dtype: DType) -> Self {
        Self { role: Role::Counter, ..Self::new(name, dtype) }
    }

    /// A fresh variable for the index of threads or blocks; `thread` is `None` when the axis' name is not that of an
    /// index.
    pub(crate) fn of_thread(name: &str, thread: Option<Thread>) -> Self {
        Self { role: Role::Thread(thread), ..Self::new(name, DType::I32) }
    }

    /// A fresh variable like this one.
    pub(crate) fn another(self) -> Self {
        Self { id: Self::new(self.name, self.dtype).id, ..self }
    }

    /// The index of threads or blocks that it stands for.
    pub(crate) fn thread(self) -> Option<Thread> {
        match self.role {
            Role::Thread(thread) => thread,
            Role::Size | Role::Counter => None,
        }
    }

    /// Whether it has a value only inside a kernel: it counts a loop or a thread, or stands for a computed value.
    pub(crate) fn is_counter(self) -> bool {
        !matches!(self.role, Role::Size)
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

/// How many bytes of different names are kept.
const MOST_NAMES: usize = 1 << 22;

/// Names live as long as the process, and each different name is kept once. A name only helps the reader, so a process
/// that makes new names for ever gets `v` for all names beyond [`MOST_NAMES`] bytes.
fn intern(name: &str) -> &'static str {
    interned(name).unwrap_or("v")
}

/// The name, kept as long as the process lives; `None` beyond [`MOST_NAMES`] bytes.
pub(crate) fn interned(name: &str) -> Option<&'static str> {
    #[derive(Default)]
    struct Names {
        known: HashSet<&'static str>,
        bytes: usize,
    }
    static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);
    let mut names = lock(&NAMES);
    if let Some(known) = names.known.get(name) {
        return Some(known);
    }
    if names.bytes.saturating_add(name.len()) > MOST_NAMES {
        return None;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.bytes += name.len();
    names.known.insert(kept);
    Some(kept)
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
