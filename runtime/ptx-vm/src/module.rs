//! A module: PTX text that was parsed, decoded and checked, ready to launch on any machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode;
use crate::error::ParseError;
use crate::program::{Kernel, ModuleVariable};

/// A parsed and decoded module. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    pub(crate) contents: Arc<Contents>,
}

pub(crate) struct Contents {
    /// Identifies the module to the machines that hold its variables.
    pub(crate) id: u64,
    pub(crate) target: String,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) variables: Vec<ModuleVariable>,
}

impl Module {
    /// Parses, decodes and checks PTX text.
    ///
    /// # Errors
    /// [`ParseError`] for text that breaks the grammar and for every instruction, modifier or type that this machine does
    /// not implement, with its line.
    ///
    /// ```
    /// let module = ptx_vm::Module::parse(
    ///     ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }",
    /// )?;
    /// assert_eq!(module.kernels().map(|k| k.name()).collect::<Vec<_>>(), ["empty"]);
    /// # Ok::<(), ptx_vm::ParseError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (kernels, variables, target) = decode::decode(text)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { contents: Arc::new(Contents { id, target, kernels, variables }) })
    }

    /// Its kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.contents.kernels.iter()
    }

    /// The `.target` of the text, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.contents.target
    }

    /// The kernel of this name, if there is one.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|k| k.name == name)
    }
}
