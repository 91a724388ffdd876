//! The products that are timed. D is M×N; A is row-major M×K, the activations, and B column-major K×N, a linear layer's
//! weights as frameworks store them.

use epilogue::ElementType;

/// One product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) element: ElementType,
    /// Whether it belongs to tier 1.
    pub(crate) headline: bool,
}

impl Shape {
    pub(crate) fn name(&self) -> String {
        format!("{}x{}x{}", self.m, self.n, self.k)
    }

    /// Floating-point operations of the product.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// About how long its comparison takes beside compilation.
    pub(crate) fn seconds(&self) -> u64 {
        2 + (self.operations() / 1e12) as u64
    }
}

/// Tier 1: sizes from small to large, a transformer's, small M, long K, odd.
const HEADLINE: [[usize; 3]; 12] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [2048, 2048, 2048],
    [1024, 1024, 1024],
    [4096, 4096, 1024],
    [8192, 28672, 8192],
    [8192, 8192, 28672],
    [16, 8192, 8192],
    [64, 28672, 8192],
    [256, 8192, 8192],
    [1024, 1024, 65536],
    [4095, 4097, 1000],
];

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

pub(crate) fn all() -> Vec<Shape> {
    let shape = |[m, n, k]: [usize; 3], headline| Shape { m, n, k, element: ElementType::BF16, headline };
    let mut shapes: Vec<Shape> = HEADLINE.into_iter().map(|mnk| shape(mnk, true)).collect();
    let layers = LAYERS.into_iter().flat_map(|[n, k]| ROWS.map(|m| [m, n, k]));
    shapes.extend(OTHERS.into_iter().chain(layers).filter(|mnk| !HEADLINE.contains(mnk)).map(|mnk| shape(mnk, false)));
    let f16 = HEADLINE.into_iter().take(5).map(|mnk| Shape { element: ElementType::F16, ..shape(mnk, false) });
    shapes.extend(f16);
    shapes
}

/// Small products that touch the same code.
pub(crate) fn rehearsal() -> Vec<Shape> {
    let shape = |[m, n, k]: [usize; 3]| Shape { m, n, k, element: ElementType::BF16, headline: true };
    [[128, 128, 64], [16, 72, 40]].into_iter().map(shape).collect()
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
        assert_eq!(shapes.iter().filter(|shape| shape.headline).count(), 12);
    }
}
