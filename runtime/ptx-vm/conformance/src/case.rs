//! A conformance case: a kernel, its inputs, the expected output, and how outputs are compared.

use std::fmt;
use std::sync::Arc;

use ptx_vm::Arch;

use crate::values::Kind;

/// How an output slot is compared with the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compare {
    /// All bits.
    Exact,
    /// All bits, except that any two NaN of a type of this many bits are equal (16 means `.f16`).
    Float(u32),
    /// Like `Float`, for each half of a packed `.f16x2`.
    HalfPair,
    /// Like `Float`, for each half of a packed `.bf16x2`.
    BrainPair,
    /// Like `Float`, for a `.bf16` in 16 bits.
    Brain,
    /// `.f32` within a distance in units of the expected result's last place, or within an absolute distance, whichever
    /// is larger. A subnormal and a zero of the same sign are always accepted.
    Near {
        /// Units in the last place.
        ulp: f64,
        /// Absolute distance.
        absolute: f64,
    },
    /// `.f64` within a relative distance.
    NearDouble {
        /// The distance relative to the expected result.
        relative: f64,
    },
    /// `.f16` within a distance in units of the last place.
    NearHalf {
        /// Units in the last place.
        ulp: u32,
    },
}

/// Kernel arguments that a case has besides its input and output buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extra {
    /// None.
    #[default]
    None,
    /// A third parameter of 128 bytes: a tensor map over the input buffer.
    TensorMap(crate::tensor::TensorCase),
    /// A third parameter of 128 bytes: a map in im2col mode.
    Images(crate::images::ImageCase),
}

/// Computes the bits of a thread's result from those of its operands.
pub type LaneOracle = Box<dyn Fn(&[u64]) -> u64 + Send + Sync>;

/// An instruction on the registers of one thread.
#[derive(Clone)]
pub struct LaneForm {
    /// The full opcode.
    pub opcode: String,
    /// The operands after the destination, in order.
    pub operands: Vec<Kind>,
    /// The type of the destination.
    pub result: Kind,
    /// Text after the last operand.
    pub suffix: String,
    /// Computes the bits of the result from those of the operands.
    pub oracle: Arc<LaneOracle>,
}

type Inputs = Box<dyn Fn(u64) -> Vec<u8> + Send + Sync>;
type Oracle = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// One case. Its kernel is named `test` and takes the addresses of the input and of the output buffer.
pub struct Case {
    /// A unique name.
    pub name: String,
    /// The full opcodes that the case tests, as they are written in the text.
    pub covers: Vec<String>,
    /// The architecture that its PTX is for. Other cases may need less; an `a` in the name means exactly this one.
    pub target: Arch,
    /// The PTX text.
    pub module: String,
    /// Number of blocks of the launch.
    pub blocks: u32,
    /// Number of blocks of a cluster.
    pub cluster: u32,
    /// Number of threads of a block.
    pub threads: u32,
    /// Further arguments.
    pub extra: Extra,
    /// Number of bytes of the output buffer, which starts as zeros.
    pub output_bytes: usize,
    /// How the output's 8-byte slots are compared.
    pub compare: Compare,
    /// The instruction itself, if the case applies one to each thread's registers.
    pub lane: Option<LaneForm>,
    pub(crate) inputs: Inputs,
    pub(crate) oracle: Oracle,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("covers", &self.covers).finish_non_exhaustive()
    }
}

/// An output slot that differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case}: slot {slot} (thread {thread}) is {found:#018x}, expected {expected:#018x}; input row {input:x?}")]
pub struct Mismatch {
    /// The case.
    pub case: String,
    /// The 8-byte slot of the output.
    pub slot: usize,
    /// The thread that wrote it, if every thread writes the same number of slots.
    pub thread: usize,
    /// The value that the machine gave.
    pub found: u64,
    /// The value that the oracle gave.
    pub expected: u64,
    /// The thread's part of the input.
    pub input: Vec<u64>,
}

impl Case {
    /// The input buffer for a seed.
    pub fn input(&self, seed: u64) -> Vec<u8> {
        (self.inputs)(seed)
    }

    /// The expected content of the output buffer.
    pub fn expected(&self, input: &[u8]) -> Vec<u8> {
        (self.oracle)(input)
    }

    /// Compares an output with the expected one.
    ///
    /// # Errors
    /// The first slot that differs by more than the case allows.
    pub fn check(&self, input: &[u8], found: &[u8]) -> Result<(), Mismatch> {
        let expected = self.expected(input);
        let slots = |bytes: &[u8]| -> Vec<u64> { bytes.chunks(8).map(slot).collect() };
        let (found, expected) = (slots(found), slots(&expected));
        let threads = (self.blocks * self.threads) as usize;
        for index in 0..found.len().max(expected.len()) {
            let pair = (found.get(index).copied(), expected.get(index).copied());
            if let (Some(x), Some(y)) = pair
                && self.compare.accepts(x, y)
            {
                continue;
            }
            let thread = index / (expected.len() / threads.max(1)).max(1);
            let row = input.len() / threads.max(1);
            let input = input.chunks(row.max(8)).nth(thread).map(slots).unwrap_or_default();
            return Err(Mismatch {
                case: self.name.clone(),
                slot: index,
                thread,
                found: pair.0.unwrap_or_default(),
                expected: pair.1.unwrap_or_default(),
                input: input.into_iter().take(8).collect(),
            });
        }
        Ok(())
    }
}

