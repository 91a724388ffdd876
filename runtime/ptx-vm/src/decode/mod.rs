//! Decodes the syntax tree to programs: names become rows, opcodes become handlers, and everything unknown is an error.
//!
//! [`decoder`] keeps the scopes and emits instructions. [`opcode`] and [`operands`] read the parts of an instruction.
//! Most other modules decode one group of instructions each. [`allocate`] assigns rows of the register file. Device
//! functions are expanded at every call; recursion and calls through pointers are refused.

mod allocate;
mod arithmetic;
mod asynchronous;
mod atomics;
mod bind;
mod blocks;
mod bulk;
mod collective;
mod comparison;
mod control;
mod conversion;
mod data;
mod dataflow;
mod decoder;
mod effect;
mod floating;
mod hopper;
mod kernel;
mod layout;
mod matrix;
mod opcode;
mod operands;
mod symbols;
mod system;
mod tcgen05;
mod video;

use crate::error::ParseError;
use crate::program::Kernel;
use crate::program::ModuleVariable;
use crate::syntax;

/// The content of a text.
pub(crate) struct Decoded {
    pub(crate) kernels: Vec<Kernel>,
    /// Kernels with an unsupported instruction, and the error.
    pub(crate) refused: Vec<(String, ParseError)>,
    pub(crate) variables: Vec<ModuleVariable>,
    pub(crate) target: String,
}

/// Decodes a text. A kernel with an unsupported instruction is refused. It is an error for the whole text only if no
/// other kernel is left.
pub(crate) fn decode(text: &str) -> Result<Decoded, ParseError> {
    let module = syntax::parse(text)?;
    let globals = symbols::Globals::new(&module)?;
    let (mut kernels, mut refused) = (vec![], vec![]);
    for function in module.functions.iter().filter(|f| f.is_entry) {
        match kernel::kernel(&module, &globals, function) {
            Ok(kernel) => kernels.push(kernel),
            Err(error @ ParseError::Unsupported { .. }) => refused.push((function.name.to_owned(), error)),
            Err(error) => return Err(error),
        }
    }
    if kernels.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    Ok(Decoded { kernels, refused, variables: globals.into_variables(), target: module.target.to_owned() })
}
