//! Products of many rows: a part of K is unpacked once for the tile, and multiplied as any B is.

use std::ops::Range;

use half::bf16;

use super::lanes::{INTEGERS, Lanes, OnLanes};
use super::level::{Level, at};
use super::memory::Unpacked;
use super::rows::FloatRows;
use super::view::{Panel, WeightView, pieces};
use crate::ElementType;
use crate::exhaustion::{grow, resize};
use crate::gemm::cpu::element::View;
use crate::gemm::cpu::method::Cpu;
use crate::gemm::cpu::product::{PanelPair, Product, ProductFormat, WordPanels};
use crate::gemm::cpu::tile::Tile;
use crate::gemm::problem::CodeType;
use crate::gemm::problem::weight_values::{PANEL, WORDS, codes_of_word, place_in_word};
use crate::simd::convert::bf16_from_f32;
use crate::simd::{Vectorised, dispatch};

/// Codes along K that are unpacked at a time. Words end with it.
const DEEP: usize = 512;

type Memory<'a> = (&'a mut Unpacked, &'a mut FloatRows, &'a mut WordPanels, &'a mut PanelPair<f32>);

impl Product<'_> {
    /// Multiplies over all of K, by unpacked weights.
    ///
    /// # Safety
    /// The conditions of [`Product::by_weights`].
    pub(super) unsafe fn by_unpacked(
        &self,
        weights: &WeightView,
        level: Level,
        tile: &Tile,
        (Unpacked { floats, halves, sums }, rows, words, panels): Memory<'_>,
        to: &mut [f32],
    ) {
        let (k, width) = (self.extents.k, PANEL * pieces(&tile.columns).count());
        // Weights are rounded to bf16 if such words are multiplied; else all is f32.
        let are_halves =
            self.a.element == ElementType::BF16 && Cpu::this().words(ElementType::BF16, ElementType::BF16).is_some();
        if k == 0 {
            return to.fill(0.0);
        }
        for part in (0..k).step_by(DEEP).map(|first| first..k.min(first + DEEP)) {
            grow(floats, part.len().next_multiple_of(8) * width, 0.0);
            // SAFETY: the caller's promise; there is room for the part.
            unsafe { at(level, Unpack { weights, tile, part: part.clone(), width, to: floats.as_mut_ptr() }) };
            let floats = &floats[..part.len() * width];
            let (pointer, element) = if are_halves {
                grow(halves, floats.len(), bf16::ZERO);
                dispatch(Narrow { from: floats, to: &mut halves[..floats.len()] });
                (halves.as_ptr().cast::<u8>(), ElementType::BF16)
            } else {
                (floats.as_ptr().cast::<u8>(), ElementType::F32)
            };
            let first = (part.start * width + tile.columns.start / PANEL * PANEL) * element.size();
            let (pointer, strides) = (pointer.cast_mut().wrapping_sub(first), [0, width as isize, 1]);
            let b = View { pointer, element, strides, batches: None, digits: None };
            let a = if are_halves || self.a.element == ElementType::F32 {
                self.a
            } else {
                // SAFETY: the caller's promise.
                unsafe { self.load_rows(tile, part.clone(), rows) };
                let stride = rows.stride();
                let first = (tile.rows.start * stride + part.start) * size_of::<f32>();
                let pointer = rows.row(0).as_ptr().cast::<u8>().cast_mut().wrapping_sub(first);
                let strides = [0, stride as isize, 1];
                View { pointer, element: ElementType::F32, strides, batches: None, digits: None }
            };
            let product = Product { a, b, format: ProductFormat::Plain, whole_panels: None, patches: None, ..*self };
            // The memory is that of the part before.
            words.forget();
            // SAFETY: the views have the tile's rows and columns, for this part of K.
            unsafe {
                if part.start == 0 {
                    product.floats(tile, part, words, panels, to);
                } else {
                    resize(sums, to.len(), 0.0);
                    product.floats(tile, part, words, panels, sums);
                    dispatch(Add { sums, to });
                }
            }
        }
        words.forget();
    }
}

/// Unpacks a part of K of a tile's columns, row by row of B.
struct Unpack<'a> {
    weights: &'a WeightView,
    tile: &'a Tile,
    part: Range<usize>,
    /// From one row to the next.
    width: usize,
    to: *mut f32,
}

impl OnLanes for Unpack<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (i, (number, ..)) in pieces(&self.tile.columns).enumerate() {
            let panel = self.weights.panel(self.tile.batch, number);
            // SAFETY: the caller's promise.
            unsafe {
                match self.weights.quantization.codes.bits() {
                    4 => self.panel::<L, 4>(&panel, self.to.add(i * PANEL)),
                    _ => self.panel::<L, 8>(&panel, self.to.add(i * PANEL)),
                }
            }
        }
    }
}

impl Unpack<'_> {
    #[inline(always)]
    unsafe fn panel<L: Lanes, const BITS: usize>(&self, panel: &Panel, to: *mut f32) {
        let Self { weights, part, width, .. } = self;
        let codes = if BITS == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let (of_word, of_group) = (codes_of_word(codes), weights.words_of_group().max(1));
        let scale_size = weights.quantization.scales.size();
        let words = part.start / of_word..part.end.div_ceil(of_word);
        // SAFETY: the caller's promise.
        unsafe {
            let mut zero = L::splat(weights.zero_point() + INTEGERS);
            let mut scale = L::zero();
            for word in words.clone() {
                if word == words.start || word % of_group == 0 {
                    let group = word / of_group;
                    scale = L::scales(weights.quantization.scales, panel.scales.add(group * PANEL * scale_size));
                    if let Some(zero_points) = panel.zero_points {
                        zero = L::add(L::bytes(zero_points.add(group * PANEL)), L::splat(INTEGERS));
                    }
                }
                let given = L::words(panel.codes.add(word * WORDS));
                let to = to.add((word * of_word - part.start) * width);
                for number in 0..of_word {
                    let (byte, bit) = place_in_word(codes, number);
                    let code = L::sub(L::number::<BITS>(given, 8 * byte + bit), zero);
                    L::store(L::mul(scale, code), to.add(number * width));
                }
            }
        }
    }
}

/// Rounds to bf16.
struct Narrow<'a> {
    from: &'a [f32],
    to: &'a mut [bf16],
}

impl Vectorised for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.to.iter_mut().zip(self.from).for_each(|(to, x)| *to = bf16_from_f32(*x));
    }
}

/// `to += sums`.
struct Add<'a> {
    sums: &'a [f32],
    to: &'a mut [f32],
}

impl Vectorised for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.to.iter_mut().zip(self.sums).for_each(|(to, sum)| *to += sum);
    }
}
