//! Elementwise cases: every thread applies one instruction to its own operands.

use ptx_vm::Arch;

use std::sync::Arc;

use crate::case::{Case, Compare, Extra, LaneForm, LaneOracle};
use crate::template;
use crate::values::{Kind, Random, lane_mask};

/// Number of threads of an elementwise case.
const THREADS: u32 = 128;
const BLOCKS: u32 = 8;

/// An instruction on registers only, with an oracle on the bits of the operands.
pub struct Elementwise {
    /// The full opcode.
    pub opcode: String,
    /// The operands after the destination, in order.
    pub operands: Vec<Kind>,
    /// The type of the destination.
    pub result: Kind,
    /// The instruction's result, zero-extended to 64 bits.
    pub oracle: LaneOracle,
    /// How results are compared.
    pub compare: Compare,
    /// Text after the last operand, such as an immediate with a comma before it.
    pub suffix: String,
    /// The architecture.
    pub target: Arch,
}

impl Elementwise {
    /// An instruction compared bit for bit.
    pub fn new(
        opcode: impl Into<String>,
        operands: &[Kind],
        result: Kind,
        oracle: impl Fn(&[u64]) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Elementwise {
            opcode: opcode.into(),
            operands: operands.to_vec(),
            result,
            oracle: Box::new(oracle),
            compare: Compare::Exact,
            suffix: String::new(),
            target: Arch::Sm80,
        }
    }

    /// Sets another comparison.
    #[must_use]
    pub fn compare(mut self, compare: Compare) -> Self {
        self.compare = compare;
        self
    }

    /// Sets text after the last operand.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = suffix.into();
        self
    }

    /// Sets sm_90a as target.
    #[must_use]
    pub fn hopper(mut self) -> Self {
        self.target = Arch::Sm90a;
        self
    }

    /// The case. Each thread has a row with a flag and its operands, 8 bytes each. A thread whose flag is 0 does not
    /// execute the instruction, and gives 0.
    pub fn case(self) -> Case {
        let Elementwise { opcode, operands, result, oracle, compare, suffix, target } = self;
        let row = 8 * (operands.len() + 1);
        let mut body = String::from("    ld.global.u32 %r389, [%rd60];\n    setp.ne.u32 %p15, %r389, 0;\n");
        for (index, kind) in operands.iter().enumerate() {
            body += &kind.load(index + 1, 8 * (index + 1));
        }
        body += &result.clear(0);
        let names: Vec<String> =
            operands.iter().enumerate().map(|(i, kind)| format!("{}{}", kind.register(), i + 1)).collect();
        body += &format!("    @%p15 {opcode} {}0, {}{suffix};\n", result.register(), names.join(", "));
        body += &result.store(0, 0);
        let oracle = Arc::new(oracle);
        let lane = LaneForm {
            opcode: opcode.clone(),
            operands: operands.clone(),
            result,
            suffix: suffix.clone(),
            oracle: oracle.clone(),
        };
        let kinds = operands.clone();
        let inputs = move |seed| {
            let mut random = Random::new(seed);
            let mut bytes = Vec::new();
            for warp in 0..THREADS * BLOCKS / 32 {
                let mask = if warp == 0 { u32::MAX } else { lane_mask(&mut random) };
                for lane in 0..32 {
                    bytes.extend(u64::from(mask >> lane & 1).to_le_bytes());
                    for kind in &kinds {
                        bytes.extend(kind.value(&mut random).to_le_bytes());
                    }
                }
            }
            bytes
        };
        let expected = move |input: &[u8]| {
            input
                .chunks_exact(row)
                .flat_map(|row| {
                    let words = words(row);
                    if words[0] == 0 { 0 } else { oracle(&words[1..]) }.to_le_bytes()
                })
                .collect()
        };
        Case {
            name: format!("{opcode}{}", suffix.replace([' ', ','], "_")),
            covers: vec![opcode],
            target,
            module: template::module(target, "", "", row, 8, &body),
            blocks: BLOCKS,
            cluster: 1,
            threads: THREADS,
            extra: Extra::None,
            output_bytes: (8 * THREADS * BLOCKS) as usize,
            compare,
            lane: Some(lane),
            inputs: Box::new(inputs),
            oracle: Box::new(expected),
        }
    }
}

/// Bytes as little-endian 8-byte words.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))).collect()
}
