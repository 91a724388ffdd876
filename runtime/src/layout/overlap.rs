//! Whether strided views share bytes.
//!
//! Two views overlap if a pair of indices gives addresses that differ by less than an element: a linear equation in
//! bounded integers. It is solved by depth-first search over the terms, largest stride first. The range and the
//! greatest common divisor of the remaining terms prune the search (the idea of NumPy's `shares_memory`). For strides
//! from slices of a matrix, a few steps are enough.

use smallvec::SmallVec;

use crate::layout::ViewLayout;

/// Steps after which a search gives up and says that the views overlap.
const STEP_LIMIT: usize = 20_000;

/// The memory of a view on its device.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) address: u64,
    /// Size of an element in bytes.
    pub(crate) element: usize,
    pub(crate) layout: &'a ViewLayout,
}

/// Whether the views have a byte in common.
pub(crate) fn between(a: View<'_>, b: View<'_>) -> bool {
    let end = |v: View<'_>| i128::from(v.address) + (v.layout.span() * v.element) as i128;
    if a.layout.len() == 0 || b.layout.len() == 0 {
        return false;
    }
    if end(a) <= i128::from(b.address) || end(b) <= i128::from(a.address) {
        return false;
    }
    // address_a + Σ x_i·s_i - address_b - Σ y_j·t_j must fall in (-size_a, size_b). With y replaced by n-1-y every
    // term becomes positive, and the constant moves to the bounds.
    let reach_b = ((b.layout.span() - 1) * b.element) as i128;
    let shift = i128::from(b.address) - i128::from(a.address) + reach_b;
    let mut terms = Terms::default();
    terms.add_layout(a.layout, a.element);
    terms.add_layout(b.layout, b.element);
    terms.solvable(shift - a.element as i128 + 1, shift + b.element as i128 - 1)
}

/// Whether two different indices of one view reach the same element.
pub(crate) fn within(layout: &ViewLayout) -> bool {
    if layout.len() <= 1 {
        return false;
    }
    let axes: SmallVec<[(i128, i128); 4]> = layout
        .shape
        .iter()
        .zip(&layout.strides)
        .filter(|&(&extent, _)| extent > 1)
        .map(|(&extent, &stride)| (stride as i128, extent as i128))
        .collect();
    // Two indices that differ first in axis k differ there by at least 1, and by anything in the axes after it:
    // s_k·(1 + x_k) + Σ_{j>k} s_j·(d_j) = 0 with |d_j| < n_j. Shift every d_j to start at 0.
    (0..axes.len()).any(|k| {
        let mut terms = Terms::default();
        terms.add(axes[k].0, axes[k].1 - 2);
        let mut target = -axes[k].0;
        for &(stride, extent) in &axes[k + 1..] {
            terms.add(stride, 2 * (extent - 1));
            target += stride * (extent - 1);
        }
        terms.solvable(target, target)
    })
}

/// A sum Σ coefficient·x with 0 ≤ x ≤ bound.
#[derive(Default)]
struct Terms(SmallVec<[(i128, i128); 8]>);

impl Terms {
    fn add_layout(&mut self, layout: &ViewLayout, element: usize) {
        for (&extent, &stride) in layout.shape.iter().zip(&layout.strides) {
            self.add(stride as i128 * element as i128, extent as i128 - 1);
        }
    }

    /// Terms with the same coefficient become one term.
    fn add(&mut self, coefficient: i128, bound: i128) {
        if coefficient == 0 || bound == 0 {
            return;
        }
        match self.0.iter_mut().find(|(c, _)| *c == coefficient) {
            Some((_, b)) => *b += bound,
            None => self.0.push((coefficient, bound)),
        }
    }

