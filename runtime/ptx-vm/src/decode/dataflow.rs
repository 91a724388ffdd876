//! What instructions read and write, and how they pass undefined values on. The executor uses it to follow such values
//! until they are used.

use super::decoder::Decoder;
use crate::program::dataflow::{Dataflow, Passage, RowEffect};

impl Decoder<'_> {
    /// The rows that each instruction reads and writes.
    pub(super) fn dataflow(&self, rows: &[u32]) -> Dataflow {
        let mut dataflow = Dataflow::default();
        let rows_of = |ids: &[u32]| ids.iter().map(|&id| rows[id as usize]).collect::<Vec<_>>();
        for (index, effect) in self.effects.iter().enumerate() {
            let opcode = &self.opcodes[self.origins[index].opcode as usize];
            let passage = if self.extensions.contains(&index) { Passage::Passes } else { passage(opcode) };
            dataflow.push(RowEffect { uses: &rows_of(&effect.uses), defs: &rows_of(&effect.defs), passage });
        }
        dataflow
    }
}

/// How an instruction passes undefined values on. Instructions that only compute each lane's result from its operands
/// pass them from the operands to the result.
fn passage(opcode: &str) -> Passage {
    const PURE: [&str; 45] = [
        "mov", "add", "addc", "sub", "subc", "mul", "mul24", "mad", "mad24", "madc", "fma", "div", "rem", "abs", "neg",
        "min", "max", "and", "or", "xor", "not", "cnot", "shl", "shr", "shf", "prmt", "bfe", "bfi", "lop3", "cvt",
        "slct", "popc", "clz", "brev", "bfind", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "copysign",
        "set",
    ];
    match opcode.split('.').next().unwrap_or_default() {
        "selp" => Passage::Chooses,
        "setp" | "testp" => Passage::Drops,
        "mma" => Passage::Multiplies,
        "shfl" => Passage::Exchanges,
        "st" if !opcode.contains(".async") => Passage::Stores,
        base if PURE.contains(&base) => Passage::Passes,
        _ => Passage::Uses,
    }
}
