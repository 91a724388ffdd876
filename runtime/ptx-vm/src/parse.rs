//! Parses PTX text into a module.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use epilogue_float_mode::in_default_mode;

use crate::decode;
use crate::error::ParseError;
use crate::module::{Contents, Module};

impl Module {
    /// Parses, decodes and checks PTX text.
    ///
    /// # Errors
    /// [`ParseError`] for text that breaks the grammar, with its line. If a kernel has an instruction, modifier or type
    /// that this machine does not implement, only that kernel is refused ([`Module::refused`]); it is an error here if
    /// no other kernel is left.
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
        let decode::Decoded { kernels, refused, variables, target } = in_default_mode(|| decode::decode(text))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { contents: Arc::new(Contents { id, target, kernels, refused, variables }) })
    }
}
