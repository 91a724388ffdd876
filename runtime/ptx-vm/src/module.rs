//! A module: PTX text that has been parsed, decoded and checked. It can be launched on any machine.

use std::sync::Arc;

use crate::error::ParseError;
use crate::program::{Kernel, ModuleVariable};

/// A parsed and decoded module. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    pub(crate) contents: Arc<Contents>,
}

pub(crate) struct Contents {
    /// Identifies the module in machines, which hold its variables.
    pub(crate) id: u64,
    pub(crate) target: String,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) refused: Vec<(String, ParseError)>,
    pub(crate) variables: Vec<ModuleVariable>,
}

impl Module {
    /// Its kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.contents.kernels.iter()
    }

    /// The kernels with an instruction that this machine does not implement, each with the error that names it. These
    /// kernels can't be launched; the others can.
    ///
    /// ```
    /// let module = ptx_vm::Module::parse(
    ///     ".version 8.0\n.target sm_80\n.address_size 64
    ///      .entry good() { ret; }
    ///      .entry odd() { multimem.red.relaxed.sys.global.add.u32 [0], 1; ret; }",
    /// )?;
    /// assert_eq!(module.kernels().map(|k| k.name()).collect::<Vec<_>>(), ["good"]);
    /// let (name, error) = module.refused().next().unwrap();
    /// assert!(name == "odd" && error.to_string().contains("multimem"));
    /// # Ok::<(), ptx_vm::ParseError>(())
    /// ```
    pub fn refused(&self) -> impl Iterator<Item = (&str, &ParseError)> {
        self.contents.refused.iter().map(|(name, error)| (name.as_str(), error))
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
