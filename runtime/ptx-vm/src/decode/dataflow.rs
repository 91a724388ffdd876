//! Reads and writes of instructions, and how they pass undefined values on. The executor uses it to follow undefined
//! values until they are used.

use super::decoder::Decoder;
use crate::program::dataflow::{self, Dataflow, Passage};

impl Decoder<'_> {
    /// The rows and predicates that each instruction reads and writes.
    pub(super) fn dataflow(&self, rows: &[u32]) -> Dataflow {
        let mut dataflow = Dataflow::default();
        let rows_of = |ids: &[u32]| ids.iter().map(|&id| rows[id as usize]).collect::<Vec<_>>();
        for (index, effect) in self.effects.iter().enumerate() {
            let opcode = &self.opcodes[self.origins[index].opcode as usize];
            let passage = match passage(opcode) {
                _ if self.extensions.contains(&index) => Passage::Passes,
                Passage::Passes if opcode.starts_with("mov") && effect.uses.len() > 1 => Passage::Packs,
                passage => passage,
            };
            dataflow.push(dataflow::Effect {
                uses: &rows_of(&effect.uses),
                defs: &rows_of(&effect.defs),
                predicate_uses: &effect.predicate_uses,
                predicate_defs: &effect.predicate_defs,
                passage,
            });
        }
        dataflow
    }
}

/// How an instruction passes undefined values on. Instructions that only compute each lane's result from its operands
/// pass them from the operands to the result.
fn passage(opcode: &str) -> Passage {
    const PURE: [&str; 69] = [
        "mov",
        "add",
        "addc",
        "sub",
        "subc",
        "mul",
        "mul24",
        "mad",
        "mad24",
        "madc",
        "fma",
        "div",
        "rem",
        "abs",
        "neg",
        "min",
        "max",
        "and",
        "or",
        "xor",
        "not",
        "cnot",
        "shl",
        "shr",
        "shf",
        "bfe",
        "bfi",
        "lop3",
        "cvt",
        "slct",
        "popc",
        "clz",
        "brev",
        "bfind",
        "ex2",
        "lg2",
        "rcp",
        "rsqrt",
        "sqrt",
        "sin",
        "cos",
        "tanh",
        "copysign",
        "set",
        "setp",
        "testp",
        "isspacep",
        "cvta",
        "sad",
        "dp2a",
        "dp4a",
        "bmsk",
        "szext",
        "fns",
        "mapa",
        "getctarank",
        "vadd",
        "vsub",
        "vabsdiff",
        "vmin",
        "vmax",
        "vshl",
        "vshr",
        "vmad",
        "vset",
        "vadd2",
        "vsub2",
        "vadd4",
        "vsub4",
    ];
    let base = opcode.split('.').next().unwrap_or_default();
    match base {
        "selp" => Passage::Chooses,
        "and" | "or" | "xor" | "not" | "mov" if opcode.ends_with(".pred") => Passage::Decides,
        "and" | "or" => Passage::Masks,
        "prmt" => Passage::Packs,
        "mul" | "mad" if !opcode.contains(".f") && !opcode.contains(".bf") => Passage::Masks,
        "mma" => Passage::Multiplies,
        "wgmma" if opcode.starts_with("wgmma.mma_async") => Passage::Accumulates,
        "wgmma" => Passage::Keeps,
        "shfl" => Passage::Exchanges,
        "st" if !opcode.contains(".async") => Passage::Stores,
        "stmatrix" => Passage::Stores,
        "tcgen05" if opcode.contains(".st.") => Passage::Stores,
        _ if PURE.contains(&base) => Passage::Passes,
        _ => Passage::Uses,
    }
}
