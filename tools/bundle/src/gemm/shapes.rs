//! The products that are timed. D is M×N. Unless noted otherwise, A is row-major M×K, the activations, and B is
//! column-major K×N, a linear layer's weights as frameworks store them.

use epilogue::ElementType;
use epilogue::gemm::{Arithmetic, Major};
use epilogue_testing::headline::HEADLINE;

/// One product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) element: ElementType,
    /// Which index of A and of B is contiguous.
    pub(crate) majors: (Major, Major),
    /// Whether it belongs to tier 1.
    pub(crate) headline: bool,
}

impl Shape {
    pub(crate) const fn new([m, n, k]: [usize; 3], element: ElementType, headline: bool) -> Self {
        Self { m, n, k, element, majors: (Major::K, Major::K), headline }
    }

    /// `MxNxK`, and the majors in BLAS's letters if they are not a linear layer's: `nn` if A and B are stored by rows.
    pub(crate) fn name(&self) -> String {
        let Self { m, n, k, .. } = self;
        match self.majors {
            (Major::K, Major::K) => format!("{m}x{n}x{k}"),
            _ => format!("{m}x{n}x{k} {}", self.layout()),
        }
    }

    /// Which operand is transposed if all are stored by rows, A first: a linear layer is `nt`.
    pub(crate) const fn layout(&self) -> &'static str {
        match self.majors {
            (Major::K, Major::K) => "nt",
            (Major::K, Major::Mn) => "nn",
            (Major::Mn, Major::K) => "tt",
            (Major::Mn, Major::Mn) => "tn",
        }
    }

    /// Whether rows along K don't begin at multiples of 16 bytes, which tensor copies need.
    pub(crate) const fn is_unaligned(&self) -> bool {
        !(self.k * self.element.size()).is_multiple_of(16)
    }

    /// f32 is multiplied as TF32.
    pub(crate) const fn arithmetic(&self) -> Arithmetic {
        if matches!(self.element, ElementType::F32) { Arithmetic::Tf32 } else { Arithmetic::Exact }
    }

    /// The type of the result; for 8-bit operands it is wider.
    pub(crate) const fn output(&self) -> ElementType {
        match self.element {
            ElementType::F8E4M3 | ElementType::F8E5M2 => ElementType::BF16,
            ElementType::I8 | ElementType::U8 => ElementType::I32,
            same => same,
        }
    }

    /// Floating-point operations of the product.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// About how long its comparison takes, without compilation. Most of it is the first look at up to 64 algorithms of
    /// each of two products, for nine runs each.
    pub(crate) fn seconds(&self) -> u64 {
        let of_a_run = self.operations() / 5e14;
        3 + (1200.0 * of_a_run) as u64
    }

    /// About how long it takes to time six kernels of ours against each other, without compilation.
    pub(crate) fn race_seconds(&self) -> u64 {
        let of_a_run = self.operations() / 5e14;
        1 + (300.0 * of_a_run) as u64
    }
}

/// N and K of the layers of Llama 3 8B and 70B (query, key and value together; output; gate and up together; down) and
/// of BERT large.
const LAYERS: [[usize; 2]; 12] = [
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
    [10240, 8192],
    [8192, 8192],
    [57344, 8192],
    [8192, 28672],
    [3072, 1024],
    [1024, 1024],
    [4096, 1024],
    [1024, 4096],
];

/// Rows of activations: from decoding to prefill.
const ROWS: [usize; 7] = [1, 16, 64, 256, 1024, 4096, 8192];

const OTHERS: [[usize; 3]; 8] = [
    [512, 512, 512],
    [3072, 3072, 3072],
    [6144, 6144, 6144],
    [16384, 16384, 16384],
    [4096, 4096, 256],
    [1000, 1000, 1000],
    [333, 7777, 555],
    [128, 128, 131_072],
];

/// Leading dimensions that are not multiples of 16 bytes.
const UNALIGNED: [[usize; 3]; 3] = [[8192, 8192, 8191], [4096, 4096, 4095], [64, 8192, 8191]];

/// 8-bit products; the first belongs to tier 1.
const BYTES: [[usize; 3]; 6] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [4096, 4096, 1024],
    [8192, 28672, 8192],
    [1024, 1024, 1024],
    [16, 8192, 8192],
];

/// All products, in the order of their importance.
pub(crate) fn all() -> Vec<Shape> {
    let bf16 = |mnk, headline| Shape::new(mnk, ElementType::BF16, headline);
    let mut shapes: Vec<Shape> = HEADLINE.into_iter().map(|mnk| bf16(mnk, true)).collect();
    shapes.extend(HEADLINE.into_iter().take(5).map(|mnk| Shape::new(mnk, ElementType::F16, false)));
    for (element, first) in [(ElementType::F8E4M3, true), (ElementType::I8, false)] {
        shapes.extend(BYTES.into_iter().enumerate().map(|(i, mnk)| Shape::new(mnk, element, first && i == 0)));
    }
    for majors in [(Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
        shapes.extend(HEADLINE.into_iter().take(2).map(|mnk| Shape { majors, ..bf16(mnk, false) }));
    }
    shapes.extend(HEADLINE.into_iter().take(2).map(|mnk| Shape::new(mnk, ElementType::F32, false)));
    let layers = LAYERS.into_iter().flat_map(|[n, k]| ROWS.map(|m| [m, n, k]));
    let others = OTHERS.into_iter().chain(UNALIGNED).chain(layers).filter(|mnk| !HEADLINE.contains(mnk));
    shapes.extend(others.map(|mnk| bf16(mnk, false)));
    shapes
}

/// Small products that touch the same code.
pub(crate) fn rehearsal() -> Vec<Shape> {
    let shape = |mnk, element| Shape::new(mnk, element, true);
    vec![
        shape([128, 128, 64], ElementType::BF16),
        Shape { majors: (Major::Mn, Major::Mn), ..shape([16, 72, 40], ElementType::BF16) },
        shape([32, 48, 63], ElementType::F16),
        shape([64, 32, 128], ElementType::F8E4M3),
        shape([64, 32, 48], ElementType::I8),
        shape([32, 32, 32], ElementType::F32),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_product_is_there_once() {
        let shapes = all();
        let names: BTreeSet<String> = shapes.iter().map(|s| format!("{} {}", s.element, s.name())).collect();
        assert_eq!(names.len(), shapes.len());
        let headline = |element| shapes.iter().filter(|shape| shape.headline && shape.element == element).count();
        assert_eq!([headline(ElementType::BF16), headline(ElementType::F8E4M3)], [12, 1]);
    }
}
