//! From the syntax tree to programs: names become rows, opcodes become handlers, everything unknown becomes an error.
//!
//! [`decoder`] keeps scopes and emits instructions; [`opcode`] and [`operands`] read the parts of an instruction; every
//! other module knows one group of instructions; [`allocate`] assigns rows of the register file. Device functions are
//! expanded at every call: recursion and calls through pointers are refused.

mod allocate;
mod arithmetic;
mod asynchronous;
mod atomics;
mod bind;
mod bulk;
mod collective;
mod comparison;
mod control;
mod conversion;
mod data;
mod dataflow;
mod decoder;
mod floating;
mod hopper;
mod matrix;
mod opcode;
mod operands;
mod symbols;
mod system;
mod video;

use crate::error::ParseError;
use crate::program::Kernel;
use crate::program::ModuleVariable;
use crate::syntax;

/// Decodes a text: its kernels, its variables, its target.
pub(crate) fn decode(text: &str) -> Result<(Vec<Kernel>, Vec<ModuleVariable>, String), ParseError> {
    let module = syntax::parse(text)?;
    let globals = symbols::Globals::new(&module)?;
    let mut kernels = vec![];
    for function in module.functions.iter().filter(|f| f.is_entry) {
        kernels.push(decoder::kernel(&module, &globals, function)?);
    }
    Ok((kernels, globals.into_variables(), module.target.to_owned()))
}
