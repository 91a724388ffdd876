//! `wgmma.mma_async` (PTX ISA 9.7.15.5): the supported types and sizes, its operands, and the product for each warp of
//! the warpgroup.
//!
//! The executor decides when the product is computed, and checks who accesses its operands meanwhile.

use super::convert::{f16_to_f32, f32_to_f16};
use super::descriptor::{Major, Tile};
use super::dot::{self, Unit, Vector};
use super::fragment::{LANES, Lanes, a_element, c_element};
use super::matrix;
use super::mma::{Accumulator, Arithmetic, Operand};

/// A combination that `wgmma` does not have.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "wgmma.mma_async m64n{n} with {a:?} times {b:?} into {accumulator:?} does not exist: n is a multiple of 8 up to 256 \
     (for s8 and u8 a multiple of 16 from 32 on); f16 and fp8 go into f16 or f32, bf16 and tf32 into f32, s8 and u8 into \
     s32, and only s8 and u8 saturate"
)]
pub struct UnsupportedWgmma {
    /// Columns of B.
    pub n: usize,
    /// The type of A.
    pub a: Operand,
    /// The type of B.
    pub b: Operand,
    /// The type of D.
    pub accumulator: Accumulator,
}

crate::message::debug!(UnsupportedWgmma);

/// One valid `wgmma.mma_async` instruction of 64 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wgmma {
    n: usize,
    a: Operand,
    b: Operand,
    accumulator: Accumulator,
    saturate: bool,
}

/// The elements of an operand. The bits of element `k` of row (of A) or column (of B) `index` are at `index * k() + k`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    operand: Operand,
    k: usize,
    bits: Vec<u32>,
}

impl Elements {
    /// Reads a tile from shared memory. `read` gives the 16 bytes at an address.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn from_shared<E>(tile: &Tile, mut read: impl FnMut(u32) -> Result<[u8; 16], E>) -> Result<Self, E> {
        let (operand, k) = (tile.operand(), tile.k());
        let mut bits = vec![0; tile.extent() * k];
        for chunk in tile.chunks() {
            let bytes = read(chunk.address)?;
            let first = chunk.index * k + chunk.k;
            let step = if tile.major() == Major::K { 1 } else { k };
            let targets = bits[first..].iter_mut().step_by(step);
            match operand.bits() {
                8 => targets.zip(bytes).for_each(|(target, byte)| *target = byte.into()),
                16 => {
                    let halves = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
                    targets.zip(halves).for_each(|(target, half)| *target = half.into());
                }
                _ => {
                    let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
                    targets.zip(words).for_each(|(target, word)| *target = word);
                }
            }
        }
        Ok(Elements { operand, k, bits })
    }

    /// Elements as they are packed in words: `k` of one row or column after those of another.
    pub fn from_words(operand: Operand, words: &[u32]) -> Self {
        let (width, size) = (operand.per_register(), operand.bits());
        let mask = if size == 32 { u32::MAX } else { (1 << size) - 1 };
        let bits = words.iter().flat_map(|word| (0..width).map(move |part| word >> (size * part) & mask)).collect();
        Elements { operand, k: 256 / size, bits }
    }

    /// A warp's 16 rows of A from its four registers, in the layout of `mma.sync` (m16, 32 bytes of `k`). Further
    /// registers are ignored, and missing ones read as zero.
    pub fn from_registers(operand: Operand, registers: &[Lanes]) -> Self {
        let (width, size) = (operand.per_register(), operand.bits());
        let k = 256 / size;
        let mut bits = vec![0; 16 * k];
        for (register, lanes) in registers.iter().enumerate().take(4) {
            for (lane, value) in lanes.iter().enumerate() {
                for part in 0..width {
                    let at = a_element(16, width, lane, register, part);
                    let mask = if size == 32 { u32::MAX } else { (1 << size) - 1 };
                    bits[at.row * k + at.column] = value >> (size * part) & mask;
                }
            }
        }
        Elements { operand, k, bits }
    }

    /// Applies an `imm-scale-a` or `imm-scale-b` of −1: flips the sign bit of every element. It has no effect on
    /// integers, which have no scale.
    pub fn negate(&mut self) {
        let sign = match self.operand {
            Operand::F16 | Operand::Bf16 => 0x8000,
            Operand::Tf32 => 0x8000_0000,
            Operand::E4M3 | Operand::E5M2 => 0x80,
            // Of 6 bits, and of the 4 in the middle of a byte.
            Operand::E3M2 | Operand::E2M3 | Operand::E2M1 => 0x20,
            Operand::S8 | Operand::U8 | Operand::F64 => 0,
        };
        for bits in &mut self.bits {
            *bits ^= sign;
        }
    }

    /// The number of rows or columns.
    pub fn extent(&self) -> usize {
        self.bits.len() / self.k
    }

    /// Elements of a row or column.
    pub const fn k(&self) -> usize {
        self.k
    }

    /// The elements of one row or column.
    pub fn row(&self, index: usize) -> &[u32] {
        &self.bits[index * self.k..(index + 1) * self.k]
    }
}

