//! The definitions of an epilogue, which a visitor or a tail uses.

use super::arguments::EpilogueArguments;
use super::element::{ElementFunction, Guard};
use crate::cuda::Writer;
use crate::evt::{Computation, Sweep, ValidTree};
use crate::expr::cuda::Functions;
use crate::gemm::kernel::ArgumentViews;

/// An epilogue's arguments and the functions of one element, ready to be written.
pub(crate) struct EpilogueText<'a> {
    pub(crate) tree: &'a ValidTree,
    pub(crate) arguments: EpilogueArguments,
    /// The walks over the elements, each with its function of one.
    pub(crate) sweeps: Vec<(Sweep<'a>, ElementFunction)>,
    pub(crate) guards: Vec<Guard>,
}

impl<'a> EpilogueText<'a> {
    /// `views` are the arguments that are no plain matrices; `functions` collects what it calls.
    pub(crate) fn of(of: &Computation<'a>, views: ArgumentViews, functions: &mut Functions) -> Self {
        let several = of.sweeps.len() > 1;
        let text = |(i, sweep): (usize, &Sweep<'a>)| {
            (sweep.clone(), ElementFunction::of(sweep.tree, several.then_some(i), functions))
        };
        let sweeps = of.sweeps.iter().enumerate().map(text).collect();
        let guards = Guard::all(of.tree, functions);
        let arguments = EpilogueArguments::of(of.tree, views);
        Self { tree: of.tree, arguments, sweeps, guards }
    }

    /// Writes the definitions, in a file of this name.
    pub(crate) fn write(&self, code: &mut Writer, file: &str) {
        for (i, (_, element)) in self.sweeps.iter().enumerate() {
            if i > 0 {
                code.blank();
            }
            code.verbatim(&element.text);
        }
        code.resume_numbering(file);
        for guard in &self.guards {
            code.blank();
            code.verbatim(&guard.text);
        }
        code.blank();
        code.verbatim(&self.arguments.layout.cuda());
    }
}
