//! The bit models of Ada's and consumer Blackwell's tensor cores, against products that MMA-Sim computed. No hardware has
//! confirmed them here.

#![allow(clippy::unwrap_used)]

use ptx_vm::Generation;
use ptx_vm::numerics::dot::{Unit, Vector, multiply_add};
use ptx_vm::numerics::mma::{Accumulator, Operand};

const VECTORS: &str = include_str!("mma_sim/vectors.txt");

/// One product: a line of names, then lines of A's rows, B's columns, C and D.
struct Product<'a> {
    name: &'a str,
    generation: Generation,
    k: usize,
    operands: [Operand; 2],
    accumulator: Accumulator,
    values: [Vec<u32>; 4],
}

fn operand(name: &str) -> Operand {
    match name {
        "f16" => Operand::F16,
        "bf16" => Operand::Bf16,
        "tf32" => Operand::Tf32,
        "e4m3" => Operand::E4M3,
        "e5m2" => Operand::E5M2,
        other => panic!("{other}"),
    }
}

fn values(line: &str, bits: usize) -> Vec<u32> {
    let digits = bits / 4;
    (0..line.len() / digits).map(|i| u32::from_str_radix(&line[i * digits..(i + 1) * digits], 16).unwrap()).collect()
}

fn products() -> impl Iterator<Item = Product<'static>> {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    std::iter::from_fn(move || {
        let name = lines.next()?;
        let (arch, qualifier) = name.split_once(' ').unwrap();
        let parts: Vec<&str> = qualifier.split('.').collect();
        let operands = [operand(parts[2]), operand(parts[3])];
        let (accumulator, width) = if parts[1] == "f16" { (Accumulator::F16, 16) } else { (Accumulator::F32, 32) };
        let widths = [operands[0].bits(), operands[1].bits(), width, width];
        Some(Product {
            name,
            generation: if arch == "AdaLovelace" { Generation::Ada } else { Generation::BlackwellRtx },
            k: parts[0].strip_prefix("m16n8k").unwrap().parse().unwrap(),
            operands,
            accumulator,
            values: widths.map(|bits| values(lines.next().unwrap(), bits)),
        })
    })
}

impl Product<'_> {
    /// The elements of D that a generation gives, and how many differ from MMA-Sim's.
    fn differing(&self, generation: Generation) -> usize {
        let unit = Unit::mma_sync(generation, self.operands[0], self.accumulator, self.k);
        let [a, b, c, d] = &self.values;
        let vectors = |values: &[u32], operand| -> Vec<Vector> {
            values.chunks(self.k).map(|elements| Vector::new(operand, elements)).collect()
        };
        let (rows, columns) = (vectors(a, self.operands[0]), vectors(b, self.operands[1]));
        let sums = (0..16 * 8).map(|i| multiply_add(&unit, &rows[i / 8], &columns[i % 8], c[i]));
        sums.zip(d).filter(|(found, expected)| found != *expected).count()
    }
}

#[test]
fn all_bits_are_those_of_mma_sim() {
    let mut checked = 0;
    for product in products() {
        assert_eq!(product.differing(product.generation), 0, "{}", product.name);
        checked += 1;
    }
    assert_eq!(checked, 46);
}

/// The products tell generations apart: another one gives other bits of each.
#[test]
fn another_generation_gives_other_bits() {
    for product in products() {
        let other = match product.generation {
            Generation::Ada => Generation::BlackwellRtx,
            _ => Generation::Ada,
        };
        assert!(product.differing(other) > 0, "{}", product.name);
    }
}