/// B, prepared for multiplication with each warp's rows.
#[derive(Debug, Clone)]
pub struct Columns {
    instruction: Wgmma,
    kind: Prepared,
}

#[derive(Debug, Clone)]
enum Prepared {
    /// Numbers: blocks of eight columns and `k` rows.
    Fast(Vec<[f32; 8]>),
    /// The vectors of the bit-exact model, one for each column.
    Exact(Unit, Vec<Vector>),
    /// Integers, element (k, n) at `k * n() + n`.
    Integer(Vec<i32>),
}

impl Wgmma {
    /// Checks a combination. `saturate` is `.satfinite`, which exists only for integers.
    ///
    /// # Errors
    /// If PTX lacks the instruction.
    pub fn new(
        n: usize,
        a: Operand,
        b: Operand,
        accumulator: Accumulator,
        saturate: bool,
    ) -> Result<Self, UnsupportedWgmma> {
        use Operand::{Bf16, E4M3, E5M2, F16, S8, Tf32, U8};
        let types = matches!(
            (a, b, accumulator),
            (F16, F16, Accumulator::F16 | Accumulator::F32)
                | (Bf16, Bf16, Accumulator::F32)
                | (Tf32, Tf32, Accumulator::F32)
                | (E4M3 | E5M2, E4M3 | E5M2, Accumulator::F16 | Accumulator::F32)
                | (S8 | U8, S8 | U8, Accumulator::S32)
        );
        let step = if a.is_integer() && n > 32 { 16 } else { 8 };
        let size = (8..=256).contains(&n) && n.is_multiple_of(step);
        if types && size && (!saturate || a.is_integer()) {
            Ok(Wgmma { n, a, b, accumulator, saturate })
        } else {
            Err(UnsupportedWgmma { n, a, b, accumulator })
        }
    }

    /// Number of columns of B and D.
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Number of elements of each product.
    pub const fn k(&self) -> usize {
        256 / self.a.bits()
    }

    /// The type of A.
    pub const fn a(&self) -> Operand {
        self.a
    }

    /// The type of B.
    pub const fn b(&self) -> Operand {
        self.b
    }

    /// The type of D.
    pub const fn accumulator(&self) -> Accumulator {
        self.accumulator
    }

    /// Number of accumulator registers in each lane.
    pub const fn d_registers(&self) -> usize {
        if matches!(self.accumulator, Accumulator::F16) { self.n / 4 } else { self.n / 2 }
    }

    /// Prepares B. Its extent must be at least [`n`](Self::n); missing columns read as zero.
    pub fn columns(&self, arithmetic: Arithmetic, b: &Elements) -> Columns {
        self.columns_by(arithmetic, Unit::wgmma(self.b, self.accumulator, self.k()), b)
    }

    /// Prepares B for products that this unit adds, if the arithmetic is exact.
    pub(super) fn columns_by(&self, arithmetic: Arithmetic, unit: Unit, b: &Elements) -> Columns {
        let (n, k) = (self.n, self.k());
        let columns = b.bits.chunks(b.k.max(1)).take(n);
        let kind = match (self.accumulator, arithmetic) {
            (Accumulator::S32, _) => {
                let mut numbers = vec![0; n * k];
                for (column, elements) in columns.enumerate() {
                    for (i, bits) in elements.iter().enumerate().take(k) {
                        numbers[i * n + column] = self.b.to_f32(*bits) as i32;
                    }
                }
                Prepared::Integer(numbers)
            }
            (_, Arithmetic::Fast) => {
                let mut numbers = vec![[0.0; 8]; n / 8 * k];
                for (column, elements) in columns.enumerate() {
                    let block = numbers[column / 8 * k..][..k].iter_mut();
                    self.b.widen(elements, block.map(|row| &mut row[column % 8]));
                }
                Prepared::Fast(numbers)
            }
            (_, Arithmetic::Exact(_)) => {
                Prepared::Exact(unit, columns.map(|elements| Vector::new(self.b, elements)).collect())
            }
        };
        Columns { instruction: *self, kind }
    }
}

