//! The part of a product that is needed, as far as positions decide it.

use std::ops::Range;

use crate::evt::{Conditions, Rectangle, ValidTree};
use crate::gemm::problem::Problem;

/// Rows and columns of typical tiles; and the most rectangles along an axis, and the most batches, that are looked at.
const TILE: usize = 128;
const MOST: usize = 32;
const BATCHES: usize = 4;

/// The share of tiles whose product is needed. Integers that are in memory are not known yet: what they decide counts as
/// needed.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
pub(crate) fn needed_share(tree: &ValidTree, problem: &Problem) -> f64 {
    let Problem { m, n, batch, .. } = *problem;
    let Some(conditions) = Conditions::of(tree).filter(|_| m > 0 && n > 0 && batch > 0) else { return 1.0 };
    let (mut all, mut needed) = (0usize, 0usize);
    for batch in (0..batch).step_by(batch.div_ceil(BATCHES)) {
        for rows in pieces(m) {
            for columns in pieces(n) {
                let (rows, scalar) = (rows.clone(), |_| None);
                all += 1;
                let rectangle = Rectangle { rows, columns, batch, extents: [m, n], scalar };
                needed += usize::from(rectangle.needs_product(tree, &conditions));
            }
        }
    }
    needed as f64 / all as f64
}

/// An extent in pieces of about a tile, or larger ones.
fn pieces(extent: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let step = TILE.max(extent.div_ceil(MOST));
    (0..extent.div_ceil(step)).map(move |i| i * step..extent.min((i + 1) * step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, Position, TreeBuilder, Types};
    use crate::expr::Op;

    #[test]
    fn a_causal_product_needs_about_half() {
        let mut b = TreeBuilder::new("causal", "a.rs");
        let (accum, below) = (b.accum("accum"), b.literal(f64::NEG_INFINITY));
        let (row, column) = (b.position(Position::Row), b.position(Position::Column));
        let hidden = b.apply(Op::Gt, &[column, row]);
        let d = b.apply(Op::Select, &[hidden, below, accum]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("a valid tree");
        let share = |m, n| needed_share(&tree, &Problem::new(m, n, 64));
        assert_eq!(share(4096, 4096), (32.0 * 33.0 / 2.0) / 1024.0);
        assert_eq!((share(100, 100), share(128, 1280), share(0, 7)), (1.0, 0.1, 1.0));
    }
}
