//! `mma.sync` with block scales (PTX ISA 9.7.14.3 and 9.7.14.5): `D = (A · scale of A) · (B · scale of B) + C`. A row of A
//! and a column of B have a scale for each block of K.
//!
//! With [`Arithmetic::Fast`] a result is the sum in `f64`, rounded once to `f32`. [`Arithmetic::Exact`] is the model of
//! MMA-Sim for sm_120 ([`dot`]), which no hardware has confirmed here:
//! - `.m16n8k32`: scales are added to the exponents of products.
//! - `.m16n8k64`: each 16 products are added exactly, and multiplied by the significands of their scales. These sums are
//!   aligned with 35 fractional bits by the exponents of the scales alone.

use super::dot::{self, Generation, Unit, Vector};
use super::format::{self, Value};
use super::fragment::{LANES, Lanes, a_element, b_element, c_element};
use super::mma::{Accumulator, Arithmetic, Operand};

/// The type of scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// `.ue8m0`: a power of two.
    Ue8m0,
    /// `.ue4m3`: the magnitude of an `.e4m3`.
    Ue4m3,
}

/// A combination that `mma.sync` with block scales does not have.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} with {scale:?} scales, {vector} for a row, is no product; there are mxf8f6f4 with Ue8m0 and 1, mxf4 with Ue8m0 \
     and 2, mxf4nvf4 with Ue8m0 and 2 or 4, or Ue4m3 and 4"
)]
pub struct UnsupportedScales {
    kind: &'static str,
    scale: Scale,
    vector: usize,
}

crate::message::debug!(UnsupportedScales);

/// One valid product with block scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaledMma {
    a: Operand,
    b: Operand,
    k: usize,
    scale: Scale,
    /// Scales of a row.
    vector: usize,
}

/// The registers of an operand's scales, and which of their lanes and bytes count.
#[derive(Debug, Clone, Copy)]
pub struct ScaleSource<'a> {
    /// A word of each lane.
    pub words: &'a Lanes,
    /// `byte-id`: the first byte that counts.
    pub byte: u32,
    /// `thread-id`: a pair of a quad's lanes for A, a lane for B.
    pub thread: u32,
}

/// The scales of a row: eight times the significand, and the exponent, of each; `None` for NaN.
type Scales = [Option<(i64, i32)>; 4];

impl ScaledMma {
    /// `.kind::mxf8f6f4`: floats of 8, 6 and 4 bits, each in a byte.
    ///
    /// # Errors
    /// If PTX lacks the combination.
    pub fn of_bytes(a: Operand, b: Operand, scale: Scale, vector: usize) -> Result<Self, UnsupportedScales> {
        let valid = [a, b].iter().all(|operand| operand.is_fp8() || operand.is_narrow());
        if valid && scale == Scale::Ue8m0 && vector == 1 {
            Ok(Self { a, b, k: 32, scale, vector })
        } else {
            Err(UnsupportedScales { kind: "mxf8f6f4", scale, vector })
        }
    }

    /// `.kind::mxf4`, or `.kind::mxf4nvf4` if `nv`: `.e2m1`, two in a byte.
    ///
    /// # Errors
    /// If PTX lacks the combination.
    pub fn of_nibbles(nv: bool, scale: Scale, vector: usize) -> Result<Self, UnsupportedScales> {
        let valid = matches!((nv, scale, vector), (_, Scale::Ue8m0, 2) | (true, _, 4));
        let operand = Operand::E2M1;
        if valid {
            Ok(Self { a: operand, b: operand, k: 64, scale, vector })
        } else {
            Err(UnsupportedScales { kind: if nv { "mxf4nvf4" } else { "mxf4" }, scale, vector })
        }
    }

    /// Whether an arithmetic has a model of it.
    #[must_use]
    pub fn has_model(&self, arithmetic: Arithmetic) -> bool {
        matches!(arithmetic, Arithmetic::Fast | Arithmetic::Exact(Generation::BlackwellRtx))
    }

    /// Whether these selectors are valid (PTX ISA, table 37), for A or for B.
    #[must_use]
    pub fn selects(&self, of_b: bool, byte: u32, thread: u32) -> bool {
        byte.is_multiple_of(self.vector as u32) && byte < 4 && thread < if of_b { 4 } else { 2 }
    }