impl Columns {
    /// One warp's part of `D = A·B + D` (or `A·B` without `scale_d`): rows `first_row` to `first_row + 16` of `a`, and
    /// the warp's [`d_registers`](Wgmma::d_registers) accumulator registers. Missing rows and registers are left out.
    pub fn multiply(&self, a: &Elements, first_row: usize, scale_d: bool, d: &mut [Lanes]) {
        let accumulator = self.instruction.accumulator;
        let width = if accumulator == Accumulator::F16 { 2 } else { 4 };
        let rows: Vec<&[u32]> = a.bits.chunks(a.k.max(1)).skip(first_row).take(16).collect();
        if !scale_d {
            d.iter_mut().for_each(|lanes| *lanes = [0; LANES]);
        }
        match &self.kind {
            Prepared::Fast(numbers) => {
                let mut left: matrix::Left = [[0.0; 32]; 16];
                for (target, row) in left.iter_mut().zip(&rows) {
                    self.instruction.a.widen(row, target.iter_mut());
                }
                self.multiply_chains(&left, numbers, d);
            }
            Prepared::Exact(unit, columns) => {
                let left: Vec<_> = rows.iter().map(|row| Vector::new(self.instruction.a, row)).collect();
                for (registers, columns) in d.chunks_exact_mut(width).zip(columns.chunks_exact(8)) {
                    let mut sums = gather(accumulator, registers, |bits| bits);
                    dot::multiply_matrices(unit, &left, columns, &mut sums);
                    scatter(accumulator, &sums, registers, |bits| bits);
                }
            }
            Prepared::Integer(numbers) => self.multiply_integers(numbers, &rows, d),
        }
    }

    fn multiply_chains(&self, left: &matrix::Left, numbers: &[[f32; 8]], d: &mut [Lanes]) {
        let k = self.instruction.k();
        if self.instruction.accumulator != Accumulator::F16 {
            matrix::multiply_blocks(left, numbers, k, d);
            return;
        }
        for (numbers, registers) in numbers.chunks_exact(k).zip(d.chunks_exact_mut(2)) {
            let wide = |register: usize| -> Lanes {
                registers[register / 2].map(|pair| f16_to_f32((pair >> (16 * (register % 2))) as u16).to_bits())
            };
            let mut sums: [Lanes; 4] = std::array::from_fn(wide);
            matrix::multiply_blocks(left, numbers, k, &mut sums);
            let narrow = |bits: u32| u32::from(f32_to_f16(f32::from_bits(bits)));
            for (register, target) in registers.iter_mut().enumerate() {
                let (low, high) = (&sums[2 * register], &sums[2 * register + 1]);
                *target = std::array::from_fn(|lane| narrow(low[lane]) | narrow(high[lane]) << 16);
            }
        }
    }

    fn multiply_integers(&self, numbers: &[i32], rows: &[&[u32]], d: &mut [Lanes]) {
        let Wgmma { n, a, saturate, accumulator, .. } = self.instruction;
        for (block, registers) in d.chunks_exact_mut(4).enumerate().take(n / 8) {
            let mut sums = gather(accumulator, registers, |bits| i64::from(bits as i32));
            for (sums, row) in sums.iter_mut().zip(rows) {
                for (bits, values) in row.iter().zip(numbers.chunks_exact(n)) {
                    let x = a.to_f32(*bits) as i32;
                    for (sum, y) in sums.iter_mut().zip(&values[8 * block..8 * block + 8]) {
                        *sum += i64::from(x * y);
                    }
                }
            }
            scatter(accumulator, &sums, registers, |sum| {
                let kept = if saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                kept as u32
            });
        }
    }
}

/// Eight columns of accumulators, read from their registers.
#[inline(always)]
fn gather<T: Copy + Default>(accumulator: Accumulator, registers: &[Lanes], value: impl Fn(u32) -> T) -> [[T; 8]; 16] {
    let mut block = [[T::default(); 8]; 16];
    let half = accumulator == Accumulator::F16;
    for register in 0..4 {
        let (lanes, shift) =
            if half { (&registers[register / 2], 16 * (register % 2)) } else { (&registers[register], 0) };
        for (lane, bits) in lanes.iter().enumerate() {
            let at = c_element(lane, register);
            block[at.row][at.column] = value(if half { bits >> shift & 0xffff } else { *bits });
        }
    }
    block
}

