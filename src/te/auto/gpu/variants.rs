//! The kernels that one expression has been compiled to, one for every class of shapes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use epilogue_runtime::{Device, Kernel};

use super::emit::frame::Field;
use super::emit::reduce::Emitted;
use crate::te::error::TeError;
use crate::te::target::pool::lock;

/// A compiled kernel.
#[derive(Debug)]
pub(in crate::te::auto) struct Variant {
    pub(in crate::te::auto) fields: Vec<Field>,
    pub(in crate::te::auto) code: String,
    pub(in crate::te::auto) kernel: Kernel,
}

/// Compiled kernels by class.
pub(in crate::te::auto) struct Variants<C>(Mutex<HashMap<C, Arc<Variant>>>);

impl<C> Default for Variants<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Clone + Eq + Hash> Variants<C> {
    /// The kernel of a class: compiled where it is new, from what `emit` writes.
    pub(in crate::te::auto) fn of(
        &self,
        device: &Device,
        class: &C,
        emit: impl FnOnce() -> Result<Emitted, TeError>,
    ) -> Result<Arc<Variant>, TeError> {
        let mut variants = lock(&self.0);
        if let Some(variant) = variants.get(class) {
            return Ok(Arc::clone(variant));
        }
        let emitted = emit()?;
        let kernel = device.compile(&emitted.source)?;
        let variant = Arc::new(Variant { fields: emitted.fields, code: emitted.source.code, kernel });
        variants.insert(class.clone(), Arc::clone(&variant));
        Ok(variant)
    }
}