    /// The warp's product. A has four registers, B two, C and D four.
    pub fn execute(
        &self,
        arithmetic: Arithmetic,
        (a, b, c): (&[Lanes], &[Lanes], &[Lanes]),
        (of_a, of_b): (ScaleSource<'_>, ScaleSource<'_>),
        d: &mut [Lanes],
    ) {
        let rows = self.elements(a, |lane, register, part| {
            let at = a_element(16, 4, lane, register, part);
            (at.row, at.column)
        });
        let columns = self.elements(b, |lane, register, part| {
            let at = b_element(4, lane, register, part);
            (at.column, at.row)
        });
        // Of a quad, an even lane has the scales of the upper row, an odd one those of the lower.
        let row_scales = |row: usize| self.scales(of_a, 4 * (row % 8) + 2 * (of_a.thread as usize & 1) + row / 8);
        let column_scales = |column: usize| self.scales(of_b, 4 * column + (of_b.thread as usize & 3));
        for (register, target) in d.iter_mut().enumerate().take(4) {
            for (lane, value) in target.iter_mut().enumerate() {
                let at = c_element(lane, register);
                let addend = c.get(register).map_or(0, |lanes| lanes[lane]);
                let (row, column) = (&rows[at.row][..self.k], &columns[at.column][..self.k]);
                let scales = (row_scales(at.row), column_scales(at.column));
                *value = match (arithmetic, self.k) {
                    (Arithmetic::Fast, _) => self.chain(row, column, scales, addend),
                    (Arithmetic::Exact(_), 32) => self.by_exponents(row, column, scales, addend),
                    (Arithmetic::Exact(_), _) => self.by_blocks(row, column, scales, addend),
                };
            }
        }
    }

    /// The elements, by row or column and by K. `place` tells where four bytes of a register are as 8-bit elements; two
    /// nibbles are where a byte would be.
    fn elements(&self, registers: &[Lanes], place: impl Fn(usize, usize, usize) -> (usize, usize)) -> [[u32; 64]; 16] {
        let mut matrix = [[0; 64]; 16];
        for (register, lanes) in registers.iter().enumerate() {
            for (lane, word) in lanes.iter().enumerate().take(LANES) {
                for part in 0..4 {
                    let (index, k) = place(lane, register, part);
                    let byte = word >> (8 * part) & 0xff;
                    if self.k == 32 {
                        matrix[index][k] = byte;
                    } else {
                        // As a byte holds one: in the middle.
                        (matrix[index][2 * k], matrix[index][2 * k + 1]) = ((byte & 0xf) << 2, byte >> 4 << 2);
                    }
                }
            }
        }
        matrix
    }

    /// The scales of a row.
    fn scales(&self, source: ScaleSource<'_>, lane: usize) -> Scales {
        let word = source.words[lane % LANES];
        std::array::from_fn(|i| {
            let byte = if i < self.vector { word >> (8 * ((source.byte as usize + i) % 4)) & 0xff } else { 0 };
            match self.scale {
                Scale::Ue8m0 => (byte != 255).then_some((8, byte as i32 - 127)),
                Scale::Ue4m3 => match format::E4M3.decode((byte & 0x7f).into()) {
                    Value::Finite(number) if number.is_zero() => Some((0, dot::ZERO_EXPONENT)),
                    Value::Finite(number) => Some((number.mantissa as i64, number.exponent + 3)),
                    Value::Infinite(_) | Value::Nan => None,
                },
            }
        })
    }

    fn chain(&self, row: &[u32], column: &[u32], (of_a, of_b): (Scales, Scales), addend: u32) -> u32 {
        let value = |scale: Option<(i64, i32)>| {
            scale.map_or(f64::NAN, |(significand, exponent)| significand as f64 / 8.0 * 2f64.powi(exponent))
        };
        let length = self.k / self.vector;
        let mut sum = f64::from(f32::from_bits(addend));
        for (i, (x, y)) in row.iter().zip(column).enumerate() {
            let scale = value(of_a[i / length]) * value(of_b[i / length]);
            sum += f64::from(self.a.to_f32(*x)) * f64::from(self.b.to_f32(*y)) * scale;
        }
        if sum.is_nan() { format::F32.canonical_nan() as u32 } else { (sum as f32).to_bits() }
    }

    fn by_exponents(&self, row: &[u32], column: &[u32], (of_a, of_b): (Scales, Scales), addend: u32) -> u32 {
        let (Some((_, of_a)), Some((_, of_b))) = (of_a[0], of_b[0]) else {
            return format::F32.canonical_nan() as u32;
        };
        let unit = Unit::mma_sync(Generation::BlackwellRtx, self.a, Accumulator::F32, self.k);
        let row = Vector::new(self.a, row).scaled(of_a);
        dot::multiply_add(&unit, &row, &Vector::new(self.b, column).scaled(of_b), addend)
    }

    fn by_blocks(&self, row: &[u32], column: &[u32], (of_a, of_b): (Scales, Scales), addend: u32) -> u32 {
        const BLOCK: usize = 16;
        let mut sums = [(0i64, 0i32); 4];
        for (block, sum) in sums.iter_mut().enumerate() {
            let index = block * self.vector / 4;
            let (Some((x, e)), Some((y, f))) = (of_a[index], of_b[index]) else {
                return format::F32.canonical_nan() as u32;
            };
            let range = block * BLOCK..(block + 1) * BLOCK;
            // An `.e2m1` is a multiple of 1/2.
            let halves = |operand: Operand, bits: u32| (operand.to_f32(bits) * 2.0) as i64;
            let products = row[range.clone()].iter().zip(&column[range]);
            let dot: i64 = products.map(|(p, q)| halves(self.a, *p) * halves(self.b, *q)).sum();
            // A product has two fractional bits, a significand three.
            *sum = (dot * x * y, e + f);
        }
        dot::add_blocks(&sums, 8, addend)
    }
}