/// Eight columns of accumulators, written to their registers.
#[inline(always)]
fn scatter<T: Copy>(accumulator: Accumulator, block: &[[T; 8]; 16], registers: &mut [Lanes], bits: impl Fn(T) -> u32) {
    let half = accumulator == Accumulator::F16;
    for (register, lanes) in registers.iter_mut().enumerate() {
        for (lane, target) in lanes.iter_mut().enumerate() {
            let element = |register| {
                let at = c_element(lane, register);
                bits(block[at.row][at.column])
            };
            *target = if half { element(2 * register) | element(2 * register + 1) << 16 } else { element(register) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::convert::f32_to_fp8;
    use super::super::descriptor::Descriptor;
    use super::super::dot::Generation;
    use super::super::fragment::wgmma_element;
    use super::super::swizzle::Swizzle;
    use super::*;
    use std::convert::Infallible;

    fn encode(operand: Operand, x: f32) -> Vec<u8> {
        match operand {
            Operand::F16 => f32_to_f16(x).to_le_bytes().to_vec(),
            Operand::Bf16 => ((x.to_bits() >> 16) as u16).to_le_bytes().to_vec(),
            Operand::Tf32 => x.to_bits().to_le_bytes().to_vec(),
            Operand::E4M3 => vec![f32_to_fp8(super::super::convert::Fp8::E4M3, x, false)],
            Operand::E5M2 => vec![f32_to_fp8(super::super::convert::Fp8::E5M2, x, false)],
            _ => vec![x as i32 as u8],
        }
    }

    /// Writes a tile, dense K-major rows of 128 bytes, through the 128-byte swizzle.
    fn shared(operand: Operand, base: u32, rows: usize, value: impl Fn(usize, usize) -> f32) -> Vec<u8> {
        let mut memory = vec![0xee; base as usize + rows * 128];
        let size = operand.bits() / 8;
        for row in 0..rows {
            for k in 0..128 / size {
                for (i, byte) in encode(operand, value(row, k)).into_iter().enumerate() {
                    let plain = base as usize + row * 128 + k * size + i;
                    memory[Swizzle::Bytes128.apply(plain as u32) as usize] = byte;
                }
            }
        }
        memory
    }

    fn read(memory: &[u8]) -> impl Fn(u32) -> Result<[u8; 16], Infallible> + '_ {
        |address| Ok(std::array::from_fn(|i| memory[address as usize + i]))
    }

    #[test]
    fn products_from_shared_memory_and_registers() {
        use Operand::*;
        let a_value = |row: usize, k: usize| ((row * 3 + k * 5 + row * k) % 5) as f32 - 2.0;
        let b_value = |column: usize, k: usize| ((column * 2 + k * 7 + column * k) % 4) as f32 - 1.0;
        let cases = [
            (F16, F16, Accumulator::F32),
            (F16, F16, Accumulator::F16),
            (Bf16, Bf16, Accumulator::F32),
            (Tf32, Tf32, Accumulator::F32),
            (E4M3, E5M2, Accumulator::F32),
            (E5M2, E4M3, Accumulator::F16),
            (S8, S8, Accumulator::S32),
        ];
        for (ta, tb, accumulator) in cases {
            for n in [8, 24, 256] {
                let Ok(wgmma) = Wgmma::new(n, ta, tb, accumulator, false) else {
                    panic!("n {n}");
                };
                let k = wgmma.k();
                let tile = |operand, extent, memory: &[u8]| {
                    let descriptor =
                        Descriptor { address: 1024 + 32, leading: 16, stride: 1024, swizzle: Swizzle::Bytes128 };
                    let tile = Tile::new(descriptor, operand, Major::K, extent).unwrap();
                    Elements::from_shared(&tile, read(memory)).unwrap()
                };
                // The second 32 bytes of each row: k elements on.
                let a = tile(ta, 64, &shared(ta, 1024, 64, a_value));
                let mut b = tile(tb, n, &shared(tb, 1024, n, b_value));
                let negative = !tb.is_integer();
                if negative {
                    b.negate();
                }
                for arithmetic in [Arithmetic::Fast, Arithmetic::Exact(Generation::Hopper)] {
                    let columns = wgmma.columns(arithmetic, &b);
                    for warp in 0..4 {
                        let start = |x: f32| match accumulator {
                            Accumulator::F16 => u32::from(f32_to_f16(x)) * 0x1_0001,
                            Accumulator::S32 => x as i32 as u32,
                            _ => x.to_bits(),
                        };
                        let mut d = vec![[start(3.0); LANES]; wgmma.d_registers()];
                        columns.multiply(&a, 16 * warp, true, &mut d);
                        // These rows through registers, without the accumulator.
                        let fragment: Vec<Lanes> = (0..4)
                            .map(|r| {
                                std::array::from_fn(|lane| {
                                    (0..ta.per_register()).fold(0, |word, part| {
                                        let at = a_element(16, ta.per_register(), lane, r, part);
                                        word | a.row(16 * warp + at.row)[at.column] << (ta.bits() * part % 32)
                                    })
                                })
                            })
                            .collect();
                        let from_registers = Elements::from_registers(ta, &fragment);
                        let mut e = vec![[0xdead_beef; LANES]; wgmma.d_registers()];
                        columns.multiply(&from_registers, 0, false, &mut e);
                        for register in 0..n / 2 {
                            for lane in 0..LANES {
                                let at = wgmma_element(warp, lane, register);
                                let product: f32 =
                                    (0..k).map(|i| a_value(at.row, i + k) * b_value(at.column, i + k)).sum::<f32>()
                                        * if negative { -1.0 } else { 1.0 };
                                let found = |d: &[Lanes]| match accumulator {
                                    Accumulator::F16 => {
                                        f16_to_f32((d[register / 2][lane] >> (16 * (register % 2))) as u16)
                                    }
                                    Accumulator::S32 => d[register][lane] as i32 as f32,
                                    _ => f32::from_bits(d[register][lane]),
                                };
                                assert_eq!(found(&d), product + 3.0, "{wgmma:?} {arithmetic:?} {at:?}");
                                assert_eq!(found(&e), product, "{wgmma:?} {arithmetic:?} {at:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn mn_major_tiles_are_read_transposed() {
        // 16 k rows of 64 elements: element (i, k) holds 64k + i.
        let mut memory = vec![0u8; 16 * 128];
        for k in 0..16u32 {
            for i in 0..64 {
                let at = Swizzle::Bytes128.apply(128 * k + 2 * i) as usize;
                memory[at..at + 2].copy_from_slice(&((64 * k + i) as u16).to_le_bytes());
            }
        }
        let descriptor = Descriptor { address: 0, leading: 2048, stride: 1024, swizzle: Swizzle::Bytes128 };
        let tile = Tile::new(descriptor, Operand::F16, Major::Mn, 64).unwrap();
        let elements = Elements::from_shared(&tile, read(&memory)).unwrap();
        assert_eq!((elements.extent(), elements.k()), (64, 16));
        for i in 0..64 {
            let expected: Vec<u32> = (0..16).map(|k| (64 * k + i) as u32).collect();
            assert_eq!(elements.row(i), expected);
        }
    }

    #[test]
    fn integer_sums_saturate_when_asked() {
        let ones = Elements { operand: Operand::U8, k: 32, bits: vec![255; 64 * 32] };
        let wgmma = Wgmma::new(8, Operand::U8, Operand::U8, Accumulator::S32, true).unwrap();
        let mut d = vec![[i32::MAX as u32 - 5; LANES]; 4];
        wgmma.columns(Arithmetic::Fast, &ones).multiply(&ones, 0, true, &mut d);
        assert_eq!(d, vec![[i32::MAX as u32; LANES]; 4]);
    }

    #[test]
    fn sizes_are_checked() {
        let new = |n, a, c| Wgmma::new(n, a, a, c, false);
        assert!(new(40, Operand::F16, Accumulator::F32).is_ok());
        assert!(new(40, Operand::S8, Accumulator::S32).is_err());
        assert!(new(24, Operand::S8, Accumulator::S32).is_ok());
        assert!(new(264, Operand::F16, Accumulator::F32).is_err());
        let error = new(12, Operand::Bf16, Accumulator::F16).unwrap_err().to_string();
        assert!(error.contains("m64n12 with Bf16 times Bf16 into F16"), "{error}");
    }
}