/// The bytes of a slot as a number. A short last slot is zero-extended.
fn slot(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Compare {
    /// Whether only NaN may differ.
    pub const fn is_exact(self) -> bool {
        !matches!(self, Compare::Near { .. } | Compare::NearDouble { .. } | Compare::NearHalf { .. })
    }

    /// The slot with all NaN that count as equal replaced by the same one.
    pub fn canonical(self, bits: u64) -> u64 {
        let one = |width: u32, top: u64, bits: u64| {
            let magnitude = bits & (u64::MAX >> (65 - width));
            let rest = if width == 64 { 0 } else { bits & (u64::MAX << width) };
            if magnitude > top { rest | u64::MAX >> (65 - width) } else { bits }
        };
        let pair = |top: u64| one(16, top, bits & 0xffff) | one(16, top, bits >> 16 & 0xffff) << 16 | bits >> 32 << 32;
        match self {
            Compare::Float(16) => one(16, 0x7c00, bits),
            Compare::Float(32) => one(32, 0x7f80_0000, bits),
            Compare::Float(_) => one(64, 0x7ff0_0000_0000_0000, bits),
            Compare::Brain => one(16, 0x7f80, bits),
            Compare::HalfPair => pair(0x7c00),
            Compare::BrainPair => pair(0x7f80),
            _ => bits,
        }
    }

    /// The distance of two accepted slots in units of the last place; 0 if bits are compared.
    pub fn distance(self, found: u64, expected: u64) -> f64 {
        let ordered = |bits: u64, width: u32| {
            let sign = 1 << (width - 1);
            let magnitude = (bits & (sign - 1)) as i64;
            if bits & sign != 0 { -magnitude } else { magnitude }
        };
        let width = match self {
            Compare::Near { .. } => 32,
            Compare::NearDouble { .. } => 64,
            Compare::NearHalf { .. } => 16,
            _ => return 0.0,
        };
        let exact = Compare::Float(width);
        if exact.accepts(found, expected) {
            return 0.0;
        }
        ordered(found, width).abs_diff(ordered(expected, width)) as f64
    }

    /// Whether a slot is accepted as the expected one.
    pub fn accepts(self, found: u64, expected: u64) -> bool {
        if found == expected {
            return true;
        }
        let both_nan = |width: u32, top: u64| {
            let nan = |bits: u64| bits & (u64::MAX >> (65 - width)) > top;
            let rest = if width == 64 { 0 } else { u64::MAX << width };
            nan(found) && nan(expected) && found & rest == expected & rest
        };
        let pair = |compare: Compare| {
            compare.accepts(found & 0xffff, expected & 0xffff) && compare.accepts(found >> 16, expected >> 16)
        };
        match self {
            Compare::Exact => false,
            Compare::Float(16) => both_nan(16, 0x7c00),
            Compare::Float(32) => both_nan(32, 0x7f80_0000),
            Compare::Float(_) => both_nan(64, 0x7ff0_0000_0000_0000),
            Compare::Brain => both_nan(16, 0x7f80),
            Compare::HalfPair => pair(Compare::Float(16)),
            Compare::BrainPair => pair(Compare::Brain),
            Compare::Near { ulp, absolute } => {
                both_nan(32, 0x7f80_0000) || near(found as u32, expected as u32, ulp, absolute)
            }
            Compare::NearDouble { relative } => {
                let (x, y) = (f64::from_bits(found), f64::from_bits(expected));
                both_nan(64, 0x7ff0_0000_0000_0000)
                    || (x.is_finite() && y.is_finite() && (x - y).abs() <= relative * y.abs())
            }
            Compare::NearHalf { ulp } => {
                let order = |bits: u64| if bits & 0x8000 != 0 { -((bits & 0x7fff) as i64) } else { bits as i64 };
                both_nan(16, 0x7c00) || order(found).abs_diff(order(expected)) <= u64::from(ulp)
            }
        }
    }
}

fn near(found: u32, expected: u32, ulp: f64, absolute: f64) -> bool {
    let (x, y) = (f32::from_bits(found), f32::from_bits(expected));
    if !x.is_finite() || !y.is_finite() {
        return x == y;
    }
    let tiny = |v: f32| v.abs() < f32::MIN_POSITIVE;
    if tiny(x) && tiny(y) {
        return x.is_sign_negative() == y.is_sign_negative();
    }
    let unit = f64::from(f32::from_bits((expected & 0x7f80_0000).max(1 << 23))) * 2f64.powi(-23);
    (f64::from(x) - f64::from(y)).abs() <= (ulp * unit).max(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let bits = |x: f32| u64::from(x.to_bits());
        assert!(Compare::Float(32).accepts(0x7fff_ffff, 0xffc0_0000));
        assert!(!Compare::Float(32).accepts(0x7fff_ffff, 0x7f80_0000));
        assert!(!Compare::Float(32).accepts(0x1_7fff_ffff, 0x7fff_ffff));
        assert!(!Compare::Exact.accepts(0, 1));
        assert!(Compare::HalfPair.accepts(0x3c00_7fff, 0x3c00_7e00));
        assert!(!Compare::HalfPair.accepts(0x3c01_7fff, 0x3c00_7e00));
        assert!(Compare::BrainPair.accepts(0x7fc0_3f80, 0x7fff_3f80));
        let near = Compare::Near { ulp: 2.0, absolute: 0.0 };
        assert!(near.accepts(bits(1.0) + 2, bits(1.0)) && !near.accepts(bits(1.0) + 3, bits(1.0)));
        assert!(near.accepts(1, 0) && !near.accepts(1, 1 << 31));
        assert!(Compare::Near { ulp: 0.0, absolute: 0.5 }.accepts(bits(1.5), bits(1.0)));
        assert!(Compare::NearHalf { ulp: 1 }.accepts(0x3c00, 0x3c01));
        assert!(!Compare::NearHalf { ulp: 1 }.accepts(0x3c00, 0xbc00));
        assert!(Compare::Float(64).accepts(f64::NAN.to_bits(), u64::MAX));
    }
}