    /// Whether the sum can be in `low..=high`; `true` if the search takes too long.
    fn solvable(mut self, low: i128, high: i128) -> bool {
        self.0.sort_unstable_by(|a, b| b.cmp(a));
        // reach[i]: the largest sum of the terms from i on; divisor[i]: their greatest common divisor.
        let mut rest: SmallVec<[(i128, i128); 8]> = SmallVec::from_elem((0, 0), self.0.len() + 1);
        for i in (0..self.0.len()).rev() {
            let (coefficient, bound) = self.0[i];
            rest[i] = (rest[i + 1].0 + coefficient * bound, gcd(rest[i + 1].1, coefficient));
        }
        let mut steps = 0;
        search(&self.0, &rest, low, high, &mut steps)
    }
}

fn search(terms: &[(i128, i128)], rest: &[(i128, i128)], low: i128, high: i128, steps: &mut usize) -> bool {
    *steps += 1;
    if *steps > STEP_LIMIT {
        return true;
    }
    let (reach, divisor) = rest[0];
    let (low, high) = (low.max(0), high.min(reach));
    if low > high {
        return false;
    }
    let Some((&(coefficient, bound), terms)) = terms.split_first() else {
        return true; // low..=high holds 0, the empty sum.
    };
    if low.next_multiple_of_positive(divisor) > high {
        return false;
    }
    let remaining = rest[1].0;
    let first = (low - remaining).max(0).next_multiple_of_positive(coefficient) / coefficient;
    let last = (high / coefficient).min(bound);
    (first..=last).any(|x| search(terms, &rest[1..], low - x * coefficient, high - x * coefficient, steps))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

trait NextMultiple {
    fn next_multiple_of_positive(self, step: i128) -> i128;
}

impl NextMultiple for i128 {
    /// The smallest multiple of `step` that is at least `self`; both are not negative, `step` is positive.
    fn next_multiple_of_positive(self, step: i128) -> i128 {
        (self + step - 1) / step * step
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn addresses(view: View<'_>) -> Vec<u64> {
        let address = |at: usize| view.address + (at * view.element) as u64;
        view.layout.indices().into_iter().map(address).collect()
    }

    fn layouts() -> impl Strategy<Value = ViewLayout> {
        proptest::collection::vec((0usize..4, 0isize..9), 0..4).prop_map(|axes| {
            let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
            ViewLayout::strided(&shape, &strides, 8).unwrap()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(
            a in layouts(), b in layouts(), start in 0u64..40, sizes in (0u32..4, 0u32..4),
        ) {
            let a = View { address: 20, element: 1 << sizes.0, layout: &a };
            let b = View { address: start, element: 1 << sizes.1, layout: &b };
            let expected = addresses(a).iter().any(|&x| {
                addresses(b).iter().any(|&y| x < y + b.element as u64 && y < x + a.element as u64)
            });
            prop_assert_eq!(between(a, b), expected);
            prop_assert_eq!(between(b, a), expected);

            let mut seen = HashMap::new();
            for address in addresses(a) {
                *seen.entry(address).or_insert(0) += 1;
            }
            prop_assert_eq!(within(a.layout), seen.values().any(|&n| n > 1));
        }
    }

    #[test]
    fn large_column_slices_are_told_apart() {
        let m = ViewLayout::packed(&[100_000, 4096], 4).unwrap();
        let view = |range| {
            let layout = m.slice(1, range).unwrap();
            (layout.offset as u64 * 4, layout)
        };
        let (left, right, middle) = (view(0..1000), view(1000..4096), view(999..1001));
        let overlap = |a: &(u64, ViewLayout), b: &(u64, ViewLayout)| {
            between(View { address: a.0, element: 4, layout: &a.1 }, View { address: b.0, element: 4, layout: &b.1 })
        };
        assert!(!overlap(&left, &right));
        assert!(overlap(&left, &middle) && overlap(&middle, &right));
        let transposed = (right.0, right.1.permute(&[1, 0]).unwrap());
        assert!(!overlap(&left, &transposed));
        assert!(!within(&transposed.1));
    }
}
