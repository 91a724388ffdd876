//! Robust least squares: the changes of constants with which errors are small.
//!
//! The steps are Levenberg's and Marquardt's, so that constants which make up for each other change together: a search
//! along one constant after another stops in the narrow valleys between them. Slopes are differences, of wide ones first:
//! the model's maxima have no slope where another limit is the larger one. Errors beyond a limit count by their distance
//! only (Huber, "Robust estimation of a location parameter", 1964). As the errors become smaller, so does the limit: else
//! outliers, which are nearly always times that are too long, would move all predictions by the limit times their number.

/// The cost of a constant's change beside an equal error of one time: one by 30 % costs as much as an error of 1 %.
const CHANGE: f64 = 1.0 / 900.0;
/// An error beyond this is an outlier's at the start.
const OUTLIER: f64 = 0.1;
/// The limit in multiples of the usual error, which is 1.48 times the errors' median for normal errors; 1.5 is Huber's.
const LIMIT: f64 = 1.5 * 1.48;
/// The least limit: what repeated measurements differ by, at best.
const EXACT: f64 = 0.001;
/// The widths of differences, one after another.
const WIDTHS: [f64; 5] = [0.2, 0.05, 0.01, 0.002, 0.01];
/// The most steps with a width.
const STEPS: usize = 12;
/// The longest step of a constant.
const LONGEST: f64 = 0.4;
/// A step must take so much of the cost away, or it is the last one with its width.
const WORTHWHILE: f64 = 1e-3;

/// Between what a change may be, as a logarithm.
pub(super) type Range = (f64, f64);

/// Errors as a function of changes, with the ranges of these.
pub(super) struct Problem<'f> {
    pub(super) errors: &'f dyn Fn(&[f64]) -> Vec<f64>,
    pub(super) ranges: Vec<Range>,
}

/// The median of the errors' sizes.
fn median(errors: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// The minimised cost.
fn cost(errors: &[f64], changes: &[f64], limit: f64) -> f64 {
    let huber = |e: &f64| if e.abs() <= limit { e * e } else { limit * (2.0 * e.abs() - limit) };
    errors.iter().map(huber).sum::<f64>() + CHANGE * changes.iter().map(|x| x * x).sum::<f64>()
}

/// Solves `matrix * x = right` for a positive definite matrix, by Cholesky's factors.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let rest = matrix[i][j] - known;
            matrix[i][j] = if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / matrix[j][j] };
        }
    }
    for i in 0..n {
        let known: f64 = (0..i).map(|k| matrix[i][k] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| matrix[k][i] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    right
}

impl Problem<'_> {
    /// The slopes of all errors for each change, over differences of a width.
    fn slopes(&self, changes: &[f64], width: f64) -> Vec<Vec<f64>> {
        let slope = |i: usize| {
            let at = |x: f64| {
                let mut other = changes.to_vec();
                other[i] = x.clamp(self.ranges[i].0, self.ranges[i].1);
                (other[i], (self.errors)(&other))
            };
            let ((low, below), (high, above)) = (at(changes[i] - width), at(changes[i] + width));
            let apart = (high - low).max(f64::MIN_POSITIVE);
            above.iter().zip(&below).map(|(a, b)| (a - b) / apart).collect()
        };
        (0..changes.len()).map(slope).collect()
    }

    /// A step towards less cost, if there is one.
    fn step(&self, changes: &[f64], errors: &[f64], limit: f64, width: f64) -> Option<(Vec<f64>, Vec<f64>)> {
        let slopes = self.slopes(changes, width);
        let weights: Vec<f64> = errors.iter().map(|e| (limit / e.abs().max(limit)).min(1.0)).collect();
        let product =
            |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).zip(&weights).map(|((x, y), w)| x * y * w).sum() };
        let curve: Vec<Vec<f64>> = slopes.iter().map(|x| slopes.iter().map(|y| product(x, y)).collect()).collect();
        let down: Vec<f64> = slopes.iter().zip(changes).map(|(x, c)| -product(x, errors) - CHANGE * c).collect();
        let before = cost(errors, changes, limit);
        // More damping makes a step shorter, and turns it to where the cost falls most.
        let dampings = (0..12).map(|power| 1e-4 * f64::powi(5.0, power));
        dampings
            .filter_map(|damping| {
                let mut damped = curve.clone();
                for (i, row) in damped.iter_mut().enumerate() {
                    row[i] += CHANGE + damping * (curve[i][i] + CHANGE);
                }
                let step = solve(damped, down.clone());
                let moved = changes.iter().zip(&step).zip(&self.ranges);
                let other: Vec<f64> =
                    moved.map(|((x, s), (low, high))| (x + s.clamp(-LONGEST, LONGEST)).clamp(*low, *high)).collect();
                let errors = (self.errors)(&other);
                (cost(&errors, &other, limit) < before).then_some((other, errors))
            })
            .next()
    }

    /// The changes with which the errors are small; 0 where errors don't depend on one.
    pub(super) fn minimise(&self) -> Vec<f64> {
        let mut changes = vec![0.0; self.ranges.len()];
        let mut errors = (self.errors)(&changes);
        for width in WIDTHS {
            for _ in 0..STEPS {
                let limit = (LIMIT * median(&errors)).clamp(EXACT, OUTLIER);
                let before = cost(&errors, &changes, limit);
                let Some((other, less)) = self.step(&changes, &errors, limit, width) else { break };
                (changes, errors) = (other, less);
                if cost(&errors, &changes, limit) > before * (1.0 - WORTHWHILE) {
                    break;
                }
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let matrix = vec![vec![4.0, 2.0, 1.0], vec![2.0, 5.0, 3.0], vec![1.0, 3.0, 6.0]];
        let x = solve(matrix.clone(), vec![1.0, 2.0, 3.0]);
        for (row, right) in matrix.iter().zip([1.0, 2.0, 3.0]) {
            let left: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
            assert!((left - right).abs() < 1e-12, "{x:?}");
        }
    }

    /// A narrow valley, in which a search along one axis after another stops: the sum is known well, the difference badly.
    /// And every fifth error is far out, always on the same side.
    #[test]
    fn a_narrow_valley_is_followed_in_spite_of_outliers() {
        let errors = |x: &[f64]| -> Vec<f64> {
            let at = |i: usize| {
                let share = (i % 7) as f64 / 7.0 * 0.05;
                let out = if i.is_multiple_of(5) { 0.4 } else { 0.0 };
                (0.5 + share) * (0.3 - x[0]) + (0.5 - share) * (-0.2 - x[1]) + out
            };
            (0..100).map(at).collect()
        };
        let problem = Problem { errors: &errors, ranges: vec![(-1.0, 1.0); 2] };
        let found = problem.minimise();
        assert!((found[0] + found[1] - 0.1).abs() < 0.005, "{found:?}");
        assert!(median(&errors(&found)) < 0.003, "{found:?}");
    }
}
