//! A kind of device before there is a plan: what it can do, and how it chooses.

use super::choice::Choice;
use super::operation::Operation;
use crate::ElementType;
use crate::evt::Prices;
use crate::gemm::model::selection::Request;
use crate::gemm::problem::{Arithmetic, Error, Knob, Quantization};

/// A kind of device.
pub(crate) trait Backend {
    /// The cost of a tree's values, by which an epilogue is divided into parts.
    fn prices(&self) -> Prices;

    /// Why it doesn't multiply operands of these types, as advice; `None` if it does.
    fn refuses(&self, types: (ElementType, ElementType), arithmetic: Arithmetic) -> Option<&'static str>;

    /// Whether it multiplies quantised weights of this format.
    fn multiplies_weights(&self, format: Quantization) -> bool;

    /// Why it doesn't have a knob; `None` if it has.
    fn lacks(&self, knob: Knob) -> Option<&'static str>;

    /// Chooses how an operation is computed. Nothing is compiled, and no text is written.
    ///
    /// # Errors
    /// A request that no kernel satisfies, or a product that fits none.
    fn choose(&self, operation: &Operation, request: &Request) -> Result<Choice, Error>;
}
