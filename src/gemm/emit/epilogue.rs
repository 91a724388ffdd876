//! The definitions of an epilogue, which a visitor or a tail uses.

use super::arguments::EpilogueArguments;
use super::element::{ElementFunction, Guard};
use crate::cuda::Writer;
use crate::evt::ValidTree;
use crate::expr::cuda::Functions;
use crate::gemm::kernel::ArgumentViews;

/// An epilogue's arguments and the functions of one element, ready to be written.
pub(crate) struct EpilogueText<'a> {
    pub(super) tree: &'a ValidTree,
    pub(super) arguments: EpilogueArguments,
    pub(super) element: ElementFunction,
    pub(super) guards: Vec<Guard>,
}

impl<'a> EpilogueText<'a> {
    /// `functions` collects what it calls.
    pub(super) fn of(tree: &'a ValidTree, views: ArgumentViews, functions: &mut Functions) -> Self {
        let (element, guards) = (ElementFunction::of(tree, functions), Guard::all(tree, functions));
        Self { tree, arguments: EpilogueArguments::of(tree, views), element, guards }
    }

    /// Writes the definitions, in a file of this name.
    pub(super) fn write(&self, code: &mut Writer, file: &str) {
        code.verbatim(&self.element.text);
        code.resume_numbering(file);
        for guard in &self.guards {
            code.blank();
            code.verbatim(&guard.text);
        }
        code.blank();
        code.verbatim(&self.arguments.layout.cuda());
    }
}
