//! The new values of atomic operations and reductions, from an old value and an operand (PTX ISA 9.7.13.5).

use super::bits::{number, wrap};
use super::real::{BF16, F16, Mode, Pair, Table, flush};

/// Number of bits of a type's values.
pub fn bits(ty: &str) -> u32 {
    match ty {
        "f16" | "bf16" => 16,
        "b64" | "u64" | "s64" | "f64" => 64,
        _ => 32,
    }
}

/// The new value. Values are bits, zero-extended. Sums of `f32` flush subnormals only with `in_global`.
pub fn reduce(operation: &str, ty: &str, old: u64, operand: u64, in_global: bool) -> u64 {
    match ty {
        "f16x2" | "bf16x2" => {
            let part = |shift: u32| {
                let (a, b) = (old >> shift & 0xffff, operand >> shift & 0xffff);
                reduce(operation, ty.trim_end_matches("x2"), a, b, in_global) << shift
            };
            part(0) | part(16)
        }
        "f16" => half(&F16, operation, old, operand),
        "bf16" => half(&BF16, operation, old, operand),
        "f32" => {
            let value = |bits: u64| {
                let x = f32::from_bits(bits as u32);
                if in_global { flush(x) } else { x }
            };
            let sum = value(old) + value(operand);
            if in_global { flush(sum) } else { sum }.to_bits().into()
        }
        "f64" => (f64::from_bits(old) + f64::from_bits(operand)).to_bits(),
        _ => integer(operation, ty, old, operand),
    }
}

fn half(table: &Table, operation: &str, old: u64, operand: u64) -> u64 {
    let (a, b) = (table.value(old), table.value(operand));
    match operation {
        "add" => table.round(Pair::sum(a, b), Mode::Rn),
        _ => {
            let first_is_less = a.total_cmp(&b).is_lt();
            if first_is_less == (operation == "min") { old } else { operand }
        }
    }
}

fn integer(operation: &str, ty: &str, old: u64, operand: u64) -> u64 {
    let width = bits(ty);
    let value = |bits| number(bits, width, ty.starts_with('s'));
    let (a, b) = (value(old), value(operand));
    let result = match operation {
        "add" => a + b,
        "min" => a.min(b),
        "max" => a.max(b),
        "inc" if a >= b => 0,
        "inc" => a + 1,
        "dec" if a == 0 || a > b => b,
        "dec" => a - 1,
        "and" => a & b,
        "or" => a | b,
        _ => a ^ b,
    };
    wrap(result, width)
}
