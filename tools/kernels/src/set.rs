//! The kernels to check: a few that together cover everything, or all.

use std::collections::HashSet;

use epilogue::gemm::Major;

use super::epilogues::bias_gelu_residual;
use super::families::{self, FAMILIES};
use super::gate::Subject;

/// The layouts of A and B.
pub(crate) const LAYOUTS: [(Major, Major); 4] =
    [(Major::K, Major::Mn), (Major::K, Major::K), (Major::Mn, Major::Mn), (Major::Mn, Major::K)];

/// Kernels that together have every instruction, tile, layout, copy width, split and kind of epilogue at least once.
pub(crate) fn covering() -> Vec<Subject> {
    FAMILIES.iter().flat_map(|family| family.covering()).collect()
}

/// Every kernel of every family that can be chosen for an epilogue.
pub(crate) fn all() -> Vec<Subject> {
    let tree = bias_gelu_residual();
    FAMILIES.iter().flat_map(|family| family.all(&tree)).collect()
}

/// Kernels that have three choices together, as no kernel before them has.
pub(crate) fn threes() -> Vec<Subject> {
    let mut set = all();
    scatter(&mut set);
    let mut seen = HashSet::new();
    set.retain(|subject| {
        let choices = families::kernel(&subject.key).choices(subject.arch);
        let mut new = false;
        for (i, one) in choices.iter().enumerate() {
            for (j, two) in choices.iter().enumerate().skip(i + 1) {
                for (k, three) in choices.iter().enumerate().skip(j + 1) {
                    new |= seen.insert(([i, j, k], [one.clone(), two.clone(), three.clone()]));
                }
            }
        }
        new
    });
    set
}

/// Puts kernels in an order in which neighbours have nothing to do with each other: the same one each time.
pub(crate) fn scatter(set: &mut [Subject]) {
    fastrand::Rng::with_seed(0).shuffle(set);
}
