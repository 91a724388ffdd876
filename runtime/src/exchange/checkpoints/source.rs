//! Where a checkpoint's tensors come from.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use crate::layout::element::ElementType;

/// A tensor as a file holds it: row-major, little-endian, at any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor<'a> {
    pub(super) element: Option<ElementType>,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: &'a [u8],
}

impl<'a> StoredTensor<'a> {
    /// A tensor of this element type, shape and bytes. Bytes of another length are refused when it is read.
    #[must_use]
    pub fn new(element: ElementType, shape: impl Into<Vec<usize>>, bytes: &'a [u8]) -> Self {
        Self { element: Some(element), shape: shape.into(), bytes }
    }
}

/// Tensors by name.
pub trait TensorSource {
    /// The tensor with this name, if there is one.
    fn stored(&self, name: &str) -> Option<StoredTensor<'_>>;
}

impl<K: Borrow<str> + Ord> TensorSource for BTreeMap<K, StoredTensor<'_>> {
    fn stored(&self, name: &str) -> Option<StoredTensor<'_>> {
        self.get(name).cloned()
    }
}

impl<K: Borrow<str> + Eq + Hash, S: BuildHasher> TensorSource for HashMap<K, StoredTensor<'_>, S> {
    fn stored(&self, name: &str) -> Option<StoredTensor<'_>> {
        self.get(name).cloned()
    }
}

/// The first that has the tensor: shards of a checkpoint.
impl<T: TensorSource> TensorSource for [T] {
    fn stored(&self, name: &str) -> Option<StoredTensor<'_>> {
        self.iter().find_map(|source| source.stored(name))
    }
}

#[cfg(feature = "safetensors")]
impl TensorSource for safetensors::SafeTensors<'_> {
    fn stored(&self, name: &str) -> Option<StoredTensor<'_>> {
        let view = self.tensor(name).ok()?;
        let element = crate::exchange::safetensors::element(view.dtype()).ok();
        Some(StoredTensor { element, shape: view.shape().to_vec(), bytes: view.data() })
    }
}
