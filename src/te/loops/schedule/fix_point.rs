//! Fix-point analysis of scans: along which dimensions a slice of a scan can be computed separately.

use std::sync::Arc;

use crate::te::arith::simplify;
use crate::te::error::TeError;
use crate::te::expr::define::scan::reads_state;
use crate::te::expr::expression::Kind;
use crate::te::expr::tensor::{Operation, Scan, Tensor};

/// Tells along which dimensions a scan can be computed in slices, for each state and each of its dimensions after time.
/// It can if the state at some indices along the dimension, at all times, depends only on itself at the same
/// indices. Along other dimensions a consumer of a slice needs the whole.
///
/// It holds if every path from an update back to the state keeps the index, and none comes from another dimension or
/// state. For element `i`, a read of `state[t - 1, i]` is a path that keeps it; `state[t - 1, i - 1]`,
/// `state[t - 1, 0]` and a sum over `i` are not.
///
/// # Errors
/// [`ExpressionError::NoSuchAxis`](crate::te::ExpressionError::NoSuchAxis) when the tensor is not made by a scan.
pub fn scan_fix_points(tensor: &Tensor) -> Result<Vec<Vec<bool>>, TeError> {
    tensor.scan_axis()?;
    Ok(tensor.operation().as_scan().map(fix_points).unwrap_or_default())
}

/// A dimension of a state: the state's number, and the dimension's.
type Origin = (usize, usize);

pub(crate) fn fix_points(scan: &Scan) -> Vec<Vec<bool>> {
    let mut reached = Reached { known: Vec::new(), failed: Vec::new() };
    for (place, state) in scan.state.iter().enumerate() {
        reached.known.extend((1..state.rank()).map(|d| (state.clone(), d, vec![(place, d)])));
    }
    let mut body = Vec::new();
    scan.update.iter().for_each(|update| in_order(update.operation(), &scan.state, &mut body));
    for operation in &body {
        reached.through(operation);
    }
    // A state that the update of another one reads, or that is read at another dimension, is needed beyond the slice.
    for (place, update) in scan.update.iter().enumerate() {
        for d in 1..update.rank() {
            let others: Vec<Origin> = reached.of(update, d).iter().filter(|o| **o != (place, d)).copied().collect();
            if !others.is_empty() {
                reached.failed.push((place, d));
                reached.failed.extend(others);
            }
        }
    }
    let sliceable = |place: usize, d: usize| !reached.failed.contains(&(place, d));
    let dimensions = |place: usize| (1..scan.state[place].rank()).map(|d| sliceable(place, d)).collect();
    (0..scan.state.len()).map(dimensions).collect()
}

/// The intermediate stages between the state and an update, and the update, producers first.
fn in_order(operation: &Arc<Operation>, state: &[Tensor], order: &mut Vec<Arc<Operation>>) {
    if operation.as_compute().is_none() || order.iter().any(|known| Arc::ptr_eq(known, operation)) {
        return;
    }
    for input in operation.inputs() {
        if !state.contains(&input) && reads_state(&input, state) {
            in_order(input.operation(), state, order);
        }
    }
    order.push(operation.clone());
}

/// For each dimension of a tensor, the dimensions of states that have the same index.
struct Reached {
    known: Vec<(Tensor, usize, Vec<Origin>)>,
    /// Dimensions of states that are also read at other indices.
    failed: Vec<Origin>,
}

impl Reached {
    fn of(&self, tensor: &Tensor, dimension: usize) -> &[Origin] {
        let found = self.known.iter().find(|(known, d, _)| known == tensor && *d == dimension);
        found.map_or(&[], |(_, _, origins)| origins)
    }

    /// Derives what an operation makes from what it reads.
    fn through(&mut self, operation: &Arc<Operation>) {
        let Some(compute) = operation.as_compute() else { return };
        let mut reads: Vec<(Tensor, usize, Option<usize>)> = Vec::new();
        for body in &compute.body {
            body.visit(&mut |x| {
                let Kind::Read(tensor, indices) = x.kind() else { return };
                for (d, index) in indices.iter().enumerate() {
                    let own = |var| compute.axes.iter().position(|axis| axis.var() == var);
                    reads.push((tensor.clone(), d, simplify(index).as_var().and_then(own)));
                }
            });
        }
        for (tensor, d, axis) in reads {
            let origins = self.of(&tensor, d).to_vec();
            match axis {
                None => self.failed.extend(origins),
                Some(axis) => {
                    for value in 0..operation.values() {
                        self.add(&Tensor::new(operation.clone(), value), axis, &origins);
                    }
                }
            }
        }
    }

