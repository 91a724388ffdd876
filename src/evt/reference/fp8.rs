//! The largest error of a tensor core's sums of FP8 products.
//!
//! The model is that of Xie et al., "MMA-Sim" (arXiv 2511.10909), which ptx-vm also has. An instruction takes a group of
//! products and the accumulator, and aligns them to the largest exponent among them. It cuts each toward zero some bits
//! below that exponent, adds the rest exactly, and cuts the sum to some bits of mantissa. A product's exponent is the sum
//! of its operands' exponents. For subnormal operands that is the least exponent of their format, which is larger than
//! the exponent of the product's value.

use crate::ElementType;

/// The way in which `mma.sync` adds FP8 products, on GPUs with an instruction for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fp8Adder {
    /// sm_89, over all of K; its tensor cores keep 14 bits of a sum.
    Ada,
    /// sm_89: each 128 products are summed by themselves, and these sums in f32.
    PromotedAda,
    /// sm_120 and sm_121, whose tensor cores keep the 24 bits of f32.
    Blackwell,
}

impl Fp8Adder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ada, Self::PromotedAda, Self::Blackwell];
}

/// How a GPU adds FP8 products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Adder {
    /// Products that are added at once.
    group: usize,
    /// The last place of a product, and of a sum, relative to the largest exponent.
    cut: f64,
    cut_of_sum: f64,
    /// K may be cut among blocks only at multiples of this many products. A promoted sum leaves the tensor core after
    /// as many.
    stage: usize,
    /// Whether the sums of stages are added in f32 rather than in the tensor core.
    promoted: bool,
}

impl Adder {
    /// `wgmma` of sm_90a.
    pub(super) const HOPPER: Self =
        Self { group: 32, cut: 1.0 / 8192.0, cut_of_sum: 1.0 / 8192.0, stage: 128, promoted: false };
    /// Its promoted sums.
    pub(super) const PROMOTED_HOPPER: Self = Self { promoted: true, ..Self::HOPPER };

    pub(super) const fn of(native: Fp8Adder) -> Self {
        match native {
            Fp8Adder::Ada => Self { group: 16, stage: 64, ..Self::HOPPER },
            Fp8Adder::PromotedAda => Self { group: 16, ..Self::PROMOTED_HOPPER },
            Fp8Adder::Blackwell => {
                let (cut, cut_of_sum) = (1.0 / (1 << 25) as f64, 1.0 / (1 << 23) as f64);
                Self { group: 32, cut, cut_of_sum, stage: 64, promoted: false }
            }
        }
    }
}

/// The bound of one accumulator's error, computed product by product in the order of K.
#[derive(Clone, Debug)]
pub(super) struct Fp8Sum {
    /// The least exponents of normal numbers of A's and B's types.
    least: [i32; 2],
    adder: Adder,
    /// The number of products so far.
    depth: usize,
    /// The exact sum so far, and the one before the open group.
    sum: f64,
    before: f64,
    /// The least and the greatest of the exact sums at which a tensor core may have begun.
    begun: [f64; 2],
    /// For the open group: the number of products that are not 0, and 2 to the largest exponent among them.
    terms: f64,
    greatest: f64,
    /// The error of the tensor core's sum, and of the sums that have left it.
    pending: f64,
    settled: f64,
}

impl Fp8Sum {
    /// The bound for operands of these types; `None` unless both are FP8.
    pub(super) fn of(a: ElementType, b: ElementType, adder: Adder) -> Option<Self> {
        let least = [least_exponent(a)?, least_exponent(b)?];
        Some(Self {
            least,
            adder,
            depth: 0,
            sum: 0.0,
            before: 0.0,
            begun: [0.0; 2],
            terms: 0.0,
            greatest: 0.0,
            pending: 0.0,
            settled: 0.0,
        })
    }

