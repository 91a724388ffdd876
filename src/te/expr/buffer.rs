//! Buffers: the memory that a program reads and writes.

use std::fmt;
use std::sync::Arc;

use super::expression::Expr;
use crate::te::dtype::DType;

/// Memory that a program reads and writes: an argument's, or memory that the program allocates.
#[derive(Clone)]
pub struct Buffer(Arc<BufferData>);

struct BufferData {
    name: String,
    dtype: DType,
    shape: Vec<Expr>,
    strides: Vec<Expr>,
    scope: Scope,
    /// The dimensions before which an axis separator stands: indices before and after it are flattened to separate
    /// indices.
    separators: Vec<usize>,
}

/// Where memory is, from the widest scope to the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Memory of all threads of the device.
    Global,
    /// Memory of one block.
    Shared,
    /// Memory of one warp. It lies in the block's shared memory, for all warps together, so that they compute shared
    /// values only once.
    Warp,
    /// Private memory of one thread.
    Local,
}

impl Scope {
    /// TVM's name of the scope.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Warp => "warp",
            Self::Local => "local",
        }
    }

    /// Whether one thread reads what another wrote.
    pub(crate) const fn is_shared_by_threads(self) -> bool {
        !matches!(self, Self::Local)
    }

    /// The scope with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Global, Self::Shared, Self::Warp, Self::Local].into_iter().find(|scope| scope.name() == name)
    }
}

impl Buffer {
    /// Memory of `shape`, element `(i, j, …)` at `i * strides[0] + j * strides[1] + …`.
    pub(crate) fn new(name: &str, dtype: DType, shape: Vec<Expr>, strides: Vec<Expr>, scope: Scope) -> Self {
        Self(Arc::new(BufferData { name: name.to_owned(), dtype, shape, strides, scope, separators: Vec::new() }))
    }

    /// The memory with axis separators before the given dimensions.
    pub(crate) fn flattened_apart(&self, separators: Vec<usize>) -> Self {
        let BufferData { name, dtype, shape, strides, scope, .. } = &*self.0;
        let (name, shape, strides) = (name.clone(), shape.clone(), strides.clone());
        Self(Arc::new(BufferData { name, dtype: *dtype, shape, strides, scope: *scope, separators }))
    }

    /// The dimensions before which an axis separator stands: indices before and after it are flattened to separate
    /// indices.
    #[must_use]
    pub fn separators(&self) -> &[usize] {
        &self.0.separators
    }

    /// Groups of dimensions that are flattened to one index each.
    pub(crate) fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let mut begin = 0;
        let ends = self.0.separators.iter().copied().chain([self.0.shape.len()]);
        ends.map(|end| std::mem::replace(&mut begin, end)..end).collect()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Extents.
    #[must_use]
    pub fn shape(&self) -> &[Expr] {
        &self.0.shape
    }

    /// Strides, in elements.
    #[must_use]
    pub fn strides(&self) -> &[Expr] {
        &self.0.strides
    }

    /// Its memory scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.0.scope
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Buffer {}

impl std::hash::Hash for Buffer {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({})", self.0.name)
    }
}