    /// If one index is that of two dimensions of states, neither dimension can be sliced alone.
    fn add(&mut self, tensor: &Tensor, dimension: usize, origins: &[Origin]) {
        if origins.is_empty() {
            return;
        }
        let place = self.known.iter().position(|(known, d, _)| known == tensor && *d == dimension);
        let place = place.unwrap_or_else(|| {
            self.known.push((tensor.clone(), dimension, Vec::new()));
            self.known.len() - 1
        });
        let all = &mut self.known[place].2;
        all.extend(origins.iter().filter(|origin| !all.contains(origin)).copied().collect::<Vec<_>>());
        if all.len() > 1 {
            self.failed.extend(all.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te;
    use crate::te::{Axis, Expr, Var};

    struct Case {
        x: Tensor,
        state: Tensor,
        sizes: [Var; 3],
    }

    /// The fixed points found for `update[t, i, j]`, with the case's own stages computed between.
    fn found(update: impl FnOnce(&Case) -> Result<Tensor, TeError>) -> Vec<bool> {
        let sizes = ["l", "m", "m"].map(te::var);
        let [l, m, _] = sizes;
        let x = te::placeholder([l, m, m], "x");
        let state = te::placeholder([l, m, m], "state");
        let case = Case { x, state, sizes: [l, m, m] };
        let init = te::compute((1, m, m), "init", |[_, i, j]| case.x.at((0, i, j))).unwrap();
        let update = update(&case).unwrap();
        let scan = te::scan(&init, &update, &case.state, &[]).unwrap();
        scan_fix_points(&scan).unwrap().swap_remove(0)
    }

    fn compute(case: &Case, name: &str, body: impl FnOnce([Axis; 3]) -> Expr) -> Result<Tensor, TeError> {
        te::compute(case.sizes, name, body)
    }

    #[test]
    fn the_same_indices_can_be_sliced() {
        let slices = found(|c| compute(c, "u", |[t, i, j]| c.x.at([t, j, i]) + c.state.at((t - 1, i, j))));
        assert_eq!(slices, [true, true]);
    }

    #[test]
    fn indices_that_change_places_can_not() {
        let slices = found(|c| compute(c, "u", |[t, i, j]| c.x.at([t, j, i]) + c.state.at((t - 1, j, i))));
        assert_eq!(slices, [false, false]);
    }

    #[test]
    fn one_fixed_index_spoils_its_dimension_only() {
        let slices = found(|c| {
            let h1 = compute(c, "h1", |[t, j, i]| c.state.at((t - 1, i, j)))?;
            let h2 = compute(c, "h2", |[t, i, _]| c.state.at((t - 1, i, 10)) * 2.0)?;
            compute(c, "u", |[t, i, j]| h1.at([t, j, i]) + h2.at([t, i, j]))
        });
        assert_eq!(slices, [true, false]);
    }

    #[test]
    fn a_diagonal_ties_two_dimensions() {
        let slices = found(|c| {
            let h1 = compute(c, "h1", |[t, j, _]| c.state.at((t - 1, j, j)))?;
            let h2 = compute(c, "h2", |[t, i, j]| c.state.at((t - 1, i, j)) * 2.0)?;
            compute(c, "u", |[t, i, j]| h1.at([t, j, i]) + h2.at([t, i, j]))
        });
        assert_eq!(slices, [false, false]);
    }

    #[test]
    fn a_sum_needs_all_of_what_it_sums() {
        let slices = found(|c| {
            let k = te::reduce_axis((0, c.sizes[1]), "k");
            let sums = compute(c, "sums", |[t, i, _]| te::sum(c.state.at((t - 1, i, k)), [k]))?;
            compute(c, "u", |[t, i, j]| sums.at([t, i, j]) + c.x.at([t, i, j]))
        });
        assert_eq!(slices, [true, false]);
    }

    #[test]
    fn states_of_one_scan() {
        let (l, m) = (te::var("l"), te::var("m"));
        let x = te::placeholder([l, m], "x");
        let state = ["a", "b"].map(|name| te::placeholder([l, m], name));
        let init = ["init_a", "init_b"].map(|name| te::compute((1, m), name, |[_, i]| x.at((0, i))).unwrap());
        let slices = |other: bool| {
            let first = te::compute([l, m], "ua", |[t, i]| state[0].at((t - 1, i)) + x.at([t, i])).unwrap();
            let source = &state[usize::from(!other)];
            let second = te::compute([l, m], "ub", |[t, i]| source.at((t - 1, i)) + x.at([t, i])).unwrap();
            let scans = te::scan_all(&init, &[first, second], &state, &[]).unwrap();
            scan_fix_points(&scans[0]).unwrap()
        };
        assert_eq!(slices(false), [[true], [true]]);
        // The second state's update reads the first: a slice of one is not a slice of the other.
        assert_eq!(slices(true), [[false], [false]]);
        assert!(scan_fix_points(&x).is_err());
    }
}