    /// Adds the next product along K.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        if x != 0.0 && y != 0.0 && x.is_finite() && y.is_finite() {
            let exponent = exponent(x).max(self.least[0]) + exponent(y).max(self.least[1]);
            self.greatest = self.greatest.max(f64::from(exponent).exp2());
            self.terms += 1.0;
            self.sum += x * y;
        }
        self.depth += 1;
        if self.depth.is_multiple_of(self.adder.group) {
            self.close_group();
        }
    }

    /// The largest error of all tensor cores' sums together.
    pub(super) fn error(mut self) -> f64 {
        if !self.depth.is_multiple_of(self.adder.group) {
            self.close_group();
        }
        self.settled + self.pending
    }

    /// The largest magnitude of a tensor core's exact sum if the whole sum is `sum`, for any place where it began.
    fn reach(&self, sum: f64) -> f64 {
        (sum - self.begun[0]).max(self.begun[1] - sum)
    }

    fn close_group(&mut self) {
        let accumulator = self.reach(self.before) + self.pending;
        let Adder { cut, cut_of_sum, stage, promoted, .. } = self.adder;
        let cut = (self.terms + 1.0) * cut * self.greatest.max(accumulator);
        self.pending += cut + cut_of_sum * (self.reach(self.sum) + self.pending + cut);
        (self.terms, self.greatest, self.before) = (0.0, 0.0, self.sum);
        if self.depth.is_multiple_of(stage) {
            if promoted {
                self.settled += std::mem::take(&mut self.pending);
                self.begun = [self.sum; 2];
            } else {
                self.begun = [self.begun[0].min(self.sum), self.begun[1].max(self.sum)];
            }
        }
    }
}

/// The exponent of the smallest normal number.
const fn least_exponent(element: ElementType) -> Option<i32> {
    match element {
        ElementType::F8E4M3 => Some(-6),
        ElementType::F8E5M2 => Some(-14),
        _ => None,
    }
}

