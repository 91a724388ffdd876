//! The bit models of Ada's and consumer Blackwell's tensor cores, against products that MMA-Sim computed. No hardware has
//! confirmed them here.

#![allow(clippy::unwrap_used)]

use ptx_vm::numerics::dot::{Unit, Vector, multiply_add};
use ptx_vm::numerics::fragment::{LANES, a_element, b_element, c_element};
use ptx_vm::numerics::mma::{Accumulator, Operand};
use ptx_vm::numerics::scaled_mma::{Scale, ScaleSource, ScaledMma};
use ptx_vm::{Arithmetic, Generation};

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
        if qualifier.contains(".block") {
            return None;
        }
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

/// A product with block scales: its lines, and then those of the scales.
struct Scaled {
    name: &'static str,
    product: ScaledMma,
    lines: [Vec<u32>; 4],
    scales: [Vec<u32>; 2],
    vector: usize,
}

fn scaled_products() -> Vec<Scaled> {
    let mut lines = VECTORS.lines().skip_while(|line| !line.contains(".block"));
    std::iter::from_fn(|| {
        let name = lines.next()?;
        let parts: Vec<&str> = name.split_once(' ').unwrap().1.split('.').collect();
        let packed = parts[0] == "m16n8k64";
        let scale = if parts[6] == "ue8m0" { Scale::Ue8m0 } else { Scale::Ue4m3 };
        let vector = match (packed, parts[1]) {
            (false, _) => 1,
            (true, "block32") => 2,
            (true, _) => 4,
        };
        let product = if packed {
            ScaledMma::of_nibbles(true, scale, vector)
        } else {
            ScaledMma::of_bytes(operand(parts[3]), operand(parts[4]), scale, vector)
        };
        let four = [8, 8, 32, 32].map(|bits| values(lines.next().unwrap(), bits));
        let (of_a, of_b) = lines.next().unwrap().split_once(' ').unwrap();
        let scales = [values(of_a, 8), values(of_b, 8)];
        Some(Scaled { name, product: product.unwrap(), lines: four, scales, vector })
    })
    .collect()
}

impl Scaled {
    /// How many elements of D differ from MMA-Sim's. A row of A, and a column of B, has 32 bytes.
    fn differing(&self) -> usize {
        let [a, b, c, d] = &self.lines;
        let mut registers = [[0u32; LANES]; 10];
        for (register, lanes) in registers.iter_mut().enumerate() {
            for (lane, word) in lanes.iter_mut().enumerate() {
                let byte = |part: usize| match register {
                    0..4 => {
                        let at = a_element(16, 4, lane, register, part);
                        a[at.row * 32 + at.column]
                    }
                    _ => {
                        let at = b_element(4, lane, register - 4, part);
                        b[at.column * 32 + at.row]
                    }
                };
                *word = if register < 6 {
                    (0..4).fold(0, |word, part| word | byte(part) << (8 * part))
                } else {
                    let at = c_element(lane, register - 6);
                    c[at.row * 8 + at.column]
                };
            }
        }
        // Of each quad: the first two lanes have A's scales of two rows, the first lane has B's of a column.
        let word = |scales: &[u32], place: usize| {
            (0..self.vector).fold(0, |word, i| word | scales[place * self.vector + i] << (8 * i))
        };
        let of_a: [u32; LANES] = std::array::from_fn(|lane| word(&self.scales[0], lane / 4 + lane % 2 * 8));
        let of_b: [u32; LANES] = std::array::from_fn(|lane| word(&self.scales[1], lane / 4));
        let source = |words| ScaleSource { words, byte: 0, thread: 0 };
        let mut found = [[0u32; LANES]; 4];
        let exact = Arithmetic::Exact(Generation::BlackwellRtx);
        let operands = (&registers[..4], &registers[4..6], &registers[6..]);
        self.product.execute(exact, operands, (source(&of_a), source(&of_b)), &mut found);
        let all = (0..LANES).flat_map(|lane| (0..4).map(move |register| (lane, register)));
        all.filter(|&(lane, register)| {
            let at = c_element(lane, register);
            found[register][lane] != d[at.row * 8 + at.column]
        })
        .count()
    }
}

#[test]
fn products_with_block_scales_are_those_of_mma_sim() {
    let all = scaled_products();
    assert_eq!(all.len(), 7);
    for product in all {
        assert_eq!(product.differing(), 0, "{}", product.name);
    }
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