/// The exponent of a normal f64; every FP8 number is one.
const fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::testing;
    use proptest::prelude::*;
    use ptx_vm::numerics::dot::{Generation, Unit, Vector, multiply_add};
    use ptx_vm::numerics::mma::{Accumulator, Operand};

    use super::super::{Array, Extent, Multiplication, Product, decode};
    use super::*;
    use crate::evt::Types;

    /// The products of an instruction.
    const INSTRUCTION: usize = 32;

    /// A tensor core's product: K is cut among blocks after the stages of `cuts`, whose sums are added from the last to
    /// the first, as in stream-K.
    fn tensor_core(of: Multiplication, operand: Operand, a: &[u8], b: &[u8], cuts: &[usize]) -> f64 {
        let native = |generation| Unit::mma_sync(generation, operand, Accumulator::F32, INSTRUCTION);
        let wgmma = Unit::wgmma(operand, Accumulator::F32, INSTRUCTION);
        let (unit, Adder { stage: length, promoted, .. }) = match of {
            Multiplication::NativeFp8(adder) => {
                let blackwell = adder == Fp8Adder::Blackwell;
                (native(if blackwell { Generation::BlackwellRtx } else { Generation::Ada }), Adder::of(adder))
            }
            Multiplication::FastFp8 => (wgmma, Adder::HOPPER),
            _ => (wgmma, Adder::PROMOTED_HOPPER),
        };
        let mut parts = vec![0f32];
        for (stage, (a, b)) in a.chunks(length).zip(b.chunks(length)).enumerate() {
            let mut sum = if promoted { 0 } else { parts.last().map_or(0, |part| part.to_bits()) };
            if cuts.contains(&stage) {
                parts.push(0.0);
                sum = 0;
            }
            for (a, b) in a.chunks(INSTRUCTION).zip(b.chunks(INSTRUCTION)) {
                let vector = |bytes: &[u8]| {
                    let mut words: Vec<u32> = bytes.iter().map(|byte| (*byte).into()).collect();
                    words.resize(INSTRUCTION, 0); // elements beyond K are read as zeros
                    Vector::new(operand, &words)
                };
                sum = multiply_add(&unit, &vector(a), &vector(b), sum);
            }
            let part = parts.last_mut().expect("there is one");
            *part = if promoted { *part + f32::from_bits(sum) } else { f32::from_bits(sum) };
        }
        f64::from(parts.into_iter().rev().fold(0.0, |sum, part| part + sum))
    }

    /// Bytes that are difficult to sum: all magnitudes, subnormal numbers, few large among many small ones, one sign,
    /// many zeros.
    fn bytes(element: ElementType, kind: u32, raw: &[(u8, u8)]) -> Vec<u8> {
        let (mantissa, top) = if element == ElementType::F8E4M3 { (3, 0x7e) } else { (2, 0x7b) };
        let one = |&(x, y): &(u8, u8)| match kind {
            0 => x & 0x80 | (x & 0x7f).min(top),
            1 => x & ((1 << mantissa) - 1) | x & 0x80,
            2 if y < 8 => top - (x & 3),
            2 => x & 0x8f,
            3 => (x & 0x7f).min(top),
            4 if y < 200 => x & 0x80,
            _ => x & 0x80 | (0x30 + (x & 0xf)),
        };
        raw.iter().map(one).collect()
    }

    const ALL: [Multiplication; 5] = [
        Multiplication::Exact,
        Multiplication::FastFp8,
        Multiplication::NativeFp8(Fp8Adder::Ada),
        Multiplication::NativeFp8(Fp8Adder::PromotedAda),
        Multiplication::NativeFp8(Fp8Adder::Blackwell),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(testing::cases(1500)))]

        #[test]
        fn no_tensor_core_sum_is_off_by_more(
            e4m3: bool,
            which in 0usize..5,
            kinds in (0u32..6, 0u32..6),
            raw in prop::collection::vec(((any::<u8>(), any::<u8>()), (any::<u8>(), any::<u8>())), 1..700),
            cuts in prop::collection::vec(1usize..6, 0..3),
        ) {
            let (element, operand) = if e4m3 {
                (ElementType::F8E4M3, Operand::E4M3)
            } else {
                (ElementType::F8E5M2, Operand::E5M2)
            };
            let (a, b): (Vec<_>, Vec<_>) = raw.into_iter().unzip();
            let (a, b) = (bytes(element, kinds.0, &a), bytes(element, kinds.1, &b));
            let (x, y) = (decode(element, &a), decode(element, &b));
            let k = a.len();
            let extent = Extent { m: 1, n: 1, l: 1 };
            let row = Array { values: &x, offset: 0, strides: [0, 0, 1] };
            let column = Array { values: &y, offset: 0, strides: [0, 1, 0] };
            let multiplication = ALL[which];
            let types = Types::new(element, element);
            let product = Product::new(types, multiplication, extent, k, &row, &column).expect("a product");
            let sum = tensor_core(multiplication, operand, &a, &b, &cuts);
            let error = (sum - product.values[0]).abs();
            prop_assert!(error <= product.errors[0], "{multiplication:?}: off by {error:e}, bound {:e}", product.errors[0]);
        }
    }

    /// The bound is useful: for random numbers it is a few times the actual error of the tensor core's sum, not
    /// thousands of times.
    #[test]
    fn the_bound_is_no_more_than_some_times_the_error() {
        let k = 4096;
        let byte = |i: usize, seed: usize| {
            let hash = ((i * 2_654_435_761 + seed * 40_503) >> 7) & 0xff;
            ((hash & 0x80) | (0x28 + (hash & 0x1f))) as u8
        };
        let (a, b): (Vec<u8>, Vec<u8>) = (0..k).map(|i| (byte(i, 1), byte(i, 77))).unzip();
        let element = ElementType::F8E4M3;
        let (x, y) = (decode(element, &a), decode(element, &b));
        let exact: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
        let scale = f64::sqrt(x.iter().zip(&y).map(|(x, y)| (x * y).powi(2)).sum());
        for (multiplication, adder, most) in [
            (Multiplication::FastFp8, Adder::HOPPER, 16.0),
            (Multiplication::NativeFp8(Fp8Adder::Ada), Adder::of(Fp8Adder::Ada), 48.0),
            (Multiplication::NativeFp8(Fp8Adder::Blackwell), Adder::of(Fp8Adder::Blackwell), 0.05),
        ] {
            let mut bound = Fp8Sum::of(element, element, adder).expect("FP8");
            x.iter().zip(&y).for_each(|(x, y)| bound.add(*x, *y));
            let error = (tensor_core(multiplication, Operand::E4M3, &a, &b, &[]) - exact).abs();
            let bound = bound.error();
            assert!(error <= bound && bound <= most * scale, "{multiplication:?}: {error:e}, {bound:e}, {scale:e}");
        }
    }
}
